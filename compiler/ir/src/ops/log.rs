//! `log`. See [`Log`].

use crate::graph::{Graph, ValueId};
use crate::loops::{LoopKernel};
use crate::numeric;
use crate::operator;
use crate::ops::properties::{Examples, Work};
use crate::ops::support::{elementwise};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError, Div};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{TensorType};

operator! {
    /// Natural logarithm, elementwise (FP32), by the fixed polynomial of [`crate::numeric::log`].
    pub struct Log = "log" {
    }
}

impl Operator for Log {
    const WORK: Work = Work::Series;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        elementwise::infer_unary("log", inputs)
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        elementwise::evaluate_unary(inputs, numeric::log)
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
        Ok(vec![Some(graph.add1(Div {}, &[dy, node.inputs[0]], "log/gradient")?)])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        elementwise::lower_unary(inputs, outputs, numeric::float::log_expression)
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
                Log {},
                vec![Tensor::f32([6], vec![1.0, 2.0, 10.0, 0.0, -1.0, f32::INFINITY])],
                vec![Tensor::f32([6], vec![0.0, std::f32::consts::LN_2, std::f32::consts::LN_10, f32::NEG_INFINITY, numeric::float::NAN, f32::INFINITY])],
            ),
            Case::shape_only(Log {}, vec![elementwise::extreme_tensor()]),
            Case::shape_only(Log {}, vec![Tensor::f32([], vec![-0.75])]),
            Case::shape_only(Log {}, vec![Tensor::f32([3, 0, 2], vec![])]),
            Case::shape_only(Log {}, vec![Tensor::f32([3, 1, 5, 1, 7], elementwise::ramp(105))]),
        ]
    }
}
