//! Integer arithmetic as loop expressions: the twins of [`crate::numeric`]'s scalar functions.
//!
//! Operands are I32 with magnitudes up to 2^31; a magnitude is an I32 read as unsigned.

use super::Rounding;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Buffer, Expr, Scalar, Unary};

/// A rounding right shift by one amount, prepared once and applied to many elements.
#[derive(Clone, Debug)]
pub struct RightShift {
    rounding: Rounding,
    /// Whether elements are computed in I64.
    wide: bool,
    /// Below the width.
    amount: Expr,
    /// What the rounding needs besides: half a unit, or the parts of pseudo-stochastic rounding.
    parts: Parts,
}

#[derive(Clone, Debug)]
enum Parts {
    None,
    Half(Expr),
    Pseudo { remainder_mask: Expr, half_amount: Expr, low_mask: Expr, odd: Expr },
}

impl RightShift {
    /// A shift by a constant below 32.
    pub fn constant(amount: u32, rounding: Rounding) -> RightShift {
        assert!(amount < 32, "a shift by {amount} of 32 bits");
        let mask = |bits: u32| Expr::i32(((1u32 << bits) - 1) as i32);
        let parts = match rounding {
            Rounding::Truncate | Rounding::Floor => Parts::None,
            Rounding::HalfAway => Parts::Half(Expr::i32(((1u32 << amount) >> 1) as i32)),
            Rounding::PseudoStochastic => Parts::Pseudo {
                remainder_mask: mask(amount),
                half_amount: Expr::i32((amount >> 1) as i32),
                low_mask: mask(amount >> 1),
                odd: Expr::i32((amount & 1) as i32),
            },
        };
        RightShift { rounding, wide: false, amount: Expr::i32(amount as i32), parts }
    }

    /// A shift by a run-time amount in 0..=31 (I32).
    pub fn run_time(builder: &mut LoopBuilder, amount: Expr, rounding: Rounding) -> RightShift {
        assert_eq!(amount.ty, Scalar::I32, "amount");
        let amount = builder.let_("shift", amount);
        let half_amount = amount.clone().shr_unsigned(Expr::i32(1));
        RightShift::prepare(builder, false, amount.clone(), amount, half_amount, rounding)
    }

    /// A shift by a run-time amount in 0..=2^62 (I64), which may exceed the width.
    pub fn wide(builder: &mut LoopBuilder, amount: Expr, rounding: Rounding) -> RightShift {
        assert_eq!(amount.ty, Scalar::I64, "amount");
        let full = builder.let_("full_shift", amount);
        // Magnitudes have at most 32 bits, so amounts beyond these limits change nothing; the half's limit of 32
        // (not half the amount's limit) keeps pseudo-stochastic rounding exact, see `numeric::shift_right`.
        let limit = if rounding == Rounding::HalfAway { 40 } else { 63 };
        let amount = builder.let_("shift", full.clone().minimum(Expr::i64(limit)));
        let half_amount = full.clone().shr_unsigned(Expr::i64(1)).minimum(Expr::i64(32));
        RightShift::prepare(builder, true, amount, full, half_amount, rounding)
    }

    fn prepare(
        builder: &mut LoopBuilder,
        wide: bool,
        amount: Expr,
        full: Expr,
        half_amount: Expr,
        rounding: Rounding,
    ) -> RightShift {
        let number = |value: i32| if wide { Expr::i64(value.into()) } else { Expr::i32(value) };
        let power = |exponent: &Expr| number(1).shift_left(exponent.clone());
        let parts = match rounding {
            Rounding::Truncate | Rounding::Floor => Parts::None,
            Rounding::HalfAway => {
                Parts::Half(builder.let_("half", power(&amount).shr_unsigned(number(1))))
            }
            Rounding::PseudoStochastic => {
                let half_amount = builder.let_("half_shift", half_amount);
                Parts::Pseudo {
                    remainder_mask: builder.let_("remainder_mask", power(&amount) - number(1)),
                    low_mask: builder.let_("low_mask", power(&half_amount) - number(1)),
                    half_amount,
                    odd: builder.let_("odd", full.and(number(1))),
                }
            }
        };
        RightShift { rounding, wide, amount, parts }
    }

    /// The shifted `x` (I32), an I32.
    pub fn apply(&self, builder: &mut LoopBuilder, x: Expr) -> Expr {
        let shifted = self.apply_unnarrowed(builder, x);
        if self.wide { shifted.truncate() } else { shifted }
    }

