//! `quantize_exponent`. See [`QuantizeExponent`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel, Unary};
use crate::numeric::{self, exponent, integer};
use crate::operator;
use crate::ops::properties::{Property, Work};
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::{Data, ScaleData, Tensor};
use crate::types::{Element, TensorType};

operator! {
    /// FP32 to i8 with a shared exponent, by the largest magnitude M of the tensor: `b = ceil(log2 M)`, `q
    /// = clamp(round_ties_even(x * 2^(7-b)), -128, 127)`, exponent `b - 7` (NITI's input quantiser). M = 0
    /// gives zeros and exponent 0.
    ///
    /// NaN elements give 0 and do not count in M; an infinite M is taken as the largest finite FP32.
    pub struct QuantizeExponent = "quantize_exponent" {
    }
}

impl Operator for QuantizeExponent {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::IgnoresShape];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands(Self::NAME, inputs)?;
        rule::all_f32(Self::NAME, &[x])?;
        Ok(vec![TensorType::shared(x.shape.clone(), Element::I8)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let x = inputs[0].as_f32();
        let m = numeric::largest_finite(x);
        let exponent = if m == 0.0 { 0 } else { numeric::ceil_log2(m) - 7 };
        // Scaling is exact but for results below 2^-126, which round to 0 anyway.
        let quantize = |x: f32| {
            let scaled = numeric::scale_by_power_of_two(x, -exponent).round_ties_even();
            (scaled as i32).clamp(-128, 127) as i8
        };
        let ty = TensorType::shared(inputs[0].shape().clone(), Element::I8);
        let data = Data::I8(x.iter().map(|&x| quantize(x)).collect());
        vec![Tensor::new(ty, data, ScaleData::Exponent(exponent))]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, y, count) = (b.input(0), b.output(0), inputs[0].count());
        let m = exponent::largest_finite(&mut b, x, count);
        let log = exponent::ceil_log2(&mut b, m.clone());
        let zero = m.equal(Expr::f32(0.0));
        let e = b.let_("e", zero.select(Expr::i32(0), log - Expr::i32(7)));
        b.set_output_exponent(0, e.clone());
        let factors = exponent::power_of_two_factors(&mut b, e.unary(Unary::Negate));
        b.for_("i", count, |b, i| {
            let [first, second] = factors;
            let scaled = (b.load(x, i.clone()) * first) * second;
            let q = scaled.unary(Unary::RoundTiesEven).unary(Unary::ToInteger);
            b.store(y, i, integer::clamp(q, -128, 127));
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        let case = |x: &[f32], q: &[i8], e: i32| {
            let x = Tensor::f32([x.len()], x.to_vec());
            Case::new(QuantizeExponent {}, vec![x], vec![Tensor::i8_shared([q.len()], q.to_vec(), e)])
        };
        let tiny = |units: u32| f32::from_bits(units);
        let pattern = (0..21).map(|i| ((i * 37) % 41 - 20) as f32 * 0.173).collect();
        vec![
            // M = 1: factor 2^7; 1 clamps, 38.4 rounds down.
            case(&[1.0, -1.0, -0.5, 0.3, 0.0], &[127, -128, -64, 38, 0], -7),
            // M = 3: b = 2, factor 2^5; 2.5 and 3.5 are ties.
            case(&[3.0, 0.078125, 0.109375, -0.078125], &[96, 2, 4, -2], -5),
            // Just above and below a power of two: b = 1, factor 64; b = 0, factor 128.
            case(&[1.000_000_1, 0.5], &[64, 32], -6),
            case(&[0.999_999_94, 0.5], &[127, 64], -7),
            case(&[0.0, -0.0], &[0, 0], 0),
            case(&[f32::NAN], &[0], 0),
            case(&[], &[], 0),
            // M = f32::MAX: b = 128.
            case(
                &[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.0, 2f32.powi(127)],
                &[0, 127, -128, 0, 64],
                121,
            ),
            case(&[f32::MAX, -f32::MAX, f32::MAX / 4.0], &[127, -128, 32], 121),
            // Subnormals, M = 2^-149 and 3 * 2^-149: factors 2^156 and 2^154.
            case(&[tiny(1), -tiny(1)], &[127, -128], -156),
            case(&[tiny(3), -tiny(1)], &[96, -32], -154),
            Case::shape_only(QuantizeExponent {}, vec![Tensor::f32([1, 3, 7], pattern)]),
        ]
    }
}
