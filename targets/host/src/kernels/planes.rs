//! Tensors of codes, images of channels of planes: sums of a channel's codes, and sums of codes by integer coefficients of their
//! channels, which are rounded as they are made. The passes of integer batch normalization.

use core::sync::atomic::{AtomicU32, Ordering};

use super::finish::{Finish, Further, Narrow, bytes};
use super::memo::Hint;
use super::numbers::{
    ceil_log2, float_of_wide, largest_finite, round_ties_even, scale_by_power_of_two,
};
use super::path::{active_path, on_features};
use super::products::DIRECT;
use super::requantize::{ELEMENT, LANES, largest_magnitudes};
use super::scratch::{Scratch, items_bytes, words_bytes};
use super::threads;

/// Sums that are made before they are rounded: few enough for the nearest cache.
const RUN: usize = 1024;

/// Elements of a plane below which coefficients lie beside each element of an image.
const SHORT: usize = 32;

/// Elements that are looked at once more without leaving the caches: where there are more, how sums are rounded is guessed from the
/// last step.
const NEAR: usize = 512 * 1024;

/// Codes whose products i32 holds the sum of.
const STRETCH: usize = 1 << 16;

/// Bits of the magnitude of what a code is multiplied by.
const FACTOR_BITS: i64 = 15;
/// Of what is added.
const OFFSET_BITS: i64 = 30;

/// Sizes of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planes {
    /// Images.
    pub batch: usize,
    /// Planes of an image.
    pub channels: usize,
    /// Elements of a plane.
    pub space: usize,
}

impl Planes {
    const fn image(&self) -> usize {
        self.channels * self.space
    }

    /// Elements of a channel, over all images.
    const fn count(&self) -> usize {
        self.batch * self.space
    }

    const fn elements(&self) -> usize {
        self.batch * self.image()
    }
}

/// Which coefficients a channel has: `a * x + r`, or `p * dy + q * x + r`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// Of `x`, from scale, bias, mean and inverse deviation.
    Norm,
    /// Of `x` and `dy`, from scale, mean, inverse deviation and the gradients of scale and bias.
    Error {
        /// Whether mean and variance are the batch's own.
        batch: bool,
    },
}

/// Sums by coefficients of channels; see the IR's `integer_batch_norm` and `integer_batch_norm_error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines {
    /// Sizes.
    pub planes: Planes,
    /// Coefficients.
    pub line: Line,
}

/// Integer coefficients, by channel or by element of an image.
#[derive(Clone, Copy)]
pub(super) struct Coefficients<'a> {
    /// Of `x`.
    x: &'a [i32],
    /// Of `dy`; nothing where there is none.
    dy: Option<&'a [i32]>,
    offsets: &'a [i32],
    /// Whether by element.
    beside: bool,
}

/// Codes of `x`, and of `dy` if there is one.
pub(super) type Codes<'a> = (&'a [i8], Option<&'a [i8]>);

impl Lines {
    /// Bytes of working memory.
    #[must_use]
    pub const fn scratch_bytes(&self) -> usize {
        let beside = if self.planes.space < SHORT { self.planes.image() } else { 0 };
        Scratch::LOSS + 3 * (words_bytes(self.planes.channels) + words_bytes(beside))
    }

