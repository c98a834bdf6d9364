//! Convolutions of bits in groups of channels, which are taken out of the map one by one.

use super::bit_thresholds::BitThresholds;
use super::bits::{BitGeometry, conv2d_bits, conv2d_bits_scratch_bytes, conv2d_bits_thresholds};
use super::scratch::{Scratch, items_bytes, words_bytes};

/// A convolution of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitProduct {
    /// Of one group.
    pub geometry: BitGeometry,
    /// Groups; the bits of a group are whole bytes of the map where there are several.
    pub groups: usize,
}

impl BitProduct {
    /// Products of bits.
    #[must_use]
    pub fn products(&self) -> usize {
        self.groups * self.geometry.products()
    }

    /// Pixels of the map and of the result.
    fn pixels(&self) -> [usize; 2] {
        let BitGeometry { batch, x, y, .. } = self.geometry;
        [batch * x[0] * x[1], batch * y[0] * y[1]]
    }

    /// Bytes of working memory.
    #[must_use]
    pub fn scratch_bytes(&self) -> usize {
        let own = conv2d_bits_scratch_bytes(&self.geometry);
        if self.groups == 1 {
            return own;
        }
        let [map, result] = self.pixels();
        Scratch::LOSS
            + items_bytes::<u8>(map * self.geometry.bytes)
            + words_bytes(result * self.geometry.features)
            + own
    }

    /// The sums.
    pub(super) fn sums(&self, operands: [&[u8]; 2], out: &mut [i32], scratch: &mut [u8]) {
        if self.groups == 1 {
            return conv2d_bits(&self.geometry, operands[0], operands[1], out, scratch);
        }
        self.each_group(operands, scratch, |first, sums| {
            let members = self.geometry.features;
            let pixels = out.chunks_exact_mut(self.groups * members);
            for (all, own) in pixels.zip(sums.chunks_exact(members)) {
                all[first..][..members].copy_from_slice(own);
            }
        });
    }

    /// The bits of sums that reach thresholds.
    pub(super) fn bits(
        &self,
        operands: [&[u8]; 2],
        thresholds: BitThresholds<'_>,
        out: &mut [u8],
        scratch: &mut [u8],
    ) {
        if self.groups == 1 {
            let [x, w] = operands;
            return conv2d_bits_thresholds(&self.geometry, x, w, thresholds, out, scratch);
        }
        let BitThresholds { least, flips } = thresholds;
        out.fill(0);
        self.each_group(operands, scratch, |first, sums| {
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
    fn each_group(
        &self,
        [x, w]: [&[u8]; 2],
        scratch: &mut [u8],
        mut take: impl FnMut(usize, &[i32]),
    ) {
        let BitGeometry { bytes, features, kernel, .. } = self.geometry;
        let [map, result] = self.pixels();
        let mut scratch = Scratch::new(scratch);
        let own = scratch.items::<u8>(map * bytes);
        let sums = scratch.sums::<i32>(result * features);
        let rest = scratch.rest();
        let weights = features * kernel[0] * kernel[1] * bytes;
        for group in 0..self.groups {
            let all = x.chunks_exact(self.groups * bytes);
            for (own, all) in own.chunks_exact_mut(bytes).zip(all) {
                own.copy_from_slice(&all[group * bytes..][..bytes]);
            }
            let w = &w[group * weights..][..weights];
            conv2d_bits(&self.geometry, own, w, sums, rest);
            take(group * features, sums);
        }
    }
}
