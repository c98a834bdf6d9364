//! `integer_cross_entropy_gradient`. See [`IntegerCrossEntropyGradient`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Comparison, Expr, LoopKernel, Unary};
use crate::numeric::{self, Rounding, integer};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::{Data, ScaleData, Tensor};
use crate::types::{Element, Scale, TensorType};

operator! {
    /// NITI's integer gradient of the softmax cross-entropy. Operands: logits i8 with a shared exponent
    /// `[B,C]`, labels i32 `[B]`; result i8 with exponent 0 (nominal). Labels outside 0..C give a zero row.
    ///
    /// With logits s, exponent E and label t of a row, TRUNC a right shift toward zero: if `E > -7`,
    /// `s_i = TRUNC(s_i * 47274, 15)` (times log2 e), then `s_i << min(E, 24)` or `TRUNC(s_i, -E)`, then
    /// `s_i = max(s_i - (max s - 10), 0)` and `u_i = 2^s_i - 1`. If `-25 <= E <= -7`,
    /// `u_i = 2^(1-2E) + s_i 2^(1-E) + s_i^2`; below, `u_i = 1`. Then `p_i = floor(2048 u_i / sum u)`,
    /// `p_t = p_t - sum p`, and the result is `p >> 4` rounded stochastically: `sg * ((m >> 4) + ((m mod 16) > U))`
    /// with `U = draw(stream, row-major index) >> 28`, clamped to +-127. (Loss of the authors' 2020 code.)
    pub struct IntegerCrossEntropyGradient = "integer_cross_entropy_gradient" {
        /// Random stream of the stochastic rounding.
        pub stream: u32,
    }
}

