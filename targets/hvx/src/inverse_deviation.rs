//! `1 / sqrt(variance + epsilon)` by integers, a vector of channels at a time: Hexagon's vectors compute no IEEE floats, but the bits
//! are theirs.
//!
//! Sum, root and reciprocal are each rounded to nearest by an exact remainder: what approximates the latter two is the nearest, or one
//! less. (All fractions of both parities of an exponent were tried.) Variances that are negative, large, infinite or no number take
//! the floats' own loop, as the channels beyond whole vectors do.

use trainc_ir::TensorType;
use trainc_ir::loops::builder::LoopBuilder;
use trainc_ir::loops::{Expr, LoopKernel, Unary};
use trainc_ir::ops::InverseDeviation;

use crate::float_bits::{Aligned, GUARD, MANTISSA, ONE, mantissa};

/// Channels of a vector.
const LANES: usize = 32;
/// Bits of 2^127: sums with smaller variances are finite.
const LARGE: i32 = 0x7f00_0000;
/// Biased exponents of an epsilon beside which subnormal variances do not count, and which adds no exponent to a large variance.
const EPSILONS: std::ops::RangeInclusive<u32> = 40..=200;
/// `1 / sqrt(x)` of 1 to 2 by a parabola of `x / 2`, within 0.4 %: its coefficients by 2^16, 2^15 and 2^16.
const PARABOLA: [i32; 3] = [103_133, 47_332, 19_001];
/// By 2^16, `sqrt(1 / 2)`, and nearly 1.
const SCALES: [i32; 2] = [46_341, 65_535];
const HALF: i32 = 0xffff;

/// The loops; `None` where the generic ones serve.
pub(crate) fn lower(
    op: &InverseDeviation,
    inputs: &[&TensorType],
    outputs: &[&TensorType],
) -> Option<LoopKernel> {
    let count = inputs[0].count();
    let whole = count - count % LANES;
    let epsilon = op.epsilon.get();
    if whole == 0 || !EPSILONS.contains(&(epsilon.to_bits() >> MANTISSA)) {
        return None;
    }
    let mut b = LoopBuilder::new(inputs, outputs, false);
    let (variances, inverses) = (b.input(0), b.output(0));
    let bits = |b: &LoopBuilder, c: &Expr| b.load(variances, c.clone()).unary(Unary::ToBits);
    let floats = |b: &mut LoopBuilder, start: usize, end: usize| {
        b.for_range("c", Expr::index(start), Expr::index(end), |b, c| {
            let sum = b.load(variances, c.clone()) + Expr::f32(epsilon);
            b.store(inverses, c, Expr::f32(1.0).divide(sum.unary(Unary::Sqrt)));
        });
    };
    // Without their lowest bit, negative ones are above all others.
    let most = b.local("most", Expr::i32(0));
    b.for_("c", whole, |b, c| {
        let number = bits(b, &c).shr_unsigned(Expr::i32(1)).maximum(b.get(most));
        b.set(most, number);
    });
    let usual = b.get(most).less(Expr::i32(LARGE >> 1));
    b.if_else(
        usual,
        |b| {
            b.for_("c", whole, |b, c| {
                let variance = bits(b, &c);
                let sum = sum(b, variance, epsilon);
                let inverse = inverse(b, &sum);
                b.store(inverses, c, inverse.unary(Unary::FromBits));
            });
        },
        |b| floats(b, 0, whole),
    );
    if whole < count {
        floats(&mut b, whole, count);
    }
    Some(b.finish())
}

