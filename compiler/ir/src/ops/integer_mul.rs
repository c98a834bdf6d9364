//! `integer_mul`. See [`IntegerMul`].

use crate::attributes::Attributes;
use crate::loops::LoopKernel;
use crate::loops::builder::LoopBuilder;
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::walk::Walk;
use crate::ops::support::{sample, table};
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::{ScaleData, Tensor};
use crate::types::{Element, TensorType};

operator! {
    /// Products of elements of 8 bits as i32. Operands: i8 or u8 with shared exponents, NumPy broadcasting. The result's exponent is
    /// the sum of theirs, modulo 2^32.
    pub struct IntegerMul = "integer_mul" {
    }
}

impl Operator for IntegerMul {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x, y] = rule::operands(Self::NAME, inputs)?;
        table::check_codes(Self::NAME, x)?;
        table::check_codes(Self::NAME, y)?;
        let shape = x.shape.broadcast(&y.shape).ok_or_else(|| {
            TypeError::new(format!("{}: {x} and {y} do not broadcast", Self::NAME))
        })?;
        Ok(vec![TensorType::shared(shape, Element::I32)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (x, y) = (inputs[0], inputs[1]);
        let shape = x.shape().broadcast(y.shape()).expect("checked by infer");
        let walk = Walk::broadcast(&shape, [x.shape().dims(), y.shape().dims()]);
        let (count, inner) = walk.inner();
        let (left, right) = (x.to_i64(), y.to_i64());
        let mut data = Vec::with_capacity(shape.count());
        walk.rows(|[i, j]| {
            data.extend((0..count).map(|n| left[i + n * inner[0]] * right[j + n * inner[1]]));
        });
        let exponent = x.exponent().wrapping_add(y.exponent());
        let ty = TensorType::shared(shape, Element::I32);
        vec![Tensor::from_i64(&ty, &data, ScaleData::Exponent(exponent))]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let exponent = b.input_exponent(0) + b.input_exponent(1);
        b.set_output_exponent(0, exponent);
        let (x, y, z) = (b.input(0), b.input(1), b.output(0));
        let shape = outputs[0].shape.dims();
        let walk = Walk::broadcast(shape, [&inputs[0].shape, &inputs[1].shape, shape]);
        walk.lower(&mut b, "i", |b, [i, j, k]| {
            let product = b.load(x, i) * b.load(y, j);
            b.store(z, k, product);
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        let bytes = |element, of: &[i64], e| sample::shared_of([of.len()], element, of, e);
        let mut cases = vec![
            Case::new(
                IntegerMul {},
                vec![
                    bytes(Element::I8, &[-128, -128, 127, 0, 3], -3),
                    bytes(Element::I8, &[-128, 127, 127, 5, -7], -9),
                ],
                vec![Tensor::i32_shared([5], vec![16_384, -16_256, 16_129, 0, -21], -12)],
            ),
            Case::new(
                IntegerMul {},
                vec![
                    bytes(Element::U8, &[255, 255, 0], i32::MAX),
                    bytes(Element::I8, &[-128, 127, 1], 1),
                ],
                vec![Tensor::i32_shared([3], vec![-32_640, 32_385, 0], i32::MIN)],
            ),
        ];
        for [left, right] in [
            [Element::I8, Element::I8],
            [Element::I8, Element::U8],
            [Element::U8, Element::I8],
            [Element::U8, Element::U8],
        ] {
            for [x, y] in [
                [&[45][..], &[45][..]],
                [&[2, 3, 5, 7], &[2, 3, 1, 1]],
                [&[2, 3, 1, 1], &[2, 3, 16, 8]],
                [&[4, 64], &[64]],
                [&[3, 131], &[3, 131]],
                [&[2, 3, 5], &[]],
            ] {
                let operands = vec![sample::shared(x, left, 1, -3), sample::shared(y, right, 2, -4)];
                cases.push(Case::shape_only(IntegerMul {}, operands));
            }
        }
        cases
    }
}
