//! Convolutions of bits, with what becomes of their sums, by [`crate::kernels`].

use trainc_ir::bit_product::{BitProduct, BitTail};
use trainc_ir::implementation::Signature;
use trainc_ir::ops::Chain;
use trainc_ir::{Op, TensorType};

use crate::kernels::{BitGeometry, BitThresholds, conv2d_bits, conv2d_bits_thresholds};

/// A convolution of bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bits {
    geometry: BitGeometry,
    pub(crate) tail: BitTail,
}

impl Bits {
    /// The vector kernel for the first operations, how many operands and operations it takes, and its result's type; with a
    /// threshold where that follows in a form that it has.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn of(
        ops: &[Op],
        operands: &[&TensorType],
    ) -> Result<(Bits, [usize; 2], TensorType), String> {
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
                match BitProduct::of(&Signature::new(&op, operands, &[result])) {
                    Some(Ok(product)) => {
                        return Ok((Bits::new(&product), [taken, count], result.clone()));
                    }
                    Some(Err(reason)) => why = reason,
                    None => {}
                }
            }
        }
        Err(why)
    }

    fn new(product: &BitProduct) -> Bits {
        let BitProduct { conv, x: [batch, height, width, bytes], w, y, tail } = product;
        let geometry = BitGeometry {
            batch: *batch,
            x: [*height, *width],
            bytes: *bytes,
            channels: conv.channels,
            features: w[0],
            kernel: [w[1], w[2]],
            y: *y,
            strides: conv.strides,
            pads: [conv.pads[0], conv.pads[1]],
        };
        Bits { geometry, tail: *tail }
    }

    /// Products of bits.
    pub(crate) fn products(&self) -> usize {
        self.geometry.products()
    }

    /// The sums.
    pub(crate) fn sums(&self, [x, w]: [&[u8]; 2], out: &mut [i32]) {
        conv2d_bits(&self.geometry, x, w, out);
    }

    /// The bits of sums that reach thresholds.
    pub(crate) fn bits(
        &self,
        [x, w]: [&[u8]; 2],
        least: &[i32],
        flips: Option<&[i32]>,
        out: &mut [u8],
    ) {
        conv2d_bits_thresholds(&self.geometry, x, w, BitThresholds { least, flips }, out);
    }
}
