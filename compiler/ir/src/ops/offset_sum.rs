//! `offset_sum`. See [`OffsetSum`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::sample;
use crate::ops::support::walk::Walk;
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Element, TensorType};

operator! {
    /// `a + 128 b` of i32 with shared exponents, `b` of NumPy broadcasting to the shape of `a`, modulo 2^32; the exponent is that
    /// of `a`. A product of u8 by i8 is this of the product of what [`super::SplitByte`] gives as `offset`, and of the sums of what
    /// it is multiplied by.
    pub struct OffsetSum = "offset_sum" {
    }
}

/// Bits of the offset.
const BITS: u32 = 7;

impl Operator for OffsetSum {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [a, b] = rule::operands(Self::NAME, inputs)?;
        let sums = |ty: &TensorType| ty.element == Element::I32 && ty.is_shared_integer();
        rule::ensure(sums(a) && sums(b), || {
            format!("{} takes two i32<2^e>, here {a} and {b}", Self::NAME)
        })?;
        rule::ensure(a.shape.broadcast(&b.shape).as_ref() == Some(&a.shape), || {
            format!("{}: {b} does not broadcast to {a}", Self::NAME)
        })?;
        Ok(vec![a.clone()])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (a, b) = (inputs[0], inputs[1]);
        let walk = Walk::broadcast(a.shape(), [a.shape().dims(), b.shape().dims()]);
        let (count, inner) = walk.inner();
        let (sums, offsets) = (a.as_i32(), b.as_i32());
        let mut data = Vec::with_capacity(sums.len());
        walk.rows(|[i, j]| {
            data.extend((0..count).map(|n| {
                sums[i + n * inner[0]].wrapping_add(offsets[j + n * inner[1]].wrapping_shl(BITS))
            }));
        });
        vec![Tensor::i32_shared(a.shape().clone(), data, a.exponent())]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, offsets, y) = (b.input(0), b.input(1), b.output(0));
        let exponent = b.input_exponent(0);
        b.set_output_exponent(0, exponent);
        let walk = Walk::broadcast(
            &outputs[0].shape,
            [inputs[0].shape.dims(), inputs[1].shape.dims(), outputs[0].shape.dims()],
        );
        walk.lower(&mut b, "i", |b, [i, j, k]| {
            let offset = b.load(offsets, j).shift_left(Expr::i32(BITS as i32));
            b.store(y, k, b.load(x, i) + offset);
        });
        b.finish()
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 0
    }

    fn cases() -> Vec<Case> {
        let shared = |shape: &[usize], x: &[i32], e: i32| Tensor::i32_shared(shape, x.to_vec(), e);
        let of = |shape: &[usize]| sample::shared(shape, Element::I32, 1, 4);
        vec![
            Case::new(
                OffsetSum {},
                vec![
                    shared(&[1, 2, 2], &[3, -4, i32::MAX, i32::MIN], -6),
                    shared(&[2, 1], &[-1, 1 << 24], 5),
                ],
                vec![shared(&[1, 2, 2], &[-125, -132, -1, 0], -6)],
            ),
            Case::shape_only(OffsetSum {}, vec![of(&[2, 3, 5, 7]), of(&[1, 3, 1, 1])]),
            Case::shape_only(OffsetSum {}, vec![of(&[6, 3, 3, 3]), of(&[6, 1, 1, 1])]),
        ]
    }
}
