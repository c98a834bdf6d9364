//! `sign`. See [`Sign`].

use crate::graph::{Graph, ValueId};
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::{Examples, Work};
use crate::ops::support::{elementwise};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{TensorType};

operator! {
    /// -1, 0 or 1, elementwise (FP32); gradient zero.
    pub struct Sign = "sign" {
    }
}

impl Operator for Sign {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        elementwise::infer_unary("sign", inputs)
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        elementwise::evaluate_unary(inputs, |x| if x > 0.0 { 1.0 } else if x < 0.0 { -1.0 } else { 0.0 })
    }

    /// The gradient is zero everywhere, so none is given.
    fn gradient(
        &self,
        _graph: &mut Graph,
        _node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        Ok(vec![None])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        elementwise::lower_unary(inputs, outputs, |_, x| {
            let zero = || Expr::f32(0.0);
            let negative = x.clone().less(zero()).select(Expr::f32(-1.0), zero());
            zero().less(x).select(Expr::f32(1.0), negative)
        })
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
                Sign {},
                vec![Tensor::f32([6], vec![3.0, -0.5, 0.0, -0.0, 1.0e-45, f32::NEG_INFINITY])],
                vec![Tensor::f32([6], vec![1.0, -1.0, 0.0, 0.0, 1.0, -1.0])],
            ),
            Case::shape_only(Sign {}, vec![elementwise::extreme_tensor()]),
            Case::shape_only(Sign {}, vec![Tensor::f32([], vec![-0.75])]),
            Case::shape_only(Sign {}, vec![Tensor::f32([3, 0, 2], vec![])]),
            Case::shape_only(Sign {}, vec![Tensor::f32([3, 1, 5, 1, 7], elementwise::ramp(105))]),
        ]
    }
}
