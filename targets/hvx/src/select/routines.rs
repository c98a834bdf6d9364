//! Routines that selected code calls: division, and the square root. Total and exact; results without meaning (of a
//! division by 0) are any, but come.

use crate::machine::{Builder, Class, Count, Function, MachineError, Opcode, Register};

/// A routine of the target's runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Routine {
    /// `int32_t (int32_t a, int32_t b)`: a / b toward zero.
    Quotient32,
    /// `int32_t (int32_t a, int32_t b)`: what remains, with a's sign.
    Remainder32,
    /// Low word of a 64-bit quotient; takes a's and b's words, low first.
    Quotient64Low,
    /// High word of a 64-bit quotient.
    Quotient64High,
    /// Low word of a 64-bit remainder.
    Remainder64Low,
    /// High word of a 64-bit remainder.
    Remainder64High,
    /// `float (float a, float b)`, the bits in registers: a / b, ties to even.
    FloatDivide,
    /// `float (float x)`, the bits in registers: the square root, rounded to nearest.
    SquareRoot,
}

pub(super) const SIGN: i32 = i32::MIN;
const INFINITY: i32 = 0x7f80_0000;
const NOT_A_NUMBER: i32 = 0x7fc0_0000;
/// The bits of 1, and of all fractions.
pub(super) const ONE: i32 = 0x3f80_0000;
pub(super) const FRACTION: i32 = 0x7f_ffff;
/// The least normal number, and how many there are.
pub(super) const LEAST_NORMAL: i32 = 0x80_0000;
pub(super) const NORMAL: i32 = 0x7f00_0000;
/// The bits of an inverse root are about this less half of the number's (C. Lomont, "Fast inverse square root", 2003).
const INVERSE_ROOT: i32 = 0x5f37_59df;

impl Routine {
    /// All routines.
    pub const ALL: [Routine; 8] = [
        Self::Quotient32,
        Self::Remainder32,
        Self::Quotient64Low,
        Self::Quotient64High,
        Self::Remainder64Low,
        Self::Remainder64High,
        Self::FloatDivide,
        Self::SquareRoot,
    ];

    /// The symbol.
    #[must_use]
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Quotient32 => "trainc_hvx_quotient",
            Self::Remainder32 => "trainc_hvx_remainder",
            Self::Quotient64Low => "trainc_hvx_quotient_low",
            Self::Quotient64High => "trainc_hvx_quotient_high",
            Self::Remainder64Low => "trainc_hvx_remainder_low",
            Self::Remainder64High => "trainc_hvx_remainder_high",
            Self::FloatDivide => "trainc_hvx_divide",
            Self::SquareRoot => "trainc_hvx_sqrt",
        }
    }

    /// Its code.
    ///
    /// # Errors
    /// If the machine layer refuses it: a bug.
    pub fn function(self) -> Result<Function, MachineError> {
        match self {
            Self::Quotient32 => divide32(self.symbol(), true),
            Self::Remainder32 => divide32(self.symbol(), false),
            Self::Quotient64Low => divide64(self.symbol(), true, false),
            Self::Quotient64High => divide64(self.symbol(), true, true),
            Self::Remainder64Low => divide64(self.symbol(), false, false),
            Self::Remainder64High => divide64(self.symbol(), false, true),
            Self::FloatDivide => float_divide(self.symbol()),
            Self::SquareRoot => square_root(self.symbol()),
        }
    }
}

