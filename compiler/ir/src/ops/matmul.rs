//! `matmul`. See [`MatMul`].

use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

use crate::keyword_enum;

keyword_enum! {
    /// Which pass of the training step a product belongs to; algorithms quantize by it.
    pub enum ProductRole {
        /// Forward: an activation.
        Forward = "forward",
        /// Backward: an error.
        Error = "error",
        /// Backward: a weight gradient.
        Gradient = "gradient",
    }
}

operator! {
    /// Matrix product `op(A) op(B)` over the last two dimensions, leading ones broadcast (rank >= 2 each):
    /// FP32, or i8 x i8 -> i32 with summed exponents.
    ///
    /// FP32 order: each result is a sequential sum from +0 over k ascending of rounded products.
    pub struct MatMul = "matmul" {
        /// Whether the last two axes of A are exchanged.
        pub transpose_a: bool,
        /// Whether the last two axes of B are exchanged.
        pub transpose_b: bool,
        /// Which pass it belongs to.
        pub role: ProductRole,
    }
}

impl Operator for MatMul {
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
