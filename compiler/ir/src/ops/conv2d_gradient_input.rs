//! `conv2d_gradient_input`. See [`Conv2dGradientInput`].

use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// Error of a convolution's operand. Operands: `dy` [B,Cout,OH,OW], `w`: FP32, or i8 x i8 -> i32 with
    /// summed exponents. Result [B,Cin,H,W].
    ///
    /// FP32 order: each result is a sequential sum from +0 over (output channel within the group, kh, kw)
    /// ascending; taps that hit no output are skipped.
    pub struct Conv2dGradientInput = "conv2d_gradient_input" {
        /// Of the convolution.
        pub strides: [usize; 2],
        /// Of the convolution.
        pub pads: [usize; 4],
        /// Of the convolution.
        pub dilations: [usize; 2],
        /// Channel groups.
        pub groups: usize,
        /// H and W of the convolution's operand.
        pub input_size: [usize; 2],
    }
}

impl Operator for Conv2dGradientInput {
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
