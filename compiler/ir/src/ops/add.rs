//! `add`. See [`Add`].

use crate::graph::{Graph, ValueId};
use crate::loops::{LoopKernel};
use crate::operator;
use crate::ops::properties::{Examples, Order, Property, Work};
use crate::ops::support::{elementwise, gradient};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{TensorType};

operator! {
    /// Sum with NumPy broadcasting (FP32).
    pub struct Add = "add" {
    }
}

impl Operator for Add {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::ContinuesChain];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        elementwise::infer_binary("add", inputs)
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        elementwise::evaluate_binary(inputs, |a, b| a + b)
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        let dy = node.output_gradient();

        gradient::of_binary(graph, node, "add", [&|_: &mut Graph| Ok(dy), &|_: &mut Graph| Ok(dy)])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        elementwise::lower_binary(inputs, outputs, |_, a, b| a + b)
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand < 2
    }

    fn order(&self, _operand: usize) -> Option<Order> {
        Some(Order::Monotone)
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.broadcast()
    }

    fn cases() -> Vec<Case> {
        let mut cases = vec![

            Case::new(
                Add {},
                vec![Tensor::f32([2, 2], vec![1.0, 2.0, 3.0, 4.0]), Tensor::f32([2], vec![10.0, -20.0])],
                vec![Tensor::f32([2, 2], vec![11.0, -18.0, 13.0, -16.0])],
            ),
        ];
        cases.extend(
            elementwise::broadcast_operands()
                .into_iter()
                .map(|operands| Case::shape_only(Add {}, operands)),
        );
        cases
    }
}
