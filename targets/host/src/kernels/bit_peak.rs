//! How many products of bits this machine makes at most: exclusive or, a count of ones and a sum, of what stands in registers.

#[cfg(target_arch = "x86_64")]
use super::features;
use super::path::{KernelPath, active_path};
use super::peaks::Rounds;

/// Sums that do not wait for each other.
const SUMS: usize = 12;
/// Numbers of 64 bits of each.
const WIDTH: usize = 8;

/// Products of bits a nanosecond on all threads of the kernels, by the widest instructions that they use: the best of several tries.
#[must_use]
pub fn bit_peak() -> f64 {
    Rounds { run: rounds(), products: SUMS * WIDTH * 64 }.on_all_threads()
}

/// Rounds on the instruction set that kernels use.
fn rounds() -> fn(usize) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let path = active_path();
        if path.has_avx512() && features::counts_ones() {
            // SAFETY: the machine has these instructions.
            return |count| unsafe { with_avx512(count) };
        }
        if path != KernelPath::Portable && std::is_x86_feature_detected!("avx2") {
            // SAFETY: the machine has these instructions.
            return |count| unsafe { with_avx2(count) };
        }
    }
    portable
}

#[inline(always)]
fn portable(count: usize) -> u64 {
    let mut sums = [[1u64; WIDTH]; SUMS];
    for round in 0..count {
        for sum in &mut sums {
            for number in sum {
                *number += u64::from((*number ^ round as u64).count_ones());
            }
        }
    }
    sums.iter().flatten().fold(0, |all, sum| all.wrapping_add(*sum))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2(count: usize) -> u64 {
    portable(count)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn with_avx512(count: usize) -> u64 {
    use std::arch::x86_64::{
        _mm512_add_epi64, _mm512_popcnt_epi64, _mm512_reduce_add_epi64, _mm512_set1_epi64,
        _mm512_xor_si512,
    };
    let mut sums = [_mm512_set1_epi64(1); SUMS];
    for round in 0..count {
        let word = _mm512_set1_epi64(round as i64);
        for sum in &mut sums {
            *sum = _mm512_add_epi64(*sum, _mm512_popcnt_epi64(_mm512_xor_si512(*sum, word)));
        }
    }
    sums.into_iter().fold(0, |all: u64, sum| all.wrapping_add(_mm512_reduce_add_epi64(sum) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_rounds_count_what_portable_ones_do() {
        for count in [0, 1, 2, 37] {
            assert_eq!(rounds()(count), portable(count), "{count} rounds");
        }
        assert_ne!(portable(3), portable(4));
    }
}
