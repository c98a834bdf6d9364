//! `shift_right`. See [`ShiftRight`].

use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Element, TensorType};
use crate::numeric::Rounding;

operator! {
    /// Static right shift of integers (i32 or i8, shared exponent or unscaled): rounded, clamped to the
    /// range of `element` (symmetric: +-(2^(bits-1)-1)), exponent plus `amount`.
    pub struct ShiftRight = "shift_right" {
        /// Bits, below 32.
        pub amount: u8,
        /// Rounding of the shift.
        pub rounding: Rounding,
        /// Element of the result.
        pub element: Element,
    }
}

impl Operator for ShiftRight {
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
