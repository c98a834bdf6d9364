//! Convolutions and their error gradients with their rounding, as kernels.

use super::kernel::{Argument, DataObject, Kernel, Phase, Scratch};
use super::product::WindowProduct;
use super::requantize::requantize;
use super::static_shift::StaticShift;
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
    let weights = Argument::Parameter(1);
    let mut scratch = Scratch::default();
    let Packed { mut phases, operand, starts } = Packed::new(name, product, &mut scratch, &table)?;
    let sums = scratch.take(product.sums_bytes());
    let bytes = scratch.take(product.byte_bytes());
    let vectors = product.sums_bytes() / 128;
    phases.extend([
        Phase {
            function: product.products(&phase_name("products"), &table)?,
            arguments: vec![operand, weights, starts, sums],
        },
        Phase {
            function: requantize(&phase_name("requantize"), vectors, bits, low)?,
            arguments: vec![sums, bytes, Argument::Result(3)],
        },
    ]);
    let spread = order(name, product, &mut scratch, &mut phases, bytes)?;
    Ok(Kernel {
        name: name.into(),
        purpose: "Sums over windows, requantised by the largest magnitude.".into(),
        parameters: 3,
        scratch_bytes: scratch.bytes,
        phases,
        helpers: Vec::new(),
        data: std::iter::once(product.table(&table)).chain(spread).collect(),
    })
}

/// `void kernel(x, packed weights, y, working memory)`: `y = shift_right(product)`, rounded as sums are made.
///
/// # Errors
/// Of the machine layer.
pub fn static_convolution(
    name: &str,
    product: &WindowProduct,
    shift: StaticShift,
) -> Result<Kernel, MachineError> {
    let phase_name = |phase: &str| format!("{name}_{phase}");
    let table = phase_name("windows");
    let weights = Argument::Parameter(1);
    let mut scratch = Scratch::default();
    let Packed { mut phases, operand, starts } = Packed::new(name, product, &mut scratch, &table)?;
    let shifted = scratch.take(product.byte_bytes());
    let bytes = scratch.take(product.byte_bytes());
    phases.extend([
        Phase {
            function: product.shifted_products(&phase_name("products"), &table, shift)?,
            arguments: vec![operand, weights, starts, shifted],
        },
        Phase {
            function: product.positions_inside(&phase_name("positions"))?,
            arguments: vec![shifted, bytes],
        },
    ]);
    let spread = order(name, product, &mut scratch, &mut phases, bytes)?;
    Ok(Kernel {
        name: name.into(),
        purpose: "Sums over windows, shifted right by a number of bits known ahead.".into(),
        parameters: 3,
        scratch_bytes: scratch.bytes,
        phases,
        helpers: Vec::new(),
        data: std::iter::once(product.table(&table)).chain(spread).collect(),
    })
}

/// Bytes in the order image, channel, position: the phases, and the table that they read.
fn order(
    name: &str,
    product: &WindowProduct,
    scratch: &mut Scratch,
    phases: &mut Vec<Phase>,
    bytes: Argument,
) -> Result<Option<DataObject>, MachineError> {
    let y = Argument::Parameter(2);
    let planes = scratch.take(product.plane_scratch_bytes());
    let function = product.planes(&format!("{name}_planes"))?;
    let Some(spread) = &product.spread else {
        phases.push(Phase { function, arguments: vec![bytes, y, planes] });
        return Ok(None);
    };
    let dense = scratch.take(spread.source_bytes());
    phases.push(Phase { function, arguments: vec![bytes, dense, planes] });
    let (function, table) = spread.function(&format!("{name}_spread"))?;
    phases.push(Phase { function, arguments: vec![dense, y] });
    Ok(Some(table))
}

/// What comes before the products.
pub(super) struct Packed {
    pub(super) phases: Vec<Phase>,
    pub(super) operand: Argument,
    pub(super) starts: Argument,
}

impl Packed {
    pub(super) fn new(
        name: &str,
        product: &WindowProduct,
        scratch: &mut Scratch,
        table: &str,
    ) -> Result<Self, MachineError> {
        let operand = scratch.take(product.operand_bytes());
        let channel_sums = scratch.take(product.channel_sum_bytes());
        let starts = scratch.take(product.start_bytes());
        let phases = vec![
            Phase {
                function: product.pack_operand(&format!("{name}_pack"))?,
                arguments: vec![Argument::Parameter(0), operand],
            },
            Phase {
                function: product.channel_sums(&format!("{name}_channel_sums"))?,
                arguments: vec![operand, channel_sums],
            },
            Phase {
                function: product.start_values(&format!("{name}_starts"), table)?,
                arguments: vec![channel_sums, starts],
            },
        ];
        Ok(Self { phases, operand, starts })
    }
}
