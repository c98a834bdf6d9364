//! Scales and zero points as operands: one for the tensor, or one for each index of an axis.

use super::walk::Walk;
use crate::ops::{TypeError, rule};
use crate::types::{Scale, TensorType};

/// Checks scale and zero point: unscaled, of one shape, scalar (or of one element) or [C] of `axis`.
pub(crate) fn infer(
    name: &str,
    x: &TensorType,
    scale: &TensorType,
    zero_point: &TensorType,
    axis: usize,
) -> Result<(), TypeError> {
    rule::ensure(zero_point.scale == Scale::None, || {
        format!("{name}: the zero point is a plain integer, here {zero_point}")
    })?;
    rule::ensure(scale.shape == zero_point.shape, || {
        format!("{name}: scale {scale} and zero point {zero_point} must have one shape")
    })?;
    if is_single(scale) {
        return Ok(());
    }
    let channels = x.shape.get(axis).copied();
    rule::ensure(channels.is_some_and(|channels| scale.shape.dims() == [channels]), || {
        format!("{name}: scale {scale} fits neither a tensor nor axis {axis} of {x}")
    })
}

fn is_single(scale: &TensorType) -> bool {
    matches!(scale.shape.dims(), [] | [1])
}

/// A walk over `x` in row-major order: indices of the element and of its scale.
pub(crate) fn walk(x: &TensorType, scale: &TensorType, axis: usize) -> Walk<2> {
    let single = is_single(scale);
    let strides: Vec<[usize; 2]> = x
        .shape
        .strides()
        .into_iter()
        .enumerate()
        .map(|(i, stride)| [stride, usize::from(i == axis && !single)])
        .collect();
    Walk::new(&x.shape, &strides)
}
