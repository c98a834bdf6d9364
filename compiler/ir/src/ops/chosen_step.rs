//! `chosen_step`. See [`ChosenStep`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::example_precision::{check_choice, check_steps};
use crate::ops::properties::Work;
use crate::ops::support::sample;
use crate::ops::{Case, ExamplePrecision, Operator, PrecisionOf, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

/// The least step.
const LEAST: f32 = 1e-8;

operator! {
    /// The step of each example's integers in the precision that it has chosen: `max((largest - least) / steps, 1e-8)`, FP32, each operation
    /// rounded. Operands: `least` and `largest`, of one FP32 type [batch, ...] (see `extremes`), and the choice (see
    /// `example_precision`); `steps` is `sum_k choice_k * steps_k`, from +0 in order, 1 where that is less.
    pub struct ChosenStep = "chosen_step" {
        /// The precision.
        pub of: ExamplePrecision,
    }
}

impl Operator for ChosenStep {
    const WORK: Work = Work::Series;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [least, largest, choice] = rule::operands::<3>(Self::NAME, inputs)?;
        rule::all_f32(Self::NAME, inputs)?;
        rule::ensure(least == largest, || {
            format!("{}: {least} and {largest} must be of one type", Self::NAME)
        })?;
        check_steps(Self::NAME, &self.of.steps)?;
        check_choice(Self::NAME, self.of.steps.len(), [least, choice])?;
        Ok(vec![least.clone()])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let shape = inputs[0].shape();
        let [least, largest, choice] = [0, 1, 2].map(|i| inputs[i].as_f32());
        let (options, own) = (self.of.steps.len(), shape[1..].iter().product::<usize>());
        let each = inputs[2].shape()[0] == shape[0];
        let mut y = Vec::with_capacity(least.len());
        for i in 0..least.len() {
            let row = if each { i / own * options } else { 0 };
            let all = self.of.steps.iter().zip(&choice[row..]);
            let steps = all.fold(0f32, |sum, (&steps, &chosen)| sum + chosen * steps as f32);
            let steps = if steps < 1.0 { 1.0 } else { steps };
            let step = (largest[i] - least[i]) / steps;
            y.push(if step > LEAST { step } else { LEAST });
        }
        vec![Tensor::f32(shape.clone(), y)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let [least, largest, choice] = [0, 1, 2].map(|i| builder.input(i));
        let y = builder.output(0);
        let shape = &inputs[0].shape;
        let (options, own) = (self.of.steps.len(), shape[1..].iter().product::<usize>());
        let each = inputs[2].shape[0] == shape[0];
        builder.for_("n", shape[0], |builder, n| {
            let row = if each { n.clone() * Expr::index(options) } else { Expr::i64(0) };
            let row = builder.let_("row", row);
            let mut sum = Expr::f32(0.0);
            for (k, &steps) in self.of.steps.iter().enumerate() {
                let chosen = builder.load(choice, row.clone() + Expr::index(k));
                sum = builder.let_("sum", sum + chosen * Expr::f32(steps as f32));
            }
            let few = sum.clone().less(Expr::f32(1.0));
            let steps = builder.let_("steps", few.select(Expr::f32(1.0), sum));
            builder.for_("i", own, |builder, i| {
                let i = builder.let_("at", n * Expr::index(own) + i);
                let range = builder.load(largest, i.clone()) - builder.load(least, i.clone());
                let step = builder.let_("step", range.divide(steps));
                let enough = Expr::f32(LEAST).less(step.clone());
                builder.store(y, i, enough.select(step, Expr::f32(LEAST)));
            });
        });
        builder.finish()
    }

    fn cases() -> Vec<Case> {
        let op = |steps: &[usize]| ChosenStep {
            of: ExamplePrecision { of: PrecisionOf::Value, block: 0, steps: steps.to_vec() },
        };
        let f32 = |shape: &[usize], x: &[f32]| Tensor::f32(shape, x.to_vec());
        vec![
            // Seven steps, one, and no range; a row without a choice has one step.
            Case::new(
                op(&[7, 1]),
                vec![
                    f32(&[4, 1], &[-1.0, 0.0, 2.0, -0.5]),
                    f32(&[4, 1], &[2.5, 1.0, 2.0, 1.5]),
                    f32(&[4, 2], &[1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0]),
                ],
                vec![f32(&[4, 1], &[0.5, 1.0, 1e-8, 2.0])],
            ),
            Case::new(
                op(&[15, 255]),
                vec![
                    f32(&[2, 1, 2], &[0.0, 0.0, -255.0, f32::NAN]),
                    f32(&[2, 1, 2], &[255.0, 510.0, 0.0, 1.0]),
                    f32(&[1, 2], &[0.0, 1.0]),
                ],
                vec![f32(&[2, 1, 2], &[1.0, 2.0, 1.0, 1e-8])],
            ),
            Case::shape_only(
                op(&[3, 15, 255]),
                vec![
                    sample::f32([33, 1, 1, 1], 1),
                    sample::f32([33, 1, 1, 1], 2),
                    sample::f32([33, 3], 3),
                ],
            ),
        ]
    }
}
