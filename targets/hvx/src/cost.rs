//! An estimate of a kernel's packets.

use trainc_ir::{Element, Op, OpKind, TensorType};

use crate::devices::{Unit, unit};

/// Products of a packet that a tuned kernel reaches, end to end, per cycle of the scalar estimate.
const PRODUCTS: u64 = 400;
/// Bytes of a vector.
const VECTOR: u64 = 128;

/// Packets of an operation on these types: those of its scalar loops, divided by what its unit does at once.
pub(crate) fn packets(op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> u64 {
    let scalar = trainc_c::cycles(op, inputs, outputs);
    let integers = inputs.iter().chain(outputs).all(|ty| ty.element != Element::F32);
    let widest = inputs.iter().chain(outputs).map(|ty| ty.element.bits()).max().unwrap_or(8);
    let at_once = match (unit(op.kind()), integers) {
        (Unit::Vector, true) => match op.kind() {
            OpKind::Conv2d
            | OpKind::Conv2dGradientInput
            | OpKind::Conv2dGradientWeight
            | OpKind::MatMul => PRODUCTS,
            _ => VECTOR * 8 / u64::from(widest.max(8)),
        },
        _ => 1,
    };
    (scalar / at_once).max(1)
}