/// Shift and subtract, from the first place at which the divisor is not above the rest.
fn divide32(name: &str, quotient: bool) -> Result<Function, MachineError> {
    let mut b = Builder::new(name, 2);
    b.purpose(if quotient { "32-bit quotient toward zero" } else { "32-bit remainder" });
    let (x, y) = (b.parameter(0), b.parameter(1));
    let rest = b.emit(Opcode::Abs, (x,));
    let divisor = b.emit(Opcode::Abs, (y,));
    let zeros_rest = b.emit(Opcode::CountLeadingZeros, (rest,));
    let zeros_divisor = b.emit(Opcode::CountLeadingZeros, (divisor,));
    let places = b.emit(Opcode::Sub, (zeros_divisor, zeros_rest));
    let result = b.constant(0);
    let rounds = b.emit(Opcode::AddImmediate, (places, 1));
    let some = b.emit(Opcode::CompareGtImmediate, (rounds, 0));
    b.when(some, |b| {
        let place = b.emit(Opcode::AddImmediate, (rounds, -1));
        let shifted = b.emit(Opcode::ShiftLeft, (divisor, place));
        b.repeat(Count::Register(rounds), "a place", |b| {
            let above = b.emit(Opcode::CompareGtU, (shifted, rest));
            let less = b.emit(Opcode::Sub, (rest, shifted));
            b.emit_to(rest, Opcode::Mux, (above, rest, less));
            b.emit_to(shifted, Opcode::LogicalRightImmediate, (shifted, 1));
            let zero = b.emit(Opcode::Add, (result, result));
            let one = b.emit(Opcode::AddImmediate, (zero, 1));
            b.emit_to(result, Opcode::Mux, (above, zero, one));
        });
    });
    let result = if quotient {
        let signs = b.emit(Opcode::Xor, (x, y));
        negated_if_negative(&mut b, result, signs)
    } else {
        negated_if_negative(&mut b, rest, x)
    };
    b.finish(Some(result))
}

fn negated_if_negative(b: &mut Builder, value: Register, sign: Register) -> Register {
    let negative = b.emit(Opcode::CompareGtImmediate, (sign, -1));
    let negated = b.emit(Opcode::SubFromImmediate, (0, value));
    b.emit(Opcode::Mux, (negative, value, negated))
}

/// As [`divide32`], of pairs.
fn divide64(name: &str, quotient: bool, high: bool) -> Result<Function, MachineError> {
    let mut b = Builder::new(name, 4);
    let word = if high { "high" } else { "low" };
    let what = if quotient { "quotient toward zero" } else { "remainder" };
    b.purpose(&format!("{word} word of a 64-bit {what}; takes words, low first"));
    let words = [0, 1, 2, 3].map(|i| b.parameter(i));
    let x = b.emit(Opcode::Combine, (words[1], words[0]));
    let y = b.emit(Opcode::Combine, (words[3], words[2]));
    let rest = b.emit(Opcode::AbsD, (x,));
    let divisor = b.emit(Opcode::AbsD, (y,));
    let zeros_rest = b.emit(Opcode::CountLeadingZerosD, (rest,));
    let zeros_divisor = b.emit(Opcode::CountLeadingZerosD, (divisor,));
    let places = b.emit(Opcode::Sub, (zeros_divisor, zeros_rest));
    let rounds = b.emit(Opcode::AddImmediate, (places, 1));
    let result = b.emit(Opcode::CombineImmediate, (0, 0));
    let some = b.emit(Opcode::CompareGtImmediate, (rounds, 0));
    b.when(some, |b| {
        // By 0 there are 65 places; amounts end at 63.
        let sixty_three = b.constant(63);
        let place = b.emit(Opcode::AddImmediate, (rounds, -1));
        let place = b.emit(Opcode::Min, (place, sixty_three));
        let shifted = b.emit(Opcode::ShiftLeftD, (divisor, place));
        b.repeat(Count::Register(rounds), "a place", |b| {
            let above = b.emit(Opcode::CompareGtUD, (shifted, rest));
            let less = b.emit(Opcode::SubD, (rest, shifted));
            let rest_high = b.emit(Opcode::Mux, (above, rest.high(), less.high()));
            let rest_low = b.emit(Opcode::Mux, (above, rest.low(), less.low()));
            b.emit_to(rest, Opcode::Combine, (rest_high, rest_low));
            b.emit_to(shifted, Opcode::LogicalRightDImmediate, (shifted, 1));
            let zero = b.emit(Opcode::ShiftLeftDImmediate, (result, 1));
            let one = b.emit(Opcode::MuxImmediate, (above, 0, 1));
            let low = b.emit(Opcode::Or, (zero.low(), one));
            b.emit_to(result, Opcode::Combine, (zero.high(), low));
        });
    });
    let (value, sign) = if quotient {
        (result, b.emit(Opcode::Xor, (x.high(), y.high())))
    } else {
        (rest, x.high())
    };
    let natural = b.emit(Opcode::CompareGtImmediate, (sign, -1));
    let negated = b.emit(Opcode::NegD, (value,));
    let (value, negated) =
        if high { (value.high(), negated.high()) } else { (value.low(), negated.low()) };
    let result = b.emit(Opcode::Mux, (natural, value, negated));
    b.finish(Some(result))
}

