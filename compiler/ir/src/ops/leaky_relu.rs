//! `leaky_relu`. See [`LeakyRelu`].

use crate::attributes::{F32};
use crate::graph::{Graph, ValueId};
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::{Examples, Order, Property, Work};
use crate::ops::support::{elementwise};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError, rule, LeakyReluGradient};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{TensorType};

operator! {
    /// `x` where positive, else `alpha * x`, elementwise (FP32).
    pub struct LeakyRelu = "leaky_relu" {
        /// Slope for negative operands.
        pub alpha: F32,
    }
}

impl Operator for LeakyRelu {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::ContinuesChain];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        rule::ensure(self.alpha.get().is_finite(), || {
            format!("leaky_relu: the slope must be finite, here {}", self.alpha.get())
        })?;
        elementwise::infer_unary("leaky_relu", inputs)
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        elementwise::evaluate_unary(inputs, |x| if x > 0.0 { x } else { self.alpha.get() * x })
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
        let op = LeakyReluGradient { alpha: self.alpha };
        Ok(vec![Some(graph.add1(op, &[node.inputs[0], dy], "leaky_relu/gradient")?)])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        elementwise::lower_unary(inputs, outputs, |_, x| {
            let negative = Expr::f32(self.alpha.get()) * x.clone();
            Expr::f32(0.0).less(x.clone()).select(x, negative)
        })
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 0
    }

    fn order(&self, _operand: usize) -> Option<Order> {
        (self.alpha.get() >= 0.0).then_some(Order::Monotone)
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.only_first()
    }

    fn cases() -> Vec<Case> {
        vec![
            Case::new(
                LeakyRelu { alpha: F32::new(0.25) },
                vec![Tensor::f32([5], vec![2.0, -2.0, 0.0, -0.0, f32::NEG_INFINITY])],
                vec![Tensor::f32([5], vec![2.0, -0.5, 0.0, -0.0, f32::NEG_INFINITY])],
            ),
            Case::new(
                LeakyRelu { alpha: F32::new(-1.0) },
                vec![Tensor::f32([1], vec![-3.0])],
                vec![Tensor::f32([1], vec![3.0])],
            ),
            Case::shape_only(LeakyRelu { alpha: F32::new(0.25) }, vec![elementwise::extreme_tensor()]),
            Case::shape_only(LeakyRelu { alpha: F32::new(0.25) }, vec![Tensor::f32([], vec![-0.75])]),
            Case::shape_only(LeakyRelu { alpha: F32::new(0.25) }, vec![Tensor::f32([3, 0, 2], vec![])]),
            Case::shape_only(LeakyRelu { alpha: F32::new(0.25) }, vec![Tensor::f32([3, 1, 5, 1, 7], elementwise::ramp(105))]),
        ]
    }
}
