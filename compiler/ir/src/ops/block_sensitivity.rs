//! `block_sensitivity`. See [`BlockSensitivity`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel, Unary};
use crate::numeric::{self, float, integer};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::blocks::{
    BlockAxes, Blocks, block_exponent, block_exponent_expression,
};
use crate::ops::support::sample;
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// How much the loss minds the rounding of each block of a tensor (see `quantize_blocks`), added up over steps: DYNASTY's
    /// sensitivity. Operands (FP32): the sums before, one for each block; `x`; the loss's gradient `g` of x's shape. Result: the sums
    /// behind, each `before + (((sum of g * g) * 2^e) * 2^e) / 16`.
    ///
    /// e is the block's exponent, at most 127 (`floor(log2 M) + 1` with M its largest finite magnitude); a block of zeros adds +0. The
    /// sum is over the block's rows, within them its columns, from +0; each operation is rounded.
    pub struct BlockSensitivity = "block_sensitivity" {
        /// The axes that blocks tile.
        pub axes: BlockAxes,
    }
}

impl Operator for BlockSensitivity {
    const WORK: Work = Work::Series;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [before, x, gradient] = rule::operands(Self::NAME, inputs)?;
        rule::all_f32(Self::NAME, inputs)?;
        let blocks = Blocks::new(Self::NAME, &x.shape, self.axes)?;
        rule::ensure(before.shape == *blocks.grid() && gradient.shape == x.shape, || {
            format!(
                "{}: {x} has {} blocks and a gradient of its shape, here {before} and {gradient}",
                Self::NAME,
                blocks.grid()
            )
        })?;
        Ok(vec![before.clone()])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let [before, x, gradient] = [0, 1, 2].map(|i| inputs[i].as_f32());
        let blocks = Blocks::new(Self::NAME, inputs[1].shape(), self.axes)
            .expect("the type rule has checked the operands");
        let mut sums = before.to_vec();
        blocks.each(|block, places| {
            let all: Vec<f32> = places.iter().map(|&i| x[i]).collect();
            let m = numeric::largest_finite(&all);
            let power = numeric::power_of_two(block_exponent(m).clamp(-126, 127));
            let squares = places.iter().fold(0.0f32, |sum, &i| sum + gradient[i] * gradient[i]);
            sums[block] += if m > 0.0 { squares * power * power / 16.0 } else { 0.0 };
        });
        vec![Tensor::f32(inputs[0].shape().clone(), sums)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let blocks = Blocks::new(Self::NAME, &inputs[1].shape, self.axes)
            .expect("the type rule has checked the operands");
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let [before, x, gradient] = [0, 1, 2].map(|i| b.input(i));
        let after = b.output(0);
        blocks.lower(&mut b, |b, place, elements| {
            let m = b.local("m", Expr::f32(0.0));
            let squares = b.local("squares", Expr::f32(0.0));
            elements(b, &mut |b, i| {
                let larger = b.load(x, i.clone()).unary(Unary::FloatAbs).maximum(b.get(m));
                b.set(m, larger);
                let g = b.load(gradient, i);
                let g = b.let_("g", g);
                let sum = b.get(squares) + g.clone() * g;
                b.set(squares, sum);
            });
            let m = b.get(m).minimum(Expr::f32(f32::MAX));
            let m = b.let_("largest", m);
            let e = block_exponent_expression(b, &m);
            let power = float::power_of_two_expression(integer::clamp(e, -126, 127));
            let power = b.let_("power", power);
            let own = b.get(squares) * power.clone() * power;
            let own = own.divide(Expr::f32(16.0));
            let own = Expr::f32(0.0).less(m).select(own, Expr::f32(0.0));
            let sum = b.load(before, place.clone()) + own;
            b.store(after, place, sum);
        });
        b.finish()
    }

    /// Each block's sum is read before it is written.
    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 0
    }

    fn cases() -> Vec<Case> {
        let op = |axes| BlockSensitivity { axes };
        let f32 = |shape: &[usize], x: &[f32]| Tensor::f32(shape, x.to_vec());
        vec![
            // Two blocks: e = 2 (3 is below 4), 1 + 4 + 9 + 16 = 30 by 4, by 4, a 16th; e = -1, 2 * 2 / 4 / 16.
            Case::new(
                op(BlockAxes::Last),
                vec![
                    f32(&[1, 2], &[1.0, 0.5]),
                    f32(&[1, 5], &[0.0, -3.0, 1.0, 0.5, 0.25]),
                    f32(&[1, 5], &[1.0, 2.0, -3.0, 4.0, -2.0]),
                ],
                vec![f32(&[1, 2], &[31.0, 0.5625])],
            ),
            // A power of two is below the next one: e = 1.
            Case::new(
                op(BlockAxes::First),
                vec![f32(&[1, 1, 2], &[0.0; 2]), f32(&[1, 1, 2], &[1.0, 0.0]), f32(&[1, 1, 2], &[2.0; 2])],
                vec![f32(&[1, 1, 2], &[1.0, 0.0])],
            ),
            Case::shape_only(
                op(BlockAxes::First),
                vec![sample::f32([2, 2, 3, 1], 1), sample::f32([5, 7, 3, 1], 2), sample::f32([5, 7, 3, 1], 3)],
            ),
            Case::shape_only(
                op(BlockAxes::Last),
                vec![sample::f32([3, 2, 3], 4), sample::f32([3, 6, 9], 5), sample::f32([3, 6, 9], 6)],
            ),
            // What is no number, and numbers whose powers are none.
            Case::shape_only(
                op(BlockAxes::Last),
                vec![
                    f32(&[1, 2], &[f32::NAN, 1.0e-40]),
                    f32(&[1, 8], &[f32::NAN, f32::INFINITY, 1.0, 0.0, 1.0e-44, 0.0, 0.0, 0.0]),
                    f32(&[1, 8], &[1.0e-30, 1.0e30, 3.0e38, 0.0, 1.0e-20, 3.0e38, f32::NAN, 1.0]),
                ],
            ),
        ]
    }
}
