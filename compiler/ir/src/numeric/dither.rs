//! Stochastic rounding for whole tensors: one Philox draw a tensor and step, then a hash of each element's index.
//!
//! A Philox block an element would cost more than the product that it rounds; the hash is two multiplications and
//! vectorises on every target. Bits still are a function of (seed, step, stream, element) alone: those of element `i`
//! (row-major) are `mix(k + i)` modulo 2^32, `k` being [`RunContext::draw`] of the stream's element 0.

use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, Scalar, Unary};
use crate::random::RunContext;

/// Multipliers of [`mix`]: Wellons, "Prospecting for hash functions" (2018), the function named lowbias32.
const MULTIPLIERS: [u32; 2] = [0x7feb_352d, 0x846c_a68b];

/// Bits of a uniform number.
const UNIFORM_BITS: u32 = 24;
/// The least of them.
const UNIFORM_UNIT: f32 = 1.0 / (1u32 << UNIFORM_BITS) as f32;

/// A bijection of 32 bits whose every output bit depends on every input bit: `x ^= x >> 16; x *= 0x7feb352d; x ^= x >> 15;
/// x *= 0x846ca68b; x ^= x >> 16`, modulo 2^32.
pub fn mix(x: u32) -> u32 {
    let x = (x ^ (x >> 16)).wrapping_mul(MULTIPLIERS[0]);
    let x = (x ^ (x >> 15)).wrapping_mul(MULTIPLIERS[1]);
    x ^ (x >> 16)
}

/// The uniform bits of one stream in one step.
#[derive(Clone, Copy, Debug)]
pub struct Dither(u32);

impl Dither {
    /// Keyed by one draw of the stream.
    pub fn new(run: &RunContext, stream: u32) -> Dither {
        Dither(run.draw(stream, 0))
    }

    /// 32 uniform bits for an element.
    pub fn bits(self, element: usize) -> u32 {
        mix(self.0.wrapping_add(element as u32))
    }

    /// A number in [0, 1) for an element: the upper 24 of its bits by 2^24.
    pub fn uniform(self, element: usize) -> f32 {
        (self.bits(element) >> (32 - UNIFORM_BITS)) as f32 * UNIFORM_UNIT
    }
}

/// `floor((x + u) / 2^s)` with u uniform in 0..2^s, the `s` most significant of `bits`: `x / 2^s` in the mean. Amounts above
/// 31 first drop `s - 31` bits (at most 31) of x, toward minus infinity: what that loses is below 2^-31 of a unit.
pub fn shift_right(x: i32, s: u32, bits: u32) -> i32 {
    let x = x >> s.saturating_sub(31).min(31);
    let s = s.min(31);
    let uniform = (bits >> 1) >> (31 - s);
    let low = (x as u32) & ((1u32 << s) - 1);
    (x >> s) + ((low + uniform) >> s) as i32
}

/// [`Dither`] in loops.
#[derive(Clone, Debug)]
pub struct DitherLoop(Expr);

impl DitherLoop {
    /// As [`Dither::new`]; the kernel has the run context.
    pub fn new(b: &mut LoopBuilder, stream: u32) -> DitherLoop {
        let key = b.draw(stream, Expr::i64(0));
        DitherLoop(b.let_("key", key))
    }

    /// As [`Dither::bits`], of an I64 index.
    pub fn bits(&self, b: &mut LoopBuilder, element: Expr) -> Expr {
        let x = self.unfolded(b, element);
        b.let_("bits", fold(x, 16))
    }

    /// The 16 most significant of [`Dither::bits`], of an I64 index: the last step of [`mix`] leaves them as they are.
    pub fn upper(&self, b: &mut LoopBuilder, element: Expr) -> Expr {
        self.unfolded(b, element).shr_unsigned(Expr::i32(16))
    }

    /// The bits before the last step of [`mix`].
    fn unfolded(&self, b: &mut LoopBuilder, element: Expr) -> Expr {
        let word = |value: u32| Expr::i32(value as i32);
        let x = b.let_("counter", element.truncate() + self.0.clone());
        let x = b.let_("hash", fold(x, 16) * word(MULTIPLIERS[0]));
        b.let_("hash", fold(x, 15) * word(MULTIPLIERS[1]))
    }

    /// As [`Dither::uniform`], of an I64 index.
    pub fn uniform(&self, b: &mut LoopBuilder, element: Expr) -> Expr {
        let bits = self.bits(b, element);
        let bits = bits.shr_unsigned(Expr::i32(32 - UNIFORM_BITS as i32));
        bits.unary(Unary::ToFloat) * Expr::f32(UNIFORM_UNIT)
    }
}

/// `x ^ (x >> bits)`.
fn fold(x: Expr, bits: i32) -> Expr {
    x.clone().xor(x.shr_unsigned(Expr::i32(bits)))
}

