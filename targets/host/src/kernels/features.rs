//! What the processor has, asked without the standard library.

use core::arch::x86_64::{__cpuid_count, _xgetbv};

use super::path::KernelPath;

/// Whether this machine can run a path.
pub(super) fn has(path: KernelPath) -> bool {
    let bit = |word: u32, at: u32| word >> at & 1 == 1;
    let basic = __cpuid_count(1, 0);
    // The system saves the wide registers.
    let saved = |mask: u64| {
        #[target_feature(enable = "xsave")]
        unsafe fn state() -> u64 {
            // SAFETY: the caller has seen that the instruction is there.
            unsafe { _xgetbv(0) }
        }
        // SAFETY: the bit says that the system uses it.
        bit(basic.ecx, 27) && unsafe { state() } & mask == mask
    };
    let most = __cpuid_count(0, 0).eax;
    if path == KernelPath::Portable || most < 7 || !saved(0b110) {
        return path == KernelPath::Portable;
    }
    let (leaf, next) = (__cpuid_count(7, 0), __cpuid_count(7, 1));
    let avx2 = bit(leaf.ebx, 5);
    match path {
        KernelPath::Portable => true,
        KernelPath::Avx2 => avx2,
        KernelPath::Avx2Vnni => avx2 && leaf.eax >= 1 && bit(next.eax, 4),
        KernelPath::Vnni => {
            let all = [16, 30, 31].into_iter().all(|at| bit(leaf.ebx, at));
            avx2 && all && bit(leaf.ecx, 11) && saved(0b1110_0110)
        }
    }
}
