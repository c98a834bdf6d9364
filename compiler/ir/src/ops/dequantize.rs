//! `dequantize`. See [`Dequantize`].

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
    /// Integers with a shared exponent to FP32: `q * 2^e` (the nearest FP32, ties to even;
    /// infinite beyond the range, -0 where a negative number vanishes).
    pub struct Dequantize = "dequantize" {
    }
}

impl Dequantize {
    /// The FP32 nearest to a 32-bit integer times `2^e`, `e` a value of -400 to 400: the integer is rounded to the bits that the
    /// result keeps (24, fewer if it is subnormal).
    pub fn nearest(b: &mut LoopBuilder, q: Expr, e: &Expr, unsigned: bool) -> Expr {
        let negative = if unsigned { None } else { Some(q.clone().less(Expr::i32(0))) };
        let m = if unsigned { q } else { integer::magnitude(q) };
        let m = b.let_("m", m);
        let excess = integer::bit_width(m.clone()) - Expr::i32(24);
        let excess = excess.maximum(Expr::i32(-149) - e.clone()).maximum(Expr::i32(0));
        let excess = b.let_("excess", excess);
        let kept = {
            // Ties to even: add half a unit less one, plus the last kept bit.
            let s = b.let_("s", excess.clone().minimum(Expr::i32(40)).extend());
            let m = b.let_("wide", m.unary(Unary::ExtendUnsigned));
            let last = m.clone().shr_unsigned(s.clone()).and(Expr::i64(1));
            let half = Expr::i64(1).shift_left(s.clone()).shr_unsigned(Expr::i64(1));
            let rounds = s.clone().not_equal(Expr::i64(0));
            let bias = rounds.select(half - Expr::i64(1) + last, Expr::i64(0));
            (m + bias).shr_unsigned(s).truncate().unary(Unary::ToFloat)
        };
        let [first, second] = exponent::power_of_two_factors(b, e.clone() + excess);
        let result = b.let_("result", kept * first * second);
        match negative {
            Some(negative) => negative.select(result.clone().unary(Unary::Negate), result),
            None => result,
        }
    }
}

