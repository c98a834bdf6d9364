//! `nearest_power_of_two`. See [`NearestPowerOfTwo`].

use crate::attributes::Attributes;
use crate::loops::{Expr, LoopKernel, Unary};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::elementwise;
use crate::ops::{Case, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

/// The bits of 2^127, and of 2^-126.
const LARGEST: i32 = 0x7f00_0000;
const LEAST: i32 = 0x0080_0000;
/// What carries into the exponent from the first FP32 number above sqrt(2) on (0x3fb504f4): sqrt(2) itself is none.
const CARRY: i32 = 0x0080_0000 - 0x0035_04f4;

operator! {
    /// `2^round(log2 |x|)`, elementwise (FP32): the power of two that is nearest in its exponent, so up from sqrt(2) on. Between 2^-126
    /// (of zeros too) and 2^127 (of infinities and NaN too). Exact: made of the bits of x. What steps of shift quantization are
    /// made of (Wu et al. 2018, Yang et al. 2020).
    pub struct NearestPowerOfTwo = "nearest_power_of_two" {
    }
}

/// Of the bits of a magnitude.
fn nearest(bits: i32) -> i32 {
    ((bits.min(LARGEST) + CARRY) & !0x7f_ffff).clamp(LEAST, LARGEST)
}

impl Operator for NearestPowerOfTwo {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        elementwise::infer_unary(Self::NAME, inputs)
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        elementwise::evaluate_unary(inputs, |x| {
            f32::from_bits(nearest(x.abs().to_bits() as i32) as u32)
        })
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        elementwise::lower_unary(inputs, outputs, |builder, x| {
            let bits = x.unary(Unary::ToBits).and(Expr::i32(0x7fff_ffff));
            let bits = builder.let_("bits", bits.minimum(Expr::i32(LARGEST)));
            let power = (bits + Expr::i32(CARRY)).and(Expr::i32(!0x7f_ffff));
            let power = power.maximum(Expr::i32(LEAST)).minimum(Expr::i32(LARGEST));
            builder.let_("power", power).unary(Unary::FromBits)
        })
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 0
    }

    fn cases() -> Vec<Case> {
        let f32 = |x: &[f32]| Tensor::f32([x.len()], x.to_vec());
        let op = || NearestPowerOfTwo {};
        vec![
            // sqrt(2) lies between its own f32 and 1.4142137.
            Case::new(
                op(),
                vec![f32(&[1.0, std::f32::consts::SQRT_2, -1.414_213_7, 3.0, 2.9, 2.8, 0.75, 0.7, -100.0])],
                vec![f32(&[1.0, 1.0, 2.0, 4.0, 4.0, 2.0, 1.0, 0.5, 128.0])],
            ),
            Case::new(
                op(),
                vec![f32(&[0.0, -0.0, 1.0e-40, f32::MAX, f32::NEG_INFINITY, f32::NAN, 1.7e-38])],
                vec![f32(&[
                    1.175_494_4e-38,
                    1.175_494_4e-38,
                    1.175_494_4e-38,
                    1.701_411_8e38,
                    1.701_411_8e38,
                    1.701_411_8e38,
                    2.350_988_7e-38,
                ])],
            ),
            Case::shape_only(op(), vec![elementwise::extreme_tensor()]),
            Case::shape_only(op(), vec![Tensor::f32([], vec![-0.1])]),
            Case::shape_only(op(), vec![Tensor::f32([3, 1, 35], elementwise::ramp(105))]),
        ]
    }
}
