//! Loops of conversions between floats and integers with an exponent, on the floats' bits: Hexagon's vectors compute no
//! IEEE floats, but shift and compare their bits. The results are those of the generic loops, whose products by powers of
//! two are exact wherever the result is not 0.

use trainc_ir::TensorType;
use trainc_ir::loops::builder::LoopBuilder;
use trainc_ir::loops::{Buffer, Expr, LoopKernel, Unary};
use trainc_ir::numeric::dither::{DitherLoop, DitheredShift};
use trainc_ir::numeric::{exponent, integer};
use trainc_ir::ops::{Dequantize, RequantizeStochastic};

/// Bits of infinity: NaNs' magnitudes are above.
const INFINITY: i32 = f32::INFINITY.to_bits().cast_signed();
/// Bits of the largest finite float.
const LARGEST: i32 = f32::MAX.to_bits().cast_signed();
/// Bits of a float's mantissa that are stored.
const MANTISSA: i32 = 23;
/// A float is its mantissa, with the bit that is not stored, times 2^(biased exponent - this).
const BIAS: i32 = 127 + MANTISSA;

/// The bits of an element's magnitude, 0 for NaN and, where only what is positive counts, for what is negative.
pub(crate) fn magnitude(b: &mut LoopBuilder, x: Buffer, i: Expr, signed: bool) -> [Expr; 2] {
    let bits = b.load(x, i).unary(Unary::ToBits);
    let bits = b.let_("bits", bits);
    let magnitude = match signed {
        true => bits.clone().and(Expr::i32(i32::MAX)),
        false => bits.clone().maximum(Expr::i32(0)),
    };
    let magnitude = b.let_("magnitude", magnitude);
    let number = Expr::i32(INFINITY).less(magnitude.clone()).select(Expr::i32(0), magnitude);
    [bits, b.let_("number", number)]
}

/// The exponent that brings the largest finite magnitude to `bits` bits; 0 if all are 0.
fn exponent_of(b: &mut LoopBuilder, x: Buffer, count: usize, signed: bool, bits: i32) -> Expr {
    let largest = b.local("largest", Expr::i32(0));
    b.for_("i", count, |b, i| {
        let [_, number] = magnitude(b, x, i, signed);
        let larger = number.maximum(b.get(largest));
        b.set(largest, larger);
    });
    let m = b.get(largest).minimum(Expr::i32(LARGEST)).unary(Unary::FromBits);
    let m = b.let_("m", m);
    let log = exponent::ceil_log2(b, m.clone());
    let e = m.equal(Expr::f32(0.0)).select(Expr::i32(0), log - Expr::i32(bits));
    let e = b.let_("e", e);
    b.set_output_exponent(0, e.clone());
    e
}

/// Units of `2^(unit - BIAS)` in which magnitudes become integers.
struct Units {
    unit: Expr,
    /// What subnormals, which may be smaller than a unit's mantissa, are shifted left by first: 0 if the largest is normal.
    up: Expr,
}

impl Units {
    /// Of which no magnitude has more than `2^(24 - least)`.
    fn new(b: &mut LoopBuilder, unit: Expr, least: i32) -> Units {
        let unit = b.let_("unit", unit);
        let up = (Expr::i32(least) - unit.clone()).maximum(Expr::i32(0)).minimum(Expr::i32(31));
        let up = b.let_("up", up);
        Units { unit: b.let_("unit", unit + up.clone()), up }
    }

    /// A magnitude as an integer, and what shifts it right to be in units, at most `most`.
    fn of(&self, b: &mut LoopBuilder, number: Expr, most: i32) -> [Expr; 2] {
        let biased = number.clone().shr_unsigned(Expr::i32(MANTISSA)).maximum(Expr::i32(1));
        let biased = b.let_("biased", biased);
        let above = (biased.clone() - Expr::i32(1)).shift_left(Expr::i32(MANTISSA));
        let mantissa = (number - above).shift_left(self.up.clone());
        let shift = (self.unit.clone() - biased).maximum(Expr::i32(0)).minimum(Expr::i32(most));
        [b.let_("mantissa", mantissa), b.let_("shift", shift)]
    }
}

