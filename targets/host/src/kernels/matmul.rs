//! Matrix products: rows are rows of `C`, lanes its columns.

use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};

use super::engine::{Element, Engine, Largest, Nest, SLACK, Side};
use super::geometry::MatMulGeometry;
use super::own::Own;
use super::parts::Parts;
use super::scratch::{Scratch, words_bytes};
use super::threads;

/// Most units of one reduction in one pass of a tile.
const DEPTH_UNITS: usize = 512;
/// Most columns packed at a time.
const COLUMNS: usize = 512;
/// Most rows packed at a time.
const ROWS: usize = 192;
/// Most sums of a tile, over all engines.
const TILE_SUMS: usize = 512;

/// Sizes of the working buffers under one engine.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// Rows of a tile but for the last.
    block: usize,
    /// Rows packed at a time, a multiple of `block`.
    rows: usize,
    /// Columns packed at a time, a multiple of the lanes.
    columns: usize,
    /// Units of one pass.
    depth: usize,
}

impl Plan {
    fn new<E: Engine>(g: &MatMulGeometry) -> Self {
        let block = E::block(g.m).max(1);
        let units = g.k.div_ceil(E::DEPTH);
        Self {
            block,
            rows: (ROWS / block * block).min(g.m.next_multiple_of(block)),
            columns: COLUMNS.min(g.n.next_multiple_of(E::LANES)),
            depth: units.div_ceil(units.div_ceil(DEPTH_UNITS).max(1)).max(1),
        }
    }

    const fn row_units(&self) -> usize {
        self.rows * self.depth
    }

    const fn lane_units(&self) -> usize {
        self.columns * self.depth
    }

    fn staging_units<E: Engine>(&self) -> usize {
        (self.depth * E::LANES.max(self.block)).max(self.rows).max(self.columns)
    }
}

/// Scratch of [`matmul`] under `E`.
pub(crate) fn bytes<E: Engine>(g: &MatMulGeometry) -> usize {
    let plan = Plan::new::<E>(g);
    Scratch::LOSS
        + words_bytes(plan.row_units())
        + words_bytes(plan.lane_units() + SLACK)
        + words_bytes(plan.staging_units::<E>())
        + words_bytes(plan.rows)
}

/// Whether `E` suits the product.
pub(crate) fn suits<E: Engine>(g: &MatMulGeometry) -> bool {
    let plan = Plan::new::<E>(g);
    E::suits(plan.block, &Nest::line(plan.depth, E::LANES))
}

/// `C`; returns its largest magnitude.
pub(crate) fn matmul<E: Engine>(
    g: &MatMulGeometry,
    a: &[E::Element],
    b: &[E::Element],
    c: &mut [E::Sum],
    scratch: &mut [u8],
) -> u32 {
    if c.is_empty() {
        return 0;
    }
    if g.k == 0 {
        c.fill(E::Sum::default());
        return 0;
    }
    let mut most = 0;
    for (index, c) in c.chunks_exact_mut(g.m * g.n).enumerate() {
        let a = &a[index * g.batch_stride_a..][..g.m * g.k];
        let b = &b[index * g.batch_stride_b..][..g.k * g.n];
        let count = threads::parts(g.m * g.n * g.k, g.m.div_ceil(E::ROWS));
        let piece = |index| threads::piece(g.m, E::ROWS, count, index);
        let parts = Parts::new(c, |index| piece(index).start * g.n);
        let found = AtomicU32::new(0);
        let own = Own::new(scratch);
        threads::run(count, &|index| {
            let rows = piece(index);
            let c = parts.take(index);
            let mut largest = Largest::default();
            own.with(bytes::<E>(g), |bytes| {
                let scratch = &mut Scratch::new(bytes);
                product::<E>(g, rows, a, b, c, scratch, &mut largest);
            });
            found.fetch_max(largest.value(), Ordering::Relaxed);
        });
        most = most.max(found.into_inner());
    }
    most
}

/// A window of an operand: `count` rows (or columns) from `first`, `depth` steps from `start`.
#[derive(Clone, Copy)]
struct Window {
    first: usize,
    count: usize,
    start: usize,
    depth: usize,
}

