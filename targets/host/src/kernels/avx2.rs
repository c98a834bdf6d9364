//! Engines for x86-64 with AVX2, and with its 256-bit dot products.

use core::arch::x86_64::*;

use super::engine::{Engine, Largest, Nest, Run, Side};
use super::{pack, portable};

const ROWS: usize = 6;
const LANES: usize = 16;

/// `i8` products over pairs of widened `i16` (`vpmaddwd`, exact).
pub(crate) struct PairsI8;

/// `i8` products over quadruples (`vpdpbusd`, exact).
pub(crate) struct DotI8;

/// `f32` products, multiplication and addition apart.
pub(crate) struct SinglesF32;

/// The passes that need nothing but their target feature.
macro_rules! avx2_passes {
    ($sum:ty) => {
        fn transpose(
            source: &[u32],
            source_stride: usize,
            rows: usize,
            columns: usize,
            out: &mut [u32],
            out_stride: usize,
        ) {
            // SAFETY: this engine runs only where the machine has AVX2.
            unsafe { transpose(source, source_stride, rows, columns, out, out_stride) }
        }

        fn gather(source: &[u32], offsets: &[usize], runs: &[Run], step: usize, out: &mut [u32]) {
            // SAFETY: as above.
            unsafe { gather(source, offsets, runs, step, out) }
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

/// Calls `$tile::<rows>` for a number of rows known at run time.
macro_rules! by_rows {
    ($rows:expr, $tile:ident $arguments:tt; $($count:literal)*) => {
        match $rows {
            $($count => $tile::<$count> $arguments,)*
            _ => unreachable!("a tile has at most ROWS rows"),
        }
    };
}
pub(crate) use by_rows;

impl Engine for PairsI8 {
    type Element = i8;
    type Sum = i32;
    const DEPTH: usize = 2;
    const ROWS: usize = ROWS;
    const LANES: usize = LANES;
    const LANE_ZERO: u32 = 0;

    fn interleave(_: Side, source: &[i8], stride: usize, count: usize, out: &mut [u32]) {
        #[target_feature(enable = "avx2")]
        fn inner(source: &[i8], stride: usize, count: usize, out: &mut [u32]) {
            portable::interleave_pairs(source, stride, count, out);
        }
        // SAFETY: this engine runs only where the machine has AVX2.
        unsafe { inner(source, stride, count, out) }
    }

    fn widen(_: Side, source: &[i8], out: &mut [u32]) {
        #[target_feature(enable = "avx2")]
        fn inner(source: &[i8], out: &mut [u32]) {
            portable::widen_pairs(source, out);
        }
        // SAFETY: as above.
        unsafe { inner(source, out) }
    }

    avx2_passes!(i32);

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
        // SAFETY: the caller's promise, and the machine has AVX2.
        unsafe {
            by_rows!(rows, pairs(a, b, nest, bias, accumulate, c, c_stride); 1 2 3 4 5 6);
        }
    }
}

impl Engine for DotI8 {
    type Element = i8;
    type Sum = i32;
    const DEPTH: usize = 4;
    const ROWS: usize = ROWS;
    const LANES: usize = LANES;
    const LANE_ZERO: u32 = 0x8080_8080;

    fn interleave(side: Side, source: &[i8], stride: usize, count: usize, out: &mut [u32]) {
        // SAFETY: this engine runs only where the machine has AVX2.
        unsafe { interleave_quads(side, source, stride, count, out) }
    }

    fn widen(side: Side, source: &[i8], out: &mut [u32]) {
        widen_quads(side, source, out);
    }

    avx2_passes!(i32);

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
        // SAFETY: the caller's promise, and the machine has AVX2 and AVX-VNNI.
        unsafe {
            by_rows!(rows, dots(a, b, nest, bias, accumulate, c, c_stride); 1 2 3 4 5 6);
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

    avx2_passes!(f32);

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
        // SAFETY: the caller's promise, and the machine has AVX2.
        unsafe {
            by_rows!(rows, singles(a, b, nest, bias, accumulate, c, c_stride); 1 2 3 4 5 6);
        }
    }
}

#[target_feature(enable = "avx2")]
fn gather(source: &[u32], offsets: &[usize], runs: &[Run], step: usize, out: &mut [u32]) {
    pack::gather(source, offsets, runs, step, LANES, out);
}

#[target_feature(enable = "avx2")]
fn fold_max<S: super::engine::Sum>(
    largest: &mut Largest,
    values: &[S],
    stride: usize,
    rows: usize,
    count: usize,
) {
    pack::fold_max(largest, values, stride, rows, count);
}

/// Transposes by blocks of eight by eight; the edges go the portable way.
#[target_feature(enable = "avx2")]
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
    let (whole_rows, whole_columns) = (rows / 8 * 8, columns / 8 * 8);
    for column in (0..whole_columns).step_by(8) {
        for row in (0..whole_rows).step_by(8) {
            // SAFETY: the block lies within the whole rows and columns that were asserted.
            unsafe {
                let from = source.as_ptr().add(row * source_stride + column);
                let to = out.as_mut_ptr().add(column * out_stride + row);
                transpose_block(from, source_stride, to, out_stride);
            }
        }
    }
    if whole_rows < rows && whole_columns > 0 {
        let from = &source[whole_rows * source_stride..];
        let to = &mut out[whole_rows..];
        pack::transpose(from, source_stride, rows - whole_rows, whole_columns, to, out_stride);
    }
    if whole_columns < columns {
        let from = &source[whole_columns..];
        let to = &mut out[whole_columns * out_stride..];
        pack::transpose(from, source_stride, rows, columns - whole_columns, to, out_stride);
    }
}

/// # Safety
/// Eight rows of eight units can be read at `from`, and written at `to`.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn transpose_block(from: *const u32, stride: usize, to: *mut u32, out_stride: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let row = |i: usize| _mm256_loadu_si256(from.add(i * stride).cast());
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
        let store = |i: usize, value| _mm256_storeu_si256(to.add(i * out_stride).cast(), value);
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

/// What the encoding of a side flips: lanes are unsigned, 128 above their value.
#[inline(always)]
fn flip(side: Side) -> u32 {
    match side {
        Side::Rows => 0,
        Side::Lanes => 0x8080_8080,
    }
}

/// [`Engine::widen`] for quadruples.
pub(crate) fn widen_quads(side: Side, source: &[i8], out: &mut [u32]) {
    let flip = flip(side);
    let (quads, rest) = source.as_chunks::<4>();
    for (unit, quad) in out.iter_mut().zip(quads) {
        *unit = u32::from_le_bytes(quad.map(|byte| byte as u8)) ^ flip;
    }
    if quads.len() < out.len() {
        let mut last = [0u8; 4];
        for (byte, &value) in last.iter_mut().zip(rest) {
            *byte = value as u8;
        }
        out[quads.len()] = u32::from_le_bytes(last) ^ flip;
        out[quads.len() + 1..].fill(flip);
    }
}

/// [`Engine::interleave`] for quadruples.
#[target_feature(enable = "avx2")]
pub(crate) fn interleave_quads(
    side: Side,
    source: &[i8],
    stride: usize,
    count: usize,
    out: &mut [u32],
) {
    let flip = flip(side);
    let length = out.len();
    assert!(count >= 1 && source.len() >= (count - 1) * stride + length, "streams");
    // A missing stream reads the first one and is masked away.
    let place = |stream: usize| if stream < count { stream * stride } else { 0 };
    let places = [0, place(1), place(2), place(3)];
    let mask = u32::MAX >> (8 * (4 - count.min(4)));
    let mut done = 0;
    // SAFETY: each load reads 16, 8 or 4 operands of a stream that has `length`, each store writes
    // as many units as were read.
    unsafe {
        let masks = _mm_set1_epi32(mask as i32);
        let flips = _mm_set1_epi32(flip as i32);
        let encode = |units| _mm_xor_si128(_mm_and_si128(units, masks), flips);
        while done + 16 <= length {
            let load = |place: usize| _mm_loadu_si128(source.as_ptr().add(place + done).cast());
            let (s0, s1) = (load(places[0]), load(places[1]));
            let (s2, s3) = (load(places[2]), load(places[3]));
            let (low01, high01) = (_mm_unpacklo_epi8(s0, s1), _mm_unpackhi_epi8(s0, s1));
            let (low23, high23) = (_mm_unpacklo_epi8(s2, s3), _mm_unpackhi_epi8(s2, s3));
            let to: *mut __m128i = out.as_mut_ptr().add(done).cast();
            _mm_storeu_si128(to, encode(_mm_unpacklo_epi16(low01, low23)));
            _mm_storeu_si128(to.add(1), encode(_mm_unpackhi_epi16(low01, low23)));
            _mm_storeu_si128(to.add(2), encode(_mm_unpacklo_epi16(high01, high23)));
            _mm_storeu_si128(to.add(3), encode(_mm_unpackhi_epi16(high01, high23)));
            done += 16;
        }
        while done + 4 <= length {
            let load = |place: usize| {
                _mm_cvtsi32_si128(source.as_ptr().add(place + done).cast::<i32>().read_unaligned())
            };
            let low01 = _mm_unpacklo_epi8(load(places[0]), load(places[1]));
            let low23 = _mm_unpacklo_epi8(load(places[2]), load(places[3]));
            let to: *mut __m128i = out.as_mut_ptr().add(done).cast();
            _mm_storeu_si128(to, encode(_mm_unpacklo_epi16(low01, low23)));
            done += 4;
        }
    }
    for i in done..length {
        let quad = places.map(|place| source[place + i] as u8);
        out[i] = (u32::from_le_bytes(quad) & mask) ^ flip;
    }
}

/// [`Engine::bias`] for quadruples: minus 128 times the sum of each row.
#[target_feature(enable = "avx2")]
pub(crate) fn quad_bias(panel: &[u32], rows: usize, bias: &mut [i32]) {
    let bias = &mut bias[..rows];
    bias.fill(0);
    for step in panel.chunks_exact(rows) {
        for (sum, unit) in bias.iter_mut().zip(step) {
            let bytes = unit.to_le_bytes().map(|byte| i32::from(byte as i8));
            *sum = sum.wrapping_sub(bytes.into_iter().sum::<i32>() << 7);
        }
    }
}

/// # Safety
/// As [`Engine::tile`] with `R` rows.
#[target_feature(enable = "avx2")]
unsafe fn pairs<const R: usize>(
    a: *const u32,
    b: *const u32,
    nest: &Nest,
    _bias: *const i32,
    accumulate: bool,
    c: *mut i32,
    c_stride: usize,
) {
    let mut sums = [[_mm256_setzero_si256(); 2]; R];
    // SAFETY: every access is one that the caller promises to be in bounds.
    unsafe {
        if accumulate {
            for (r, sums) in sums.iter_mut().enumerate() {
                let from: *const __m256i = c.add(r * c_stride).cast();
                *sums = [_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1))];
            }
        }
        for outer in 0..nest.outer {
            for middle in 0..nest.middle {
                let mut at = b.offset(nest.middle_start(outer, middle));
                let mut a = a.add(nest.panel_start(outer, middle) * R);
                for _ in 0..nest.inner {
                    let b0 = _mm256_loadu_si256(at.cast());
                    let b1 = _mm256_loadu_si256(at.add(8).cast());
                    for (r, sums) in sums.iter_mut().enumerate() {
                        let factor = _mm256_set1_epi32(*a.add(r) as i32);
                        sums[0] = _mm256_add_epi32(sums[0], _mm256_madd_epi16(factor, b0));
                        sums[1] = _mm256_add_epi32(sums[1], _mm256_madd_epi16(factor, b1));
                    }
                    a = a.add(R);
                    at = at.wrapping_offset(nest.inner_step);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            let to: *mut __m256i = c.add(r * c_stride).cast();
            _mm256_storeu_si256(to, sums[0]);
            _mm256_storeu_si256(to.add(1), sums[1]);
        }
    }
}

/// # Safety
/// As [`Engine::tile`] with `R` rows; the machine has AVX-VNNI.
#[target_feature(enable = "avx2,avxvnni")]
unsafe fn dots<const R: usize>(
    a: *const u32,
    b: *const u32,
    nest: &Nest,
    bias: *const i32,
    accumulate: bool,
    c: *mut i32,
    c_stride: usize,
) {
    let mut sums = [[_mm256_setzero_si256(); 2]; R];
    // SAFETY: every access is one that the caller promises to be in bounds.
    unsafe {
        for (r, sums) in sums.iter_mut().enumerate() {
            *sums = [_mm256_set1_epi32(*bias.add(r)); 2];
            if accumulate {
                let from: *const __m256i = c.add(r * c_stride).cast();
                sums[0] = _mm256_add_epi32(sums[0], _mm256_loadu_si256(from));
                sums[1] = _mm256_add_epi32(sums[1], _mm256_loadu_si256(from.add(1)));
            }
        }
        for outer in 0..nest.outer {
            for middle in 0..nest.middle {
                let mut at = b.offset(nest.middle_start(outer, middle));
                let mut a = a.add(nest.panel_start(outer, middle) * R);
                for _ in 0..nest.inner {
                    let b0 = _mm256_loadu_si256(at.cast());
                    let b1 = _mm256_loadu_si256(at.add(8).cast());
                    for (r, sums) in sums.iter_mut().enumerate() {
                        let factor = _mm256_set1_epi32(*a.add(r) as i32);
                        sums[0] = _mm256_dpbusd_avx_epi32(sums[0], b0, factor);
                        sums[1] = _mm256_dpbusd_avx_epi32(sums[1], b1, factor);
                    }
                    a = a.add(R);
                    at = at.wrapping_offset(nest.inner_step);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            let to: *mut __m256i = c.add(r * c_stride).cast();
            _mm256_storeu_si256(to, sums[0]);
            _mm256_storeu_si256(to.add(1), sums[1]);
        }
    }
}

/// # Safety
/// As [`Engine::tile`] with `R` rows.
#[target_feature(enable = "avx2")]
unsafe fn singles<const R: usize>(
    a: *const u32,
    b: *const u32,
    nest: &Nest,
    _bias: *const f32,
    accumulate: bool,
    c: *mut f32,
    c_stride: usize,
) {
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    // SAFETY: every access is one that the caller promises to be in bounds.
    unsafe {
        if accumulate {
            for (r, sums) in sums.iter_mut().enumerate() {
                let from = c.add(r * c_stride);
                *sums = [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))];
            }
        }
        for outer in 0..nest.outer {
            for middle in 0..nest.middle {
                let mut at = b.offset(nest.middle_start(outer, middle));
                let mut a = a.add(nest.panel_start(outer, middle) * R);
                for _ in 0..nest.inner {
                    let b0 = _mm256_loadu_ps(at.cast());
                    let b1 = _mm256_loadu_ps(at.add(8).cast());
                    for (r, sums) in sums.iter_mut().enumerate() {
                        let factor = _mm256_set1_ps(f32::from_bits(*a.add(r)));
                        sums[0] = _mm256_add_ps(sums[0], _mm256_mul_ps(factor, b0));
                        sums[1] = _mm256_add_ps(sums[1], _mm256_mul_ps(factor, b1));
                    }
                    a = a.add(R);
                    at = at.wrapping_offset(nest.inner_step);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            let to = c.add(r * c_stride);
            _mm256_storeu_ps(to, sums[0]);
            _mm256_storeu_ps(to.add(8), sums[1]);
        }
    }
}
