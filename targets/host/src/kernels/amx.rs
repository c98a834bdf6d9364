//! The engine for x86-64 with tiles of bytes (AMX-INT8): one instruction multiplies 16 rows of 16 units by 16 units of 16 lanes.
//!
//! A tile register holds up to 16 rows of 64 bytes, each row wherever a stride says. Lanes are such a tile as they lie, with the walk's
//! step as the stride. Rows are not: a tile wants the steps of a row side by side, where a panel has the rows of a step side by side.
//! [`Engine::arrange`] lays a panel out anew, once. Sums of integers may be taken in any order, so that of the three loops of a walk the one
//! becomes the tiles' that fills them best.
//!
//! Two tiles of sums, one above the other, so that lanes are loaded once for 32 rows. More would have fewer loads for each product, but
//! measured (Intel Xeon, family 6, model 207; time-stamp cycles a product): two above two take as long, 28, and 66 instead of 47 where the
//! core's other thread is busy; four above each other 31 and 72; loads before the products that they follow 37. Products without loads
//! take 19 with four sums, 22 with two.
//!
//! All registers have the shapes of one call: the steps of a loop are taken by as many as divide their count.

use core::arch::asm;

use super::avx2;
use super::avx512;
use super::engine::{Engine, Largest, Nest, Panel, Run, Side};

/// Rows, and units of a row, of a tile register.
const TILE: usize = 16;
/// Bytes of a row of a full tile.
const ROW_BYTES: usize = 64;

/// Fewest rows of a block: fewer leave more than half of a register empty, and vectors take them as they come.
const LEAST_ROWS: usize = 8;
/// Fewest steps of a walk: what a call costs beside its products (the shapes, sums to and from memory) takes longer than the vectors' way
/// through fewer. An estimate from the instructions' documented throughput, not a measurement.
const LEAST_STEPS: usize = 32;

/// `i8` products over quadruples on tiles (`tdpbssd`, exact).
pub(crate) struct DotI8;

/// One loop of a walk.
#[derive(Clone, Copy)]
struct Loop {
    count: usize,
    /// From one of its steps to the next, in steps of a panel as it is packed.
    panel: usize,
    /// Likewise in units of the lanes.
    lanes: isize,
}

/// The loops of a walk as tiles take it: the last one is theirs, by blocks of as many steps each; the others keep their order.
struct Loops {
    outer: Loop,
    inner: Loop,
    run: Loop,
    /// Steps of a tile.
    block: usize,
}

impl Loops {
    /// The loop whose tiles are fullest is theirs; of a part of a panel the innermost, whatever the part's counts.
    fn new(nest: &Nest) -> Self {
        let inner = Loop { count: nest.inner, panel: 1, lanes: nest.inner_step };
        let start = |outer, middle| nest.panel_start(outer, middle);
        let middle = Loop { count: nest.middle, panel: start(0, 1), lanes: nest.middle_step };
        let outer = Loop { count: nest.outer, panel: start(1, 0), lanes: nest.outer_step };
        let [by_inner, by_middle, by_outer] = [inner, middle, outer].map(|of| block(of.count));
        let is_part = matches!(nest.panel, Panel::Part { .. });
        // The innermost of equal ones, whose lanes lie nearest to each other.
        if is_part || by_inner >= by_middle.max(by_outer) {
            Self { outer, inner: middle, run: inner, block: by_inner }
        } else if by_middle >= by_outer {
            Self { outer, inner, run: middle, block: by_middle }
        } else {
            Self { outer: middle, inner, run: outer, block: by_outer }
        }
    }

    /// Where the blocks of a run lie in an arranged panel, in steps.
    const fn start(&self, nest: &Nest, outer: usize, inner: usize) -> usize {
        match nest.panel {
            Panel::Whole => (outer * self.inner.count + inner) * self.run.count,
            Panel::Part { .. } => nest.panel_start(outer, inner),
        }
    }
}

/// The most steps of a tile that divide so many evenly.
fn block(count: usize) -> usize {
    (1..=TILE).rev().find(|&steps| count.is_multiple_of(steps)).unwrap_or(1)
}

impl Engine for DotI8 {
    type Element = i8;
    type Sum = i32;
    const DEPTH: usize = 4;
    const ROWS: usize = 2 * TILE;
    const LANES: usize = TILE;
    const LANE_ZERO: u32 = 0;
    const LEAST_ROWS: usize = LEAST_ROWS;

    /// Full registers: a product takes as long with one row as with 16.
    fn block(rows: usize) -> usize {
        rows.min(Self::ROWS)
    }

    fn interleave(_: Side, source: &[i8], stride: usize, count: usize, out: &mut [u32]) {
        // Both sides are signed.
        // SAFETY: this engine runs only where the machine has AVX-512, hence AVX2.
        unsafe { avx2::interleave_quads(Side::Rows, source, stride, count, out) }
    }

    fn widen(_: Side, source: &[i8], out: &mut [u32]) {
        avx2::widen_quads(Side::Rows, source, out);
    }

