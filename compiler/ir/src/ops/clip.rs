//! `clip`. See [`Clip`].

use crate::attributes::{F32};
use crate::graph::{Graph, ValueId};
use crate::loops::builder::{LoopBuilder};
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::support::{clip_bounds, elementwise};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError, rule, ClipGradient};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{TensorType};

operator! {
    /// `min(max(x, min), max)`, elementwise: FP32, or i8 with a shared exponent `e` (clamped to
    /// `[ceil(min*2^-e), floor(max*2^-e)]` within i8).
    ///
    /// FP32: `t = if min > x { min } else { x }`, then `if max < t { max } else { t }`; so NaN stays, and `max` wins
    /// where the bounds are in reverse.
    pub struct Clip = "clip" {
        /// Lower bound; may be -inf.
        pub min: F32,
        /// Upper bound; may be inf.
        pub max: F32,
    }
}

impl Operator for Clip {
    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands::<1>("clip", inputs)?;
        rule::f32_or_shared_i8("clip", x)?;
        rule::ensure(!self.min.get().is_nan() && !self.max.get().is_nan(), || {
            "clip: the bounds must be numbers".to_string()
        })?;
        Ok(vec![x.clone()])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (x, min, max) = (inputs[0], self.min.get(), self.max.get());
        if x.ty().is_f32() {
            return elementwise::evaluate_unary(inputs, |x| {
                let low = if min > x { min } else { x };
                if max < low { max } else { low }
            });
        }
        let [low, high] = clip_bounds::integer_bounds(min, max, x.exponent());
        let elements = x.as_i8().iter().map(|&x| i32::from(x).max(low).min(high) as i8).collect();
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
        let op = ClipGradient { min: self.min, max: self.max };
        let operands = [node.inputs[0], node.output_gradient()];
        Ok(vec![Some(graph.add1(op, &operands, "clip/gradient")?)])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let (min, max) = (self.min.get(), self.max.get());
        if inputs[0].is_f32() {
            return elementwise::lower_unary(inputs, outputs, |_, x| {
                Expr::f32(max).minimum(Expr::f32(min).maximum(x))
            });
        }
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let exponent = builder.input_exponent(0);
        let exponent = builder.let_("exponent", exponent);
        builder.set_output_exponent(0, exponent.clone());
        let [low, high] = clip_bounds::integer_bounds_expression(min, max, exponent);
        let (low, high) = (builder.let_("low", low), builder.let_("high", high));
        let (x, y) = (builder.input(0), builder.output(0));
        builder.for_("i", inputs[0].count(), |builder, i| {
            let value = builder.load(x, i.clone()).maximum(low).minimum(high);
            builder.store(y, i, value);
        });
        builder.finish()
    }

    fn cases() -> Vec<Case> {
        let clip = |min: f32, max: f32| Clip { min: F32::new(min), max: F32::new(max) };
        let (low, high) = (f32::NEG_INFINITY, f32::INFINITY);
        let mut cases = vec![
            Case::new(
                clip(0.0, 6.0),
                vec![Tensor::f32([6], vec![-1.0, -0.0, 3.5, 6.0, 7.0, high])],
                vec![Tensor::f32([6], vec![0.0, -0.0, 3.5, 6.0, 6.0, 6.0])],
            ),
            // As onnxruntime 1.31 computes it.
            Case::new(
                clip(0.0, 6.0),
                vec![Tensor::f32([2], vec![f32::NAN, -f32::NAN])],
                vec![Tensor::f32([2], vec![f32::NAN, -f32::NAN])],
            ),
            Case::new(
                clip(low, 1.0),
                vec![Tensor::f32([3], vec![low, -3.0e38, 2.0])],
                vec![Tensor::f32([3], vec![low, -3.0e38, 1.0])],
            ),
            Case::new(
                clip(2.0, -2.0),
                vec![Tensor::f32([2], vec![5.0, -5.0])],
                vec![Tensor::f32([2], vec![-2.0, -2.0])],
            ),
            // Steps of 1/4: 6 is 24 steps, -0.3 is above -2 steps.
            Case::new(
                clip(-0.3, 6.0),
                vec![Tensor::i8_shared([6], vec![-128, -2, -1, 24, 25, 127], -2)],
                vec![Tensor::i8_shared([6], vec![-1, -1, -1, 24, 24, 24], -2)],
            ),
            // Steps of 4: 6 lies between 1 and 2 steps.
            Case::new(
                clip(0.0, 6.0),
                vec![Tensor::i8_shared([4], vec![-5, 1, 2, 3], 2)],
                vec![Tensor::i8_shared([4], vec![0, 1, 1, 1], 2)],
            ),
            Case::new(
                clip(2.0, -2.0),
                vec![Tensor::i8_shared([2], vec![5, -5], 0)],
                vec![Tensor::i8_shared([2], vec![-2, -2], 0)],
            ),
            Case::new(
                clip(low, high),
                vec![Tensor::i8_shared([2], vec![-128, 127], 0)],
                vec![Tensor::i8_shared([2], vec![-128, 127], 0)],
            ),
        ];
        for (min, max) in [(0.0, 6.0), (-1.0e-40, 1.0e-45), (f32::MIN, f32::MAX), (low, high)] {
            cases.push(Case::shape_only(clip(min, max), vec![elementwise::extreme_tensor()]));
            for exponent in [-149, -130, -20, -7, 0, 5, 121, 128, i32::MIN, i32::MAX] {
                let x = Tensor::i8_shared([3, 3], vec![-128, -127, -24, -1, 0, 1, 24, 126, 127], exponent);
                cases.push(Case::shape_only(clip(min, max), vec![x]));
            }
        }
        cases
    }
}
