//! `quantize_parameter`. See [`QuantizeParameter`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel, Unary};
use crate::numeric::{self, exponent, integer};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::sample;
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::{ScaleData, Tensor};
use crate::types::{Element, TensorType};

operator! {
    /// FP32 to i8 or i16 with a shared exponent, keeping values: `e = floor(log2 M) + 2 - b`, M the largest
    /// magnitude, b the bits of the element; `q = trunc(x * 2^-e +- 0.5)` (the half with the sign of x; product and sum
    /// round to FP32), clamped to +-(2^(b-1) - 1). Where M = 0, `e = -b`. NaN elements give 0 and do not count in M; an
    /// infinite M is taken as the largest finite FP32.
    ///
    /// Nothing is stretched to fill the range, as [`super::QuantizeWeight`] does: sums with biases and other branches
    /// stay what they were.
    pub struct QuantizeParameter = "quantize_parameter" {
        /// i8 or i16.
        pub element: Element,
    }
}

impl Operator for QuantizeParameter {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands(Self::NAME, inputs)?;
        rule::all_f32(Self::NAME, &[x])?;
        rule::ensure(matches!(self.element, Element::I8 | Element::I16), || {
            format!("{} gives i8 or i16, here {}", Self::NAME, self.element)
        })?;
        Ok(vec![TensorType::shared(x.shape.clone(), self.element)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let x = inputs[0].as_f32();
        let bits = self.element.bits() as i32;
        let m = numeric::largest_finite(x);
        let e = if m == 0.0 { -bits } else { numeric::floor_log2(m) + 2 - bits };
        let limit = (1i64 << (bits - 1)) - 1;
        let quantize = |&x: &f32| {
            // Half a unit is exact in FP32 at these magnitudes; truncation is toward zero.
            let scaled = numeric::scale_by_power_of_two(x, -e);
            let rounded = scaled + if scaled < 0.0 { -0.5 } else { 0.5 };
            i64::from(rounded as i32).clamp(-limit, limit)
        };
        let values: Vec<i64> = x.iter().map(quantize).collect();
        let ty = TensorType::shared(inputs[0].shape().clone(), self.element);
        vec![Tensor::from_i64(&ty, &values, ScaleData::Exponent(e))]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, y, count) = (b.input(0), b.output(0), inputs[0].count());
        let bits = self.element.bits() as i32;
        let m = exponent::largest_finite(&mut b, x, count);
        let log = exponent::floor_log2(&mut b, m.clone());
        let e = m.equal(Expr::f32(0.0)).select(Expr::i32(-bits), log + Expr::i32(2 - bits));
        let e = b.let_("e", e);
        b.set_output_exponent(0, e.clone());
        let factors = exponent::power_of_two_factors(&mut b, e.unary(Unary::Negate));
        let limit = (1i32 << (bits - 1)) - 1;
        b.for_("i", count, |b, i| {
            let [first, second] = factors;
            let scaled = (b.load(x, i.clone()) * first) * second;
            let scaled = b.let_("scaled", scaled);
            let half = scaled.clone().less(Expr::f32(0.0)).select(Expr::f32(-0.5), Expr::f32(0.5));
            let q = (scaled + half).unary(Unary::ToInteger);
            b.store(y, i, integer::clamp(q, -limit, limit));
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        let small = QuantizeParameter { element: Element::I8 };
        let wide = QuantizeParameter { element: Element::I16 };
        let shared = |element: Element, y: &[i64], e: i32| {
            let ty = TensorType::shared([y.len()], element);
            Tensor::from_i64(&ty, y, ScaleData::Exponent(e))
        };
        let f32 = |x: &[f32]| Tensor::f32([x.len()], x.to_vec());
        let mut cases = vec![
            // M = 0.75: floor(log2) = -1, e = -1 + 2 - 8 = -7: 0.75 * 128 = 96.
            Case::new(
                small.clone(),
                vec![f32(&[0.75, -0.75, 0.00390625, -0.00390625, 0.0039, f32::NAN])],
                vec![shared(Element::I8, &[96, -96, 1, -1, 0, 0], -7)],
            ),
            // M = 1: e = -6: 64. M just below 1: e = -7: 127.99 is limited to 127.
            Case::new(small.clone(), vec![f32(&[1.0, 0.5])], vec![shared(Element::I8, &[64, 32], -6)]),
            Case::new(
                small.clone(),
                vec![f32(&[0.9999, -0.9999])],
                vec![shared(Element::I8, &[127, -127], -7)],
            ),
            Case::new(small.clone(), vec![f32(&[0.0, 0.0])], vec![shared(Element::I8, &[0, 0], -8)]),
            // M = 3: e = 1 + 2 - 16 = -13.
            Case::new(
                wide.clone(),
                vec![f32(&[3.0, -1.0, 6.103_515_6e-5])],
                vec![shared(Element::I16, &[24576, -8192, 1], -13)],
            ),
        ];
        for scale in [1.0, 1.0e-12, 1.0e-40, 1.0e28] {
            let x: Vec<f32> = sample::words(45).iter().map(|&x| x as f32 * scale).collect();
            for op in [&small, &wide] {
                cases.push(Case::shape_only(op.clone(), vec![f32(&x)]));
            }
        }
        cases
    }
}