/// The rows `range` of one product; `c` holds these rows only.
pub(crate) fn product<E: Engine>(
    g: &MatMulGeometry,
    range: Range<usize>,
    a: &[E::Element],
    b: &[E::Element],
    c: &mut [E::Sum],
    scratch: &mut Scratch<'_>,
    largest: &mut Largest,
) {
    let plan = Plan::new::<E>(g);
    let row_panel = scratch.units(plan.row_units());
    let lane_panel = scratch.units(plan.lane_units() + SLACK);
    let staging = scratch.units(plan.staging_units::<E>());
    let bias = scratch.sums::<E::Sum>(plan.rows);
    for column in (0..g.n).step_by(plan.columns) {
        let columns = plan.columns.min(g.n - column);
        for start in (0..g.k).step_by(plan.depth * E::DEPTH) {
            let depth = (plan.depth * E::DEPTH).min(g.k - start);
            let units = depth.div_ceil(E::DEPTH);
            let window = Window { first: column, count: columns, start, depth };
            let length = if g.transpose_b { g.k } else { g.n };
            pack::<E>(Side::Lanes, b, length, g.transpose_b, window, E::LANES, lane_panel, staging);
            for row in range.clone().step_by(plan.rows) {
                let rows = plan.rows.min(range.end - row);
                let window = Window { first: row, count: rows, start, depth };
                let length = if g.transpose_a { g.m } else { g.k };
                let along = !g.transpose_a;
                pack::<E>(Side::Rows, a, length, along, window, plan.block, row_panel, staging);
                for first in (0..rows).step_by(plan.block) {
                    let count = plan.block.min(rows - first);
                    let panel = &mut row_panel[first * units..][..count * units];
                    E::bias(panel, count, bias);
                    E::arrange(panel, count, &Nest::line(units, E::LANES), staging);
                    for lane in (0..columns).step_by(E::LANES) {
                        let tile = Tile {
                            rows: count,
                            columns: E::LANES.min(columns - lane),
                            accumulate: start > 0,
                            last: start + depth == g.k,
                            stride: g.n,
                        };
                        let b = &lane_panel[lane * units..][..E::LANES * units];
                        let c = &mut c[(row - range.start + first) * g.n + column + lane..];
                        tile.multiply::<E>(panel, b, bias, c, largest);
                    }
                }
            }
        }
    }
}

/// Packs a window of an operand stored in rows of `length` elements, whose rows run along the
/// reduction (`along`) or across it, into panels of `block`.
#[allow(clippy::too_many_arguments, reason = "the operands of one pass")]
fn pack<E: Engine>(
    side: Side,
    source: &[E::Element],
    length: usize,
    along: bool,
    window: Window,
    block: usize,
    out: &mut [u32],
    staging: &mut [u32],
) {
    let units = window.depth.div_ceil(E::DEPTH);
    if !along {
        for unit in 0..units {
            let step = unit * E::DEPTH;
            let present = E::DEPTH.min(window.depth - step);
            let from = &source[(window.start + step) * length + window.first..];
            let staged = &mut staging[..window.count];
            E::interleave(side, from, length, present, staged);
            for (index, staged) in staged.chunks(block).enumerate() {
                let stride = if side == Side::Rows { staged.len() } else { block };
                let to = index * block * units + unit * stride;
                out[to..to + staged.len()].copy_from_slice(staged);
                out[to + staged.len()..to + stride].fill(0);
            }
        }
        return;
    }
    for first in (0..window.count).step_by(block) {
        let count = block.min(window.count - first);
        let stride = if side == Side::Rows { count } else { block };
        let out = &mut out[first * units..][..stride * units];
        if count < stride {
            out.fill(0);
        }
        let at = (window.first + first) * length + window.start;
        if let Some(source) = E::Element::as_units(source) {
            E::transpose(&source[at..], length, count, units, out, stride);
            continue;
        }
        for row in 0..count {
            let staged = &mut staging[row * units..][..units];
            E::widen(side, &source[at + row * length..][..window.depth], staged);
        }
        E::transpose(staging, units, count, units, out, stride);
    }
}

/// One tile of `C`.
struct Tile {
    rows: usize,
    columns: usize,
    accumulate: bool,
    last: bool,
    stride: usize,
}

impl Tile {
    fn multiply<E: Engine>(
        &self,
        a: &[u32],
        b: &[u32],
        bias: &[E::Sum],
        c: &mut [E::Sum],
        largest: &mut Largest,
    ) {
        const {
            assert!(E::ROWS * E::LANES <= TILE_SUMS);
        }
        let rows = self.rows;
        let nest = Nest::line(a.len() / rows, E::LANES);
        assert!(a.len() == nest.steps() * rows && nest.is_within(0, E::LANES, b.len()));
        assert!(rows <= E::ROWS && bias.len() >= rows);
        let mut sums = [E::Sum::default(); TILE_SUMS];
        let whole = self.columns == E::LANES;
        let c = &mut c[..(rows - 1) * self.stride + self.columns];
        if !whole && self.accumulate {
            for r in 0..rows {
                sums[r * E::LANES..][..self.columns]
                    .copy_from_slice(&c[r * self.stride..][..self.columns]);
            }
        }
        let (target, stride) =
            if whole { (c.as_mut_ptr(), self.stride) } else { (sums.as_mut_ptr(), E::LANES) };
        // SAFETY: the assertions and the slices give every operand its length; a tile fits
        // TILE_SUMS.
        unsafe {
            E::tile(
                rows,
                a.as_ptr(),
                b.as_ptr(),
                &nest,
                bias.as_ptr(),
                self.accumulate,
                target,
                stride,
            );
        }
        if !whole {
            for r in 0..rows {
                c[r * self.stride..][..self.columns]
                    .copy_from_slice(&sums[r * E::LANES..][..self.columns]);
            }
        }
        if self.last {
            E::fold_max(largest, c, self.stride, rows, self.columns);
        }
    }
}
