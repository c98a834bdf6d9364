//! `block_product`. See [`BlockProduct`].

use crate::attributes::Attributes;
use crate::loops::builder::{LoopBuilder, flat_index};
use crate::loops::{Expr, LoopKernel, Unary};
use crate::numeric::{self, exponent};
use crate::operator;
use crate::ops::properties::{Work, by_index};
use crate::ops::support::block_terms::Part;
use crate::ops::support::blocks::{BlockAxes, Blocks};
use crate::ops::support::sample;
use crate::ops::support::terms::{ProductOf, Terms, each_index};
use crate::ops::{Case, Conv2d, Operator};
use crate::ops::{TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Shape, TensorType};

operator! {
    /// A matrix product, a convolution or a gradient of one of block floating point (see `quantize_blocks`): sums of integers inside
    /// blocks, FP32 across them. Operands: `a`, `b`, i8 or u8 with shared exponents, as the product takes them; `step_a`, `step_b`, FP32,
    /// one for each block: of a convolution's operands over their first two axes, of matrices over their last two. Result: FP32.
    ///
    /// A part is the terms that lie in one block of each operand: up to four indices along `k`, the channels of a convolution, the
    /// features of its error, the examples of its weight's gradient (one, where groups of channels are no multiple of four). Order: that
    /// axis in steps of four, within it all taps or pixels as the product's FP32 sums have them. Terms of a part are added in i32, modulo
    /// 2^32; then `total = total + f32(sum) * (step_a * step_b)` from +0, each step rounded; then the total is multiplied by 2 to
    /// the exponents' sum.
    pub struct BlockProduct = "block_product" {
        /// The product, with its attributes.
        pub of: ProductOf,
    }
}

impl BlockProduct {
    /// The axes that blocks of its operands tile.
    pub fn axes(&self) -> BlockAxes {
        match self.of {
            ProductOf::MatMul(_) => BlockAxes::Last,
            _ => BlockAxes::First,
        }
    }

    fn terms(&self, a: &Shape, b: &Shape) -> Result<Terms, TypeError> {
        Terms::new(&self.of, a, b)
    }
}

