//! `reciprocal`. See [`Reciprocal`].

use crate::graph::{Graph, ValueId};
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::{Examples, Work};
use crate::ops::support::{elementwise};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError, Neg, Mul};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{TensorType};

operator! {
    /// `1 / x`, elementwise (FP32).
    pub struct Reciprocal = "reciprocal" {
    }
}

impl Operator for Reciprocal {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        elementwise::infer_unary("reciprocal", inputs)
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        elementwise::evaluate_unary(inputs, |x| 1.0 / x)
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
        // -(dy * y * y)
        let y = node.outputs[0];
        let part = graph.add1(Mul {}, &[dy, y], "reciprocal/part")?;
        let part = graph.add1(Mul {}, &[part, y], "reciprocal/part")?;
        Ok(vec![Some(graph.add1(Neg {}, &[part], "reciprocal/gradient")?)])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        elementwise::lower_unary(inputs, outputs, |_, x| Expr::f32(1.0).divide(x))
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
                Reciprocal {},
                vec![Tensor::f32([5], vec![4.0, -0.5, -0.0, f32::INFINITY, 1.0e-40])],
                vec![Tensor::f32([5], vec![0.25, -2.0, f32::NEG_INFINITY, 0.0, f32::INFINITY])],
            ),
            Case::shape_only(Reciprocal {}, vec![elementwise::extreme_tensor()]),
            Case::shape_only(Reciprocal {}, vec![Tensor::f32([], vec![-0.75])]),
            Case::shape_only(Reciprocal {}, vec![Tensor::f32([3, 0, 2], vec![])]),
            Case::shape_only(Reciprocal {}, vec![Tensor::f32([3, 1, 5, 1, 7], elementwise::ramp(105))]),
        ]
    }
}
