//! Bounds of a clip on integers with a shared exponent `e`: `bound * 2^-e`, exactly where it matters.

use crate::loops::{Expr, Unary};
use crate::numeric::float::power_of_two_expression;
use crate::types::Element;

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
/// beyond every i8 and u8 (for sums: every i32), so comparisons with an element, floor and ceil do not change.
fn range(element: Element) -> [i32; 2] {
    [-2, if element == Element::I32 { 34 } else { 10 }]
}

/// No shared exponent beyond this matters: bounds are within 2^-149..2^128.
const EXPONENT_LIMIT: i32 = 1000;

/// `bound * 2^-exponent`, or a number on the same side of (or equal to) every element (i8, u8 or i32).
pub(crate) fn scaled(bound: f32, exponent: i32, element: Element) -> f32 {
    let (mantissa, own) = decompose(bound);
    let exponent = exponent.clamp(-EXPONENT_LIMIT, EXPONENT_LIMIT);
    let [least, most] = range(element);
    let n = (own - exponent).clamp(least, most);
    mantissa * f32::from_bits(((n + 127) << 23) as u32)
}

/// [`scaled`] as a loop expression of the I32 exponent.
pub(crate) fn scaled_expression(bound: f32, exponent: Expr, element: Element) -> Expr {
    let (mantissa, own) = decompose(bound);
    let clamp = |x: Expr, [low, high]: [i32; 2]| x.maximum(Expr::i32(low)).minimum(Expr::i32(high));
    let exponent = clamp(exponent, [-EXPONENT_LIMIT, EXPONENT_LIMIT]);
    let n = clamp(Expr::i32(own) - exponent, range(element));
    Expr::f32(mantissa) * power_of_two_expression(n)
}

/// `[ceil(min * 2^-e), floor(max * 2^-e)]`, each within the element (i8, u8 or i32).
pub(crate) fn integer_bounds(min: f32, max: f32, exponent: i32, element: Element) -> [i32; 2] {
    let [low, high] = limits(element);
    [scaled(min, exponent, element).ceil(), scaled(max, exponent, element).floor()]
        .map(|bound| (bound as i32).clamp(low, high))
}

/// Smallest and largest element.
fn limits(element: Element) -> [i32; 2] {
    let (low, high) = element.integer_range().expect("an integer element");
    [low as i32, high as i32]
}

/// [`integer_bounds`] as loop expressions.
pub(crate) fn integer_bounds_expression(
    min: f32,
    max: f32,
    exponent: Expr,
    element: Element,
) -> [Expr; 2] {
    let bounds = [
        scaled_expression(min, exponent.clone(), element).unary(Unary::Ceil),
        scaled_expression(max, exponent, element).unary(Unary::Floor),
    ];
    let [low, high] = limits(element);
    // Conversion to an i32 is limited to an i32.
    let limit = |bound: Expr| match element {
        Element::I32 => bound,
        _ => bound.maximum(Expr::i32(low)).minimum(Expr::i32(high)),
    };
    bounds.map(|bound| limit(bound.unary(Unary::ToInteger)))
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
                for element in [Element::I8, Element::U8, Element::I32] {
                    let [low, high] = limits(element).map(f64::from);
                    let found = integer_bounds(bound, bound, exponent, element).map(f64::from);
                    assert_eq!(found[0], exact.ceil().clamp(low, high), "{bound} {exponent}");
                    assert_eq!(found[1], exact.floor().clamp(low, high), "{bound} {exponent}");
                }
                for q in -128..=255 {
                    let compared = f64::from(q).partial_cmp(&exact);
                    let found = (q as f32).partial_cmp(&scaled(bound, exponent, Element::I8));
                    assert_eq!(compared, found, "{q} {bound} {exponent}");
                }
            }
        }
        let (least, most) = (f32::NEG_INFINITY, f32::INFINITY);
        assert_eq!(integer_bounds(least, most, i32::MAX, Element::I8), [-128, 127]);
        assert_eq!(integer_bounds(least, most, 0, Element::I32), [i32::MIN, i32::MAX]);
        assert_eq!(integer_bounds(-6.0, 6.0, i32::MIN, Element::I8), [-128, 127]);
        assert_eq!(integer_bounds(-6.0, 6.0, i32::MAX, Element::I8), [0, 0]);
    }
}
