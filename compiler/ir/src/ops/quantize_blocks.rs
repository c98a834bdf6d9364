//! `quantize_blocks`. See [`QuantizeBlocks`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel, Unary};
use crate::numeric::{self, float, integer};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::blocks::{
    BlockAxes, Blocks, block_exponent, block_exponent_expression, used_width, used_width_expression,
};
use crate::ops::support::{elementwise, sample};
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::{ScaleData, Tensor};
use crate::types::{Element, Shape, TensorType};

operator! {
    /// FP32 to block floating point: blocks of 4 x 4 elements (fewer at the edges) over two axes, each of integers of `b` bits with one
    /// step. Operands: `x`, of two axes or more; `widths`, one number for each block, or nothing (each of `bits`). Results: the
    /// integers (i8, exponent 0) and the steps (FP32, one for each block).
    ///
    /// `b = min(2 round_ties_even(width / 2), bits)`, between 0 and 8. With M the block's largest magnitude (NaN do not count,
    /// infinities as the largest finite one), `e = floor(log2 M) + 1`, `step = 2^max(e - b + 1, -126)`,
    /// `q = clamp(round_ties_even(x / step), +-(2^(b-1) - 1))`; a NaN is 0. A block of zeros, and one of no bits, is all 0 with step 1.
    /// DYNASTY's format (block floating point of 4 x 4 tiles).
    pub struct QuantizeBlocks = "quantize_blocks" {
        /// The axes that blocks tile.
        pub axes: BlockAxes,
        /// The most bits of a number, with its sign: 0, 2, 4, 6 or 8.
        pub bits: u32,
    }
}

impl QuantizeBlocks {
    /// The mean of the bits that elements of a tensor of that shape have, by the widths of its blocks; `None` if these are not its.
    pub fn mean_bits(&self, x: &Shape, widths: &Tensor) -> Option<f64> {
        let blocks = Blocks::new(Self::NAME, x, self.axes).ok()?;
        if !widths.ty().is_f32() || widths.shape() != blocks.grid() {
            return None;
        }
        let widths = widths.as_f32();
        let mut all = 0.0;
        blocks.each(|block, places| {
            all += f64::from(used_width(widths[block], self.bits)) * places.len() as f64;
        });
        Some(all / x.count() as f64)
    }

    /// The bits of each block whose width is given.
    pub fn bits_of_blocks(&self, widths: &Tensor) -> Vec<u32> {
        widths.as_f32().iter().map(|width| used_width(*width, self.bits)).collect()
    }
}

/// The step's exponent, of a block's exponent at some bits.
fn step_exponent(e: i32, bits: u32) -> i32 {
    (e - bits as i32 + 1).clamp(-126, 127)
}

