//! `batch_norm`. See [`BatchNorm`].

use crate::attributes::{F32};
use crate::graph::{Graph, ValueId};
use crate::loops::builder::{LoopBuilder};
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::properties::{Examples, Order, Work};
use crate::ops::support::channels::{self, Channels};
use crate::ops::support::{elementwise};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError, rule, BatchNormGradient};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{TensorType};

operator! {
    /// `scale * (x - mean) / sqrt(variance + epsilon) + bias` for each channel of `[B,C,...]` (FP32).
    /// Operands: `x`, `scale` `[C]`, `bias` `[C]`, `mean` `[C]`, `variance` `[C]`.
    ///
    /// If `batch` is set the statistics are those of `x` itself (from `batch_statistics`), and the gradient
    /// goes through them.
    ///
    /// Order: `inverse = 1 / sqrt(variance + epsilon)`, `((x - mean) * inverse) * scale + bias`.
    pub struct BatchNorm = "batch_norm" {
        /// Added to the variance.
        pub epsilon: F32,
        /// Whether mean and variance are the batch's own.
        pub batch: bool,
    }
}

impl Operator for BatchNorm {
    const WORK: Work = Work::Strides;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x, scale, bias, mean, variance] = rule::operands::<5>("batch_norm", inputs)?;
        rule::all_f32("batch_norm", inputs)?;
        let epsilon = self.epsilon.get();
        rule::ensure(epsilon.is_finite() && epsilon >= 0.0, || {
            format!("batch_norm: epsilon must be finite and not negative, here {epsilon}")
        })?;

        let sizes = Channels::of("batch_norm", x)?;
        sizes.check("batch_norm", &[scale, bias, mean, variance])?;
        Ok(vec![x.clone()])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let sizes = Channels::of("batch_norm", inputs[0].ty()).expect("checked by infer");
        let x = inputs[0].as_f32();
        let [scale, bias, mean, variance] = [1, 2, 3, 4].map(|i| inputs[i].as_f32());
        let mut y = vec![0f32; x.len()];
        for c in 0..sizes.channels {
            let inverse = 1.0 / (variance[c] + self.epsilon.get()).sqrt();
            for run in sizes.runs(c) {
                for (y, x) in y[run.clone()].iter_mut().zip(&x[run]) {
                    *y = (x - mean[c]) * inverse * scale[c] + bias[c];
                }
            }
        }
        vec![Tensor::f32(inputs[0].shape().dims(), y)]
    }

    /// Mean and variance get no gradient: they are frozen, or (`batch`) the gradient of `x` goes through them.
    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        if !node.wanted[..3].contains(&true) {
            return Ok(vec![None; 5]);
        }
        let [x, scale, mean, variance] = [0, 1, 3, 4].map(|i| node.inputs[i]);
        let operands = [x, scale, mean, variance, node.output_gradient()];
        let op = BatchNormGradient { epsilon: self.epsilon, batch: self.batch };
        let results = graph.add(op, &operands, "batch_norm/gradient")?;
        let wanted = |i: usize| node.wanted[i].then(|| results[i]);
        Ok(vec![wanted(0), wanted(1), wanted(2), None, None])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let sizes = Channels::of("batch_norm", inputs[0]).expect("checked by infer");
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let [x, scale, bias, mean, variance] = [0, 1, 2, 3, 4].map(|i| builder.input(i));
        let y = builder.output(0);
        builder.for_("c", sizes.channels, |builder, c| {
            let inverse = channels::inverse_deviation(builder, variance, &c, self.epsilon);
            let scale = channels::load(builder, "scale", scale, &c);
            let bias = channels::load(builder, "bias", bias, &c);
            let mean = channels::load(builder, "mean", mean, &c);
            sizes.lower(builder, &c, |builder, i| {
                let value = builder.load(x, i.clone());
                builder.store(y, i, (value - mean) * inverse * scale + bias);
            });
        });
        builder.finish()
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 0
    }

    fn order(&self, operand: usize) -> Option<Order> {
        (operand == 0 && !self.batch).then_some(Order::Monotone)
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.only_first() && !self.batch
    }

    fn cases() -> Vec<Case> {
        let norm = |epsilon: f32, batch| BatchNorm { epsilon: F32::new(epsilon), batch };
        let vector = |values: &[f32]| Tensor::f32([values.len()], values.to_vec());
        let mut cases = vec![
            // (5 - 1) / sqrt(3 + 1) * 3 - 1 = 5 in channel 0; (x - 0) / sqrt(15 + 1) * 2 in channel 1.
            Case::new(
                norm(1.0, false),
                vec![
                    Tensor::f32([2, 2, 1], vec![5.0, 8.0, 1.0, -2.0]),
                    vector(&[3.0, 2.0]),
                    vector(&[-1.0, 0.0]),
                    vector(&[1.0, 0.0]),
                    vector(&[3.0, 15.0]),
                ],
                vec![Tensor::f32([2, 2, 1], vec![5.0, 4.0, -1.0, -1.0])],
            ),
            Case::shape_only(
                norm(0.0, false),
                vec![
                    Tensor::f32([1, 2], vec![3.0, -1.0e-40]),
                    vector(&[-0.0, 3.0e38]),
                    vector(&[0.0, 1.0]),
                    vector(&[-3.0, 0.0]),
                    vector(&[1.0e-40, 3.0e38]),
                ],
            ),
        ];
        for shape in [&[3, 5][..], &[2, 5, 7], &[3, 5, 3, 7], &[0, 5, 2]] {
            let x = Tensor::f32(shape, elementwise::ramp(shape.iter().product()));
            let [scale, bias, mean] = [1.5, 0.25, -0.5].map(|shift| {
                Tensor::f32([5], elementwise::ramp(5).into_iter().map(|x| x + shift).collect())
            });
            let variance = vector(&[0.0, 0.1, 1.0, 2.5, 1.0e6]);
            cases.push(Case::shape_only(norm(1.0e-5, true), vec![x, scale, bias, mean, variance]));
        }
        cases
    }
}
