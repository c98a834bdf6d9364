//! Places of a result by how windows of them meet the operand's plane: one phase of a forward product, of an error one for each
//! remainder by the strides.

use trainc_ir::product::{Convolution, Pass};

use super::shape::Windows;

/// Places of the result that meet the plane in the same way.
#[derive(Debug)]
pub(super) struct Phase {
    pub(super) windows: Windows,
    /// Offset of the first place in a plane of the result.
    pub(super) first: usize,
    pub(super) row_stride: usize,
    pub(super) column_stride: usize,
    /// Number of the first tap, and distances between taps.
    pub(super) first_tap: usize,
    pub(super) tap_row: usize,
    pub(super) tap_column: usize,
}

/// The phases of a forward product or an error.
pub(super) fn phases(c: &Convolution) -> Vec<Phase> {
    if c.pass == Pass::Error { error_phases(c) } else { vec![forward_phase(c)] }
}

/// All places of a forward product.
fn forward_phase(c: &Convolution) -> Phase {
    Phase {
        windows: Windows::of(c),
        first: 0,
        row_stride: c.columns,
        column_stride: 1,
        first_tap: 0,
        tap_row: c.taps[1],
        tap_column: 1,
    }
}

/// Places of the operand by what remains of them by the strides: for each, the taps that can meet a window, and where.
/// Place `h` meets window `(h + pad - k dilation) / stride` by tap `k` if that is integral.
fn error_phases(c: &Convolution) -> Vec<Phase> {
    /// An axis of a phase: places, start, distance of places, taps, first tap, distance of taps, step of a tap.
    struct Axis {
        size: usize,
        start: i64,
        taps: usize,
        first_tap: usize,
        tap_stride: usize,
        tap_step: i64,
    }
    let axis = |axis: usize, residue: usize| {
        let stride = c.strides[axis];
        let length = [c.height, c.width][axis];
        let size = length.saturating_sub(residue).div_ceil(stride);
        let remains = |tap: usize| {
            let place = (residue + c.pads[axis]) as i64 - (tap * c.dilations[axis]) as i64;
            (place.rem_euclid(stride as i64) == 0).then(|| place.div_euclid(stride as i64))
        };
        let taps: Vec<(usize, i64)> =
            (0..c.taps[axis]).filter_map(|tap| Some((tap, remains(tap)?))).collect();
        let (tap_stride, tap_step) = match taps[..] {
            [(first, a), (second, b), ..] => (second - first, b - a),
            _ => (1, -1),
        };
        let (first_tap, start) = taps.first().copied().unwrap_or((0, 0));
        Axis { size, start, taps: taps.len(), first_tap, tap_stride, tap_step }
    };
    let [vertical, horizontal] =
        [0, 1].map(|a| (0..c.strides[a]).map(|r| (r, axis(a, r))).collect::<Vec<_>>());
    let mut phases = Vec::new();
    for (top, v) in &vertical {
        for (left, h) in &horizontal {
            phases.push(Phase {
                windows: Windows {
                    size: [v.size, h.size],
                    plane: [c.rows, c.columns],
                    start: [v.start, h.start],
                    step: [1, 1],
                    taps: [v.taps, h.taps],
                    tap_step: [v.tap_step, h.tap_step],
                },
                first: top * c.width + left,
                row_stride: c.strides[0] * c.width,
                column_stride: c.strides[1],
                first_tap: v.first_tap * c.taps[1] + h.first_tap,
                tap_row: v.tap_stride * c.taps[1],
                tap_column: h.tap_stride,
            });
        }
    }
    phases
}
