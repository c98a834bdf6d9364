//! Bits of sums that reach thresholds, eight features a byte.

use super::path::KernelPath;

/// What the sums become.
#[derive(Clone, Copy, Debug)]
pub struct BitThresholds<'a> {
    /// The least sum of each feature that gives 1.
    pub least: &'a [i32],
    /// For each feature -1 where the complement of the sum is compared, else 0.
    pub flips: Option<&'a [i32]>,
}

/// Bytes of the bits of sums; `least` and `flips` are as long as those, a multiple of eight.
pub(super) type Reached = fn(&[i32], BitThresholds<'_>, &mut [u8]);

/// That of a path which the machine has.
pub(super) fn reached_on(path: KernelPath) -> Reached {
    #[cfg(target_arch = "x86_64")]
    {
        if path.has_avx512() {
            // SAFETY: an available path means that the machine has its features.
            return |sums, thresholds, out| unsafe { with_avx512(sums, thresholds, out) };
        }
        if path != KernelPath::Portable {
            // SAFETY: as above.
            return |sums, thresholds, out| unsafe { with_avx2(sums, thresholds, out) };
        }
    }
    reached
}

fn reached(sums: &[i32], BitThresholds { least, flips }: BitThresholds<'_>, out: &mut [u8]) {
    for (byte, (at, sums)) in out.iter_mut().zip((0..).step_by(8).zip(sums.chunks_exact(8))) {
        let reached = |i: usize| {
            let sum = sums[i] ^ flips.map_or(0, |flips| flips[at + i]);
            u8::from(sum >= least[at + i]) << i
        };
        *byte = (0..8).fold(0, |byte, i| byte | reached(i));
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2(sums: &[i32], BitThresholds { least, flips }: BitThresholds<'_>, out: &mut [u8]) {
    use core::arch::x86_64::{
        _mm256_castsi256_ps, _mm256_cmpgt_epi32, _mm256_loadu_si256, _mm256_movemask_ps,
        _mm256_xor_si256,
    };
    let eight = |from: &[i32], at: usize| {
        let from = &from[8 * at..8 * at + 8];
        // SAFETY: eight numbers are a vector.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    };
    for (at, byte) in out.iter_mut().enumerate() {
        let mut sum = eight(sums, at);
        if let Some(flips) = flips {
            sum = _mm256_xor_si256(sum, eight(flips, at));
        }
        let below = _mm256_cmpgt_epi32(eight(least, at), sum);
        *byte = !(_mm256_movemask_ps(_mm256_castsi256_ps(below)) as u8);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2")]
fn with_avx512(sums: &[i32], thresholds: BitThresholds<'_>, out: &mut [u8]) {
    use core::arch::x86_64::{_mm512_cmpge_epi32_mask, _mm512_loadu_si512, _mm512_xor_si512};
    let BitThresholds { least, flips } = thresholds;
    let sixteen = |from: &[i32], at: usize| {
        let from = &from[16 * at..16 * at + 16];
        // SAFETY: sixteen numbers are a vector.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    };
    let (pairs, rest) = out.as_chunks_mut::<2>();
    let first = 16 * pairs.len();
    for (at, bytes) in pairs.iter_mut().enumerate() {
        let mut sum = sixteen(sums, at);
        if let Some(flips) = flips {
            sum = _mm512_xor_si512(sum, sixteen(flips, at));
        }
        *bytes = _mm512_cmpge_epi32_mask(sum, sixteen(least, at)).to_le_bytes();
    }
    if !rest.is_empty() {
        let flips = flips.map(|flips| &flips[first..]);
        let thresholds = BitThresholds { least: &least[first..], flips };
        with_avx2(&sums[first..], thresholds, rest);
    }
}
