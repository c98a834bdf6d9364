//! `softmax_cross_entropy_gradient`. See [`SoftmaxCrossEntropyGradient`].

use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// `(softmax(logits) - onehot(labels)) / B` (FP32). Operands: logits [B,C], labels i32 [B]. Rows whose
    /// label is outside 0..C are 0.
    pub struct SoftmaxCrossEntropyGradient = "softmax_cross_entropy_gradient" {
    }
}

impl Operator for SoftmaxCrossEntropyGradient {
    fn infer(&self, _inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        todo!()
    }

    fn evaluate(&self, _inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        todo!()
    }

    fn gradient(
        &self,
        _graph: &mut Graph,
        _node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        todo!()
    }

    fn lower(&self, _inputs: &[&TensorType], _outputs: &[&TensorType]) -> LoopKernel {
        todo!()
    }

    fn cases() -> Vec<Case> {
        todo!()
    }
}
