//! Made-up operands for cases: the same on every run, without structure that could hide a wrong index.

use crate::ops::{
    Conv2d, Conv2dGradientInput, Conv2dGradientWeight, MatMul, ProductOf, ProductRole,
};
use crate::random::philox4x32;
use crate::tensor::Tensor;
use crate::types::{Element, Shape, TensorType};

fn bits(salt: u32, index: usize) -> u32 {
    philox4x32([index as u32, salt, 0, 0], [0x7261_6e64, 0x6f6d_2121])[0]
}

/// FP32 numbers in (-1, 1) with full mantissas, so that sums round and their order shows.
pub(crate) fn f32(shape: impl Into<Shape>, salt: u32) -> Tensor {
    let shape = shape.into();
    let unit = |i| (bits(salt, i) as i32 >> 7) as f32 / (1 << 24) as f32;
    let data = (0..shape.count()).map(unit).collect();
    Tensor::f32(shape, data)
}

/// Bytes of the full range with a shared exponent; the first two are the extremes.
pub(crate) fn i8_shared(shape: impl Into<Shape>, salt: u32, exponent: i32) -> Tensor {
    let shape = shape.into();
    let mut data: Vec<i8> = (0..shape.count()).map(|i| bits(salt, i) as i8).collect();
    data.iter_mut().zip([-128, 127]).for_each(|(x, extreme)| *x = extreme);
    Tensor::i8_shared(shape, data, exponent)
}

/// Unscaled integers of the element's full range.
pub(crate) fn integers(shape: impl Into<Shape>, element: Element, salt: u32) -> Tensor {
    let ty = TensorType::new(shape, element);
    let (low, high) = element.integer_range().expect("an integer element");
    let values: Vec<i64> =
        (0..ty.count()).map(|i| low + i64::from(bits(salt, i)) % (high - low + 1)).collect();
    Tensor::from_i64(&ty, &values, crate::tensor::ScaleData::None)
}

/// 32-bit words of the full range.
pub(crate) fn words(count: usize) -> Vec<i32> {
    (0..count).map(|i| bits(0x5eed, i) as i32).collect()
}

/// Integers of the element's full range with a shared exponent; the first two are the extremes.
pub(crate) fn shared(
    shape: impl Into<Shape>,
    element: Element,
    salt: u32,
    exponent: i32,
) -> Tensor {
    let ty = TensorType::shared(shape, element);
    let (low, high) = element.integer_range().expect("an integer element");
    let mut values: Vec<i64> =
        (0..ty.count()).map(|i| low + i64::from(bits(salt, i)) % (high - low + 1)).collect();
    values.iter_mut().zip([low, high]).for_each(|(x, extreme)| *x = extreme);
    Tensor::from_i64(&ty, &values, crate::tensor::ScaleData::Exponent(exponent))
}

/// These integers with a shared exponent.
pub(crate) fn shared_of(
    shape: impl Into<Shape>,
    element: Element,
    values: &[i64],
    exponent: i32,
) -> Tensor {
    let scale = crate::tensor::ScaleData::Exponent(exponent);
    Tensor::from_i64(&TensorType::shared(shape, element), values, scale)
}

/// A forward matrix product.
pub(crate) fn matrix(transpose_a: bool, transpose_b: bool) -> ProductOf {
    ProductOf::MatMul(MatMul { transpose_a, transpose_b, role: ProductRole::Forward })
}

// Convolutions of maps of 5 x 6 by kernels of 3 x 2 with nothing alike in both directions: results are 3 x 6.
const STRIDES: [usize; 2] = [2, 1];
const PADS: [usize; 4] = [1, 0, 1, 2];
const DILATIONS: [usize; 2] = [1, 2];

/// A convolution of a map of 5 x 6 by a kernel of 3 x 2.
pub(crate) fn conv(groups: usize) -> ProductOf {
    let (strides, pads, dilations) = (STRIDES, PADS, DILATIONS);
    ProductOf::Conv2d(Conv2d { strides, pads, dilations, groups })
}

/// The gradient of [`conv`]'s map.
pub(crate) fn error(groups: usize) -> ProductOf {
    let (strides, pads, dilations) = (STRIDES, PADS, DILATIONS);
    let input_size = [5, 6];
    ProductOf::Conv2dGradientInput(Conv2dGradientInput {
        strides,
        pads,
        dilations,
        groups,
        input_size,
    })
}

/// The gradient of [`conv`]'s kernel.
pub(crate) fn weight(groups: usize) -> ProductOf {
    let (strides, pads, dilations) = (STRIDES, PADS, DILATIONS);
    let kernel_size = [3, 2];
    ProductOf::Conv2dGradientWeight(Conv2dGradientWeight {
        strides,
        pads,
        dilations,
        groups,
        kernel_size,
    })
}