impl Operator for IntegerCrossEntropyGradient {
    const WORK: Work = Work::Series;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [logits, labels] = rule::operands(Self::NAME, inputs)?;
        let shared = logits.element == Element::I8 && logits.scale == Scale::Exponent;
        rule::ensure(shared && logits.shape.rank() == 2, || {
            format!("{} takes logits i8<2^e>[B,C], here {logits}", Self::NAME)
        })?;
        // Beyond this the sum of u may exceed 63 bits.
        rule::ensure((1..=MAX_CLASSES).contains(&logits.shape[1]), || {
            format!("{} takes 1 to {MAX_CLASSES} classes, here {logits}", Self::NAME)
        })?;
        rule::ensure(logits.count() <= u32::MAX as usize, || {
            format!("{}: {logits} has more elements than there are draws", Self::NAME)
        })?;
        let expected = TensorType::new([logits.shape[0]], Element::I32);
        rule::ensure(labels == &expected, || {
            format!("{} takes labels {expected} for logits {logits}, here {labels}", Self::NAME)
        })?;
        Ok(vec![logits.clone()])
    }

    fn evaluate(&self, inputs: &[&Tensor], run: &RunContext) -> Vec<Tensor> {
        let (logits, labels) = (inputs[0], inputs[1].as_i32());
        let exponent = logits.exponent();
        let classes = logits.shape()[1];
        let mut data = Vec::with_capacity(logits.shape().count());
        for (row, &label) in logits.as_i8().chunks(classes).zip(labels) {
            let Some(label) = usize::try_from(label).ok().filter(|&t| t < classes) else {
                data.extend(std::iter::repeat_n(0i8, classes));
                continue;
            };
            let u = unnormalized(row, exponent);
            let sum: i128 = u.iter().sum();
            let mut p: Vec<i64> = u.iter().map(|u| (u * 2048 / sum) as i64).collect();
            p[label] -= p.iter().sum::<i64>();
            for p in p {
                let uniform = run.draw(self.stream, data.len() as u32) >> 28;
                let rounded = numeric::shift_right_stochastic(p, 4, uniform.into());
                data.push(numeric::saturate_i8(rounded));
            }
        }
        vec![Tensor::new(logits.ty().clone(), Data::I8(data), ScaleData::Exponent(0))]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, true);
        let (rows, classes) = (inputs[0].shape[0], inputs[0].shape[1]);
        let (logits, labels, y) = (b.input(0), b.input(1), b.output(0));
        // Of each row its own, so that rows are independent of one another.
        let probability = b.scratch("probability", Element::I32, rows * classes);
        b.set_output_exponent(0, Expr::i32(0));
        let e = b.input_exponent(0);
        let e = b.let_("e", e);
        let weights = Weights::new(&mut b, e, classes);
        b.for_("row", rows, |b, row| {
            let at = |i: &Expr| row.clone() * Expr::index(classes) + i.clone();
            let label = b.load(labels, row.clone());
            let label = b.let_("label", label);
            let valid = Expr::i32(-1).less(label.clone());
            let valid = valid.and(label.clone().less(Expr::i32(classes as i32)));
            let zero = |b: &mut LoopBuilder| {
                b.for_("i", classes, |b, i| b.store(y, at(&i), Expr::i32(0)));
            };
            let gradient = |b: &mut LoopBuilder| {
                let largest = b.local("largest", Expr::i32(-128));
                b.for_("i", classes, |b, i| {
                    let s = b.load(logits, at(&i)).maximum(b.get(largest));
                    b.set(largest, s);
                });
                // The scaling is monotonic, so the largest logit gives the largest scaled one.
                let largest = b.get(largest).extend();
                let top = weights.scaled(b, largest);
                let bottom = b.let_("bottom", top - Expr::i64(10));
                let sum = b.local("sum", Expr::i64(0));
                b.for_("i", classes, |b, i| {
                    let s = b.load(logits, at(&i));
                    let u = weights.of(b, s, &bottom);
                    let sum_so_far = b.get(sum) + u;
                    b.set(sum, sum_so_far);
                });
                let total = b.local("total", Expr::i32(0));
                b.for_("i", classes, |b, i| {
                    let s = b.load(logits, at(&i));
                    let u = weights.of(b, s, &bottom);
                    let of = b.get(sum);
                    let p = weights.share(b, u, &of);
                    b.store(probability, at(&i), p.clone());
                    let total_so_far = b.get(total) + p;
                    b.set(total, total_so_far);
                });
                let (target, total) = (b.let_("target", label.clone().extend()), b.get(total));
                let total = b.let_("all", total);
                b.for_("i", classes, |b, i| {
                    let p = b.load(probability, at(&i));
                    let less = p.clone() - total.clone();
                    let is_target = i.clone().compare(Comparison::Equal, target.clone());
                    let p = b.let_("p", is_target.select(less, p));
                    let m = b.let_("m", integer::magnitude(p.clone()));
                    let draw = b.draw(self.stream, at(&i));
                    let uniform = draw.shr_unsigned(Expr::i32(28));
                    let up = uniform.less(m.clone().and(Expr::i32(15)));
                    let m = m.shr_unsigned(Expr::i32(4)) + up.unary(Unary::BoolToInteger);
                    let m = b.let_("rounded", m.minimum(Expr::i32(127)));
                    let negative = p.less(Expr::i32(0));
                    b.store(y, at(&i), negative.select(m.clone().unary(Unary::Negate), m));
                });
            };
            b.if_else(valid, gradient, zero);
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        let op = IntegerCrossEntropyGradient { stream: 7 };
        let tensor = |rows: &[&[i8]], e: i32| {
            Tensor::i8_shared([rows.len(), rows[0].len()], rows.concat(), e)
        };
        // Multiples of 16 before the rounding, so that no draw matters.
        let case = |rows: &[&[i8]], e: i32, labels: &[i32], y: &[&[i8]]| {
            let labels = Tensor::i32([labels.len()], labels.to_vec());
            Case::new(op.clone(), vec![tensor(rows, e), labels], vec![tensor(y, 0)])
        };
        let equal: &[i8] = &[3, 3];
        let mut cases = vec![
            // Equal logits share 2048 in every range of the exponent.
            case(&[equal, equal], 0, &[0, 1], &[&[-64, 64], &[64, -64]]),
            case(&[&[-3; 4]], -3, &[2], &[&[32, 32, -96, 32]]),
            case(&[&[-128; 4]], -6, &[0], &[&[-96, 32, 32, 32]]),
            case(&[equal], -7, &[0], &[&[-64, 64]]),
            case(&[&[0; 4]], -25, &[1], &[&[32, -96, 32, 32]]),
            case(&[&[-128, 127, 5, 0]], -26, &[3], &[&[32, 32, 32, -96]]),
            case(&[&[-128, 127, 5, 0]], i32::MIN, &[3], &[&[32, 32, 32, -96]]),
            case(&[&[7; 4]], i32::MAX, &[0], &[&[-96, 32, 32, 32]]),
            // One class has the whole window: p = 2048, 0; right label: nothing; wrong label: 128 clamps.
            case(&[&[1, 0], &[1, 0]], 4, &[0, 1], &[&[0, 0], &[127, -127]]),
            case(&[&[1, 0], &[1, 0]], 24, &[0, 1], &[&[0, 0], &[127, -127]]),
            case(&[&[-128, 127]], i32::MAX, &[0], &[&[-127, 127]]),
            // Labels outside.
            case(&[&[4, 0], &[0, 4], equal], 0, &[-1, 2, i32::MIN], &[&[0, 0], &[0, 0], &[0, 0]]),
            case(&[&[5]], 0, &[0], &[&[0]]),
            case(&[&[5]], -9, &[i32::MAX], &[&[0]]),
        ];
        for e in [-200, -25, -24, -15, -8, -7, -6, -5, -1, 0, 1, 2, 3, 4, 40] {
            for rows in [1usize, 6] {
                let q = (0..rows * 7).map(|i| ((i * 53 + 11) % 256) as u8 as i8).collect();
                let labels = (0..rows as i32).map(|i| (i * 3) % 8).collect();
                cases.push(Case::shape_only(
                    IntegerCrossEntropyGradient { stream: 0x8000_0001 },
                    vec![Tensor::i8_shared([rows, 7], q, e), Tensor::i32([rows], labels)],
                ));
            }
        }
        // Shares of sums of many bits, by few classes and by many, of which most are alike.
        for (n, classes) in [1usize, 2, 4, 9, 100, 1000, MAX_CLASSES].into_iter().enumerate() {
            for e in [-25, -24, -17, -12, -9, -8, -7, -6, 0] {
                let code = |i: usize| [i * 53 + 11, 127 - i % 2, 128 + i / 8, 5 * n][(i + n) % 4];
                let q = (0..2 * classes).map(|i| (code(i) % 256) as u8 as i8).collect();
                let labels = vec![classes as i32 / 3, classes as i32 - 1];
                cases.push(Case::shape_only(
                    op.clone(),
                    vec![Tensor::i8_shared([2, classes], q, e), Tensor::i32([2], labels)],
                ));
            }
        }
        cases
    }
}