/// The bits of a sum of two floats that are not negative, by theirs.
fn sum(b: &mut LoopBuilder, variance: Expr, epsilon: f32) -> Expr {
    let epsilon = Expr::i32(epsilon.to_bits().cast_signed());
    let variance = b.let_("variance", variance);
    let Aligned { exponent: above, larger, smaller } = Aligned::of(b, variance, epsilon);
    let all = b.let_("sum", larger + smaller);
    // One place more, if a bit more.
    let carry = all.clone().shr_unsigned(Expr::i32(MANTISSA + 1 + GUARD)).and(Expr::i32(1));
    let carry = b.let_("carry", carry);
    let places = b.let_("places", carry.clone() + Expr::i32(GUARD));
    let odd = all.clone().shr_unsigned(places.clone()).and(Expr::i32(1));
    // Less than half of what is shifted out, by the last of its bits.
    let half = Expr::i32((1 << (GUARD - 1)) - 1).shift_left(carry.clone()) + carry.clone();
    let rounded = (all + half + odd).shr_unsigned(places);
    // The mantissa's first bit adds 1 to the exponent, as one more does where rounding carries.
    let field = (above + carry - Expr::i32(1)).shift_left(Expr::i32(MANTISSA));
    b.let_("sum", field + rounded)
}

/// The bits of the reciprocal of a positive normal float's root, both rounded.
fn inverse(b: &mut LoopBuilder, number: &Expr) -> Expr {
    let shr = |x: Expr, places: i32| x.shr_unsigned(Expr::i32(places));
    let [constant, slope, curve] = PARABOLA.map(Expr::i32);
    let mantissa = b.let_("mantissa", mantissa(number));
    // Odd exponents, whose biased ones are even, leave a factor of 2 with the mantissa.
    let even = number.clone().and(Expr::i32(ONE)).equal(Expr::i32(0));
    let even = b.let_("even", even);
    let x = even.clone().select(mantissa.clone() + mantissa.clone(), mantissa.clone());
    let x = b.let_("x", x);
    // 1 / sqrt(x) by 2^16: a parabola and a step of Newton's method.
    let upper = b.let_("upper", shr(mantissa, 8));
    let slope = slope - shr(upper.clone() * curve, 16);
    let first = (constant - shr(upper * slope, 15)).minimum(Expr::i32(HALF));
    let scale = even.select(Expr::i32(SCALES[0]), Expr::i32(SCALES[1]));
    let first = b.let_("first", shr(first * scale, 16));
    let x_upper = b.let_("x_upper", shr(x.clone(), 9));
    let square = shr(first.clone() * first.clone(), 16);
    let rest = (Expr::i32(1 << 30) - x_upper.clone() * square).shift_right(Expr::i32(8));
    let step = (rest * first.clone()).shift_right(Expr::i32(23));
    let y = b.let_("y", (first + step).and(Expr::i32(HALF)));
    // The root by 2^23: 16 bits, what their remainder adds, and, if more than half remains, one more.
    let root = b.let_("root", shr(x_upper * y.clone(), 15).and(Expr::i32(HALF)));
    let rest = x.clone().shift_left(Expr::i32(7)) - root.clone() * root.clone();
    let step = (rest.shift_right(Expr::i32(5)) * y.clone()).shift_right(Expr::i32(19));
    let root = b.let_("root", root.shift_left(Expr::i32(8)) + step);
    let rest = x.shift_left(Expr::i32(MANTISSA)) - root.clone() * root.clone();
    let root = root.clone().less(rest).select(root.clone() + Expr::i32(1), root);
    let root = b.let_("root", root);
    // Its reciprocal by 2^24 in the same way.
    let rest = (Expr::i32(0) - root.clone() * y.clone()).shift_right(Expr::i32(10));
    let step = (rest * y.clone()).shift_right(Expr::i32(21));
    let inverse = b.let_("inverse", y.shift_left(Expr::i32(8)) + step);
    let product = b.let_("product", root.clone() * inverse.clone());
    let up = shr(root + product.clone() + product, 31);
    let half_exponent = shr(number.clone() + Expr::i32(ONE), MANTISSA + 1);
    let field = Expr::i32(189 << MANTISSA) - half_exponent.shift_left(Expr::i32(MANTISSA));
    inverse + up + field
}
