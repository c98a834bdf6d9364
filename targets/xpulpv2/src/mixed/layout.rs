//! Where the bytes lie that a tile reads.

use super::convolution::{Convolution, bits};

/// Columns of the largest tile.
pub(crate) const COLUMNS: usize = 4;
/// Filters of a tile.
pub(crate) const FILTERS: usize = 4;
/// Working memory that lines may take before strips shrink, in bytes.
const STRIP_BYTES: usize = 16 * 1024;
/// Cores that the rows of a strip are for.
const CORES: usize = 8;
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
    /// Working memory for a strip's lines.
    bytes: usize,
}

impl Layout {
    /// The layout; `None` where tiles do not suit.
    pub(crate) fn new(c: &Convolution) -> Option<Layout> {
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
        let (batch, input, output) = if alike && (in_place || all * padded <= STRIP_BYTES) {
            (1, [1, all], [1, all])
        } else {
            (c.batch, c.input, c.output)
        };
        // A word for a channel or two is a waste.
        let wasteful = kernel_columns * padded > exact.next_multiple_of(unit) * 5 / 4;
        let spread = c.dilations[1] != 1 && kernel_columns > 1 || wasteful;
        let source = if spread && !depthwise {
            Source::Spread
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
        };
        if source != Source::InPlace {
            let fits = |rows: &usize| layout.lines(c, *rows) * layout.line <= STRIP_BYTES;
            let most = (1..=output[0]).rev().find(fits).unwrap_or(1);
            // Whole rows for each core where there is a choice.
            let shared = most - most % CORES;
            layout.strip = match most {
                most if most == output[0] || shared == 0 => most,
                _ => shared,
            };
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
