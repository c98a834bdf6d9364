//! `slice`. See [`Slice`].

use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// A strided box of the operand: `start + i * step`, any type without per-axis scale; steps may be
    /// negative (FP32 gradient for positive steps).
    pub struct Slice = "slice" {
        /// First index of each axis.
        pub starts: Vec<usize>,
        /// Result size of each axis.
        pub lengths: Vec<usize>,
        /// Step of each axis, not 0.
        pub steps: Vec<i64>,
    }
}

impl Operator for Slice {
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
