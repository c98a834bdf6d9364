//! `width_search`. See [`WidthSearch`].

use crate::attributes::{Attributes, F32};
use crate::loops::builder::LoopBuilder;
use crate::loops::{Buffer, Expr, LoopKernel, Unary};
use crate::numeric::{self, exponent};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::partial_sums::{self, PartialSumLoops, PartialSums};
use crate::ops::support::{elementwise, sample};
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Shape, TensorType};

operator! {
    /// The least width, among those given, at which fixed-point numbers keep the mean magnitude of an FP32 tensor, and their step:
    /// two scalars `s` and `n`. With M the largest magnitude (as of `quantize_exponent`), in turn for each width n:
    /// `s = 2^ceil(log2(M / (2^(n-1) - 1)))`, `q = round_ties_even(x / s)`; the first is taken whose `|A - Q| / A <= tolerance`, A being
    /// the sum of all |x| and Q that of all |q * s|, or else the last. Zhang et al. 2020, sections 3.2 (quantization error
    /// measurement) and 3.3, with `tolerance = 2^T - 1` for their threshold T of `log2(|A - Q| / A + 1)`.
    ///
    /// Order: all in FP32; element `i` is added to partial sum `i mod 16`, from +0; then the partial sums from the first to the last.
    /// s is between 2^-126 and 2^127; where nothing compares (zeros, NaN) n is the last width, and of zeros s is 2^-126.
    pub struct WidthSearch = "width_search" {
        /// Widths in bits, ascending: 2 to 24.
        pub widths: Vec<u32>,
        /// The largest error of the mean magnitude, as a share of it.
        pub tolerance: F32,
    }
}

/// The sum of the magnitudes.
pub(super) fn magnitudes(x: &[f32]) -> f32 {
    PartialSums::sum(x.iter().map(|x| x.abs()))
}

/// The sum of the magnitudes of what is kept in steps.
pub(super) fn kept(x: &[f32], step: f32) -> f32 {
    PartialSums::sum(x.iter().map(|x| ((x / step).round_ties_even() * step).abs()))
}

/// The largest number of a width.
pub(super) fn largest(width: u32) -> f32 {
    ((1u32 << (width - 1)) - 1) as f32
}

/// Refuses widths that are none.
pub(super) fn check_widths(name: &str, widths: &[u32]) -> Result<(), TypeError> {
    let ascend = widths.windows(2).all(|pair| pair[0] < pair[1]);
    let fit = !widths.is_empty() && widths.iter().all(|width| (2..=24).contains(width));
    rule::ensure(ascend && fit, || {
        format!("{name}: widths are 2 to 24 bits and ascend, here {widths:?}")
    })
}

