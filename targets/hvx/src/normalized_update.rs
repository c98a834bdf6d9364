//! The update of a float parameter by integers, a vector of elements at a time: Hexagon's vectors compute no IEEE floats, but the
//! bits are theirs.
//!
//! The quotient is rounded to nearest by an exact remainder, its product by a power of two is exact, and the difference is that of
//! mantissas beside one exponent. Gradients that reach farther down than those products are normal, and parameters that are neither
//! normal nor 0, take the floats' own loop, as the elements beyond whole vectors do.

use trainc_ir::TensorType;
use trainc_ir::loops::builder::LoopBuilder;
use trainc_ir::loops::{Buffer, Expr, LoopKernel, Unary};
use trainc_ir::numeric::exponent::largest_finite;

use crate::float_bits::{Aligned, GUARD, MANTISSA, ONE, exponent, mantissa};

/// Elements of a vector.
const LANES: usize = 32;
const INFINITY: i32 = f32::INFINITY.to_bits().cast_signed();
/// Bits of 2^127: differences of smaller parameters are finite.
const LARGE: i32 = 0x7f00_0000;
/// Exponents that gradients reach down: products are above 2^-70, and differences of them that are not 0 above 2^-95.
const REACH: i32 = 60;
const HALF: i32 = 0xffff;

/// The loops; `None` where the generic ones serve.
pub(crate) fn lower(inputs: &[&TensorType], outputs: &[&TensorType]) -> Option<LoopKernel> {
    let count = inputs[0].count();
    let whole = count - count % LANES;
    if whole == 0 {
        return None;
    }
    let mut b = LoopBuilder::new(inputs, outputs, false);
    let (w, g, y) = (b.input(0), b.input(1), b.output(0));
    let bits = b.load(b.input(2), Expr::i64(0)).maximum(Expr::i32(0)).minimum(Expr::i32(7));
    let bits = b.let_("bits", bits);
    let Seen { most, least, beyond } = Seen::of(&mut b, w, g, count);
    let m = b.local("m", most.clone().unary(Unary::FromBits));
    let finite = most.clone().less(Expr::i32(INFINITY));
    let finite = b.let_("finite", finite);
    b.if_else(
        finite.clone(),
        |_| {},
        |b| {
            let largest = largest_finite(b, g, count);
            b.set(m, largest);
        },
    );
    let m = b.get(m);
    let zero = b.let_("zero", m.clone().equal(Expr::f32(0.0)));
    let still = bits.clone().equal(Expr::i32(0)).or(zero.clone());
    let power = (bits.clone() + Expr::i32(117)).shift_left(Expr::i32(MANTISSA));
    let rate = b.let_("rate", still.select(Expr::f32(0.0), power.unary(Unary::FromBits)));
    let divisor = b.let_("divisor", zero.select(Expr::f32(1.0), m));
    let floats = |b: &mut LoopBuilder, start: usize, end: usize| {
        b.for_range("i", Expr::index(start), Expr::index(end), |b, i| {
            let step = rate.clone() * b.load(g, i.clone()).divide(divisor.clone());
            let value = b.load(w, i.clone()) - step;
            b.store(y, i, value);
        });
    };
    let lowest = (most.clone() - Expr::i32(REACH << MANTISSA)).maximum(Expr::i32(ONE));
    let reaches = lowest.less_equal(least + Expr::i32(1));
    let normal = Expr::i32(ONE).less_equal(most.clone()).and(finite);
    let moves = Expr::i32(0).less(bits.clone());
    let usual = reaches.and(normal).and(moves).and(beyond.less(Expr::i32((LARGE - ONE) >> 1)));
    let usual = b.let_("usual", usual);
    b.if_else(
        usual,
        |b| {
            let divisor = Divisor::new(b, &most, &bits);
            b.for_("i", whole, |b, i| {
                let [w, g] = [w, g].map(|x| b.load(x, i.clone()).unary(Unary::ToBits));
                let (w, g) = (b.let_("w", w), b.let_("g", g));
                let magnitude = b.let_("magnitude", without_sign(&g));
                let step = divisor.step(b, &magnitude);
                let value = difference(b, &w, &g, step);
                // Without a step, the parameter stays: it is not -0.
                let value = magnitude.equal(Expr::i32(0)).select(w, value);
                b.store(y, i, value.unary(Unary::FromBits));
            });
        },
        |b| floats(b, 0, whole),
    );
    if whole < count {
        floats(&mut b, whole, count);
    }
    Some(b.finish())
}

fn without_sign(bits: &Expr) -> Expr {
    bits.clone().and(Expr::i32(i32::MAX))
}

/// What decides how elements are updated.
struct Seen {
    /// Bits of the gradient's greatest magnitude.
    most: Expr,
    /// Of the least that is not 0, less one.
    least: Expr,
    /// Of parameters but 0, how far their magnitudes' bits are above the least normal number's; half of that.
    beyond: Expr,
}

