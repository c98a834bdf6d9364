//! `ones`. See [`Ones`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::{Data, ScaleData, Tensor};
use crate::types::{Element, Shape, TensorType};

operator! {
    /// Ones (i8, exponent 0) of the operand's shape, with the axes `single` of size 1. A product with them sums the other operand
    /// over what the product sums over, padding left out: what products of affine integers need of their origins.
    pub struct Ones = "ones" {
        /// Axes that the product does not sum over, ascending.
        pub single: Vec<usize>,
    }
}

impl Ones {
    fn shape(&self, x: &TensorType) -> Shape {
        let dims = x.shape.iter().enumerate();
        dims.map(|(i, &dim)| if self.single.contains(&i) { 1 } else { dim }).collect::<Vec<_>>().into()
    }
}

impl Operator for Ones {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands(Self::NAME, inputs)?;
        let single = &self.single;
        rule::ensure(single.windows(2).all(|pair| pair[0] < pair[1]), || {
            format!("{}: axes must ascend without repetition, here {single:?}", Self::NAME)
        })?;
        rule::ensure(single.last().is_none_or(|&axis| axis < x.shape.rank()), || {
            format!("{}: axes {single:?} exceed the rank of {x}", Self::NAME)
        })?;
        Ok(vec![TensorType::shared(self.shape(x), Element::I8)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let ty = TensorType::shared(self.shape(inputs[0].ty()), Element::I8);
        let data = Data::I8(vec![1; ty.count()]);
        vec![Tensor::new(ty, data, ScaleData::Exponent(0))]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let y = builder.output(0);
        builder.set_output_exponent(0, Expr::i32(0));
        builder.for_("i", outputs[0].count(), |builder, i| builder.store(y, i, Expr::i32(1)));
        builder.finish()
    }

    fn cases() -> Vec<Case> {
        let op = |single: &[usize]| Ones { single: single.to_vec() };
        let x = |shape: &[usize]| Tensor::f32(shape, vec![0.5; shape.iter().product()]);
        let ones = |shape: &[usize]| Tensor::i8_shared(shape, vec![1; shape.iter().product()], 0);
        vec![
            Case::new(op(&[0]), vec![x(&[3, 2])], vec![ones(&[1, 2])]),
            Case::new(op(&[1]), vec![x(&[2, 5, 3, 3])], vec![ones(&[2, 1, 3, 3])]),
            Case::new(op(&[]), vec![x(&[2, 19])], vec![ones(&[2, 19])]),
            Case::new(op(&[0]), vec![Tensor::i8_shared([4], vec![7; 4], -3)], vec![ones(&[1])]),
        ]
    }
}
