//! `requantize_pseudo`. See [`RequantizePseudo`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::numeric::integer::{self, RightShift};
use crate::numeric::{self, Rounding};
use crate::operator;
use crate::ops::properties::{Property, Work};
use crate::ops::support::sample;
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::{Data, ScaleData, Tensor};
use crate::types::{Element, TensorType};

operator! {
    /// i32 with a shared exponent to i8 by the tensor's own bit width `b`, rounded pseudo-stochastically: shift right by
    /// `s = b - 7`, but by 2 where that is 1 (by 1 every odd number would go away from zero), clamp to +-127, exponent `e + s`;
    /// `s <= 0` copies (an 8-bit number has s = 1). Rescale of activations and errors in NITI's version of 2020.
    pub struct RequantizePseudo = "requantize_pseudo" {
    }
}

const ROUNDING: Rounding = Rounding::PseudoStochastic;

impl Operator for RequantizePseudo {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::IgnoresShape];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands(Self::NAME, inputs)?;
        rule::ensure(x.element == Element::I32 && x.is_shared_integer(), || {
            format!("{} takes i32<2^e>, here {x}", Self::NAME)
        })?;
        Ok(vec![x.with_element(Element::I8)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let x = inputs[0].as_i32();
        let largest = x.iter().map(|x| x.unsigned_abs()).max().unwrap_or(0);
        let s = match numeric::bit_width(largest).saturating_sub(7) {
            1 => 2,
            s => s,
        };
        let quantize = |&x: &i32| numeric::shift_right(x.into(), s, ROUNDING).clamp(-127, 127) as i8;
        let ty = inputs[0].ty().with_element(Element::I8);
        let exponent = inputs[0].exponent().wrapping_add(s as i32);
        vec![Tensor::new(ty, Data::I8(x.iter().map(quantize).collect()), ScaleData::Exponent(exponent))]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, y, count) = (b.input(0), b.output(0), inputs[0].count());
        let magnitudes = integer::magnitude_bits(&mut b, x, count);
        let excess = (integer::bit_width(magnitudes) - Expr::i32(7)).maximum(Expr::i32(0));
        let excess = b.let_("excess", excess);
        let one = excess.clone().equal(Expr::i32(1));
        let s = b.let_("s", one.select(Expr::i32(2), excess));
        let exponent = b.input_exponent(0) + s.clone();
        b.set_output_exponent(0, exponent);
        let shift = RightShift::run_time(&mut b, s, ROUNDING);
        b.for_("i", count, |b, i| {
            let x = b.load(x, i.clone());
            let q = shift.apply(b, x);
            b.store(y, i, integer::clamp(q, -127, 127));
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        let case = |x: &[i32], e: i32, y: &[i8], ye: i32| {
            let x = Tensor::i32_shared([x.len()], x.to_vec(), e);
            Case::new(RequantizePseudo {}, vec![x], vec![Tensor::i8_shared([y.len()], y.to_vec(), ye)])
        };
        let mut cases = vec![
            // s = 3.
            case(&[1000, 5, 6, -7, 3, 2, 4, -4], -5, &[125, 0, 1, -1, 0, 1, 1, -1], -2),
            // s = 1 becomes 2: of two bits, the upper is the probability, the lower the number: 2 goes up, 3 does not.
            case(&[128, 2, -2, 3, -3, 1, 7], 0, &[32, 1, -1, 0, 0, 0, 1], 2),
            case(&[127, -127, 5, 0], 9, &[127, -127, 5, 0], 9),
            case(&[0, 0], 4, &[0, 0], 4),
            case(&[], 4, &[], 4),
            case(&[i32::MIN, i32::MAX, 1 << 24], 0, &[-64, 64, 1], 25),
        ];
        for drop in [0, 8, 17, 23, 24] {
            let x = sample::words(45).into_iter().map(|x| x >> drop).collect();
            cases.push(Case::shape_only(
                RequantizePseudo {},
                vec![Tensor::i32_shared([1, 5, 3, 3], x, -3)],
            ));
        }
        cases
    }
}
