//! Convolutions of packed bits that stand for 1 and -1: sums by exclusive or and counts of ones.
//!
//! Weights are laid out in blocks of features, word by word, so that a word of the map is counted against a vector of features; two
//! neighbouring pixels share what is loaded of them. Where there are few pixels (fully connected layers), that would cost more than it
//! gains, and vectors go along the weights of a feature.

use super::bit_thresholds::{BitThresholds, reached_on};
#[cfg(target_arch = "x86_64")]
use super::features;
use super::path::{KernelPath, active_path};
use super::scratch::{Scratch, words_bytes};
use super::threads;

/// A convolution of bits, channels last: map `[batch, height, width, bytes]`, weights `[features, rows, columns, bytes]`, sums `[batch,
/// y_height, y_width, features]`. Taps outside the map add nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitGeometry {
    /// Images.
    pub batch: usize,
    /// Height and width of the map.
    pub x: [usize; 2],
    /// Bytes of a pixel.
    pub bytes: usize,
    /// Channels, of which a tap in the map adds that many less twice the number of bits that differ.
    pub channels: usize,
    /// Output channels.
    pub features: usize,
    /// Rows and columns of the weights.
    pub kernel: [usize; 2],
    /// Height and width of the result.
    pub y: [usize; 2],
    /// Vertical, horizontal.
    pub strides: [usize; 2],
    /// Top, left.
    pub pads: [usize; 2],
}

/// Features of a block.
const BLOCK: usize = 64;
/// Pixels below which weights are not laid out.
const FEW: usize = 8;
/// Products of bits that take as long as a multiplication.
const PRODUCTS: usize = 16;

impl BitGeometry {
    fn pixels(&self) -> usize {
        self.batch * self.y[0] * self.y[1]
    }

    /// Bytes of a feature's weights.
    fn feature(&self) -> usize {
        self.kernel[0] * self.kernel[1] * self.bytes
    }

    /// Products of bits.
    #[must_use]
    pub fn products(&self) -> usize {
        self.pixels() * self.features * self.feature() * 8
    }

    /// Words of the map, and of the weights in blocks; of few pixels nothing is laid out.
    fn laid_out(&self) -> [usize; 2] {
        if self.pixels() < FEW {
            return [0; 2];
        }
        let words = self.bytes.div_ceil(4);
        let taps = self.kernel[0] * self.kernel[1];
        let blocks = self.features.div_ceil(BLOCK);
        [self.batch * self.x[0] * self.x[1] * words, blocks * taps * words * BLOCK]
    }

    /// The taps of a window that lie in the map: of `axis`, at that place of the result.
    fn taps(&self, axis: usize, at: usize) -> core::ops::Range<usize> {
        let start = at * self.strides[axis];
        let first = self.pads[axis].saturating_sub(start).min(self.kernel[axis]);
        let end = (self.x[axis] + self.pads[axis]).saturating_sub(start).min(self.kernel[axis]);
        first..end.max(first)
    }
}

/// Bytes of the scratch of [`conv2d_bits`] and [`conv2d_bits_thresholds`].
#[must_use]
pub fn conv2d_bits_scratch_bytes(g: &BitGeometry) -> usize {
    g.laid_out().map(words_bytes).iter().sum::<usize>() + Scratch::LOSS
}

/// The sums of a convolution.
///
/// # Panics
/// When an operand does not have the size of the shape, or the scratch is too small.
pub fn conv2d_bits(g: &BitGeometry, x: &[u8], w: &[u8], out: &mut [i32], scratch: &mut [u8]) {
    conv2d_bits_on(active_path(), g, x, w, out, scratch);
}

/// [`conv2d_bits`] on a given path.
///
/// # Panics
/// Likewise, and when the machine lacks the path.
pub fn conv2d_bits_on(
    path: KernelPath,
    g: &BitGeometry,
    x: &[u8],
    w: &[u8],
    out: &mut [i32],
    scratch: &mut [u8],
) {
    product(path, g, x, w, 1, out, scratch, &|_, sums, out| out.copy_from_slice(sums));
}

/// The bits of sums that reach thresholds; features are a whole number of bytes.
///
/// # Panics
/// As [`conv2d_bits`].
pub fn conv2d_bits_thresholds(
    g: &BitGeometry,
    x: &[u8],
    w: &[u8],
    thresholds: BitThresholds<'_>,
    out: &mut [u8],
    scratch: &mut [u8],
) {
    conv2d_bits_thresholds_on(active_path(), g, x, w, thresholds, out, scratch);
}

