//! `range_norm_gradient`. See [`RangeNormGradient`].

use crate::attributes::{Attributes, F32};
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel, Unary};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::channels::{self, Channels};
use crate::ops::support::chunks::Chunks;
use crate::ops::support::elementwise;
use crate::ops::{Case, Operator, RangeStatistics, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// Gradients of a normalization by `range_statistics` of the same `chunks`: of `scale * (x - mean) / sqrt(variance) + bias`
    /// (FP32). Operands: `x`, `scale`, `mean`, `variance`, `dy`; results: `dx`, `dscale` `[C]`, `dbias` `[C]`.
    ///
    /// Order, with N elements a channel in k chunks and sums as of `batch_statistics`: `inverse = 1 / sqrt(variance)`,
    /// `normal = (x - mean) * inverse`, `dbias = sum(dy)`, `dscale = sum(dy * normal)`, `slope = scale * inverse`,
    /// `dx = slope * (dy - dbias / N)`. Then, chunk by chunk, `push = (slope * dscale) * (factor / k)` is subtracted where the
    /// chunk's greatest element is and added where its least is, the first of equal ones.
    pub struct RangeNormGradient = "range_norm_gradient" {
        /// The most chunks that there may be.
        pub chunks: usize,
    }
}

impl Operator for RangeNormGradient {
    const WORK: Work = Work::Strides;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x, scale, mean, variance, dy] = rule::operands::<5>(Self::NAME, inputs)?;
        rule::all_f32(Self::NAME, inputs)?;
        rule::ensure(self.chunks > 0, || format!("{}: at least one chunk", Self::NAME))?;
        let sizes = Channels::of(Self::NAME, x)?;
        sizes.check(Self::NAME, &[scale, mean, variance])?;
        sizes.check_count(Self::NAME)?;
        rule::ensure(x == dy, || {
            format!("{}: x and dy must have one shape, here {x} and {dy}", Self::NAME)
        })?;
        let vector = TensorType::f32([sizes.channels]);
        Ok(vec![x.clone(), vector.clone(), vector])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let sizes = Channels::of(Self::NAME, inputs[0].ty()).expect("checked by infer");
        let chunks = Chunks::of(sizes, self.chunks);
        let [x, scale, mean, variance, dy] = [0, 1, 2, 3, 4].map(|i| inputs[i].as_f32());
        let count = sizes.count() as f32;
        let mut dx = vec![0f32; x.len()];
        let (mut dscale, mut dbias) = (Vec::new(), Vec::new());
        for c in 0..sizes.channels {
            let inverse = 1.0 / variance[c].sqrt();
            let sum = sizes.sum(c, |i| dy[i]);
            let product = sizes.sum(c, |i| dy[i] * ((x[i] - mean[c]) * inverse));
            let slope = scale[c] * inverse;
            let share = sum / count;
            for i in sizes.runs(c).flatten() {
                dx[i] = slope * (dy[i] - share);
            }
            let push = slope * product * (chunks.factor() / chunks.count as f32);
            for ends in chunks.ends(c, x) {
                dx[ends.greatest.0] -= push;
                dx[ends.least.0] += push;
            }
            dscale.push(product);
            dbias.push(sum);
        }
        let vector = |values| Tensor::f32([sizes.channels], values);
        vec![Tensor::f32(inputs[0].shape().dims(), dx), vector(dscale), vector(dbias)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let sizes = Channels::of(Self::NAME, inputs[0]).expect("checked by infer");
        let chunks = Chunks::of(sizes, self.chunks);
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let [x, scale, mean, variance, dy] = [0, 1, 2, 3, 4].map(|i| builder.input(i));
        let [dx, dscale, dbias] = [0, 1, 2].map(|i| builder.output(i));
        let parts =
            ["sums", "products"].map(|name| sizes.partial_sums(&mut builder, name));
        builder.for_("c", sizes.channels, |builder, c| {
            let inverse = builder.load(variance, c.clone()).unary(Unary::Sqrt);
            let inverse = builder.let_("inverse", Expr::f32(1.0).divide(inverse));
            let mean = channels::load(builder, "mean", mean, &c);
            let sums = [("sum", parts[0]), ("product", parts[1])];
            let [sum, product] = sizes.lower_sums(builder, sums, &c, |builder, i| {
                let dy = builder.load(dy, i.clone());
                let dy = builder.let_("dy", dy);
                let normal = (builder.load(x, i) - mean.clone()) * inverse.clone();
                [dy.clone(), dy * normal]
            });
            let slope = builder.load(scale, c.clone()) * inverse.clone();
            let slope = builder.let_("slope", slope);
            let share = sum.clone().divide(Expr::f32(sizes.count() as f32));
            let share = builder.let_("share", share);
            sizes.lower(builder, &c, |builder, i| {
                let error = builder.load(dy, i.clone()) - share;
                builder.store(dx, i, slope.clone() * error);
            });
            let factor = Expr::f32(chunks.factor() / chunks.count as f32);
            let push = builder.let_("push", slope * product.clone() * factor);
            chunks.lower(builder, &c, x, |builder, ends| {
                let value = builder.load(dx, ends.greatest.0.clone()) - push.clone();
                builder.store(dx, ends.greatest.0, value);
                let value = builder.load(dx, ends.least.0.clone()) + push;
                builder.store(dx, ends.least.0, value);
            });
            builder.store(dscale, c.clone(), product);
            builder.store(dbias, c, sum);
        });
        builder.finish()
    }

    /// `dy`: the sums of a channel are complete before its first element is written. `x` is read again behind that.
    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 4
    }

    fn cases() -> Vec<Case> {
        let vector = |values: &[f32]| Tensor::f32([values.len()], values.to_vec());
        // One element, which has no range: what is left is `dy` less its own mean.
        let mut cases = vec![Case::new(
            RangeNormGradient { chunks: 16 },
            vec![
                Tensor::f32([1, 1], vec![5.0]),
                vector(&[2.0]),
                vector(&[3.0]),
                vector(&[4.0]),
                Tensor::f32([1, 1], vec![8.0]),
            ],
            vec![Tensor::f32([1, 1], vec![0.0]), vector(&[8.0]), vector(&[8.0])],
        )];
        for (shape, chunks) in
            [(&[3, 5][..], 16), (&[2, 5, 8], 1), (&[4, 5, 7, 7], 16), (&[32, 5, 2, 2], 16)]
        {
            let count = shape.iter().product();
            let x = Tensor::f32(shape, elementwise::ramp(count));
            let statistics = RangeStatistics { chunks, epsilon: F32::new(1.0e-5) };
            let found = statistics.evaluate(&[&x], &RunContext::default());
            let [mean, variance] = <[Tensor; 2]>::try_from(found).expect("two results");
            let dy = Tensor::f32(shape, elementwise::ramp(count + 3).split_off(3));
            let scale = vector(&[1.0, -2.0, 0.0, 0.3, 3.0e38]);
            let op = RangeNormGradient { chunks };
            cases.push(Case::shape_only(op, vec![x, scale, mean, variance, dy]));
        }
        cases
    }
}
