//! Where the bytes lie that a tile reads.

use super::arrange::{group_bytes, groups};
use super::convolution::{Convolution, bits};
use crate::target::XPULPV2;

/// Columns of the largest tile.
pub(crate) const COLUMNS: usize = 4;
/// Filters of a tile.
pub(crate) const FILTERS: usize = 4;
/// Working memory that lines may take before strips shrink, in bytes.
const STRIP_BYTES: usize = 16 * 1024;
/// The same where operands are brought to the cluster's memory piece by piece.
const TILED_STRIP_BYTES: usize = 10 * 1024;
/// Bytes of the weights that are there at once, in this case.
const CHUNK_BYTES: usize = 24 * 1024;
/// Cores that work is divided for.
pub(super) const CORES: usize = XPULPV2.cluster().cores;
/// Largest offset of a load or store.
const FAR: usize = 2047;

/// How lines come to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// The operand itself: bytes without padding.
    InPlace,
    /// Words are copied.
    Copied,
    /// Words of narrow elements become several; see [`Layout::channel`] for the order.
    Unpacked,
    /// Words of narrow elements become several, in their order.
    Ordered,
    /// Element by element; channels are filled up to words.
    Padded,
    /// Element by element; each column's part of a window for itself.
    Spread,
}

/// Lines of bytes, and how tiles lie in them. A tile's window is a segment of each of the kernel's rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub(crate) source: Source,
    pub(crate) batch: usize,
    /// Rows and columns of the operand, where 1x1 kernels make one row of all.
    pub(crate) input: [usize; 2],
    /// The same of the result.
    pub(crate) output: [usize; 2],
    /// Columns of a tile.
    pub(crate) columns: usize,
    /// Bytes of a channel group: those of a column of the operand.
    pub(crate) column_bytes: usize,
    /// Bytes of a window in a line, a multiple of `unit`.
    pub(crate) segment: usize,
    /// Bytes from a window to the next.
    pub(crate) step: usize,
    /// Bytes of the operand that a word of weights meets.
    pub(crate) unit: usize,
    /// Bytes from a word of a column to the next that its window holds.
    pub(crate) x_step: usize,
    /// Bytes from a line to the next.
    pub(crate) line: usize,
    /// Rows of the result that are worked on at once.
    pub(crate) strip: usize,
    /// Elements of a word where they are unpacked in groups, else 1.
    group: usize,
    /// Working memory.
    bytes: usize,
    /// How operands come to the cluster's memory, if it cannot hold all.
    pub(crate) tiling: Option<Tiling>,
}

/// Pieces of operands in the working memory: two of each, one in use and the next on its way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tiling {
    /// Bytes of a row of the operand.
    pub(crate) row: usize,
    /// Bytes for a strip's rows.
    pub(crate) rows: usize,
    /// Groups of filters of a piece of the weights.
    pub(crate) groups: usize,
    /// Pieces of the weights.
    pub(crate) chunks: usize,
    /// Offsets of the pieces in the working memory: rows, weights.
    pub(crate) places: [[usize; 2]; 2],
}

impl Layout {
    /// The layout; `None` where tiles do not suit.
    pub(crate) fn new(c: &Convolution) -> Option<Layout> {
        let layout = Layout::with(c, false)?;
        let weights = groups(c.filters) * group_bytes(c, &layout);
        let [x, y] = [(c.input, c.channels, c.x), (c.output, c.filters, c.y)].map(
            |([h, w], channels, element)| (c.batch * h * w * channels * bits(element)).div_ceil(8),
        );
        if x + weights + y + layout.bytes <= XPULPV2.cluster().l1_bytes {
            return Some(layout);
        }
        Some(Layout::tiled(c).unwrap_or(layout))
    }

    /// The layout with pieces; `None` if even these are too large.
    fn tiled(c: &Convolution) -> Option<Layout> {
        let mut layout = Layout::with(c, true)?;
        let row_bits = layout.input[1] * c.channels * bits(c.x);
        if !row_bits.is_multiple_of(8) {
            return None;
        }
        let row = row_bits / 8;
        let count = layout.lines(c, layout.strip).min(layout.input[0]);
        let rows = (count * row).next_multiple_of(16);
        let (group, all) = (group_bytes(c, &layout), groups(c.filters));
        let (groups, copies) = if all * group <= CHUNK_BYTES {
            (all, 1)
        } else {
            ((CHUNK_BYTES / 2 / group).max(1), 2)
        };
        let mut end = layout.bytes.next_multiple_of(16);
        let mut place = |bytes: usize| {
            end += bytes;
            end - bytes
        };
        let of_rows = [place(rows), place(rows)];
        let first = place(groups * group);
        let of_weights = [first, if copies == 2 { place(groups * group) } else { first }];
        let chunks = all.div_ceil(groups);
        layout.tiling = Some(Tiling { row, rows, groups, chunks, places: [of_rows, of_weights] });
        layout.bytes = end;
        (end <= XPULPV2.cluster().l1_bytes).then_some(layout)
    }

