//! Engines for x86-64 with AVX-512 and its dot products.

use core::arch::x86_64::*;

use super::avx2::{self, by_rows};
use super::engine::{Engine, Largest, Nest, Run, Side};
use super::scratch::{words_of, words_of_mut};
use super::{pack, portable};

/// A tile is one vector wide: the factors of its rows are then operands in memory that the instruction itself spreads, where a second
/// vector would make of each a load that occupies a vector unit (Zen 4: 40 instead of 58 FP32 products a nanosecond).
const LANES: usize = 16;
/// Sums of a tile, in registers.
const ROWS: usize = 24;

/// `i8` products over quadruples (`vpdpbusd`, exact).
pub(crate) struct DotI8;

/// `f32` products, multiplication and addition apart.
pub(crate) struct SinglesF32;

/// The passes that need nothing but their target feature.
macro_rules! avx512_passes {
    ($sum:ty) => {
        fn transpose(
            source: &[u32],
            source_stride: usize,
            rows: usize,
            columns: usize,
            out: &mut [u32],
            out_stride: usize,
        ) {
            // SAFETY: this engine runs only where the machine has AVX-512.
            unsafe { transpose(source, source_stride, rows, columns, out, out_stride) }
        }

        fn gather(source: &[u32], offsets: &[usize], runs: &[Run], step: usize, out: &mut [u32]) {
            // SAFETY: as above.
            unsafe { gather(source, offsets, runs, step, out) }
        }

        fn spread(sums: &[$sum], step: usize, out: &mut [$sum]) {
            if step == 2 {
                // SAFETY: as above.
                unsafe { spread_by_two(words_of(sums), words_of_mut(out)) }
            } else {
                pack::spread(sums, step, out);
            }
        }

        fn fold_max(
            largest: &mut Largest,
            values: &[$sum],
            stride: usize,
            rows: usize,
            count: usize,
        ) {
            // SAFETY: as above.
            unsafe { fold_max(largest, values, stride, rows, count) }
        }
    };
}

impl Engine for DotI8 {
    type Element = i8;
    type Sum = i32;
    const DEPTH: usize = 4;
    const ROWS: usize = ROWS;
    const LANES: usize = LANES;
    const LANE_ZERO: u32 = 0x8080_8080;

    fn interleave(side: Side, source: &[i8], stride: usize, count: usize, out: &mut [u32]) {
        // SAFETY: this engine runs only where the machine has AVX-512, hence AVX2.
        unsafe { avx2::interleave_quads(side, source, stride, count, out) }
    }

    fn widen(side: Side, source: &[i8], out: &mut [u32]) {
        avx2::widen_quads(side, source, out);
    }

    avx512_passes!(i32);

    fn bias(panel: &[u32], rows: usize, bias: &mut [i32]) {
        // SAFETY: as above.
        unsafe { quad_bias(panel, rows, bias) }
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
        // SAFETY: the caller's promise, and the machine has AVX-512 and its dot products.
        unsafe {
            by_rows!(
                rows, dots(a, b, nest, bias, accumulate, c, c_stride, None);
                1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24
            );
        }
    }

    unsafe fn measured_tile(
        rows: usize,
        a: *const u32,
        b: *const u32,
        nest: &Nest,
        bias: *const i32,
        accumulate: bool,
        c: *mut i32,
        c_stride: usize,
        largest: &mut Largest,
    ) {
        // SAFETY: as above.
        unsafe {
            by_rows!(
                rows, dots(a, b, nest, bias, accumulate, c, c_stride, Some(largest));
                1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24
            );
        }
    }
}

impl Engine for SinglesF32 {
    type Element = f32;
    type Sum = f32;
    const DEPTH: usize = 1;
    const ROWS: usize = ROWS;
    const LANES: usize = LANES;
    const LANE_ZERO: u32 = 0;

    fn interleave(_: Side, source: &[f32], _: usize, _: usize, out: &mut [u32]) {
        let length = out.len();
        portable::copy_bits(&source[..length], out);
    }

    fn widen(_: Side, source: &[f32], out: &mut [u32]) {
        portable::copy_bits(source, out);
    }

    avx512_passes!(f32);

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
        // SAFETY: the caller's promise, and the machine has AVX-512.
        unsafe {
            by_rows!(
                rows, singles(a, b, nest, bias, accumulate, c, c_stride);
                1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24
            );
        }
    }
}

#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl")]
fn gather(source: &[u32], offsets: &[usize], runs: &[Run], step: usize, out: &mut [u32]) {
    pack::gather(source, offsets, runs, step, LANES, out);
}

