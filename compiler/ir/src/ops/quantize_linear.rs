//! `quantize_linear`. See [`QuantizeLinear`].

use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// ONNX QuantizeLinear: `saturate(round_ties_even(x / scale) + zero_point)`. Operands: `x` FP32,
    /// `scale` FP32 (scalar or [C]), `zero_point` (the result's element type; scalar or [C]). Result: an
    /// unscaled integer tensor. Gradient: straight through where not saturated.
    pub struct QuantizeLinear = "quantize_linear" {
        /// Channel axis if the scale is a vector.
        pub axis: usize,
    }
}

impl Operator for QuantizeLinear {
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
