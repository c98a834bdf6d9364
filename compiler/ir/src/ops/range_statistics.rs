//! `range_statistics`. See [`RangeStatistics`].

use crate::attributes::{Attributes, F32};
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::channels::Channels;
use crate::ops::support::chunks::Chunks;
use crate::ops::support::elementwise;
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// Mean and spread over batch and space of each channel of `[B,C,...]` (FP32), the spread by ranges in place of squares (Banner
    /// et al. 2018, section 4). Results: `mean` `[C]`, `variance` `[C]`.
    ///
    /// A channel's N elements, by batch, then space, are cut into the greatest number of equal chunks, at most `chunks`, that have
    /// n > 1 elements each, or are one chunk. `factor = 0.175 (1 + sqrt(pi ln 4)) / sqrt(2 ln n)` (0 for n = 1), rounded once to FP32.
    ///
    /// Order: `mean` as of `batch_statistics`; the chunks' greatest elements and their least are each added from +0 and divided by
    /// their number; `deviation = (greatest - least) * factor + epsilon`, `variance = deviation * deviation`.
    pub struct RangeStatistics = "range_statistics" {
        /// The most chunks that there may be.
        pub chunks: usize,
        /// Added to the deviation.
        pub epsilon: F32,
    }
}

impl Operator for RangeStatistics {
    const WORK: Work = Work::Strides;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands::<1>(Self::NAME, inputs)?;
        rule::all_f32(Self::NAME, inputs)?;
        let epsilon = self.epsilon.get();
        rule::ensure(epsilon.is_finite() && epsilon >= 0.0, || {
            format!("{}: epsilon must be finite and not negative, here {epsilon}", Self::NAME)
        })?;
        rule::ensure(self.chunks > 0, || format!("{}: at least one chunk", Self::NAME))?;
        let sizes = Channels::of(Self::NAME, x)?;
        sizes.check_count(Self::NAME)?;
        Ok(vec![TensorType::f32([sizes.channels]); 2])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let sizes = Channels::of(Self::NAME, inputs[0].ty()).expect("checked by infer");
        let chunks = Chunks::of(sizes, self.chunks);
        let x = inputs[0].as_f32();
        let parts = chunks.count as f32;
        let (means, variances) = (0..sizes.channels)
            .map(|c| {
                let mean = sizes.sum(c, |i| x[i]) / sizes.count() as f32;
                let [mut least, mut greatest] = [0f32; 2];
                for ends in chunks.ends(c, x) {
                    least += ends.least.1;
                    greatest += ends.greatest.1;
                }
                let range = greatest / parts - least / parts;
                let deviation = range * chunks.factor() + self.epsilon.get();
                (mean, deviation * deviation)
            })
            .unzip();
        vec![Tensor::f32([sizes.channels], means), Tensor::f32([sizes.channels], variances)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let sizes = Channels::of(Self::NAME, inputs[0]).expect("checked by infer");
        let chunks = Chunks::of(sizes, self.chunks);
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let x = builder.input(0);
        let [means, variances] = [0, 1].map(|i| builder.output(i));
        let parts = sizes.partial_sums(&mut builder, "parts");
        builder.for_("c", sizes.channels, |builder, c| {
            let [sum] =
                sizes.lower_sums(builder, [("sum", parts)], &c, |builder, i| [builder.load(x, i)]);
            builder.store(means, c.clone(), sum.divide(Expr::f32(sizes.count() as f32)));
            let [least, greatest] =
                ["leasts", "greatests"].map(|name| builder.local(name, Expr::f32(0.0)));
            chunks.lower(builder, &c, x, |builder, ends| {
                for (sum, value) in [(least, ends.least.1), (greatest, ends.greatest.1)] {
                    let value = builder.get(sum) + value;
                    builder.set(sum, value);
                }
            });
            let [least, greatest] = [least, greatest]
                .map(|sum| builder.get(sum).divide(Expr::f32(chunks.count as f32)));
            let deviation =
                (greatest - least) * Expr::f32(chunks.factor()) + Expr::f32(self.epsilon.get());
            let deviation = builder.let_("deviation", deviation);
            builder.store(variances, c, deviation.clone() * deviation);
        });
        builder.finish()
    }

    fn cases() -> Vec<Case> {
        let op = |chunks, epsilon: f32| RangeStatistics { chunks, epsilon: F32::new(epsilon) };
        let vector = |values: &[f32]| Tensor::f32([values.len()], values.to_vec());
        vec![
            // Two chunks, (1, 5) and (2, 10), whose mean range is 6; the factor of two elements is 0.45881074. One channel is constant.
            Case::new(
                op(2, 0.5),
                vec![Tensor::f32([2, 2, 2], vec![1.0, 5.0, 3.0, 3.0, 2.0, 10.0, 3.0, 3.0])],
                vec![vector(&[4.5, 3.0]), vector(&[10.581_126, 0.25])],
            ),
            // Three elements are one chunk, and one element has no range.
            Case::shape_only(op(16, 1.0e-5), vec![Tensor::f32([3, 2], elementwise::ramp(6))]),
            Case::new(
                op(16, 2.0),
                vec![Tensor::f32([1, 2], vec![7.0, -1.0])],
                vec![vector(&[7.0, -1.0]), vector(&[4.0, 4.0])],
            ),
            // Chunks that begin within a row, and of several rows.
            Case::shape_only(
                op(16, 1.0e-5),
                vec![Tensor::f32([4, 3, 7, 7], elementwise::ramp(588))],
            ),
            Case::shape_only(
                op(16, 1.0e-5),
                vec![Tensor::f32([32, 3, 2, 2], elementwise::ramp(384))],
            ),
            Case::shape_only(
                op(2, 0.0),
                vec![Tensor::f32([1, 2, 2], vec![1.0e-40, -1.0e-45, 3.0e38, -3.0e38])],
            ),
        ]
    }
}
