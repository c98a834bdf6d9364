//! Portable bodies of the packing passes. They are inlined into wrappers that enable a target
//! feature, so that the compiler vectorises the same code for each instruction set.

use super::engine::{Largest, Run, SLACK, Sum};

/// Columns and rows of the blocks that [`transpose`] moves at once.
const BLOCK: usize = 4;

/// See [`super::engine::Engine::transpose`].
#[inline(always)]
pub(crate) fn transpose(
    source: &[u32],
    source_stride: usize,
    rows: usize,
    columns: usize,
    out: &mut [u32],
    out_stride: usize,
) {
    if rows == 0 || columns == 0 {
        return;
    }
    assert!(source.len() >= (rows - 1) * source_stride + columns, "source of a transposition");
    assert!(out.len() >= (columns - 1) * out_stride + rows, "destination of a transposition");
    let whole_rows = rows - rows % BLOCK;
    let mut column = 0;
    while column < columns {
        let width = BLOCK.min(columns - column);
        if width == BLOCK {
            let mut row = 0;
            while row < whole_rows {
                let mut block = [[0u32; BLOCK]; BLOCK];
                for (i, line) in block.iter_mut().enumerate() {
                    let from = (row + i) * source_stride + column;
                    line.copy_from_slice(&source[from..from + BLOCK]);
                }
                let [r0, r1, r2, r3] = &block;
                for (j, (((a, b), c), d)) in r0.iter().zip(r1).zip(r2).zip(r3).enumerate() {
                    let to = (column + j) * out_stride + row;
                    out[to..to + BLOCK].copy_from_slice(&[*a, *b, *c, *d]);
                }
                row += BLOCK;
            }
            for row in whole_rows..rows {
                for j in column..column + BLOCK {
                    out[j * out_stride + row] = source[row * source_stride + j];
                }
            }
        } else {
            for j in column..column + width {
                for row in 0..rows {
                    out[j * out_stride + row] = source[row * source_stride + j];
                }
            }
        }
        column += width;
    }
}

/// See [`super::engine::Engine::gather`].
#[inline(always)]
pub(crate) fn gather(
    source: &[u32],
    offsets: &[usize],
    runs: &[Run],
    step: usize,
    lanes: usize,
    out: &mut [u32],
) {
    let Some(&furthest) = offsets.iter().max() else { return };
    let mut longest = 0;
    let mut covered = 0;
    for run in runs {
        assert!(run.lane == covered, "runs are in order and leave no gap");
        covered += run.length;
        longest = longest.max(run.length);
        let last = furthest + run.source + (run.length.max(1) - 1) * step;
        assert!(last + SLACK < source.len() + 1, "a run ends within the source");
    }
    assert!(covered <= lanes, "runs fit the lanes");
    assert!(out.len() >= offsets.len() * lanes + SLACK, "a panel ends with slack");
    if covered < lanes {
        // Lanes that nothing reads must still be harmless numbers: FP32 rubbish would be slow.
        out[..offsets.len() * lanes].fill(0);
    }
    // At stride 2 a chunk reads 32 units from its first on.
    const { assert!(2 * 16 <= SLACK) };
    // SAFETY: the assertions above bound every read and write of the copies: a chunk is at most
    // 16 units, so that it passes the end of its run by less than SLACK.
    unsafe {
        match (step, longest) {
            (1, 16..) => copy_runs::<16, 1>(source, offsets, runs, lanes, out),
            (1, 8..) => copy_runs::<8, 1>(source, offsets, runs, lanes, out),
            (1, 3..) => copy_runs::<4, 1>(source, offsets, runs, lanes, out),
            (1, 2) => copy_runs::<2, 1>(source, offsets, runs, lanes, out),
            (2, 16..) => copy_runs::<16, 2>(source, offsets, runs, lanes, out),
            (2, 8..) => copy_runs::<8, 2>(source, offsets, runs, lanes, out),
            (2, 3..) => copy_runs::<4, 2>(source, offsets, runs, lanes, out),
            _ => copy_spaced(source, offsets, runs, step, lanes, out),
        }
    }
}

/// Copies runs of every `STEP`th unit in chunks of `CHUNK`; what a chunk writes past its run, the next run or the next step of the
/// reduction overwrites.
///
/// # Safety
/// `source` holds every run with up to `STEP * CHUNK` more units, `out` with up to `CHUNK`.
#[inline(always)]
unsafe fn copy_runs<const CHUNK: usize, const STEP: usize>(
    source: &[u32],
    offsets: &[usize],
    runs: &[Run],
    lanes: usize,
    out: &mut [u32],
) {
    for (k, &offset) in offsets.iter().enumerate() {
        for run in runs {
            let mut done = 0;
            while done < run.length {
                // SAFETY: the caller's promise.
                unsafe {
                    let from = source.as_ptr().add(offset + run.source + STEP * done);
                    let to = out.as_mut_ptr().add(k * lanes + run.lane + done);
                    let chunk = from.cast::<[[u32; STEP]; CHUNK]>().read_unaligned();
                    to.cast::<[u32; CHUNK]>().write_unaligned(chunk.map(|units| units[0]));
                }
                done += CHUNK;
            }
        }
    }
}

/// Copies runs whose units are `step` apart.
///
/// # Safety
/// `source` and `out` hold every run.
#[inline(always)]
unsafe fn copy_spaced(
    source: &[u32],
    offsets: &[usize],
    runs: &[Run],
    step: usize,
    lanes: usize,
    out: &mut [u32],
) {
    for (k, &offset) in offsets.iter().enumerate() {
        for run in runs {
            for i in 0..run.length {
                // SAFETY: the caller's promise.
                unsafe {
                    *out.get_unchecked_mut(k * lanes + run.lane + i) =
                        *source.get_unchecked(offset + run.source + i * step);
                }
            }
        }
    }
}

/// See [`super::engine::Engine::spread`].
#[inline(always)]
pub(crate) fn spread<S: Sum>(sums: &[S], step: usize, out: &mut [S]) {
    assert!(sums.is_empty() || out.len() > (sums.len() - 1) * step, "room for all sums");
    for (out, &sum) in out.iter_mut().step_by(step).zip(sums) {
        *out = sum;
    }
}

/// See [`super::engine::Engine::fold_max`].
#[inline(always)]
pub(crate) fn fold_max<S: Sum>(
    largest: &mut Largest,
    values: &[S],
    stride: usize,
    rows: usize,
    count: usize,
) {
    let mut lanes = largest.0;
    for row in 0..rows {
        let (chunks, rest) = values[row * stride..][..count].as_chunks::<16>();
        for chunk in chunks {
            for (lane, value) in lanes.iter_mut().zip(chunk) {
                *lane = (*lane).max(value.magnitude());
            }
        }
        for (lane, value) in lanes.iter_mut().zip(rest) {
            *lane = (*lane).max(value.magnitude());
        }
    }
    largest.0 = lanes;
}
