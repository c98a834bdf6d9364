//! `quantize_linear`. See [`QuantizeLinear`].

use std::sync::Arc;

use crate::graph::{Definition, Graph, ValueId};
use crate::loops::builder::{LoopBuilder};
use crate::loops::{Expr, LoopKernel, Unary};
use crate::operator;
use crate::ops::properties::{Property, Work};
use crate::ops::support::affine;
use crate::ops::support::grid::Rounding;
use crate::ops::support::{elementwise, narrow};
use crate::ops::{
    Case, Differentiated, GradientError, Operator, StraightThrough, TypeError, rule,
};
use crate::random::{RunContext};
use crate::tensor::{Data, ScaleData, Tensor};
use crate::types::{Element, TensorType};

operator! {
    /// ONNX QuantizeLinear: `saturate(round_ties_even(x / scale) + zero_point)`. Operands: `x` FP32,
    /// `scale` FP32 (scalar or `[C]`), `zero_point` (the result's element type; scalar or `[C]`). Result: an
    /// unscaled integer tensor of at most 8 bits. NaN gives the smallest element.
    ///
    /// Gradient, where one scale and a constant zero point serve the whole tensor: straight-through, that is the error where
    /// `round_ties_even(x / scale) + zero_point` is within the element's bounds or on them, else 0. The error of the integers is that
    /// of the values that `dequantize_linear` gives.
    ///
    /// Order: `round_ties_even(x / scale) + zero_point` in FP32, clamped, then converted.
    pub struct QuantizeLinear = "quantize_linear" {
        /// Channel axis if the scale is a vector.
        pub axis: usize,
    }
}

