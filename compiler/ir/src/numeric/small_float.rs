//! Formats of few bits and the rounding of FP32 numbers to them, as scalar functions and as loop expressions.
//!
//! A format has a sign, exponent codes and mantissa bits. Code `c >= 1` with mantissa `f` is `(1 + f / 2^m) * 2^(c - bias)`, code 0
//! is subnormal: `f / 2^m * 2^(1 - bias)`. There is neither an infinity nor a NaN: all codes are numbers but for as many of the
//! largest as the format reserves, and what is larger becomes the largest.

use crate::attributes::Attribute;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, Unary};
use crate::text::cursor::{Cursor, SyntaxError};

/// Mantissa bits of FP32.
const OWN_MANTISSA: u32 = 23;
/// The exponent of FP32, in place.
const OWN_EXPONENT: u32 = 0x7f80_0000;

/// A format of few bits. Its text form is `e5m2`, with `bN` behind where the bias is not `2^(e-1) - 1`, and `rN` where N of the
/// largest codes are no numbers: `e4m3r1` is the OCP's E4M3, `e6m9` a half of 16 bits with 6 of exponent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FloatFormat {
    exponent_bits: u32,
    mantissa_bits: u32,
    bias: i32,
    reserved: u32,
}

impl FloatFormat {
    /// A format of 1 to 7 exponent bits and up to 20 mantissa bits whose numbers and steps are normal FP32 numbers.
    ///
    /// # Errors
    /// Says what does not fit.
    pub fn new(
        exponent_bits: u32,
        mantissa_bits: u32,
        bias: i32,
        reserved: u32,
    ) -> Result<FloatFormat, String> {
        if !(1..=7).contains(&exponent_bits) || mantissa_bits > 20 {
            return Err("a small float has 1 to 7 exponent bits and up to 20 mantissa bits".into());
        }
        if reserved >= (1 << (exponent_bits + mantissa_bits)) - 1 {
            return Err(format!("{reserved} reserved codes leave no number"));
        }
        let format = FloatFormat { exponent_bits, mantissa_bits, bias, reserved };
        let (least, largest) =
            (1i64 - i64::from(bias), (1i64 << exponent_bits) - 1 - i64::from(bias));
        let m = i64::from(mantissa_bits);
        if least - m < -126 || largest > 104 {
            return Err(format!(
                "exponents {least} to {largest} with {m} mantissa bits: the least may be {}, the largest 104",
                m - 126
            ));
        }
        Ok(format)
    }

    fn usual_bias(exponent_bits: u32) -> i32 {
        (1 << (exponent_bits - 1)) - 1
    }

    /// The bits of a number, its sign included.
    pub fn bits(self) -> u32 {
        1 + self.exponent_bits + self.mantissa_bits
    }

    /// The largest number.
    pub fn largest(self) -> f32 {
        let code = (1u32 << (self.exponent_bits + self.mantissa_bits)) - 1 - self.reserved;
        let (exponent, fraction) =
            (code >> self.mantissa_bits, code & ((1 << self.mantissa_bits) - 1));
        let whole = if exponent == 0 { fraction } else { (1 << self.mantissa_bits) + fraction };
        let unit = exponent.max(1) as i32 - self.bias - self.mantissa_bits as i32;
        // Both factors are exact.
        whole as f32 * super::power_of_two(unit)
    }

    /// The bits of `2^(1 - bias)`, the least exponent of normal numbers.
    fn least_normal(self) -> u32 {
        ((128 - self.bias) as u32) << OWN_MANTISSA
    }

    /// The exponent's bits of a magnitude, no less than that of normal numbers.
    fn exponent(self, magnitude: f32) -> u32 {
        (magnitude.to_bits() & OWN_EXPONENT).max(self.least_normal())
    }

    /// The nearest number, ties to an even number of steps; +0 of what vanishes and of NaN.
    pub fn nearest(self, x: f32) -> f32 {
        self.signed(x, |magnitude| {
            // In [2^23 steps, 2^24 steps) FP32 has whole steps alone, so the sum rounds to them.
            let up = f32::from_bits(
                self.exponent(magnitude) + ((OWN_MANTISSA - self.mantissa_bits) << OWN_MANTISSA),
            );
            (magnitude + up) - up
        })
    }

    /// The next number away from 0, the number itself if it is one.
    pub fn away(self, x: f32) -> f32 {
        self.signed(x, |magnitude| {
            let (step, inverse) = self.steps(magnitude);
            ((magnitude * inverse).ceil() * step).min(self.largest())
        })
    }