/// [`conv2d_bits_thresholds`] on a given path.
///
/// # Panics
/// Likewise, and when the machine lacks the path.
pub fn conv2d_bits_thresholds_on(
    path: KernelPath,
    g: &BitGeometry,
    x: &[u8],
    w: &[u8],
    BitThresholds { least, flips }: BitThresholds<'_>,
    out: &mut [u8],
    scratch: &mut [u8],
) {
    assert!(g.features.is_multiple_of(8) && least.len() == g.features, "thresholds");
    let reached = reached_on(path);
    product(path, g, x, w, 8, out, scratch, &|first, sums, out| {
        let own = first..first + sums.len();
        let flips = flips.map(|flips| &flips[own.clone()]);
        reached(sums, BitThresholds { least: &least[own], flips }, out);
    });
}

/// Sums, of which `per` features are an element of `out`: `finish` makes elements of the sums from a feature on.
#[allow(clippy::too_many_arguments, reason = "the operands of one product")]
fn product<T: Send>(
    path: KernelPath,
    g: &BitGeometry,
    x: &[u8],
    w: &[u8],
    per: usize,
    out: &mut [T],
    scratch: &mut [u8],
    finish: &(impl Fn(usize, &[i32], &mut [T]) + Sync),
) {
    let map = g.batch * g.x[0] * g.x[1] * g.bytes;
    let sizes = [map, g.features * g.feature(), g.pixels() * g.features / per];
    assert_eq!([x.len(), w.len(), out.len()], sizes, "elements of a product of bits");
    let work = g.products() / PRODUCTS;
    if g.pixels() < FEW {
        threads::fill(out, 8 / per, work, &|start, out| {
            let first = start * (8 / per) * per;
            along_weights(path, g, x, w, first, per, out, finish);
        });
        return;
    }
    let words = g.bytes.div_ceil(4);
    let taps = g.kernel[0] * g.kernel[1];
    let mut scratch = Scratch::new(scratch);
    let [map, weights] = g.laid_out().map(|length| scratch.units(length));
    for (to, from) in map.chunks_exact_mut(words).zip(x.chunks_exact(g.bytes)) {
        words_of(from, to);
    }
    threads::fill(weights, BLOCK, w.len(), &|start, out| {
        for (number, out) in (start..).zip(out.chunks_exact_mut(BLOCK)) {
            let (block, place) = (number / (taps * words), number % (taps * words));
            lay_out(g, w, block * BLOCK, [place / words, place % words], out);
        }
    });
    let (map, weights) = (&*map, &*weights);
    let row = g.y[1] * g.features / per;
    threads::fill(out, row, work, &|start, out| {
        rows(path, g, map, weights, start, per, out, finish);
    });
}

/// The words of a pixel.
fn words_of(pixel: &[u8], to: &mut [u32]) {
    let (whole, rest) = pixel.as_chunks();
    for (to, &word) in to.iter_mut().zip(whole) {
        *to = u32::from_le_bytes(word);
    }
    if !rest.is_empty() {
        to[whole.len()] = word_of(pixel, whole.len());
    }
}

/// A word of a tap of the weights of a block of features, zeros beyond the last.
fn lay_out(g: &BitGeometry, w: &[u8], first: usize, [tap, at]: [usize; 2], out: &mut [u32]) {
    let (start, end) = (tap * g.bytes, (tap + 1) * g.bytes);
    let whole = 4 * at + 4 <= g.bytes;
    for (to, feature) in out.iter_mut().zip(first..) {
        *to = match w.get(feature * g.feature() + start..feature * g.feature() + end) {
            Some(from) if whole => u32::from_le_bytes([
                from[4 * at],
                from[4 * at + 1],
                from[4 * at + 2],
                from[4 * at + 3],
            ]),
            Some(from) => word_of(from, at),
            None => 0,
        };
    }
}

/// Word `at` of a pixel, filled up by zeros.
fn word_of(pixel: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    let from = &pixel[4 * at..pixel.len().min(4 * at + 4)];
    word[..from.len()].copy_from_slice(from);
    u32::from_le_bytes(word)
}

