//! `quantize_exponent`. See [`QuantizeExponent`].

use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// FP32 to i8 with a shared exponent, by the largest magnitude M of the tensor: `b = ceil(log2 M)`, `q
    /// = clamp(round_ties_even(x * 2^(7-b)), -128, 127)`, exponent `b - 7` (NITI's input quantiser). M = 0
    /// gives zeros and exponent 0.
    pub struct QuantizeExponent = "quantize_exponent" {
    }
}

impl Operator for QuantizeExponent {
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
