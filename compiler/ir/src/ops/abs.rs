//! `abs`. See [`Abs`].

use crate::graph::{Graph, ValueId};
use crate::loops::{LoopKernel, Unary};
use crate::operator;
use crate::ops::properties::{Examples, Property, Work};
use crate::ops::support::{elementwise};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError, Sign, Mul};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{TensorType};

operator! {
    /// Absolute value, elementwise (FP32).
    pub struct Abs = "abs" {
    }
}

impl Operator for Abs {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::IgnoresShape];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        elementwise::infer_unary("abs", inputs)
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        elementwise::evaluate_unary(inputs, f32::abs)
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
        let sign = graph.add1(Sign {}, &[node.inputs[0]], "abs/sign")?;
        Ok(vec![Some(graph.add1(Mul {}, &[dy, sign], "abs/gradient")?)])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        elementwise::lower_unary(inputs, outputs, |_, x| x.unary(Unary::FloatAbs))
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
                Abs {},
                vec![Tensor::f32([4], vec![-1.5, 2.0, -0.0, f32::NEG_INFINITY])],
                vec![Tensor::f32([4], vec![1.5, 2.0, 0.0, f32::INFINITY])],
            ),
            Case::shape_only(Abs {}, vec![elementwise::extreme_tensor()]),
            Case::shape_only(Abs {}, vec![Tensor::f32([], vec![-0.75])]),
            Case::shape_only(Abs {}, vec![Tensor::f32([3, 0, 2], vec![])]),
            Case::shape_only(Abs {}, vec![Tensor::f32([3, 1, 5, 1, 7], elementwise::ramp(105))]),
        ]
    }
}
