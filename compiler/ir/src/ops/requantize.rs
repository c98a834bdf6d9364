//! `requantize`. See [`Requantize`].

use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;
use crate::numeric::Rounding;

operator! {
    /// i32 with a shared exponent to i8 by the tensor's own bit width `b = 32 - clz(max |x|)`: shift right
    /// by `s = b - bits` with `rounding`, clamp to `[low, 127]`, exponent `e + s`; `s <= 0` only clamps.
    /// NITI's rescale of activations and errors.
    pub struct Requantize = "requantize" {
        /// Magnitude bits kept: 7 for i8.
        pub bits: u8,
        /// Rounding of the shift.
        pub rounding: Rounding,
        /// Lower clamp: -127, or 0 where a ReLU was fused.
        pub low: i8,
    }
}

impl Operator for Requantize {
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