/// `x`, negated where `sign` is negative.
pub(crate) fn signed(b: &mut LoopBuilder, x: Expr, sign: Expr) -> Expr {
    let sign = b.let_("sign", sign.shift_right(Expr::i32(31)));
    x.xor(sign.clone()) - sign
}

/// Floats to bytes with an exponent, rounded to nearest, ties to even: [`trainc_ir::ops::QuantizeExponent`], and
/// [`trainc_ir::ops::QuantizeUnsigned`] of FP32.
pub(crate) fn quantize(
    inputs: &[&TensorType],
    outputs: &[&TensorType],
    with_sign: bool,
) -> LoopKernel {
    let mut b = LoopBuilder::new(inputs, outputs, false);
    let (x, y, count) = (b.input(0), b.output(0), inputs[0].count());
    let e = exponent_of(&mut b, x, count, with_sign, if with_sign { 7 } else { 8 });
    let units = Units::new(&mut b, e + Expr::i32(BIAS), 16);
    b.for_("i", count, |b, i| {
        let [bits, number] = magnitude(b, x, i.clone(), with_sign);
        // Magnitudes are at most 2^8 units: the shift is 15 at least. Above 25 nothing is left.
        let [mantissa, shift] = units.of(b, number, 26);
        let shift = b.let_("shift", shift.maximum(Expr::i32(1)));
        let half = Expr::i32(1).shift_left(shift.clone() - Expr::i32(1));
        let odd = mantissa.clone().shr_unsigned(shift.clone()).and(Expr::i32(1));
        let q = (mantissa + (half - Expr::i32(1)) + odd).shr_unsigned(shift);
        let q = b.let_("q", q);
        let q = match with_sign {
            true => integer::clamp(signed(b, q, bits), -128, 127),
            false => q.minimum(Expr::i32(255)),
        };
        b.store(y, i, q);
    });
    b.finish()
}

/// Floats to bytes with an exponent, rounded stochastically: [`RequantizeStochastic`] of FP32.
pub(crate) fn quantize_stochastic(
    op: &RequantizeStochastic,
    inputs: &[&TensorType],
    outputs: &[&TensorType],
) -> LoopKernel {
    let fraction = Expr::i32(RequantizeStochastic::FRACTION);
    let mut b = LoopBuilder::new(inputs, outputs, true);
    let (x, y, count) = (b.input(0), b.output(0), inputs[0].count());
    let dither = DitherLoop::new(&mut b, op.stream);
    let e = exponent_of(&mut b, x, count, true, 7);
    let units = Units::new(&mut b, e + Expr::i32(BIAS) - fraction.clone(), 1);
    let shift = DitheredShift::new(&mut b, fraction, false);
    b.for_("i", count, |b, i| {
        let [bits, number] = magnitude(b, x, i.clone(), true);
        // Magnitudes are at most 2^(7 + fraction) units, those of the mantissa: no shift to the left.
        let [mantissa, down] = units.of(b, number, 31);
        let q = b.let_("q", mantissa.shr_unsigned(down));
        let q = signed(b, q, bits);
        let bits = dither.bits(b, i.clone());
        let q = shift.apply(b, q, bits);
        b.store(y, i, integer::clamp(q, -127, 127));
    });
    b.finish()
}

