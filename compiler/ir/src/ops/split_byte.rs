//! `split_byte`. See [`SplitByte`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::ops::properties::Work;
use crate::ops::support::sample;
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::{ScaleData, Tensor};
use crate::types::{Element, Scale, TensorType};
use crate::{keyword_enum, operator};

keyword_enum! {
    /// A part of an unsigned byte.
    pub enum BytePart {
        /// The upper seven bits, `x >> 1`: the exponent is one more.
        Upper = "upper",
        /// The lowest bit, `x & 1`: the exponent stays.
        Lowest = "lowest",
        /// What it is above 128, `x - 128`: the exponent stays.
        Offset = "offset",
    }
}

operator! {
    /// A part of u8 elements with a shared exponent, as i8: `x = 2 upper + lowest = offset + 128`. So kernels of i8 products
    /// serve u8: see [`super::DoubledSum`], [`super::OffsetSum`].
    pub struct SplitByte = "split_byte" {
        /// Which part.
        pub part: BytePart,
    }
}

impl Operator for SplitByte {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands(Self::NAME, inputs)?;
        rule::ensure(x.element == Element::U8 && x.scale == Scale::Exponent, || {
            format!("{} takes u8<2^e>, here {x}", Self::NAME)
        })?;
        Ok(vec![x.with_element(Element::I8)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let x = inputs[0];
        let (values, exponent): (Vec<i64>, i32) = match self.part {
            BytePart::Upper => {
                (x.to_i64().iter().map(|x| x >> 1).collect(), x.exponent().wrapping_add(1))
            }
            BytePart::Lowest => (x.to_i64().iter().map(|x| x & 1).collect(), x.exponent()),
            BytePart::Offset => (x.to_i64().iter().map(|x| x - 128).collect(), x.exponent()),
        };
        let ty = x.ty().with_element(Element::I8);
        vec![Tensor::from_i64(&ty, &values, ScaleData::Exponent(exponent))]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, y) = (b.input(0), b.output(0));
        let upper = self.part == BytePart::Upper;
        let exponent = b.input_exponent(0) + Expr::i32(i32::from(upper));
        b.set_output_exponent(0, exponent);
        b.for_("i", inputs[0].count(), |b, i| {
            let x = b.load(x, i.clone());
            let part = match self.part {
                BytePart::Upper => x.shr_unsigned(Expr::i32(1)),
                BytePart::Lowest => x.and(Expr::i32(1)),
                BytePart::Offset => x - Expr::i32(128),
            };
            b.store(y, i, part);
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        let x = || sample::shared_of([5], Element::U8, &[0, 1, 127, 128, 255], -7);
        let split = |part: BytePart| SplitByte { part };
        let case = |part: BytePart, y: &[i8], e: i32| {
            Case::new(split(part), vec![x()], vec![Tensor::i8_shared([5], y.to_vec(), e)])
        };
        let long = || sample::shared([3, 5, 7], Element::U8, 1, 4);
        vec![
            case(BytePart::Upper, &[0, 0, 63, 64, 127], -6),
            case(BytePart::Lowest, &[0, 1, 1, 0, 1], -7),
            case(BytePart::Offset, &[-128, -127, -1, 0, 127], -7),
            Case::shape_only(split(BytePart::Upper), vec![long()]),
            Case::shape_only(split(BytePart::Lowest), vec![long()]),
            Case::shape_only(split(BytePart::Offset), vec![long()]),
        ]
    }
}
