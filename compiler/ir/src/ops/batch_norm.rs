//! `batch_norm`. See [`BatchNorm`].

use crate::attributes::F32;
use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// `scale * (x - mean) / sqrt(variance + epsilon) + bias` for each channel of [B,C,...] (FP32).
    /// Operands: `x`, `scale` [C], `bias` [C], `mean` [C], `variance` [C].
    ///
    /// If `batch` is set the statistics are those of `x` itself (from `batch_statistics`), and the gradient
    /// goes through them.
    pub struct BatchNorm = "batch_norm" {
        /// Added to the variance.
        pub epsilon: F32,
        /// Whether mean and variance are the batch's own.
        pub batch: bool,
    }
}

impl Operator for BatchNorm {
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