    /// `floor(|x| / step + u) * step` with the sign of x: one of the two nearest numbers, by chance.
    pub fn by_chance(self, x: f32, uniform: f32) -> f32 {
        self.signed(x, |magnitude| {
            let (step, inverse) = self.steps(magnitude);
            ((magnitude * inverse + uniform).floor() * step).min(self.largest())
        })
    }

    /// The step at a magnitude, and its inverse.
    fn steps(self, magnitude: f32) -> (f32, f32) {
        let step = self.exponent(magnitude) - (self.mantissa_bits << OWN_MANTISSA);
        (f32::from_bits(step), f32::from_bits((254 << OWN_MANTISSA) - step))
    }

    fn signed(self, x: f32, round: impl Fn(f32) -> f32) -> f32 {
        let largest = self.largest();
        let magnitude = if x.abs() < largest { x.abs() } else { largest };
        let rounded = round(magnitude);
        if 0.0 < x {
            rounded
        } else if x < 0.0 {
            0.0 - rounded
        } else {
            0.0
        }
    }

    /// [`FloatFormat::nearest`] in loops.
    pub fn nearest_expression(self, b: &mut LoopBuilder, x: Expr) -> Expr {
        self.signed_expression(b, x, |b, magnitude, exponent| {
            let up = (OWN_MANTISSA - self.mantissa_bits) << OWN_MANTISSA;
            let up = (exponent + Expr::i32(up as i32)).unary(Unary::FromBits);
            let up = b.let_("up", up);
            (magnitude + up.clone()) - up
        })
    }

    /// [`FloatFormat::away`] in loops.
    pub fn away_expression(self, b: &mut LoopBuilder, x: Expr) -> Expr {
        self.signed_expression(b, x, |b, magnitude, exponent| {
            let [step, inverse] = self.step_expressions(b, exponent);
            ((magnitude * inverse).unary(Unary::Ceil) * step).minimum(Expr::f32(self.largest()))
        })
    }

    /// [`FloatFormat::by_chance`] in loops.
    pub fn by_chance_expression(self, b: &mut LoopBuilder, x: Expr, uniform: Expr) -> Expr {
        self.signed_expression(b, x, |b, magnitude, exponent| {
            let [step, inverse] = self.step_expressions(b, exponent);
            let steps = (magnitude * inverse + uniform).unary(Unary::Floor);
            (steps * step).minimum(Expr::f32(self.largest()))
        })
    }

    fn step_expressions(self, b: &mut LoopBuilder, exponent: Expr) -> [Expr; 2] {
        let bits = exponent - Expr::i32((self.mantissa_bits << OWN_MANTISSA) as i32);
        let bits = b.let_("step_bits", bits);
        let inverse = Expr::i32(254 << OWN_MANTISSA) - bits.clone();
        [bits, inverse].map(|bits| bits.unary(Unary::FromBits))
    }

    fn signed_expression(
        self,
        b: &mut LoopBuilder,
        x: Expr,
        round: impl FnOnce(&mut LoopBuilder, Expr, Expr) -> Expr,
    ) -> Expr {
        let x = b.let_("exact", x);
        let magnitude = x.clone().unary(Unary::FloatAbs).minimum(Expr::f32(self.largest()));
        let magnitude = b.let_("magnitude", magnitude);
        let own = magnitude.clone().unary(Unary::ToBits).and(Expr::i32(OWN_EXPONENT as i32));
        let exponent = own.maximum(Expr::i32(self.least_normal() as i32));
        let exponent = b.let_("exponent", exponent);
        let rounded = round(b, magnitude, exponent);
        let rounded = b.let_("rounded", rounded);
        let zero = || Expr::f32(0.0);
        let negative = x.clone().less(zero()).select(zero() - rounded.clone(), zero());
        let signed = zero().less(x).select(rounded, negative);
        b.let_("signed", signed)
    }
}

impl Attribute for FloatFormat {
    fn print(&self, out: &mut String) {
        out.push_str(&format!("e{}m{}", self.exponent_bits, self.mantissa_bits));
        if self.bias != FloatFormat::usual_bias(self.exponent_bits) {
            out.push_str(&format!("b{}", self.bias));
        }
        if self.reserved != 0 {
            out.push_str(&format!("r{}", self.reserved));
        }
    }

