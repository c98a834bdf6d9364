//! A convolution as a sweep of taps over a grid of outputs; the forward product is one sweep, the
//! gradient of the input one sweep for each phase of the stride, so that neither multiplies the
//! zeros that a stride would put between gradients.

use super::engine::{Nest, Panel};
use super::geometry::ConvGeometry;

/// One kernel position of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tap {
    /// Row of the source, relative to the row of the grid times the step.
    pub(crate) row: isize,
    /// Column likewise.
    pub(crate) column: isize,
    /// Index in the kernel, `row * kernel_width + column`.
    pub(crate) index: usize,
}

/// The taps of a sweep along one axis: every `step`th of the kernel from `first` on.
#[derive(Clone, Copy, Debug)]
struct Line {
    first: usize,
    step: usize,
    count: usize,
    /// Where the first one reads, relative to the place in the grid times the step.
    offset: isize,
    /// From one to the next.
    slope: isize,
}

impl Line {
    fn forward(kernel: usize, dilation: usize, pad: usize) -> Self {
        let (offset, slope) = (-(pad as isize), dilation as isize);
        Self { first: 0, step: 1, count: kernel, offset, slope }
    }

    /// Those that meet an output: tap `t` where `above - t * dilation` is a multiple of the stride.
    fn gradient(kernel: usize, dilation: usize, stride: usize, above: usize) -> Self {
        let place = |tap: usize| above as isize - (tap * dilation) as isize;
        let meets = |&tap: &usize| place(tap).rem_euclid(stride as isize) == 0;
        // They recur after at most `stride` taps.
        let first = (0..kernel.min(stride)).find(meets);
        let step = (1..stride).find(|step| (step * dilation).is_multiple_of(stride));
        let (step, count) = (step.unwrap_or(stride), kernel - first.unwrap_or(kernel));
        let first = first.unwrap_or(0);
        Self {
            first,
            step,
            count: count.div_ceil(step),
            offset: place(first).div_euclid(stride as isize),
            slope: -((step * dilation / stride) as isize),
        }
    }

    /// Every `depth`th of consecutive ones.
    fn every(self, depth: usize) -> Self {
        let slope = self.slope * depth as isize;
        Self { step: depth, count: self.count.div_ceil(depth), slope, ..self }
    }

    /// Lowest offset, and how many places they span.
    fn span(&self) -> (isize, usize) {
        let last = self.offset + (self.count as isize - 1) * self.slope;
        (self.offset.min(last), self.offset.abs_diff(last) + 1)
    }
}

/// The taps of a sweep, ascending by kernel row, then column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taps {
    rows: Line,
    columns: Line,
    kernel_width: usize,
}

impl Taps {
    /// How many.
    pub(crate) const fn len(&self) -> usize {
        self.rows.count * self.columns.count
    }

    /// Whether there is none.
    pub(crate) const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The walk over them in lanes of a plane whose rows are `width` units: rows, then columns.
    pub(crate) const fn nest(&self, width: usize) -> Nest {
        Nest {
            outer: 1,
            outer_step: 0,
            middle: self.rows.count,
            middle_step: self.rows.slope * width as isize,
            inner: self.columns.count,
            inner_step: self.columns.slope,
            panel: Panel::Whole,
        }
    }

    /// Each.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Tap> {
        let Taps { rows, columns, kernel_width } = *self;
        let place = |line: &Line, n: usize| line.offset + n as isize * line.slope;
        (0..self.len()).map(move |n| {
            let (r, c) = (n / columns.count, n % columns.count);
            Tap {
                row: place(&rows, r),
                column: place(&columns, c),
                index: (rows.first + r * rows.step) * kernel_width
                    + columns.first
                    + c * columns.step,
            }
        })
    }
}

/// `out[first + step_out * p] = sum over channels and taps of w . source[step * p + tap]`, for
/// every `p` of a grid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sweep {
    pub(crate) source_height: usize,
    pub(crate) source_width: usize,
    pub(crate) out_height: usize,
    pub(crate) out_width: usize,
    pub(crate) grid_height: usize,
    pub(crate) grid_width: usize,
    pub(crate) step_height: usize,
    pub(crate) step_width: usize,
    pub(crate) out_step_height: usize,
    pub(crate) out_step_width: usize,
    pub(crate) out_first_row: usize,
    pub(crate) out_first_column: usize,
    pub(crate) taps: Taps,
    /// Where a unit holds neighbouring taps of one channel rather than neighbouring channels: the
    /// distance between those taps in columns. Every tap is then the first of its unit.
    pub(crate) tap_units: Option<usize>,
}

