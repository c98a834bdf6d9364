//! Which operations run on the vector unit, and which on the scalar core.

use trainc_ir::OpKind;

/// A unit of the processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// HVX: elements of a vector at once.
    Vector,
    /// The scalar core, one element at a time: floats, and what moves elements about.
    Scalar,
}

/// The unit that runs an operation.
#[must_use]
pub fn unit(kind: OpKind) -> Unit {
    use OpKind as K;
    match kind {
        K::Conv2d
        | K::Conv2dGradientInput
        | K::Conv2dGradientWeight
        | K::MatMul
        | K::MaxPool2d
        | K::AvgPool2d
        | K::Relu
        | K::ReluGradient
        | K::Add
        | K::Sub
        | K::AlignedAdd
        | K::Clip
        | K::Maximum
        | K::Minimum
        | K::Requantize
        | K::SaturatingSubtract
        | K::ShiftRight
        | K::QuantizeGradient => Unit::Vector,
        _ => Unit::Scalar,
    }
}
