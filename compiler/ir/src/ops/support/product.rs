//! Matrix products and convolutions over both of their representations: FP32, and 8-bit integers summed in i32.

use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, Scalar};
use crate::tensor::{Data, ScaleData, Tensor};
use crate::types::{Element, Scale, Shape, TensorType};

/// An element that can be multiplied and summed.
pub(crate) trait Term: Copy {
    /// What products add up in.
    type Sum: Copy;
    /// The empty sum.
    const ZERO: Self::Sum;
    /// `sum + self * other`: rounded twice, or wrapping.
    fn add_product(self, other: Self, sum: Self::Sum) -> Self::Sum;
}

impl Term for f32 {
    type Sum = f32;
    const ZERO: f32 = 0.0;
    fn add_product(self, other: f32, sum: f32) -> f32 {
        sum + self * other
    }
}

/// Bytes of two kinds, widened.
impl Term for i16 {
    type Sum = i32;
    const ZERO: i32 = 0;
    fn add_product(self, other: i16, sum: i32) -> i32 {
        sum.wrapping_add(i32::from(self) * i32::from(other))
    }
}

impl Term for i8 {
    type Sum = i32;
    const ZERO: i32 = 0;
    fn add_product(self, other: i8, sum: i32) -> i32 {
        sum.wrapping_add(i32::from(self) * i32::from(other))
    }
}

/// A product's meaning, once for all elements.
pub(crate) trait Product {
    /// Elements of the result in row-major order.
    fn sums<T: Term>(&self, a: &[T], b: &[T]) -> Vec<T::Sum>;
}

/// Runs a product on the operands' representation.
pub(crate) fn evaluate(product: &impl Product, a: &Tensor, b: &Tensor, shape: Shape) -> Tensor {
    let wide = |x: &Tensor| -> Vec<i16> { x.to_i64().iter().map(|&x| x as i16).collect() };
    let sums = match (a.data(), b.data()) {
        (Data::F32(x), Data::F32(y)) => return Tensor::f32(shape, product.sums(x, y)),
        (Data::I8(x), Data::I8(y)) => product.sums(x, y),
        (Data::U8(_), Data::I8(_)) | (Data::I8(_), Data::U8(_)) => product.sums(&wide(a), &wide(b)),
        _ => panic!("a product of {} and {}", a.ty(), b.ty()),
    };
    Tensor::new(
        TensorType::shared(shape, Element::I32),
        Data::I32(sums),
        ScaleData::Exponent(a.exponent().wrapping_add(b.exponent())),
    )
}

/// `y[i] += x[i] * factor` for slices of one length.
pub(crate) fn add_scaled<T: Term>(y: &mut [T::Sum], x: &[T], factor: T) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y = x.add_product(factor, *y);
    }
}

/// The empty sum of products whose result has that type.
pub(crate) fn zero(result: &TensorType) -> Expr {
    match result.element {
        Element::F32 => Expr::f32(0.0),
        _ => Expr::i32(0),
    }
}

/// The builder of a product's loops; the exponent of the result, where there is one, is set.
pub(crate) fn builder(inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopBuilder {
    let mut b = LoopBuilder::new(inputs, outputs, false);
    if outputs[0].scale == Scale::Exponent {
        let sum = b.input_exponent(0) + b.input_exponent(1);
        debug_assert_eq!(sum.ty, Scalar::I32);
        b.set_output_exponent(0, sum);
    }
    b
}