/// [`shift_right`] in loops by few bits, in halves of words: what is kept is brought into the upper half, where the 16 most
/// significant uniform bits, added to the lower half, carry as all of them would.
#[derive(Clone, Debug)]
pub struct DitheredHalves(Expr);

impl DitheredHalves {
    /// Largest amount.
    pub const MOST: i32 = 16;

    /// A shift by an I32 in 0..=16 of numbers x with `|x| < 2^(amount + 14)`.
    pub fn new(b: &mut LoopBuilder, amount: Expr) -> DitheredHalves {
        DitheredHalves(b.let_("align", Expr::i32(Self::MOST) - amount))
    }

    /// The shifted I32 `x`, given its 16 uniform bits of [`DitherLoop::upper`].
    pub fn apply(&self, x: Expr, upper: Expr) -> Expr {
        (x.shift_left(self.0.clone()) + upper).shift_right(Expr::i32(16))
    }
}

/// [`shift_right`] in loops: an amount prepared once and applied to many elements.
#[derive(Clone, Debug)]
pub struct DitheredShift {
    first: Option<Expr>,
    amount: Expr,
    mask: Expr,
    spread: Expr,
}

impl DitheredShift {
    /// A shift by an I32 in 0..=62; `wide` if it may exceed 31.
    pub fn new(b: &mut LoopBuilder, amount: Expr, wide: bool) -> DitheredShift {
        assert_eq!(amount.ty, Scalar::I32, "amount");
        let full = b.let_("full_shift", amount);
        let first = wide.then(|| {
            let excess = (full.clone() - Expr::i32(31)).maximum(Expr::i32(0));
            b.let_("first_shift", excess)
        });
        let amount = b.let_("shift", full.minimum(Expr::i32(31)));
        let mask = b.let_("mask", Expr::i32(1).shift_left(amount.clone()) - Expr::i32(1));
        let spread = b.let_("spread", Expr::i32(31) - amount.clone());
        DitheredShift { first, amount, mask, spread }
    }

    /// The shifted I32 `x`, given its 32 uniform bits.
    pub fn apply(&self, b: &mut LoopBuilder, x: Expr, bits: Expr) -> Expr {
        let x = match &self.first {
            Some(first) => x.shift_right(first.clone()),
            None => x,
        };
        let x = b.let_("value", x);
        let uniform = bits.shr_unsigned(Expr::i32(1)).shr_unsigned(self.spread.clone());
        let uniform = b.let_("uniform", uniform);
        let low = b.let_("low", x.clone().and(self.mask.clone()) + uniform);
        let carry = low.shr_unsigned(self.amount.clone());
        let shifted = x.shift_right(self.amount.clone()) + carry;
        b.let_("shifted", shifted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against exact fractions: the mean over uniform bits is the quotient, and results are its floor or ceiling.
    #[test]
    fn unbiased() {
        for (x, s) in
            [(5, 1), (-5, 1), (1000, 7), (-1000, 7), (i32::MIN, 31), (i32::MAX, 30), (3, 0)]
        {
            let exact = f64::from(x) / 2f64.powi(s as i32);
            let count = 1 << 16;
            let mut sum = 0f64;
            for i in 0..count {
                let found = f64::from(shift_right(x, s, (i << 16) as u32));
                assert!((found - exact).abs() < 1.0, "{x} >> {s}: {found}");
                sum += found;
            }
            let mean = sum / f64::from(count);
            assert!((mean - exact).abs() <= 2f64.powi(-15), "{x} >> {s}: mean {mean}, not {exact}");
        }
        assert_eq!(shift_right(i32::MAX, 62, u32::MAX), 0);
        // 2^30 >> 9 first; then 31 bits: 2^21 and the largest draw carry, 2^21 alone does not.
        assert_eq!(shift_right(1 << 30, 40, u32::MAX), 1);
        assert_eq!(shift_right(1 << 30, 40, 0), 0);
    }

    /// Uniform enough to round by: mean, variance and correlation of neighbours over tensors' keys.
    #[test]
    fn bits_are_uniform() {
        for stream in 0..8 {
            let dither = Dither::new(&RunContext { seed: 7, step: 3 }, stream);
            let unit = |i: usize| f64::from(dither.bits(i)) / 2f64.powi(32) - 0.5;
            let count = 100_000;
            let (mut mean, mut square, mut neighbour) = (0.0, 0.0, 0.0);
            for i in 0..count {
                mean += unit(i);
                square += unit(i) * unit(i);
                neighbour += unit(i) * unit(i + 1);
            }
            let n = f64::from(count as u32);
            assert!((mean / n).abs() < 0.004, "mean {}", mean / n);
            assert!((square / n - 1.0 / 12.0).abs() < 0.002, "variance {}", square / n);
            assert!((neighbour / n).abs() < 0.002, "correlation {}", neighbour / n);
        }
        // Distinct inputs stay distinct.
        let mut seen: Vec<u32> = (0..1 << 16).map(mix).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 1 << 16);
    }
}
