//! The fixed float functions: `exp`, `log`, `erf`, `tanh`, `sigmoid`, `pow`.
//!
//! Each is one sequence of IEEE binary32 operations, without contraction and in one stated order, so every target
//! that follows IEEE gives the same bits. Each comes as a pair: an `f32` function and a `*_expression` that builds
//! the same sequence as loop expressions.
//!
//! Polynomials are minimax fits (Remez exchange) rounded to f32, evaluated by Horner's rule; the constants below are their
//! coefficients (`poly` of a function: those of its name), from the lowest power. Subnormal results
//! are rounded, not flushed. Where a result is not a number these functions give the quiet NaN `0x7fc00000`; the
//! bits of NaNs that plain arithmetic makes (`inf - inf`, `0 / 0`) may differ between targets.

use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, Unary};

/// The quiet NaN that these functions give.
pub const NAN: f32 = f32::from_bits(0x7fc0_0000);

/// Beyond these, `exp` overflows or rounds to 0.
const EXP_RANGE: [f32; 2] = [-104.0, 89.0];
/// `ln 2` in two parts: the first has 10 bits, so that small multiples are exact.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -0.000_212_194_44;
/// `(e^r - 1 - r) / r^2` on `|r| <= ln 2 / 2`.
const EXP: [f32; 5] = [0.499_999_94, 0.166_665_2, 0.041_668_4, 0.008_368_852, 0.001_381_432_8];
/// `(2 atanh s - 2 s) / s^3` in `s^2`, for `|s| <= (sqrt 2 - 1) / (sqrt 2 + 1)`.
const LOG: [f32; 4] = [0.666_666_6, 0.400_003_37, 0.285_371_7, 0.235_849_9];
/// `(erf x - x) / x` in `x^2`, for `|x| < ERF_SPLIT`.
const ERF_SMALL: [f32; 7] = [
    0.128_379_17,
    -0.376_126_32,
    0.112_836_61,
    -0.026_857_462,
    0.005_196_282_6,
    -0.000_808_968_3,
    8.150_356e-5,
];
/// `ln(1 - erf a)` for `ERF_SPLIT <= a <= 4`.
const ERF_LARGE: [f32; 7] = [
    -0.000_256_445_58,
    -1.127_426,
    -0.637_600_06,
    -0.103_566_885,
    0.022_051_996,
    -0.002_999_539_7,
    0.000_191_504_02,
];
const ERF_SPLIT: f32 = 0.955;
/// `(tanh x - x) / x^3` in `x^2`, for `|x| < TANH_SPLIT`.
const TANH: [f32; 6] =
    [-0.333_333_3, 0.133_331_95, -0.053_945_377, 0.021_692_606, -0.008_156_277, 0.002_122_743_3];
const TANH_SPLIT: f32 = 0.625;
/// Largest magnitude of an integral exponent that `pow` serves by products.
const POW_PRODUCTS: i32 = 15;

fn horner(coefficients: &[f32], x: f32) -> f32 {
    let (last, rest) = coefficients.split_last().expect("a polynomial has coefficients");
    rest.iter().rev().fold(*last, |sum, c| sum * x + c)
}

fn horner_expression(coefficients: &[f32], x: &Expr) -> Expr {
    let (last, rest) = coefficients.split_last().expect("a polynomial has coefficients");
    rest.iter().rev().fold(Expr::f32(*last), |sum, &c| sum * x.clone() + Expr::f32(c))
}

/// `2^n` for `-126 <= n <= 127`, from its bits.
fn power_of_two(n: i32) -> f32 {
    f32::from_bits(((n + 127) << 23) as u32)
}

/// `2^n` for an I32 `-126 <= n <= 127`, from its bits.
pub fn power_of_two_expression(n: Expr) -> Expr {
    (n + Expr::i32(127)).shift_left(Expr::i32(23)).unary(Unary::FromBits)
}

fn is_number(x: &Expr) -> Expr {
    x.clone().equal(x.clone())
}

