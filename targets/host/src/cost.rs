//! An estimate of a kernel's cycles on this machine, for extraction.
//!
//! The unit is a cycle of one core with AVX-512. The numbers need only order the choices that the compiler has:
//! products by their multiplications, everything else by bytes moved and work an element, and a fixed price a call.

use trainc_ir::implementation::Signature;
use trainc_ir::ops::properties::Work;
use trainc_ir::{Op, TensorType};

use crate::staging::{Pass, Segment};

/// Calling a kernel: its operands' addresses, its set-up.
const CALL: u64 = 200;

/// Multiplications a cycle of the vector kernels.
const I8_PRODUCTS: u64 = 16;
const F32_PRODUCTS: u64 = 8;
/// Of products of bits.
const BIT_PRODUCTS: u64 = 128;
/// Of products whose groups have scales.
const GROUPED_PRODUCTS: u64 = 3;

/// What a byte of a pass over codes takes: they are read twice, once to see how large the sums are.
const CODE_PASSES: u64 = 2;

/// Bytes a cycle that elementwise passes move.
const BYTES: u64 = 16;

fn bytes(ty: &TensorType) -> u64 {
    ty.element_bytes() as u64
}

/// Cycles of a kernel's segments.
pub(crate) fn cycles(segments: &[Segment]) -> u64 {
    segments.iter().map(segment).fold(0, u64::saturating_add)
}

/// Cycles of an operation by one loop kernel.
pub(crate) fn loop_cycles(signature: &Signature<'_>) -> u64 {
    CALL + loops(signature.op, signature.inputs, signature.outputs)
}

fn segment(segment: &Segment) -> u64 {
    launch_cycles(&segment.passes)
}

/// Cycles of one launch.
pub(crate) fn launch_cycles(passes: &[Pass]) -> u64 {
    passes.iter().map(pass).fold(CALL, u64::saturating_add)
}

fn pass(pass: &Pass) -> u64 {
    match pass {
        Pass::Product { multiplications, float, inputs, output } => {
            let rate = if *float { F32_PRODUCTS } else { I8_PRODUCTS };
            // Sums leave with their largest magnitude; operands are packed once.
            let moved = inputs.iter().map(bytes).sum::<u64>() + bytes(output);
            (*multiplications as u64 / rate).saturating_add(moved / BYTES)
        }
        Pass::Grouped { multiplications, inputs, output } => {
            let moved = inputs.iter().map(bytes).sum::<u64>() + bytes(output);
            (*multiplications as u64 / GROUPED_PRODUCTS).saturating_add(moved / BYTES)
        }
        Pass::Bits { products, inputs, output } => {
            let moved = inputs.iter().map(bytes).sum::<u64>() + bytes(output);
            (*products as u64 / BIT_PRODUCTS).saturating_add(moved / BYTES)
        }
        Pass::Codes { inputs, outputs } => {
            let moved: u64 = inputs.iter().chain(outputs).map(bytes).sum();
            moved * CODE_PASSES / BYTES
        }
        Pass::LargestMagnitude { input } => bytes(input) / BYTES,
        Pass::Requantize { input, output } => (bytes(input) + bytes(output)) / BYTES,
        Pass::Loops { op, inputs, output } => {
            loops(op, &inputs.iter().collect::<Vec<_>>(), &[output])
        }
    }
}

/// Cycles of an operation's loops.
fn loops(op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> u64 {
    let moved: u64 = inputs.iter().chain(outputs).map(|ty| bytes(ty)).sum();
    let results: u64 = outputs.iter().map(|ty| ty.count() as u64).sum();
    let operands: u64 = inputs.iter().map(|ty| ty.count() as u64).sum();
    let work = match op.kind().work() {
        // A cycle a multiplication: a tap's index and load beside it.
        Work::Products(each) => results.saturating_mul(each(inputs) as u64),
        Work::Series => 20 * (results + operands),
        Work::Windows => 4 * (results + operands),
        Work::Strides => 2 * (results + operands),
        Work::Little => 0,
    };
    work.saturating_add(moved / BYTES)
}
