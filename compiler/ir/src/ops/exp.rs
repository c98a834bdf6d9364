//! `exp`. See [`Exp`].

use crate::graph::{Graph, ValueId};
use crate::loops::{LoopKernel};
use crate::numeric;
use crate::operator;
use crate::ops::properties::{Examples, Work};
use crate::ops::support::{elementwise};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError, Mul};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{TensorType};

operator! {
    /// `e^x`, elementwise (FP32), by the fixed polynomial of [`crate::numeric::exp`].
    pub struct Exp = "exp" {
    }
}

impl Operator for Exp {
    const WORK: Work = Work::Series;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        elementwise::infer_unary("exp", inputs)
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        elementwise::evaluate_unary(inputs, numeric::exp)
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
        Ok(vec![Some(graph.add1(Mul {}, &[dy, node.outputs[0]], "exp/gradient")?)])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        elementwise::lower_unary(inputs, outputs, numeric::float::exp_expression)
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
                Exp {},
                vec![Tensor::f32([7], vec![0.0, 1.0, 2.0, -1.0, f32::NEG_INFINITY, 89.0, -110.0])],
                vec![Tensor::f32([7], vec![1.0, std::f32::consts::E, 7.389_056, 0.367_879_44, 0.0, f32::INFINITY, 0.0])],
            ),
            Case::shape_only(Exp {}, vec![elementwise::extreme_tensor()]),
            Case::shape_only(Exp {}, vec![Tensor::f32([], vec![-0.75])]),
            Case::shape_only(Exp {}, vec![Tensor::f32([3, 0, 2], vec![])]),
            Case::shape_only(Exp {}, vec![Tensor::f32([3, 1, 5, 1, 7], elementwise::ramp(105))]),
        ]
    }
}
