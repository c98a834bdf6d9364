//! `integer_batch_norm`. See [`IntegerBatchNorm`].

use crate::attributes::{Attributes, F32};
use crate::loops::LoopKernel;
use crate::loops::builder::LoopBuilder;
use crate::operator;
use crate::ops::integer_batch_statistics::channels_of_codes;
use crate::ops::properties::{Property, Work};
use crate::ops::support::channel_lines::{self, LaneWidths, Line, Lines, RoundedSums};
use crate::ops::support::channels::{ChannelWalk, Channels};
use crate::ops::support::sample;
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Element, TensorType};

operator! {
    /// `batch_norm` of i8 `[B,C,...]` with a shared exponent by integers: one multiplication and one addition of an element, with
    /// coefficients that are made in FP32, once a channel. Operands: `x`, `scale` `[C]`, `bias` `[C]`, `mean` `[C]`, `inverse` `[C]`
    /// (FP32; the latter of `inverse_deviation`). Result: i32 sums with a shared exponent.
    ///
    /// Order: `a = scale * inverse`, `r = bias - mean * a`. With ex the exponent of `x` and
    /// `|v|` the smallest power of two's logarithm not below the largest finite magnitude (-149 if there is none), the result's
    /// exponent is `s = max(ex + |a| - 15, |r| - 30)`; `a' = a * 2^(ex - s)` and `r' = r * 2^-s` to nearest, ties to even, within
    /// +-(2^15 - 1) and +-2^30; the sums are `a'[c] * x + r'[c]`.
    pub struct IntegerBatchNorm = "integer_batch_norm" {
    }
}

/// Checks an epsilon.
pub(super) fn check_epsilon(name: &str, epsilon: F32) -> Result<(), TypeError> {
    let epsilon = epsilon.get();
    rule::ensure(epsilon.is_finite() && epsilon >= 0.0, || {
        format!("{name}: epsilon must be finite and not negative, here {epsilon}")
    })
}

impl IntegerBatchNorm {
    fn with_lines<R>(&self, sizes: Channels, walk: ChannelWalk, f: impl FnOnce(&Lines<'_, 1>) -> R) -> R {
        let line = |b: &mut LoopBuilder, c: &crate::loops::Expr| {
            let slope = b.load(b.input(1), c.clone()) * b.load(b.input(4), c.clone());
            let slope = b.let_("slope", slope);
            let offset = b.load(b.input(2), c.clone()) - b.load(b.input(3), c.clone()) * slope.clone();
            Line { factors: [slope], offset }
        };
        f(&Lines { sizes, walk, operands: [0], line: &line })
    }

    /// The loops of this operation and, if there is one, of a rounding of its sums.
    pub(crate) fn lower_along(
        &self,
        inputs: &[&TensorType],
        outputs: &[&TensorType],
        rounding: Option<(RoundedSums<'_>, LaneWidths)>,
        walk: ChannelWalk,
    ) -> LoopKernel {
        let sizes = Channels::of(Self::NAME, inputs[0]).expect("checked by infer");
        let draws = rounding.is_some_and(|(rounding, _)| rounding.draws());
        let mut b = LoopBuilder::new(inputs, outputs, draws);
        self.with_lines(sizes, walk, |lines| match rounding {
            None => lines.lower(&mut b),
            Some((rounding, lanes)) => lines.lower_rounded(&mut b, rounding, lanes),
        });
        b.finish()
    }
}

impl Operator for IntegerBatchNorm {
    const WORK: Work = Work::Strides;
    const PROPERTIES: &'static [Property] = &[Property::SumsOfCodes];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x, vectors @ ..] = rule::operands::<5>(Self::NAME, inputs)?;
        let sizes = channels_of_codes(Self::NAME, x)?;
        rule::all_f32(Self::NAME, &vectors)?;
        sizes.check(Self::NAME, &vectors)?;
        Ok(vec![x.with_element(Element::I32)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let sizes = Channels::of(Self::NAME, inputs[0].ty()).expect("checked by infer");
        let [scale, bias, mean, inverse] = [1, 2, 3, 4].map(|i| inputs[i].as_f32());
        let line = |c: usize| {
            let slope = scale[c] * inverse[c];
            Line { factors: [slope], offset: bias[c] - mean[c] * slope }
        };
        let lines: Vec<Line<1, f32>> = (0..sizes.channels).map(line).collect();
        vec![channel_lines::evaluate(sizes, [inputs[0]], &lines)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        self.lower_along(inputs, outputs, None, ChannelWalk::Channels)
    }

    fn cases() -> Vec<Case> {
        let vector = |values: &[f32]| Tensor::f32([values.len()], values.to_vec());
        let mut cases = vec![
            // Channel 0: (x - 1) * 1.5, a = 1.5, r = -1.5; channel 1: x / 4 * 2, a = 0.5, r = 0. With codes of halves
            // s = max(-1 + 1 - 15, 1 - 30): a' = 1.5 * 2^14, 2^13; r' = -1.5 * 2^15.
            Case::new(
                IntegerBatchNorm {},
                vec![
                    Tensor::i8_shared([2, 2, 1], vec![10, 16, 2, -4], -1),
                    vector(&[3.0, 2.0]),
                    vector(&[0.0, 0.0]),
                    vector(&[1.0, 0.0]),
                    vector(&[0.5, 0.25]),
                ],
                vec![Tensor::i32_shared([2, 2, 1], vec![196_608, 131_072, 0, -32_768], -15)],
            ),
        ];
        for (shape, e) in [(&[3, 5][..], -7), (&[2, 5, 7], 3), (&[3, 5, 3, 7], -9), (&[1, 5, 40], 120), (&[1, 5, 2], i32::MIN), (&[1, 5, 2], i32::MAX), (&[2, 5, 128], -7), (&[3, 32, 2, 2], -5), (&[2, 40, 4, 4], 110), (&[1, 6, 64], i32::MIN)] {
            // One for each channel.
            let extremes = |values: [f32; 5]| Tensor::f32([shape[1]], values.into_iter().cycle().take(shape[1]).collect());
            for (scale, bias) in [
                ([1.0, -2.0, 0.0, 0.3, 1.5], [0.0, 0.1, -0.7, 1.0e-40, 5.0]),
                ([3.0e38, f32::NAN, -0.0, 1.0e-40, 1.0], [f32::INFINITY, 0.0, 3.0e38, -1.0, 0.5]),
                ([0.0; 5], [0.0, -0.0, 1.0e-30, 0.0, 0.0]),
                ([0.0; 5], [0.0; 5]),
            ] {
                cases.push(Case::shape_only(
                    IntegerBatchNorm {},
                    vec![
                        sample::i8_shared(shape, 5, e),
                        extremes(scale),
                        extremes(bias),
                        extremes([0.0, 0.25, -3.0, 1.0e6, 1.0]),
                        extremes([316.2, 3.16, 1.0, 0.63, 1.0e-3]),
                    ],
                ));
            }
        }
        cases
    }
}
