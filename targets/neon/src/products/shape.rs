//! How the windows of a convolution meet its operand's plane.

use trainc_ir::product::Convolution;

/// Windows over a plane, each pair vertical and horizontal. Window `r` meets the plane for tap `i` at
/// `start + r step + i tap_step`, if that is within.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Windows {
    pub(crate) size: [usize; 2],
    pub(crate) plane: [usize; 2],
    pub(crate) start: [i64; 2],
    pub(crate) step: [i64; 2],
    pub(crate) taps: [usize; 2],
    pub(crate) tap_step: [i64; 2],
}

impl Windows {
    /// How windows of `y` meet the plane of `x`.
    pub(crate) fn of(c: &Convolution) -> Windows {
        let signed = |n: usize| n as i64;
        Windows {
            size: [c.rows, c.columns],
            plane: [c.height, c.width],
            start: [-signed(c.pads[0]), -signed(c.pads[1])],
            step: c.strides.map(signed),
            taps: c.taps,
            tap_step: c.dilations.map(signed),
        }
    }

    /// Where window `at` of an axis meets the plane for a tap.
    pub(crate) fn meets(&self, axis: usize, at: usize, tap: usize) -> Option<usize> {
        let place =
            self.start[axis] + at as i64 * self.step[axis] + tap as i64 * self.tap_step[axis];
        usize::try_from(place).ok().filter(|&place| place < self.plane[axis])
    }

    /// First and behind the last tap of an axis that meets the plane from any of some windows.
    pub(crate) fn meeting(&self, axis: usize, windows: &[usize]) -> (usize, usize) {
        let any = |tap: &usize| windows.iter().any(|&at| self.meets(axis, at, *tap).is_some());
        let first = (0..self.taps[axis]).find(any).unwrap_or(self.taps[axis]);
        let end = (0..self.taps[axis]).rev().find(any).map_or(0, |tap| tap + 1);
        (first, end)
    }
}
