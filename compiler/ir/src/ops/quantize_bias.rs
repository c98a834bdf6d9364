//! `quantize_bias`. See [`QuantizeBias`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel, Unary};
use crate::numeric::{self, exponent, integer};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::sample;
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Element, TensorType};

operator! {
    /// FP32 to i32 with the exponent `exponent`, for biases that are added to int32 sums: `q = x * 2^-exponent` to
    /// nearest (ties to even), clamped to +-(2^31 - 1). NaN elements give 0.
    pub struct QuantizeBias = "quantize_bias" {
        /// Power of two of the unit, from -64 to 0: -24 holds magnitudes below 128.
        pub exponent: i32,
    }
}

impl Operator for QuantizeBias {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands(Self::NAME, inputs)?;
        rule::all_f32(Self::NAME, &[x])?;
        rule::ensure((-64..=0).contains(&self.exponent), || {
            format!("{} takes an exponent from -64 to 0, here {}", Self::NAME, self.exponent)
        })?;
        Ok(vec![TensorType::shared(x.shape.clone(), Element::I32)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let quantize = |&x: &f32| {
            let scaled = numeric::scale_by_power_of_two(x, -self.exponent).round_ties_even();
            (scaled as i32).clamp(-i32::MAX, i32::MAX)
        };
        let data = inputs[0].as_f32().iter().map(quantize).collect();
        vec![Tensor::i32_shared(inputs[0].shape().clone(), data, self.exponent)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, y, count) = (b.input(0), b.output(0), inputs[0].count());
        b.set_output_exponent(0, Expr::i32(self.exponent));
        let factors = exponent::power_of_two_factors(&mut b, Expr::i32(-self.exponent));
        b.for_("i", count, |b, i| {
            let [first, second] = factors;
            let scaled = (b.load(x, i.clone()) * first) * second;
            let q = scaled.unary(Unary::RoundTiesEven).unary(Unary::ToInteger);
            b.store(y, i, integer::clamp(q, -i32::MAX, i32::MAX));
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        let op = QuantizeBias { exponent: -24 };
        let f32 = |x: &[f32]| Tensor::f32([x.len()], x.to_vec());
        let shared = |y: &[i32], e: i32| Tensor::i32_shared([y.len()], y.to_vec(), e);
        vec![
            Case::new(
                op.clone(),
                vec![f32(&[0.5, -1.0, 0.0, 200.0, -200.0, f32::NAN])],
                vec![shared(&[1 << 23, -(1 << 24), 0, i32::MAX, -i32::MAX, 0], -24)],
            ),
            // 2^-25 and 3 * 2^-25: ties to even.
            Case::new(
                op.clone(),
                vec![f32(&[2.9802322e-8, 8.940697e-8])],
                vec![shared(&[0, 2], -24)],
            ),
            Case::new(QuantizeBias { exponent: 0 }, vec![f32(&[2.5, -3.5])], vec![shared(&[2, -4], 0)]),
            Case::shape_only(
                QuantizeBias { exponent: -64 },
                vec![f32(&sample::words(33).iter().map(|&x| x as f32 * 1.0e-25).collect::<Vec<_>>())],
            ),
        ]
    }
}