    fn apply_unnarrowed(&self, builder: &mut LoopBuilder, x: Expr) -> Expr {
        let amount = self.amount.clone();
        let x = builder.let_("value", if self.wide { x.extend() } else { x });
        if self.rounding == Rounding::Floor {
            return x.shift_right(amount);
        }
        let negative = x.clone().less(if self.wide { Expr::i64(0) } else { Expr::i32(0) });
        let negative = builder.let_("negative", negative);
        let m = negative.clone().select(x.clone().unary(Unary::Negate), x);
        let m = builder.let_("magnitude", m);
        let quotient = match &self.parts {
            Parts::None => m.shr_unsigned(amount),
            // (m + 2^(s-1)) >> s is (m >> s) plus bit s-1 of m; the sum fits the width as unsigned.
            Parts::Half(half) => (m + half.clone()).shr_unsigned(amount),
            Parts::Pseudo { remainder_mask, half_amount, low_mask, odd } => {
                let p = builder.let_("remainder", m.clone().and(remainder_mask.clone()));
                let q = p.clone().shr_unsigned(half_amount.clone());
                let r = p.and(low_mask.clone()).shift_left(odd.clone());
                let up = r.less(q).unary(Unary::BoolToInteger);
                m.shr_unsigned(amount) + if self.wide { up.extend() } else { up }
            }
        };
        let quotient = builder.let_("quotient", quotient);
        negative.select(quotient.clone().unary(Unary::Negate), quotient)
    }
}

/// A right shift of small numbers by one run-time amount, half away from zero, in fewer steps than [`RightShift`] takes.
#[derive(Clone, Debug)]
pub struct SmallShift {
    amount: Expr,
    half: Expr,
    /// What is added below zero: -1, or 0 where nothing is shifted out.
    away: Expr,
}

impl SmallShift {
    /// A shift by an I32 in 0..=30 of numbers x with `|x| + 2^(amount - 1) < 2^31`.
    pub fn new(builder: &mut LoopBuilder, amount: Expr) -> SmallShift {
        let amount = builder.let_("shift", amount);
        let half = Expr::i32(1).shift_left(amount.clone()).shr_unsigned(Expr::i32(1));
        let half = builder.let_("half", half);
        let away = amount.clone().minimum(Expr::i32(1)).unary(Unary::Negate);
        SmallShift { amount, half, away: builder.let_("away", away) }
    }

    /// The shifted `x` (I32): below zero `floor((x + half - 1) / 2^s) = -floor((|x| + half) / 2^s)`.
    pub fn apply(&self, builder: &mut LoopBuilder, x: Expr) -> Expr {
        let x = builder.let_("value", x);
        let below = x.clone().shift_right(Expr::i32(31)).and(self.away.clone());
        (x + self.half.clone() + below).shift_right(self.amount.clone())
    }
}

/// As [`SmallShift`], in halves of words: what is kept and 8 bits below it are brought into the upper half.
#[derive(Clone, Debug)]
pub struct HalvesShift(Expr);

impl HalvesShift {
    /// A shift by an I32 in 0..=24 of numbers x with `|x| < 2^(amount + 7)`.
    pub fn new(builder: &mut LoopBuilder, amount: Expr) -> HalvesShift {
        HalvesShift(builder.let_("align", Expr::i32(24) - amount))
    }

    /// The shifted `x` (I32). Nothing is lost below the aligned number; less its least bit where it is below zero, a half goes
    /// away from zero as halves go up, and no other number changes its result.
    pub fn apply(&self, builder: &mut LoopBuilder, x: Expr) -> Expr {
        let aligned = builder.let_("aligned", x.shift_left(self.0.clone()));
        let lessened = aligned.clone() + aligned.shift_right(Expr::i32(31));
        let upper = builder.let_("upper", lessened.shift_right(Expr::i32(16)));
        (upper + Expr::i32(128)).shift_right(Expr::i32(8))
    }
}

/// `|x|` of an I32; 2^31 (as unsigned) for the smallest.
pub fn magnitude(x: Expr) -> Expr {
    let negative = x.clone().less(Expr::i32(0));
    negative.select(x.clone().unary(Unary::Negate), x)
}

/// The bitwise or of the magnitudes of a buffer's elements: as wide as the largest magnitude.
pub fn magnitude_bits(builder: &mut LoopBuilder, buffer: Buffer, count: usize) -> Expr {
    let bits = builder.local("magnitude_bits", Expr::i32(0));
    builder.for_("i", count, |b, i| {
        let x = b.load(buffer, i);
        let x = b.let_("x", x);
        let all = b.get(bits).or(magnitude(x));
        b.set(bits, all);
    });
    builder.get(bits)
}

/// [`crate::numeric::float_of_wide`] of an I64.
pub fn float_of_wide(builder: &mut LoopBuilder, x: Expr) -> Expr {
    let x = builder.let_("wide", x);
    let shifted = |bits: i64| x.clone().shift_right(Expr::i64(bits));
    let part = |bits: i64| shifted(bits).and(Expr::i64(0xff_ffff)).truncate().unary(Unary::ToFloat);
    let unit = || Expr::f32(16_777_216.0);
    let high = shifted(48).truncate().unary(Unary::ToFloat) * unit() + part(24);
    builder.let_("float", high * unit() + part(0))
}

/// [`crate::numeric::bit_width`].
pub fn bit_width(magnitude: Expr) -> Expr {
    Expr::i32(32) - magnitude.unary(Unary::LeadingZeros)
}

/// `clamp(x, low, high)`.
pub fn clamp(x: Expr, low: i32, high: i32) -> Expr {
    x.maximum(Expr::i32(low)).minimum(Expr::i32(high))
}