/// Fraction with its leading one at bit 23, and biased exponent; subnormal numbers are normalised.
fn parts(b: &mut Builder, magnitude: Register) -> (Register, Register) {
    let exponent = b.emit(Opcode::LogicalRightImmediate, (magnitude, 23));
    let fraction = b.emit(Opcode::ExtractBits, (magnitude, 23, 0));
    let subnormal = b.emit(Opcode::CompareEqImmediate, (exponent, 0));
    // Of a subnormal number: 9 zeros are those of a leading one at bit 22.
    let zeros = b.emit(Opcode::CountLeadingZeros, (fraction,));
    let places = b.emit(Opcode::AddImmediate, (zeros, -8));
    let moved = b.emit(Opcode::ShiftLeft, (fraction, places));
    let lowered = b.emit(Opcode::SubFromImmediate, (1, places));
    let lead = b.emit(Opcode::OrImmediate, (fraction, 0x80_0000));
    let fraction = b.emit(Opcode::Mux, (subnormal, moved, lead));
    let exponent = b.emit(Opcode::Mux, (subnormal, lowered, exponent));
    (fraction, exponent)
}

/// Below [`NORMAL`], as unsigned, if these are the bits of a positive normal number.
pub(super) fn below_normal(b: &mut Builder, magnitude: Register) -> Register {
    b.emit(Opcode::AddImmediate, (magnitude, -LEAST_NORMAL))
}

/// A float in [1, 2) with the fraction of a magnitude.
pub(super) fn fraction(b: &mut Builder, magnitude: Register) -> Register {
    let fraction = b.emit(Opcode::ExtractBits, (magnitude, 23, 0));
    b.emit(Opcode::OrImmediate, (fraction, ONE))
}

/// A quotient of normal numbers by the divisor's reciprocal, where it is normal, too; else by long division.
///
/// Four steps of Newton's method make the reciprocal of a fraction the nearest float (of all but 2 - 2^-23, seen by trying each);
/// then one correction by the exact remainder rounds the quotient (P. Markstein, "Computation of elementary functions on the IBM
/// RISC System/6000 processor", 1990, theorem 7.1).
fn float_divide(name: &str) -> Result<Function, MachineError> {
    let mut b = Builder::new(name, 2);
    b.purpose("binary32 quotient, ties to even");
    let (x, y) = (b.parameter(0), b.parameter(1));
    let signs = b.emit(Opcode::Xor, (x, y));
    let sign = b.emit(Opcode::AndImmediate, (signs, SIGN));
    let of_x = b.emit(Opcode::AndImmediate, (x, i32::MAX));
    let of_y = b.emit(Opcode::AndImmediate, (y, i32::MAX));
    let result = b.fresh(Class::R);
    let (below_x, below_y) = (below_normal(&mut b, of_x), below_normal(&mut b, of_y));
    let most = b.emit(Opcode::MaxU, (below_x, below_y));
    let special = b.emit(Opcode::CompareGtUImmediate, (most, NORMAL - 1));
    // The quotient's exponent, or one more; away from the ends of the range.
    let exponent_x = b.emit(Opcode::LogicalRightImmediate, (of_x, 23));
    let exponent_y = b.emit(Opcode::LogicalRightImmediate, (of_y, 23));
    let apart = b.emit(Opcode::Sub, (exponent_x, exponent_y));
    let above = b.emit(Opcode::AddImmediate, (apart, 125));
    let far = b.emit(Opcode::CompareGtUImmediate, (above, 251));
    let divisor = fraction(&mut b, of_y);
    let unlike = b.constant(ONE | FRACTION);
    let exception = b.emit(Opcode::CompareEq, (divisor, unlike));
    let long = b.emit(Opcode::PredicateOr, (special, far));
    let long = b.emit(Opcode::PredicateOr, (long, exception));
    b.branch(
        long,
        |b| long_division(b, [of_x, of_y], sign, result),
        |b| {
            let dividend = fraction(b, of_x);
            let reciprocal = reciprocal_of(b, divisor);
            let quotient = quotient_by(b, dividend, divisor, reciprocal);
            let power = b.emit(Opcode::ShiftLeftImmediate, (apart, 23));
            let bits = b.emit(Opcode::Add, (quotient, power));
            b.emit_to(result, Opcode::Or, (bits, sign));
        },
    );
    b.finish(Some(result))
}

