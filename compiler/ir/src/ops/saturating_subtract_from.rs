//! `saturating_subtract_from`. See [`SaturatingSubtractFrom`].

use super::saturating_subtract::{SaturatingSubtract, lower_difference};
use crate::attributes::Attributes;
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::properties::{Property, Work};
use crate::ops::support::sample;
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Element, TensorType};

operator! {
    /// [`saturating_subtract`](SaturatingSubtract) with its operands in the other order: of `g` and `w`, `w - g`. So the update
    /// continues the kernel that makes the gradient.
    pub struct SaturatingSubtractFrom = "saturating_subtract_from" {
    }
}

impl Operator for SaturatingSubtractFrom {
    const WORK: Work = Work::Little;
    // Weights are not worth taking into another kernel.
    const PROPERTIES: &'static [Property] = &[Property::EndsChain];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [g, w] = rule::operands(Self::NAME, inputs)?;
        SaturatingSubtract {}.infer(&[w, g])
    }

    fn evaluate(&self, inputs: &[&Tensor], run: &RunContext) -> Vec<Tensor> {
        SaturatingSubtract {}.evaluate(&[inputs[1], inputs[0]], run)
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        lower_difference(inputs, outputs, [1, 0])
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 1
    }

    fn cases() -> Vec<Case> {
        let tensor = |q: &[i8], e: i32| Tensor::i8_shared([q.len()], q.to_vec(), e);
        let pattern = |n: i32| (0..30).map(|i| (i * n % 256) as u8 as i8).collect();
        vec![
            Case::new(
                SaturatingSubtractFrom {},
                vec![tensor(&[7, -7, 0, -27, -1, 127], 30), tensor(&[5, -5, 0, 100, -128, -1], -8)],
                vec![tensor(&[-2, 2, 0, 127, -127, -127], -8)],
            ),
            Case::shape_only(
                SaturatingSubtractFrom {},
                vec![
                    Tensor::i8_shared([2, 3, 5], pattern(91), i32::MAX),
                    Tensor::i8_shared([2, 3, 5], pattern(37), i32::MIN),
                ],
            ),
            Case::new(
                SaturatingSubtractFrom {},
                vec![
                    sample::shared_of([2], Element::I16, &[-1, 200], -3),
                    sample::shared_of([2], Element::I16, &[32767, 300], -15),
                ],
                vec![sample::shared_of([2], Element::I16, &[32767, 100], -15)],
            ),
        ]
    }
}
