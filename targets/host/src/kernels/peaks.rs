//! What this machine makes at most: products of bytes and of singles a nanosecond of what stands in registers, bytes a nanosecond that
//! move between threads and memory.

use std::time::Instant;

#[cfg(target_arch = "x86_64")]
use super::amx;
use super::path::{KernelPath, active_path};
use super::threads;

/// Sums that do not wait for each other.
const SUMS: usize = 12;
/// Rounds between looks at the clock, and how many looks.
const ROUNDS: usize = 20_000;
const TRIES: usize = 40;
/// Bytes that are copied, more than caches hold, and how often.
const COPIED: usize = 96 << 20;
const COPIES: usize = 5;

/// A loop of `count` rounds, and the products of one of them.
#[derive(Clone, Copy)]
pub(super) struct Rounds {
    pub(super) run: fn(usize) -> u64,
    pub(super) products: usize,
}

impl Rounds {
    /// Products a nanosecond on all threads of the kernels: the best of several tries.
    pub(super) fn on_all_threads(self) -> f64 {
        on_all(threads::threads(), TRIES, ROUNDS * self.products, &|| {
            std::hint::black_box((self.run)(std::hint::black_box(ROUNDS)));
        })
    }
}

/// How much of `each` try's work a nanosecond does on so many threads, of each the best of its tries.
fn on_all(threads: usize, tries: usize, each: usize, work: &(dyn Fn() + Sync)) -> f64 {
    let best = || {
        let time = |_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        };
        each as f64 / ((0..tries).map(time).fold(f64::INFINITY, f64::min) * 1e9)
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(best)).collect();
        all.into_iter().map(|thread| thread.join().unwrap_or(0.0)).sum()
    })
}

/// Products of bytes a nanosecond with their sums in 32 bits, on all threads of the kernels, by the widest instructions that they use.
#[must_use]
pub fn byte_peak() -> f64 {
    byte_rounds(active_path()).on_all_threads()
}

/// Products of FP32 a nanosecond with their sums, both in one operation where the machine has it: what PyTorch uses. The kernels round each
/// product and each sum, so that they reach all of it only where a machine adds and multiplies at the same time.
#[must_use]
pub fn single_peak() -> f64 {
    single_rounds(active_path()).on_all_threads()
}

/// Bytes a nanosecond that all threads of the kernels read and write when they copy what no cache holds.
#[must_use]
pub fn bandwidth() -> f64 {
    let count = threads::threads().max(1);
    let each = COPIED / count;
    std::thread::scope(|scope| {
        let copy = || {
            let (from, mut to) = (vec![1u8; each], vec![2u8; each]);
            let time = |_| {
                let start = Instant::now();
                std::hint::black_box(&mut to).copy_from_slice(std::hint::black_box(&from));
                start.elapsed().as_secs_f64()
            };
            2.0 * each as f64 / ((0..COPIES).map(time).fold(f64::INFINITY, f64::min) * 1e9)
        };
        let all: Vec<_> = (0..count).map(|_| scope.spawn(copy)).collect();
        all.into_iter().map(|thread| thread.join().unwrap_or(0.0)).sum()
    })
}

/// Rounds of byte products on a path that is there.
fn byte_rounds(path: KernelPath) -> Rounds {
    assert!(path.is_available(), "this machine lacks the path {}", path.name());
    #[cfg(target_arch = "x86_64")]
    match path {
        KernelPath::Portable => {}
        // SAFETY: the path is there, hence its instructions are.
        KernelPath::Avx2 => return rounds_of(|count| unsafe { x86::byte_pairs(count) }, 16),
        // SAFETY: as above.
        KernelPath::Avx2Vnni => return rounds_of(|count| unsafe { x86::byte_dots(count) }, 32),
        // SAFETY: as above.
        KernelPath::Vnni => return rounds_of(|count| unsafe { x86::wide_byte_dots(count) }, 64),
        KernelPath::Amx => {
            // SAFETY: as above.
            return Rounds { run: |count| unsafe { amx::most(count) }, products: amx::MOST };
        }
    }
    rounds_of(portable_bytes, 1)
}

/// Rounds of FP32 products on the widest registers of a path that is there.
fn single_rounds(path: KernelPath) -> Rounds {
    assert!(path.is_available(), "this machine lacks the path {}", path.name());
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("fma") {
        match path {
            KernelPath::Portable => {}
            KernelPath::Avx2 | KernelPath::Avx2Vnni => {
                // SAFETY: the path is there, hence AVX2 is, and the machine has fused operations.
                return rounds_of(|count| unsafe { x86::singles(count) }, 8);
            }
            // SAFETY: the path is there, hence AVX-512 is.
            _ => return rounds_of(|count| unsafe { x86::wide_singles(count) }, 16),
        }
    }
    rounds_of(portable_singles, 1)
}