impl Sweep {
    /// The forward product: source is the input, grid is the whole output.
    pub(crate) fn forward(g: &ConvGeometry) -> Self {
        let taps = Taps {
            rows: Line::forward(g.kernel_height, g.dilation_height, g.pad_top),
            columns: Line::forward(g.kernel_width, g.dilation_width, g.pad_left),
            kernel_width: g.kernel_width,
        };
        Self {
            source_height: g.in_height,
            source_width: g.in_width,
            out_height: g.out_height,
            out_width: g.out_width,
            grid_height: g.out_height,
            grid_width: g.out_width,
            step_height: g.stride_height,
            step_width: g.stride_width,
            out_step_height: 1,
            out_step_width: 1,
            out_first_row: 0,
            out_first_column: 0,
            taps,
            tap_units: None,
        }
    }

    /// The forward product for units of `depth` steps: with few channels, units of neighbouring
    /// taps leave fewer steps empty than units of neighbouring channels.
    pub(crate) fn forward_by(g: &ConvGeometry, depth: usize) -> Self {
        let mut sweep = Self::forward(g);
        let channels = g.group_in_channels();
        let by_taps = channels * g.kernel_height * g.kernel_width.div_ceil(depth);
        if by_taps < channels.div_ceil(depth) * g.taps() {
            sweep.taps.columns = sweep.taps.columns.every(depth);
            sweep.tap_units = Some(g.dilation_width);
        }
        sweep
    }

    /// The gradient of the input: source is the gradient of the output; one sweep for each
    /// residue of the input position modulo the stride. Input position `i` meets output position
    /// `o` at tap `t` where `o * stride = i + pad - t * dilation`.
    pub(crate) fn input_gradient(g: &ConvGeometry) -> impl Iterator<Item = Self> {
        let [phases_down, phases_right] =
            [g.stride_height.min(g.in_height), g.stride_width.min(g.in_width)];
        let g = *g;
        (0..phases_down * phases_right)
            .map(move |phase| Self::phase(&g, phase / phases_right, phase % phases_right))
    }

    /// The sweep of [`Self::input_gradient`] whose first position is this one.
    fn phase(g: &ConvGeometry, first_row: usize, first_column: usize) -> Self {
        let above = first_row + g.pad_top;
        let left = first_column + g.pad_left;
        Self {
            source_height: g.out_height,
            source_width: g.out_width,
            out_height: g.in_height,
            out_width: g.in_width,
            grid_height: (g.in_height - first_row).div_ceil(g.stride_height),
            grid_width: (g.in_width - first_column).div_ceil(g.stride_width),
            step_height: 1,
            step_width: 1,
            out_step_height: g.stride_height,
            out_step_width: g.stride_width,
            out_first_row: first_row,
            out_first_column: first_column,
            taps: Taps {
                rows: Line::gradient(g.kernel_height, g.dilation_height, g.stride_height, above),
                columns: Line::gradient(g.kernel_width, g.dilation_width, g.stride_width, left),
                kernel_width: g.kernel_width,
            },
            tap_units: None,
        }
    }

    /// Lowest row offset of the taps, and how many rows they span.
    pub(crate) fn row_span(&self) -> (isize, usize) {
        self.span(&self.taps.rows)
    }

    /// Lowest column offset of the taps, and how many columns they span.
    pub(crate) fn column_span(&self) -> (isize, usize) {
        self.span(&self.taps.columns)
    }

    fn span(&self, line: &Line) -> (isize, usize) {
        if self.taps.is_empty() { (0, 0) } else { line.span() }
    }

    /// Whether the grid is the whole output plane in order.
    pub(crate) const fn is_dense(&self) -> bool {
        self.out_step_height == 1 && self.out_step_width == 1
    }
}
