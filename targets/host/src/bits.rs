//! Convolutions of bits, with what becomes of their sums, by [`crate::kernels`]. Groups of channels are taken out of the map one by one.

use trainc_ir::bit_product::{BitProduct, BitTail};
use trainc_ir::implementation::Signature;
use trainc_ir::ops::Chain;
use trainc_ir::{Op, TensorType};

use crate::kernels::{BitGeometry, BitThresholds, conv2d_bits, conv2d_bits_thresholds};

/// Features of a group below which loops serve as well.
const FEW: usize = 8;

/// A convolution of bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bits {
    /// Of one group.
    geometry: BitGeometry,
    groups: usize,
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
                match BitProduct::grouped(&Signature::new(&op, operands, &[result])) {
                    Some(Ok(product)) if product.conv.groups > 1 && product.members() < FEW => {
                        why = "its groups have few features".to_string();
                    }
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
        let BitProduct { conv, x: [batch, height, width, _], w, y, tail } = product;
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
        Bits { geometry, groups: conv.groups, tail: *tail }
    }

    /// Products of bits.
    pub(crate) fn products(&self) -> usize {
        self.groups * self.geometry.products()
    }

    /// The sums.
    pub(crate) fn sums(&self, [x, w]: [&[u8]; 2], out: &mut [i32]) {
        if self.groups == 1 {
            return conv2d_bits(&self.geometry, x, w, out);
        }
        self.each_group([x, w], |first, sums| {
            let members = self.geometry.features;
            let pixels = out.chunks_exact_mut(self.groups * members);
            for (all, own) in pixels.zip(sums.chunks_exact(members)) {
                all[first..][..members].copy_from_slice(own);
            }
        });
    }

    /// The bits of sums that reach thresholds.
    pub(crate) fn bits(
        &self,
        [x, w]: [&[u8]; 2],
        least: &[i32],
        flips: Option<&[i32]>,
        out: &mut [u8],
    ) {
        if self.groups == 1 {
            let thresholds = BitThresholds { least, flips };
            return conv2d_bits_thresholds(&self.geometry, x, w, thresholds, out);
        }
        out.fill(0);
        self.each_group([x, w], |first, sums| {
            let members = self.geometry.features;
            let pixels = out.chunks_exact_mut(self.groups * members / 8);
            for (all, own) in pixels.zip(sums.chunks_exact(members)) {
                for (at, sum) in (first..).zip(own) {
                    let sum = sum ^ flips.map_or(0, |flips| flips[at]);
                    all[at / 8] |= u8::from(sum >= least[at]) << (at % 8);
                }
            }
        });
    }

    /// Gives the sums of each group with its first feature.
    fn each_group(&self, [x, w]: [&[u8]; 2], mut take: impl FnMut(usize, &[i32])) {
        let BitGeometry { batch, x: map, bytes, features, kernel, y, .. } = self.geometry;
        let pixels = batch * map[0] * map[1];
        let weights = features * kernel[0] * kernel[1] * bytes;
        let mut own = vec![0; pixels * bytes];
        let mut sums = vec![0; batch * y[0] * y[1] * features];
        for group in 0..self.groups {
            let all = x.chunks_exact(self.groups * bytes);
            for (own, all) in own.chunks_exact_mut(bytes).zip(all) {
                own.copy_from_slice(&all[group * bytes..][..bytes]);
            }
            let w = &w[group * weights..][..weights];
            conv2d_bits(&self.geometry, &own, w, &mut sums);
            take(group * features, &sums);
        }
    }
}