    fn transpose(
        source: &[u32],
        source_stride: usize,
        rows: usize,
        columns: usize,
        out: &mut [u32],
        out_stride: usize,
    ) {
        avx512::DotI8::transpose(source, source_stride, rows, columns, out, out_stride);
    }

    fn gather(source: &[u32], offsets: &[usize], runs: &[Run], step: usize, out: &mut [u32]) {
        const { assert!(avx512::DotI8::LANES == TILE) };
        avx512::DotI8::gather(source, offsets, runs, step, out);
    }

    fn arrangement(units: usize) -> usize {
        units
    }

    /// `[outer loop][inner loop][block of the tiles' loop][row][step]`.
    fn arrange(panel: &mut [u32], rows: usize, nest: &Nest, buffer: &mut [u32]) {
        assert_eq!(panel.len(), nest.steps() * rows, "a panel of the walk");
        let packed = &mut buffer[..panel.len()];
        packed.copy_from_slice(panel);
        let Loops { outer, inner, run, block } = Loops::new(nest);
        let mut blocks = panel.chunks_exact_mut(block * rows);
        for i in 0..outer.count {
            for j in 0..inner.count {
                for k in (0..run.count).step_by(block) {
                    let first = i * outer.panel + j * inner.panel + k * run.panel;
                    let Some(to) = blocks.next() else { return };
                    let from = &packed[first * rows..];
                    Self::transpose(from, run.panel * rows, block, rows, to, block);
                }
            }
        }
    }

    /// Enough rows and steps, and tiles that are at least half full of them.
    fn suits(rows: usize, nest: &Nest) -> bool {
        rows >= LEAST_ROWS && nest.steps() >= LEAST_STEPS && 2 * Loops::new(nest).block >= TILE
    }

    unsafe fn tile(
        rows: usize,
        a: *const u32,
        b: *const u32,
        nest: &Nest,
        _bias: *const i32,
        accumulate: bool,
        c: *mut i32,
        c_stride: usize,
    ) {
        // SAFETY: the caller's promise, and the machine has tiles, which the process may use.
        unsafe {
            if rows > TILE {
                dots::<true>(rows, a, b, nest, accumulate, c, c_stride);
            } else {
                dots::<false>(rows, a, b, nest, accumulate, c, c_stride);
            }
        }
    }

    fn spread(sums: &[i32], step: usize, out: &mut [i32]) {
        avx512::DotI8::spread(sums, step, out);
    }

    fn fold_max(largest: &mut Largest, values: &[i32], stride: usize, rows: usize, count: usize) {
        avx512::DotI8::fold_max(largest, values, stride, rows, count);
    }
}

/// The shapes of the registers, as `ldtilecfg` reads them; a register of no rows is not there.
#[repr(C, align(64))]
struct Shapes {
    palette: u8,
    start_row: u8,
    zeros: [u8; 14],
    row_bytes: [u16; 8],
    more_zeros: [u8; 16],
    rows: [u8; 8],
    last_zeros: [u8; 8],
}

// The registers. Their numbers are written out where instructions name them: sums 0 above 1, rows 2 above 3, lanes 4.

impl Shapes {
    /// For so many rows, and so many steps at a time.
    fn new(rows: usize, steps: usize) -> Self {
        const { assert!(size_of::<Self>() == 64) };
        let (upper, lower) = (rows.min(TILE), rows.saturating_sub(TILE));
        let (none, lanes) = ((0, 0), (steps, ROW_BYTES));
        let [above, below] = [(upper, ROW_BYTES), (lower, ROW_BYTES)];
        let [rows, rows_below] = [(upper, 4 * steps), (lower, 4 * steps)];
        let shapes = [above, below, rows, rows_below, lanes, none, none, none];
        let shapes = shapes.map(|(rows, bytes)| if rows == 0 { none } else { (rows, bytes) });
        Self {
            palette: 1,
            start_row: 0,
            zeros: [0; 14],
            row_bytes: shapes.map(|(_, bytes)| bytes as u16),
            more_zeros: [0; 16],
            rows: shapes.map(|(rows, _)| rows as u8),
            last_zeros: [0; 8],
        }
    }
}

// What a tile register holds from one instruction to the next is safe there: without the target features, which nothing of this crate
// enables, the compiler has no use for these registers.

/// Loads a register: rows from `$from`, `$stride` bytes apart.
macro_rules! load {
    ($register:literal, $from:expr, $stride:expr) => {
        asm!(
            concat!("tileloadd ", $register, ", [{from} + {stride}*1]"),
            from = in(reg) $from,
            stride = in(reg) $stride,
            options(nostack, preserves_flags, readonly),
        )
    };
}

/// Stores a register likewise.
macro_rules! store {
    ($register:literal, $to:expr, $stride:expr) => {
        asm!(
            concat!("tilestored [{to} + {stride}*1], ", $register),
            to = in(reg) $to,
            stride = in(reg) $stride,
            options(nostack, preserves_flags),
        )
    };
}