/// Integers of at most 16 bits to floats: [`trainc_ir::ops::Dequantize`]. Exponents for which a result may not be normal
/// take the floats' own loop.
pub(crate) fn dequantize(inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
    let mut b = LoopBuilder::new(inputs, outputs, false);
    let (x, y, count) = (b.input(0), b.output(0), inputs[0].count());
    let e = b.input_exponent(0);
    let e = b.let_("e", e);
    let lowest = Expr::i32(-126).less_equal(e.clone());
    let normal = lowest.and(e.clone().less_equal(Expr::i32(127 - 15)));
    b.if_else(
        normal,
        |b| {
            let unit = b.let_("unit", e.clone() + Expr::i32(127 + 31 - 1));
            b.for_("i", count, |b, i| {
                let q = b.load(x, i.clone());
                let q = b.let_("q", q);
                let m = signed(b, q.clone(), q.clone());
                let m = b.let_("m", m);
                let zeros = b.let_("zeros", m.clone().unary(Unary::LeadingZeros));
                let up = (zeros.clone() - Expr::i32(31 - MANTISSA)).maximum(Expr::i32(0));
                // The bit that is not stored adds 1 to the exponent.
                let biased = (unit.clone() - zeros).shift_left(Expr::i32(MANTISSA));
                let number = m.clone().shift_left(up) + biased;
                let number = number.or(q.and(Expr::i32(i32::MIN)));
                let number = m.equal(Expr::i32(0)).select(Expr::i32(0), number);
                b.store(y, i, number.unary(Unary::FromBits));
            });
        },
        |b| {
            let [first, second] = exponent::power_of_two_factors(b, e.clone());
            b.for_("i", count, |b, i| {
                let q = b.load(x, i.clone()).unary(Unary::ToFloat);
                b.store(y, i, q * first * second);
            });
        },
    );
    b.finish()
}

/// Integers of 32 bits to floats, rounded to nearest, ties to even: [`trainc_ir::ops::Dequantize`]. Exponents for which a
/// result may not be normal take the generic loop.
pub(crate) fn dequantize_sums(inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
    let mut b = LoopBuilder::new(inputs, outputs, false);
    let (x, y, count) = (b.input(0), b.output(0), inputs[0].count());
    let e = b.input_exponent(0);
    let e = b.let_("e", integer::clamp(e, -400, 400));
    let lowest = Expr::i32(-126).less_equal(e.clone());
    // The largest magnitude is 2^31, which rounding does not exceed.
    let normal = lowest.and(e.clone().less_equal(Expr::i32(127 - 31)));
    b.if_else(
        normal,
        |b| {
            let unit = b.let_("unit", e.clone() + Expr::i32(127 + 31 - 1));
            b.for_("i", count, |b, i| {
                let q = b.load(x, i.clone());
                let q = b.let_("q", q);
                let m = signed(b, q.clone(), q.clone());
                let m = b.let_("m", m);
                let zeros = b.let_("zeros", m.clone().unary(Unary::LeadingZeros));
                let beyond = Expr::i32(31 - MANTISSA);
                let up = (zeros.clone() - beyond.clone()).maximum(Expr::i32(0));
                let down = (beyond - zeros.clone()).maximum(Expr::i32(0));
                let down = b.let_("down", down);
                // Nothing is added where nothing is shifted out.
                let half = Expr::i32(1).shift_left(down.clone()).shr_unsigned(Expr::i32(1));
                let half = b.let_("half", half);
                let odd = m.clone().shr_unsigned(down.clone()).and(Expr::i32(1));
                let bias = (half.clone() - Expr::i32(1)).maximum(Expr::i32(0)) + odd.minimum(half);
                let mantissa = (m.clone() + bias).shr_unsigned(down).shift_left(up);
                // The bit that is not stored adds 1 to the exponent, as one more does where rounding carries.
                let number = mantissa + (unit.clone() - zeros).shift_left(Expr::i32(MANTISSA));
                let number = number.or(q.and(Expr::i32(i32::MIN)));
                let number = m.equal(Expr::i32(0)).select(Expr::i32(0), number);
                b.store(y, i, number.unary(Unary::FromBits));
            });
        },
        |b| {
            b.for_("i", count, |b, i| {
                let q = b.load(x, i.clone());
                let q = b.let_("q", q);
                let result = Dequantize::nearest(b, q, &e, false);
                b.store(y, i, result);
            });
        },
    );
    b.finish()
}
