//! `requantize_adaptive`. See [`RequantizeAdaptive`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::numeric::integer::{self, RightShift};
use crate::numeric::{self, Rounding};
use crate::operator;
use crate::ops::properties::{Property, Work};
use crate::ops::support::shift_state;
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::{Data, ScaleData, Tensor};
use crate::types::{Element, TensorType};

operator! {
    /// `requantize` by a shift that is kept between steps, looked at anew when it is due. Operands: `x`, i32 with a shared exponent `e`,
    /// and the state, FP32 numbers of which `shift_schedule` says what they are: `left` and `shift` count here.
    ///
    /// Where `left <= 0`, `s = max(b - bits, 0)` of the bit width `b = 32 - clz(max |x|)`; elsewhere s is `shift`, toward 0 and
    /// between 0 and `32 - bits`, and no magnitude is asked for. Either way `x` is shifted right by s with `rounding` and clamped to
    /// `[low, 127]`: what grew beyond the kept shift saturates. Exponent `e + s`.
    ///
    /// The state is an operand, so that whether a step looks is a condition inside of one kernel, on any target.
    /// Xu et al., Mandheling (MobiCom 2022), section 3.3.
    pub struct RequantizeAdaptive = "requantize_adaptive" {
        /// Magnitude bits kept: 7 for i8.
        pub bits: u8,
        /// Rounding of the shift.
        pub rounding: Rounding,
        /// Lower clamp: -127, or 0 where a ReLU was fused.
        pub low: i8,
    }
}

/// The shift that a state of `shift_schedule` keeps for this step; `None` if the step looks at the width.
pub fn kept_shift(state: &[f32], bits: u8) -> Option<u32> {
    (!shift_state::due(state)).then(|| shift_state::kept(state, bits))
}

