//! A convolution as a sweep of taps over a grid of outputs; the forward product is one sweep, the
//! gradient of the input one sweep for each phase of the stride, so that neither multiplies the
//! zeros that a stride would put between gradients.

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

/// `out[first + step_out * p] = sum over channels and taps of w . source[step * p + tap]`, for
/// every `p` of a grid.
#[derive(Clone, Debug)]
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
    /// Ascending by kernel row, then column.
    pub(crate) taps: Vec<Tap>,
    /// Where a unit holds neighbouring taps of one channel rather than neighbouring channels: the
    /// distance between those taps in columns. Every tap is then the first of its unit.
    pub(crate) tap_units: Option<usize>,
}

impl Sweep {
    /// The forward product: source is the input, grid is the whole output.
    pub(crate) fn forward(g: &ConvGeometry) -> Self {
        let mut taps = Vec::with_capacity(g.taps());
        for row in 0..g.kernel_height {
            for column in 0..g.kernel_width {
                taps.push(Tap {
                    row: (row * g.dilation_height) as isize - g.pad_top as isize,
                    column: (column * g.dilation_width) as isize - g.pad_left as isize,
                    index: row * g.kernel_width + column,
                });
            }
        }
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
            sweep.taps.retain(|tap| (tap.index % g.kernel_width).is_multiple_of(depth));
            sweep.tap_units = Some(g.dilation_width);
        }
        sweep
    }

    /// The gradient of the input: source is the gradient of the output; one sweep for each
    /// residue of the input position modulo the stride. Input position `i` meets output position
    /// `o` at tap `t` where `o * stride = i + pad - t * dilation`.
    pub(crate) fn input_gradient(g: &ConvGeometry) -> Vec<Self> {
        let mut sweeps = Vec::new();
        for first_row in 0..g.stride_height.min(g.in_height) {
            for first_column in 0..g.stride_width.min(g.in_width) {
                let mut taps = Vec::with_capacity(g.taps());
                for row in 0..g.kernel_height {
                    let above =
                        (first_row + g.pad_top) as isize - (row * g.dilation_height) as isize;
                    if above.rem_euclid(g.stride_height as isize) != 0 {
                        continue;
                    }
                    for column in 0..g.kernel_width {
                        let left = (first_column + g.pad_left) as isize
                            - (column * g.dilation_width) as isize;
                        if left.rem_euclid(g.stride_width as isize) != 0 {
                            continue;
                        }
                        taps.push(Tap {
                            row: above.div_euclid(g.stride_height as isize),
                            column: left.div_euclid(g.stride_width as isize),
                            index: row * g.kernel_width + column,
                        });
                    }
                }
                sweeps.push(Self {
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
                    taps,
                    tap_units: None,
                });
            }
        }
        sweeps
    }

    /// Lowest row offset of the taps, and how many rows they span.
    pub(crate) fn row_span(&self) -> (isize, usize) {
        span(self.taps.iter().map(|tap| tap.row))
    }

    /// Lowest column offset of the taps, and how many columns they span.
    pub(crate) fn column_span(&self) -> (isize, usize) {
        span(self.taps.iter().map(|tap| tap.column))
    }

    /// Whether the grid is the whole output plane in order.
    pub(crate) const fn is_dense(&self) -> bool {
        self.out_step_height == 1 && self.out_step_width == 1
    }
}

fn span(offsets: impl Iterator<Item = isize>) -> (isize, usize) {
    let mut bounds: Option<(isize, isize)> = None;
    for offset in offsets {
        bounds = Some(
            bounds.map_or((offset, offset), |(low, high)| (low.min(offset), high.max(offset))),
        );
    }
    bounds.map_or((0, 0), |(low, high)| (low, (high - low) as usize + 1))
}