impl Seen {
    fn of(b: &mut LoopBuilder, w: Buffer, g: Buffer, count: usize) -> Seen {
        let most = b.local("most", Expr::i32(0));
        let least = b.local("least", Expr::i32(i32::MAX));
        let beyond = b.local("beyond", Expr::i32(0));
        b.for_("i", count, |b, i| {
            let g = b.load(g, i.clone()).unary(Unary::ToBits);
            let magnitude = b.let_("magnitude", without_sign(&g));
            let larger = magnitude.clone().maximum(b.get(most));
            b.set(most, larger);
            let below = without_sign(&(magnitude - Expr::i32(1)));
            let smaller = below.minimum(b.get(least));
            b.set(least, smaller);
            let w = b.load(w, i).unary(Unary::ToBits);
            let w = b.let_("w", w);
            let above = without_sign(&w) - Expr::i32(ONE);
            let above = w.equal(Expr::i32(0)).select(Expr::i32(0), above);
            let farther = above.shr_unsigned(Expr::i32(1)).maximum(b.get(beyond));
            b.set(beyond, farther);
        });
        let [most, least, beyond] = [most, least, beyond].map(|local| b.get(local));
        Seen { most, least, beyond }
    }
}

/// The greatest magnitude, which all are divided by, and what quotients are multiplied by.
struct Divisor {
    mantissa: Expr,
    /// 2^39 by the mantissa, in 16 bits, or little less.
    reciprocal: Expr,
    /// Added to the exponent of what is divided.
    unit: Expr,
}

impl Divisor {
    fn new(b: &mut LoopBuilder, most: &Expr, bits: &Expr) -> Divisor {
        let fraction = most.clone().and(Expr::i32(ONE - 1));
        let one = 1f32.to_bits().cast_signed();
        let reciprocal =
            Expr::f32(65_536.0).divide(fraction.or(Expr::i32(one)).unary(Unary::FromBits));
        let reciprocal = b.let_("reciprocal", reciprocal).unary(Unary::ToInteger);
        let reciprocal = reciprocal.minimum(Expr::i32(HALF)).maximum(Expr::i32(0));
        let unit = bits.clone() + Expr::i32(126 - 10) - exponent(most);
        Divisor {
            mantissa: b.let_("divisor", mantissa(most)),
            reciprocal: b.let_("reciprocal", reciprocal),
            unit: b.let_("unit", unit),
        }
    }

    /// The bits of a step's magnitude, unless what is divided is 0.
    fn step(&self, b: &mut LoopBuilder, magnitude: &Expr) -> Expr {
        let Divisor { mantissa: divisor, reciprocal, unit } = self;
        let dividend = b.let_("dividend", mantissa(magnitude));
        // A quotient below 1 takes one more place.
        let below = (dividend.clone() - divisor.clone()).shr_unsigned(Expr::i32(31));
        let below = b.let_("below", below);
        let n = b.let_("n", dividend.shift_left(below.clone()));
        // 16 bits, what their remainder adds, and, if more than half remains, one more.
        let first = n.clone().shr_unsigned(Expr::i32(9)) * reciprocal.clone();
        let first = first.shr_unsigned(Expr::i32(15)).and(Expr::i32(HALF));
        let first = b.let_("first", first);
        let rest = n.clone().shift_left(Expr::i32(15)) - first.clone() * divisor.clone();
        let more = rest.shift_right(Expr::i32(11)) * reciprocal.clone();
        let quotient = first.shift_left(Expr::i32(8)) + more.shift_right(Expr::i32(20));
        let quotient = b.let_("quotient", quotient);
        let rest = n.shift_left(Expr::i32(MANTISSA)) - quotient.clone() * divisor.clone();
        let rest = b.let_("rest", rest);
        let up = (divisor.clone() - rest.clone() - rest).shr_unsigned(Expr::i32(31));
        let field = (exponent(magnitude) + unit.clone() - below).shift_left(Expr::i32(MANTISSA));
        b.let_("step", field + quotient + up)
    }
}

/// The bits of a parameter less a step that has the gradient's sign.
fn difference(b: &mut LoopBuilder, w: &Expr, g: &Expr, step: Expr) -> Expr {
    let own = b.let_("own", without_sign(w));
    let aligned = Aligned::of(b, own.clone(), step.clone());
    let other = b.let_("other", g.clone().xor(Expr::i32(-1)));
    let unlike = b.let_("unlike", w.clone().xor(other.clone()).shift_right(Expr::i32(31)));
    let sum = aligned.larger + aligned.smaller.xor(unlike.clone()) - unlike;
    let sum = b.let_("sum", sum);
    // Its first one moves to bit 30.
    let zeros = b.let_("zeros", sum.clone().unary(Unary::LeadingZeros));
    let up = (zeros.clone() - Expr::i32(1)).maximum(Expr::i32(0)).minimum(Expr::i32(31));
    let all = b.let_("all", sum.clone().shift_left(up));
    let places = GUARD + 1;
    let odd = all.clone().shr_unsigned(Expr::i32(places)).and(Expr::i32(1));
    let rounded = (all + Expr::i32((1 << GUARD) - 1) + odd).shr_unsigned(Expr::i32(places));
    // The mantissa's first bit adds 1 to the exponent, as one more does where rounding carries.
    let field = (aligned.exponent + Expr::i32(1) - zeros).shift_left(Expr::i32(MANTISSA));
    let sign = own.less(step).select(other, w.clone()).and(Expr::i32(i32::MIN));
    let number = (field + rounded).or(sign);
    sum.equal(Expr::i32(0)).select(Expr::i32(0), number)
}
