//! `quantize_weight`. See [`QuantizeWeight`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel, Unary};
use crate::numeric::{self, exponent, integer};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::{Data, ScaleData, Tensor};
use crate::types::{Element, TensorType};

/// Exponent of an all-zero tensor.
const ZERO_EXPONENT: i32 = -14;

operator! {
    /// FP32 to i8 with a shared exponent, as NITI initialises weights: `q = round_ties_even(x / M * 127)`,
    /// exponent `ceil(log2 M) - 7`, M the largest magnitude. All zeros
    /// (a fresh bias, which the paper does not have) get exponent -14: aligned to exponent 0 they would push every
    /// activation that they are added to out of its eight bits.
    /// Quotient and product round to FP32 each.
    ///
    /// NaN elements give 0 and do not count in M; an infinite M is taken as the largest finite FP32 and
    /// infinite elements give +-127.
    pub struct QuantizeWeight = "quantize_weight" {
    }
}

impl Operator for QuantizeWeight {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands(Self::NAME, inputs)?;
        rule::all_f32(Self::NAME, &[x])?;
        Ok(vec![TensorType::shared(x.shape.clone(), Element::I8)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let x = inputs[0].as_f32();
        let m = numeric::largest_finite(x);
        let (divisor, exponent) =
            if m == 0.0 { (1.0, ZERO_EXPONENT) } else { (m, numeric::ceil_log2(m) - 7) };
        // The sum's last place is one, so that ties go to even and its lowest byte is the integer. No branch: it runs by vectors.
        const UNIT: f32 = 1.5 * (1 << 23) as f32;
        let quantize = |x: f32| {
            let scaled = (x / divisor * 127.0).clamp(-127.0, 127.0);
            let scaled = if scaled.is_nan() { 0.0 } else { scaled };
            (scaled + UNIT).to_bits() as i8
        };
        let ty = TensorType::shared(inputs[0].shape().clone(), Element::I8);
        let data = Data::I8(x.iter().map(|&x| quantize(x)).collect());
        vec![Tensor::new(ty, data, ScaleData::Exponent(exponent))]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, y, count) = (b.input(0), b.output(0), inputs[0].count());
        let m = exponent::largest_finite(&mut b, x, count);
        let log = exponent::ceil_log2(&mut b, m.clone());
        let zero = b.let_("zero", m.clone().equal(Expr::f32(0.0)));
        b.set_output_exponent(0, zero.clone().select(Expr::i32(ZERO_EXPONENT), log - Expr::i32(7)));
        let divisor = b.let_("divisor", zero.select(Expr::f32(1.0), m));
        b.for_("i", count, |b, i| {
            let scaled = b.load(x, i.clone()).divide(divisor) * Expr::f32(127.0);
            let q = scaled.unary(Unary::RoundTiesEven).unary(Unary::ToInteger);
            b.store(y, i, integer::clamp(q, -127, 127));
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        let case = |x: &[f32], q: &[i8], e: i32| {
            let x = Tensor::f32([x.len()], x.to_vec());
            Case::new(QuantizeWeight {}, vec![x], vec![Tensor::i8_shared([q.len()], q.to_vec(), e)])
        };
        let tiny = |units: u32| f32::from_bits(units);
        let pattern = (0..30).map(|i| ((i * 29) % 31 - 15) as f32 * 0.0371).collect();
        vec![
            // M = 1: 63.5 is a tie, 31.75 goes up.
            case(&[1.0, -1.0, -0.5, 0.25, 0.0], &[127, -127, -64, 32, 0], -7),
            // M = 3, ceil(log2 3) = 2: 127/3 = 42.33, 254/3 = 84.67.
            case(&[3.0, 1.0, -2.0], &[127, 42, -85], -5),
            case(&[0.0, -0.0], &[0, 0], -14),
            case(&[f32::NAN, 0.0], &[0, 0], -14),
            case(&[], &[], -14),
            case(
                &[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.0, f32::MAX],
                &[0, 127, -127, 0, 127],
                121,
            ),
            // Subnormals, M = 3 * 2^-149: ceil(log2 M) = -147.
            case(&[tiny(3), -tiny(1), tiny(2)], &[127, -42, 85], -154),
            Case::shape_only(QuantizeWeight {}, vec![Tensor::f32([5, 2, 3], pattern)]),
        ]
    }
}
