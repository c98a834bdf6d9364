//! `doubled_sum`. See [`DoubledSum`].

use crate::attributes::Attributes;
use crate::loops::LoopKernel;
use crate::loops::builder::LoopBuilder;
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::sample;
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Element, TensorType};

operator! {
    /// `2 a + b` of two i32 of one shape with shared exponents, modulo 2^32; the exponent is that of `b`. A product of u8 by
    /// i8 is this of the products of the two parts that [`super::SplitByte`] gives.
    pub struct DoubledSum = "doubled_sum" {
    }
}

impl Operator for DoubledSum {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [a, b] = rule::operands(Self::NAME, inputs)?;
        rule::ensure(a == b && a.element == Element::I32 && a.is_shared_integer(), || {
            format!("{} takes two i32<2^e> of one shape, here {a} and {b}", Self::NAME)
        })?;
        Ok(vec![b.clone()])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (a, b) = (inputs[0], inputs[1]);
        let pairs = a.as_i32().iter().zip(b.as_i32());
        let data = pairs.map(|(a, b)| a.wrapping_add(*a).wrapping_add(*b)).collect();
        vec![Tensor::i32_shared(b.shape().clone(), data, b.exponent())]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, z, y) = (b.input(0), b.input(1), b.output(0));
        let exponent = b.input_exponent(1);
        b.set_output_exponent(0, exponent);
        b.for_("i", inputs[0].count(), |b, i| {
            let x = b.load(x, i.clone());
            let x = b.let_("a", x);
            let sum = x.clone() + x + b.load(z, i.clone());
            b.store(y, i, sum);
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        let shared = |x: &[i32], e: i32| Tensor::i32_shared([x.len()], x.to_vec(), e);
        vec![
            Case::new(
                DoubledSum {},
                vec![shared(&[3, -4, i32::MAX, i32::MIN], -6), shared(&[1, 1, 3, -1], -7)],
                vec![shared(&[7, -7, 1, -1], -7)],
            ),
            Case::shape_only(
                DoubledSum {},
                vec![
                    sample::shared([3, 5, 7], Element::I32, 1, 4),
                    sample::shared([3, 5, 7], Element::I32, 2, 3),
                ],
            ),
        ]
    }
}
