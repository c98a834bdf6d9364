//! `width_schedule`. See [`WidthSchedule`].

use crate::attributes::{Attributes, F32};
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel, Unary};
use crate::numeric::{self, exponent};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::partial_sums::PartialSumLoops;
use crate::ops::support::{elementwise, sample};
use crate::ops::width_search::{check_widths, kept, largest, lower_kept, lower_magnitudes, magnitudes};
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Shape, TensorType};

/// Numbers of the state.
const STATE: usize = 5;
/// 1 / ln 2.
const PER_BIT: f32 = std::f32::consts::LOG2_E;

operator! {
    /// The step of fixed-point numbers for an FP32 tensor, looked at anew at intervals that grow as its range settles. Operands: `x`, and
    /// the state, five numbers: steps `left` until the next look, width `n` in bits (0 before the first), exponent `h` of the step,
    /// average `r` of the exponents, and steps `t` that were made. Results: the step `2^h` and the largest integer `2^(n-1) - 1` (scalars),
    /// and the next state. Zhang et al. 2020, section 3.3.
    ///
    /// Where `left <= 0` it looks. With M the largest magnitude (as of `quantize_exponent`), in turn for each width from `n` on:
    /// `h = ceil(log2(M / (2^(n-1) - 1)))`, `q = round_ties_even(x / 2^h)`, `d = |A - Q| / A` for A the sum of all |x| and Q that of all
    /// |q * 2^h| (0 where that is no number); the first width with `d <= tolerance` is taken, or else the last. Then
    /// `D = log(1 + d) / log(2)`, `m = alpha * |h - r|`, `r = alpha * h + (1 - alpha) * r`, and the next look is after
    /// `min(max(round_ties_even(beta / max(delta * D * D, m) - gamma), 1), epoch)` steps; after 1 where `t < warm`, after `epoch` where
    /// `t >= epoch`; but after 1 where all of `x` is 0, which says nothing of its range (not in the paper). `t` counts up to `epoch`.
    ///
    /// Order: all in FP32; sums as of `width_search`. h is between -126 and 127, of zeros -126.
    pub struct WidthSchedule = "width_schedule" {
        /// Widths in bits, ascending: 2 to 24.
        pub widths: Vec<u32>,
        /// The largest error of the mean magnitude, as a share of it.
        pub tolerance: F32,
        /// Share of the newest exponent in the average.
        pub alpha: F32,
        /// What is divided by the change.
        pub beta: F32,
        /// What is taken off the interval.
        pub gamma: F32,
        /// Weight of the error against the movement of the range.
        pub delta: F32,
        /// Steps at first that look each.
        pub warm: F32,
        /// The longest interval, and the steps after which it is always that.
        pub epoch: u32,
    }
}

impl WidthSchedule {
    /// Steps from a look to the next, by the error `d` and the movement `m` of the average exponent at step `t`.
    fn interval(&self, d: f32, m: f32, t: f32) -> f32 {
        let epoch = self.epoch as f32;
        if t < self.warm.get() {
            return 1.0;
        }
        if t >= epoch {
            return epoch;
        }
        let error = numeric::log(d + 1.0) * PER_BIT;
        let error = self.delta.get() * (error * error);
        let change = if error > m { error } else { m };
        let steps = (self.beta.get() / change - self.gamma.get()).round_ties_even();
        let steps = if steps > 1.0 { steps } else { 1.0 };
        if steps < epoch { steps } else { epoch }
    }
}

