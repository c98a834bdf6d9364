//! Convolutions of bytes whose planes have FP32 scales: which products of groups they are, and where a scale is found.

use trainc_ir::ops::GroupedProduct;
use trainc_ir::product::{Convolution, Pass, Product, Shape};
use trainc_ir::{Op, TensorType};

/// Most terms of a part whose sum of bytes' products a float holds: 2^24 by the largest product.
const EXACT: usize = (1 << 24) / (128 * 128);

/// Distances between scales: of rows and of lanes, of the next row or lane and of the next part.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScaleSteps {
    pub(super) rows: [usize; 2],
    pub(super) lanes: [usize; 2],
}

/// The convolution of bytes that a product of groups is, and its scales.
///
/// # Errors
/// Why it is none whose parts floats hold exactly.
pub(super) fn scaled(
    op: &GroupedProduct,
    operands: &[&TensorType],
) -> Result<(Convolution, ScaleSteps), String> {
    let &[a, b, scale_a, scale_b, ..] = operands else {
        return Err("it has fewer than four operands".into());
    };
    let of = [Op::from(op.of.clone())];
    let product = Product::of(&of, &[a, b], |_| false).ok_or("it is no product")??.of_bytes()?;
    let Shape::Convolution(c) = &product.shape else {
        return Err("groups of matrices have products of one term".into());
    };
    if c.groups > 1 {
        return Err("channels have groups".into());
    }
    let scales = [&scale_a.shape, &scale_b.shape];
    let by_part = op.scales_parts([&a.shape, &b.shape], scales).map_err(|e| e.to_string())?;
    let (parts, terms) = match c.pass {
        Pass::Forward => (c.channels, c.tap_count()),
        Pass::Error => (c.outputs, c.tap_count()),
        Pass::Gradient => (c.images, c.places()),
    };
    if !by_part && parts > 1 {
        return Err("its parts have one scale".into());
    }
    if terms > EXACT {
        return Err(format!("a group has {terms} terms, of which floats hold {EXACT} exactly"));
    }
    let step = |ty: &TensorType, axis: usize| match ty.shape.dims() {
        &[first, second, ..] if [first, second][axis] > 1 => [second, 1][axis],
        _ => 0,
    };
    let steps = |ty, axes: [usize; 2]| axes.map(|axis| step(ty, axis));
    // Axes of rows or lanes, and of parts.
    let (rows, lanes) = match c.pass {
        Pass::Forward => (steps(scale_b, [0, 1]), steps(scale_a, [0, 1])),
        Pass::Error => (steps(scale_b, [1, 0]), steps(scale_a, [0, 1])),
        Pass::Gradient if c.swapped => (steps(scale_a, [1, 0]), steps(scale_b, [1, 0])),
        Pass::Gradient => (steps(scale_b, [1, 0]), steps(scale_a, [1, 0])),
    };
    Ok((c.clone(), ScaleSteps { rows, lanes }))
}