impl Operator for QuantizeBlocks {
    const WORK: Work = Work::Series;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        rule::ensure(matches!(inputs.len(), 1 | 2), || {
            format!("{} takes 1 or 2 operands, here {}", Self::NAME, inputs.len())
        })?;
        rule::all_f32(Self::NAME, inputs)?;
        rule::ensure(self.bits <= 8 && self.bits.is_multiple_of(2), || {
            format!("{}: 0, 2, 4, 6 or 8 bits, here {}", Self::NAME, self.bits)
        })?;
        let blocks = Blocks::new(Self::NAME, &inputs[0].shape, self.axes)?;
        rule::ensure(inputs.get(1).is_none_or(|widths| widths.shape == *blocks.grid()), || {
            format!("{}: {} has {} blocks, here {} widths", Self::NAME, inputs[0], blocks.grid(), inputs[1])
        })?;
        let codes = TensorType::shared(inputs[0].shape.clone(), Element::I8);
        Ok(vec![codes, TensorType::f32(blocks.grid().clone())])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let x = inputs[0].as_f32();
        let widths = inputs.get(1).map(|widths| widths.as_f32());
        let blocks = Blocks::new(Self::NAME, inputs[0].shape(), self.axes)
            .expect("the type rule has checked the operands");
        let mut codes = vec![0; x.len()];
        let mut steps = vec![0.0; blocks.grid().count()];
        blocks.each(|block, places| {
            let bits = widths.map_or(self.bits, |widths| used_width(widths[block], self.bits));
            let all: Vec<f32> = places.iter().map(|&i| x[i]).collect();
            let m = numeric::largest_finite(&all);
            let some = m > 0.0 && bits > 0;
            let power = numeric::power_of_two(step_exponent(block_exponent(m), bits));
            let step = if some { power } else { 1.0 };
            let largest = (1 << bits.saturating_sub(1)) - 1;
            for &i in places {
                codes[i] = i64::from(((x[i] / step).round_ties_even() as i32).clamp(-largest, largest));
            }
            steps[block] = step;
        });
        let ty = TensorType::shared(inputs[0].shape().clone(), Element::I8);
        let codes = Tensor::from_i64(&ty, &codes, ScaleData::Exponent(0));
        vec![codes, Tensor::f32(blocks.grid().clone(), steps)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let blocks = Blocks::new(Self::NAME, &inputs[0].shape, self.axes)
            .expect("the type rule has checked the operands");
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, codes, steps) = (b.input(0), b.output(0), b.output(1));
        let widths = (inputs.len() > 1).then(|| b.input(1));
        b.set_output_exponent(0, Expr::i32(0));
        blocks.lower(&mut b, |b, place, elements| {
            let bits = match widths {
                Some(widths) => {
                    let width = b.load(widths, place.clone());
                    used_width_expression(b, width, self.bits)
                }
                None => Expr::i32(self.bits as i32),
            };
            let m = b.local("m", Expr::f32(0.0));
            elements(b, &mut |b, i| {
                let larger = b.load(x, i).unary(Unary::FloatAbs).maximum(b.get(m));
                b.set(m, larger);
            });
            let m = b.get(m).minimum(Expr::f32(f32::MAX));
            let m = b.let_("largest", m);
            let e = block_exponent_expression(b, &m);
            let power = integer::clamp(e - bits.clone() + Expr::i32(1), -126, 127);
            let power = float::power_of_two_expression(power);
            let some = Expr::f32(0.0).less(m).and(Expr::i32(0).less(bits.clone()));
            let step = b.let_("step", some.select(power, Expr::f32(1.0)));
            let shift = (bits - Expr::i32(1)).maximum(Expr::i32(0));
            let most = b.let_("most", Expr::i32(1).shift_left(shift) - Expr::i32(1));
            elements(b, &mut |b, i| {
                let q = b.load(x, i.clone()).divide(step.clone()).unary(Unary::RoundTiesEven);
                let q = q.unary(Unary::ToInteger).minimum(most.clone());
                let q = q.maximum(Expr::i32(0) - most.clone());
                b.store(codes, i, q);
            });
            b.store(steps, place, step);
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        let op = |axes, bits| QuantizeBlocks { axes, bits };
        let f32 = |shape: &[usize], x: &[f32]| Tensor::f32(shape, x.to_vec());
        let (nan, infinity) = (f32::NAN, f32::INFINITY);
        let result = |shape: &[usize], q: &[i8], grid: &[usize], steps: &[f32]| {
            vec![Tensor::i8_shared(shape, q.to_vec(), 0), f32(grid, steps)]
        };
        let mut cases = vec![
            // M = 6, e = 3: a step of 2^-4 at 8 bits and of 1 at 4; a tie goes to the even one.
            Case::new(
                op(BlockAxes::Last, 8),
                vec![f32(&[1, 4], &[6.0, -0.5, 0.03125, 0.1])],
                result(&[1, 4], &[96, -8, 0, 2], &[1, 1], &[0.0625]),
            ),
            Case::new(
                op(BlockAxes::Last, 4),
                vec![f32(&[1, 4], &[6.0, -0.5, 1.5, -2.0])],
                result(&[1, 4], &[6, 0, 2, -2], &[1, 1], &[1.0]),
            ),
            // At two bits -1, 0 and 1: a step of 4; what is nearer to 2 steps is clipped.
            Case::new(
                op(BlockAxes::First, 2),
                vec![f32(&[2, 2], &[7.9, 2.0, -2.1, 4.0])],
                result(&[2, 2], &[1, 0, -1, 1], &[1, 1], &[4.0]),
            ),
            // Just below a power of two: 127 steps, not 128.
            Case::new(
                op(BlockAxes::First, 8),
                vec![f32(&[1, 2], &[0.999_9, -0.999_9])],
                result(&[1, 2], &[127, -127], &[1, 1], &[0.007_812_5]),
            ),
            // Two blocks of a row, of widths 2 and (5 / 2 is 2.5, to 2) 4; then 0 and 8.
            Case::new(
                op(BlockAxes::Last, 8),
                vec![f32(&[1, 5], &[1.0, -1.0, 0.5, 0.4, 1.5]), f32(&[1, 2], &[2.9, 5.0])],
                result(&[1, 5], &[1, -1, 0, 0, 6], &[1, 2], &[1.0, 0.25]),
            ),
            Case::new(
                op(BlockAxes::Last, 8),
                vec![f32(&[1, 5], &[1.0, -1.0, 0.5, 0.4, 1.5]), f32(&[1, 2], &[0.9, 7.1])],
                result(&[1, 5], &[0, 0, 0, 0, 96], &[1, 2], &[1.0, 0.015_625]),
            ),
            // Zeros, and what is no number.
            Case::new(
                op(BlockAxes::First, 8),
                vec![f32(&[5, 1, 1], &[0.0, -0.0, nan, 0.0, infinity])],
                result(&[5, 1, 1], &[0, 0, 0, 0, 127], &[2, 1, 1], &[1.0, 2.0f32.powi(121)]),
            ),
            // Subnormal: the step ends at 2^-126.
            Case::new(
                op(BlockAxes::First, 8),
                vec![f32(&[1, 2], &[1.2e-38, -5.0e-39])],
                result(&[1, 2], &[1, 0], &[1, 1], &[1.175_494_4e-38]),
            ),
        ];
        let widths = |shape: &[usize], salt| {
            let x = sample::f32(shape, salt);
            Tensor::f32(shape, x.as_f32().iter().map(|x| x.abs() * 4.0).collect())
        };
        for bits in [0, 2, 4, 6, 8] {
            cases.push(Case::shape_only(op(BlockAxes::First, bits), vec![sample::f32([5, 6, 2, 3], bits)]));
        }
        let extremes = elementwise::extreme_tensor();
        let count = extremes.shape().count();
        let rows = Tensor::f32([count, 1], extremes.as_f32().to_vec());
        cases.extend([
            Case::shape_only(op(BlockAxes::Last, 6), vec![rows]),
            Case::shape_only(
                op(BlockAxes::First, 8),
                vec![sample::f32([9, 7, 3, 1], 7), widths(&[3, 2, 3, 1], 8)],
            ),
            Case::shape_only(
                op(BlockAxes::Last, 8),
                vec![sample::f32([3, 8, 13], 9), widths(&[3, 2, 4], 10)],
            ),
            Case::shape_only(
                op(BlockAxes::Last, 4),
                vec![sample::f32([4, 9], 11), f32(&[1, 3], &[nan, -infinity, 1.0e30])],
            ),
        ]);
        cases
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks at the edges count for the elements that they have: 20 elements of 4 bits, 10 of 8.
    #[test]
    fn bits_in_the_mean() {
        let op = QuantizeBlocks { axes: BlockAxes::First, bits: 8 };
        let widths = Tensor::f32([1, 2, 5], [[4.4; 5], [7.5; 5]].concat());
        let found = op.mean_bits(&Shape::from([1, 6, 5]), &widths);
        assert_eq!(found, Some((20.0 * 4.0 + 10.0 * 8.0) / 30.0));
        assert_eq!(op.mean_bits(&Shape::from([1, 9, 5]), &widths), None);
    }
}