/// `e^x`, within 1 ulp, over the full range: infinity from 88.73 on, gradual underflow, 0 from -103.98 on.
///
/// With `c` = `x` clamped to \[-104, 89\], `k = round_ties_even(c * log2 e)` (log2 e as FP32), `r = (c - k*LN2_HIGH) - k*LN2_LOW`:
/// `p = (r*r) * poly(r) + r + 1` from the left, then `p * 2^(k >> 1) * 2^(k - (k >> 1))` from the left.
pub fn exp(x: f32) -> f32 {
    if x.is_nan() {
        return NAN;
    }
    let low = if x > EXP_RANGE[0] { x } else { EXP_RANGE[0] };
    let c = if low < EXP_RANGE[1] { low } else { EXP_RANGE[1] };
    let k = (c * std::f32::consts::LOG2_E).round_ties_even();
    let r = c - k * LN2_HIGH - k * LN2_LOW;
    let p = r * r * horner(&EXP, r) + r + 1.0;
    let k = k as i32;
    let half = k >> 1;
    p * power_of_two(half) * power_of_two(k - half)
}

/// [`exp`] as a loop expression.
pub fn exp_expression(builder: &mut LoopBuilder, x: Expr) -> Expr {
    let x = builder.let_("x", x);
    let c = x.clone().maximum(Expr::f32(EXP_RANGE[0])).minimum(Expr::f32(EXP_RANGE[1]));
    let c = builder.let_("c", c);
    let k = (c.clone() * Expr::f32(std::f32::consts::LOG2_E)).unary(Unary::RoundTiesEven);
    let k = builder.let_("k", k);
    let r = c - k.clone() * Expr::f32(LN2_HIGH) - k.clone() * Expr::f32(LN2_LOW);
    let r = builder.let_("r", r);
    let p = r.clone() * r.clone() * horner_expression(&EXP, &r) + r + Expr::f32(1.0);
    let k = builder.let_("n", k.unary(Unary::ToInteger));
    let half = builder.let_("half", k.clone().shift_right(Expr::i32(1)));
    let rest = k - half.clone();
    let y = p * power_of_two_expression(half) * power_of_two_expression(rest);
    let y = is_number(&x).select(y, Expr::f32(NAN));
    builder.let_("exp", y)
}

/// Bits of `sqrt(1/2)`, where `log`'s reduced argument starts.
const SQRT_HALF_BITS: i32 = 0x3f35_04f3;

/// Natural logarithm, within 1 ulp; subnormal operands count in full. `log(+-0)` is -infinity; of negative
/// numbers NaN.
///
/// `x = 2^k * m` with `m` in \[sqrt(1/2), sqrt 2) (sqrt(1/2) as FP32: `0x3f3504f3`), `f = m - 1`, `s = f / (2 + f)`,
/// `z = s*s`, `h = 0.5*f*f`: `k*LN2_HIGH - ((h - (s * (h + z*poly(z)) + k*LN2_LOW)) - f)`.
pub fn log(x: f32) -> f32 {
    let subnormal = x < f32::MIN_POSITIVE;
    let scaled = if subnormal { x * 8_388_608.0 } else { x };
    let shifted = (scaled.to_bits() as i32).wrapping_sub(SQRT_HALF_BITS);
    let exponent = shifted >> 23;
    let m = f32::from_bits((scaled.to_bits() as i32).wrapping_sub(exponent << 23) as u32);
    let k = (exponent - if subnormal { 23 } else { 0 }) as f32;
    let f = m - 1.0;
    let s = f / (f + 2.0);
    let z = s * s;
    let h = 0.5 * f * f;
    let y = k * LN2_HIGH - (h - (s * (h + z * horner(&LOG, z)) + k * LN2_LOW) - f);
    if x == 0.0 {
        f32::NEG_INFINITY
    } else if x == f32::INFINITY {
        x
    } else if x > 0.0 {
        y
    } else {
        NAN
    }
}

/// [`log`] as a loop expression.
pub fn log_expression(builder: &mut LoopBuilder, x: Expr) -> Expr {
    let x = builder.let_("x", x);
    let subnormal = builder.let_("subnormal", x.clone().less(Expr::f32(f32::MIN_POSITIVE)));
    let scaled = subnormal.clone().select(x.clone() * Expr::f32(8_388_608.0), x.clone());
    let bits = builder.let_("bits", scaled.unary(Unary::ToBits));
    let exponent = (bits.clone() - Expr::i32(SQRT_HALF_BITS)).shift_right(Expr::i32(23));
    let exponent = builder.let_("exponent", exponent);
    let m = (bits - exponent.clone().shift_left(Expr::i32(23))).unary(Unary::FromBits);
    let k = (exponent - subnormal.select(Expr::i32(23), Expr::i32(0))).unary(Unary::ToFloat);
    let k = builder.let_("k", k);
    let f = builder.let_("f", m - Expr::f32(1.0));
    let s = builder.let_("s", f.clone().divide(f.clone() + Expr::f32(2.0)));
    let z = builder.let_("z", s.clone() * s.clone());
    let h = builder.let_("h", Expr::f32(0.5) * f.clone() * f.clone());
    let correction =
        s * (h.clone() + z.clone() * horner_expression(&LOG, &z)) + k.clone() * Expr::f32(LN2_LOW);
    let y = k * Expr::f32(LN2_HIGH) - (h - correction - f);
    let zero = || Expr::f32(0.0);
    let positive = zero().less(x.clone()).select(y, Expr::f32(NAN));
    let finite = x.clone().equal(Expr::f32(f32::INFINITY)).select(x.clone(), positive);
    let y = x.equal(zero()).select(Expr::f32(f32::NEG_INFINITY), finite);
    builder.let_("log", y)
}

