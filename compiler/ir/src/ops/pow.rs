//! `pow`. See [`Pow`].

use crate::graph::{Graph, ValueId};
use crate::loops::{LoopKernel};
use crate::numeric;
use crate::operator;
use crate::ops::properties::{Examples, Work};
use crate::ops::support::{elementwise, gradient};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError, Log, Sub, Mul};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{TensorType};

operator! {
    /// `x^y` with NumPy broadcasting (FP32): exact products for small integer `y`, else from the fixed
    /// `exp` and `log`.
    pub struct Pow = "pow" {
    }
}

impl Operator for Pow {
    const WORK: Work = Work::Series;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        elementwise::infer_binary("pow", inputs)
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        elementwise::evaluate_binary(inputs, numeric::pow)
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        let dy = node.output_gradient();
        let (a, b) = (node.inputs[0], node.inputs[1]);
        gradient::of_binary(graph, node, "pow", [&|graph: &mut Graph| {
            // dy * (y * x^(y - 1))
            let one = gradient::scalar(graph, 1.0);
            let less = graph.add1(Sub {}, &[b, one], "pow/exponent")?;
            let power = graph.add1(Pow {}, &[a, less], "pow/power")?;
            let slope = graph.add1(Mul {}, &[b, power], "pow/slope")?;
            graph.add1(Mul {}, &[dy, slope], "pow/left")
        }, &|graph: &mut Graph| {
            // dy * (x^y * log x)
            let logarithm = graph.add1(Log {}, &[a], "pow/log")?;
            let slope = graph.add1(Mul {}, &[node.outputs[0], logarithm], "pow/slope")?;
            graph.add1(Mul {}, &[dy, slope], "pow/right")
        }])
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.broadcast()
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        elementwise::lower_binary(inputs, outputs, numeric::float::pow_expression)
    }

    fn cases() -> Vec<Case> {
        let mut cases = vec![

            Case::new(
                Pow {},
                vec![
                    Tensor::f32([6], vec![3.0, -2.0, -2.0, 1.5, 0.0, 0.0]),
                    Tensor::f32([6], vec![4.0, 3.0, -1.0, 2.0, -1.0, 0.0]),
                ],
                vec![Tensor::f32([6], vec![81.0, -8.0, -0.5, 2.25, f32::INFINITY, 1.0])],
            ),
            Case::new(
                Pow {},
                vec![
                    Tensor::f32([5], vec![1.0, -1.0, -1.0, 0.0, -3.0]),
                    Tensor::f32([5], vec![0.3, 17.0, 1.0e9, 0.5, 0.5]),
                ],
                vec![Tensor::f32([5], vec![1.0, -1.0, 1.0, 0.0, numeric::float::NAN])],
            ),
        ];
        cases.extend(
            elementwise::broadcast_operands()
                .into_iter()
                .map(|operands| Case::shape_only(Pow {}, operands)),
        );
        cases
    }
}