    fn with(c: &Convolution, tiled: bool) -> Option<Layout> {
        let depthwise = c.is_depthwise();
        if c.groups != 1 && !depthwise {
            return None;
        }
        let [kernel_rows, kernel_columns] = c.kernel;
        // A word of a depthwise kernel's operand holds four channels, and each meets a weight of its own.
        let unit = if depthwise { 4 } else { 32 / bits(c.w) };
        let x_bits = bits(c.x);
        let words = (c.channels * x_bits).is_multiple_of(32);
        let padded = c.channels.next_multiple_of(4);
        let exact = kernel_columns * c.channels;
        let in_place =
            words && x_bits == 8 && c.pads == [0; 4] && (depthwise || exact.is_multiple_of(unit));
        // One row of all columns, where it needs no memory or little.
        let all = c.batch * c.input[0] * c.input[1];
        let alike = c.kernel == [1, 1] && c.strides == [1, 1] && c.pads == [0; 4];
        let most = if tiled { TILED_STRIP_BYTES } else { STRIP_BYTES };
        let whole = in_place && !tiled;
        let (batch, input, output) = if alike && (whole || all * padded <= most) {
            (1, [1, all], [1, all])
        } else {
            (c.batch, c.input, c.output)
        };
        // A word for a channel or two is a waste.
        let wasteful = kernel_columns * padded > exact.next_multiple_of(unit) * 5 / 4;
        let spread = c.dilations[1] != 1 && kernel_columns > 1 || wasteful;
        let ordered = c.channels == padded && (input[1] * c.channels * x_bits).is_multiple_of(32);
        let source = if spread && !depthwise {
            Source::Spread
        } else if depthwise && x_bits < 8 && ordered {
            Source::Ordered
        } else if !words || x_bits < 8 && depthwise {
            Source::Padded
        } else if x_bits < 8 {
            Source::Unpacked
        } else if in_place {
            Source::InPlace
        } else {
            Source::Copied
        };
        let spread = source == Source::Spread;
        let column_bytes = if spread { c.channels } else { padded };
        let segment = match depthwise {
            true => kernel_columns * unit,
            false => (kernel_columns * column_bytes).next_multiple_of(unit),
        };
        let x_step = if depthwise { c.dilations[1] * column_bytes } else { 4 };
        if x_step > FAR {
            return None;
        }
        let step = if spread { segment } else { c.strides[1] * column_bytes };
        let line = match source {
            Source::InPlace => input[1] * column_bytes,
            Source::Spread => output[1] * segment,
            _ => {
                // The last window's end may be past the line's.
                let slack = segment.saturating_sub(kernel_columns * column_bytes);
                (input[1] + c.pads[1] + c.pads[3]) * column_bytes + slack.next_multiple_of(4)
            }
        };
        // Columns are reached from the second one.
        let columns = match output[1] {
            COLUMNS.. if 2 * step <= FAR => COLUMNS,
            2.. if step <= FAR => 2,
            _ => 1,
        };
        let mut layout = Layout {
            source,
            batch,
            input,
            output,
            columns,
            column_bytes,
            segment,
            step,
            unit,
            x_step,
            line,
            strip: output[0],
            group: if source == Source::Unpacked { 32 / x_bits } else { 1 },
            bytes: 0,
            tiling: None,
        };
        if !whole {
            let fits = |rows: &usize| layout.lines(c, *rows) * layout.line <= most;
            let most = (1..=output[0]).rev().find(fits).unwrap_or(1);
            // Whole rows for each core where there is a choice.
            let shared = most - most % CORES;
            layout.strip = match most {
                most if most == output[0] || shared == 0 => most,
                _ => shared,
            };
        }
        if source != Source::InPlace {
            layout.bytes = layout.lines(c, layout.strip) * layout.line;
        }
        // Some of the numbers are immediate ones.
        let most = kernel_rows.max(segment / unit).max(layout.lines(c, layout.strip));
        (layout.bytes < 1 << 28 && most < 1 << 20).then_some(layout)
    }

    /// Lines of the operand that so many rows of the result need.
    pub(crate) fn lines(&self, c: &Convolution, rows: usize) -> usize {
        (rows - 1) * c.strides[0] + (c.kernel[0] - 1) * c.dilations[0] + 1
    }

    /// Working memory in bytes.
    pub(crate) fn scratch_bytes(&self) -> usize {
        self.bytes
    }

    /// Tiles of a row.
    pub(crate) fn tiles(&self) -> usize {
        self.output[1].div_ceil(self.columns)
    }

    /// Where in a channel group byte `position` stems from.
    pub(crate) fn channel(&self, position: usize) -> usize {
        let (first, within) = (position - position % self.group, position % self.group);
        match self.group {
            1 => position,
            // Byte b of the word's part p is element b * parts + p.
            group => first + within % 4 * (group / 4) + within / 4,
        }
    }

    /// The kernel's column and channel that byte `position` of a segment holds, if any.
    pub(crate) fn tap(&self, c: &Convolution, position: usize) -> Option<[usize; 2]> {
        let column = position / self.column_bytes;
        let channel = self.channel(position % self.column_bytes);
        (column < c.kernel[1] && channel < c.channels).then_some([column, channel])
    }
}
