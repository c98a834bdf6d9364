//! `div`. See [`Div`].

use crate::graph::{Graph, ValueId};
use crate::loops::{LoopKernel};
use crate::operator;
use crate::ops::properties::{Examples, Order, Work};
use crate::ops::support::{elementwise, gradient};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError, Neg, Mul};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{TensorType};

operator! {
    /// Quotient with NumPy broadcasting (FP32).
    pub struct Div = "div" {
    }
}

impl Operator for Div {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        elementwise::infer_binary("div", inputs)
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        elementwise::evaluate_binary(inputs, |a, b| a / b)
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        let dy = node.output_gradient();
        let b = node.inputs[1];
        gradient::of_binary(graph, node, "div", [&|graph: &mut Graph| graph.add1(Div {}, &[dy, b], "div/left"), &|graph: &mut Graph| {
            // -dy * (a / b) / b
            let part = graph.add1(Div {}, &[dy, b], "div/right")?;
            let part = graph.add1(Mul {}, &[part, node.outputs[0]], "div/right")?;
            graph.add1(Neg {}, &[part], "div/right")
        }])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        elementwise::lower_binary(inputs, outputs, |_, a, b| a.divide(b))
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand < 2
    }

    fn order(&self, operand: usize) -> Option<Order> {
        (operand == 0).then_some(Order::Monotone)
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.broadcast()
    }

    fn cases() -> Vec<Case> {
        let mut cases = vec![

            Case::new(
                Div {},
                vec![Tensor::f32([2, 1], vec![3.0, -2.0]), Tensor::f32([3], vec![2.0, -0.0, 3.0])],
                vec![Tensor::f32(
                    [2, 3],
                    vec![1.5, f32::NEG_INFINITY, 1.0, -1.0, f32::INFINITY, f32::from_bits(0xbf2a_aaab)],
                )],
            ),
        ];
        cases.extend(
            elementwise::broadcast_operands()
                .into_iter()
                .map(|operands| Case::shape_only(Div {}, operands)),
        );
        cases
    }
}