    /// The coefficients and their exponent, from FP32 vectors in the operands' order.
    pub(super) fn coefficients<'a>(
        &self,
        vectors: &[&[f32]],
        [ex, edy]: [i32; 2],
        scratch: &'a mut [u8],
    ) -> (Coefficients<'a>, i32) {
        let channels = self.planes.channels;
        let mut scratch = Scratch::new(scratch);
        let floats: [&mut [f32]; 3] = core::array::from_fn(|_| scratch.sums::<f32>(channels));
        let [of_x, of_dy, offsets] = floats;
        for c in 0..channels {
            (of_x[c], of_dy[c], offsets[c]) = match (self.line, vectors) {
                (Line::Norm, &[scale, bias, mean, inverse]) => {
                    let slope = scale[c] * inverse[c];
                    (slope, 0.0, bias[c] - mean[c] * slope)
                }
                (Line::Error { batch }, &[scale, mean, inverse, dscale, dbias]) => {
                    let slope = scale[c] * inverse[c];
                    if batch {
                        let share = slope / self.planes.count() as f32;
                        let turn = -(share * dscale[c] * inverse[c]);
                        (turn, slope, -(share * dbias[c]) - turn * mean[c])
                    } else {
                        (0.0, slope, 0.0)
                    }
                }
                _ => panic!("vectors of a channel"),
            };
        }
        let is_error = matches!(self.line, Line::Error { .. });
        let least = f32::from_bits(1);
        let width = |values: &[f32]| i64::from(ceil_log2(largest_finite(values).max(least)));
        let bound = |own: i32, values: &[f32]| i64::from(own) + width(values) - FACTOR_BITS;
        let mut exponent = (width(offsets) - OFFSET_BITS).max(bound(ex, of_x));
        if is_error {
            exponent = exponent.max(bound(edy, of_dy));
        }
        let factors = (1 << FACTOR_BITS) - 1;
        let of_x = integers(of_x, i64::from(ex) - exponent, factors);
        let of_dy = integers(of_dy, i64::from(edy) - exponent, factors);
        let offsets = integers(offsets, -exponent, 1 << OFFSET_BITS);
        let beside = self.planes.space < SHORT;
        let [of_x, of_dy, offsets] = [of_x, of_dy, offsets].map(|values| {
            let values: &[i32] = values;
            if !beside {
                return values;
            }
            let all = scratch.sums::<i32>(self.planes.image());
            for (all, &value) in all.chunks_exact_mut(self.planes.space).zip(values) {
                all.fill(value);
            }
            all
        });
        let coefficients = Coefficients { x: of_x, dy: is_error.then_some(of_dy), offsets, beside };
        (coefficients, exponent as i32)
    }

    /// The sums as bytes, and how they were rounded: in one pass where a guess holds.
    pub(super) fn bytes(
        &self,
        codes: Codes<'_>,
        coefficients: Coefficients<'_>,
        finish: &Finish,
        run: impl Fn() -> [u32; 3],
        out: &mut [i8],
        hint: Option<Hint<'_>>,
    ) -> Narrow {
        let narrow = |largest: u32| finish.narrow(|| largest, Further::None, &run);
        let mut all = |narrow, measures| self.all(codes, coefficients, narrow, measures, out);
        if !finish.asks_magnitude() {
            let exact = narrow(0);
            all(Some(&exact), false);
            return exact;
        }
        if self.line == Line::Norm && self.planes.space >= SHORT && self.planes.elements() <= NEAR {
            let exact = narrow(self.largest(codes.0, coefficients));
            all(Some(&exact), false);
            return exact;
        }
        let guess = hint.and_then(Hint::last).map(narrow);
        let largest = all(guess.as_ref(), true);
        if let Some(hint) = hint {
            hint.tell(largest);
        }
        let exact = narrow(largest);
        if guess.is_none_or(|guess| guess.shift != exact.shift) {
            all(Some(&exact), false);
        }
        exact
    }

    /// The largest magnitude of sums by one code each: they ascend or descend with it, so that those of a plane's least and greatest code
    /// are the outermost.
    fn largest(&self, x: &[i8], coefficients: Coefficients<'_>) -> u32 {
        let Planes { batch, channels, space } = self.planes;
        let planes = batch * channels;
        if planes == 0 {
            return 0;
        }
        let count = threads::parts(DIRECT * self.planes.elements(), planes);
        let largest = AtomicU32::new(0);
        threads::run(count, &|index| {
            let own = threads::piece(planes, 1, count, index);
            let x = &x[own.start * space..own.end * space];
            let (first, coefficients, mut most) = (own.start % channels, &coefficients, 0);
            let (all, most_here) = (&self.planes, &mut most);
            on_features!(
                active_path(),
                outermost(
                    all: &Planes,
                    x: &[i8],
                    first: usize,
                    coefficients: &Coefficients<'_>,
                    most_here: &mut u32,
                )
            );
            largest.fetch_max(most, Ordering::Relaxed);
        });
        largest.into_inner()
    }

    /// The largest magnitude of the sums, if it is asked for, and their bytes where it is known how they are rounded.
    fn all(
        &self,
        codes: Codes<'_>,
        coefficients: Coefficients<'_>,
        narrow: Option<&Narrow>,
        measures: bool,
        out: &mut [i8],
    ) -> u32 {
        let (_, unit) = self.units();
        let largest = AtomicU32::new(0);
        threads::fill(out, unit, ELEMENT * self.planes.elements(), &|first, out| {
            let (lines, all, mut own) = (self, &coefficients, [0; LANES]);
            let most = measures.then_some(&mut own);
            on_features!(
                active_path(),
                pass(
                    lines: &Lines,
                    codes: Codes<'_>,
                    all: &Coefficients<'_>,
                    narrow: Option<&Narrow>,
                    first: usize,
                    out: &mut [i8],
                    most: Option<&mut [u32; LANES]>,
                )
            );
            largest.fetch_max(own.into_iter().fold(0, u32::max), Ordering::Relaxed);
        });
        largest.into_inner()
    }

    /// How many pieces with coefficients of their own there are, and elements of each: planes, or images where planes are short.
    const fn units(&self) -> (usize, usize) {
        let Planes { batch, channels, space } = self.planes;
        if space < SHORT { (batch, channels * space) } else { (batch * channels, space) }
    }

    /// The sums of a run: those of unit number `unit` from its element `at` on.
    #[inline(always)]
    fn run(
        &self,
        codes: Codes<'_>,
        all: &Coefficients<'_>,
        unit: usize,
        at: usize,
        sums: &mut [i32],
    ) {
        let start = unit * self.units().1 + at;
        let count = sums.len();
        let x = &codes.0[start..][..count];
        let dy = codes.1.map(|dy| &dy[start..][..count]);
        if all.beside {
            let (a, r) = (&all.x[at..][..count], &all.offsets[at..][..count]);
            if let (Some(dy), Some(p)) = (dy, all.dy) {
                let p = &p[at..][..count];
                for i in 0..count {
                    sums[i] = p[i] * i32::from(dy[i]) + a[i] * i32::from(x[i]) + r[i];
                }
            } else {
                for i in 0..count {
                    sums[i] = a[i] * i32::from(x[i]) + r[i];
                }
            }
            return;
        }
        let c = unit % self.planes.channels;
        let (a, r) = (all.x[c], all.offsets[c]);
        if let (Some(dy), Some(p)) = (dy, all.dy) {
            let p = p[c];
            for i in 0..count {
                sums[i] = p * i32::from(dy[i]) + a * i32::from(x[i]) + r;
            }
        } else {
            for i in 0..count {
                sums[i] = a * i32::from(x[i]) + r;
            }
        }
    }
}