/// Rounds with a vector of `lanes` products for each sum.
const fn rounds_of(run: fn(usize) -> u64, lanes: usize) -> Rounds {
    Rounds { run, products: SUMS * lanes }
}

fn portable_bytes(count: usize) -> u64 {
    let mut sums: [i32; SUMS] = std::array::from_fn(|i| i as i32);
    for round in 0..count {
        let factor = (round & 1) as i32 + 1;
        for sum in &mut sums {
            *sum = sum.wrapping_add(factor.wrapping_mul(i32::from(*sum as i8)));
        }
    }
    sums.iter().fold(0u64, |all, &sum| all.wrapping_add(sum as u64))
}

fn portable_singles(count: usize) -> u64 {
    let mut sums: [f32; SUMS] = std::array::from_fn(|i| i as f32);
    for _ in 0..count {
        for sum in &mut sums {
            *sum = *sum * 0.75 + 1.0;
        }
    }
    sums.iter().fold(0u64, |all, &sum| all.wrapping_add(u64::from(sum.to_bits())))
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use core::arch::x86_64::*;

    use super::SUMS;

    /// A loop over vectors in registers: their start from a number, a step of one of them by the round's vector, and their sum.
    macro_rules! rounds {
        ($name:ident, $features:literal, $start:path, $step:expr, $fold:expr) => {
            #[target_feature(enable = $features)]
            pub(super) fn $name(count: usize) -> u64 {
                let mut sums = [$start(0 as _); SUMS];
                for (i, sum) in sums.iter_mut().enumerate() {
                    *sum = $start(i as _);
                }
                for round in 0..count {
                    let factor = $start(((round & 1) + 1) as _);
                    for sum in &mut sums {
                        *sum = $step(*sum, factor);
                    }
                }
                let mut all = 0u64;
                // Every lane counts.
                for sum in std::hint::black_box(sums) {
                    all = all.wrapping_add($fold(sum) as u64);
                }
                all
            }
        };
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn pairs(sum: __m256i, factor: __m256i) -> __m256i {
        _mm256_add_epi32(sum, _mm256_madd_epi16(sum, factor))
    }

    #[inline]
    #[target_feature(enable = "avx2,avxvnni")]
    fn dots(sum: __m256i, factor: __m256i) -> __m256i {
        _mm256_dpbusd_avx_epi32(sum, sum, factor)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512vnni")]
    fn wide_dots(sum: __m512i, factor: __m512i) -> __m512i {
        _mm512_dpbusd_epi32(sum, sum, factor)
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn fused(sum: __m256, factor: __m256) -> __m256 {
        _mm256_fmadd_ps(sum, _mm256_set1_ps(0.75), factor)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn wide_fused(sum: __m512, factor: __m512) -> __m512 {
        _mm512_fmadd_ps(sum, _mm512_set1_ps(0.75), factor)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn first(sum: __m256i) -> i32 {
        _mm256_cvtsi256_si32(sum)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn wide_first(sum: __m512i) -> i32 {
        _mm512_cvtsi512_si32(sum)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn first_single(sum: __m256) -> u32 {
        _mm256_cvtss_f32(sum).to_bits()
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn wide_first_single(sum: __m512) -> u32 {
        _mm512_cvtss_f32(sum).to_bits()
    }

    rounds!(byte_pairs, "avx2", _mm256_set1_epi32, pairs, first);
    rounds!(byte_dots, "avx2,avxvnni", _mm256_set1_epi32, dots, first);
    rounds!(wide_byte_dots, "avx512f,avx512vnni", _mm512_set1_epi32, wide_dots, wide_first);
    rounds!(singles, "avx2,fma", _mm256_set1_ps, fused, first_single);
    rounds!(wide_singles, "avx512f", _mm512_set1_ps, wide_fused, wide_first_single);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_not_left_out() {
        for path in KernelPath::ALL.into_iter().filter(|path| path.is_available()) {
            for rounds in [byte_rounds(path), single_rounds(path)] {
                // Sums differ after each round, so that each is computed.
                let found: Vec<u64> = (0..4).map(|count| (rounds.run)(count)).collect();
                assert!(found.windows(2).all(|pair| pair[0] != pair[1]), "{path:?}: {found:?}");
            }
        }
    }

    /// On tiles each of four registers of sums grows by its products of ones in a round.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    #[test]
    fn tiles_count_all_of_their_products() {
        if KernelPath::Amx.is_available() {
            // SAFETY: the path is there.
            let least = unsafe { amx::most(3) };
            assert_eq!(least, 3 * amx::MOST as u64 / 4);
        }
    }

    #[test]
    fn a_peak_is_products_over_time() {
        let slow = on_all(3, 1, 1000, &|| {
            std::thread::sleep(std::time::Duration::from_millis(20));
        });
        let most = 3.0 * 1000.0 / 20e6;
        assert!(slow > 0.0 && slow <= most, "{slow} of {most}");
    }
}
