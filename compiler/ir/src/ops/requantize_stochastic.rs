//! `requantize_stochastic`. See [`RequantizeStochastic`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Buffer, Expr, LoopKernel, Unary};
use crate::numeric::dither::{self, Dither, DitherLoop, DitheredShift, DitheredHalves};
use crate::numeric::{self, exponent, integer};
use crate::operator;
use crate::ops::properties::{Property, Work};
use crate::ops::support::sample;
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::{Data, ScaleData, Tensor};
use crate::types::{Element, TensorType};

operator! {
    /// i32 with a shared exponent, or FP32, to i8 of 7 magnitude bits with a shared exponent, rounded stochastically:
    /// an error on its way back. The mean of the result is the operand (but for the clamp to +-127).
    ///
    /// i32: shift right by `s = max(b - 7, 0)`, b the bit width of max |x|; exponent `e + s`. FP32: with M the largest
    /// magnitude and `e = ceil(log2 M) - 7`, `x * 2^(16 - e)` truncated to an integer, then shifted right by 16; M = 0 gives
    /// exponent 0. Both shifts as in [`crate::numeric::dither::shift_right`]. NaN elements give 0 and do not count in M; an
    /// infinite M is taken as the largest finite FP32, and infinite elements give +-127.
    pub struct RequantizeStochastic = "requantize_stochastic" {
        /// Random stream of the rounding.
        pub stream: u32,
    }
}

impl RequantizeStochastic {
    /// Bits of an FP32 element below the unit that is kept.
    pub const FRACTION: i32 = 16;

    /// In loops: the shift of sums with that exponent, the bitwise or of whose magnitudes is as wide as `magnitudes`; sets the
    /// result's exponent.
    pub(crate) fn shift(b: &mut LoopBuilder, magnitudes: Expr, exponent: Expr) -> DitheredShift {
        let s = Self::amount(b, magnitudes, exponent);
        DitheredShift::new(b, s, false)
    }

    /// In loops: the amount of that shift; sets the result's exponent.
    pub(crate) fn amount(b: &mut LoopBuilder, magnitudes: Expr, exponent: Expr) -> Expr {
        let excess = integer::bit_width(magnitudes) - Expr::i32(7);
        let s = b.let_("s", excess.maximum(Expr::i32(0)));
        b.set_output_exponent(0, exponent + s.clone());
        s
    }

    /// In loops: the results of sums in a buffer, in halves of words where they are shifted by 16 bits at most.
    pub(crate) fn round_in_halves(
        &self,
        b: &mut LoopBuilder,
        sums: Buffer,
        count: usize,
        magnitudes: Expr,
        exponent: Expr,
    ) {
        let y = b.output(0);
        let dither = DitherLoop::new(b, self.stream);
        let s = Self::amount(b, magnitudes, exponent);
        b.if_else(
            s.clone().less(Expr::i32(DitheredHalves::MOST + 1)),
            |b| {
                let amount = b.let_("amount", s.clone().minimum(Expr::i32(DitheredHalves::MOST)));
                let shift = DitheredHalves::new(b, amount);
                b.for_("i", count, |b, i| {
                    let upper = dither.upper(b, i.clone());
                    let q = shift.apply(b.load(sums, i.clone()), upper);
                    b.store(y, i, integer::clamp(q, -127, 127));
                });
            },
            |b| {
                let shift = DitheredShift::new(b, s.clone(), false);
                b.for_("i", count, |b, i| {
                    let q = Self::rounded(b, &dither, &shift, b.load(sums, i.clone()), &i);
                    b.store(y, i, q);
                });
            },
        );
    }

    /// The loops of sums, in halves of words; `None` of FP32.
    pub(crate) fn lower_in_halves(
        &self,
        inputs: &[&TensorType],
        outputs: &[&TensorType],
    ) -> Option<LoopKernel> {
        if inputs[0].is_f32() {
            return None;
        }
        let mut b = LoopBuilder::new(inputs, outputs, true);
        let (x, count) = (b.input(0), inputs[0].count());
        let magnitudes = integer::magnitude_bits(&mut b, x, count);
        let exponent = b.input_exponent(0);
        self.round_in_halves(&mut b, x, count, magnitudes, exponent);
        Some(b.finish())
    }

    /// In loops: sum number `i` by that shift.
    pub(crate) fn rounded(
        b: &mut LoopBuilder,
        dither: &DitherLoop,
        shift: &DitheredShift,
        sum: Expr,
        i: &Expr,
    ) -> Expr {
        let bits = dither.bits(b, i.clone());
        let q = shift.apply(b, sum, bits);
        integer::clamp(q, -127, 127)
    }
}