fn number(b: &mut Builder, value: f32) -> Register {
    b.constant(value.to_bits().cast_signed())
}

/// The nearest float to the reciprocal of a fraction in [1, 2), all but the greatest.
pub(super) fn reciprocal_of(b: &mut Builder, divisor: Register) -> Register {
    let reciprocal = number(b, 24.0 / 17.0);
    let slope = number(b, 8.0 / 17.0);
    b.update(Opcode::FloatMultiplySub, (reciprocal, slope, divisor));
    for _ in 0..4 {
        let error = number(b, 1.0);
        b.update(Opcode::FloatMultiplySub, (error, divisor, reciprocal));
        b.update(Opcode::FloatMultiplyAdd, (reciprocal, error, reciprocal));
    }
    reciprocal
}

/// A quotient by the nearest float to the divisor's reciprocal, if it and all of its remainder's bits are normal numbers'.
pub(super) fn quotient_by(
    b: &mut Builder,
    dividend: Register,
    divisor: Register,
    reciprocal: Register,
) -> Register {
    let quotient = b.emit(Opcode::FloatMultiply, (dividend, reciprocal));
    let rest = b.copy(dividend);
    b.update(Opcode::FloatMultiplySub, (rest, divisor, quotient));
    b.update(Opcode::FloatMultiplyAdd, (quotient, rest, reciprocal));
    quotient
}

/// Long division of the fractions of two magnitudes: 26 bits, and whether anything remains.
fn long_division(b: &mut Builder, [of_x, of_y]: [Register; 2], sign: Register, result: Register) {
    // 0 becomes the largest number, so that one comparison finds 0, infinity, and what is no number.
    let below_x = b.emit(Opcode::AddImmediate, (of_x, -1));
    let below_y = b.emit(Opcode::AddImmediate, (of_y, -1));
    let largest = b.emit(Opcode::MaxU, (below_x, below_y));
    let special = b.emit(Opcode::CompareGtUImmediate, (largest, INFINITY - 2));
    b.branch(
        special,
        |b| {
            let infinity = b.constant(INFINITY);
            let zero = b.zero();
            // 0 divided by what is not 0, and what is finite by infinity: 0.
            b.emit_to(result, Opcode::Move, (sign,));
            let infinite = b.emit(Opcode::Or, (sign, infinity));
            let x_infinite = b.emit(Opcode::CompareEq, (of_x, infinity));
            b.emit_to(result, Opcode::MoveIf, (x_infinite, infinite));
            let y_zero = b.emit(Opcode::CompareEq, (of_y, zero));
            b.emit_to(result, Opcode::MoveIf, (y_zero, infinite));
            // inf / inf, 0 / 0, and operands that are no number.
            let nan = b.constant(NOT_A_NUMBER);
            let same = b.emit(Opcode::CompareEq, (of_x, of_y));
            b.emit_to(result, Opcode::MoveIf, (same, nan));
            let most = b.emit(Opcode::MaxU, (of_x, of_y));
            let none = b.emit(Opcode::CompareGtU, (most, infinity));
            b.emit_to(result, Opcode::MoveIf, (none, nan));
        },
        |b| {
            let (rest, exponent_x) = parts(b, of_x);
            let (divisor, exponent_y) = parts(b, of_y);
            let exponent = b.emit(Opcode::Sub, (exponent_x, exponent_y));
            let exponent = b.emit(Opcode::AddImmediate, (exponent, 127));
            // A quotient below 1 takes one more place.
            let below = b.emit(Opcode::CompareGtU, (divisor, rest));
            let doubled = b.emit(Opcode::Add, (rest, rest));
            b.emit_to(rest, Opcode::MoveIf, (below, doubled));
            let lowered = b.emit(Opcode::AddImmediate, (exponent, -1));
            b.emit_to(exponent, Opcode::MoveIf, (below, lowered));
            let quotient = b.constant(0);
            b.repeat(26u32, "bits of the quotient, highest first", |b| {
                let above = b.emit(Opcode::CompareGtU, (divisor, rest));
                let less = b.emit(Opcode::Sub, (rest, divisor));
                let kept = b.emit(Opcode::Mux, (above, rest, less));
                b.emit_to(rest, Opcode::Add, (kept, kept));
                let zero = b.emit(Opcode::Add, (quotient, quotient));
                let one = b.emit(Opcode::AddImmediate, (zero, 1));
                b.emit_to(quotient, Opcode::Mux, (above, zero, one));
            });
            // One more bit says whether anything remains: 24 bits to keep, 3 to round by.
            let exact = b.emit(Opcode::CompareEqImmediate, (rest, 0));
            let sticky = b.emit(Opcode::MuxImmediate, (exact, 0, 1));
            let quotient = b.emit(Opcode::Add, (quotient, quotient));
            let quotient = b.emit(Opcode::Or, (quotient, sticky));
            // Below the smallest exponent, fewer bits are kept.
            let missing = b.emit(Opcode::SubFromImmediate, (4, exponent));
            let three = b.constant(3);
            let thirty_one = b.constant(31);
            let shift = b.emit(Opcode::Max, (missing, three));
            let shift = b.emit(Opcode::Min, (shift, thirty_one));
            let kept = b.emit(Opcode::LogicalRight, (quotient, shift));
            let one = b.constant(1);
            let cut = b.emit(Opcode::ShiftLeft, (kept, shift));
            let cut = b.emit(Opcode::Sub, (quotient, cut));
            let before = b.emit(Opcode::AddImmediate, (shift, -1));
            let half = b.emit(Opcode::ShiftLeft, (one, before));
            // Up if above half, or half and odd: cut + odd > half.
            let odd = b.emit(Opcode::AndImmediate, (kept, 1));
            let cut = b.emit(Opcode::Add, (cut, odd));
            let up = b.emit(Opcode::CompareGtU, (cut, half));
            let up = b.emit(Opcode::MuxImmediate, (up, 1, 0));
            // The leading one adds to the exponent.
            let lowered = b.emit(Opcode::AddImmediate, (exponent, -1));
            let zero = b.zero();
            let field = b.emit(Opcode::Max, (lowered, zero));
            let field = b.emit(Opcode::ShiftLeftImmediate, (field, 23));
            let bits = b.emit(Opcode::Add, (field, kept));
            let bits = b.emit(Opcode::Add, (bits, up));
            let overflow = b.emit(Opcode::CompareGtImmediate, (exponent, 254));
            let infinity = b.constant(INFINITY);
            let bits = b.emit(Opcode::Mux, (overflow, infinity, bits));
            b.emit_to(result, Opcode::Or, (bits, sign));
        },
    );
}

