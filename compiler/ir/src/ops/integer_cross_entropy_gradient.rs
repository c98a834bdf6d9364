//! `integer_cross_entropy_gradient`. See [`IntegerCrossEntropyGradient`].

use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// NITI's integer gradient of the softmax cross-entropy. Operands: logits i8 with a shared exponent
    /// [B,C], labels i32 [B]; result i8 with exponent 0 (nominal). Labels outside 0..C give a zero row.
    pub struct IntegerCrossEntropyGradient = "integer_cross_entropy_gradient" {
        /// Random stream of the stochastic rounding.
        pub stream: u32,
    }
}

impl Operator for IntegerCrossEntropyGradient {
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
