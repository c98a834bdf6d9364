//! `relu`. See [`Relu`].

use crate::graph::{Graph, ValueId};
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::{Examples, Order, Property, Work};
use crate::ops::support::{elementwise};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError, rule, ReluGradient};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{TensorType};

operator! {
    /// `max(x, 0)`, elementwise: FP32 (`if 0 > x { 0 } else { x }`, so NaN and -0 stay), or i8 with a shared exponent,
    /// which is kept.
    pub struct Relu = "relu" {
    }
}

impl Operator for Relu {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::ContinuesChain, Property::IgnoresShape];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands::<1>("relu", inputs)?;
        rule::f32_or_shared_i8("relu", x)?;
        Ok(vec![x.clone()])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let x = inputs[0];
        if x.ty().is_f32() {
            return elementwise::evaluate_unary(inputs, |x| if 0.0 > x { 0.0 } else { x });
        }
        let elements = x.as_i8().iter().map(|&x| x.max(0)).collect();
        vec![Tensor::i8_shared(x.shape().dims(), elements, x.exponent())]
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        if !node.wanted[0] {
            return Ok(vec![None]);
        }
        // The result is positive exactly where the operand is, and is kept for the next operation anyway.
        let operands = [node.outputs[0], node.output_gradient()];
        Ok(vec![Some(graph.add1(ReluGradient {}, &operands, "relu/gradient")?)])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        if inputs[0].is_f32() {
            return elementwise::lower_unary(inputs, outputs, |_, x| Expr::f32(0.0).maximum(x));
        }
        elementwise::lower_shared(inputs, outputs, 0, |_, values| {
            values[0].clone().maximum(Expr::i32(0))
        })
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 0
    }

    fn order(&self, operand: usize) -> Option<Order> {
        (operand == 0).then_some(Order::Monotone)
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.only_first()
    }

    fn cases() -> Vec<Case> {
        vec![
            Case::new(
                Relu {},
                vec![Tensor::f32([5], vec![1.5, -2.0, -0.0, 0.0, f32::NEG_INFINITY])],
                vec![Tensor::f32([5], vec![1.5, 0.0, -0.0, 0.0, 0.0])],
            ),
            // As onnxruntime 1.31 computes it.
            Case::new(
                Relu {},
                vec![Tensor::f32([4], vec![f32::NAN, -f32::NAN, f32::INFINITY, -1.0e-40])],
                vec![Tensor::f32([4], vec![f32::NAN, -f32::NAN, f32::INFINITY, 0.0])],
            ),
            Case::new(
                Relu {},
                vec![Tensor::i8_shared([2, 3], vec![127, -128, 0, 1, -1, 5], -9)],
                vec![Tensor::i8_shared([2, 3], vec![127, 0, 0, 1, 0, 5], -9)],
            ),
            Case::new(
                Relu {},
                vec![Tensor::i8_shared([0, 3], vec![], i32::MIN)],
                vec![Tensor::i8_shared([0, 3], vec![], i32::MIN)],
            ),
            Case::shape_only(Relu {}, vec![elementwise::extreme_tensor()]),
            Case::shape_only(Relu {}, vec![Tensor::f32([], vec![-4.0])]),
        ]
    }
}