impl Operator for BlockProduct {
    const WORK: Work = Work::Products(|inputs| by_index(inputs[1], 0));

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [a, b, steps_a, steps_b] = rule::operands(Self::NAME, inputs)?;
        rule::ensure(!a.is_f32(), || format!("{} takes integers, here {a} and {b}", Self::NAME))?;
        rule::product(Self::NAME, a, b)?;
        rule::all_f32(Self::NAME, &inputs[2..])?;
        let terms = self.terms(&a.shape, &b.shape)?;
        for (own, steps) in [(a, steps_a), (b, steps_b)] {
            let blocks = Blocks::new(Self::NAME, &own.shape, self.axes())?;
            rule::ensure(steps.shape == *blocks.grid(), || {
                format!("{}: {own} has {} blocks, here {steps} steps", Self::NAME, blocks.grid())
            })?;
        }
        Ok(vec![TensorType::f32(terms.result().clone())])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (a, b) = (inputs[0], inputs[1]);
        let terms = self.terms(a.shape(), b.shape()).expect("the type rule has checked the operands");
        let power = a.exponent().wrapping_add(b.exponent());
        let (left, right) = (a.to_i64(), b.to_i64());
        let [step_a, step_b] = [inputs[2].as_f32(), inputs[3].as_f32()];
        let mut y = Vec::with_capacity(terms.result().count());
        each_index(terms.result(), |at| {
            let mut total = 0.0f32;
            terms.each_part(at, |Part { first, strides, terms, blocks }| {
                let sum = (0..terms).fold(0i32, |sum, i| {
                    let product = left[first[0] + i * strides[0]] * right[first[1] + i * strides[1]];
                    sum.wrapping_add(product as i32)
                });
                total += sum as f32 * (step_a[blocks[0]] * step_b[blocks[1]]);
            });
            y.push(numeric::scale_by_power_of_two(total, power));
        });
        vec![Tensor::f32(terms.result().clone(), y)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let terms = self
            .terms(&inputs[0].shape, &inputs[1].shape)
            .expect("the type rule has checked the operands");
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let operands = [b.input(0), b.input(1)];
        let steps = [b.input(2), b.input(3)];
        let power = b.input_exponent(0) + b.input_exponent(1);
        let [first_factor, second_factor] = exponent::power_of_two_factors(&mut b, power);
        let y = b.output(0);
        b.for_shape("at", terms.result(), |b, at| {
            let total = b.local("total", Expr::f32(0.0));
            terms.lower_parts(b, at, &mut |b, Part { first, strides, terms, blocks }| {
                let product = |b: &LoopBuilder, i: Expr| {
                    let place = |o: usize| first[o].clone() + i.clone() * Expr::index(strides[o]);
                    b.load(operands[0], place(0)) * b.load(operands[1], place(1))
                };
                let sum = match terms.as_constant() {
                    // So few that they are written out.
                    Some(count) => {
                        let products = (0..count).map(|i| product(b, Expr::i64(i)));
                        products.reduce(|sum, next| sum + next).unwrap_or_else(|| Expr::i32(0))
                    }
                    None => {
                        let sum = b.local("sum", Expr::i32(0));
                        b.for_range("i", Expr::i64(0), terms, |b, i| {
                            let value = b.get(sum) + product(b, i);
                            b.set(sum, value);
                        });
                        b.get(sum)
                    }
                };
                let [first, second] = [0, 1].map(|o| b.load(steps[o], blocks[o].clone()));
                let value = b.get(total) + sum.unary(Unary::ToFloat) * (first * second);
                b.set(total, value);
            });
            let place = b.let_("place", flat_index(terms.result(), at));
            let value = b.get(total) * first_factor * second_factor;
            b.store(y, place, value);
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        use sample::{conv, error, matrix as product, weight};
        let of = |of| BlockProduct { of };
        let i8 = |shape: &[usize], q: &[i8]| Tensor::i8_shared(shape, q.to_vec(), 0);
        let f32 = |shape: &[usize], x: &[f32]| Tensor::f32(shape, x.to_vec());
        // Codes of both operands, and a step for each block.
        let made = |of: ProductOf, a: &[usize], b: &[usize]| {
            let op = BlockProduct { of };
            let steps = |shape: &[usize], salt| {
                let blocks = Blocks::new("steps", &Shape::from(shape.to_vec()), op.axes());
                let grid = blocks.expect("two axes").grid().clone();
                let x = sample::f32(grid.clone(), salt);
                Tensor::f32(grid, x.as_f32().to_vec())
            };
            let codes = |shape: &[usize], salt| sample::i8_shared(shape.to_vec(), salt, -5);
            let operands = vec![codes(a, 1), codes(b, 2), steps(a, 3), steps(b, 4)];
            Case::shape_only(op, operands)
        };
        vec![
            // A sum inside: 2^24 * (1 + 1 + 1) at once is 3 * 2^24; then 1 * 0.5 is lost.
            Case::new(
                of(product(false, false)),
                vec![
                    i8(&[1, 5], &[1, 1, 1, 0, 1]),
                    i8(&[5, 1], &[1, 1, 1, 9, 1]),
                    f32(&[1, 2], &[16_777_216.0, 0.5]),
                    f32(&[2, 1], &[1.0, 1.0]),
                ],
                vec![f32(&[1, 1], &[50_331_648.0])],
            ),
            // Rows of two blocks: 1 * 2 * 0.5 + ... + 2 * 1 * 0.25, by 2^-1.
            Case::new(
                of(product(false, true)),
                vec![
                    Tensor::i8_shared([1, 5], vec![1, 2, 3, 4, 2], -3),
                    Tensor::i8_shared([2, 5], vec![2, 0, 0, 1, 1, -1, 1, -1, 1, 127], 2),
                    f32(&[1, 2], &[0.5, 0.25]),
                    f32(&[1, 2], &[1.0, 1.0]),
                ],
                vec![f32(&[1, 2], &[1.75, 32.25])],
            ),
            // Two channels in one block at each of two taps: 2 * (1 * 3 + 5 * -1) and 4 * 0.5 * (2 * 4 + 6 * 1).
            Case::new(
                of(ProductOf::Conv2d(Conv2d { strides: [1, 1], pads: [0; 4], dilations: [1, 1], groups: 1 })),
                vec![
                    i8(&[1, 2, 1, 2], &[1, 2, 5, 6]),
                    i8(&[1, 2, 1, 2], &[3, 4, -1, 1]),
                    f32(&[1, 1, 1, 2], &[1.0, 4.0]),
                    f32(&[1, 1, 1, 2], &[2.0, 0.5]),
                ],
                vec![f32(&[1, 1, 1, 1], &[24.0])],
            ),
            made(conv(1), &[2, 7, 5, 6], &[5, 7, 3, 2]),
            made(conv(2), &[5, 8, 5, 6], &[6, 4, 3, 2]),
            made(conv(3), &[1, 6, 5, 6], &[6, 2, 3, 2]),
            made(error(1), &[2, 9, 3, 6], &[9, 3, 3, 2]),
            made(error(2), &[5, 6, 3, 6], &[6, 2, 3, 2]),
            made(error(2), &[1, 8, 3, 6], &[8, 3, 3, 2]),
            made(weight(1), &[6, 3, 5, 6], &[6, 5, 3, 6]),
            made(weight(2), &[2, 4, 5, 6], &[2, 6, 3, 6]),
            made(product(false, false), &[6, 9], &[9, 5]),
            made(product(true, true), &[2, 1, 5, 3], &[4, 7, 5]),
            made(product(true, false), &[8, 5], &[8, 6]),
            made(product(false, true), &[3, 4, 7], &[1, 5, 7]),
        ]
    }
}
