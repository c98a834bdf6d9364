//! `tanh`. See [`Tanh`].

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
    /// Hyperbolic tangent, elementwise (FP32), from the fixed `exp`.
    pub struct Tanh = "tanh" {
    }
}

impl Operator for Tanh {
    const WORK: Work = Work::Series;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        elementwise::infer_unary("tanh", inputs)
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        elementwise::evaluate_unary(inputs, numeric::tanh)
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
        // dy * (1 - y * y)
        let y = node.outputs[0];
        let square = graph.add1(Mul {}, &[y, y], "tanh/square")?;
        let one = gradient::scalar(graph, 1.0);
        let slope = graph.add1(Sub {}, &[one, square], "tanh/slope")?;
        Ok(vec![Some(graph.add1(Mul {}, &[dy, slope], "tanh/gradient")?)])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        elementwise::lower_unary(inputs, outputs, numeric::float::tanh_expression)
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
                Tanh {},
                vec![Tensor::f32([6], vec![0.0, -0.0, 20.0, -20.0, 1.0e-20, 0.5])],
                vec![Tensor::f32([6], vec![0.0, -0.0, 1.0, -1.0, 1.0e-20, 0.462_117_16])],
            ),
            Case::shape_only(Tanh {}, vec![elementwise::extreme_tensor()]),
            Case::shape_only(Tanh {}, vec![Tensor::f32([], vec![-0.75])]),
            Case::shape_only(Tanh {}, vec![Tensor::f32([3, 0, 2], vec![])]),
            Case::shape_only(Tanh {}, vec![Tensor::f32([3, 1, 5, 1, 7], elementwise::ramp(105))]),
        ]
    }
}
