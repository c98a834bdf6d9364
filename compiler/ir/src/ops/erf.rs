//! `erf`. See [`Erf`].

use crate::graph::{Graph, ValueId};
use crate::loops::{LoopKernel};
use crate::numeric;
use crate::operator;
use crate::ops::properties::{Examples, Work};
use crate::ops::support::{elementwise, gradient};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError, Neg, Exp, Mul};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{TensorType};

operator! {
    /// Error function, elementwise (FP32), by a fixed polynomial.
    pub struct Erf = "erf" {
    }
}

impl Operator for Erf {
    const WORK: Work = Work::Series;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        elementwise::infer_unary("erf", inputs)
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        elementwise::evaluate_unary(inputs, numeric::erf)
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
        // dy * (2 / sqrt(pi) * exp(-(x * x)))
        let x = node.inputs[0];
        let square = graph.add1(Mul {}, &[x, x], "erf/square")?;
        let exponent = graph.add1(Neg {}, &[square], "erf/exponent")?;
        let bell = graph.add1(Exp {}, &[exponent], "erf/bell")?;
        let factor = gradient::scalar(graph, std::f32::consts::FRAC_2_SQRT_PI);
        let slope = graph.add1(Mul {}, &[bell, factor], "erf/slope")?;
        Ok(vec![Some(graph.add1(Mul {}, &[dy, slope], "erf/gradient")?)])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        elementwise::lower_unary(inputs, outputs, numeric::float::erf_expression)
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
                Erf {},
                vec![Tensor::f32([6], vec![0.0, -0.0, 5.0, -5.0, 0.5, 1.0])],
                vec![Tensor::f32([6], vec![0.0, -0.0, 1.0, -1.0, 0.520_499_9, 0.842_700_8])],
            ),
            Case::shape_only(Erf {}, vec![elementwise::extreme_tensor()]),
            Case::shape_only(Erf {}, vec![Tensor::f32([], vec![-0.75])]),
            Case::shape_only(Erf {}, vec![Tensor::f32([3, 0, 2], vec![])]),
            Case::shape_only(Erf {}, vec![Tensor::f32([3, 1, 5, 1, 7], elementwise::ramp(105))]),
        ]
    }
}
