//! Products whose groups have FP32 scales of their own, by [`crate::kernels`].

use trainc_ir::numeric;
use trainc_ir::ops::GroupedProduct;
use trainc_ir::product::{self, Numbers, Shape};
use trainc_ir::{Op, TensorType};

use crate::geometry::geometry;
use crate::kernels::{
    ConvGeometry, GroupScales, GroupedPass, GroupedSums, MatMulGeometry, grouped_convolution,
    grouped_matmul,
};

/// A product of groups with its operands' shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grouped {
    product: Product,
    /// Of the scales of each operand, from an index of its first two axes to the next.
    steps: [[usize; 2]; 2],
    by_part: bool,
}

#[derive(Clone, Copy, Debug)]
enum Product {
    Convolution(GroupedPass, ConvGeometry),
    MatMul(MatMulGeometry),
}

impl Grouped {
    /// The vector kernel for an operation on operands of these types.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn of(op: &GroupedProduct, operands: &[&TensorType]) -> Result<Grouped, String> {
        let &[a, b, scale_a, scale_b, ..] = operands else {
            return Err("it has fewer than four operands".into());
        };
        let of = [Op::from(op.of.clone())];
        let product = product::Product::of(&of, &[a, b], |_| false).ok_or("it is no product")??;
        if product.numbers != Numbers::Bytes {
            return Err(format!("its kernels multiply i8 by i8, here {a} and {b}"));
        }
        let product = match &product.shape {
            Shape::Convolution(c) => {
                let pass = match c.pass {
                    product::Pass::Forward => GroupedPass::Forward,
                    product::Pass::Error => GroupedPass::InputGradient,
                    product::Pass::Gradient => GroupedPass::WeightGradient,
                };
                Product::Convolution(pass, geometry(c))
            }
            Shape::Matrices(_) if [a, b].iter().any(|ty| ty.shape.rank() != 2) => {
                return Err("there are several matrices".into());
            }
            Shape::Matrices(matrices) => Product::MatMul(MatMulGeometry::single(
                matrices.rows,
                matrices.columns,
                matrices.depth,
                matrices.transposed[0],
                matrices.transposed[1],
            )),
        };
        let step = |axis: usize, ty: &TensorType| match ty.shape.dims() {
            &[first, second, ..] if [first, second][axis] > 1 => {
                if axis == 0 {
                    second
                } else {
                    1
                }
            }
            _ => 0,
        };
        let steps = [scale_a, scale_b].map(|ty| [step(0, ty), step(1, ty)]);
        let by_part = op
            .scales_parts([&a.shape, &b.shape], [&scale_a.shape, &scale_b.shape])
            .map_err(|e| e.to_string())?;
        Ok(Grouped { product, steps, by_part })
    }

    /// Multiplications.
    pub(crate) fn multiplications(&self) -> usize {
        match &self.product {
            Product::Convolution(_, g) => g.multiplications(),
            Product::MatMul(g) => g.multiplications(),
        }
    }

    /// The product of `a` and `b` by their scales and by 2 to `exponent`.
    pub(crate) fn run(
        &self,
        operands: [&[i8]; 2],
        scales: [&[f32]; 2],
        exponent: i32,
        out: &mut [f32],
    ) {
        let scale = |i: usize| GroupScales { values: scales[i], steps: self.steps[i] };
        let factors = numeric::power_of_two_factors(exponent);
        let sums = GroupedSums { scales: [scale(0), scale(1)], by_part: self.by_part, factors };
        let [a, b] = operands;
        match &self.product {
            Product::Convolution(pass, g) => grouped_convolution(*pass, g, a, b, &sums, out),
            Product::MatMul(g) => grouped_matmul(g, a, b, &sums, out),
        }
    }
}
