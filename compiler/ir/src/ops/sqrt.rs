//! `sqrt`. See [`Sqrt`].

use crate::graph::{Graph, ValueId};
use crate::loops::{LoopKernel, Unary};
use crate::operator;
use crate::ops::properties::{Examples, Work};
use crate::ops::support::{elementwise, gradient};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError, Mul, Div};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{TensorType};

operator! {
    /// IEEE square root, elementwise (FP32).
    pub struct Sqrt = "sqrt" {
    }
}

impl Operator for Sqrt {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        elementwise::infer_unary("sqrt", inputs)
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        elementwise::evaluate_unary(inputs, f32::sqrt)
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
        // dy * (0.5 / y)
        let half = gradient::scalar(graph, 0.5);
        let slope = graph.add1(Div {}, &[half, node.outputs[0]], "sqrt/slope")?;
        Ok(vec![Some(graph.add1(Mul {}, &[dy, slope], "sqrt/gradient")?)])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        elementwise::lower_unary(inputs, outputs, |_, x| x.unary(Unary::Sqrt))
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 0
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.only_first()
    }

    fn cases() -> Vec<Case> {
        vec![
            Case::new(
                Sqrt {},
                vec![Tensor::f32([5], vec![4.0, 2.0, -0.0, f32::INFINITY, 2.25])],
                vec![Tensor::f32([5], vec![2.0, std::f32::consts::SQRT_2, -0.0, f32::INFINITY, 1.5])],
            ),
            Case::shape_only(Sqrt {}, vec![elementwise::extreme_tensor()]),
            Case::shape_only(Sqrt {}, vec![Tensor::f32([], vec![-0.75])]),
            Case::shape_only(Sqrt {}, vec![Tensor::f32([3, 0, 2], vec![])]),
            Case::shape_only(Sqrt {}, vec![Tensor::f32([3, 1, 5, 1, 7], elementwise::ramp(105))]),
        ]
    }
}
