//! Scalar arithmetic that operations share: integer rounding shifts and the fixed polynomials of exp, log, erf.
//!
//! Each function here has a twin that builds the same computation as a loop expression, so that interpreter and
//! emitted code agree bit for bit.

use crate::keyword_enum;

pub mod dither;
pub mod exponent;
pub mod float;
pub mod integer;
pub mod small_float;

pub use float::{erf, exp, log, pow, sigmoid, tanh};

keyword_enum! {
    /// How a right shift by `s` rounds. With m = |x|, sg = sign(x), p = m mod 2^s.
    pub enum Rounding {
        /// `sg * (m >> s)`: toward zero.
        Truncate = "truncate",
        /// `x >> s`: toward minus infinity.
        Floor = "floor",
        /// `sg * ((m >> s) + bit s-1 of m)`: to nearest, ties away from zero.
        HalfAway = "half_away",
        /// NITI's pseudo-stochastic rounding: up if the upper half of p's bits exceeds the lower half
        /// (Wang et al., "NITI", section 3.3; with h = s >> 1: q = p >> h, r = p mod 2^h, doubled if s is odd;
        /// up if q > r).
        PseudoStochastic = "pseudo_stochastic",
    }
}

/// Shifts `x` right by `s` bits with rounding; `s` may exceed the width. Exact in wide integers.
pub fn shift_right(x: i64, s: u32, rounding: Rounding) -> i64 {
    if s == 0 {
        return x;
    }
    if s >= 128 {
        // m < 2^64, so the quotient, the bit below it and the upper half of p are all 0. (Below 128 the upper half
        // of p may still hold bits of m: pseudo-stochastic rounding by far more bits than m has is not always 0.)
        return if rounding == Rounding::Floor && x < 0 { -1 } else { 0 };
    }
    let sign = if x < 0 { -1 } else { 1 };
    let m = i128::from(x).unsigned_abs();
    let quotient = (m >> s) as i64;
    match rounding {
        Rounding::Truncate => sign * quotient,
        Rounding::Floor => (i128::from(x) >> s) as i64,
        Rounding::HalfAway => sign * (quotient + ((m >> (s - 1)) & 1) as i64),
        Rounding::PseudoStochastic => {
            let p = m & ((1u128 << s) - 1);
            let h = s >> 1;
            let q = p >> h;
            let mut r = p & ((1u128 << h) - 1);
            if s % 2 == 1 {
                r <<= 1;
            }
            sign * (quotient + i64::from(q > r))
        }
    }
}

/// `sg * ((m >> s) + (p > uniform))` with p = m mod 2^s: unbiased if `uniform` is uniform in 0..2^s.
pub fn shift_right_stochastic(x: i64, s: u32, uniform: u64) -> i64 {
    let m = i128::from(x).unsigned_abs();
    let up = (m & ((1u128 << s.min(127)) - 1)) > u128::from(uniform);
    let quotient = (m >> s.min(127)) as i64 + i64::from(up);
    if x < 0 { -quotient } else { quotient }
}

/// Bits needed for a magnitude: 0 for 0, else `floor(log2 v) + 1`.
pub fn bit_width(magnitude: u32) -> u32 {
    32 - magnitude.leading_zeros()
}

/// Clamps to the symmetric i8 range -127..=127.
pub fn saturate_i8(x: i64) -> i8 {
    x.clamp(-127, 127) as i8
}

/// `ceil(log2 m)` of a positive finite float, exactly, from its bits.
pub fn ceil_log2(m: f32) -> i32 {
    debug_assert!(m > 0.0 && m.is_finite());
    let bits = m.to_bits();
    let (exponent, mantissa) = ((bits >> 23) as i32, bits & 0x7f_ffff);
    if exponent == 0 {
        // Subnormal: m = mantissa * 2^-149.
        let width = 32 - mantissa.leading_zeros() as i32;
        return width - 150 + i32::from(!mantissa.is_power_of_two());
    }
    exponent - 127 + i32::from(mantissa != 0)
}

/// `floor(log2 m)` of a positive finite float, exactly, from its bits.
pub fn floor_log2(m: f32) -> i32 {
    debug_assert!(m > 0.0 && m.is_finite());
    let bits = m.to_bits();
    match (bits >> 23) as i32 {
        // Subnormal: m = mantissa * 2^-149.
        0 => 31 - bits.leading_zeros() as i32 - 149,
        exponent => exponent - 127,
    }
}

/// `min(max |x|, f32::MAX)` with NaN skipped; 0 if there is no number.
pub fn largest_finite(values: &[f32]) -> f32 {
    // Magnitudes compare as their bits do, which run by vectors; those of NaN are beyond infinity's.
    const INFINITY: u32 = f32::INFINITY.to_bits();
    let bits = values.iter().fold(0u32, |largest, x| {
        let bits = x.abs().to_bits();
        largest.max(if bits > INFINITY { 0 } else { bits })
    });
    f32::from_bits(bits).min(f32::MAX)
}

/// The FP32 of a 64-bit integer: its parts of 24 bits from the highest (signed) to the lowest, `(h * 2^24 + m) * 2^24 + l`, each step
/// rounded. The nearest if the magnitude is at most 2^48.
pub fn float_of_wide(x: i64) -> f32 {
    let part = |shift: u32| ((x >> shift) & 0xff_ffff) as f32;
    ((x >> 48) as f32 * 16_777_216.0 + part(24)) * 16_777_216.0 + part(0)
}

