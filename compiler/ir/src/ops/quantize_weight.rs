//! `quantize_weight`. See [`QuantizeWeight`].

use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// FP32 to i8 with a shared exponent, as NITI initialises weights: `q = round_ties_even(x / M * 127)`,
    /// exponent `ceil(log2 M) - 7`, M the largest magnitude (0 gives zeros and exponent 0).
    pub struct QuantizeWeight = "quantize_weight" {
    }
}

impl Operator for QuantizeWeight {
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