/// `magnitude` with the sign of `x`.
fn with_sign_of(magnitude: f32, x: f32) -> f32 {
    if (x.to_bits() as i32) < 0 { -magnitude } else { magnitude }
}

fn with_sign_of_expression(magnitude: Expr, x: Expr) -> Expr {
    let negative = x.unary(Unary::ToBits).less(Expr::i32(0));
    negative.select(magnitude.clone().unary(Unary::Negate), magnitude)
}

/// Error function, within 1e-7.
///
/// With `a = |x|`: below 0.955 `x + x * poly(x*x)`, else `1 - exp(poly(min(a, 4)))` with the sign of `x`.
pub fn erf(x: f32) -> f32 {
    if x.is_nan() {
        return NAN;
    }
    let a = x.abs();
    if a < ERF_SPLIT {
        return x + x * horner(&ERF_SMALL, x * x);
    }
    let a = if a < 4.0 { a } else { 4.0 };
    with_sign_of(1.0 - exp(horner(&ERF_LARGE, a)), x)
}

/// [`erf`] as a loop expression.
pub fn erf_expression(builder: &mut LoopBuilder, x: Expr) -> Expr {
    let x = builder.let_("x", x);
    let a = builder.let_("a", x.clone().unary(Unary::FloatAbs));
    let square = builder.let_("square", x.clone() * x.clone());
    let small = x.clone() + x.clone() * horner_expression(&ERF_SMALL, &square);
    let clamped = builder.let_("clamped", a.clone().minimum(Expr::f32(4.0)));
    let tail = exp_expression(builder, horner_expression(&ERF_LARGE, &clamped));
    let large = builder.let_("large", Expr::f32(1.0) - tail);
    let large = with_sign_of_expression(large, x.clone());
    let y = a.less(Expr::f32(ERF_SPLIT)).select(small, large);
    let y = is_number(&x).select(y, Expr::f32(NAN));
    builder.let_("erf", y)
}

/// Hyperbolic tangent, within 2 ulp.
///
/// With `a = |x|`: below 0.625 `a + a * (z * poly(z))` with `z = a*a`, else `(1 - e) / (1 + e)` with
/// `e = exp(-2 * a)`; then the sign of `x`.
pub fn tanh(x: f32) -> f32 {
    if x.is_nan() {
        return NAN;
    }
    let a = x.abs();
    let magnitude = if a < TANH_SPLIT {
        let z = a * a;
        a + a * (z * horner(&TANH, z))
    } else {
        let e = exp(-2.0 * a);
        (1.0 - e) / (1.0 + e)
    };
    with_sign_of(magnitude, x)
}

/// [`tanh`] as a loop expression.
pub fn tanh_expression(builder: &mut LoopBuilder, x: Expr) -> Expr {
    let x = builder.let_("x", x);
    let a = builder.let_("a", x.clone().unary(Unary::FloatAbs));
    let z = builder.let_("z", a.clone() * a.clone());
    let small = a.clone() + a.clone() * (z.clone() * horner_expression(&TANH, &z));
    let e = exp_expression(builder, Expr::f32(-2.0) * a.clone());
    let one = || Expr::f32(1.0);
    let large = (one() - e.clone()).divide(one() + e);
    let magnitude = a.less(Expr::f32(TANH_SPLIT)).select(small, large);
    let magnitude = builder.let_("magnitude", magnitude);
    let y = with_sign_of_expression(magnitude, x.clone());
    let y = is_number(&x).select(y, Expr::f32(NAN));
    builder.let_("tanh", y)
}