/// 4095 (2^51 + 2^33 + 2^14) < 2^63.
const MAX_CLASSES: usize = 4095;
/// Least bits of a sum of which a share is estimated.
const ESTIMATED: i64 = 16;
/// log2(e) * 2^15.
const LOG2_E: i64 = 47274;

/// The u of the formula for one row.
fn unnormalized(row: &[i8], exponent: i32) -> Vec<i128> {
    if exponent < -25 {
        return vec![1; row.len()];
    }
    if exponent <= -7 {
        let power = |by: i32| 1i128 << by;
        return row
            .iter()
            .map(|&s| i128::from(s))
            .map(|s| power(1 - 2 * exponent) + s * power(1 - exponent) + s * s)
            .collect();
    }
    let scaled = |&s: &i8| {
        let s = numeric::shift_right(i64::from(s) * LOG2_E, 15, Rounding::Truncate);
        if exponent >= 0 {
            s << exponent.min(24)
        } else {
            numeric::shift_right(s, exponent.unsigned_abs(), Rounding::Truncate)
        }
    };
    let scaled: Vec<i64> = row.iter().map(scaled).collect();
    let bottom = scaled.iter().max().map_or(0, |top| top - 10);
    scaled.iter().map(|s| (1i128 << (s - bottom).max(0)) - 1).collect()
}

/// The u of the formula as code: factors that depend on the exponent only.
struct Weights {
    /// Whether E > -7.
    window: Expr,
    multiplier: Expr,
    /// The logits' bits behind the point, and their mask.
    down: Expr,
    fraction: Expr,
    constant: Expr,
    linear: Expr,
    quadratic: Expr,
    /// Bits of sums that shares are estimated without, and 1 if there are such.
    beyond: Expr,
    some: Expr,
}

