//! `avg_pool2d`. See [`AvgPool2d`].

use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// Mean over windows of [B,C,H,W]. FP32; or i8 with a shared exponent `e` (no padding, whole windows)
    /// giving i32: if the window holds `2^n` elements the sum with exponent `e - n`, else the sum times
    /// `round(2^15 / count)` shifted right by 15, half away from zero, with exponent `e`.
    ///
    /// FP32 order: sequential sum from +0 in row-major order, then one division by the count.
    pub struct AvgPool2d = "avg_pool2d" {
        /// Window.
        pub kernel: [usize; 2],
        /// Vertical, horizontal.
        pub strides: [usize; 2],
        /// Top, left, bottom, right.
        pub pads: [usize; 4],
        /// As in `max_pool2d`.
        pub ceil: bool,
        /// Whether padding counts as zeros (never the extra border that `ceil` adds).
        pub count_include_pad: bool,
    }
}

impl Operator for AvgPool2d {
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