impl Operator for QuantizeLinear {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::Quantizes];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x, scale, zero_point] = rule::operands::<3>("quantize_linear", inputs)?;
        rule::all_f32("quantize_linear", &[x, scale])?;
        rule::ensure(narrow::is_narrow(zero_point.element), || {
            format!("quantize_linear gives integers of at most 8 bits, here zero point {zero_point}")
        })?;
        affine::infer("quantize_linear", x, scale, zero_point, self.axis)?;
        Ok(vec![TensorType::new(x.shape.clone(), zero_point.element)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (x, scale, zero_point) = (inputs[0], inputs[1].as_f32(), inputs[2].to_i64());
        let element = inputs[2].ty().element;
        let [low, high] = bounds(element);
        let walk = affine::walk(x.ty(), inputs[1].ty(), self.axis);
        let (count, [_, step]) = walk.inner();
        let x = x.as_f32();
        let mut q = Vec::with_capacity(x.len());
        walk.rows(|[i, j]| {
            q.extend(x[i..i + count].iter().enumerate().map(|(n, x)| {
                let j = j + n * step;
                let shifted = (x / scale[j]).round_ties_even() + zero_point[j] as f32;
                let above = if shifted > low { shifted } else { low };
                (if above < high { above } else { high }) as i32
            }));
        });
        let data = match Data::zeros(element, 0) {
            Data::I8(_) => Data::I8(q.into_iter().map(|q| q as i8).collect()),
            _ => Data::U8(q.into_iter().map(|q| q as u8).collect()),
        };
        let ty = TensorType::new(inputs[0].shape().dims(), element);
        vec![Tensor::new(ty, data, ScaleData::None)]
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        let refused = GradientError::NotDifferentiable("quantize_linear");
        let [x, scale, zero_point] = node.inputs else { return Err(refused) };
        let zero_point = match &graph.value(*zero_point).definition {
            Definition::Constant(tensor) if tensor.ty().count() == 1 => tensor.clone(),
            _ => return Err(refused),
        };
        if node.wanted[1] || graph.ty(*scale).count() != 1 {
            return Err(refused);
        }
        // The zero point is in the bounds, for it is added to what is rounded already.
        let zero = zero_point.to_i64()[0] as f32;
        let [low, high] = bounds(zero_point.ty().element).map(|bound| (bound - zero).into());
        let none = graph.add_constant("quantize_linear/zero", Arc::new(Tensor::f32([], vec![0.0])));
        let op = StraightThrough { low, high, rounding: Rounding::HalfEven };
        let operands = [*x, *scale, none, node.output_gradient()];
        Ok(vec![Some(graph.add1(op, &operands, "quantize_linear/gradient")?), None, None])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let [x, scale, zero_point] = [0, 1, 2].map(|i| builder.input(i));
        let y = builder.output(0);
        let [low, high] = bounds(inputs[2].element).map(Expr::f32);
        let walk = affine::walk(inputs[0], inputs[1], self.axis);
        walk.lower(&mut builder, "i", |builder, [i, j]| {
            let ratio = builder.load(x, i.clone()).divide(builder.load(scale, j.clone()));
            let zero_point = builder.load(zero_point, j).unary(Unary::ToFloat);
            let shifted = ratio.unary(Unary::RoundTiesEven) + zero_point;
            let value = shifted.maximum(low).minimum(high).unary(Unary::ToInteger);
            builder.store(y, i, value);
        });
        builder.finish()
    }

    fn cases() -> Vec<Case> {
        let op = |axis| QuantizeLinear { axis };
        let integers = |shape: &[usize], element, values: &[i64]| {
            Tensor::from_i64(&TensorType::new(shape, element), values, ScaleData::None)
        };
        let scalar = |value: f32| Tensor::f32([], vec![value]);
        let mut cases = vec![
            // Ties to even: 0.5 -> 0, 1.5 -> 2, 2.5 -> 2; saturation at both ends.
            Case::new(
                op(0),
                vec![
                    Tensor::f32([7], vec![1.0, 3.0, 5.0, -3.0, 1000.0, -1000.0, f32::INFINITY]),
                    scalar(2.0),
                    integers(&[], Element::I8, &[1]),
                ],
                vec![integers(&[7], Element::I8, &[1, 3, 3, -1, 127, -128, 127])],
            ),
            Case::new(
                op(1),
                vec![
                    Tensor::f32([2, 2], vec![1.0, 1.0, -1.0, 200.0]),
                    Tensor::f32([2], vec![0.5, 1.0]),
                    integers(&[2], Element::U8, &[0, 128]),
                ],
                vec![integers(&[2, 2], Element::U8, &[2, 129, 0, 255])],
            ),
        ];
        // Saturation at both ends of narrow elements.
        let wide = || Tensor::f32([5], vec![-40.0, -1.5, 0.5, 1.5, 40.0]);
        for (element, zero, expected) in [
            (Element::I4, -1, [-8, -3, -1, 1, 7]),
            (Element::U4, 3, [0, 1, 3, 5, 15]),
            (Element::I2, 0, [-2, -2, 0, 1, 1]),
            (Element::U2, 1, [0, 0, 1, 3, 3]),
            (Element::B1, 0, [0, 0, 0, 1, 1]),
        ] {
            let zero = integers(&[], element, &[zero]);
            let expected = integers(&[5], element, &expected);
            cases.push(Case::new(op(0), vec![wide(), scalar(1.0), zero], vec![expected]));
        }
        use Element::{B1, I2, I4, I8, U2, U4, U8};
        for element in [I8, U8, I4, U4, I2, U2, B1] {
            let (low, high) = element.integer_range().expect("an integer");
            let extremes = elementwise::extreme_tensor();
            let zero = integers(&[1], element, &[high * 4 / 5]);
            cases.push(Case::shape_only(op(0), vec![extremes, Tensor::f32([1], vec![0.3]), zero]));
            for shape in [[7, 143], [4, 64]] {
                let x = Tensor::f32(shape, elementwise::ramp(shape[0] * shape[1]));
                let zero = integers(&[], element, &[high / 2]);
                cases.push(Case::shape_only(op(0), vec![x, scalar(0.7), zero]));
            }
            for axis in 0..3 {
                let x = Tensor::f32([3, 3, 3], elementwise::ramp(27));
                let zeros = integers(&[3], element, &[low, high / 24, high]);
                let scales = Tensor::f32([3], vec![0.1, 1.0e-3, 3.0]);
                cases.push(Case::shape_only(op(axis), vec![x, scales, zeros]));
            }
        }
        cases
    }
}

/// Smallest and largest result.
fn bounds(element: Element) -> [f32; 2] {
    let (low, high) = element.integer_range().unwrap_or_default();
    [low as f32, high as f32]
}