impl Weights {
    fn new(b: &mut LoopBuilder, e: Expr, classes: usize) -> Weights {
        let one = || Expr::i64(1);
        let up = integer::clamp(e.clone(), 0, 24).extend();
        let down = integer::clamp(e.clone(), -24, 0).unary(Unary::Negate).extend();
        let wide = b.let_("wide_e", integer::clamp(e.clone(), -25, -7).extend());
        let uniform = b.let_("uniform", e.clone().less(Expr::i32(-25)));
        let mut unless_uniform = |name: &str, value: Expr, otherwise: i64| {
            b.let_(name, uniform.clone().select(Expr::i64(otherwise), value))
        };
        let linear = one().shift_left(one() - wide.clone());
        let constant = unless_uniform("constant", one().shift_left(one() - wide.clone() - wide.clone()), 1);
        let linear = unless_uniform("linear", linear, 0);
        let quadratic = unless_uniform("quadratic", one(), 0);
        let window = b.let_("window", Expr::i32(-7).less(e));
        // If -25 <= E <= -7, a u is 1 to 5 times 2^(-2E); otherwise a u has at most 10 bits, and sums of them fit 32.
        let least = i64::from(classes.ilog2()) - ESTIMATED;
        let beyond = (Expr::i64(least) - wide.clone() - wide.clone()).maximum(Expr::i64(0));
        let exact = window.clone().or(uniform.clone());
        let beyond = b.let_("beyond", exact.select(Expr::i64(0), beyond));
        let some = Expr::i64(0).less(beyond.clone()).select(Expr::i32(1), Expr::i32(0));
        Weights {
            some: b.let_("some", some),
            beyond,
            window,
            multiplier: b.let_("multiplier", one().shift_left(up)),
            fraction: b.let_("fraction", one().shift_left(down.clone()) - one()),
            down: b.let_("down", down),
            constant,
            linear,
            quadratic,
        }
    }

    /// The scaled logit of the window form: quotients toward zero, by powers of two.
    fn scaled(&self, b: &mut LoopBuilder, s: Expr) -> Expr {
        let binary = (s * Expr::i64(LOG2_E)).divide(Expr::i64(1 << 15));
        let scaled = b.let_("scaled", binary * self.multiplier.clone());
        let negative = scaled.clone().shift_right(Expr::i64(63));
        (scaled + negative.and(self.fraction.clone())).shift_right(self.down.clone())
    }

    /// `floor(2048 u / sum)`: of what 32 bits hold of both, and one more where that is too little. Many processors divide 64 bits by
    /// a long function.
    ///
    /// With d bits left out and a sum of at least `2^(d + 16)`, the quotient of `floor(2^-d u)` by `floor(2^-d sum) + 1` is too small
    /// by less than `2 * 2048 / 2^16`, beside what its floor leaves.
    fn share(&self, b: &mut LoopBuilder, u: Expr, sum: &Expr) -> Expr {
        let short = |x: Expr| x.shift_right(self.beyond.clone()).truncate();
        let divisor = b.let_("divisor", short(sum.clone()) + self.some.clone());
        let estimate = (short(u.clone()) * Expr::i32(2048)).divide(divisor);
        let estimate = b.let_("estimate", estimate);
        let rest = u * Expr::i64(2048) - estimate.clone().extend() * sum.clone();
        let more = rest.less(sum.clone()).select(Expr::i32(0), Expr::i32(1));
        b.let_("p", estimate + more)
    }

    /// u of the logit `s` (I32).
    fn of(&self, b: &mut LoopBuilder, s: Expr, bottom: &Expr) -> Expr {
        let s = b.let_("s", s.extend());
        let u = b.local("u", Expr::i64(0));
        b.if_else(
            self.window.clone(),
            |b| {
                let above = self.scaled(b, s.clone()) - bottom.clone();
                let above = above.maximum(Expr::i64(0));
                b.set(u, Expr::i64(1).shift_left(above) - Expr::i64(1));
            },
            |b| {
                let linear = self.constant.clone() + s.clone() * self.linear.clone();
                b.set(u, linear + s.clone() * s.clone() * self.quadratic.clone());
            },
        );
        b.get(u)
    }
}
