//! `normalized_update`. See [`NormalizedUpdate`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel, Unary};
use crate::numeric::{self, exponent};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::{elementwise, sample};
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Element, TensorType};

operator! {
    /// The update of an FP32 parameter whose step size is a number of bits, as NITI's is: `w - 2^(bits - 10) * (g / M)`,
    /// M the largest finite magnitude of the gradient (0: no update). Like NITI's, the step does not depend on the
    /// gradient's own size. Operands: `w`, `g` (FP32, one shape), `bits` (an i32 scalar, taken within 0 to 7; 0 bits: no
    /// update). The quotient, the product and the difference are rounded each.
    pub struct NormalizedUpdate = "normalized_update" {
    }
}

impl Operator for NormalizedUpdate {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [w, g, bits] = rule::operands(Self::NAME, inputs)?;
        rule::all_f32(Self::NAME, &[w, g])?;
        rule::ensure(w == g, || {
            format!("{} takes a gradient of the weight's shape, here {w} and {g}", Self::NAME)
        })?;
        rule::ensure(bits == &TensorType::new([], Element::I32), || {
            format!("{} takes its number of bits as i32[], here {bits}", Self::NAME)
        })?;
        Ok(vec![w.clone()])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let bits = inputs[2].as_i32()[0].clamp(0, 7);
        let m = numeric::largest_finite(inputs[1].as_f32());
        let rate = if bits == 0 || m == 0.0 { 0.0 } else { numeric::power_of_two(bits - 10) };
        let divisor = if m == 0.0 { 1.0 } else { m };
        elementwise::evaluate_binary(&inputs[..2], |w, g| w - rate * (g / divisor))
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (w, g, bits, y) = (b.input(0), b.input(1), b.input(2), b.output(0));
        let count = inputs[0].count();
        let bits = b.load(bits, Expr::i64(0)).maximum(Expr::i32(0)).minimum(Expr::i32(7));
        let bits = b.let_("bits", bits);
        let m = exponent::largest_finite(&mut b, g, count);
        let zero = b.let_("zero", m.clone().equal(Expr::f32(0.0)));
        let still = bits.clone().equal(Expr::i32(0)).or(zero.clone());
        let power = (bits + Expr::i32(117)).shift_left(Expr::i32(23)).unary(Unary::FromBits);
        let rate = b.let_("rate", still.select(Expr::f32(0.0), power));
        let divisor = b.let_("divisor", zero.select(Expr::f32(1.0), m));
        b.for_("i", count, |b, i| {
            let step = rate * b.load(g, i.clone()).divide(divisor);
            let value = b.load(w, i.clone()) - step;
            b.store(y, i, value);
        });
        b.finish()
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 0
    }

    fn cases() -> Vec<Case> {
        let f32 = |x: &[f32]| Tensor::f32([x.len()], x.to_vec());
        let bits = |bits: i32| Tensor::i32([], vec![bits]);
        let case = |w: &[f32], g: &[f32], b: i32, y: &[f32]| {
            Case::new(NormalizedUpdate {}, vec![f32(w), f32(g), bits(b)], vec![f32(y)])
        };
        let mut cases = vec![
            // 5 bits: at most 1/32.
            case(&[1.0, 1.0, 0.5], &[8.0, -4.0, 0.0], 5, &[0.96875, 1.015625, 0.5]),
            case(&[1.0, 2.0], &[8.0, -4.0], 0, &[1.0, 2.0]),
            case(&[1.0, 2.0], &[0.0, 0.0], 5, &[1.0, 2.0]),
            case(&[1.0], &[1.0], 100, &[0.875]),
        ];
        for b in [-3, 1, 3, 7] {
            let operands = vec![sample::f32([37], 1), sample::f32([37], 2), bits(b)];
            cases.push(Case::shape_only(NormalizedUpdate {}, operands));
        }
        cases
    }
}
