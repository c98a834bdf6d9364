//! Errors of convolutions with strides, by phases: the places of `x` that are a stride apart are those of a convolution
//! without strides, whose taps are as far apart.

use trainc_ir::product::{Convolution, Pass};

use super::layout::Taps;

/// Where the results of a phase lie in a plane of the whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Places {
    /// Elements of a row of the phase.
    pub(crate) columns: usize,
    /// The first one, in a plane of that many elements.
    pub(crate) first: usize,
    pub(crate) plane: usize,
    /// Elements from a row to the next, and in a row.
    pub(crate) down: usize,
    pub(crate) right: usize,
}

/// A convolution without strides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Phase {
    pub(crate) convolution: Convolution,
    pub(crate) taps: Taps,
    pub(crate) places: Places,
}

/// The phases that have taps, and whether that is all; `None` where there is but the whole.
pub(crate) fn phases(c: &Convolution) -> Option<(Vec<Phase>, bool)> {
    if c.pass != Pass::Error || c.strides == [1, 1] || c.dilations != [1, 1] {
        return None;
    }
    let axis = |axis: usize| {
        let (stride, pad, taps) = (c.strides[axis], c.pads[axis], c.taps[axis]);
        let size = [c.height, c.width][axis];
        (0..stride.min(size)).map(move |first| {
            // Tap `tap + stride u` of window `o` is place `first + stride j` where `j + behind = o + u`.
            let (tap, behind) = ((first + pad) % stride, (first + pad) / stride);
            (
                first,
                tap,
                behind,
                taps.saturating_sub(tap).div_ceil(stride),
                (size - first).div_ceil(stride),
            )
        })
    };
    let mut all = Vec::new();
    for (top, tap_down, above, down_taps, height) in axis(0) {
        for (left, tap_right, before, right_taps, width) in axis(1) {
            all.push(Phase {
                convolution: Convolution {
                    height,
                    width,
                    taps: [down_taps, right_taps],
                    strides: [1, 1],
                    pads: [above, before, 0, 0],
                    ..c.clone()
                },
                taps: Taps {
                    channel: c.tap_count(),
                    first: tap_down * c.taps[1] + tap_right,
                    counts: [down_taps, right_taps],
                    strides: [c.strides[0] * c.taps[1], c.strides[1]],
                },
                places: Places {
                    columns: width,
                    first: top * c.width + left,
                    plane: c.plane(),
                    down: c.strides[0] * c.width,
                    right: c.strides[1],
                },
            });
        }
    }
    let count = all.len();
    all.retain(|phase| phase.convolution.tap_count() > 0);
    let whole = all.len() == count;
    (!all.is_empty()).then_some((all, whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Products of a phase and of the whole, of one channel each, by the definition.
    #[test]
    fn phases_are_all_products_of_the_whole() {
        for (size, taps, stride, pad) in
            [(7, 3, 2, 1), (8, 3, 2, 1), (8, 1, 2, 0), (9, 5, 3, 2), (9, 2, 3, 0), (6, 4, 2, 3)]
        {
            let rows = (size + 2 * pad - taps) / stride + 1;
            let c = Convolution {
                pass: Pass::Error,
                swapped: false,
                images: 1,
                groups: 1,
                channels: 1,
                outputs: 1,
                height: 1,
                width: size,
                rows: 1,
                columns: rows,
                taps: [1, taps],
                strides: [1, stride],
                dilations: [1, 1],
                pads: [0, pad, 0, pad],
                padding: 0,
            };
            let mut expected = Vec::new();
            for window in 0..rows {
                for tap in 0..taps {
                    let place = (window * stride + tap).wrapping_sub(pad);
                    if place < size {
                        expected.push((place, window, tap));
                    }
                }
            }
            let mut found = Vec::new();
            for phase in phases(&c).unwrap().0 {
                let p = &phase.convolution;
                for j in 0..p.width {
                    for u in 0..p.taps[1] {
                        let window = (j + p.pads[1]).wrapping_sub(u);
                        if window < rows {
                            let place = phase.places.first + j * phase.places.right;
                            let tap = phase.taps.first + u * phase.taps.strides[1];
                            found.push((place, window, tap));
                        }
                    }
                }
            }
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected, "{size} {taps} {stride} {pad}");
        }
    }
}