/// Rows `start..` of the result, as many as `out` has.
#[allow(clippy::too_many_arguments, reason = "the operands of one product")]
fn rows<T>(
    path: KernelPath,
    g: &BitGeometry,
    map: &[u32],
    weights: &[u32],
    start: usize,
    per: usize,
    out: &mut [T],
    finish: &impl Fn(usize, &[i32], &mut [T]),
) {
    let words = g.bytes.div_ceil(4);
    let block_words = g.kernel[0] * g.kernel[1] * words * BLOCK;
    let [y_height, y_width] = g.y;
    let pixel = g.features / per;
    let count = counts_on(path);
    for (block, weights) in weights.chunks_exact(block_words).enumerate() {
        let first = block * BLOCK;
        let features = (g.features - first).min(BLOCK);
        for (row, out) in (start..).zip(out.chunks_exact_mut(y_width * pixel)) {
            let vertical = g.taps(0, row % y_height);
            let top = row % y_height * g.strides[0];
            let line = |kh: usize| (row / y_height * g.x[0] + top + kh - g.pads[0]) * g.x[1];
            let mut ow = 0;
            while ow < y_width {
                let taps = g.taps(1, ow);
                let two = ow + 1 < y_width && g.taps(1, ow + 1) == taps;
                let left = ow * g.strides[1] + taps.start;
                let mut differ = [[0u32; BLOCK]; 2];
                // A window that lies wholly beside the map has no taps.
                if !taps.is_empty() && !vertical.is_empty() {
                    let from = (line(vertical.start) + left - g.pads[1]) * words;
                    let tap = vertical.start * g.kernel[1] + taps.start;
                    let windows = Windows {
                        map: &map[from..],
                        next: two.then_some(g.strides[1] * words),
                        weights: &weights[tap * words * BLOCK..],
                        rows: vertical.len(),
                        length: taps.len() * words,
                        steps: [g.x[1] * words, g.kernel[1] * words * BLOCK],
                    };
                    count(&windows, &mut differ);
                }
                let all = (vertical.len() * taps.len() * g.channels) as i32;
                for differ in &differ[..1 + usize::from(two)] {
                    let sums = differ.map(|differ| all - 2 * differ as i32);
                    let out = &mut out[ow * pixel + first / per..][..features / per];
                    finish(first, &sums[..features], out);
                    ow += 1;
                }
            }
        }
    }
}

/// The windows of one or two neighbouring pixels, and a block's weights.
struct Windows<'a> {
    /// The map from the first tap on.
    map: &'a [u32],
    /// Words from the first pixel's window to the second's, where there are two.
    next: Option<usize>,
    /// The weights from that tap on.
    weights: &'a [u32],
    /// Rows of taps, and words of a row.
    rows: usize,
    length: usize,
    /// Words from a row to the next: of the map, of the weights.
    steps: [usize; 2],
}

