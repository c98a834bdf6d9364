//! `sgd_update`. See [`SgdUpdate`].

use crate::loops::builder::{LoopBuilder};
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::{elementwise};
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{TensorType};

operator! {
    /// `w - learning_rate * gradient` (FP32). Operands: `w`, `gradient`, `learning_rate` (a scalar).
    pub struct SgdUpdate = "sgd_update" {
    }
}

impl Operator for SgdUpdate {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [w, gradient, rate] = rule::operands::<3>("sgd_update", inputs)?;
        rule::all_f32("sgd_update", inputs)?;
        rule::ensure(w == gradient, || {
            format!("sgd_update: weight and gradient must have one shape, here {w} and {gradient}")
        })?;
        rule::ensure(rate.shape.rank() == 0, || {
            format!("sgd_update: the learning rate is a scalar, here {rate}")
        })?;
        Ok(vec![w.clone()])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let rate = inputs[2].as_f32()[0];
        elementwise::evaluate_binary(&inputs[..2], |w, gradient| w - rate * gradient)
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let [w, gradient, rate] = [0, 1, 2].map(|i| builder.input(i));
        let y = builder.output(0);
        let rate = builder.load(rate, Expr::i64(0));
        let rate = builder.let_("rate", rate);
        builder.for_("i", inputs[0].count(), |builder, i| {
            let step = rate * builder.load(gradient, i.clone());
            let value = builder.load(w, i.clone()) - step;
            builder.store(y, i, value);
        });
        builder.finish()
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 0
    }

    fn cases() -> Vec<Case> {
        let rate = |rate: f32| Tensor::f32([], vec![rate]);
        let extremes = elementwise::extreme_tensor();
        let gradients =
            Tensor::f32(extremes.shape().dims(), elementwise::ramp(extremes.ty().count()));
        vec![
            Case::new(
                SgdUpdate {},
                vec![
                    Tensor::f32([3], vec![1.0, -2.0, 0.0]),
                    Tensor::f32([3], vec![4.0, 0.5, -8.0]),
                    rate(0.25),
                ],
                vec![Tensor::f32([3], vec![0.0, -2.125, 2.0])],
            ),
            // Rounded twice, not fused: 0.1 * 10 rounds to 1.
            Case::new(
                SgdUpdate {},
                vec![Tensor::f32([], vec![1.0]), Tensor::f32([], vec![10.0]), rate(0.1)],
                vec![Tensor::f32([], vec![0.0])],
            ),
            Case::shape_only(SgdUpdate {}, vec![extremes, gradients, rate(0.1)]),
        ]
    }
}
