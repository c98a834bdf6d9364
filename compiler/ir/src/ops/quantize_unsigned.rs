//! `quantize_unsigned`. See [`QuantizeUnsigned`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel, Unary};
use crate::numeric::integer;
use crate::numeric::{self, Rounding, exponent};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::sample;
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::{Data, ScaleData, Tensor};
use crate::types::{Element, Scale, TensorType};

operator! {
    /// ReLU and quantization in one: what is negative becomes 0, the rest u8 with a shared exponent, so that no bit is
    /// spent on a sign. Operands: i32, i8 or u8 with a shared exponent, or FP32.
    ///
    /// Integers: shift right by `s = max(b - 8, 0)`, b the bit width of the largest element above 0, half away from
    /// zero, at most 255; exponent `e + s`. FP32: with M the largest element above 0 and `e = ceil(log2 M) - 8`,
    /// `round_ties_even(x * 2^-e)`, at most 255; none above 0 gives exponent 0. NaN elements give 0 and do not count in M;
    /// an infinite M is taken as the largest finite FP32.
    pub struct QuantizeUnsigned = "quantize_unsigned" {
    }
}

impl Operator for QuantizeUnsigned {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands(Self::NAME, inputs)?;
        let integer = matches!(x.element, Element::I32 | Element::I8 | Element::U8);
        rule::ensure(x.is_f32() || (integer && x.scale == Scale::Exponent), || {
            format!("{} takes i32<2^e>, i8<2^e>, u8<2^e> or f32, here {x}", Self::NAME)
        })?;
        Ok(vec![TensorType::shared(x.shape.clone(), Element::U8)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let ty = TensorType::shared(inputs[0].shape().clone(), Element::U8);
        if let Data::F32(x) = inputs[0].data() {
            let positive: Vec<f32> = x.iter().copied().filter(|&x| x > 0.0).collect();
            let m = numeric::largest_finite(&positive);
            let exponent = if m == 0.0 { 0 } else { numeric::ceil_log2(m) - 8 };
            let quantize = |x: f32| {
                let scaled = numeric::scale_by_power_of_two(x, -exponent).round_ties_even();
                (scaled as i32).clamp(0, 255) as u8
            };
            let data = Data::U8(x.iter().map(|&x| quantize(x)).collect());
            return vec![Tensor::new(ty, data, ScaleData::Exponent(exponent))];
        }
        let x = inputs[0].to_i64();
        let largest = x.iter().copied().max().unwrap_or(0).max(0);
        let s = numeric::bit_width(largest as u32).saturating_sub(8);
        let quantize =
            |&x: &i64| numeric::shift_right(x.max(0), s, Rounding::HalfAway).min(255) as u8;
        let data = Data::U8(x.iter().map(quantize).collect());
        let exponent = inputs[0].exponent().wrapping_add(s as i32);
        vec![Tensor::new(ty, data, ScaleData::Exponent(exponent))]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, y, count) = (b.input(0), b.output(0), inputs[0].count());
        if inputs[0].is_f32() {
            let largest = b.local("largest", Expr::f32(0.0));
            b.for_("i", count, |b, i| {
                let x = b.load(x, i);
                let x = b.let_("x", x);
                let larger = x.maximum(b.get(largest));
                b.set(largest, larger);
            });
            let m = b.let_("m", b.get(largest).minimum(Expr::f32(f32::MAX)));
            let log = exponent::ceil_log2(&mut b, m.clone());
            let e = m.equal(Expr::f32(0.0)).select(Expr::i32(0), log - Expr::i32(8));
            let e = b.let_("e", e);
            b.set_output_exponent(0, e.clone());
            let factors = exponent::power_of_two_factors(&mut b, e.unary(Unary::Negate));
            b.for_("i", count, |b, i| {
                let [first, second] = factors;
                let scaled = (b.load(x, i.clone()) * first) * second;
                let q = scaled.unary(Unary::RoundTiesEven).unary(Unary::ToInteger);
                b.store(y, i, integer::clamp(q, 0, 255));
            });
            return b.finish();
        }
        // The bitwise or of what is above 0 is as wide as the largest.
        let bits = b.local("bits", Expr::i32(0));
        b.for_("i", count, |b, i| {
            let x = b.load(x, i).maximum(Expr::i32(0));
            let all = b.get(bits).or(x);
            b.set(bits, all);
        });
        let excess = integer::bit_width(b.get(bits)) - Expr::i32(8);
        let s = b.let_("s", excess.maximum(Expr::i32(0)));
        let exponent = b.input_exponent(0) + s.clone();
        b.set_output_exponent(0, exponent);
        let half = Expr::i32(1).shift_left(s.clone()).shr_unsigned(Expr::i32(1));
        let half = b.let_("half", half);
        b.for_("i", count, |b, i| {
            let x = b.load(x, i.clone()).maximum(Expr::i32(0));
            let x = b.let_("x", x);
            let q = b.let_("q", (x + half).shr_unsigned(s));
            b.store(y, i, q.minimum(Expr::i32(255)));
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        let op = QuantizeUnsigned {};
        let unsigned = |y: &[u8], e: i32| {
            let ty = TensorType::shared([y.len()], Element::U8);
            Tensor::new(ty, Data::U8(y.to_vec()), ScaleData::Exponent(e))
        };
        let case = |x: Tensor, y: &[u8], e: i32| Case::new(op.clone(), vec![x], vec![unsigned(y, e)]);
        let sums = |x: &[i32], e: i32| Tensor::i32_shared([x.len()], x.to_vec(), e);
        let mut cases = vec![
            // b = 10, s = 2: -5000 counts for nothing.
            case(sums(&[1000, -5000, 2, 1, 0, 6], -5), &[250, 0, 1, 0, 0, 2], -3),
            // s = 0: copied.
            case(sums(&[255, -1, 0], 7), &[255, 0, 0], 7),
            // b = 9, s = 1: 511 rounds to 256 and is limited.
            case(sums(&[511, 3], 0), &[255, 2], 1),
            case(sums(&[i32::MAX, i32::MIN], 0), &[255, 0], 23),
            case(sums(&[-3, -4], 2), &[0, 0], 2),
            case(Tensor::i8_shared([4], vec![127, -128, 1, 0], -4), &[127, 0, 1, 0], -4),
            Case::new(op.clone(), vec![unsigned(&[255, 0, 7], 3)], vec![unsigned(&[255, 0, 7], 3)]),
            // M = 1: e = -8; 1 * 256 is limited.
            case(Tensor::f32([4], vec![1.0, -9.0, 0.5, f32::NAN]), &[255, 0, 128, 0], -8),
            // M = 3: e = -6.
            case(Tensor::f32([3], vec![3.0, 0.0234375, 0.0078125]), &[192, 2, 0], -6),
            case(Tensor::f32([2], vec![-1.0, -0.0]), &[0, 0], 0),
            case(Tensor::f32([2], vec![f32::INFINITY, f32::NEG_INFINITY]), &[255, 0], 120),
        ];
        for drop in [0, 8, 17, 22, 23, 24] {
            let x = sample::words(45).into_iter().map(|x| x >> drop).collect();
            cases.push(Case::shape_only(op.clone(), vec![Tensor::i32_shared([1, 5, 3, 3], x, -3)]));
        }
        // All that is above zero is at the limit, or rounds to it.
        let high = (0..45).map(|i| if i % 5 == 4 { i32::MIN + i } else { 1023 - i / 9 }).collect();
        cases.push(Case::shape_only(op.clone(), vec![Tensor::i32_shared([45], high, 0)]));
        for scale in [1.0, 1.0e-9, 1.0e-40, 1.0e28] {
            let x = sample::words(45).iter().map(|&x| x as f32 * scale).collect();
            cases.push(Case::shape_only(op.clone(), vec![Tensor::f32([5, 9], x)]));
        }
        cases
    }
}
