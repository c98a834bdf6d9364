//! `quantize_gradient`. See [`QuantizeGradient`].

use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;
use crate::numeric::Rounding;

operator! {
    /// i32 with a shared exponent to i8 of at most `bits` magnitude bits, the second operand (an i32
    /// scalar, NITI's mu): `s = b - bits`; `b = 0` gives 0; `s < 1` clamps to +-127; else shift right by
    /// `s` with `rounding`, clamp to +-127. Exponent `e + max(s, 0)`.
    pub struct QuantizeGradient = "quantize_gradient" {
        /// Rounding of the shift.
        pub rounding: Rounding,
    }
}

impl Operator for QuantizeGradient {
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