/// [`Engine::spread`] by two, eight words at a time.
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl")]
fn spread_by_two(words: &[u32], out: &mut [u32]) {
    assert!(words.is_empty() || out.len() > 2 * (words.len() - 1), "room for all sums");
    for first in (0..words.len()).step_by(8) {
        let count = (words.len() - first).min(8);
        let read = (0xffu32 >> (8 - count)) as u8;
        let write = (0x5555u32 >> (16 - 2 * count)) as u16;
        // SAFETY: masks keep every access within the words, or the places two apart for which there is room.
        unsafe {
            let words = _mm256_maskz_loadu_epi32(read, words.as_ptr().add(first).cast());
            let wide = _mm512_cvtepu32_epi64(words);
            _mm512_mask_storeu_epi32(out.as_mut_ptr().add(2 * first).cast(), write, wide);
        }
    }
}

#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl")]
fn fold_max<S: super::engine::Sum>(
    largest: &mut Largest,
    values: &[S],
    stride: usize,
    rows: usize,
    count: usize,
) {
    pack::fold_max(largest, values, stride, rows, count);
}

/// Transposes by blocks of eight by eight, the last rows and columns under masks.
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl")]
fn transpose(
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
    for column in (0..columns).step_by(8) {
        let width = (columns - column).min(8);
        for row in (0..rows).step_by(8) {
            let height = (rows - row).min(8);
            if height == 1 {
                for (i, &unit) in source[row * source_stride + column..][..width].iter().enumerate()
                {
                    out[(column + i) * out_stride + row] = unit;
                }
                continue;
            }
            // SAFETY: the block of `height` rows and `width` columns lies within what was
            // asserted; masks keep the rest of each vector from memory.
            unsafe {
                let from = source.as_ptr().add(row * source_stride + column);
                let to = out.as_mut_ptr().add(column * out_stride + row);
                transpose_block(from, source_stride, height, width, to, out_stride);
            }
        }
    }
}

/// # Safety
/// `height` rows of `width` units (at most eight each) can be read at `from`, and their
/// transposition written at `to`.
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl")]
#[inline]
unsafe fn transpose_block(
    from: *const u32,
    stride: usize,
    height: usize,
    width: usize,
    to: *mut u32,
    out_stride: usize,
) {
    let read = (0xffu32 >> (8 - width)) as u8;
    let write = (0xffu32 >> (8 - height)) as u8;
    // SAFETY: the caller's promise; masked lanes are not accessed.
    unsafe {
        let row = |i: usize| {
            if i < height {
                _mm256_maskz_loadu_epi32(read, from.add(i * stride).cast())
            } else {
                _mm256_setzero_si256()
            }
        };
        let (r0, r1, r2, r3) = (row(0), row(1), row(2), row(3));
        let (r4, r5, r6, r7) = (row(4), row(5), row(6), row(7));
        let (a0, a1) = (_mm256_unpacklo_epi32(r0, r1), _mm256_unpackhi_epi32(r0, r1));
        let (a2, a3) = (_mm256_unpacklo_epi32(r2, r3), _mm256_unpackhi_epi32(r2, r3));
        let (a4, a5) = (_mm256_unpacklo_epi32(r4, r5), _mm256_unpackhi_epi32(r4, r5));
        let (a6, a7) = (_mm256_unpacklo_epi32(r6, r7), _mm256_unpackhi_epi32(r6, r7));
        let (b0, b1) = (_mm256_unpacklo_epi64(a0, a2), _mm256_unpackhi_epi64(a0, a2));
        let (b2, b3) = (_mm256_unpacklo_epi64(a1, a3), _mm256_unpackhi_epi64(a1, a3));
        let (b4, b5) = (_mm256_unpacklo_epi64(a4, a6), _mm256_unpackhi_epi64(a4, a6));
        let (b6, b7) = (_mm256_unpacklo_epi64(a5, a7), _mm256_unpackhi_epi64(a5, a7));
        let store = |i: usize, value| {
            if i < width {
                _mm256_mask_storeu_epi32(to.add(i * out_stride).cast(), write, value);
            }
        };
        store(0, _mm256_permute2x128_si256::<0x20>(b0, b4));
        store(1, _mm256_permute2x128_si256::<0x20>(b1, b5));
        store(2, _mm256_permute2x128_si256::<0x20>(b2, b6));
        store(3, _mm256_permute2x128_si256::<0x20>(b3, b7));
        store(4, _mm256_permute2x128_si256::<0x31>(b0, b4));
        store(5, _mm256_permute2x128_si256::<0x31>(b1, b5));
        store(6, _mm256_permute2x128_si256::<0x31>(b2, b6));
        store(7, _mm256_permute2x128_si256::<0x31>(b3, b7));
    }
}

