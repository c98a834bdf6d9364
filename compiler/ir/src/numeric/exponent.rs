//! Powers of two of floats as loop expressions: the twins of [`crate::numeric`]'s scalar functions.

use super::integer::{bit_width, clamp};
use crate::loops::builder::LoopBuilder;
use crate::loops::{Buffer, Expr, Unary};

/// [`crate::numeric::ceil_log2`] of a positive finite F32.
pub fn ceil_log2(builder: &mut LoopBuilder, m: Expr) -> Expr {
    let bits = builder.let_("bits", m.unary(Unary::ToBits));
    let exponent = builder.let_("biased", bits.clone().shr_unsigned(Expr::i32(23)));
    let mantissa = builder.let_("mantissa", bits.and(Expr::i32(0x7f_ffff)));
    let lower = mantissa.clone().and(mantissa.clone() - Expr::i32(1));
    let inexact = |part: Expr| part.not_equal(Expr::i32(0)).unary(Unary::BoolToInteger);
    let subnormal = bit_width(mantissa.clone()) - Expr::i32(150) + inexact(lower);
    let normal = exponent.clone() - Expr::i32(127) + inexact(mantissa);
    builder.let_("ceil_log2", exponent.equal(Expr::i32(0)).select(subnormal, normal))
}

/// [`crate::numeric::floor_log2`] of a positive finite F32.
pub fn floor_log2(builder: &mut LoopBuilder, m: Expr) -> Expr {
    let bits = builder.let_("bits", m.unary(Unary::ToBits));
    let exponent = builder.let_("biased", bits.clone().shr_unsigned(Expr::i32(23)));
    let subnormal = bit_width(bits) - Expr::i32(150);
    let normal = exponent.clone() - Expr::i32(127);
    builder.let_("floor_log2", exponent.equal(Expr::i32(0)).select(subnormal, normal))
}

/// [`crate::numeric::largest_finite`] of an F32 buffer.
pub fn largest_finite(builder: &mut LoopBuilder, buffer: Buffer, count: usize) -> Expr {
    let largest = builder.local("largest", Expr::f32(0.0));
    builder.for_("i", count, |b, i| {
        let x = b.load(buffer, i).unary(Unary::FloatAbs);
        let x = b.let_("x", x);
        let larger = x.maximum(b.get(largest));
        b.set(largest, larger);
    });
    let limited = builder.get(largest).minimum(Expr::f32(f32::MAX));
    builder.let_("m", limited)
}

/// The two factors of [`crate::numeric::scale_by_power_of_two`] for a run-time I32 exponent.
pub fn power_of_two_factors(builder: &mut LoopBuilder, exponent: Expr) -> [Expr; 2] {
    // Beyond this both factors are at their clamp anyway; the difference below cannot wrap.
    let exponent = builder.let_("scale_exponent", clamp(exponent, -1000, 1000));
    let first = builder.let_("first_exponent", clamp(exponent.clone(), -126, 127));
    let second = clamp(exponent - first.clone(), -126, 127);
    let power = |e: Expr| (e + Expr::i32(127)).shift_left(Expr::i32(23)).unary(Unary::FromBits);
    [builder.let_("factor0", power(first)), builder.let_("factor1", power(second))]
}
