//! `integer_batch_norm_error`. See [`IntegerBatchNormError`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
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
    /// The error of the operand of an `integer_batch_norm` by integers: two multiplications of an element, with coefficients that are
    /// made in FP32, once a channel. Operands: `x` and the error `dy`, i8 `[B,C,...]` with shared exponents; `scale`, `mean`, `inverse`,
    /// `dscale`, `dbias` `[C]` (FP32; `inverse` of `inverse_deviation`, the latter two of `integer_batch_norm_sums`). Result: i32 sums with a shared exponent.
    ///
    /// Order, with N elements a channel: `p = scale * inverse`. With `batch`
    /// `share = p / N`, `q = -((share * dscale) * inverse)`, `r = -(share * dbias) - q * mean`, else q and r are 0. The sums are
    /// `p'[c] * dy + q'[c] * x + r'[c]`, with coefficients rounded beside one exponent as of `integer_batch_norm`, `s` the largest of
    /// `edy + |p| - 15`, `ex + |q| - 15` and `|r| - 30`.
    pub struct IntegerBatchNormError = "integer_batch_norm_error" {
        /// Whether mean and variance are the batch's own, so that the error goes through them.
        pub batch: bool,
    }
}

impl IntegerBatchNormError {
    fn with_lines<R>(&self, sizes: Channels, walk: ChannelWalk, f: impl FnOnce(&Lines<'_, 2>) -> R) -> R {
        let line = |b: &mut LoopBuilder, c: &Expr| {
            let of = |b: &LoopBuilder, i: usize| b.load(b.input(i), c.clone());
            let inverse = b.let_("inverse", of(b, 4));
            let slope = of(b, 2) * inverse.clone();
            let slope = b.let_("slope", slope);
            if !self.batch {
                return Line { factors: [slope, Expr::f32(0.0)], offset: Expr::f32(0.0) };
            }
            let share = b.let_("share", slope.clone().divide(Expr::f32(sizes.count() as f32)));
            let negated = |x: Expr| x.unary(crate::loops::Unary::Negate);
            let turn = negated(share.clone() * of(b, 5) * inverse);
            let turn = b.let_("turn", turn);
            let offset = negated(share * of(b, 6)) - turn.clone() * of(b, 3);
            Line { factors: [slope, turn], offset }
        };
        f(&Lines { sizes, walk, operands: [1, 0], line: &line })
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

impl Operator for IntegerBatchNormError {
    const WORK: Work = Work::Strides;
    const PROPERTIES: &'static [Property] = &[Property::SumsOfCodes];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x, dy, vectors @ ..] = rule::operands::<7>(Self::NAME, inputs)?;
        let sizes = channels_of_codes(Self::NAME, x)?;
        rule::ensure(x == dy, || {
            format!("{}: x and dy must have one type, here {x} and {dy}", Self::NAME)
        })?;
        rule::all_f32(Self::NAME, &vectors)?;
        sizes.check(Self::NAME, &vectors)?;
        Ok(vec![x.with_element(Element::I32)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let sizes = Channels::of(Self::NAME, inputs[0].ty()).expect("checked by infer");
        let [scale, mean, inverse, dscale, dbias] = [2, 3, 4, 5, 6].map(|i| inputs[i].as_f32());
        let line = |c: usize| {
            let inverse = inverse[c];
            let slope = scale[c] * inverse;
            if !self.batch {
                return Line { factors: [slope, 0.0], offset: 0.0 };
            }
            let share = slope / sizes.count() as f32;
            let turn = -(share * dscale[c] * inverse);
            Line { factors: [slope, turn], offset: -(share * dbias[c]) - turn * mean[c] }
        };
        let lines: Vec<Line<2, f32>> = (0..sizes.channels).map(line).collect();
        vec![channel_lines::evaluate(sizes, [inputs[1], inputs[0]], &lines)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        self.lower_along(inputs, outputs, None, ChannelWalk::Channels)
    }

    fn cases() -> Vec<Case> {
        let error = |batch| IntegerBatchNormError { batch };
        let vector = |values: &[f32]| Tensor::f32([values.len()], values.to_vec());
        let operands = || {
            vec![
                Tensor::i8_shared([2, 1, 2], vec![-1, -1, 1, 1], 0),
                Tensor::i8_shared([2, 1, 2], vec![1, 2, 3, 6], 0),
                vector(&[2.0]),
                vector(&[0.0]),
                vector(&[1.0]),
                vector(&[6.0]),
                vector(&[12.0]),
            ]
        };
        let sums = |values: [i32; 4], e| Tensor::i32_shared([2, 1, 2], values.to_vec(), e);
        // As the case of `batch_norm_gradient`: p = 2, q = -3, r = -6, so s = 2 - 15; dx = -1, 1, -3, 3. Without `batch` s = 1 - 15.
        let mut cases = vec![
            Case::new(error(true), operands(), vec![sums([-1, 1, -3, 3].map(|x| x << 13), -13)]),
            // 2 * 2^14 does not fit: 2^15 - 1.
            Case::new(error(false), operands(), vec![sums([1, 2, 3, 6].map(|x| x * 32_767), -14)]),
        ];
        for (shape, [ex, edy]) in [(&[3, 5][..], [-7, -20]), (&[2, 5, 7], [3, 3]), (&[3, 5, 3, 7], [-9, -30]), (&[1, 5, 2], [i32::MIN, i32::MAX]), (&[2, 5, 128], [-7, -20]), (&[3, 32, 2, 2], [100, 20]), (&[2, 40, 4, 4], [-9, -30]), (&[3, 6, 8, 8], [i32::MAX, 3])] {
            // One for each channel.
            let cycled = |values: [f32; 5]| Tensor::f32([shape[1]], values.into_iter().cycle().take(shape[1]).collect());
            for batch in [false, true] {
                for dscale in [[1.0, -2.0, 0.0, 0.3, 3.0e38], [1.0e-3, 0.0, 2.0e-2, f32::NAN, -1.0e-2], [0.0; 5]] {
                    cases.push(Case::shape_only(
                        error(batch),
                        vec![
                            sample::i8_shared(shape, 6, ex),
                            sample::i8_shared(shape, 7, edy),
                            cycled([1.0, -2.0, 0.0, 0.3, 1.5]),
                            cycled([0.0, 0.25, -3.0, 1.0e6, 1.0]),
                            cycled([316.2, 3.16, 1.0, 0.63, 1.0e-3]),
                            cycled(dscale),
                            cycled([0.5, -1.0, 0.0, 1.0e-40, 2.0]),
                        ],
                    ));
                }
            }
        }
        cases
    }
}