/// [`Engine::bias`]: minus 128 times the sum of each row, by dot products with ones.
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,avx512vnni")]
fn quad_bias(panel: &[u32], rows: usize, bias: &mut [i32]) {
    assert!(rows >= 1 && bias.len() >= rows, "a sum for each row");
    for first in (0..rows).step_by(16) {
        let mask = (0xffffu32 >> (16 - (rows - first).min(16))) as u16;
        // SAFETY: masks keep every access within a step of the panel, or the bias.
        unsafe {
            let ones = _mm512_set1_epi8(1);
            let mut sums = _mm512_setzero_si512();
            for step in panel.chunks_exact(rows) {
                let units = _mm512_maskz_loadu_epi32(mask, step.as_ptr().add(first).cast());
                sums = _mm512_dpbusd_epi32(sums, ones, units);
            }
            let minus = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32::<7>(sums));
            _mm512_mask_storeu_epi32(bias.as_mut_ptr().add(first), mask, minus);
        }
    }
}

/// # Safety
/// As [`Engine::tile`] with `R` rows, or [`Engine::measured_tile`]; the machine has AVX-512 VNNI.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
#[allow(clippy::too_many_arguments, reason = "the operands of one product")]
unsafe fn dots<const R: usize>(
    a: *const u32,
    b: *const u32,
    nest: &Nest,
    bias: *const i32,
    accumulate: bool,
    c: *mut i32,
    c_stride: usize,
    largest: Option<&mut Largest>,
) {
    let mut sums = [_mm512_setzero_si512(); R];
    // SAFETY: every access is one that the caller promises to be in bounds.
    unsafe {
        for (r, sum) in sums.iter_mut().enumerate() {
            *sum = _mm512_set1_epi32(*bias.add(r));
            if accumulate {
                let from: *const i32 = c.add(r * c_stride);
                *sum = _mm512_add_epi32(*sum, _mm512_loadu_si512(from.cast()));
            }
        }
        for outer in 0..nest.outer {
            for middle in 0..nest.middle {
                let mut at = b.offset(nest.middle_start(outer, middle));
                let mut a = a.add(nest.panel_start(outer, middle) * R);
                for _ in 0..nest.inner {
                    let lanes = _mm512_loadu_si512(at.cast());
                    for (r, sum) in sums.iter_mut().enumerate() {
                        let factor = _mm512_set1_epi32(*a.add(r) as i32);
                        *sum = _mm512_dpbusd_epi32(*sum, lanes, factor);
                    }
                    a = a.add(R);
                    at = at.wrapping_offset(nest.inner_step);
                }
            }
        }
        for (r, &sum) in sums.iter().enumerate() {
            _mm512_storeu_si512(c.add(r * c_stride).cast(), sum);
        }
        // Of the registers: rows that lie a power of two apart share lines of the nearest cache, which may have left it.
        if let Some(Largest(lanes)) = largest {
            let mut most = _mm512_loadu_si512(lanes.as_ptr().cast());
            for &sum in &sums {
                most = _mm512_max_epu32(most, _mm512_abs_epi32(sum));
            }
            _mm512_storeu_si512(lanes.as_mut_ptr().cast(), most);
        }
    }
}

/// # Safety
/// As [`Engine::tile`] with `R` rows.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn singles<const R: usize>(
    a: *const u32,
    b: *const u32,
    nest: &Nest,
    _bias: *const f32,
    accumulate: bool,
    c: *mut f32,
    c_stride: usize,
) {
    let mut sums = [_mm512_setzero_ps(); R];
    // SAFETY: every access is one that the caller promises to be in bounds.
    unsafe {
        if accumulate {
            for (r, sum) in sums.iter_mut().enumerate() {
                *sum = _mm512_loadu_ps(c.add(r * c_stride));
            }
        }
        for outer in 0..nest.outer {
            for middle in 0..nest.middle {
                let mut at = b.offset(nest.middle_start(outer, middle));
                let mut a = a.add(nest.panel_start(outer, middle) * R);
                for _ in 0..nest.inner {
                    let lanes = _mm512_loadu_ps(at.cast());
                    for (r, sum) in sums.iter_mut().enumerate() {
                        let factor = _mm512_set1_ps(f32::from_bits(*a.add(r)));
                        *sum = _mm512_add_ps(*sum, _mm512_mul_ps(factor, lanes));
                    }
                    a = a.add(R);
                    at = at.wrapping_offset(nest.inner_step);
                }
            }
        }
        for (r, &sum) in sums.iter().enumerate() {
            _mm512_storeu_ps(c.add(r * c_stride), sum);
        }
    }
}