/// The root of a normal number by Goldschmidt's iteration for `sqrt(m)` and `1 / (2 sqrt(m))`, m being the fraction by 1 or 2; else
/// bit by bit. The correction by the exact remainder rounds it to nearest, seen by trying every m.
fn square_root(name: &str) -> Result<Function, MachineError> {
    let mut b = Builder::new(name, 1);
    b.purpose("binary32 square root, rounded to nearest");
    let x = b.parameter(0);
    let result = b.fresh(Class::R);
    let below = below_normal(&mut b, x);
    let special = b.emit(Opcode::CompareGtUImmediate, (below, NORMAL - 1));
    b.branch(
        special,
        |b| root_by_bits(b, x, result),
        |b| {
            let root = root_of_normal(b, x);
            b.emit_to(result, Opcode::Move, (root,));
        },
    );
    b.finish(Some(result))
}

/// The root of a positive normal number.
pub(super) fn root_of_normal(b: &mut Builder, x: Register) -> Register {
    // Odd exponents stand for even powers.
    let odd = b.emit(Opcode::TestBit, (x, 23));
    let fraction = b.emit(Opcode::ExtractBits, (x, 23, 0));
    let (one, two) = (number(b, 1.0), number(b, 2.0));
    let scale = b.emit(Opcode::Mux, (odd, one, two));
    let m = b.emit(Opcode::Or, (fraction, scale));
    let exponent = b.emit(Opcode::LogicalRightImmediate, (x, 23));
    let power = b.emit(Opcode::AddImmediate, (exponent, -127));
    let power = b.emit(Opcode::ArithmeticRightImmediate, (power, 1));
    let power = b.emit(Opcode::ShiftLeftImmediate, (power, 23));
    // Within 3.5 % of 1 / sqrt(m): its exponent is about half of m's, negated.
    let half_bits = b.emit(Opcode::LogicalRightImmediate, (m, 1));
    let magic = b.constant(INVERSE_ROOT);
    let inverse = b.emit(Opcode::Sub, (magic, half_bits));
    let half = number(b, 0.5);
    let root = b.emit(Opcode::FloatMultiply, (m, inverse));
    let inverse = b.emit(Opcode::FloatMultiply, (half, inverse));
    for _ in 0..3 {
        let error = b.copy(half);
        b.update(Opcode::FloatMultiplySub, (error, root, inverse));
        b.update(Opcode::FloatMultiplyAdd, (root, root, error));
        b.update(Opcode::FloatMultiplyAdd, (inverse, inverse, error));
    }
    let rest = b.copy(m);
    b.update(Opcode::FloatMultiplySub, (rest, root, root));
    b.update(Opcode::FloatMultiplyAdd, (root, rest, inverse));
    b.emit(Opcode::Add, (root, power))
}

