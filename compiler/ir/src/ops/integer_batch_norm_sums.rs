//! `integer_batch_norm_sums`. See [`IntegerBatchNormSums`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::numeric::{self, exponent, integer};
use crate::operator;
use crate::ops::integer_batch_statistics::channels_of_codes;
use crate::ops::properties::Work;
use crate::ops::support::channels::{ChannelWalk, Channels};
use crate::ops::support::sample;
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// Gradients of the scale and the bias of an `integer_batch_norm`, from exact sums of codes. Operands: `x` and the error `dy`, i8
    /// `[B,C,...]` with shared exponents; `mean` `[C]`, `inverse` `[C]` (FP32; the latter of `inverse_deviation`). Results: `dscale` `[C]`, `dbias` `[C]` (FP32).
    ///
    /// Order, with T the sum of codes of `dy` and P that of products of both codes as integers, `float` as of
    /// [`numeric::float_of_wide`]: `dbias = float(T) * 2^edy`,
    /// `dscale = (float(P) * 2^edy * 2^ex - mean * dbias) * inverse`.
    pub struct IntegerBatchNormSums = "integer_batch_norm_sums" {
    }
}

impl IntegerBatchNormSums {
    /// The loops.
    pub(crate) fn lower_along(
        &self,
        inputs: &[&TensorType],
        outputs: &[&TensorType],
        walk: ChannelWalk,
    ) -> LoopKernel {
        let sizes = Channels::of(Self::NAME, inputs[0]).expect("checked by infer");
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let [x, dy, mean, inverse] = [0, 1, 2, 3].map(|i| b.input(i));
        let (dscale, dbias) = (b.output(0), b.output(1));
        let [ex, edy] = [0, 1].map(|i| {
            let e = b.input_exponent(i);
            exponent::power_of_two_factors(&mut b, e)
        });
        let scaled = |x: Expr, [first, second]: &[Expr; 2]| x * first.clone() * second.clone();
        let terms = |b: &mut LoopBuilder, i: Expr| {
            let error = b.load(dy, i.clone());
            let error = b.let_("error", error);
            [error.clone(), error * b.load(x, i)]
        };
        let sums = sizes.lower_sums_along(&mut b, walk, ["errors", "products"], &terms);
        b.for_("c", sizes.channels, |b, c| {
            let [t, p] = sums.of(b, &c);
            let inverse = b.load(inverse, c.clone());
            let bias = integer::float_of_wide(b, t);
            let bias = b.let_("bias", scaled(bias, &edy));
            let product = integer::float_of_wide(b, p);
            let product = scaled(scaled(product, &edy), &ex);
            let slope = (product - b.load(mean, c.clone()) * bias.clone()) * inverse;
            b.store(dscale, c.clone(), slope);
            b.store(dbias, c, bias);
        });
        b.finish()
    }
}

impl Operator for IntegerBatchNormSums {
    const WORK: Work = Work::Strides;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x, dy, mean, inverse] = rule::operands::<4>(Self::NAME, inputs)?;
        let sizes = channels_of_codes(Self::NAME, x)?;
        rule::ensure(x == dy, || {
            format!("{}: x and dy must have one type, here {x} and {dy}", Self::NAME)
        })?;
        rule::all_f32(Self::NAME, &[mean, inverse])?;
        sizes.check(Self::NAME, &[mean, inverse])?;
        let vector = TensorType::f32([sizes.channels]);
        Ok(vec![vector.clone(), vector])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let sizes = Channels::of(Self::NAME, inputs[0].ty()).expect("checked by infer");
        let [x, dy] = [0, 1].map(|i| inputs[i].to_i64());
        let [ex, edy] = [0, 1].map(|i| inputs[i].exponent());
        let [mean, inverse] = [2, 3].map(|i| inputs[i].as_f32());
        let scaled = |sum: i64| numeric::scale_by_power_of_two(numeric::float_of_wide(sum), edy);
        let (dscale, dbias) = (0..sizes.channels)
            .map(|c| {
                let [t, p] = sizes.integer_sums(c, |i| [dy[i] as i32, (dy[i] * x[i]) as i32]);
                let dbias = scaled(t);
                let product = numeric::scale_by_power_of_two(scaled(p), ex);
                ((product - mean[c] * dbias) * inverse[c], dbias)
            })
            .unzip();
        vec![Tensor::f32([sizes.channels], dscale), Tensor::f32([sizes.channels], dbias)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        self.lower_along(inputs, outputs, ChannelWalk::Channels)
    }

    fn cases() -> Vec<Case> {
        let vector = |values: &[f32]| Tensor::f32([values.len()], values.to_vec());
        let mut cases = vec![
            // x = -1, -1, 1, 1 and dy = 1, 2, 3, 6 of quarters: sums 12 / 4 and (-1 - 2 + 3 + 6) / 4; mean 0.5 and inverse 1 / 2 in
            // channel 1, whose codes are the same.
            Case::new(
                IntegerBatchNormSums {},
                vec![
                    Tensor::i8_shared([2, 2, 2], vec![-1, -1, -1, -1, 1, 1, 1, 1], 0),
                    Tensor::i8_shared([2, 2, 2], vec![1, 2, 1, 2, 3, 6, 3, 6], -2),
                    vector(&[0.0, 0.5]),
                    vector(&[1.0, 0.5]),
                ],
                vec![vector(&[1.5, 0.0]), vector(&[3.0, 3.0])],
            ),
        ];
        for (shape, [ex, edy]) in [(&[3, 5][..], [-7, -20]), (&[2, 5, 70_000], [-6, 0]), (&[3, 5, 3, 7], [-9, -30]), (&[1, 5, 2], [i32::MIN, i32::MAX])] {
            cases.push(Case::shape_only(
                IntegerBatchNormSums {},
                vec![
                    sample::i8_shared(shape, 6, ex),
                    sample::i8_shared(shape, 7, edy),
                    vector(&[0.0, 0.25, -3.0, 1.0e6, 1.0]),
                    vector(&[316.2, 3.16, 1.0, 0.63, 1.0e-3]),
                ],
            ));
        }
        cases
    }
}