/// `2^exponent` for an exponent in -126..=127 (the normal numbers).
pub fn power_of_two(exponent: i32) -> f32 {
    debug_assert!((-126..=127).contains(&exponent));
    f32::from_bits(((exponent + 127) as u32) << 23)
}

/// `x * 2^exponent` by two multiplications with normal powers of two; the exponent is clamped to -252..=254.
///
/// The nearest FP32 if `x` is 0 or 1 <= |x|: the first product of a shrinking pair is then exact, and the clamp
/// shows only where the result is 0 or infinite anyway (|x| < 2^100).
pub fn scale_by_power_of_two(x: f32, exponent: i32) -> f32 {
    let [first, second] = power_of_two_factors(exponent);
    x * first * second
}

/// The two factors of [`scale_by_power_of_two`], in their order.
pub fn power_of_two_factors(exponent: i32) -> [f32; 2] {
    let first = exponent.clamp(-126, 127);
    let second = exponent.saturating_sub(first).clamp(-126, 127);
    [first, second].map(power_of_two)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked by hand from the definition.
    #[test]
    fn shifts() {
        use Rounding::{Floor, HalfAway, PseudoStochastic, Truncate};
        for (x, s, truncated, floored, half_away, pseudo) in [
            (0i64, 5, 0, 0, 0, 0),
            (5, 0, 5, 5, 5, 5),
            // s = 1: h = 0, q = p, r = 0: every odd value goes up.
            (5, 1, 2, 2, 3, 3),
            (-5, 1, -2, -3, -3, -3),
            // s = 2: only the remainder 2 goes up.
            (5, 2, 1, 1, 1, 1),
            (6, 2, 1, 1, 2, 2),
            (7, 2, 1, 1, 2, 1),
            (-7, 2, -1, -2, -2, -1),
            // s = 3: p = 5: q = 2, r = 1 doubled; p = 7: q = 3, r = 1 doubled.
            (5, 3, 0, 0, 1, 0),
            (7, 3, 0, 0, 1, 1),
            (-7, 3, 0, -1, -1, -1),
            // The magnitude of the smallest i32 is 2^31: with s = 63 q = 1 > r = 0; with s = 64 q = 0.
            (-(1 << 31), 31, -1, -1, -1, -1),
            (-(1 << 31), 32, 0, -1, -1, -1),
            (-(1 << 31), 33, 0, -1, 0, -1),
            (-(1 << 31), 63, 0, -1, 0, -1),
            (-(1 << 31), 64, 0, -1, 0, 0),
            // s = 127: q = 2^63 >> 63 = 1 > 0; s = 128: q = 0.
            (i64::MIN, 127, 0, -1, 0, -1),
            (i64::MIN, 128, 0, -1, 0, 0),
            (i64::MAX, u32::MAX, 0, 0, 0, 0),
        ] {
            assert_eq!(shift_right(x, s, Truncate), truncated, "{x} >> {s} truncate");
            assert_eq!(shift_right(x, s, Floor), floored, "{x} >> {s} floor");
            assert_eq!(shift_right(x, s, HalfAway), half_away, "{x} >> {s} half_away");
            assert_eq!(shift_right(x, s, PseudoStochastic), pseudo, "{x} >> {s} pseudo");
        }
        // m = 23 = 1 * 16 + 7.
        for (uniform, expected) in [(0, 2), (6, 2), (7, 1), (15, 1)] {
            assert_eq!(shift_right_stochastic(23, 4, uniform), expected);
            assert_eq!(shift_right_stochastic(-23, 4, uniform), -expected);
        }
    }

    #[test]
    fn logarithms() {
        for (m, expected) in [
            (1.0, 0),
            (1.000_000_1, 1),
            (2.0, 1),
            (3.0, 2),
            (4.0, 2),
            (0.5, -1),
            (0.75, 0),
            (f32::MIN_POSITIVE, -126),
            (f32::from_bits(0x007f_ffff), -126),
            (f32::from_bits(0x0040_0000), -127),
            (f32::from_bits(3), -147),
            (f32::from_bits(1), -149),
            (f32::MAX, 128),
        ] {
            assert_eq!(ceil_log2(m), expected, "{m:e}");
        }
        for (magnitude, bits) in [(0, 0), (1, 1), (127, 7), (128, 8), (u32::MAX, 32)] {
            assert_eq!(bit_width(magnitude), bits);
        }
    }

    #[test]
    fn scaling() {
        assert_eq!(scale_by_power_of_two(3.0, -150), f32::from_bits(2));
        assert_eq!(scale_by_power_of_two(1.0, -150).to_bits(), 0);
        assert_eq!(scale_by_power_of_two(-1.0, i32::MIN).to_bits(), 1 << 31);
        assert_eq!(scale_by_power_of_two(1.0, 127), 2f32.powi(127));
        assert_eq!(scale_by_power_of_two(-1.0, i32::MAX), f32::NEG_INFINITY);
        assert_eq!(scale_by_power_of_two(0.0, i32::MAX), 0.0);
        assert_eq!(scale_by_power_of_two(f32::from_bits(1), 156), 128.0);
    }
}
