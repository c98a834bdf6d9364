//! `nll_loss`. See [`NllLoss`].

use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

use crate::keyword_enum;

keyword_enum! {
    /// How the losses of the elements become the result.
    pub enum Reduction {
        /// Every element's own loss.
        None = "none",
        /// Their sum.
        Sum = "sum",
        /// Their sum divided by the sum of the weights that count.
        Mean = "mean",
    }
}

operator! {
    /// Negative log likelihood. Operands: log-probabilities [N,C,d...], labels i32 [N,d...], optionally
    /// class weights [C]. Labels outside 0..C count as ignored.
    pub struct NllLoss = "nll_loss" {
        /// How element losses become the result.
        pub reduction: Reduction,
        /// Label that does not count (use -1 for none).
        pub ignore_index: i64,
    }
}

impl Operator for NllLoss {
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
