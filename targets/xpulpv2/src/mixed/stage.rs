//! Output stages: as part of a tile where they suit, else in C on the tile's sums.

use trainc_ir::Element;

use super::convolution::{Convolution, Stage, bits};
use super::layout::FILTERS;
use super::text::Text;

/// What a tile stores.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum TileStage {
    /// Sums: four words a column.
    Sums,
    /// A byte each.
    ScaleShift { shift: u32, clamp: Clamp, words: bool },
    /// Fields of `bits` each, first counted from the top, then exclusive-or `flip_bits` of the whole column's.
    Threshold { bits: usize, flips: bool, pattern: u32, halves: bool },
}

/// How a result is bounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Clamp {
    /// `p.clip` with this number.
    Signed(i32),
    /// `p.clipu` with this number.
    Unsigned(i32),
    /// Minimum and maximum.
    Between(i32, i32),
}

impl Clamp {
    pub(crate) fn new(low: i32, high: i32) -> Clamp {
        let power = (0..31).find(|&n| high == (1i32 << n) - 1);
        match power {
            Some(n) if low == 0 && n < 31 => Clamp::Unsigned(n + 1),
            Some(n) if low == -high - 1 => Clamp::Signed(n + 1),
            _ => Clamp::Between(low, high),
        }
    }
}

impl TileStage {
    /// The stage as part of the tile; `None` if C has to do it on the sums.
    pub(crate) fn new(c: &Convolution) -> Option<TileStage> {
        if c.filters < FILTERS {
            return None;
        }
        let width = bits(c.y);
        match &c.stage {
            Stage::Sums => Some(TileStage::Sums),
            Stage::ScaleShift(s) if width == 8 => Some(TileStage::ScaleShift {
                shift: s.shift,
                clamp: Clamp::new(s.low, s.high),
                words: c.filters.is_multiple_of(FILTERS),
            }),
            Stage::Threshold { threshold, levels, flips } => {
                // Results of a column fill whole bytes, and all values of the element occur.
                let whole = (c.filters * width).is_multiple_of(8);
                let low = threshold.low as u32 & ((1 << width) - 1);
                let offset = low == 0 || low == 1 << (width - 1);
                let suits = width < 8 && *levels == (1 << width) - 1 && whole && offset;
                // Counted from the top, then exclusive-or: 15 - n is n ^ 15, and n - 8 is n ^ 8.
                let field = ((1u32 << width) - 1) ^ low;
                let pattern = (0..FILTERS).fold(0, |all, i| all | field << (i * width));
                suits.then_some(TileStage::Threshold {
                    bits: width,
                    flips: *flips,
                    pattern,
                    halves: c.filters.is_multiple_of(FILTERS),
                })
            }
            Stage::ScaleShift(_) => None,
        }
    }

    /// Names of the tile's parameters for the stage's operands.
    pub(crate) fn operands(&self) -> &'static [&'static str] {
        match self {
            TileStage::Sums => &[],
            TileStage::ScaleShift { .. } => &["scale", "offset"],
            TileStage::Threshold { flips: false, .. } => &["thresholds"],
            TileStage::Threshold { flips: true, .. } => &["thresholds", "flip"],
        }
    }

    /// Bytes of a filter's part of each operand.
    pub(crate) fn operand_bytes(&self) -> Vec<usize> {
        match self {
            TileStage::Sums => vec![],
            TileStage::ScaleShift { .. } => vec![4, 4],
            TileStage::Threshold { bits, flips, .. } => {
                let row = 4 * ((1 << bits) - 1);
                if *flips { vec![row, 4] } else { vec![row] }
            }
        }
    }
}

/// Whether results of different columns share a byte.
pub(crate) fn shares_bytes(c: &Convolution) -> bool {
    !(c.filters * bits(c.y)).is_multiple_of(8)
}

/// C that makes a result `value` of a sum: `acc` is the sum's expression, `channel` the variable of its channel.
pub(crate) fn value(c: &Convolution, acc: &str, operands: &[&str], out: &mut Text) {
    match &c.stage {
        Stage::Sums => out.line(format!("const int32_t value = {acc};")),
        Stage::ScaleShift(s) => {
            let [scale, offset] = operands else { return };
            let (shift, low, high) = (s.shift, s.low, s.high);
            out.line(format!(
                "const int32_t value = trainc_mixed_scale_shift({acc}, {scale}[channel], {offset}[channel], {shift}, {low}, {high});"
            ));
        }
        Stage::Threshold { threshold, levels, flips } => {
            let sum = match (flips, operands) {
                (true, [_, flip]) => format!("{acc} ^ {flip}[channel]"),
                _ => acc.into(),
            };
            let (low, rows) = (threshold.low, operands[0]);
            let low =
                if low < 0 { format!("- {}", low.unsigned_abs()) } else { format!("+ {low}") };
            out.line(format!(
                "const int32_t value = trainc_mixed_threshold({sum}, {rows} + channel * {levels}, {levels}) {low};"
            ));
        }
    }
}

/// C that stores `value` as element `index` of `place`.
pub(crate) fn store(c: &Convolution, place: &str, index: &str, out: &mut Text) {
    match c.y {
        Element::I32 => out.line(format!("((int32_t *)(void *){place})[{index}] = value;")),
        y => {
            let bits = bits(y);
            out.line(format!("trainc_mixed_put({place}, {index}, {bits}, value);"));
        }
    }
}
