//! `max_pool2d_gradient`. See [`MaxPool2dGradient`].

use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// The error of each window goes to its first (row-major) maximum. Operands: `x` (the pool's operand),
    /// `dy`. FP32 (windows in row-major order), or i8 with shared exponents: summed wide, then clamped to
    /// +-127; exponent of `dy`.
    pub struct MaxPool2dGradient = "max_pool2d_gradient" {
        /// Window.
        pub kernel: [usize; 2],
        /// Vertical, horizontal.
        pub strides: [usize; 2],
        /// Top, left, bottom, right.
        pub pads: [usize; 4],
        /// Vertical, horizontal.
        pub dilations: [usize; 2],
        /// As in `max_pool2d`.
        pub ceil: bool,
    }
}

impl Operator for MaxPool2dGradient {
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
