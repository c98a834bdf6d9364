//! `leaky_relu_gradient`. See [`LeakyReluGradient`].

use crate::attributes::{F32};
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::{elementwise};
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{TensorType};

operator! {
    /// `dy` where `x` was positive, else `alpha * dy` (FP32). Operands: `x`, `dy`.
    pub struct LeakyReluGradient = "leaky_relu_gradient" {
        /// Slope for negative operands.
        pub alpha: F32,
    }
}

impl Operator for LeakyReluGradient {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        rule::ensure(self.alpha.get().is_finite(), || {
            format!("leaky_relu_gradient: the slope must be finite, here {}", self.alpha.get())
        })?;
        elementwise::infer_same_shape("leaky_relu_gradient", inputs)
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let alpha = self.alpha.get();
        elementwise::evaluate_binary(inputs, |x, dy| if x > 0.0 { dy } else { alpha * dy })
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        elementwise::lower_binary(inputs, outputs, |_, x, dy| {
            let negative = Expr::f32(self.alpha.get()) * dy.clone();
            Expr::f32(0.0).less(x).select(dy, negative)
        })
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 1
    }

    fn cases() -> Vec<Case> {
        let op = LeakyReluGradient { alpha: F32::new(0.25) };
        let extremes = elementwise::extreme_tensor();
        let errors = Tensor::f32(extremes.shape().dims(), elementwise::ramp(extremes.ty().count()));
        vec![
            Case::new(
                op.clone(),
                vec![
                    Tensor::f32([4], vec![1.5, -2.0, -0.0, 1.0e-40]),
                    Tensor::f32([4], vec![1.0, 2.0, 3.0, -5.0]),
                ],
                vec![Tensor::f32([4], vec![1.0, 0.5, 0.75, -5.0])],
            ),
            Case::shape_only(op, vec![extremes, errors]),
        ]
    }
}
