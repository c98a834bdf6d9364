//! `quantize_float`. See [`QuantizeFloat`].

use crate::attributes::Attributes;
use crate::loops::LoopKernel;
use crate::loops::builder::LoopBuilder;
use crate::numeric::dither::{Dither, DitherLoop};
use crate::numeric::small_float::FloatFormat;
use crate::ops::properties::{Examples, Work};
use crate::ops::support::{elementwise, sample};
use crate::ops::{Case, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;
use crate::{keyword_enum, operator};

keyword_enum! {
    /// Which of the two nearest numbers of a small format is taken.
    pub enum FloatRounding {
        /// The nearest, ties to an even number of steps.
        HalfEven = "half_even",
        /// By chance: `floor(|x| / step + u) * step`, u uniform in [0, 1).
        Stochastic = "stochastic",
        /// The one away from 0.
        Away = "away",
    }
}

operator! {
    /// FP32 to the numbers of a small float format ([`FloatFormat`]), held in FP32: to nearest, stochastically or away from 0.
    /// With `E = max(floor(log2 |x|), 1 - bias)` and `m` mantissa bits `step = 2^(E - m)`, so numbers below the normal ones stay;
    /// what is larger than the largest number becomes it, infinities too; zeros and NaN give +0.
    ///
    /// Stochastic: u is the upper 24 of an element's bits ([`crate::numeric::dither`]) by 2^24; the sum rounds to FP32.
    pub struct QuantizeFloat = "quantize_float" {
        /// The format, as `e5m2`.
        pub format: FloatFormat,
        /// To nearest, by chance, or away from 0.
        pub rounding: FloatRounding,
        /// Random stream of the rounding.
        pub stream: u32,
    }
}

impl Operator for QuantizeFloat {
    const WORK: Work = Work::Series;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        elementwise::infer_unary(Self::NAME, inputs)
    }

    fn evaluate(&self, inputs: &[&Tensor], run: &RunContext) -> Vec<Tensor> {
        let dither = Dither::new(run, self.stream);
        let round = |(i, &x): (usize, &f32)| match self.rounding {
            FloatRounding::HalfEven => self.format.nearest(x),
            FloatRounding::Stochastic => self.format.by_chance(x, dither.uniform(i)),
            FloatRounding::Away => self.format.away(x),
        };
        let data = inputs[0].as_f32().iter().enumerate().map(round).collect();
        vec![Tensor::f32(inputs[0].shape().clone(), data)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let stochastic = self.rounding == FloatRounding::Stochastic;
        let mut b = LoopBuilder::new(inputs, outputs, stochastic);
        let (x, y) = (b.input(0), b.output(0));
        let dither = stochastic.then(|| DitherLoop::new(&mut b, self.stream));
        b.for_("i", inputs[0].count(), |b, i| {
            let value = b.load(x, i.clone());
            let rounded = match (&dither, self.rounding) {
                (Some(dither), _) => {
                    let uniform = dither.uniform(b, i.clone());
                    self.format.by_chance_expression(b, value, uniform)
                }
                (None, FloatRounding::Away) => self.format.away_expression(b, value),
                (None, _) => self.format.nearest_expression(b, value),
            };
            b.store(y, i, rounded);
        });
        b.finish()
    }

    fn may_overwrite(&self, _operand: usize) -> bool {
        true
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        self.rounding != FloatRounding::Stochastic && operands.broadcast()
    }

    fn cases() -> Vec<Case> {
        let format = |e, m, bias, reserved| {
            FloatFormat::new(e, m, bias, reserved).expect("a format that there is")
        };
        let (fp8, fp16) = (format(5, 2, 15, 0), format(6, 9, 31, 0));
        let op = |format, rounding| QuantizeFloat { format, rounding, stream: 3 };
        let f32 = |x: &[f32]| Tensor::f32([x.len()], x.to_vec());
        let (nan, infinity) = (f32::NAN, f32::INFINITY);
        let mut cases = vec![
            // Steps of 1/4 above 1, of 1/2 above 2; ties to even; 7/4 * 2^16 is the largest.
            Case::new(
                op(fp8, FloatRounding::HalfEven),
                vec![f32(&[1.125, 1.375, -2.3, 3.75, 1.0e6, -infinity, nan, -0.0])],
                vec![f32(&[1.0, 1.5, -2.5, 4.0, 114_688.0, -114_688.0, 0.0, 0.0])],
            ),
            // Subnormal numbers are multiples of 2^-16.
            Case::new(
                op(fp8, FloatRounding::HalfEven),
                vec![f32(&[1.6e-5, 7.6e-6, 2.3e-5, -7.0e-6])],
                vec![f32(&[1.525_878_9e-5, 0.0, 3.051_757_8e-5, 0.0])],
            ),
            // 1024 + 1 lies halfway, 1024 + 3 too.
            Case::new(
                op(fp16, FloatRounding::HalfEven),
                vec![f32(&[1025.0, 1027.0, 1023.0, 0.1])],
                vec![f32(&[1024.0, 1028.0, 1023.0, 0.099_975_586])],
            ),
            // The OCP's E4M3: 448 is the largest.
            Case::new(
                op(format(4, 3, 7, 1), FloatRounding::HalfEven),
                vec![f32(&[447.0, 470.0, -1.0e9, 1.06])],
                vec![f32(&[448.0, 448.0, -448.0, 1.0])],
            ),
            // Scales of groups: 1, 1.5 or 2 by a power of two, never below.
            Case::new(
                op(format(7, 1, 126, 0), FloatRounding::Away),
                vec![f32(&[1.0, 0.76, 0.75, 0.51, 0.0, 1.0e-20])],
                vec![f32(&[1.0, 1.0, 0.75, 0.75, 0.0, 1.016_439_5e-20])],
            ),
            // What is a number of the format stays it.
            Case::new(
                op(fp8, FloatRounding::Stochastic),
                vec![f32(&[0.0, -1.25, 114_688.0, 1.525_878_9e-5, 3.0e38])],
                vec![f32(&[0.0, -1.25, 114_688.0, 1.525_878_9e-5, 114_688.0])],
            ),
        ];
        for rounding in [FloatRounding::HalfEven, FloatRounding::Stochastic, FloatRounding::Away] {
            cases.push(Case::shape_only(op(fp8, rounding), vec![elementwise::extreme_tensor()]));
            cases.push(Case::shape_only(op(fp16, rounding), vec![sample::f32([3, 67], 1)]));
            cases.push(Case::shape_only(op(format(2, 4, 4, 0), rounding), vec![sample::f32([5, 19], 2)]));
        }
        cases
    }
}