impl<'a> Windows<'a> {
    /// Each row: the words of `P` pixels, and the weights.
    fn rows<const P: usize>(&self) -> impl Iterator<Item = ([&'a [u32]; P], &'a [u32])> {
        let Windows { map, next, weights, length, steps, .. } = *self;
        (0..self.rows).map(move |row| {
            let pixel = |p: usize| &map[row * steps[0] + p * next.unwrap_or(0)..][..length];
            (core::array::from_fn(pixel), &weights[row * steps[1]..][..length * BLOCK])
        })
    }
}

/// How many bits of each pixel's window differ from those of a block's features.
type Counts = fn(&Windows<'_>, &mut [[u32; BLOCK]; 2]);

fn counts_on(path: KernelPath) -> Counts {
    assert!(path.is_available(), "this machine lacks the path {}", path.name());
    #[cfg(target_arch = "x86_64")]
    {
        if path.has_avx512() && features::counts_ones() {
            // SAFETY: the machine has the features.
            return |windows, differ| unsafe { counts_avx512(windows, differ) };
        }
        if path != KernelPath::Portable {
            // SAFETY: an available path means that the machine has its features.
            return |windows, differ| unsafe { counts_avx2(windows, differ) };
        }
    }
    counts
}

#[inline(always)]
fn counts(windows: &Windows<'_>, differ: &mut [[u32; BLOCK]; 2]) {
    let pixels = 1 + usize::from(windows.next.is_some());
    for (row, weights) in windows.rows::<2>() {
        for (pixel, differ) in row.iter().zip(differ.iter_mut()).take(pixels) {
            for (&word, weights) in pixel.iter().zip(weights.chunks_exact(BLOCK)) {
                for (differ, weight) in differ.iter_mut().zip(weights) {
                    *differ += (word ^ weight).count_ones();
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn counts_avx2(windows: &Windows<'_>, differ: &mut [[u32; BLOCK]; 2]) {
    counts(windows, differ);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn counts_avx512(windows: &Windows<'_>, differ: &mut [[u32; BLOCK]; 2]) {
    if windows.next.is_some() {
        vectors::<2>(windows, differ);
    } else {
        vectors::<1>(windows, differ);
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn vectors<const P: usize>(windows: &Windows<'_>, differ: &mut [[u32; BLOCK]; 2]) {
    use core::arch::x86_64::{
        _mm512_add_epi32, _mm512_loadu_si512, _mm512_popcnt_epi32, _mm512_set1_epi32,
        _mm512_setzero_si512, _mm512_storeu_si512, _mm512_xor_si512,
    };
    const VECTORS: usize = BLOCK / 16;
    let mut sums = [[_mm512_setzero_si512(); P]; VECTORS];
    for (pixels, weights) in windows.rows::<P>() {
        for (at, weights) in weights.chunks_exact(BLOCK).enumerate() {
            for (sums, weights) in sums.iter_mut().zip(weights.chunks_exact(16)) {
                // SAFETY: sixteen words are a vector.
                let weights = unsafe { _mm512_loadu_si512(weights.as_ptr().cast()) };
                for (sum, pixel) in sums.iter_mut().zip(&pixels) {
                    let word = _mm512_set1_epi32(pixel[at] as i32);
                    let ones = _mm512_popcnt_epi32(_mm512_xor_si512(word, weights));
                    *sum = _mm512_add_epi32(*sum, ones);
                }
            }
        }
    }
    for (v, sums) in sums.iter().enumerate() {
        for (differ, &sum) in differ.iter_mut().zip(sums) {
            let differ = &mut differ[16 * v..16 * v + 16];
            // SAFETY: as above.
            unsafe { _mm512_storeu_si512(differ.as_mut_ptr().cast(), sum) };
        }
    }
}

/// Sums from number `start` on, as many as `out` has elements of `per`, with the weights as they are.
#[allow(clippy::too_many_arguments, reason = "the operands of one product")]
fn along_weights<T>(
    path: KernelPath,
    g: &BitGeometry,
    x: &[u8],
    w: &[u8],
    start: usize,
    per: usize,
    out: &mut [T],
    finish: &impl Fn(usize, &[i32], &mut [T]),
) {
    let count = ones_on(path);
    let sum = |number: usize| {
        let (pixel, feature) = (number / g.features, number % g.features);
        let (row, ow) = (pixel / g.y[1], pixel % g.y[1]);
        let (image, oh) = (row / g.y[0], row % g.y[0]);
        let (vertical, horizontal) = (g.taps(0, oh), g.taps(1, ow));
        let length = horizontal.len() * g.bytes;
        let mut differ = 0;
        for kh in vertical.clone().filter(|_| length > 0) {
            let line = (image * g.x[0] + oh * g.strides[0] + kh - g.pads[0]) * g.x[1];
            let from = (line + ow * g.strides[1] + horizontal.start - g.pads[1]) * g.bytes;
            let own = feature * g.feature() + (kh * g.kernel[1] + horizontal.start) * g.bytes;
            differ += count(&x[from..from + length], &w[own..own + length]);
        }
        (vertical.len() * horizontal.len() * g.channels) as i32 - 2 * differ as i32
    };
    for (at, out) in out.iter_mut().enumerate() {
        let first = start + at * per;
        let mut sums = [0; 8];
        sums.iter_mut().zip(first..).take(per).for_each(|(to, number)| *to = sum(number));
        finish(first % g.features, &sums[..per], core::slice::from_mut(out));
    }
}

/// How many bits differ.
type Ones = fn(&[u8], &[u8]) -> u32;

fn ones_on(path: KernelPath) -> Ones {
    assert!(path.is_available(), "this machine lacks the path {}", path.name());
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn with_avx2(a: &[u8], b: &[u8]) -> u32 {
            ones(a, b)
        }
        #[target_feature(enable = "avx512f,avx512vl,avx512vpopcntdq")]
        fn with_avx512(a: &[u8], b: &[u8]) -> u32 {
            ones(a, b)
        }
        if path.has_avx512() && features::counts_ones() {
            // SAFETY: the machine has the features.
            return |a, b| unsafe { with_avx512(a, b) };
        }
        if path != KernelPath::Portable {
            // SAFETY: an available path means that the machine has its features.
            return |a, b| unsafe { with_avx2(a, b) };
        }
    }
    ones
}

#[inline(always)]
fn ones(a: &[u8], b: &[u8]) -> u32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let rest: u32 = a_rest.iter().zip(b_rest).map(|(a, b)| (a ^ b).count_ones()).sum();
    let differ = |a: [u8; 8], b: [u8; 8]| u64::from_le_bytes(a) ^ u64::from_le_bytes(b);
    let words: u64 = a.iter().zip(b).map(|(&a, &b)| u64::from(differ(a, b).count_ones())).sum();
    rest + words as u32
}
