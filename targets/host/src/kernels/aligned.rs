//! Sums of two tensors of codes beside one exponent: a residual addition.

use core::sync::atomic::{AtomicBool, Ordering};

use super::path::{KernelPath, active_path, on_features};
use super::products::DIRECT;
use super::threads;

/// Elements after which a thread looks whether its guess still holds.
const STRETCH: usize = 1 << 14;

/// The sums `x + y` of codes with exponents, and their exponent; see the IR's `aligned_add`. `low` is -127, or 0 where a ReLU follows.
///
/// Whether the sums fit is guessed from the first of them, which makes one pass of two where the guess holds, as it does for all but
/// tensors whose largest sum hides behind: these begin anew.
///
/// # Panics
/// When the lengths differ.
pub fn aligned_add(x: (&[i8], i32), y: (&[i8], i32), low: i8, out: &mut [i8]) -> i32 {
    aligned_add_on(active_path(), x, y, low, out)
}

/// [`aligned_add`] on a given path.
///
/// # Panics
/// Likewise, and when the machine lacks the path.
pub fn aligned_add_on(
    path: KernelPath,
    x: (&[i8], i32),
    y: (&[i8], i32),
    low: i8,
    out: &mut [i8],
) -> i32 {
    assert!(x.0.len() == out.len() && y.0.len() == out.len(), "as many sums as codes");
    let ((high, larger), (shifted, smaller)) = if y.1 < x.1 { (x, y) } else { (y, x) };
    let distance = larger.abs_diff(smaller);
    // A distance of one doubles the one operand, any other shifts the other: by 16 or more nothing is left of it.
    let (factor, amount) = if distance == 1 { (2, 0) } else { (1, distance.min(16)) };
    let exponent = if distance == 1 { smaller } else { larger };
    let sums = Sums { factor, amount, low };
    let stretch = |first: usize, out: &mut [i8]| -> bool {
        let (sums, mut fits) = (&sums, true);
        let (seen, high, shifted) =
            (&mut fits, &high[first..][..out.len()], &shifted[first..][..out.len()]);
        on_features!(
            path,
            whole(sums: &Sums, high: &[i8], shifted: &[i8], out: &mut [i8], seen: &mut bool)
        );
        fits
    };
    let work = DIRECT * out.len();
    let head = out.len().min(STRETCH);
    let exceeds = AtomicBool::new(!stretch(0, &mut out[..head]));
    if !exceeds.load(Ordering::Relaxed) {
        threads::fill(out, STRETCH, work, &|first, out| {
            for (number, out) in (first..).zip(out.chunks_mut(STRETCH)) {
                if exceeds.load(Ordering::Relaxed) {
                    return;
                }
                if !stretch(number * STRETCH, out) {
                    exceeds.store(true, Ordering::Relaxed);
                }
            }
        });
    }
    if !exceeds.load(Ordering::Relaxed) {
        return exponent;
    }
    threads::fill(out, STRETCH, work, &|first, out| {
        let first = first * STRETCH;
        let (sums, high, shifted) =
            (&sums, &high[first..][..out.len()], &shifted[first..][..out.len()]);
        on_features!(
            path,
            quarters(sums: &Sums, high: &[i8], shifted: &[i8], out: &mut [i8])
        );
    });
    exponent.wrapping_add(2)
}

/// How operands become sums, and sums bytes.
struct Sums {
    /// Of the operand that is not shifted.
    factor: i16,
    /// At most 16.
    amount: u32,
    low: i8,
}

impl Sums {
    /// The sums of a run, each to be stored by `store`.
    #[inline(always)]
    fn each(
        &self,
        high: &[i8],
        shifted: &[i8],
        out: &mut [i8],
        mut store: impl FnMut(&mut i8, i16),
    ) {
        let codes = out.iter_mut().zip(high).zip(shifted);
        let factor = self.factor;
        match self.amount {
            0 => codes.for_each(|((out, &a), &b)| store(out, i16::from(a) * factor + i16::from(b))),
            amount @ 1..=15 => {
                let (half, odd) = (amount / 2, amount % 2);
                let (discarded, random) = ((1u16 << amount) - 1, (1u16 << half) - 1);
                for ((out, &a), &b) in codes {
                    let magnitude = u16::from(b.unsigned_abs());
                    let rest = magnitude & discarded;
                    let up = u16::from(rest >> half > (rest & random) << odd);
                    let quotient = ((magnitude >> amount) + up) as i16;
                    let quotient = if b < 0 { -quotient } else { quotient };
                    store(out, i16::from(a) * factor + quotient);
                }
            }
            _ => codes.for_each(|((out, &a), _)| store(out, i16::from(a) * factor)),
        }
    }
}

/// The sums as they are; whether all fit.
#[inline(always)]
fn whole(sums: &Sums, high: &[i8], shifted: &[i8], out: &mut [i8], fits: &mut bool) {
    let (low, mut bits) = (i16::from(sums.low), 0u16);
    sums.each(high, shifted, out, |out, sum| {
        bits |= sum.unsigned_abs();
        *out = sum.clamp(low, 127) as i8;
    });
    *fits = bits <= 127;
}

/// The sums by 4, rounded by the two bits that go.
#[inline(always)]
fn quarters(sums: &Sums, high: &[i8], shifted: &[i8], out: &mut [i8]) {
    let low = i16::from(sums.low);
    sums.each(high, shifted, out, |out, sum| {
        let magnitude = sum.unsigned_abs();
        let quotient = ((magnitude >> 2) + u16::from(magnitude & 3 == 2)) as i16;
        let quotient = if sum < 0 { -quotient } else { quotient };
        *out = quotient.clamp(low, 127) as i8;
    });
}
