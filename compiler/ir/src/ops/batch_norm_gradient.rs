//! `batch_norm_gradient`. See [`BatchNormGradient`].

use crate::attributes::F32;
use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// Gradients of a batch normalisation. Operands: `x`, `scale`, `mean`, `variance`, `dy`; results: `dx`,
    /// `dscale` [C], `dbias` [C] (FP32).
    pub struct BatchNormGradient = "batch_norm_gradient" {
        /// Added to the variance.
        pub epsilon: F32,
        /// Whether the gradient goes through the statistics.
        pub batch: bool,
    }
}

impl Operator for BatchNormGradient {
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
