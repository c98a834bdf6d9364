//! `neg`. See [`Neg`].

use crate::graph::{Graph, ValueId};
use crate::loops::{LoopKernel, Unary};
use crate::operator;
use crate::ops::properties::{Examples, Order, Property, Work};
use crate::ops::support::{elementwise};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{TensorType};

operator! {
    /// Negation, elementwise (FP32).
    pub struct Neg = "neg" {
    }
}

impl Operator for Neg {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::IgnoresShape];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        elementwise::infer_unary("neg", inputs)
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        elementwise::evaluate_unary(inputs, |x| -x)
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        if !node.wanted[0] {
            return Ok(vec![None]);
        }
        let dy = node.output_gradient();
        Ok(vec![Some(graph.add1(Neg {}, &[dy], "neg/gradient")?)])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        elementwise::lower_unary(inputs, outputs, |_, x| x.unary(Unary::Negate))
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 0
    }

    fn order(&self, operand: usize) -> Option<Order> {
        (operand == 0).then_some(Order::Monotone)
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.only_first()
    }

    fn cases() -> Vec<Case> {
        vec![
            Case::new(
                Neg {},
                vec![Tensor::f32([4], vec![-1.5, 2.0, 0.0, f32::INFINITY])],
                vec![Tensor::f32([4], vec![1.5, -2.0, -0.0, f32::NEG_INFINITY])],
            ),
            Case::shape_only(Neg {}, vec![elementwise::extreme_tensor()]),
            Case::shape_only(Neg {}, vec![Tensor::f32([], vec![-0.75])]),
            Case::shape_only(Neg {}, vec![Tensor::f32([3, 0, 2], vec![])]),
            Case::shape_only(Neg {}, vec![Tensor::f32([3, 1, 5, 1, 7], elementwise::ramp(105))]),
        ]
    }
}