impl Operator for Dequantize {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::IgnoresShape];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands(Self::NAME, inputs)?;
        rule::ensure(x.is_shared_integer() && x.element != Element::B1, || {
            format!("{} takes integers with a shared exponent, here {x}", Self::NAME)
        })?;
        Ok(vec![TensorType::f32(x.shape.clone())])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        // f64 holds q * 2^e exactly for these exponents; beyond them the result is 0 or infinite. One rounding.
        let scale = 2f64.powi(inputs[0].exponent().clamp(-400, 400));
        let data = inputs[0].to_i64().iter().map(|&q| (q as f64 * scale) as f32).collect();
        vec![Tensor::f32(inputs[0].shape().clone(), data)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, y, count) = (b.input(0), b.output(0), inputs[0].count());
        let e = b.input_exponent(0);
        if inputs[0].element.bits() <= 16 {
            // q is exact in FP32, so only the last product rounds.
            let [first, second] = exponent::power_of_two_factors(&mut b, e);
            b.for_("i", count, |b, i| {
                let q = b.load(x, i.clone()).unary(Unary::ToFloat);
                b.store(y, i, q * first * second);
            });
            return b.finish();
        }
        let e = b.let_("e", integer::clamp(e, -400, 400));
        let unsigned = inputs[0].element == Element::U32;
        let rounded = |b: &mut LoopBuilder| {
            b.for_("i", count, |b, i| {
                let q = b.load(x, i.clone());
                let q = b.let_("q", q);
                let result = Dequantize::nearest(b, q, &e, unsigned);
                b.store(y, i, result);
            });
        };
        if unsigned {
            rounded(&mut b);
            return b.finish();
        }
        // No result is below the normal numbers or, as a magnitude is at most 2^31, beyond the largest: the conversion rounds, the
        // product is exact.
        let lowest = Expr::i32(-126).less_equal(e.clone());
        let normal = lowest.and(e.clone().less_equal(Expr::i32(127 - 31)));
        b.if_else(
            normal,
            |b| {
                let [unit, _] = exponent::power_of_two_factors(b, e.clone());
                b.for_("i", count, |b, i| {
                    let q = b.load(x, i.clone()).unary(Unary::ToFloat);
                    b.store(y, i, q * unit.clone());
                });
            },
            rounded,
        );
        b.finish()
    }

    fn cases() -> Vec<Case> {
        let narrow = |q: &[i8], e: i32, x: &[f32]| {
            let q = Tensor::i8_shared([q.len()], q.to_vec(), e);
            Case::new(Dequantize {}, vec![q], vec![Tensor::f32([x.len()], x.to_vec())])
        };
        let wide = |q: &[i32], e: i32, x: &[f32]| {
            let q = Tensor::i32_shared([q.len()], q.to_vec(), e);
            Case::new(Dequantize {}, vec![q], vec![Tensor::f32([x.len()], x.to_vec())])
        };
        let unsigned = Tensor::new(
            TensorType::shared([3], Element::U32),
            Data::U32(vec![u32::MAX, 1 << 31, 3]),
            ScaleData::Exponent(-1),
        );
        let (infinity, tiny) = (f32::INFINITY, f32::from_bits);
        let two = |e: i32| numeric::power_of_two(e);
        let mut cases = vec![
            narrow(&[-128, 127, 0, 1], -7, &[-1.0, 0.992_187_5, 0.0, 0.007_812_5]),
            // Subnormal results: 2^-149; at e = -150 ties of 1/2, 3/2 and 5/2 units.
            narrow(&[1, -3], -149, &[tiny(1), -tiny(3)]),
            narrow(&[1, 3, 5, -1], -150, &[0.0, tiny(2), tiny(2), -0.0]),
            narrow(&[1, -1], 127, &[two(127), -two(127)]),
            narrow(&[2, -2, 0], 127, &[infinity, -infinity, 0.0]),
            narrow(&[1, -1, 0], i32::MIN, &[0.0, -0.0, 0.0]),
            narrow(&[1, -1, 0], i32::MAX, &[infinity, -infinity, 0.0]),
            // 2^24 + 1 and + 3 are ties; the ends of i32.
            wide(&[16_777_217, 16_777_219, -16_777_217], 0, &[16_777_216.0, 16_777_220.0, -16_777_216.0]),
            wide(&[i32::MIN, i32::MAX, 0], -31, &[-1.0, 1.0, 0.0]),
            // 2^30 + 256 + 127 in units of 2^8: 2^22 + 1 + 127/256, one rounding gives 2^22 + 1 (two would not).
            wide(&[(1 << 30) + 256 + 127], -157, &[tiny((1 << 22) + 1)]),
            wide(&[(1 << 30) + 256 + 128, (1 << 30) + 128], -157, &[tiny((1 << 22) + 2), tiny(1 << 22)]),
            wide(&[i32::MIN, i32::MAX, 1], -180, &[-tiny(1), tiny(1), 0.0]),
            wide(&[i32::MIN, 3 << 29, 1 << 30], -181, &[-0.0, 0.0, 0.0]),
            wide(&[i32::MAX, i32::MIN, 1, 0], 97, &[infinity, -infinity, two(97), 0.0]),
            wide(&[i32::MIN], 96, &[-two(127)]),
            wide(&[1, -1, 0], i32::MIN, &[0.0, -0.0, 0.0]),
            wide(&[1, -1, 0], i32::MAX, &[infinity, -infinity, 0.0]),
            Case::new(
                Dequantize {},
                vec![unsigned],
                vec![Tensor::f32([3], vec![two(31), two(30), 1.5])],
            ),
        ];
        for e in [-170, -160, -150, -130, -126, -40, 96, 100] {
            let pattern = (0..35).map(|i: i32| i.wrapping_mul(0x4b1d_93a7) >> (i % 9)).collect();
            cases.push(Case::shape_only(
                Dequantize {},
                vec![Tensor::i32_shared([5, 7], pattern, e)],
            ));
        }
        cases
    }
}
