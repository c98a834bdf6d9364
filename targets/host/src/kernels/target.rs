//! Where the tiles of a sweep go: rows are channels of the output, lanes runs of its positions.

use core::mem::MaybeUninit;

use super::engine::{Engine, Largest, Nest, Run};

/// Most sums of a tile, over all engines.
const TILE_SUMS: usize = 512;

/// Where the lanes of a tile go: `source` of a run is its place in the first row of the output.
#[derive(Clone, Copy)]
pub(crate) struct Store<'a> {
    pub(crate) runs: &'a [Run],
    /// Lanes.
    pub(crate) count: usize,
}

/// Where the lanes of a tile come from.
#[derive(Clone, Copy)]
pub(crate) struct Lanes<'a> {
    pub(crate) units: &'a [u32],
    /// Where the walk begins.
    pub(crate) first: usize,
    pub(crate) nest: &'a Nest,
}

/// Where the rows of a tile go.
pub(crate) struct Target {
    /// Sums from one row of the output (a channel) to the next.
    pub(crate) plane: usize,
    /// First row.
    pub(crate) row: usize,
    /// Sums from one lane of a run to the next.
    pub(crate) step: usize,
    /// Whether the tile adds to what is there.
    pub(crate) accumulate: bool,
    /// Whether its sums are then complete, and count for the largest.
    pub(crate) last: bool,
}

impl Target {
    /// Multiplies a panel of rows by lanes, straight into `out` where a tile lies there in
    /// one piece.
    #[allow(clippy::too_many_arguments, reason = "the operands of one product")]
    pub(crate) fn tile<E: Engine>(
        &self,
        rows: usize,
        a: &[u32],
        Lanes { units, first, nest }: Lanes<'_>,
        bias: &[E::Sum],
        store: &Store<'_>,
        out: &mut [E::Sum],
        largest: &mut Largest,
    ) {
        const {
            assert!(E::ROWS * E::LANES <= TILE_SUMS);
        }
        assert!(a.len() == nest.steps() * rows && nest.is_within(first, E::LANES, units.len()));
        let b = units[first..].as_ptr();
        assert!(rows <= E::ROWS && bias.len() == rows);
        if self.step == 1 && store.runs.len() == 1 && store.count == E::LANES {
            let start = store.runs[0].source + self.row * self.plane;
            let target = &mut out[start..][..(rows - 1) * self.plane + E::LANES];
            let (a, bias, target) = (a.as_ptr(), bias.as_ptr(), target.as_mut_ptr());
            let (adds, plane) = (self.accumulate, self.plane);
            // SAFETY: the assertions give the operands their lengths; `target` is borrowed whole.
            unsafe {
                if self.last {
                    E::measured_tile(rows, a, b, nest, bias, adds, target, plane, largest);
                } else {
                    E::tile(rows, a, b, nest, bias, adds, target, plane);
                }
            }
            return;
        }
        let mut room = MaybeUninit::<[E::Sum; TILE_SUMS]>::uninit();
        let target = room.as_mut_ptr().cast::<E::Sum>();
        if self.accumulate {
            // SAFETY: a tile fits TILE_SUMS; sums of zero bytes are zeros.
            let sums = unsafe {
                core::ptr::write_bytes(target, 0, rows * E::LANES);
                core::slice::from_raw_parts_mut(target, rows * E::LANES)
            };
            for (r, sums) in sums.chunks_exact_mut(E::LANES).enumerate() {
                for run in store.runs {
                    let from = &out[run.source + (self.row + r) * self.plane..];
                    for i in 0..run.length {
                        sums[run.lane + i] = from[i * self.step];
                    }
                }
            }
        }
        let (a, bias, adds) = (a.as_ptr(), bias.as_ptr(), self.accumulate);
        let measures = self.last && store.count == E::LANES;
        // SAFETY: the assertions give the operands their lengths; a tile fits TILE_SUMS, and writes all of its sums.
        let sums = unsafe {
            if measures {
                E::measured_tile(rows, a, b, nest, bias, adds, target, E::LANES, largest);
            } else {
                E::tile(rows, a, b, nest, bias, adds, target, E::LANES);
            }
            core::slice::from_raw_parts(target, rows * E::LANES)
        };
        if self.last && !measures {
            E::fold_max(largest, sums, E::LANES, rows, store.count);
        }
        for (r, sums) in sums.chunks_exact(E::LANES).enumerate() {
            for run in store.runs {
                let to = &mut out[run.source + (self.row + r) * self.plane..];
                if self.step == 1 {
                    to[..run.length].copy_from_slice(&sums[run.lane..][..run.length]);
                } else {
                    E::spread(&sums[run.lane..][..run.length], self.step, to);
                }
            }
        }
    }
}
