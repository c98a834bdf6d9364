//! `inverse_deviation`. See [`InverseDeviation`].

use crate::attributes::{Attributes, F32};
use crate::loops::{Expr, LoopKernel, Unary};
use crate::operator;
use crate::ops::integer_batch_norm::check_epsilon;
use crate::ops::properties::Work;
use crate::ops::support::elementwise;
use crate::ops::{Case, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// `1 / sqrt(variance + epsilon)`, elementwise (FP32): what a `batch_norm` of these attributes multiplies centred elements by, for
    /// all that needs it of a step.
    pub struct InverseDeviation = "inverse_deviation" {
        /// Added to the variance.
        pub epsilon: F32,
        /// Whether the variance is the batch's own; the result is the same.
        pub batch: bool,
    }
}

impl Operator for InverseDeviation {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        check_epsilon(Self::NAME, self.epsilon)?;
        elementwise::infer_unary(Self::NAME, inputs)
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        elementwise::evaluate_unary(inputs, |variance| 1.0 / (variance + self.epsilon.get()).sqrt())
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        elementwise::lower_unary(inputs, outputs, |_, variance| {
            let sum = variance + Expr::f32(self.epsilon.get());
            Expr::f32(1.0).divide(sum.unary(Unary::Sqrt))
        })
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 0
    }

    fn cases() -> Vec<Case> {
        let inverse = |epsilon: f32| InverseDeviation { epsilon: F32::new(epsilon), batch: true };
        vec![
            Case::new(
                inverse(1.0),
                vec![Tensor::f32([4], vec![3.0, 15.0, 0.0, f32::INFINITY])],
                vec![Tensor::f32([4], vec![0.5, 0.25, 1.0, 0.0])],
            ),
            Case::new(
                inverse(0.0),
                vec![Tensor::f32([2], vec![0.0, 0.0625])],
                vec![Tensor::f32([2], vec![f32::INFINITY, 4.0])],
            ),
            Case::shape_only(inverse(1.0e-5), vec![elementwise::extreme_tensor()]),
            Case::shape_only(inverse(1.0e-3), vec![Tensor::f32([], vec![0.75])]),
            Case::shape_only(inverse(1.0e-3), vec![Tensor::f32([35], elementwise::ramp(35))]),
        ]
    }
}
