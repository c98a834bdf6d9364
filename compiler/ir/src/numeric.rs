//! Scalar arithmetic that operations share: integer rounding shifts and the fixed polynomials of exp, log, erf.
//!
//! Each function here has a twin that builds the same computation as a loop expression, so that interpreter and
//! emitted code agree bit for bit.

use crate::keyword_enum;

pub mod float;

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
    let sign = if x < 0 { -1 } else { 1 };
    let m = i128::from(x).unsigned_abs();
    // Beyond 100 bits every rounding of an i64 magnitude gives 0 (or -1 for floor).
    let s = s.min(100);
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
