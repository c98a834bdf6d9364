//! Which products whose groups have FP32 scales of their own the vector kernels have.

use trainc_ir::ops::GroupedProduct;
use trainc_ir::product::{self, Numbers, Shape};
use trainc_ir::{Op, TensorType};

use crate::geometry::geometry;
use crate::kernels::{self, GroupedPass, GroupedShape, MatMulGeometry};

/// The vector kernel for an operation on operands of these types.
///
/// # Errors
/// Why there is none.
pub(crate) fn product_of(
    op: &GroupedProduct,
    operands: &[&TensorType],
) -> Result<kernels::GroupedProduct, String> {
    let &[a, b, scale_a, scale_b, ..] = operands else {
        return Err("it has fewer than four operands".into());
    };
    let of = [Op::from(op.of.clone())];
    let product = product::Product::of(&of, &[a, b], |_| false).ok_or("it is no product")??;
    if product.numbers != Numbers::Bytes {
        return Err(format!("its kernels multiply i8 by i8, here {a} and {b}"));
    }
    let shape = match &product.shape {
        Shape::Convolution(c) => {
            let pass = match c.pass {
                product::Pass::Forward => GroupedPass::Forward,
                product::Pass::Error => GroupedPass::InputGradient,
                product::Pass::Gradient => GroupedPass::WeightGradient,
            };
            GroupedShape::Convolution(pass, geometry(c))
        }
        Shape::Matrices(_) if [a, b].iter().any(|ty| ty.shape.rank() != 2) => {
            return Err("there are several matrices".into());
        }
        Shape::Matrices(matrices) => GroupedShape::MatMul(MatMulGeometry::single(
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
    Ok(kernels::GroupedProduct { shape, steps, by_part })
}