impl Operator for RequantizeAdaptive {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::ContinuesChain, Property::EndsChain];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x, state] = rule::operands(Self::NAME, inputs)?;
        rule::ensure(x.element == Element::I32 && x.is_shared_integer(), || {
            format!("{} takes i32<2^e>, here {x}", Self::NAME)
        })?;
        shift_state::check(Self::NAME, state)?;
        rule::ensure((1..=7).contains(&self.bits), || {
            format!("{} keeps 1 to 7 bits, here {}", Self::NAME, self.bits)
        })?;
        rule::ensure((-127..=0).contains(&self.low), || {
            format!("{} clamps below at -127 to 0, here {}", Self::NAME, self.low)
        })?;
        Ok(vec![x.with_element(Element::I8)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (x, state) = (inputs[0].as_i32(), inputs[1].as_f32());
        let s = kept_shift(state, self.bits).unwrap_or_else(|| {
            let largest = x.iter().map(|x| x.unsigned_abs()).max().unwrap_or(0);
            numeric::bit_width(largest).saturating_sub(self.bits.into())
        });
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
        let (x, state, y, count) = (b.input(0), b.input(1), b.output(0), inputs[0].count());
        let kept = shift_state::lower_kept(&mut b, state, self.bits);
        let s = b.local("s", kept);
        let due = shift_state::lower_due(&b, state);
        b.if_(due, |b| {
            let magnitudes = integer::magnitude_bits(b, x, count);
            let excess = integer::bit_width(magnitudes) - Expr::i32(self.bits.into());
            b.set(s, excess.maximum(Expr::i32(0)));
        });
        let s = b.get(s);
        let exponent = b.input_exponent(0) + s.clone();
        b.set_output_exponent(0, exponent);
        let shift = RightShift::run_time(&mut b, s, self.rounding);
        b.for_("i", count, |b, i| {
            let x = b.load(x, i.clone());
            let q = shift.apply(b, x);
            b.store(y, i, integer::clamp(q, self.low.into(), 127));
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        use Rounding::{Floor, HalfAway, PseudoStochastic, Truncate};
        let f32 = |x: &[f32]| Tensor::f32([x.len()], x.to_vec());
        let case = |op: (u8, Rounding, i8), x: &[i32], state: &[f32], y: &[i8], s: i32| {
            let op = RequantizeAdaptive { bits: op.0, rounding: op.1, low: op.2 };
            let x = Tensor::i32_shared([x.len()], x.to_vec(), -5);
            let y = Tensor::i8_shared([y.len()], y.to_vec(), s - 5);
            Case::new(op, vec![x, f32(state)], vec![y])
        };
        let nearest = (7, HalfAway, -127);
        let (now, later) = ([0.0, 9.0, 1.0, 0.0], [1.0, 3.0, 2.0, 2.0]);
        let x = [1000, -1000, 4, -4, 3, 0, 127];
        let mut cases = vec![
            // Due: b = 10, s = 3, whatever was kept.
            case(nearest, &x, &now, &[125, -125, 1, -1, 0, 0, 16], 3),
            case(nearest, &x, &[-2.0, 3.0, 1.0, 0.0], &[125, -125, 1, -1, 0, 0, 16], 3),
            // Not due: s = 3 is kept; of larger numbers it saturates, of smaller ones bits are lost.
            case(nearest, &x, &later, &[125, -125, 1, -1, 0, 0, 16], 3),
            case(nearest, &[5000, -5000, 1016, -1020], &later, &[127, -127, 127, -127], 3),
            case(nearest, &[40, -36, 3], &later, &[5, -5, 0], 3),
            case((7, HalfAway, 0), &[5000, -5000, 4, -4], &later, &[127, 0, 1, 0], 3),
            case((7, Truncate, -127), &[1023, -1023, 7], &later, &[127, -127, 0], 3),
            case((7, Floor, -127), &[-1, -9, 1040], &later, &[-1, -2, 127], 3),
            // s = 3: q = 2 bits of the remainder's upper half against 2 lower ones.
            case((7, PseudoStochastic, -127), &[6, -7, 3, 2, 4], &later, &[1, -1, 0, 1, 1], 3),
            // Shifts that no schedule gives: of 0, below it, of a fraction, past the width, of no number.
            case(nearest, &[200, -300, 5], &[1.0, 0.0, 1.0, 1.0], &[127, -127, 5], 0),
            case(nearest, &[200, -300, 5], &[1.0, -4.0, 1.0, 1.0], &[127, -127, 5], 0),
            case(nearest, &[200, -300, 5], &[1.0, 1.9, 1.0, 1.0], &[100, -127, 3], 1),
            case(nearest, &[i32::MIN, i32::MAX, 1 << 29], &[1.0, 77.0, 1.0, 1.0], &[-64, 64, 16], 25),
            case((1, Truncate, -127), &[i32::MIN, i32::MAX, -5], &[1.0, 77.0, 1.0, 1.0], &[-1, 0, 0], 31),
            case(nearest, &[200, 5], &[1.0, f32::NAN, 1.0, 1.0], &[127, 5], 0),
            // `left` that is no number: not due.
            case(nearest, &[1000], &[f32::NAN, 1.0, 1.0, 1.0], &[127], 1),
            case(nearest, &[0, 0], &now, &[0, 0], 0),
            case(nearest, &[], &now, &[], 0),
            case(nearest, &[], &later, &[], 3),
            case(nearest, &[i32::MIN, i32::MAX, 1 << 24], &now, &[-64, 64, 1], 25),
            case(nearest, &[i32::MIN, i32::MAX, -(1 << 24)], &later, &[-127, 127, -127], 3),
        ];
        let pattern: Vec<i32> =
            (0..45).map(|i: i32| i.wrapping_mul(0x4b1d_93a7) >> (i % 9)).collect();
        for (state, drop) in [(&now, 0), (&later, 17), (&[5.0, 20.0, 6.0, 6.0], 2)] {
            for rounding in Rounding::ALL {
                let x = pattern.iter().map(|x| x >> drop).collect();
                cases.push(Case::shape_only(
                    RequantizeAdaptive { bits: 7, rounding: *rounding, low: -127 },
                    vec![Tensor::i32_shared([1, 5, 3, 3], x, -3), f32(state)],
                ));
            }
        }
        cases
    }
}
