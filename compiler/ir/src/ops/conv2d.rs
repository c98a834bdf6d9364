//! `conv2d`. See [`Conv2d`].

use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// 2-D convolution (cross-correlation). Operands: `x` [B,Cin,H,W], `w` [Cout,Cin/groups,KH,KW]: FP32,
    /// or i8 x i8 -> i32 with summed exponents.
    ///
    /// FP32 order: each result is a sequential sum from +0 over (channel within the group, kh, kw)
    /// ascending of rounded products; taps in the padding are skipped.
    pub struct Conv2d = "conv2d" {
        /// Vertical, horizontal.
        pub strides: [usize; 2],
        /// Top, left, bottom, right.
        pub pads: [usize; 4],
        /// Vertical, horizontal.
        pub dilations: [usize; 2],
        /// Channel groups.
        pub groups: usize,
    }
}

impl Operator for Conv2d {
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
