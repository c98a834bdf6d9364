//! `dequantize_linear`. See [`DequantizeLinear`].

use crate::graph::{Graph, ValueId};
use crate::loops::builder::{LoopBuilder};
use crate::loops::{LoopKernel, Unary};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::affine;
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError, rule};
use crate::random::{RunContext};
use crate::tensor::{ScaleData, Tensor};
use crate::types::{Element, Scale, TensorType};

operator! {
    /// ONNX DequantizeLinear: `(q - zero_point) * scale`. Operands: `q` integer, `scale` FP32, `zero_point`
    /// of the type of `q`. Integers of at most 16 bits, or i32; the difference wraps in i32. Gradient: the error of the integers is that
    /// of the values that they stand for, unchanged (`quantize_linear` says where it passes); scales have none.
    pub struct DequantizeLinear = "dequantize_linear" {
        /// Channel axis if the scale is a vector.
        pub axis: usize,
    }
}

/// Elements that it takes.
const ELEMENTS: [Element; 10] = [
    Element::I2,
    Element::I4,
    Element::I8,
    Element::I16,
    Element::I32,
    Element::U2,
    Element::U4,
    Element::U8,
    Element::U16,
    Element::B1,
];

impl Operator for DequantizeLinear {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [q, scale, zero_point] = rule::operands::<3>("dequantize_linear", inputs)?;
        rule::all_f32("dequantize_linear", &[scale])?;
        rule::ensure(ELEMENTS.contains(&q.element) && q.scale == Scale::None, || {
            format!("dequantize_linear takes unscaled integers of at most 16 bits or i32, here {q}")
        })?;
        rule::ensure(q.element == zero_point.element, || {
            format!("dequantize_linear: {q} with zero point {zero_point}")
        })?;
        affine::infer("dequantize_linear", q, scale, zero_point, self.axis)?;
        Ok(vec![TensorType::f32(q.shape.clone())])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let walk = affine::walk(inputs[0].ty(), inputs[1].ty(), self.axis);
        let (count, [_, step]) = walk.inner();
        let (q, scale, zero_point) = (inputs[0].to_i64(), inputs[1].as_f32(), inputs[2].to_i64());
        let mut x = Vec::with_capacity(q.len());
        walk.rows(|[i, j]| {
            x.extend(q[i..i + count].iter().enumerate().map(|(n, q)| {
                let j = j + n * step;
                (q - zero_point[j]) as i32 as f32 * scale[j]
            }));
        });
        vec![Tensor::f32(inputs[0].shape().dims(), x)]
    }

    fn gradient(
        &self,
        _graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        match node.wanted[1] {
            true => Err(GradientError::NotDifferentiable("dequantize_linear")),
            false => Ok(vec![Some(node.output_gradient()), None, None]),
        }
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let [q, scale, zero_point] = [0, 1, 2].map(|i| builder.input(i));
        let y = builder.output(0);
        let walk = affine::walk(inputs[0], inputs[1], self.axis);
        walk.lower(&mut builder, "i", |builder, [i, j]| {
            let steps = builder.load(q, i.clone()) - builder.load(zero_point, j.clone());
            let value = steps.unary(Unary::ToFloat) * builder.load(scale, j);
            builder.store(y, i, value);
        });
        builder.finish()
    }

    fn cases() -> Vec<Case> {
        let op = |axis| DequantizeLinear { axis };
        let integers = |shape: &[usize], element, values: &[i64]| {
            Tensor::from_i64(&TensorType::new(shape, element), values, ScaleData::None)
        };
        let mut cases = vec![
            Case::new(
                op(0),
                vec![
                    integers(&[4], Element::U8, &[0, 128, 129, 255]),
                    Tensor::f32([], vec![0.5]),
                    integers(&[], Element::U8, &[128]),
                ],
                vec![Tensor::f32([4], vec![-64.0, 0.0, 0.5, 63.5])],
            ),
            Case::new(
                op(1),
                vec![
                    integers(&[2, 2], Element::I8, &[-128, 127, 3, 4]),
                    Tensor::f32([2], vec![2.0, -0.25]),
                    integers(&[2], Element::I8, &[127, -1]),
                ],
                vec![Tensor::f32([2, 2], vec![-510.0, -32.0, -248.0, -1.25])],
            ),
        ];
        for (element, zero, q, expected) in [
            (Element::I4, -8, [-8, 0, 7], [0.0, 4.0, 7.5]),
            (Element::U2, 3, [0, 3, 1], [-1.5, 0.0, -1.0]),
            (Element::I2, 1, [-2, 1, 0], [-1.5, 0.0, -0.5]),
            (Element::B1, 1, [0, 1, 0], [-0.5, 0.0, -0.5]),
        ] {
            let operands = vec![
                integers(&[3], element, &q),
                Tensor::f32([], vec![0.5]),
                integers(&[], element, &[zero]),
            ];
            cases.push(Case::new(op(0), operands, vec![Tensor::f32([3], expected.to_vec())]));
        }
        for element in ELEMENTS {
            let (low, high) = element.integer_range().expect("an integer");
            let values: Vec<i64> = (0..27).map(|i| low + (high - low) * i / 26).collect();
            let many: Vec<i64> = (0..201).map(|i| low + (high - low) * (i * 37 % 201) / 200).collect();
            let q = integers(&[3, 67], element, &many);
            let zero = integers(&[], element, &[high / 3]);
            cases.push(Case::shape_only(op(0), vec![q, Tensor::f32([], vec![0.1]), zero]));
            for axis in 0..3 {
                let q = integers(&[3, 3, 3], element, &values);
                let scales = Tensor::f32([3], vec![0.1, 1.0e-40, 3.0e38]);
                let zeros = integers(&[3], element, &[low, 5.min(high), high]);
                cases.push(Case::shape_only(op(axis), vec![q, scales, zeros]));
            }
        }
        cases
    }
}
