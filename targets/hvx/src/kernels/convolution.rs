//! Convolutions and their error gradients with the requantisation, as kernels.

use super::kernel::{Argument, Kernel, Phase, Scratch};
use super::product::WindowProduct;
use super::requantize::requantize;
use crate::machine::MachineError;

/// `int kernel(x, packed weights, y, working memory)`: `y = requantize(product)`; returns the shift.
///
/// # Errors
/// Of the machine layer.
pub fn convolution(
    name: &str,
    product: &WindowProduct,
    bits: u8,
    low: i8,
) -> Result<Kernel, MachineError> {
    let phase_name = |phase: &str| format!("{name}_{phase}");
    let table = phase_name("windows");
    let (x, weights, y) = (Argument::Parameter(0), Argument::Parameter(1), Argument::Parameter(2));
    let mut scratch = Scratch::default();
    let operand = scratch.take(product.operand_bytes());
    let channel_sums = scratch.take(product.channel_sum_bytes());
    let starts = scratch.take(product.start_bytes());
    let sums = scratch.take(product.sums_bytes());
    let bytes = scratch.take(product.byte_bytes());
    let planes = scratch.take(product.plane_scratch_bytes());
    let vectors = product.sums_bytes() / 128;
    let phases = vec![
        Phase { function: product.pack_operand(&phase_name("pack"))?, arguments: vec![x, operand] },
        Phase {
            function: product.channel_sums(&phase_name("channel_sums"))?,
            arguments: vec![operand, channel_sums],
        },
        Phase {
            function: product.start_values(&phase_name("starts"), &table)?,
            arguments: vec![channel_sums, starts],
        },
        Phase {
            function: product.products(&phase_name("products"), &table)?,
            arguments: vec![operand, weights, starts, sums],
        },
        Phase {
            function: requantize(&phase_name("requantize"), vectors, bits, low)?,
            arguments: vec![sums, bytes, Argument::Result(3)],
        },
        Phase {
            function: product.planes(&phase_name("planes"))?,
            arguments: vec![bytes, y, planes],
        },
    ];
    Ok(Kernel {
        name: name.into(),
        purpose: "Sums over windows, requantised by the largest magnitude.".into(),
        parameters: 3,
        scratch_bytes: scratch.bytes,
        phases,
        helpers: Vec::new(),
        data: vec![product.table(&table)],
    })
}