/// The largest magnitude of sums by one code each, of planes from channel `first` on.
#[inline(always)]
fn outermost(
    planes: &Planes,
    x: &[i8],
    first: usize,
    coefficients: &Coefficients<'_>,
    most: &mut u32,
) {
    let mut channel = first;
    for plane in x.chunks_exact(planes.space) {
        let (mut least, mut greatest) = (i8::MAX, i8::MIN);
        for &code in plane {
            least = least.min(code);
            greatest = greatest.max(code);
        }
        let (a, r) = (coefficients.x[channel], coefficients.offsets[channel]);
        for code in [least, greatest] {
            *most = (*most).max((a * i32::from(code) + r).unsigned_abs());
        }
        channel = if channel + 1 == planes.channels { 0 } else { channel + 1 };
    }
}

/// Floats times a power of two as integers within a limit, in their own place.
fn integers(values: &mut [f32], by: i64, limit: i32) -> &mut [i32] {
    let by = by.clamp(-1000, 1000) as i32;
    let rounded = |x: f32| round_ties_even(scale_by_power_of_two(x, by), limit);
    values.iter_mut().for_each(|x| *x = f32::from_bits(rounded(*x) as u32));
    // SAFETY: of one size and alignment, any bits are a value of either; the borrow is passed on whole.
    unsafe { core::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), values.len()) }
}

