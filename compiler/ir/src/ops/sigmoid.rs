//! `sigmoid`. See [`Sigmoid`].

use crate::graph::{Graph, ValueId};
use crate::loops::{LoopKernel};
use crate::numeric;
use crate::operator;
use crate::ops::properties::{Examples, Order, Work};
use crate::ops::support::{elementwise, gradient};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError, Sub, Mul};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{TensorType};

operator! {
    /// `1 / (1 + e^-x)`, elementwise (FP32), from the fixed `exp`.
    pub struct Sigmoid = "sigmoid" {
    }
}

impl Operator for Sigmoid {
    const WORK: Work = Work::Series;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        elementwise::infer_unary("sigmoid", inputs)
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        elementwise::evaluate_unary(inputs, numeric::sigmoid)
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
        // dy * (y * (1 - y))
        let y = node.outputs[0];
        let one = gradient::scalar(graph, 1.0);
        let rest = graph.add1(Sub {}, &[one, y], "sigmoid/rest")?;
        let slope = graph.add1(Mul {}, &[y, rest], "sigmoid/slope")?;
        Ok(vec![Some(graph.add1(Mul {}, &[dy, slope], "sigmoid/gradient")?)])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        elementwise::lower_unary(inputs, outputs, numeric::float::sigmoid_expression)
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 0
    }

    fn order(&self, _operand: usize) -> Option<Order> {
        Some(Order::Approximate)
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.only_first()
    }

    fn cases() -> Vec<Case> {
        vec![
            Case::new(
                Sigmoid {},
                vec![Tensor::f32([5], vec![0.0, -200.0, 200.0, f32::NEG_INFINITY, 1.0])],
                vec![Tensor::f32([5], vec![0.5, 0.0, 1.0, 0.0, 0.731_058_6])],
            ),
            Case::shape_only(Sigmoid {}, vec![elementwise::extreme_tensor()]),
            Case::shape_only(Sigmoid {}, vec![Tensor::f32([], vec![-0.75])]),
            Case::shape_only(Sigmoid {}, vec![Tensor::f32([3, 0, 2], vec![])]),
            Case::shape_only(Sigmoid {}, vec![Tensor::f32([3, 1, 5, 1, 7], elementwise::ramp(105))]),
        ]
    }
}
