//! `clip_gradient`. See [`ClipGradient`].

use crate::attributes::F32;
use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// The error where the clip's operand was strictly inside the bounds, else 0.
    ///
    /// Operands: `x` (the clip's operand) and `dy`; FP32, or i8 with shared exponents (bounds as in
    /// `clip`).
    pub struct ClipGradient = "clip_gradient" {
        /// Lower bound; may be -inf.
        pub min: F32,
        /// Upper bound; may be inf.
        pub max: F32,
    }
}

impl Operator for ClipGradient {
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