/// Bit by bit, in 32 bits: the root so far and what its square leaves.
fn root_by_bits(b: &mut Builder, x: Register, result: Register) {
    // 0 and what is negative, infinite or no number are above the finite positive numbers then.
    let below = b.emit(Opcode::AddImmediate, (x, -1));
    let special = b.emit(Opcode::CompareGtUImmediate, (below, INFINITY - 2));
    b.branch(
        special,
        |b| {
            // Zeros, infinity and what is no number stay; the rest is negative.
            let magnitude = b.emit(Opcode::AndImmediate, (x, i32::MAX));
            let zero = b.emit(Opcode::CompareEqImmediate, (magnitude, 0));
            let natural = b.emit(Opcode::CompareGtImmediate, (x, -1));
            let none = b.emit(Opcode::CompareGtUImmediate, (magnitude, INFINITY));
            let stays = b.emit(Opcode::PredicateOr, (zero, natural));
            let stays = b.emit(Opcode::PredicateOr, (stays, none));
            let nan = b.constant(NOT_A_NUMBER);
            b.emit_to(result, Opcode::Mux, (stays, x, nan));
        },
        |b| {
            let (fraction, exponent) = parts(b, x);
            let power = b.emit(Opcode::AddImmediate, (exponent, -127));
            // An even power: odd ones leave a factor of 2 with the fraction.
            let odd = b.emit(Opcode::TestBit, (power, 0));
            let doubled = b.emit(Opcode::Add, (fraction, fraction));
            b.emit_to(fraction, Opcode::MoveIf, (odd, doubled));
            let half_power = b.emit(Opcode::ArithmeticRightImmediate, (power, 1));
            let rest = b.emit(Opcode::Add, (fraction, fraction));
            let root = b.constant(0);
            let taken = b.constant(0);
            let bit = b.constant(1 << 24);
            b.repeat(25u32, "bits of the root, highest first", |b| {
                let trial = b.emit(Opcode::Add, (taken, bit));
                let above = b.emit(Opcode::CompareGt, (trial, rest));
                let less = b.emit(Opcode::Sub, (rest, trial));
                let more = b.emit(Opcode::Add, (trial, bit));
                let longer = b.emit(Opcode::Add, (root, bit));
                b.emit_to(taken, Opcode::Mux, (above, taken, more));
                let kept = b.emit(Opcode::Mux, (above, rest, less));
                b.emit_to(root, Opcode::Mux, (above, root, longer));
                b.emit_to(rest, Opcode::Add, (kept, kept));
                b.emit_to(bit, Opcode::LogicalRightImmediate, (bit, 1));
            });
            // 25 bits; the last rounds: a root is never halfway between two floats, so a last bit of 1 goes up.
            let last = b.emit(Opcode::AndImmediate, (root, 1));
            let half = b.emit(Opcode::LogicalRightImmediate, (root, 1));
            let rounded = b.emit(Opcode::Add, (half, last));
            let field = b.emit(Opcode::AddImmediate, (half_power, 126));
            let field = b.emit(Opcode::ShiftLeftImmediate, (field, 23));
            b.emit_to(result, Opcode::Add, (field, rounded));
        },
    );
}
