//! `avg_pool2d_gradient`. See [`AvgPool2dGradient`].

use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// Each element sums its share of the errors of the windows that hold it. Operand: `dy`. FP32:
    /// sequential sum from +0 over windows in row-major order of `dy / count`; or i8 with a shared exponent
    /// `e` (no padding): the sum, wide, of the errors; for a window of `2^n` elements clamped to +-127 with
    /// exponent `e - n`, else times `round(2^15 / count)` shifted right by 15, half away from zero,
    /// clamped, with exponent `e`.
    pub struct AvgPool2dGradient = "avg_pool2d_gradient" {
        /// Window.
        pub kernel: [usize; 2],
        /// Vertical, horizontal.
        pub strides: [usize; 2],
        /// Top, left, bottom, right.
        pub pads: [usize; 4],
        /// As in `max_pool2d`.
        pub ceil: bool,
        /// As in `avg_pool2d`.
        pub count_include_pad: bool,
        /// H and W of the pool's operand.
        pub input_size: [usize; 2],
    }
}

impl Operator for AvgPool2dGradient {
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