#[inline(always)]
fn pass(
    lines: &Lines,
    codes: Codes<'_>,
    all: &Coefficients<'_>,
    narrow: Option<&Narrow>,
    first: usize,
    out: &mut [i8],
    mut most: Option<&mut [u32; LANES]>,
) {
    let (_, length) = lines.units();
    let mut sums = [0i32; RUN];
    // Several short units at a time, which are rounded together.
    let several = (RUN / length.max(1)).max(1);
    for (number, out) in out.chunks_mut((several * length).max(1)).enumerate() {
        let unit = first + number * several;
        for (part, out) in out.chunks_mut(RUN).enumerate() {
            let (at, sums) = (part * RUN, &mut sums[..out.len()]);
            if several == 1 {
                lines.run(codes, all, unit, at, sums);
            } else {
                for (unit, sums) in (unit..).zip(sums.chunks_exact_mut(length)) {
                    lines.run(codes, all, unit, 0, sums);
                }
            }
            if let Some(most) = &mut most {
                largest_magnitudes(sums, most);
            }
            if let Some(narrow) = narrow {
                bytes(narrow, sums, unit * length + at, out);
            }
        }
    }
}

/// Which sums of a channel's codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelSums {
    /// Of `x` and of its squares: mean and variance; see the IR's `integer_batch_statistics`.
    Statistics,
    /// Of `dy` and of its products with `x`: the gradients of scale and bias; see the IR's `integer_batch_norm_sums`.
    Gradients,
}

impl ChannelSums {
    /// Bytes of working memory.
    #[must_use]
    pub const fn scratch_bytes(planes: &Planes) -> usize {
        Scratch::LOSS + items_bytes::<[i64; 2]>(planes.channels)
    }

    /// Mean and variance of `x` with that exponent.
    pub(super) fn statistics(
        planes: &Planes,
        x: (&[i8], i32),
        [mean, variance]: [&mut [f32]; 2],
        scratch: &mut [u8],
    ) {
        let sums = of_channels(planes, x.0, x.0, scratch);
        let count = planes.count();
        let divided = |sum: i64| float_of_wide(sum) / count as f32;
        let scaled = |value: f32| scale_by_power_of_two(value, x.1);
        for ((&mut [s, q], mean), variance) in sums.iter_mut().zip(mean).zip(variance) {
            *mean = scaled(divided(s));
            *variance = scaled(scaled(divided(count as i64 * q - s * s) / count as f32));
        }
    }

    /// Gradients of scale and bias, from `x` and `dy` with their exponents, means and inverse deviations.
    pub(super) fn gradients(
        planes: &Planes,
        [x, dy]: [(&[i8], i32); 2],
        [mean, inverse]: [&[f32]; 2],
        [dscale, dbias]: [&mut [f32]; 2],
        scratch: &mut [u8],
    ) {
        let sums = of_channels(planes, dy.0, x.0, scratch);
        let scaled = |sum: i64| scale_by_power_of_two(float_of_wide(sum), dy.1);
        for (c, &mut [errors, products]) in sums.iter_mut().enumerate() {
            dbias[c] = scaled(errors);
            let product = scale_by_power_of_two(scaled(products), x.1);
            dscale[c] = (product - mean[c] * dbias[c]) * inverse[c];
        }
    }
}

/// For each channel the sum of codes `a`, and of their products with `b`.
fn of_channels<'s>(
    planes: &Planes,
    a: &[i8],
    b: &[i8],
    scratch: &'s mut [u8],
) -> &'s mut [[i64; 2]] {
    assert!(a.len() == planes.elements() && b.len() == a.len(), "planes");
    let sums = Scratch::new(scratch).items::<[i64; 2]>(planes.channels);
    threads::fill(sums, 1, DIRECT * planes.elements(), &|first, sums| {
        on_features!(
            active_path(),
            sum_channels(planes: &Planes, a: &[i8], b: &[i8], first: usize, sums: &mut [[i64; 2]])
        );
    });
    sums
}

