//! An estimate of a kernel's packets.

use trainc_ir::ops::properties::Property;
use trainc_ir::{Element, Op, TensorType};

use crate::depthwise::DepthwiseProduct;
use crate::devices::{Unit, unit};
use crate::pools::Pooling;
use crate::products::Product;

/// Multiplications of a packet that the product kernels reach.
const PRODUCTS: u64 = 200;
/// Results of a packet in their finish.
const RESULTS: u64 = 4;
/// Packets of a call with its phases.
const CALL: u64 = 500;
/// Bytes of a vector.
const VECTOR: u64 = 128;

/// Packets of an operation on these types: those of its scalar loops, divided by what its unit does at once.
pub(crate) fn packets(op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> u64 {
    if let Some(product) = Product::of(op, inputs, outputs) {
        let results = outputs.iter().map(|ty| ty.count() as u64).sum::<u64>();
        return product.multiplications() as u64 / PRODUCTS + results / RESULTS + CALL;
    }
    if let Some(product) = DepthwiseProduct::of(op, inputs, outputs) {
        return product.packets();
    }
    if let Some(pool) = Pooling::of(op, inputs, outputs) {
        return pool.packets();
    }
    let scalar = trainc_c::cycles(op, inputs, outputs);
    let integers = inputs.iter().chain(outputs).all(|ty| ty.element != Element::F32);
    let widest = inputs.iter().chain(outputs).map(|ty| ty.element.bits()).max().unwrap_or(8);
    let at_once = match (unit(op.kind()), integers) {
        // Products by their loops, one multiplication a packet.
        (Unit::Vector, true) if !op.kind().has(Property::Bilinear) => {
            VECTOR * 8 / u64::from(widest.max(8))
        }
        _ => 1,
    };
    (scalar / at_once).max(1)
}
