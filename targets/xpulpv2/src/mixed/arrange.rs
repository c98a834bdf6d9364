//! The order of weights: that in which tiles read them.
//!
//! For each group of four filters, for each row of the kernel, for each unit of its segment: one word a filter. Byte `b` of
//! the word meets byte `b` of the unit's words: as it is for 8 bits; for 4 bits its low half meets the first word and its
//! high half the second; for 2 bits its pairs, from the lowest on, meet the four words. Depthwise kernels have a byte for each
//! weight, whatever its bits.

use trainc_ir::Tensor;

use super::convolution::{Convolution, bits};
use super::layout::{FILTERS, Layout};

/// First filter of a group: the last group overlaps the one before rather than being short.
pub(crate) fn first_filter(filters: usize, group: usize) -> usize {
    (group * FILTERS).min(filters.saturating_sub(FILTERS))
}

/// Groups of filters.
pub(crate) fn groups(filters: usize) -> usize {
    filters.div_ceil(FILTERS)
}

/// Bytes of a group's weights.
pub(crate) fn group_bytes(c: &Convolution, layout: &Layout) -> usize {
    c.kernel[0] * (layout.segment / layout.unit) * FILTERS * 4
}

/// The bytes that the kernel reads instead of a packed tensor `[filters, rows, columns, channels]`.
pub(crate) fn weights(c: &Convolution, layout: &Layout, value: &Tensor) -> Vec<u8> {
    let values = value.to_i64();
    let width = bits(c.w);
    let mask = (1u32 << width) - 1;
    let weight = |filter: usize, row: usize, position: usize| -> u32 {
        let Some([column, channel]) = layout.tap(c, position) else { return 0 };
        if filter >= c.filters {
            return 0;
        }
        let place = (filter * c.kernel[0] + row) * c.kernel[1] + column;
        values[place * c.channels + channel] as u32 & mask
    };
    if c.is_depthwise() {
        return depthwise(c, &values);
    }
    let mut out = Vec::with_capacity(groups(c.filters) * group_bytes(c, layout));
    for group in 0..groups(c.filters) {
        for row in 0..c.kernel[0] {
            for unit in (0..layout.segment).step_by(layout.unit) {
                for filter in
                    first_filter(c.filters, group)..first_filter(c.filters, group) + FILTERS
                {
                    let word = (0..layout.unit).fold(0u32, |word, i| {
                        let (part, byte) = (i / 4, i % 4);
                        let at = 8 * byte + width * part;
                        word | weight(filter, row, unit + i) << at
                    });
                    out.extend(word.to_le_bytes());
                }
            }
        }
    }
    out
}

/// A word a filter for each of the kernel's places: its weight in the filter's byte, zeros in the others.
fn depthwise(c: &Convolution, values: &[i64]) -> Vec<u8> {
    let places = c.kernel[0] * c.kernel[1];
    let mut out = Vec::new();
    for group in 0..groups(c.filters) {
        for place in 0..places {
            for filter in 0..FILTERS {
                let of = first_filter(c.filters, group) + filter;
                let mut word = [0; FILTERS];
                word[filter] = values[of * places + place] as u8;
                out.extend(word);
            }
        }
    }
    out
}