/// Adds products of rows and lanes to sums.
macro_rules! multiply {
    ($sums:literal, $rows:literal, $lanes:literal) => {
        asm!(
            concat!("tdpbssd ", $sums, ", ", $rows, ", ", $lanes),
            options(nostack, preserves_flags, nomem),
        );
        #[cfg(test)]
        PRODUCTS.set(PRODUCTS.get() + 1);
    };
}

#[cfg(test)]
thread_local! {
    /// Products of tiles that this thread has done so far.
    pub(super) static PRODUCTS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// # Safety
/// As [`Engine::tile`], with more than 16 rows where there are `TWO` tiles of them; the machine has tiles, which the process may use.
unsafe fn dots<const TWO: bool>(
    rows: usize,
    a: *const u32,
    b: *const u32,
    nest: &Nest,
    accumulate: bool,
    c: *mut i32,
    c_stride: usize,
) {
    let loops = Loops::new(nest);
    let (outer, inner, run, block) = (&loops.outer, &loops.inner, &loops.run, loops.block);
    let shapes = Shapes::new(rows, block);
    let lower = c.wrapping_add(TILE * c_stride);
    let (a_bytes, b_bytes, c_bytes) = (4 * block, 4 * run.lanes, 4 * c_stride);
    let step = block as isize * run.lanes;
    // SAFETY: registers have the shapes that the instructions take them to have; what they read and write of operands are the rows,
    // steps and lanes that the caller promises to be in bounds, and the lower half of the sums is there where there are two.
    unsafe {
        asm!(
            "ldtilecfg [{shapes}]",
            shapes = in(reg) &raw const shapes,
            options(nostack, preserves_flags, readonly),
        );
        if accumulate {
            load!("tmm0", c, c_bytes);
            if TWO {
                load!("tmm1", lower, c_bytes);
            }
        }
        // Registers that were given shapes are zero.
        for i in 0..outer.count {
            for j in 0..inner.count {
                let mut a = a.add(loops.start(nest, i, j) * rows);
                let mut b = b.wrapping_offset(i as isize * outer.lanes + j as isize * inner.lanes);
                for _ in 0..run.count / block {
                    load!("tmm4", b, b_bytes);
                    load!("tmm2", a, a_bytes);
                    multiply!("tmm0", "tmm2", "tmm4");
                    if TWO {
                        load!("tmm3", a.add(TILE * block), a_bytes);
                        multiply!("tmm1", "tmm3", "tmm4");
                    }
                    a = a.add(rows * block);
                    b = b.wrapping_offset(step);
                }
            }
        }
        store!("tmm0", c, c_bytes);
        if TWO {
            store!("tmm1", lower, c_bytes);
        }
        asm!("tilerelease", options(nostack, preserves_flags, nomem));
    }
}

/// Products of [`most`]'s round: four of tiles.
pub(super) const MOST: usize = 4 * TILE * ROW_BYTES * TILE;

/// Rounds of products of full registers whose sums do not wait for each other, for what a machine makes at most. Gives the
/// least of what the four registers of sums add up to.
///
/// # Safety
/// The machine has tiles, which the process may use.
pub(super) unsafe fn most(rounds: usize) -> u64 {
    let shapes = Shapes {
        palette: 1,
        start_row: 0,
        zeros: [0; 14],
        row_bytes: [ROW_BYTES as u16; 8],
        more_zeros: [0; 16],
        rows: [TILE as u8; 8],
        last_zeros: [0; 8],
    };
    let ones = [1u8; TILE * ROW_BYTES];
    let mut sums = [0i32; TILE * TILE];
    let mut least = u64::MAX;
    // SAFETY: every register is a full one, as what is loaded and stored; the caller says that there are such.
    unsafe {
        asm!(
            "ldtilecfg [{shapes}]",
            shapes = in(reg) &raw const shapes,
            options(nostack, preserves_flags, readonly),
        );
        load!("tmm6", ones.as_ptr(), ROW_BYTES);
        load!("tmm7", ones.as_ptr(), ROW_BYTES);
        for _ in 0..rounds {
            multiply!("tmm0", "tmm6", "tmm7");
            multiply!("tmm1", "tmm6", "tmm7");
            multiply!("tmm2", "tmm6", "tmm7");
            multiply!("tmm3", "tmm6", "tmm7");
        }
        for register in 0..4 {
            match register {
                0 => store!("tmm0", sums.as_mut_ptr(), ROW_BYTES),
                1 => store!("tmm1", sums.as_mut_ptr(), ROW_BYTES),
                2 => store!("tmm2", sums.as_mut_ptr(), ROW_BYTES),
                _ => store!("tmm3", sums.as_mut_ptr(), ROW_BYTES),
            }
            least = least.min(sums.iter().map(|&sum| sum as u64).sum());
        }
        asm!("tilerelease", options(nostack, preserves_flags, nomem));
    }
    least
}
