//! `clip`. See [`Clip`].

use crate::attributes::{F32};
use crate::graph::{Graph, ValueId};
use crate::loops::builder::{LoopBuilder};
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::{Examples, Order, Property, Work};
use crate::ops::support::{clip_bounds, elementwise, sample};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError, rule, ClipGradient};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{Element, TensorType};

operator! {
    /// `min(max(x, min), max)`, elementwise: FP32, or i8, u8 or i32 with a shared exponent `e` (clamped to
    /// `[ceil(min*2^-e), floor(max*2^-e)]` within the element).
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
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::ContinuesChain, Property::IgnoresShape];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands::<1>("clip", inputs)?;
        let sums = x.element == Element::I32 && x.is_shared_integer();
        rule::ensure(sums || x.is_f32() || rule::is_shared_byte(x), || {
            format!("clip takes f32, i8<2^e>, u8<2^e> or i32<2^e>, here {x}")
        })?;
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
        let bounds = clip_bounds::integer_bounds(min, max, x.exponent(), x.ty().element);
        let [low, high] = bounds.map(i64::from);
        let elements: Vec<i64> = x.to_i64().iter().map(|&x| x.max(low).min(high)).collect();
        vec![Tensor::from_i64(x.ty(), &elements, *x.scale())]
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
        let [low, high] = clip_bounds::integer_bounds_expression(min, max, exponent, inputs[0].element);
        let (low, high) = (builder.let_("low", low), builder.let_("high", high));
        let (x, y) = (builder.input(0), builder.output(0));
        builder.for_("i", inputs[0].count(), |builder, i| {
            let value = builder.load(x, i.clone()).maximum(low).minimum(high);
            builder.store(y, i, value);
        });
        builder.finish()
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
        // Sums: steps of 2^-20; 6 is 6 * 2^20 steps. u8: steps of 1/16.
        cases.push(Case::new(
            clip(0.0, 6.0),
            vec![Tensor::i32_shared([4], vec![i32::MIN, 7, 6 << 20, i32::MAX], -20)],
            vec![Tensor::i32_shared([4], vec![0, 7, 6 << 20, 6 << 20], -20)],
        ));
        cases.push(Case::new(
            clip(0.5, 6.0),
            vec![sample::shared_of([4], Element::U8, &[0, 8, 96, 255], -4)],
            vec![sample::shared_of([4], Element::U8, &[8, 8, 96, 96], -4)],
        ));
        for exponent in [-149, -40, -29, -7, 0, 5, 128, i32::MIN, i32::MAX] {
            for element in [Element::U8, Element::I32] {
                let x = sample::shared([3, 11], element, 5, exponent);
                cases.push(Case::shape_only(clip(-0.3, 6.0), vec![x]));
            }
        }
        cases
    }
}
