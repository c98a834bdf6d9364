//! `clip_search`. See [`ClipSearch`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel, Unary};
use crate::numeric::{self, exponent};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::partial_sums::{self, PartialSumLoops, PartialSums};
use crate::ops::support::{elementwise, sample};
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Shape, TensorType};

/// Clips are multiples of a 20th of the largest magnitude,
const UNITS: i32 = 20;
/// from all of it down to a fifth.
const CANDIDATES: usize = 17;
/// A distance that no two directions have.
const NONE: f32 = 2.5;

operator! {
    /// The clip under which an FP32 tensor keeps its direction best when it is quantized to `2 levels + 1` numbers, and the
    /// distance that is left: two scalars `c` and `d`. With M the largest magnitude (as of `quantize_exponent`), candidates are
    /// `c = M * (n / 20)` for n = 20, 19, ..., 4; of each, `s = c / levels`, `v = min(max(round_ties_even(x / s), -levels), levels)
    /// * s`, `d = 1 - (x . v) / (sqrt(x . x) * sqrt(v . v))`; the first with the smallest d is taken. Zhu et al. 2020 search this
    /// clip by gradient descent.
    ///
    /// Order: all in FP32; element `i` of a sum of products is added to partial sum `i mod 16`, from +0; then the partial sums
    /// from the first to the last. Where no distance compares (zeros, NaN) c = M and d = 2.5.
    pub struct ClipSearch = "clip_search" {
        /// Largest integer.
        pub levels: i32,
    }
}

/// Of a case.
const NUMBERS: [f32; 20] = [
    4.0, 1.0, 1.0, 1.0, -1.0, 1.0, 0.25, -3.0, 1.5, 0.75, 2.0, -1.0, 0.5, 1.0, 1.0, -0.5, 1.0, 1.0, -1.0, 1.25,
];

impl Operator for ClipSearch {
    const WORK: Work = Work::Series;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        rule::operands::<1>(Self::NAME, inputs)?;
        rule::all_f32(Self::NAME, inputs)?;
        rule::ensure((1..=32767).contains(&self.levels), || {
            format!("{}: 1 to 32767 levels, here {}", Self::NAME, self.levels)
        })?;
        Ok(vec![TensorType::f32(Shape::scalar()); 2])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let x = inputs[0].as_f32();
        let levels = self.levels as f32;
        let m = numeric::largest_finite(x);
        let own = PartialSums::sum(x.iter().map(|x| x * x)).sqrt();
        let (mut clip, mut distance) = (m, NONE);
        for n in 0..CANDIDATES as i32 {
            let c = m * ((UNITS - n) as f32 / UNITS as f32);
            let step = c / levels;
            let [mut dot, mut norm] = [PartialSums::default(); 2];
            for (i, x) in x.iter().enumerate() {
                let rounded = (x / step).round_ties_even();
                let above = if rounded > -levels { rounded } else { -levels };
                let value = (if above < levels { above } else { levels }) * step;
                dot.add(i, x * value);
                norm.add(i, value * value);
            }
            let d = 1.0 - dot.total() / (own * norm.total().sqrt());
            if d < distance {
                (clip, distance) = (c, d);
            }
        }
        vec![Tensor::f32([], vec![clip]), Tensor::f32([], vec![distance])]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let (x, count) = (builder.input(0), inputs[0].count());
        let [dot, norm] = ["dot", "norm"].map(|name| PartialSumLoops::one(&mut builder, name));
        let levels = self.levels as f32;
        let m = exponent::largest_finite(&mut builder, x, count);
        let own = partial_sums::lower(&mut builder, &norm, count, |builder, i| {
            let value = builder.load(x, i);
            let value = builder.let_("x", value);
            value.clone() * value
        });
        let own = own.unary(Unary::Sqrt);
        let own = builder.let_("own", own);
        let clip = builder.local("clip", m.clone());
        let distance = builder.local("distance", Expr::f32(NONE));
        builder.for_("candidate", CANDIDATES, |builder, n| {
            let part = (Expr::i32(UNITS) - n.truncate()).unary(Unary::ToFloat);
            let c = builder.let_("c", m * part.divide(Expr::f32(UNITS as f32)));
            let step = builder.let_("step", c.clone().divide(Expr::f32(levels)));
            partial_sums::clear(builder, &[&dot, &norm]);
            partial_sums::each(builder, count, |builder, p, i| {
                let value = builder.load(x, i);
                let value = builder.let_("x", value);
                let rounded = value.clone().divide(step.clone()).unary(Unary::RoundTiesEven);
                let limited = rounded.maximum(Expr::f32(-levels)).minimum(Expr::f32(levels));
                let kept = builder.let_("v", limited * step.clone());
                dot.add(builder, p.clone(), value * kept.clone());
                norm.add(builder, p, kept.clone() * kept);
            });
            let dots = dot.total(builder, "sum");
            let norms = norm.total(builder, "sum").unary(Unary::Sqrt);
            let d = Expr::f32(1.0) - dots.divide(own * norms);
            let d = builder.let_("d", d);
            let better = d.clone().less(builder.get(distance));
            let better = builder.let_("better", better);
            let kept = better.clone().select(c, builder.get(clip));
            builder.set(clip, kept);
            let kept = better.select(d, builder.get(distance));
            builder.set(distance, kept);
        });
        for (slot, found) in [clip, distance].into_iter().enumerate() {
            let value = builder.get(found);
            builder.store(builder.output(slot), Expr::i64(0), value);
        }
        builder.finish()
    }

    fn cases() -> Vec<Case> {
        let op = |levels| ClipSearch { levels };
        let f32 = |x: &[f32]| Tensor::f32([x.len()], x.to_vec());
        let result = |c: f32, d: f32| vec![Tensor::f32([], vec![c]), Tensor::f32([], vec![d])];
        let mut cases = vec![
            // Whole steps of the largest: nothing is lost, and the first candidate is the best.
            Case::new(op(1), vec![f32(&[2.0, -2.0, 0.0, 2.0, -2.0])], result(2.0, 0.0)),
            Case::new(op(127), vec![f32(&[0.0, -0.0])], result(0.0, NONE)),
            Case::new(op(127), vec![f32(&[1.0, f32::NAN])], result(1.0, NONE)),
            // From numpy, float32 in the order above.
            Case::new(op(1), vec![f32(&NUMBERS)], result(1.4, 0.149_764_96)),
            Case::new(op(3), vec![f32(&NUMBERS)], result(3.6, 0.017_932_236)),
            Case::new(op(7), vec![f32(&NUMBERS)], result(3.6, 0.003_626_048_6)),
        ];
        for (count, levels) in [(5, 7), (100, 127), (333, 127), (64, 1)] {
            cases.push(Case::shape_only(op(levels), vec![sample::f32([count], count as u32)]));
            let cubed = sample::f32([count], 1).as_f32().iter().map(|x| x * x * x).collect();
            cases.push(Case::shape_only(op(levels), vec![Tensor::f32([count], cubed)]));
        }
        cases.push(Case::shape_only(op(127), vec![elementwise::extreme_tensor()]));
        cases
    }
}
