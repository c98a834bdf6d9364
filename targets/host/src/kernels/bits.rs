//! Convolutions of packed bits that stand for 1 and -1: sums by exclusive or and counts of ones.
//!
//! Weights are laid out in blocks of features, word by word, so that a word of the map is counted against a vector of features; two
//! neighbouring pixels share what is loaded of them. Where there are few pixels (fully connected layers), that would cost more than it
//! gains, and vectors go along the weights of a feature.

use super::path::{KernelPath, active_path};
use super::scratch::{Scratch, words_bytes};
use super::threads;

/// A convolution of bits, channels last: map `[batch, height, width, bytes]`, weights `[features, rows, columns, bytes]`, sums `[batch,
/// y_height, y_width, features]`. Taps outside the map add nothing.
#[derive(Clone, Copy, Debug)]
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

/// What the sums become.
#[derive(Clone, Copy, Debug)]
pub struct BitThresholds<'a> {
    /// The least sum of each feature that gives 1.
    pub least: &'a [i32],
    /// For each feature -1 where the complement of the sum is compared, else 0.
    pub flips: Option<&'a [i32]>,
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

    /// The taps of a window that lie in the map: of `axis`, at that place of the result.
    fn taps(&self, axis: usize, at: usize) -> std::ops::Range<usize> {
        let start = at * self.strides[axis];
        let first = self.pads[axis].saturating_sub(start).min(self.kernel[axis]);
        let end = (self.x[axis] + self.pads[axis]).saturating_sub(start).min(self.kernel[axis]);
        first..end.max(first)
    }
}

/// The sums of a convolution.
///
/// # Panics
/// When an operand does not have the size of the shape.
pub fn conv2d_bits(g: &BitGeometry, x: &[u8], w: &[u8], out: &mut [i32]) {
    conv2d_bits_on(active_path(), g, x, w, out);
}

/// [`conv2d_bits`] on a given path.
///
/// # Panics
/// Likewise, and when the machine lacks the path.
pub fn conv2d_bits_on(path: KernelPath, g: &BitGeometry, x: &[u8], w: &[u8], out: &mut [i32]) {
    product(path, g, x, w, 1, out, &|_, sums, out| out.copy_from_slice(sums));
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
) {
    conv2d_bits_thresholds_on(active_path(), g, x, w, thresholds, out);
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
) {
    assert!(g.features.is_multiple_of(8) && least.len() == g.features, "thresholds");
    product(path, g, x, w, 8, out, &|first, sums, out| {
        for (byte, (at, sums)) in out.iter_mut().zip((first..).step_by(8).zip(sums.chunks(8))) {
            let reached = |i: usize| {
                let sum = sums[i] ^ flips.map_or(0, |flips| flips[at + i]);
                u8::from(sum >= least[at + i]) << i
            };
            *byte = (0..8).fold(0, |byte, i| byte | reached(i));
        }
    });
}

