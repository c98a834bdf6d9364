//! `minimum`. See [`Minimum`].

use crate::graph::{Graph, ValueId};
use crate::loops::{LoopKernel};
use crate::operator;
use crate::ops::properties::{Examples, Order, Work};
use crate::ops::support::{elementwise, gradient};
use crate::ops::{ReluGradient, Case, Differentiated, GradientError, Operator, TypeError, Sub};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{TensorType};

operator! {
    /// `if a < b { a } else { b }`, and NaN where one is NaN (`a` first), with NumPy broadcasting (FP32).
    pub struct Minimum = "minimum" {
    }
}

impl Operator for Minimum {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        elementwise::infer_binary("minimum", inputs)
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        elementwise::evaluate_binary(inputs, |a, b| if a < b || a.is_nan() { a } else { b })
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        let dy = node.output_gradient();
        let (a, b) = (node.inputs[0], node.inputs[1]);
        gradient::of_binary(graph, node, "minimum", [&|graph: &mut Graph| left(graph, a, b, dy), &|graph: &mut Graph| {
            let left = left(graph, a, b, dy)?;
            graph.add1(Sub {}, &[dy, left], "minimum/right")
        }])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        elementwise::lower_binary(inputs, outputs, |_, a, b| {
            // The comparison fails where one is NaN, which gives `b`.
            a.clone().not_equal(a.clone()).select(a.clone(), a.minimum(b))
        })
    }

    fn order(&self, _operand: usize) -> Option<Order> {
        Some(Order::Monotone)
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.broadcast()
    }

    fn cases() -> Vec<Case> {
        let nan = f32::NAN;
        let mut cases = vec![
            // As onnxruntime 1.31 computes it.
            Case::new(
                Minimum {},
                vec![Tensor::f32([4], vec![nan, 1.0, nan, -1.0]), Tensor::f32([4], vec![1.0, nan, -nan, -nan])],
                vec![Tensor::f32([4], vec![nan, nan, nan, -nan])],
            ),
            Case::new(
                Minimum {},
                vec![Tensor::f32([4], vec![1.0, -2.0, 0.0, -0.0]), Tensor::f32([4], vec![0.5, -1.0, -0.0, 0.0])],
                vec![Tensor::f32([4], vec![0.5, -2.0, -0.0, 0.0])],
            ),
            Case::new(
                Minimum {},
                vec![Tensor::f32([], vec![0.0]), Tensor::f32([3], vec![-1.0, f32::NEG_INFINITY, 1.0e-40])],
                vec![Tensor::f32([3], vec![-1.0, f32::NEG_INFINITY, 0.0])],
            ),
        ];
        cases.extend(
            elementwise::broadcast_operands()
                .into_iter()
                .map(|operands| Case::shape_only(Minimum {}, operands)),
        );
        cases
    }
}

/// The error where `a < b`, else 0: the sign of the difference is exact. The other operand gets the rest.
fn left(graph: &mut Graph, a: ValueId, b: ValueId, dy: ValueId) -> Result<ValueId, TypeError> {
    let difference = graph.add1(Sub {}, &[b, a], "minimum/difference")?;
    graph.add1(ReluGradient {}, &[difference, dy], "minimum/left")
}
