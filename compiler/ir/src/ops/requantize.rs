//! `requantize`. See [`Requantize`].

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
    /// i32 with a shared exponent to i8 by the tensor's own bit width `b = 32 - clz(max |x|)`: shift right
    /// by `s = b - bits` with `rounding`, clamp to `[low, 127]`, exponent `e + s`; `s <= 0` only clamps,
    /// exponent `e`.
    /// NITI's rescale of activations and errors.
    pub struct Requantize = "requantize" {
        /// Magnitude bits kept: 7 for i8.
        pub bits: u8,
        /// Rounding of the shift.
        pub rounding: Rounding,
        /// Lower clamp: -127, or 0 where a ReLU was fused.
        pub low: i8,
    }
}

impl Requantize {
    /// In loops: the shift of sums with that exponent, the bitwise or of whose magnitudes is as wide as `magnitudes`; sets the
    /// result's exponent.
    pub(crate) fn shift(&self, b: &mut LoopBuilder, magnitudes: Expr, exponent: Expr) -> Expr {
        let excess = integer::bit_width(magnitudes) - Expr::i32(self.bits.into());
        let s = b.let_("s", excess.maximum(Expr::i32(0)));
        b.set_output_exponent(0, exponent + s.clone());
        s
    }

    /// In loops: a shifted sum within the range of the result.
    pub(crate) fn clamped(&self, q: Expr) -> Expr {
        integer::clamp(q, self.low.into(), 127)
    }
}

impl Operator for Requantize {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::ContinuesChain, Property::RoundsSums, Property::IgnoresShape];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands(Self::NAME, inputs)?;
        rule::ensure(x.element == Element::I32 && x.is_shared_integer(), || {
            format!("{} takes i32<2^e>, here {x}", Self::NAME)
        })?;
        rule::ensure((1..=7).contains(&self.bits), || {
            format!("{} keeps 1 to 7 bits, here {}", Self::NAME, self.bits)
        })?;
        rule::ensure((-127..=0).contains(&self.low), || {
            format!("{} clamps below at -127 to 0, here {}", Self::NAME, self.low)
        })?;
        Ok(vec![x.with_element(Element::I8)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let x = inputs[0].as_i32();
        let largest = x.iter().map(|x| x.unsigned_abs()).max().unwrap_or(0);
        let s = numeric::bit_width(largest).saturating_sub(self.bits.into());
        let quantize = |x: i32| {
            numeric::shift_right(x.into(), s, self.rounding).clamp(self.low.into(), 127) as i8
        };
        let ty = inputs[0].ty().with_element(Element::I8);
        let data = Data::I8(x.iter().map(|&x| quantize(x)).collect());
        let exponent = inputs[0].exponent().wrapping_add(s as i32);
        vec![Tensor::new(ty, data, ScaleData::Exponent(exponent))]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, y, count) = (b.input(0), b.output(0), inputs[0].count());
        let magnitudes = integer::magnitude_bits(&mut b, x, count);
        let exponent = b.input_exponent(0);
        let s = self.shift(&mut b, magnitudes, exponent);
        let shift = RightShift::run_time(&mut b, s, self.rounding);
        b.for_("i", count, |b, i| {
            let x = b.load(x, i.clone());
            let q = shift.apply(b, x);
            b.store(y, i, self.clamped(q));
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        use Rounding::{Floor, HalfAway, PseudoStochastic, Truncate};
        let case = |op: (u8, Rounding, i8), x: &[i32], e: i32, y: &[i8], ye: i32| {
            let op = Requantize { bits: op.0, rounding: op.1, low: op.2 };
            let x = Tensor::i32_shared([x.len()], x.to_vec(), e);
            Case::new(op, vec![x], vec![Tensor::i8_shared([y.len()], y.to_vec(), ye)])
        };
        let nearest = (7, HalfAway, -127);
        let pseudo = (7, PseudoStochastic, -127);
        let mut cases = vec![
            // b = 10, s = 3.
            case(nearest, &[1000, -1000, 4, -4, 3, 0, 127], -5, &[125, -125, 1, -1, 0, 0, 16], -2),
            case(
                pseudo,
                &[1000, 5, 6, -7, 3, 2, 4, -4],
                -5,
                &[125, 0, 1, -1, 0, 1, 1, -1],
                -2,
            ),
            case((7, Truncate, -127), &[1000, -1000, 7, -7], 0, &[125, -125, 0, 0], 3),
            case((7, Floor, -127), &[1000, -1001, 7, -7], 0, &[125, -126, 0, -1], 3),
            case((7, HalfAway, 0), &[-1000, 999, -4, 4], 0, &[0, 125, 0, 1], 3),
            // b = 10, bits = 4, s = 6.
            case((4, HalfAway, -127), &[1000, -96, 95, 31, -32], 1, &[16, -2, 1, 0, -1], 7),
            // s <= 0: copied; -128 has 8 bits.
            case(nearest, &[127, -127, 5, 0], 9, &[127, -127, 5, 0], 9),
            case(nearest, &[0, 0, 0], 4, &[0, 0, 0], 4),
            case(nearest, &[], 4, &[], 4),
            case((7, HalfAway, 0), &[127, -127], -3, &[127, 0], -3),
            // b = 8, s = 1: 255 rounds to 128 and clamps.
            case(nearest, &[128, 127, -128, 1], 0, &[64, 64, -64, 1], 1),
            case(nearest, &[255, -255], 0, &[127, -127], 1),
            // b = 32 and 31: s = 25 and 24.
            case(nearest, &[i32::MIN, i32::MAX, 1 << 24], 0, &[-64, 64, 1], 25),
            // 2^31 - 1 with s = 25: q = 2^13 - 1, r = 2 (2^12 - 1).
            case(pseudo, &[i32::MIN, i32::MAX, 1 << 24], 0, &[-64, 64, 1], 25),
            case(nearest, &[i32::MAX, -i32::MAX, (1 << 23) - 1], 0, &[127, -127, 0], 24),
            case((1, Truncate, -127), &[i32::MIN, i32::MAX], 0, &[-1, 0], 31),
            case((1, PseudoStochastic, -127), &[i32::MIN, i32::MAX], 0, &[-1, 1], 31),
        ];
        // A shift by 25 of more than one word of bytes.
        cases.push(Case::shape_only(
            Requantize { bits: 7, rounding: HalfAway, low: -127 },
            vec![sample::shared([45], Element::I32, 1, 0)],
        ));
        let pattern: Vec<i32> =
            (0..45).map(|i: i32| i.wrapping_mul(0x4b1d_93a7) >> (i % 9)).collect();
        for drop in [0, 8, 17, 22, 23, 24] {
            let x = pattern.iter().map(|x| x >> drop).collect();
            let op = Requantize { bits: 7, rounding: HalfAway, low: 0 };
            cases.push(Case::shape_only(op, vec![Tensor::i32_shared([1, 5, 3, 3], x, -3)]));
            for rounding in Rounding::ALL {
                let x = pattern.iter().map(|x| x >> drop).collect();
                cases.push(Case::shape_only(
                    Requantize { bits: 7, rounding: *rounding, low: -127 },
                    vec![Tensor::i32_shared([1, 5, 3, 3], x, -3)],
                ));
            }
        }
        cases
    }
}
