//! The portable engines: plain Rust that a compiler can vectorise, the same on every machine.

use super::engine::{Engine, Nest, Side};

/// `i8` products over pairs of widened `i16`.
pub(crate) struct PortableI8;

/// `f32` products.
pub(crate) struct PortableF32;

const ROWS: usize = 4;
const LANES: usize = 8;

/// Two `i8` as one unit of two `i16`.
#[inline(always)]
pub(crate) fn pair(low: i8, high: i8) -> u32 {
    u32::from(i16::from(low) as u16) | (u32::from(i16::from(high) as u16) << 16)
}

/// [`Engine::interleave`] for pairs.
#[inline(always)]
pub(crate) fn interleave_pairs(source: &[i8], stride: usize, count: usize, out: &mut [u32]) {
    let length = out.len();
    let low = &source[..length];
    if count >= 2 {
        let high = &source[stride..stride + length];
        for ((unit, &low), &high) in out.iter_mut().zip(low).zip(high) {
            *unit = pair(low, high);
        }
    } else {
        for (unit, &low) in out.iter_mut().zip(low) {
            *unit = pair(low, 0);
        }
    }
}

/// [`Engine::widen`] for pairs.
#[inline(always)]
pub(crate) fn widen_pairs(source: &[i8], out: &mut [u32]) {
    let (pairs, rest) = source.as_chunks::<2>();
    for (unit, &[low, high]) in out.iter_mut().zip(pairs) {
        *unit = pair(low, high);
    }
    if pairs.len() < out.len() {
        out[pairs.len()] = pair(rest.first().copied().unwrap_or(0), 0);
        out[pairs.len() + 1..].fill(0);
    }
}

/// [`Engine::interleave`] and [`Engine::widen`] for `f32`, whose units are single numbers.
#[inline(always)]
pub(crate) fn copy_bits(source: &[f32], out: &mut [u32]) {
    let length = source.len().min(out.len());
    for (unit, value) in out.iter_mut().zip(source) {
        *unit = value.to_bits();
    }
    out[length..].fill(0);
}

impl Engine for PortableI8 {
    type Element = i8;
    type Sum = i32;
    const DEPTH: usize = 2;
    const ROWS: usize = ROWS;
    const LANES: usize = LANES;
    const LANE_ZERO: u32 = 0;

    fn interleave(_: Side, source: &[i8], stride: usize, count: usize, out: &mut [u32]) {
        interleave_pairs(source, stride, count, out);
    }

    fn widen(_: Side, source: &[i8], out: &mut [u32]) {
        widen_pairs(source, out);
    }

    unsafe fn tile(
        rows: usize,
        a: *const u32,
        b: *const u32,
        nest: &Nest,
        bias: *const i32,
        accumulate: bool,
        c: *mut i32,
        c_stride: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            // Which half of a unit comes first in memory does not matter to the sum.
            type Pair = [i16; 2];
            walk(rows, a, b, nest, bias, accumulate, c, c_stride, |sum: i32, a: Pair, b: Pair| {
                let first = i32::from(a[0]) * i32::from(b[0]);
                let second = i32::from(a[1]) * i32::from(b[1]);
                sum.wrapping_add(first.wrapping_add(second))
            });
        }
    }
}

impl Engine for PortableF32 {
    type Element = f32;
    type Sum = f32;
    const DEPTH: usize = 1;
    const ROWS: usize = ROWS;
    const LANES: usize = LANES;
    const LANE_ZERO: u32 = 0;

    fn interleave(_: Side, source: &[f32], _: usize, _: usize, out: &mut [u32]) {
        let length = out.len();
        copy_bits(&source[..length], out);
    }

    fn widen(_: Side, source: &[f32], out: &mut [u32]) {
        copy_bits(source, out);
    }

    unsafe fn tile(
        rows: usize,
        a: *const u32,
        b: *const u32,
        nest: &Nest,
        bias: *const f32,
        accumulate: bool,
        c: *mut f32,
        c_stride: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            walk(rows, a, b, nest, bias, accumulate, c, c_stride, |sum: f32, a: f32, b: f32| {
                sum + a * b
            });
        }
    }
}

/// Runs a tile of any number of rows; `step` adds to a sum what a unit of each side gives.
///
/// # Safety
/// As [`Engine::tile`]; any unit is a `U`.
#[allow(clippy::too_many_arguments, reason = "the operands of one product")]
#[inline(always)]
unsafe fn walk<S: super::engine::Sum, U: Copy>(
    rows: usize,
    a: *const u32,
    b: *const u32,
    nest: &Nest,
    bias: *const S,
    accumulate: bool,
    c: *mut S,
    c_stride: usize,
    step: impl Fn(S, U, U) -> S + Copy,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match rows {
            1 => walk_rows::<1, S, U>(a, b, nest, bias, accumulate, c, c_stride, step),
            2 => walk_rows::<2, S, U>(a, b, nest, bias, accumulate, c, c_stride, step),
            3 => walk_rows::<3, S, U>(a, b, nest, bias, accumulate, c, c_stride, step),
            _ => walk_rows::<4, S, U>(a, b, nest, bias, accumulate, c, c_stride, step),
        }
    }
}

/// # Safety
/// As [`walk`], with `R` rows.
#[allow(clippy::too_many_arguments, reason = "the operands of one product")]
#[inline(always)]
unsafe fn walk_rows<const R: usize, S: super::engine::Sum, U: Copy>(
    a: *const u32,
    b: *const u32,
    nest: &Nest,
    bias: *const S,
    accumulate: bool,
    c: *mut S,
    c_stride: usize,
    step: impl Fn(S, U, U) -> S,
) {
    const { assert!(size_of::<U>() == 4) };
    let mut sums = [[S::default(); LANES]; R];
    // SAFETY: every access is one that the caller promises to be in bounds.
    unsafe {
        if accumulate {
            for (r, sums) in sums.iter_mut().enumerate() {
                *sums = c.add(r * c_stride).cast::<[S; LANES]>().read_unaligned();
            }
        }
        // The portable encodings need no bias.
        let _ = bias;
        for outer in 0..nest.outer {
            for middle in 0..nest.middle {
                let mut at = b.offset(nest.middle_start(outer, middle));
                let mut a = a.add(nest.panel_start(outer, middle) * R);
                for _ in 0..nest.inner {
                    let lanes = at.cast::<[U; LANES]>().read_unaligned();
                    let row = a.cast::<[U; R]>().read_unaligned();
                    for (sums, &factor) in sums.iter_mut().zip(&row) {
                        for (sum, &lane) in sums.iter_mut().zip(&lanes) {
                            *sum = step(*sum, factor, lane);
                        }
                    }
                    a = a.add(R);
                    at = at.wrapping_offset(nest.inner_step);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            c.add(r * c_stride).cast::<[S; LANES]>().write_unaligned(*sums);
        }
    }
}