    fn parse(cursor: &mut Cursor<'_>) -> Result<FloatFormat, SyntaxError> {
        let at = cursor.clone();
        let word = cursor.word()?;
        let mut rest = word;
        // The digits behind a letter, if it is the next one.
        let mut part = |letter: char| -> Option<u32> {
            let digits = rest.strip_prefix(letter)?;
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            let number = digits[..end].parse().ok().filter(|number| *number < 1 << 24)?;
            rest = &digits[end..];
            Some(number)
        };
        let (exponent, mantissa, bias, reserved) = (part('e'), part('m'), part('b'), part('r'));
        let (Some(exponent), Some(mantissa), "") = (exponent, mantissa, rest) else {
            return Err(at.error(format!(
                "`{word}` is no small float: `e5m2`, `e4m3r1` (codes that are no numbers), `e2m4b4` (the bias)"
            )));
        };
        let usual = || FloatFormat::usual_bias(exponent.clamp(1, 8));
        let bias = bias.map_or_else(usual, |bias| bias as i32);
        FloatFormat::new(exponent, mantissa, bias, reserved.unwrap_or(0))
            .map_err(|message| at.error(format!("`{word}`: {message}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(text: &str) -> FloatFormat {
        FloatFormat::parse(&mut Cursor::new(text)).expect("a format")
    }

    /// Every number of a format, from the definition.
    fn numbers(e: u32, m: u32, bias: i32, reserved: u32) -> Vec<f64> {
        let codes = (1u32 << (e + m)) - reserved;
        let of = |code: u32| {
            let (exponent, fraction) =
                (code >> m, f64::from(code & ((1 << m) - 1)) / f64::from(1u32 << m));
            match exponent {
                0 => fraction * 2f64.powi(1 - bias),
                c => (1.0 + fraction) * 2f64.powi(c as i32 - bias),
            }
        };
        (0..codes).map(of).collect()
    }

    /// Against a search among all numbers, at those, between them and halfway.
    #[test]
    fn rounding_is_a_search_among_the_numbers() {
        for (text, e, m, bias, reserved) in [
            ("e5m2", 5, 2, 15, 0),
            ("e6m9", 6, 9, 31, 0),
            ("e4m3r1", 4, 3, 7, 1),
            ("e2m4b4", 2, 4, 4, 0),
            ("e2m0b4", 2, 0, 4, 0),
            ("e1m3b0r2", 1, 3, 0, 2),
        ] {
            let own = format(text);
            let all = numbers(e, m, bias, reserved);
            assert_eq!(f64::from(own.largest()), *all.last().expect("a number"), "{text}");
            for (i, pair) in all.windows(2).enumerate() {
                let (low, high) = (pair[0], pair[1]);
                for part in [0.0, 0.25, 0.5, 0.75, 1.0] {
                    let x = low + (high - low) * part;
                    let nearest = match part {
                        p if p < 0.5 => low,
                        p if p > 0.5 => high,
                        // Without a mantissa the step below a power of two is that number.
                        _ if m == 0 && i > 0 => high,
                        _ if i % 2 == 0 => low,
                        _ => high,
                    };
                    let away = if part == 0.0 { low } else { high };
                    for sign in [1.0, -1.0] {
                        let x = (sign * x) as f32;
                        assert_eq!(f64::from(own.nearest(x)), sign * nearest, "{text}: {x}");
                        assert_eq!(f64::from(own.away(x)), sign * away, "{text}: {x}");
                        let chance = |u: f32| sign * f64::from(own.by_chance(x, u));
                        let upper = if part > 0.0 { high } else { low };
                        assert_eq!(
                            (chance(0.0), chance(0.99)),
                            (if part < 1.0 { low } else { high }, upper)
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_no_number_or_too_large() {
        let own = format("e5m2");
        assert_eq!(own.largest(), 114_688.0);
        assert_eq!(format("e4m3r1").largest(), 448.0);
        assert_eq!(format("e5m2r4").largest(), 57_344.0);
        for x in [f32::INFINITY, f32::MAX, 1.0e6] {
            assert_eq!((own.nearest(x), own.nearest(-x)), (114_688.0, -114_688.0));
            assert_eq!((own.away(x), own.by_chance(-x, 0.9)), (114_688.0, -114_688.0));
        }
        for x in [f32::NAN, -0.0, -1.0e-40] {
            assert_eq!(own.nearest(x).to_bits(), 0);
        }
    }

    #[test]
    fn text_reads_back() {
        for text in ["e5m2", "e6m9", "e4m3r1", "e2m4b4", "e7m1b126", "e1m3r2"] {
            let mut printed = String::new();
            format(text).print(&mut printed);
            assert_eq!(printed, text);
        }
        for text in ["e8m7", "e0m3", "m3", "e5", "e5m2x", "e5m21", "e2m1r8", "e5m2b400", "e7m2b126"]
        {
            assert!(FloatFormat::parse(&mut Cursor::new(text)).is_err(), "{text}");
        }
    }
}
