//! `floor`. See [`Floor`].

use crate::graph::{Graph, ValueId};
use crate::loops::{LoopKernel, Unary};
use crate::operator;
use crate::ops::properties::{Examples, Order, Work};
use crate::ops::support::{elementwise};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{TensorType};

operator! {
    /// Largest integral number not above, elementwise (FP32); gradient zero.
    pub struct Floor = "floor" {
    }
}

impl Operator for Floor {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        elementwise::infer_unary("floor", inputs)
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        elementwise::evaluate_unary(inputs, f32::floor)
    }

    /// The gradient is zero everywhere, so none is given.
    fn gradient(
        &self,
        _graph: &mut Graph,
        _node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        Ok(vec![None])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        elementwise::lower_unary(inputs, outputs, |_, x| x.unary(Unary::Floor))
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 0
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.only_first()
    }

    fn order(&self, operand: usize) -> Option<Order> {
        (operand == 0).then_some(Order::Monotone)
    }

    fn cases() -> Vec<Case> {
        vec![
            Case::new(
                Floor {},
                vec![Tensor::f32([6], vec![1.5, -1.5, -0.0, 0.25, f32::NEG_INFINITY, -1.0e-45])],
                vec![Tensor::f32([6], vec![1.0, -2.0, -0.0, 0.0, f32::NEG_INFINITY, -1.0])],
            ),
            Case::shape_only(Floor {}, vec![elementwise::extreme_tensor()]),
            Case::shape_only(Floor {}, vec![Tensor::f32([], vec![-0.75])]),
            Case::shape_only(Floor {}, vec![Tensor::f32([3, 0, 2], vec![])]),
            Case::shape_only(Floor {}, vec![Tensor::f32([3, 1, 5, 1, 7], elementwise::ramp(105))]),
        ]
    }
}
