//! `clip_gradient`. See [`ClipGradient`].

use crate::attributes::{F32};
use crate::loops::builder::{LoopBuilder};
use crate::loops::{Expr, LoopKernel, Unary};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::{clip_bounds, elementwise, sample};
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{Element, TensorType};

operator! {
    /// The error where the clip's operand was strictly inside the bounds, else 0.
    ///
    /// Operands: `x` (the clip's operand) and `dy`; FP32, or i8 with shared exponents (`x` also u8), where
    /// the real operand `q * 2^e` is compared (exactly) with the real bounds, so that a saturated but unbounded
    /// side still passes. The result has the type and exponent of `dy`.
    pub struct ClipGradient = "clip_gradient" {
        /// Lower bound; may be -inf.
        pub min: F32,
        /// Upper bound; may be inf.
        pub max: F32,
    }
}

impl Operator for ClipGradient {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        rule::ensure(!self.min.get().is_nan() && !self.max.get().is_nan(), || {
            "clip_gradient: the bounds must be numbers".to_string()
        })?;
        elementwise::infer_same_shape_or_shared("clip_gradient", inputs)
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (x, dy, min, max) = (inputs[0], inputs[1], self.min.get(), self.max.get());
        if x.ty().is_f32() {
            return elementwise::evaluate_binary(inputs, |x, dy| {
                if min < x && x < max { dy } else { 0.0 }
            });
        }
        let bounds = [min, max].map(|bound| clip_bounds::scaled(bound, x.exponent(), x.ty().element));
        let pairs = x.to_i64().into_iter().zip(dy.as_i8());
        let elements = pairs
            .map(|(x, &dy)| {
                let x = x as f32;
                if bounds[0] < x && x < bounds[1] { dy } else { 0 }
            })
            .collect();
        vec![Tensor::i8_shared(x.shape().dims(), elements, dy.exponent())]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let inside = |x: Expr, [low, high]: [Expr; 2]| low.less(x.clone()).and(x.less(high));
        let bounds = [self.min.get(), self.max.get()];
        if inputs[0].is_f32() {
            return elementwise::lower_binary(inputs, outputs, |_, x, dy| {
                inside(x, bounds.map(Expr::f32)).select(dy, Expr::f32(0.0))
            });
        }
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let exponent = builder.input_exponent(0);
        let exponent = builder.let_("exponent", exponent);
        let result_exponent = builder.input_exponent(1);
        builder.set_output_exponent(0, result_exponent);
        // Bytes are compared with the smallest and the largest that pass: no lane need be wider, and no float is computed for
        // each. Where none passes, the bounds are the other way round.
        let (least, most) = if inputs[0].element == Element::U8 { (0, 255) } else { (-128, 127) };
        let [low, high] = bounds.map(|bound| {
            clip_bounds::scaled_expression(bound, exponent.clone(), inputs[0].element)
        });
        let whole = |bound: Expr, least: i32, most: i32| {
            bound.unary(Unary::ToInteger).maximum(Expr::i32(least)).minimum(Expr::i32(most))
        };
        let low = whole(low.unary(Unary::Floor), least - 1, most) + Expr::i32(1);
        let high = whole(high.unary(Unary::Ceil), least, most + 1) - Expr::i32(1);
        let (low, high) = (builder.let_("first", low), builder.let_("last", high));
        let none = builder.let_("none", high.clone().less(low.clone()));
        let low = none.clone().select(Expr::i32(most), low.minimum(Expr::i32(most)));
        let high = none.select(Expr::i32(least), high.maximum(Expr::i32(least)));
        let (low, high) = (builder.let_("least", low), builder.let_("most", high));
        let (x, dy, y) = (builder.input(0), builder.input(1), builder.output(0));
        builder.for_("i", inputs[0].count(), |builder, i| {
            let x = builder.load(x, i.clone());
            let x = builder.let_("x", x);
            let inside = low.clone().less_equal(x.clone()).and(x.less_equal(high.clone()));
            let error = builder.load(dy, i.clone());
            builder.store(y, i, inside.select(error, Expr::i32(0)));
        });
        builder.finish()
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 1
    }

    fn cases() -> Vec<Case> {
        let clip = |min: f32, max: f32| ClipGradient { min: F32::new(min), max: F32::new(max) };
        let (low, high) = (f32::NEG_INFINITY, f32::INFINITY);
        let mut cases = vec![
            Case::new(
                clip(0.0, 6.0),
                vec![
                    Tensor::f32([6], vec![-1.0, 0.0, 3.5, 6.0, 7.0, 1.0e-45]),
                    Tensor::f32([6], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
                ],
                vec![Tensor::f32([6], vec![0.0, 0.0, 3.0, 0.0, 0.0, 6.0])],
            ),
            Case::new(
                clip(0.0, 6.0),
                vec![
                    Tensor::i8_shared([5], vec![-1, 0, 23, 24, 25], -2),
                    Tensor::i8_shared([5], vec![1, 2, 3, -4, 5], 7),
                ],
                vec![Tensor::i8_shared([5], vec![0, 0, 3, 0, 0], 7)],
            ),
            // No upper bound: the largest element passes.
            Case::new(
                clip(0.0, high),
                vec![
                    Tensor::i8_shared([3], vec![-1, 0, 127], -2),
                    Tensor::i8_shared([3], vec![1, 2, 3], 7),
                ],
                vec![Tensor::i8_shared([3], vec![0, 0, 3], 7)],
            ),
        ];
        let extremes = elementwise::extreme_tensor();
        let errors = Tensor::f32(extremes.shape().dims(), elementwise::ramp(extremes.ty().count()));
        for (min, max) in [(0.0, 6.0), (-1.0e-40, 1.0e-45), (f32::MIN, f32::MAX), (low, high)] {
            cases.push(Case::shape_only(clip(min, max), vec![extremes.clone(), errors.clone()]));
            for exponent in [-149, -7, 0, 5, 128, i32::MIN, i32::MAX] {
                let x = Tensor::i8_shared([7], vec![-128, -24, -1, 0, 1, 24, 127], exponent);
                let dy = Tensor::i8_shared([7], vec![1, -2, 3, -4, 5, -6, 7], -3);
                cases.push(Case::shape_only(clip(min, max), vec![x, dy]));
            }
        }
        for (min, max) in [(0.0, 6.0), (6.0, 0.0), (-1.0, high), (0.5, 1.0e-3), (low, 0.0)] {
            for exponent in [-149, -7, -5, 0, 5, i32::MIN, i32::MAX] {
                let x = sample::shared([45], Element::U8, 1, exponent);
                let dy = sample::shared([45], Element::I8, 2, -3);
                cases.push(Case::shape_only(clip(min, max), vec![x, dy]));
            }
        }
        cases.push(Case::new(
            clip(0.0, 6.0),
            vec![
                sample::shared_of([4], Element::U8, &[0, 1, 191, 192], -5),
                Tensor::i8_shared([4], vec![1, 2, 3, -4], 7),
            ],
            vec![Tensor::i8_shared([4], vec![0, 2, 3, 0], 7)],
        ));
        cases
    }
}