#[inline(always)]
fn sum_channels(planes: &Planes, a: &[i8], b: &[i8], first: usize, sums: &mut [[i64; 2]]) {
    for (channel, sums) in (first..).zip(sums) {
        let (mut all, mut products) = (0i64, 0i64);
        for image in 0..planes.batch {
            let start = (image * planes.channels + channel) * planes.space;
            let [a, b] = [a, b].map(|codes| &codes[start..][..planes.space]);
            for (a, b) in a.chunks(STRETCH).zip(b.chunks(STRETCH)) {
                let (mut own, mut product) = (0i32, 0i32);
                for (&a, &b) in a.iter().zip(b) {
                    own += i32::from(a);
                    product += i32::from(a) * i32::from(b);
                }
                all += i64::from(own);
                products += i64::from(product);
            }
        }
        *sums = [all, products];
    }
}

#[cfg(test)]
mod tests {
    use super::super::finish::{Rounding, Width};
    use super::*;

    /// More of the largest products than i32 holds the sum of, in one image and over images.
    #[test]
    fn sums_of_many_codes() {
        for (batch, space) in [(1, 140_003), (4, 40_001)] {
            let planes = Planes { batch, channels: 1, space };
            let a = vec![-128i8; planes.elements()];
            let mut scratch = vec![0; ChannelSums::scratch_bytes(&planes)];
            let count = planes.elements() as i64;
            let expected = [[-128 * count, 128 * 128 * count]];
            assert_eq!(of_channels(&planes, &a, &a, &mut scratch), expected);
        }
    }

    /// Codes, and coefficients of each channel.
    fn operands(planes: &Planes) -> (Vec<i8>, [Vec<i32>; 2]) {
        let mut state = 5u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        let codes = (0..planes.elements()).map(|_| next() as u8 as i8).collect();
        let factors = (0..planes.channels).map(|_| next() as i32 % (1 << 15) - (1 << 14)).collect();
        let offsets = (0..planes.channels).map(|_| next() as i32 % (1 << 20) - (1 << 19)).collect();
        (codes, [factors, offsets])
    }

    /// The outermost sums are those of a plane's outermost codes, and units that are rounded together are rounded as each by itself.
    #[test]
    fn sums_by_one_code() {
        for (batch, channels, space) in [(1, 1, 32), (3, 5, 32), (2, 7, 100), (2, 3, 1500)] {
            let planes = Planes { batch, channels, space };
            let lines = Lines { planes, line: Line::Norm };
            let (x, [factors, offsets]) = operands(&planes);
            let coefficients =
                Coefficients { x: &factors, dy: None, offsets: &offsets, beside: false };
            let sum = |i: usize| {
                let channel = i / space % channels;
                factors[channel] * i32::from(x[i]) + offsets[channel]
            };
            let sums: Vec<i32> = (0..planes.elements()).map(sum).collect();
            let most = sums.iter().map(|sum| sum.unsigned_abs()).max().expect("some");
            assert_eq!(lines.largest(&x, coefficients), most, "{planes:?}");
            for rounding in [Rounding::PseudoStochastic, Rounding::Stochastic { stream: 3 }] {
                let finish = Finish { width: Width::Sums(7), rounding, low: -127 };
                let run = || [1, 2, 3];
                let narrow = finish.narrow(|| most, Further::None, run);
                let mut expected = vec![0; sums.len()];
                narrow.round_here(&sums, 0, &mut expected);
                let mut found = vec![1; sums.len()];
                lines.bytes((&x, None), coefficients, &finish, run, &mut found, None);
                assert_eq!(found, expected, "{planes:?} {rounding:?}");
            }
        }
    }
}
