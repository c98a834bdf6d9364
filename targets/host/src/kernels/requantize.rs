//! From 32-bit sums back to 8-bit operands.

use core::sync::atomic::{AtomicU32, Ordering};

use super::numbers::mix;
use super::path::{KernelPath, active_path, on_features};
use super::threads;

/// Elements that stay with one thread.
pub(super) const LINE: usize = 64;

/// Multiplications of a product that take as long as an element.
pub(super) const ELEMENT: usize = 32;

/// Divides by `2^shift`, rounding halves away from zero, and clamps to `low..=127`; a shift of 0
/// only clamps. `low` is -127, or 0 where a ReLU follows.
///
/// `sign(x) * ((|x| >> shift) + ((|x| >> (shift - 1)) & 1))`; any shift is allowed.
///
/// # Panics
/// When the lengths differ.
pub fn requantize_half_away(acc: &[i32], shift: u32, low: i8, out: &mut [i8]) {
    requantize_half_away_on(active_path(), acc, shift, low, out);
}

/// [`requantize_half_away`] on a given path.
///
/// # Panics
/// When the lengths differ, or the machine lacks the path.
pub fn requantize_half_away_on(path: KernelPath, acc: &[i32], shift: u32, low: i8, out: &mut [i8]) {
    assert_eq!(acc.len(), out.len(), "as many sums as operands");
    threads::fill(out, LINE, ELEMENT * acc.len(), &|first, out| {
        let acc = &acc[first * LINE..][..out.len()];
        on_features!(path, half_away(acc: &[i32], shift: u32, low: i8, out: &mut [i8]));
    });
}

/// Divides by `2^shift` (at most 32) with NITI's pseudo-stochastic rounding and clamps to ±127;
/// a shift of 0 only clamps.
///
/// The discarded bits are split in two halves: the upper one is the probability, the lower one the
/// random number (doubled where it is one bit short), and a strictly greater probability rounds
/// away from zero.
///
/// # Panics
/// When the lengths differ or the shift is over 32.
pub fn requantize_pseudo_stochastic(acc: &[i32], shift: u32, out: &mut [i8]) {
    requantize_pseudo_stochastic_on(active_path(), acc, shift, out);
}

/// [`requantize_pseudo_stochastic`] on a given path.
///
/// # Panics
/// When the lengths differ, the shift is over 32, or the machine lacks the path.
pub fn requantize_pseudo_stochastic_on(path: KernelPath, acc: &[i32], shift: u32, out: &mut [i8]) {
    assert_eq!(acc.len(), out.len(), "as many sums as operands");
    assert!(shift <= 32, "a pseudo-stochastic shift is at most 32");
    threads::fill(out, LINE, ELEMENT * acc.len(), &|first, out| {
        let acc = &acc[first * LINE..][..out.len()];
        on_features!(path, pseudo_stochastic(acc: &[i32], shift: u32, out: &mut [i8]));
    });
}

/// Largest magnitude, 0 of nothing; unsigned so that that of `i32::MIN` is exact.
#[must_use]
pub fn max_abs_i32(values: &[i32]) -> u32 {
    max_abs_i32_on(active_path(), values)
}

/// [`max_abs_i32`] on a given path.
///
/// # Panics
/// When the machine lacks the path.
#[must_use]
pub fn max_abs_i32_on(path: KernelPath, values: &[i32]) -> u32 {
    let lines = values.len().div_ceil(LINE);
    let count = threads::parts(ELEMENT * values.len(), lines);
    let largest = AtomicU32::new(0);
    threads::run(count, &|index| {
        let lines = threads::piece(lines, 1, count, index);
        let values = &values[lines.start * LINE..(lines.end * LINE).min(values.len())];
        let mut own = 0u32;
        let out = &mut own;
        on_features!(path, largest_magnitude(values: &[i32], out: &mut u32));
        largest.fetch_max(own, Ordering::Relaxed);
    });
    largest.into_inner()
}

/// Largest magnitude, 0 of nothing.
#[inline(always)]
pub(super) fn largest_magnitude(values: &[i32], out: &mut u32) {
    let mut lanes = [0u32; LANES];
    largest_magnitudes(values, &mut lanes);
    *out = lanes.into_iter().fold(0, u32::max);
}

/// Magnitudes that [`largest_magnitudes`] keeps apart.
pub(super) const LANES: usize = 64;

/// Raises magnitudes, of which the largest is that of all values so far.
#[inline(always)]
pub(super) fn largest_magnitudes(values: &[i32], lanes: &mut [u32; LANES]) {
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = (*lane).max(value.unsigned_abs());
        }
    }
    for (lane, value) in lanes.iter_mut().zip(rest) {
        *lane = (*lane).max(value.unsigned_abs());
    }
}

/// `magnitude` with the sign of `value`, clamped to `low..=127`.
#[inline(always)]
fn signed(value: i32, magnitude: u32, low: i8) -> i8 {
    // 128 is out of range on both sides, so that the cast to `i32` is exact.
    let magnitude = magnitude.min(128) as i32;
    let result = if value < 0 { -magnitude } else { magnitude };
    result.clamp(i32::from(low), 127) as i8
}

/// [`requantize_half_away`] of a run.
#[inline(always)]
pub(super) fn half_away(acc: &[i32], shift: u32, low: i8, out: &mut [i8]) {
    match shift {
        0 => {
            for (out, &value) in out.iter_mut().zip(acc) {
                *out = value.clamp(i32::from(low), 127) as i8;
            }
        }
        1..=31 => {
            for (out, &value) in out.iter_mut().zip(acc) {
                let magnitude = value.unsigned_abs();
                let rounded = (magnitude >> shift) + ((magnitude >> (shift - 1)) & 1);
                *out = signed(value, rounded, low);
            }
        }
        32 => {
            for (out, &value) in out.iter_mut().zip(acc) {
                *out = signed(value, value.unsigned_abs() >> 31, low);
            }
        }
        _ => out.fill(low.max(0)),
    }
}

/// [`requantize_pseudo_stochastic`] of a run.
#[inline(always)]
pub(super) fn pseudo_stochastic(acc: &[i32], shift: u32, out: &mut [i8]) {
    if shift == 0 {
        half_away(acc, 0, -127, out);
        return;
    }
    let half = shift / 2;
    let odd = shift % 2;
    let discarded = u32::MAX >> (32 - shift);
    let random = (1u32 << half) - 1;
    for (out, &value) in out.iter_mut().zip(acc) {
        let magnitude = value.unsigned_abs();
        let rest = magnitude & discarded;
        let up = u32::from(rest >> half > (rest & random) << odd);
        // In two steps, so that a shift of 32 gives 0.
        let whole = (magnitude >> (shift - 1)) >> 1;
        *out = signed(value, whole + up, -127);
    }
}

/// Divides by `2^shift`, rounding by chance, and clamps to +-127; see the IR's `numeric::dither`. `counter` is the key of the draws plus
/// the number of the first sum.
#[inline(always)]
pub(super) fn stochastic(acc: &[i32], shift: u32, mut counter: u32, out: &mut [i8]) {
    let first = shift.saturating_sub(31).min(31);
    let shift = shift.min(31);
    let (mask, spread) = ((1u32 << shift) - 1, 31 - shift);
    for (out, &value) in out.iter_mut().zip(acc) {
        let value = value >> first;
        let uniform = (mix(counter) >> 1) >> spread;
        let carry = ((value as u32 & mask) + uniform) >> shift;
        *out = ((value >> shift) + carry as i32).clamp(-127, 127) as i8;
        counter = counter.wrapping_add(1);
    }
}
