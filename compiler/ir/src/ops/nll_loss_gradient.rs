//! `nll_loss_gradient`. See [`NllLossGradient`].

use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;
use crate::ops::nll_loss::Reduction;

operator! {
    /// Gradient of `nll_loss` with respect to the log-probabilities. Operands: log-probabilities, labels,
    /// `dy`, optionally class weights.
    pub struct NllLossGradient = "nll_loss_gradient" {
        /// As in `nll_loss`.
        pub reduction: Reduction,
        /// As in `nll_loss`.
        pub ignore_index: i64,
    }
}

impl Operator for NllLossGradient {
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
