//! `sign_bits`. See [`SignBits`].

use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel, Unary};
use crate::operator;
use crate::ops::properties::{Examples, Property, Work};
use crate::ops::support::{elementwise, sample};
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::{ScaleData, Tensor};
use crate::types::{Element, Scale, TensorType};

operator! {
    /// The signs of FP32 numbers, or of plain signed integers, as bits, packed: 1 where `x >= 0` (both zeros), 0 elsewhere (NaN, too). In
    /// products of bits (`binary_conv2d`) a 1 stands for 1, a 0 for -1. No gradient.
    pub struct SignBits = "sign_bits" {
    }
}

impl Operator for SignBits {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::IgnoresShape];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands("sign_bits", inputs)?;
        let signed = x.element.integer_range().is_none_or(|(low, _)| low < 0);
        rule::ensure(signed && x.scale == Scale::None, || {
            format!("sign_bits takes f32 or plain signed integers, here {x}")
        })?;
        Ok(vec![x.with_element(Element::B1)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let x = inputs[0];
        let bits: Vec<i64> = match x.ty().is_f32() {
            true => x.as_f32().iter().map(|&x| i64::from(x >= 0.0)).collect(),
            false => x.to_i64().into_iter().map(|x| i64::from(x >= 0)).collect(),
        };
        let ty = inputs[0].ty().with_element(Element::B1);
        vec![Tensor::from_i64(&ty, &bits, ScaleData::None)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, y) = (b.input(0), b.output(0));
        // Rows of whole bytes are collected a byte at a time.
        let last = inputs[0].shape.last().copied().unwrap_or(1);
        let rows = inputs[0].count().checked_div(last).unwrap_or(0);
        b.for_("row", rows, |b, row| {
            let first = b.let_("first", row * Expr::index(last));
            b.for_("i", last, |b, i| {
                let at = first + i;
                let zero = match inputs[0].element {
                    Element::F32 => Expr::f32(0.0),
                    _ => Expr::i32(0),
                };
                let positive = zero.less_equal(b.load(x, at.clone()));
                b.store(y, at, positive.unary(Unary::BoolToInteger));
            });
        });
        b.finish()
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.only_first()
    }

    fn cases() -> Vec<Case> {
        let bits = |shape: &[usize], values: &[i64]| {
            Tensor::from_i64(&TensorType::new(shape, Element::B1), values, ScaleData::None)
        };
        let values = vec![-0.0, 0.0, f32::NAN, -1.0e-45, 1.0e-45, f32::NEG_INFINITY, 2.0, -3.0, 7.0];
        let mut cases = vec![Case::new(
            SignBits {},
            vec![Tensor::f32([3, 3], values)],
            vec![bits(&[3, 3], &[1, 1, 0, 0, 1, 0, 1, 0, 1])],
        )];
        cases.push(Case::new(
            SignBits {},
            vec![Tensor::i32([5], vec![i32::MIN, -1, 0, 1, i32::MAX])],
            vec![bits(&[5], &[0, 0, 1, 1, 1])],
        ));
        for (salt, element) in
            [Element::I2, Element::I4, Element::I8, Element::I16].into_iter().enumerate()
        {
            let x = sample::integers([3, 24], element, salt as u32);
            cases.push(Case::shape_only(SignBits {}, vec![x]));
        }
        cases.push(Case::shape_only(SignBits {}, vec![elementwise::extreme_tensor()]));
        for shape in [&[][..], &[5], &[3, 8], &[2, 3, 5, 16], &[2, 40], &[3, 0]] {
            let x = Tensor::f32(shape, elementwise::ramp(shape.iter().product()));
            cases.push(Case::shape_only(SignBits {}, vec![x]));
        }
        cases
    }
}
