//! Which convolutions of bits, with what becomes of their sums, the vector kernels have.

use trainc_ir::bit_product::BitProduct;
use trainc_ir::implementation::Signature;
use trainc_ir::ops::Chain;
use trainc_ir::{Op, TensorType};

use crate::kernels::{self, BitGeometry};

/// Features of a group below which loops serve as well.
const FEW: usize = 8;

/// The vector kernel for the first operations, how many operands and operations it takes, and its result's type; with a threshold where
/// that follows in a form that it has.
///
/// # Errors
/// Why there is none.
pub(crate) fn product_of(
    ops: &[Op],
    operands: &[&TensorType],
) -> Result<(kernels::BitProduct, [usize; 2], TensorType), String> {
    let mut why = "it does not type".to_string();
    for count in [2, 1] {
        let Some(own) = ops.get(..count) else { continue };
        let op = match own {
            [op] => op.clone(),
            several => Op::Chain(Chain { ops: several.to_vec() }),
        };
        // A threshold takes as many operands as type.
        for taken in (2..=operands.len().min(if count == 1 { 2 } else { 4 })).rev() {
            let operands = &operands[..taken];
            let Ok(results) = op.infer(operands) else { continue };
            let [result] = &results[..] else { continue };
            match BitProduct::grouped(&Signature::new(&op, operands, &[result])) {
                Some(Ok(product)) if product.conv.groups > 1 && product.members() < FEW => {
                    why = "its groups have few features".to_string();
                }
                Some(Ok(product)) => {
                    return Ok((of(&product), [taken, count], result.clone()));
                }
                Some(Err(reason)) => why = reason,
                None => {}
            }
        }
    }
    Err(why)
}

fn of(product: &BitProduct) -> kernels::BitProduct {
    let BitProduct { conv, x: [batch, height, width, _], w, y, .. } = product;
    let geometry = BitGeometry {
        batch: *batch,
        x: [*height, *width],
        bytes: product.bytes(),
        channels: conv.channels,
        features: product.members(),
        kernel: [w[1], w[2]],
        y: *y,
        strides: conv.strides,
        pads: [conv.pads[0], conv.pads[1]],
    };
    kernels::BitProduct { geometry, groups: conv.groups }
}
