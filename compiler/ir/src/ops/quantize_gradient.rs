//! `quantize_gradient`. See [`QuantizeGradient`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::numeric::integer::{self, RightShift};
use crate::numeric::{self, Rounding};
use crate::operator;
use crate::ops::properties::{Property, Work};
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::{Data, ScaleData, Tensor};
use crate::types::{Element, TensorType};

operator! {
    /// i32 or i8 with a shared exponent (a gradient that nothing summed stays i8) to i8 of at most `bits` magnitude bits, the second operand (an i32
    /// scalar, NITI's mu): `s = b - bits`; `b = 0` gives 0; `s < 1` clamps to +-127; else shift right by
    /// `s` with `rounding`, clamp to +-127. Exponent `e + max(s, 0)` (also for `b = 0`).
    pub struct QuantizeGradient = "quantize_gradient" {
        /// Rounding of the shift.
        pub rounding: Rounding,
    }
}

impl Operator for QuantizeGradient {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::ContinuesChain];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x, bits] = rule::operands(Self::NAME, inputs)?;
        let sums = matches!(x.element, Element::I8 | Element::I32) && x.is_shared_integer();
        rule::ensure(sums, || format!("{} takes i8<2^e> or i32<2^e>, here {x}", Self::NAME))?;
        rule::ensure(bits == &TensorType::new([], Element::I32), || {
            format!("{} takes its number of bits as i32[], here {bits}", Self::NAME)
        })?;
        Ok(vec![x.with_element(Element::I8)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let x = inputs[0].to_i64();
        let largest = x.iter().map(|x| x.unsigned_abs()).max().unwrap_or(0) as u32;
        let bits = i64::from(inputs[1].as_i32()[0]);
        let s = (i64::from(numeric::bit_width(largest)) - bits).max(0);
        // At most 32 + 2^31.
        let quantize =
            |x: i64| numeric::saturate_i8(numeric::shift_right(x, s as u32, self.rounding));
        let ty = inputs[0].ty().with_element(Element::I8);
        let data = Data::I8(x.iter().map(|&x| quantize(x)).collect());
        let exponent = inputs[0].exponent().wrapping_add(s as i32);
        vec![Tensor::new(ty, data, ScaleData::Exponent(exponent))]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, y, count) = (b.input(0), b.output(0), inputs[0].count());
        let magnitudes = integer::magnitude_bits(&mut b, x, count);
        let width = integer::bit_width(magnitudes).extend();
        let bits = b.load(b.input(1), Expr::i64(0)).extend();
        let s = b.let_("s", (width - bits).maximum(Expr::i64(0)));
        let exponent = b.input_exponent(0) + s.clone().truncate();
        b.set_output_exponent(0, exponent);
        let shift = RightShift::wide(&mut b, s, self.rounding);
        b.for_("i", count, |b, i| {
            let x = b.load(x, i.clone());
            let q = shift.apply(b, x);
            b.store(y, i, integer::clamp(q, -127, 127));
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        use Rounding::PseudoStochastic;
        let case = |x: &[i32], e: i32, mu: i32, y: &[i8], ye: i32| {
            let op = QuantizeGradient { rounding: PseudoStochastic };
            let x = Tensor::i32_shared([x.len()], x.to_vec(), e);
            let y = Tensor::i8_shared([y.len()], y.to_vec(), ye);
            Case::new(op, vec![x, Tensor::i32([], vec![mu])], vec![y])
        };
        let x = [100, -100, 37, 0];
        let mut cases = vec![
            // b = 7: s = 0, 2, 4, 7, 8, 10.
            case(&x, -9, 7, &[100, -100, 37, 0], -9),
            case(&x, -9, 5, &[25, -25, 9, 0], -7),
            case(&x, -9, 3, &[7, -7, 2, 0], -5),
            case(&x, -9, 0, &[1, -1, 0, 0], -2),
            case(&x, -9, -1, &[1, -1, 0, 0], -1),
            case(&x, -9, -3, &[0, 0, 0, 0], 1),
            // s < 1 clamps.
            case(&[300, -128, 127], 0, 9, &[127, -127, 127], 0),
            case(&[300, -300], 0, i32::MAX, &[127, -127], 0),
            // b = 0.
            case(&[0, 0], 5, 5, &[0, 0], 5),
            case(&[0, 0], 5, -3, &[0, 0], 8),
            case(&[], 5, 0, &[], 5),
            // The magnitude 2^31, b = 32: s = 27; 63, where q = 1 > r = 0; 64, where q = 0.
            case(&[i32::MIN], 0, 5, &[-16], 27),
            case(&[i32::MIN], 0, -31, &[-1], 63),
            case(&[i32::MIN], 0, -32, &[0], 64),
            // b = 31, s = 39: q = 4095, r = 2 (2^19 - 1); s = 31 + 2^31 wraps into the exponent.
            case(&[i32::MAX], 0, -8, &[0], 39),
            case(&[i32::MAX, 1, -1], 0, i32::MIN, &[0, 0, 0], i32::MIN + 31),
            // Powers of two, b = 9, mu = 5, s = 4: 255 = 15 * 16 + 15: q = 3, r = 3.
            case(&[256, 255, 257, -255, 8, 4], 0, 5, &[16, 15, 16, -15, 1, 1], 4),
        ];
        // An i8: b = 8, s = 3: 100 = 12 * 8 + 4, q = 2, r = 0; s = 9: 128 has q = 8, r = 0, 100 has q = 6, r = 2 * 4.
        for (mu, y, ye) in [(5, [-16, 13, 0], 3), (-1, [-1, 0, 0], 9)] {
            let op = QuantizeGradient { rounding: PseudoStochastic };
            let x = Tensor::i8_shared([3], vec![-128, 100, 1], 0);
            let y = Tensor::i8_shared([3], y.to_vec(), ye);
            cases.push(Case::new(op, vec![x, Tensor::i32([], vec![mu])], vec![y]));
        }
        let pattern: Vec<i32> =
            (0..33).map(|i: i32| i.wrapping_mul(0x4b1d_93a7) >> (i % 9)).collect();
        for mu in [-40, -31, -30, -12, -3, -1, 0, 3, 5, 7] {
            for rounding in Rounding::ALL {
                let x = Tensor::i32_shared([3, 11], pattern.clone(), 2);
                let bits = Tensor::i32([], vec![mu]);
                let narrow = pattern.iter().map(|&x| x as i8).collect();
                let narrow = Tensor::i8_shared([3, 11], narrow, 2);
                cases.push(Case::shape_only(
                    QuantizeGradient { rounding: *rounding },
                    vec![narrow, bits.clone()],
                ));
                cases.push(Case::shape_only(
                    QuantizeGradient { rounding: *rounding },
                    vec![x, bits],
                ));
            }
        }
        cases
    }
}
