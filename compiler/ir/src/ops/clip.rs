//! `clip`. See [`Clip`].

use crate::attributes::F32;
use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// `min(max(x, min), max)`, elementwise: FP32, or i8 with a shared exponent `e` (clamped to
    /// `[ceil(min*2^-e), floor(max*2^-e)]` within i8).
    pub struct Clip = "clip" {
        /// Lower bound; may be -inf.
        pub min: F32,
        /// Upper bound; may be inf.
        pub max: F32,
    }
}

impl Operator for Clip {
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