/// Sums, of which `per` features are an element of `out`: `finish` makes elements of the sums from a feature on.
fn product<T: Send>(
    path: KernelPath,
    g: &BitGeometry,
    x: &[u8],
    w: &[u8],
    per: usize,
    out: &mut [T],
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
    let (blocks, taps) = (g.features.div_ceil(BLOCK), g.kernel[0] * g.kernel[1]);
    let lengths = [g.batch * g.x[0] * g.x[1] * words, blocks * taps * words * BLOCK];
    let bytes = lengths.iter().map(|&length| words_bytes(length)).sum::<usize>();
    threads::with_scratch(bytes + Scratch::LOSS, |scratch| {
        let mut scratch = Scratch::new(scratch);
        let [map, weights] = lengths.map(|length| scratch.units(length));
        for (to, from) in map.chunks_exact_mut(words).zip(x.chunks_exact(g.bytes)) {
            to.iter_mut().enumerate().for_each(|(at, word)| *word = word_of(from, at));
        }
        weights.fill(0);
        for (feature, from) in w.chunks_exact(g.feature()).enumerate() {
            let block = &mut weights[feature / BLOCK * taps * words * BLOCK..];
            for (tap, from) in from.chunks_exact(g.bytes).enumerate() {
                for at in 0..words {
                    block[(tap * words + at) * BLOCK + feature % BLOCK] = word_of(from, at);
                }
            }
        }
        let (map, weights) = (&*map, &*weights);
        let row = g.y[1] * g.features / per;
        threads::fill(out, row, work, &|start, out| {
            rows(path, g, map, weights, start, per, out, finish);
        });
    });
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
                for kh in vertical.clone() {
                    // A window that lies wholly beside the map has no taps.
                    if taps.is_empty() {
                        break;
                    }
                    let from = (line(kh) + left - g.pads[1]) * words;
                    let length = taps.len() * words;
                    let step = if two { g.strides[1] * words } else { 0 };
                    let pixels = [from, from + step].map(|from| &map[from..from + length]);
                    let own = &weights[(kh * g.kernel[1] + taps.start) * words * BLOCK..];
                    count(pixels, &own[..length * BLOCK], two, &mut differ);
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

/// Adds how many bits of each pixel's words differ from those of a block's features; of the second pixel only where there are `two`.
type Counts = fn([&[u32]; 2], &[u32], bool, &mut [[u32; BLOCK]; 2]);

fn counts_on(path: KernelPath) -> Counts {
    assert!(path.is_available(), "this machine lacks the path {}", path.name());
    #[cfg(target_arch = "x86_64")]
    {
        if path == KernelPath::Vnni && std::is_x86_feature_detected!("avx512vpopcntdq") {
            // SAFETY: the machine has the features.
            return |pixels, weights, two, differ| unsafe {
                counts_avx512(pixels, weights, two, differ);
            };
        }
        if path != KernelPath::Portable {
            // SAFETY: an available path means that the machine has its features.
            return |pixels, weights, two, differ| unsafe {
                counts_avx2(pixels, weights, two, differ);
            };
        }
    }
    counts
}

#[inline(always)]
fn counts(pixels: [&[u32]; 2], weights: &[u32], two: bool, differ: &mut [[u32; BLOCK]; 2]) {
    for (pixel, differ) in pixels.iter().zip(differ.iter_mut()).take(1 + usize::from(two)) {
        for (&word, weights) in pixel.iter().zip(weights.chunks_exact(BLOCK)) {
            for (differ, weight) in differ.iter_mut().zip(weights) {
                *differ += (word ^ weight).count_ones();
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn counts_avx2(pixels: [&[u32]; 2], weights: &[u32], two: bool, differ: &mut [[u32; BLOCK]; 2]) {
    counts(pixels, weights, two, differ);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn counts_avx512(pixels: [&[u32]; 2], weights: &[u32], two: bool, differ: &mut [[u32; BLOCK]; 2]) {
    if two {
        vectors::<2>(pixels, weights, differ);
    } else {
        vectors::<1>([pixels[0]], weights, differ);
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn vectors<const P: usize>(pixels: [&[u32]; P], weights: &[u32], differ: &mut [[u32; BLOCK]; 2]) {
    use std::arch::x86_64::{
        _mm512_add_epi32, _mm512_loadu_si512, _mm512_popcnt_epi32, _mm512_set1_epi32,
        _mm512_setzero_si512, _mm512_storeu_si512, _mm512_xor_si512,
    };
    const VECTORS: usize = BLOCK / 16;
    let mut sums = [[_mm512_setzero_si512(); P]; VECTORS];
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
    for (v, sums) in sums.iter().enumerate() {
        for (differ, &sum) in differ.iter_mut().zip(sums) {
            let differ = &mut differ[16 * v..16 * v + 16];
            // SAFETY: as above.
            unsafe {
                let before = _mm512_loadu_si512(differ.as_ptr().cast());
                let after = _mm512_add_epi32(before, sum);
                _mm512_storeu_si512(differ.as_mut_ptr().cast(), after);
            }
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
        finish(first % g.features, &sums[..per], std::slice::from_mut(out));
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
        if path == KernelPath::Vnni && std::is_x86_feature_detected!("avx512vpopcntdq") {
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
