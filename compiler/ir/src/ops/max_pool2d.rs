//! `max_pool2d`. See [`MaxPool2d`].

use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// Maximum over windows of [B,C,H,W]; padding never wins. FP32, or i8 with a shared exponent, which is
    /// kept.
    pub struct MaxPool2d = "max_pool2d" {
        /// Window.
        pub kernel: [usize; 2],
        /// Vertical, horizontal.
        pub strides: [usize; 2],
        /// Top, left, bottom, right.
        pub pads: [usize; 4],
        /// Vertical, horizontal.
        pub dilations: [usize; 2],
        /// Whether a last, partial window counts (ONNX's ceil_mode, with its rule that a window starts inside the padded operand).
        pub ceil: bool,
    }
}

impl Operator for MaxPool2d {
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