impl Operator for RequantizeStochastic {
    const WORK: Work = Work::Series;
    const PROPERTIES: &'static [Property] = &[Property::RoundsSums];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands(Self::NAME, inputs)?;
        let sums = x.element == Element::I32 && x.is_shared_integer();
        rule::ensure(sums || x.is_f32(), || {
            format!("{} takes i32<2^e> or f32, here {x}", Self::NAME)
        })?;
        Ok(vec![TensorType::shared(x.shape.clone(), Element::I8)])
    }

    fn evaluate(&self, inputs: &[&Tensor], run: &RunContext) -> Vec<Tensor> {
        let dither = Dither::new(run, self.stream);
        let round = |(i, (x, s)): (usize, (i32, u32))| {
            dither::shift_right(x, s, dither.bits(i)).clamp(-127, 127) as i8
        };
        let (data, exponent): (Vec<i8>, i32) = match inputs[0].data() {
            Data::F32(x) => {
                let m = numeric::largest_finite(x);
                let exponent = if m == 0.0 { 0 } else { numeric::ceil_log2(m) - 7 };
                let fixed = |&x: &f32| {
                    (numeric::scale_by_power_of_two(x, RequantizeStochastic::FRACTION - exponent) as i32, RequantizeStochastic::FRACTION as u32)
                };
                (x.iter().map(fixed).enumerate().map(round).collect(), exponent)
            }
            _ => {
                let x = inputs[0].as_i32();
                let largest = x.iter().map(|x| x.unsigned_abs()).max().unwrap_or(0);
                let s = numeric::bit_width(largest).saturating_sub(7);
                let data = x.iter().map(|&x| (x, s)).enumerate().map(round).collect();
                (data, inputs[0].exponent().wrapping_add(s as i32))
            }
        };
        let ty = TensorType::shared(inputs[0].shape().clone(), Element::I8);
        vec![Tensor::new(ty, Data::I8(data), ScaleData::Exponent(exponent))]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, true);
        let (x, y, count) = (b.input(0), b.output(0), inputs[0].count());
        let dither = DitherLoop::new(&mut b, self.stream);
        if inputs[0].is_f32() {
            let m = exponent::largest_finite(&mut b, x, count);
            let log = exponent::ceil_log2(&mut b, m.clone());
            let e = m.equal(Expr::f32(0.0)).select(Expr::i32(0), log - Expr::i32(7));
            let e = b.let_("e", e);
            b.set_output_exponent(0, e.clone());
            let factors = exponent::power_of_two_factors(&mut b, Expr::i32(Self::FRACTION) - e);
            let shift = DitheredShift::new(&mut b, Expr::i32(Self::FRACTION), false);
            b.for_("i", count, |b, i| {
                let [first, second] = factors;
                let scaled = (b.load(x, i.clone()) * first) * second;
                let bits = dither.bits(b, i.clone());
                let q = shift.apply(b, scaled.unary(Unary::ToInteger), bits);
                b.store(y, i, integer::clamp(q, -127, 127));
            });
            return b.finish();
        }
        let magnitudes = integer::magnitude_bits(&mut b, x, count);
        let exponent = b.input_exponent(0);
        let shift = Self::shift(&mut b, magnitudes, exponent);
        b.for_("i", count, |b, i| {
            let q = Self::rounded(b, &dither, &shift, b.load(x, i.clone()), &i);
            b.store(y, i, q);
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        let op = RequantizeStochastic { stream: 5 };
        let sums = |data: Vec<i32>, e: i32| Tensor::i32_shared([data.len()], data, e);
        let exact = |x: Tensor, y: &[i8], e: i32| {
            Case::new(op.clone(), vec![x], vec![Tensor::i8_shared([y.len()], y.to_vec(), e)])
        };
        let mut cases = vec![
            // Nothing to round: at most 7 bits, or multiples of the unit.
            exact(sums(vec![127, -127, 5, 0], 9), &[127, -127, 5, 0], 9),
            exact(sums(vec![1 << 20, -(1 << 20), 1 << 14, 0], -3), &[64, -64, 1, 0], 11),
            exact(sums(vec![i32::MIN, 1 << 25], 0), &[-64, 1], 25),
            exact(sums(vec![0, 0], 4), &[0, 0], 4),
            exact(sums(vec![], 4), &[], 4),
            exact(Tensor::f32([4], vec![1.0, -0.5, 0.25, 0.0]), &[127, -64, 32, 0], -7),
            exact(Tensor::f32([3], vec![0.75, -0.5, f32::NAN]), &[96, -64, 0], -7),
            exact(Tensor::f32([2], vec![0.0, -0.0]), &[0, 0], 0),
            exact(Tensor::f32([2], vec![f32::INFINITY, 0.0]), &[127, 0], 121),
        ];
        for drop in [0, 8, 9, 17, 24] {
            let x = sample::words(45).into_iter().map(|x| x >> drop).collect();
            cases.push(Case::shape_only(op.clone(), vec![Tensor::i32_shared([1, 5, 3, 3], x, -3)]));
        }
        let floats = |scale: f32| sample::words(45).iter().map(|&x| x as f32 * scale).collect();
        for scale in [1.0, 1.0e-9, 1.0e-40, 1.0e28] {
            cases.push(Case::shape_only(op.clone(), vec![Tensor::f32([5, 9], floats(scale))]));
        }
        cases
    }
}