impl Operator for WidthSearch {
    const WORK: Work = Work::Series;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        rule::operands::<1>(Self::NAME, inputs)?;
        rule::all_f32(Self::NAME, inputs)?;
        check_widths(Self::NAME, &self.widths)?;
        Ok(vec![TensorType::f32(Shape::scalar()); 2])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let x = inputs[0].as_f32();
        let m = numeric::largest_finite(x);
        let own = magnitudes(x);
        let (mut step, mut width, mut found) = (0.0, 0.0, false);
        for &n in &self.widths {
            if found {
                break;
            }
            let quotient = m / largest(n);
            let e = if quotient > 0.0 { numeric::ceil_log2(quotient) } else { -126 };
            step = numeric::power_of_two(e.clamp(-126, 127));
            width = n as f32;
            if self.widths.last() == Some(&n) {
                break;
            }
            found = (own - kept(x, step)).abs() / own <= self.tolerance.get();
        }
        vec![Tensor::f32([], vec![step]), Tensor::f32([], vec![width])]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, count) = (b.input(0), inputs[0].count());
        let parts = PartialSumLoops::one(&mut b, "parts");
        let m = exponent::largest_finite(&mut b, x, count);
        let own = lower_magnitudes(&mut b, &parts, x, count);
        let step = b.local("step", Expr::f32(0.0));
        let width = b.local("width", Expr::f32(0.0));
        let found = b.local("found", Expr::i32(0));
        for &n in &self.widths {
            let open = b.get(found).equal(Expr::i32(0));
            b.if_(open, |b| {
                let quotient = b.let_("quotient", m.clone().divide(Expr::f32(largest(n))));
                let e = exponent::ceil_log2(b, quotient.clone());
                let e = Expr::f32(0.0).less(quotient).select(e, Expr::i32(-126));
                let e = numeric::integer::clamp(e, -126, 127);
                let power = (e + Expr::i32(127)).shift_left(Expr::i32(23)).unary(Unary::FromBits);
                let own_step = b.let_("own_step", power);
                b.set(step, own_step.clone());
                b.set(width, Expr::f32(n as f32));
                // Nothing is searched for behind the last.
                if self.widths.last() == Some(&n) {
                    return;
                }
                let kept = lower_kept(b, &parts, x, count, &own_step);
                let error = (own.clone() - kept).unary(Unary::FloatAbs).divide(own.clone());
                let enough = error.less_equal(Expr::f32(self.tolerance.get()));
                b.set(found, enough.unary(Unary::BoolToInteger));
            });
        }
        for (slot, result) in [step, width].into_iter().enumerate() {
            let value = b.get(result);
            b.store(b.output(slot), Expr::i64(0), value);
        }
        b.finish()
    }

    fn cases() -> Vec<Case> {
        let op = |widths: &[u32], tolerance: f32| WidthSearch {
            widths: widths.to_vec(),
            tolerance: tolerance.into(),
        };
        let all = || op(&[8, 16, 24], 0.021_012_126);
        let f32 = |x: &[f32]| Tensor::f32([x.len()], x.to_vec());
        let result = |s: f32, n: f32| vec![Tensor::f32([], vec![s]), Tensor::f32([], vec![n])];
        let cubes = |count: usize, power: i32| {
            let x = sample::f32([count], count as u32);
            Tensor::f32([count], x.as_f32().iter().map(|x| x.powi(power)).collect())
        };
        vec![
            // Whole steps of the first width: 127 is 127 steps of 1, and 128 are 64 of 2.
            Case::new(all(), vec![f32(&[127.0, -3.0])], result(1.0, 8.0)),
            Case::new(all(), vec![f32(&[128.0, -4.0])], result(2.0, 8.0)),
            // 40 numbers of 0.4 steps vanish at 8 bits: 16 of 143 are lost. At 16 they stay within 2^-9.
            Case::new(
                all(),
                vec![f32(&[&[127.0][..], &[0.4; 40]].concat())],
                result(0.003_906_25, 16.0),
            ),
            Case::new(op(&[8], 0.02), vec![f32(&[&[127.0][..], &[0.4; 40]].concat())], result(1.0, 8.0)),
            Case::new(all(), vec![f32(&[0.0, -0.0])], result(1.175_494_4e-38, 24.0)),
            Case::shape_only(all(), vec![cubes(333, 1)]),
            Case::shape_only(all(), vec![cubes(100, 9)]),
            Case::shape_only(all(), vec![cubes(64, 25)]),
            Case::shape_only(op(&[4, 6], 0.001), vec![cubes(37, 3)]),
            Case::shape_only(all(), vec![elementwise::extreme_tensor()]),
        ]
    }
}

/// [`magnitudes`] as loops.
pub(super) fn lower_magnitudes(b: &mut LoopBuilder, parts: &PartialSumLoops, x: Buffer, count: usize) -> Expr {
    partial_sums::lower(b, parts, count, |b, i| b.load(x, i).unary(Unary::FloatAbs))
}

/// [`kept`] as loops.
pub(super) fn lower_kept(
    b: &mut LoopBuilder,
    parts: &PartialSumLoops,
    x: Buffer,
    count: usize,
    step: &Expr,
) -> Expr {
    partial_sums::lower(b, parts, count, |b, i| {
        let steps = b.load(x, i).divide(step.clone()).unary(Unary::RoundTiesEven);
        (steps * step.clone()).unary(Unary::FloatAbs)
    })
}
