//! Elementwise FP32 operations: type rule, evaluation and loops from one scalar function and its loop expression.

use super::walk::Walk;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::ops::{TypeError, rule};
use crate::tensor::Tensor;
use crate::types::TensorType;

/// The type rule of one FP32 operand: the result has its type.
pub(crate) fn infer_unary(
    name: &str,
    inputs: &[&TensorType],
) -> Result<Vec<TensorType>, TypeError> {
    let [x] = rule::operands::<1>(name, inputs)?;
    rule::all_f32(name, inputs)?;
    Ok(vec![x.clone()])
}

/// Applies `f` to each element.
pub(crate) fn evaluate_unary(inputs: &[&Tensor], f: impl Fn(f32) -> f32) -> Vec<Tensor> {
    let x = inputs[0];
    vec![Tensor::f32(x.shape().dims(), x.as_f32().iter().map(|&x| f(x)).collect())]
}

/// The loop of `f`, which may name intermediate values in the builder.
pub(crate) fn lower_unary(
    inputs: &[&TensorType],
    outputs: &[&TensorType],
    f: impl FnOnce(&mut LoopBuilder, Expr) -> Expr,
) -> LoopKernel {
    let mut builder = LoopBuilder::new(inputs, outputs, false);
    let (x, y) = (builder.input(0), builder.output(0));
    builder.for_("i", inputs[0].count(), |builder, i| {
        let value = builder.load(x, i.clone());
        let value = builder.let_("x", value);
        let value = f(builder, value);
        builder.store(y, i, value);
    });
    builder.finish()
}

/// The type rule of two FP32 operands that broadcast.
pub(crate) fn infer_binary(
    name: &str,
    inputs: &[&TensorType],
) -> Result<Vec<TensorType>, TypeError> {
    let [a, b] = rule::operands::<2>(name, inputs)?;
    rule::all_f32(name, inputs)?;
    match a.shape.broadcast(&b.shape) {
        Some(shape) => Ok(vec![TensorType::f32(shape)]),
        None => Err(TypeError::new(format!(
            "{name}: shapes {} and {} do not broadcast",
            a.shape, b.shape
        ))),
    }
}

/// The type rule of two FP32 operands of one shape (`x` and `dy` of a backward operation).
pub(crate) fn infer_same_shape(
    name: &str,
    inputs: &[&TensorType],
) -> Result<Vec<TensorType>, TypeError> {
    let [a, b] = rule::operands::<2>(name, inputs)?;
    rule::all_f32(name, inputs)?;
    rule::ensure(a.shape == b.shape, || {
        format!("{name}: operands must have one shape, here {} and {}", a.shape, b.shape)
    })?;
    Ok(vec![b.clone()])
}

/// As [`infer_same_shape`], or both operands i8 with shared exponents; `x` may then be u8.
pub(crate) fn infer_same_shape_or_shared(
    name: &str,
    inputs: &[&TensorType],
) -> Result<Vec<TensorType>, TypeError> {
    let [x, dy] = rule::operands::<2>(name, inputs)?;
    rule::f32_or_shared_byte(name, x)?;
    rule::f32_or_shared_i8(name, dy)?;
    rule::ensure(x.shape == dy.shape && x.is_f32() == dy.is_f32(), || {
        format!("{name}: operands must have one type (or u8 and i8), here {x} and {dy}")
    })?;
    Ok(vec![dy.clone()])
}

/// The loop of `f` over integer operands of one shape; the result has the exponent of operand `exponent`.
pub(crate) fn lower_shared(
    inputs: &[&TensorType],
    outputs: &[&TensorType],
    exponent: usize,
    f: impl FnOnce(&mut LoopBuilder, &[Expr]) -> Expr,
) -> LoopKernel {
    let mut builder = LoopBuilder::new(inputs, outputs, false);
    let value = builder.input_exponent(exponent);
    builder.set_output_exponent(0, value);
    let y = builder.output(0);
    builder.for_("i", outputs[0].count(), |builder, i| {
        let values: Vec<Expr> = (0..inputs.len())
            .map(|n| {
                let value = builder.load(builder.input(n), i.clone());
                builder.let_("x", value)
            })
            .collect();
        let value = f(builder, &values);
        builder.store(y, i, value);
    });
    builder.finish()
}

