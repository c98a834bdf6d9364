//! `integer_batch_statistics`. See [`IntegerBatchStatistics`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::numeric::{self, exponent, integer};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::channels::{ChannelWalk, Channels};
use crate::ops::support::sample;
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Element, Scale, TensorType};

operator! {
    /// Mean and (biased) variance over batch and space of each channel of i8 `[B,C,...]` with a shared exponent, from exact sums.
    /// Results: `mean` `[C]`, `variance` `[C]` (FP32).
    ///
    /// With N elements a channel (at most 2^24), S the sum of codes and Q that of their squares as integers, `float` as of
    /// [`numeric::float_of_wide`] and e the exponent: `mean = (float(S) / N) * 2^e`, `variance = (float(N*Q - S*S) / N) / N * 2^e * 2^e`.
    pub struct IntegerBatchStatistics = "integer_batch_statistics" {
    }
}

/// Elements of a channel whose sums of squares, times their number, stay below 2^62.
const MOST: usize = 1 << 24;

/// Checks operands of integer batch normalization: i8 with a shared exponent, of as many elements a channel as sums hold.
pub(super) fn channels_of_codes(name: &str, x: &TensorType) -> Result<Channels, TypeError> {
    rule::ensure(x.element == Element::I8 && x.scale == Scale::Exponent, || {
        format!("{name} takes i8<2^e>, here {x}")
    })?;
    let sizes = Channels::of(name, x)?;
    sizes.check_count(name)?;
    rule::ensure(sizes.count() <= MOST, || {
        format!("{name}: a channel has at most {MOST} elements, here {}", sizes.count())
    })?;
    Ok(sizes)
}

impl IntegerBatchStatistics {
    /// The loops.
    pub(crate) fn lower_along(
        &self,
        inputs: &[&TensorType],
        outputs: &[&TensorType],
        walk: ChannelWalk,
    ) -> LoopKernel {
        let sizes = Channels::of(Self::NAME, inputs[0]).expect("checked by infer");
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, mean, variance) = (b.input(0), b.output(0), b.output(1));
        let e = b.input_exponent(0);
        let [first, second] = exponent::power_of_two_factors(&mut b, e);
        let scaled = |x: Expr| x * first.clone() * second.clone();
        let count = || Expr::f32(sizes.count() as f32);
        let terms = |b: &mut LoopBuilder, i: Expr| {
            let code = b.load(x, i);
            let code = b.let_("code", code);
            [code.clone(), code.clone() * code]
        };
        let sums = sizes.lower_sums_along(&mut b, walk, ["sum", "squares"], &terms);
        b.for_("c", sizes.channels, |b, c| {
            let [s, q] = sums.of(b, &c);
            let sum = integer::float_of_wide(b, s.clone());
            b.store(mean, c.clone(), scaled(sum.divide(count())));
            let spread = Expr::i64(sizes.count() as i64) * q - s.clone() * s;
            let spread = integer::float_of_wide(b, spread);
            b.store(variance, c, scaled(scaled(spread.divide(count()).divide(count()))));
        });
        b.finish()
    }
}

impl Operator for IntegerBatchStatistics {
    const WORK: Work = Work::Strides;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands(Self::NAME, inputs)?;
        let sizes = channels_of_codes(Self::NAME, x)?;
        let vector = TensorType::f32([sizes.channels]);
        Ok(vec![vector.clone(), vector])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let sizes = Channels::of(Self::NAME, inputs[0].ty()).expect("checked by infer");
        let (x, e) = (inputs[0].to_i64(), inputs[0].exponent());
        let count = sizes.count();
        let divided = |sum: i64| numeric::float_of_wide(sum) / count as f32;
        let scaled = |x: f32| numeric::scale_by_power_of_two(x, e);
        let (means, variances) = (0..sizes.channels)
            .map(|c| {
                let [s, q] = sizes.integer_sums(c, |i| [x[i] as i32, (x[i] * x[i]) as i32]);
                let variance = divided(count as i64 * q - s * s) / count as f32;
                (scaled(divided(s)), scaled(scaled(variance)))
            })
            .unzip();
        vec![Tensor::f32([sizes.channels], means), Tensor::f32([sizes.channels], variances)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        self.lower_along(inputs, outputs, ChannelWalk::Channels)
    }

    fn cases() -> Vec<Case> {
        let op = IntegerBatchStatistics {};
        let vector = |values: &[f32]| Tensor::f32([values.len()], values.to_vec());
        let mut cases = vec![
            // Channel 0: 1, 2, 3, 6 of halves; channel 1: all 5.
            Case::new(
                op.clone(),
                vec![Tensor::i8_shared([2, 2, 2], vec![1, 2, 5, 5, 3, 6, 5, 5], -1)],
                vec![vector(&[1.5, 2.5]), vector(&[0.875, 0.0])],
            ),
            Case::new(
                op.clone(),
                vec![Tensor::i8_shared([2, 3], vec![-128, 127, 0, -128, -128, 1], 3)],
                vec![vector(&[-1024.0, -4.0, 4.0]), vector(&[0.0, 1_040_400.0, 16.0])],
            ),
        ];
        for (shape, e) in [(&[3, 5, 3, 7][..], -7), (&[2, 3, 40, 13], 4), (&[1, 2, 65_537], -60), (&[33, 3], 100), (&[2, 2, 9], i32::MIN), (&[1, 3, 2], i32::MAX)] {
            cases.push(Case::shape_only(op.clone(), vec![sample::i8_shared(shape, 3, e)]));
        }
        cases
    }
}