impl Operator for WidthSchedule {
    const WORK: Work = Work::Series;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [_, state] = rule::operands(Self::NAME, inputs)?;
        rule::all_f32(Self::NAME, inputs)?;
        rule::ensure(state.shape.dims() == [STATE], || {
            format!("{}: the state has {STATE} numbers, here {state}", Self::NAME)
        })?;
        check_widths(Self::NAME, &self.widths)?;
        rule::ensure((1..1 << 24).contains(&self.epoch), || {
            format!("{}: an epoch has 1 to 2^24 steps, here {}", Self::NAME, self.epoch)
        })?;
        let scalar = TensorType::f32(Shape::scalar());
        Ok(vec![scalar.clone(), scalar, state.clone()])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let x = inputs[0].as_f32();
        let [mut left, mut width, mut h, mut r, t] = [0, 1, 2, 3, 4].map(|i| inputs[1].as_f32()[i]);
        if left <= 0.0 {
            let m = numeric::largest_finite(x);
            let own = magnitudes(x);
            let (before, mut d, mut found) = (width, 0.0, false);
            for (i, &n) in self.widths.iter().enumerate() {
                let last = i + 1 == self.widths.len();
                if found || (!last && (n as f32) < before) {
                    continue;
                }
                let quotient = m / largest(n);
                let e = if quotient > 0.0 { numeric::ceil_log2(quotient) } else { -126 };
                let e = e.clamp(-126, 127);
                let step = numeric::power_of_two(e);
                let error = (own - kept(x, step)).abs() / own;
                d = if 0.0 <= error { error } else { 0.0 };
                found = d <= self.tolerance.get();
                (width, h) = (n as f32, e as f32);
            }
            let alpha = self.alpha.get();
            let moved = alpha * (h - r).abs();
            r = alpha * h + (1.0 - alpha) * r;
            left = if m > 0.0 { self.interval(d, moved, t) } else { 1.0 };
        }
        // A state that no step gave is still a number.
        let exponent = (h.clamp(-126.0, 127.0)) as i32;
        let high = self.widths.iter().rev().find(|&&n| n as f32 <= width);
        let high = largest(*high.unwrap_or(&self.widths[0]));
        let counted = t + 1.0;
        let counted = if counted < self.epoch as f32 { counted } else { self.epoch as f32 };
        vec![
            Tensor::f32([], vec![numeric::power_of_two(exponent)]),
            Tensor::f32([], vec![high]),
            Tensor::f32([STATE], vec![left - 1.0, width, h, r, counted]),
        ]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, state, count) = (b.input(0), b.input(1), inputs[0].count());
        let parts = PartialSumLoops::one(&mut b, "parts");
        let load = |b: &mut LoopBuilder, i: i64| b.load(state, Expr::i64(i));
        let names = ["left", "width", "h", "r"];
        let locals = names.iter().enumerate().map(|(i, name)| {
            let value = load(&mut b, i as i64);
            b.local(name, value)
        });
        let locals: Vec<_> = locals.collect();
        let [left, width, h, r] = [locals[0], locals[1], locals[2], locals[3]];
        let t = load(&mut b, 4);
        let t = b.let_("t", t);
        let epoch = || Expr::f32(self.epoch as f32);
        let due = b.get(left).less_equal(Expr::f32(0.0));
        b.if_(due, |b| {
            let m = exponent::largest_finite(b, x, count);
            let own = lower_magnitudes(b, &parts, x, count);
            let before = b.get(width);
            let before = b.let_("before", before);
            let d = b.local("d", Expr::f32(0.0));
            let found = b.local("found", Expr::i32(0));
            for (i, &n) in self.widths.iter().enumerate() {
                let open = b.get(found).equal(Expr::i32(0));
                let open = match i + 1 == self.widths.len() {
                    true => open,
                    false => open.and(before.clone().less_equal(Expr::f32(n as f32))),
                };
                b.if_(open, |b| {
                    let quotient = b.let_("quotient", m.clone().divide(Expr::f32(largest(n))));
                    let e = exponent::ceil_log2(b, quotient.clone());
                    let e = Expr::f32(0.0).less(quotient).select(e, Expr::i32(-126));
                    let e = b.let_("e", numeric::integer::clamp(e, -126, 127));
                    let power = (e.clone() + Expr::i32(127)).shift_left(Expr::i32(23));
                    let step = b.let_("step", power.unary(Unary::FromBits));
                    let kept = lower_kept(b, &parts, x, count, &step);
                    let error = (own.clone() - kept).unary(Unary::FloatAbs).divide(own.clone());
                    let error = b.let_("error", error);
                    let known = Expr::f32(0.0).less_equal(error.clone());
                    let error = b.let_("share", known.select(error, Expr::f32(0.0)));
                    b.set(d, error.clone());
                    let enough = error.less_equal(Expr::f32(self.tolerance.get()));
                    b.set(found, enough.unary(Unary::BoolToInteger));
                    b.set(width, Expr::f32(n as f32));
                    b.set(h, e.unary(Unary::ToFloat));
                });
            }
            let alpha = self.alpha.get();
            let moved = (b.get(h) - b.get(r)).unary(Unary::FloatAbs) * Expr::f32(alpha);
            let moved = b.let_("moved", moved);
            let average = b.get(h) * Expr::f32(alpha) + b.get(r) * Expr::f32(1.0 - alpha);
            b.set(r, average);
            let grown = b.get(d) + Expr::f32(1.0);
            let grown = b.let_("grown", grown);
            let error = numeric::float::log_expression(b, grown) * Expr::f32(PER_BIT);
            let error = b.let_("bits", error);
            let error = b.let_("weighed", error.clone() * error * Expr::f32(self.delta.get()));
            let change = moved.clone().less(error.clone()).select(error, moved);
            let steps = Expr::f32(self.beta.get()).divide(change) - Expr::f32(self.gamma.get());
            let steps = b.let_("steps", steps.unary(Unary::RoundTiesEven));
            let steps = Expr::f32(1.0).less(steps.clone()).select(steps, Expr::f32(1.0));
            let steps = b.let_("least", steps);
            let steps = steps.clone().less(epoch()).select(steps, epoch());
            let later = t.clone().less(epoch()).select(steps, epoch());
            let warm = t.clone().less(Expr::f32(self.warm.get()));
            let steps = warm.select(Expr::f32(1.0), later);
            b.set(left, Expr::f32(0.0).less(m).select(steps, Expr::f32(1.0)));
        });
        let exponent = b.get(h).maximum(Expr::f32(-126.0)).minimum(Expr::f32(127.0));
        let exponent = exponent.unary(Unary::ToInteger) + Expr::i32(127);
        let step = exponent.shift_left(Expr::i32(23)).unary(Unary::FromBits);
        b.store(b.output(0), Expr::i64(0), step);
        let high = self.widths.iter().fold(Expr::f32(largest(self.widths[0])), |high, &n| {
            let reached = Expr::f32(n as f32).less_equal(b.get(width));
            reached.select(Expr::f32(largest(n)), high)
        });
        b.store(b.output(1), Expr::i64(0), high);
        let counted = b.let_("counted", t + Expr::f32(1.0));
        let counted = counted.clone().less(epoch()).select(counted, epoch());
        let values = [b.get(left) - Expr::f32(1.0), b.get(width), b.get(h), b.get(r), counted];
        for (i, value) in values.into_iter().enumerate() {
            b.store(b.output(2), Expr::index(i), value);
        }
        b.finish()
    }

    fn cases() -> Vec<Case> {
        let op = |widths: &[u32], warm: f32| WidthSchedule {
            widths: widths.to_vec(),
            tolerance: 0.021_012_126.into(),
            alpha: 0.04.into(),
            beta: 0.1.into(),
            gamma: 2.0.into(),
            delta: 100.0.into(),
            warm: warm.into(),
            epoch: 100,
        };
        let all = |warm| op(&[8, 16, 24], warm);
        let once = || WidthSchedule {
            tolerance: 0.0.into(),
            alpha: 0.0.into(),
            beta: 1.0.into(),
            gamma: 0.0.into(),
            delta: 0.0.into(),
            epoch: (1 << 24) - 1,
            ..op(&[8], 0.0)
        };
        let f32 = |x: &[f32]| Tensor::f32([x.len()], x.to_vec());
        let result = |step: f32, high: f32, state: [f32; STATE]| {
            vec![Tensor::f32([], vec![step]), Tensor::f32([], vec![high]), f32(&state)]
        };
        let cubes = |count: usize, power: i32| {
            let x = sample::f32([count], count as u32);
            Tensor::f32([count], x.as_f32().iter().map(|x| x.powi(power)).collect())
        };
        let small = [&[127.0][..], &[0.4; 40]].concat();
        vec![
            // Whole steps, and an exponent that does not move: the longest interval.
            Case::new(
                all(0.0),
                vec![f32(&[127.0, -3.0]), f32(&[0.0; STATE])],
                result(1.0, 127.0, [99.0, 8.0, 0.0, 0.0, 1.0]),
            ),
            Case::new(
                all(10.0),
                vec![f32(&[127.0, -3.0]), f32(&[0.0; STATE])],
                result(1.0, 127.0, [0.0, 8.0, 0.0, 0.0, 1.0]),
            ),
            // 0.1 / 0.04 - 2 is 0.5, rounded to 0: one step.
            Case::new(
                all(0.0),
                vec![f32(&[128.0, -4.0]), f32(&[0.0; STATE])],
                result(2.0, 127.0, [0.0, 8.0, 1.0, 0.04, 1.0]),
            ),
            // Not yet; then in the second epoch.
            Case::new(
                all(0.0),
                vec![f32(&[128.0, -4.0]), f32(&[3.0, 16.0, -8.0, 1.5, 7.0])],
                result(0.003_906_25, 32767.0, [2.0, 16.0, -8.0, 1.5, 8.0]),
            ),
            Case::new(
                all(0.0),
                vec![f32(&[127.0, -3.0]), f32(&[0.0, 8.0, 0.0, 0.0, 100.0])],
                result(1.0, 127.0, [99.0, 8.0, 0.0, 0.0, 100.0]),
            ),
            // 40 numbers of 0.4 steps vanish at 8 bits (`width_search`); of 16 bits it has seen once it keeps 16.
            Case::new(
                op(&[8, 16], 10.0),
                vec![f32(&small), f32(&[0.0, 8.0, 0.0, -8.0, 0.0])],
                result(0.003_906_25, 32767.0, [0.0, 16.0, -8.0, -8.0, 1.0]),
            ),
            Case::new(
                all(10.0),
                vec![f32(&[32767.0, 1.0]), f32(&[0.0, 16.0, 0.0, 0.0, 2.0])],
                result(1.0, 32767.0, [0.0, 16.0, 0.0, 0.0, 3.0]),
            ),
            // Zeros have no error: the width stays.
            Case::new(
                all(10.0),
                vec![f32(&[0.0, -0.0]), f32(&[0.0, 8.0, -126.0, 0.0, 0.0])],
                result(1.175_494_4e-38, 127.0, [0.0, 8.0, -126.0, -5.04, 1.0]),
            ),
            // Nor do they say anything of the range: the next step looks, with and without warm-up, in any epoch.
            Case::new(
                all(0.0),
                vec![f32(&[0.0, -0.0]), f32(&[0.0; STATE])],
                result(1.175_494_4e-38, 127.0, [0.0, 8.0, -126.0, -5.04, 1.0]),
            ),
            Case::new(
                all(0.0),
                vec![f32(&[0.0]), f32(&[0.0, 8.0, -126.0, 0.0, 100.0])],
                result(1.175_494_4e-38, 127.0, [0.0, 8.0, -126.0, -5.04, 100.0]),
            ),
            // Without change and movement it looks once, at the first numbers: as `priot` keeps scales.
            Case::new(
                once(),
                vec![f32(&[-0.3, 0.1]), f32(&[0.0; STATE])],
                result(0.003_906_25, 127.0, [16_777_214.0, 8.0, -8.0, 0.0, 1.0]),
            ),
            Case::new(
                once(),
                vec![f32(&[0.0, -0.0]), f32(&[0.0; STATE])],
                result(1.175_494_4e-38, 127.0, [0.0, 8.0, -126.0, 0.0, 1.0]),
            ),
            Case::new(
                once(),
                vec![f32(&[900.0, 3.0]), f32(&[16_777_214.0, 8.0, -8.0, 0.0, 1.0])],
                result(0.003_906_25, 127.0, [16_777_213.0, 8.0, -8.0, 0.0, 2.0]),
            ),
            Case::shape_only(once(), vec![elementwise::extreme_tensor(), f32(&[0.0; STATE])]),
            Case::shape_only(all(0.0), vec![cubes(333, 1), f32(&[0.0, 8.0, -5.0, -6.8, 20.0])]),
            Case::shape_only(all(0.0), vec![cubes(100, 9), f32(&[0.0, 8.0, -5.0, -6.8, 20.0])]),
            Case::shape_only(all(0.0), vec![cubes(64, 25), f32(&[0.0; STATE])]),
            Case::shape_only(all(0.0), vec![elementwise::extreme_tensor(), f32(&[0.0; STATE])]),
        ]
    }
}
