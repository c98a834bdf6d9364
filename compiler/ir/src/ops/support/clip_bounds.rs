//! Bounds of a clip on integers with a shared exponent `e`: `bound * 2^-e`, exactly where it matters.

use crate::loops::{Expr, Unary};
use crate::numeric::float::power_of_two_expression;

/// A float as `mantissa * 2^exponent` with `1 <= |mantissa| < 2`; zeros and infinities keep exponent 0.
fn decompose(bound: f32) -> (f32, i32) {
    if bound == 0.0 || !bound.is_finite() {
        return (bound, 0);
    }
    let subnormal = bound.abs() < f32::MIN_POSITIVE;
    let scaled = if subnormal { bound * 8_388_608.0 } else { bound };
    let exponent = ((scaled.to_bits() >> 23) & 0xff) as i32 - 127;
    let mantissa = f32::from_bits((scaled.to_bits() & 0x807f_ffff) | 0x3f80_0000);
    (mantissa, exponent - if subnormal { 23 } else { 0 })
}

/// Exponents of the scaled bound are clamped to this range: below it `|bound * 2^-e| < 1/2` either way, above it
/// beyond every i8, so comparisons with an i8, floor and ceil do not change.
const RANGE: [i32; 2] = [-2, 10];
/// No shared exponent beyond this matters: bounds are within 2^-149..2^128.
const EXPONENT_LIMIT: i32 = 1000;

/// `bound * 2^-exponent`, or a number on the same side of (or equal to) every i8.
pub(crate) fn scaled(bound: f32, exponent: i32) -> f32 {
    let (mantissa, own) = decompose(bound);
    let exponent = exponent.clamp(-EXPONENT_LIMIT, EXPONENT_LIMIT);
    let n = (own - exponent).clamp(RANGE[0], RANGE[1]);
    mantissa * f32::from_bits(((n + 127) << 23) as u32)
}

/// [`scaled`] as a loop expression of the I32 exponent.
pub(crate) fn scaled_expression(bound: f32, exponent: Expr) -> Expr {
    let (mantissa, own) = decompose(bound);
    let clamp = |x: Expr, [low, high]: [i32; 2]| x.maximum(Expr::i32(low)).minimum(Expr::i32(high));
    let exponent = clamp(exponent, [-EXPONENT_LIMIT, EXPONENT_LIMIT]);
    let n = clamp(Expr::i32(own) - exponent, RANGE);
    Expr::f32(mantissa) * power_of_two_expression(n)
}

/// `[ceil(min * 2^-e), floor(max * 2^-e)]`, each within i8.
pub(crate) fn integer_bounds(min: f32, max: f32, exponent: i32) -> [i32; 2] {
    [scaled(min, exponent).ceil(), scaled(max, exponent).floor()]
        .map(|bound| (bound as i32).clamp(-128, 127))
}

/// [`integer_bounds`] as loop expressions.
pub(crate) fn integer_bounds_expression(min: f32, max: f32, exponent: Expr) -> [Expr; 2] {
    [
        scaled_expression(min, exponent.clone()).unary(Unary::Ceil),
        scaled_expression(max, exponent).unary(Unary::Floor),
    ]
    .map(|bound| bound.unary(Unary::ToInteger).maximum(Expr::i32(-128)).minimum(Expr::i32(127)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against f64, where `bound * 2^-e` is exact for these exponents.
    #[test]
    fn bounds_agree_with_wide_arithmetic() {
        let bounds = [
            0.0,
            -0.0,
            6.0,
            -1.0,
            0.1,
            -0.1,
            127.0,
            1.0e-45,
            -1.0e-45,
            f32::MAX,
            f32::MIN,
            3.0e-39,
        ];
        for bound in bounds {
            for exponent in -300..=300 {
                let exact = f64::from(bound) * 2f64.powi(-exponent);
                let found = integer_bounds(bound, bound, exponent);
                assert_eq!(f64::from(found[0]), exact.ceil().clamp(-128.0, 127.0), "{bound}");
                assert_eq!(f64::from(found[1]), exact.floor().clamp(-128.0, 127.0), "{bound}");
                for q in -128..=127 {
                    let compared = f64::from(q).partial_cmp(&exact);
                    let found = (q as f32).partial_cmp(&scaled(bound, exponent));
                    assert_eq!(compared, found, "{q} {bound} {exponent}");
                }
            }
        }
        assert_eq!(integer_bounds(f32::NEG_INFINITY, f32::INFINITY, i32::MAX), [-128, 127]);
        assert_eq!(integer_bounds(-6.0, 6.0, i32::MIN), [-128, 127]);
        assert_eq!(integer_bounds(-6.0, 6.0, i32::MAX), [0, 0]);
    }
}
