//! `mul`. See [`Mul`].

use crate::graph::{Graph, ValueId};
use crate::loops::{LoopKernel};
use crate::operator;
use crate::ops::properties::{Examples, Order, Work};
use crate::ops::support::{elementwise, gradient};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{TensorType};

operator! {
    /// Product with NumPy broadcasting (FP32).
    pub struct Mul = "mul" {
    }
}

impl Operator for Mul {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        elementwise::infer_binary("mul", inputs)
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        elementwise::evaluate_binary(inputs, |a, b| a * b)
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        let dy = node.output_gradient();
        let (a, b) = (node.inputs[0], node.inputs[1]);
        gradient::of_binary(graph, node, "mul", [&|graph: &mut Graph| graph.add1(Mul {}, &[dy, b], "mul/left"), &|graph: &mut Graph| graph.add1(Mul {}, &[dy, a], "mul/right")])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        elementwise::lower_binary(inputs, outputs, |_, a, b| a * b)
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
                Mul {},
                vec![Tensor::f32([2, 1], vec![1.5, -2.0]), Tensor::f32([2], vec![10.0, -20.0])],
                vec![Tensor::f32([2, 2], vec![15.0, -30.0, -20.0, 40.0])],
            ),
        ];
        cases.extend(
            elementwise::broadcast_operands()
                .into_iter()
                .map(|operands| Case::shape_only(Mul {}, operands)),
        );
        cases
    }
}