/// Applies `f` to each pair of broadcast elements.
pub(crate) fn evaluate_binary(inputs: &[&Tensor], f: impl Fn(f32, f32) -> f32) -> Vec<Tensor> {
    let (a, b) = (inputs[0], inputs[1]);
    let shape = a.shape().broadcast(b.shape()).expect("checked by infer");
    let walk = Walk::broadcast(&shape, [a.shape(), b.shape()]);
    let (a, b) = (a.as_f32(), b.as_f32());
    let (count, inner) = walk.inner();
    let mut out = Vec::with_capacity(shape.count());
    walk.rows(|[i, j]| match inner {
        [0, 0] => out.extend(std::iter::repeat_n(f(a[i], b[j]), count)),
        [0, _] => out.extend(b[j..j + count].iter().map(|&b| f(a[i], b))),
        [_, 0] => out.extend(a[i..i + count].iter().map(|&a| f(a, b[j]))),
        _ => out.extend(a[i..i + count].iter().zip(&b[j..j + count]).map(|(&a, &b)| f(a, b))),
    });
    vec![Tensor::f32(shape, out)]
}

/// The loops of `f` over broadcast elements.
pub(crate) fn lower_binary(
    inputs: &[&TensorType],
    outputs: &[&TensorType],
    f: impl FnOnce(&mut LoopBuilder, Expr, Expr) -> Expr,
) -> LoopKernel {
    let mut builder = LoopBuilder::new(inputs, outputs, false);
    let (a, b, y) = (builder.input(0), builder.input(1), builder.output(0));
    let shape = outputs[0].shape.dims();
    let walk = Walk::broadcast(shape, [&inputs[0].shape, &inputs[1].shape, shape]);
    walk.lower(&mut builder, "i", |builder, [i, j, k]| {
        let (left, right) = (builder.load(a, i), builder.load(b, j));
        let (left, right) = (builder.let_("a", left), builder.let_("b", right));
        let value = f(builder, left, right);
        builder.store(y, k, value);
    });
    builder.finish()
}

/// Values that elementwise cases should include: signed zeros, subnormals, ordinary and extreme magnitudes.
pub(crate) fn extremes() -> Vec<f32> {
    let mut values = vec![
        0.0,
        f32::from_bits(1),
        f32::from_bits(0x7f_ffff),
        f32::MIN_POSITIVE,
        1.0e-30,
        1.0e-7,
        0.1,
        0.5,
        0.75,
        1.0,
        1.5,
        2.5,
        std::f32::consts::PI,
        10.0,
        87.3,
        88.7,
        88.8,
        103.9,
        104.5,
        1.0e6,
        16_777_217.0,
        3.0e38,
        f32::MAX,
        f32::INFINITY,
    ];
    values.extend(values.clone().into_iter().map(|x| -x));
    values
}

/// The extremes as one odd-sized vector.
pub(crate) fn extreme_tensor() -> Tensor {
    let mut values = extremes();
    values.push(0.3);
    Tensor::f32([values.len()], values)
}

/// `count` ordinary values of both signs, none of them repeated nearby.
pub(crate) fn ramp(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 + 11) % 101) as f32 * 0.0625 - 3.0).collect()
}

/// Operand pairs for binary cases: every way of broadcasting, ranks 0 to 5, and all pairs of extremes.
pub(crate) fn broadcast_operands() -> Vec<Vec<Tensor>> {
    let tensor = |shape: &[usize], shift: f32| {
        let count = shape.iter().product();
        Tensor::f32(shape, ramp(count).into_iter().map(|x| x + shift).collect())
    };
    let shapes: [(&[usize], &[usize]); 11] = [
        (&[], &[]),
        (&[7], &[]),
        (&[], &[3, 5]),
        (&[1], &[5]),
        (&[2, 3], &[2, 3]),
        (&[2, 1], &[1, 3]),
        (&[2, 3, 5], &[3, 1]),
        (&[5], &[2, 3, 1, 5]),
        (&[2, 3, 3, 5], &[3, 1, 1]),
        (&[2, 1, 3, 1, 2], &[1, 3, 1, 5, 1]),
        (&[3, 0, 2], &[1, 2]),
    ];
    let extremes = extremes();
    let column = Tensor::f32([extremes.len(), 1], extremes.clone());
    shapes
        .iter()
        .map(|(a, b)| vec![tensor(a, 0.0), tensor(b, 0.03125)])
        .chain([vec![column, Tensor::f32([extremes.len()], extremes)]])
        .collect()
}