/// `1 / (1 + e^-x)`, within 3 ulp (that of `exp`, then a rounded sum and a rounded quotient).
///
/// With `e = exp(-|x|)`: `1 / (1 + e)` for `x >= 0`, `e / (1 + e)` below.
pub fn sigmoid(x: f32) -> f32 {
    let e = exp(-x.abs());
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
}

/// [`sigmoid`] as a loop expression.
pub fn sigmoid_expression(builder: &mut LoopBuilder, x: Expr) -> Expr {
    let x = builder.let_("x", x);
    let e = exp_expression(builder, x.clone().unary(Unary::FloatAbs).unary(Unary::Negate));
    let one = || Expr::f32(1.0);
    let y = x.less(Expr::f32(0.0)).select(e.clone(), one()).divide(one() + e);
    builder.let_("sigmoid", y)
}

/// `x^y` with IEEE's special values (`x^0 = 1` and `1^y = 1` of anything, NaN of a negative finite `x` and a
/// fractional `y`).
///
/// Integral `|y| <= 15`: the product of the squares `x, x^2, x^4, x^8` chosen by the bits of `|y|`, from the
/// lowest, starting at 1; `1 / product` if `y < 0`. Else `exp(y * log |x|)`, negated if `x` has the sign bit and `y`
/// is odd: relative error about `|y * log |x|| * 2^-23`.
pub fn pow(x: f32, y: f32) -> f32 {
    let integral = y.floor() == y;
    let n = y.abs();
    if integral && n <= POW_PRODUCTS as f32 {
        let n = n as i32;
        let (mut product, mut square) = (1.0f32, x);
        for bit in 0..4 {
            if (n >> bit) & 1 != 0 {
                product *= square;
            }
            square *= square;
        }
        return if y < 0.0 { 1.0 / product } else { product };
    }
    let a = x.abs();
    let magnitude = if a == 1.0 && !y.is_nan() { 1.0 } else { exp(y * log(a)) };
    let odd = integral && (y * 0.5).floor() * 2.0 != y;
    if x == 1.0 {
        1.0
    } else if x < 0.0 && x > f32::NEG_INFINITY && !integral {
        NAN
    } else if odd {
        with_sign_of(magnitude, x)
    } else {
        magnitude
    }
}

/// [`pow`] as a loop expression.
pub fn pow_expression(builder: &mut LoopBuilder, x: Expr, y: Expr) -> Expr {
    let (x, y) = (builder.let_("x", x), builder.let_("y", y));
    let one = || Expr::f32(1.0);
    let integral = builder.let_("integral", y.clone().unary(Unary::Floor).equal(y.clone()));
    let n = builder.let_("n", y.clone().unary(Unary::FloatAbs));
    let bits = builder.let_("bits", n.clone().unary(Unary::ToInteger));
    let (mut product, mut square) = (one(), x.clone());
    for bit in 0..4 {
        let chosen =
            bits.clone().shift_right(Expr::i32(bit)).and(Expr::i32(1)).not_equal(Expr::i32(0));
        let next = chosen.select(product.clone() * square.clone(), product);
        product = builder.let_("product", next);
        square = builder.let_("square", square.clone() * square);
    }
    let product = y.clone().less(Expr::f32(0.0)).select(one().divide(product.clone()), product);
    let a = builder.let_("a", x.clone().unary(Unary::FloatAbs));
    let logarithm = log_expression(builder, a.clone());
    let magnitude = exp_expression(builder, y.clone() * logarithm);
    let unit = a.equal(one()).and(is_number(&y));
    let magnitude = builder.let_("magnitude", unit.select(one(), magnitude));
    let even = (y.clone() * Expr::f32(0.5)).unary(Unary::Floor) * Expr::f32(2.0);
    let odd = integral.clone().and(even.not_equal(y));
    let signed = with_sign_of_expression(magnitude.clone(), x.clone());
    let general = odd.select(signed, magnitude);
    let not_real = x
        .clone()
        .less(Expr::f32(0.0))
        .and(Expr::f32(f32::NEG_INFINITY).less(x.clone()))
        .and(integral.clone().unary(Unary::Not));
    let general = not_real.select(Expr::f32(NAN), general);
    let general = x.equal(one()).select(one(), general);
    let by_products = integral.and(n.less_equal(Expr::f32(POW_PRODUCTS as f32)));
    let value = by_products.select(product, general);
    builder.let_("pow", value)
}
