//! `conv2d_gradient_weight`. See [`Conv2dGradientWeight`].

use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// Gradient of a convolution's weight. Operands: `x` [B,Cin,H,W], `dy` [B,Cout,OH,OW]: FP32, or i8 x i8
    /// -> i32 with summed exponents. Result [Cout,Cin/groups,KH,KW].
    ///
    /// FP32 order: each result is a sequential sum from +0 over (batch, oh, ow) ascending; taps outside the
    /// operand are skipped.
    pub struct Conv2dGradientWeight = "conv2d_gradient_weight" {
        /// Of the convolution.
        pub strides: [usize; 2],
        /// Of the convolution.
        pub pads: [usize; 4],
        /// Of the convolution.
        pub dilations: [usize; 2],
        /// Channel groups.
        pub groups: usize,
        /// KH and KW.
        pub kernel_size: [usize; 2],
    }
}

impl Operator for Conv2dGradientWeight {
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
