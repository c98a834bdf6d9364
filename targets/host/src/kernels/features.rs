//! What the processor has, asked without the standard library.

use core::arch::x86_64::{__cpuid_count, _xgetbv};
use core::sync::atomic::{AtomicU8, Ordering};

#[cfg(trainc_archive)]
use super::path::KernelPath;

/// A bit of a word that `cpuid` gives.
const fn bit(word: u32, at: u32) -> bool {
    word >> at & 1 == 1
}

/// Whether the system saves the registers that these bits of XCR0 stand for.
fn saves(mask: u64) -> bool {
    #[target_feature(enable = "xsave")]
    unsafe fn state() -> u64 {
        // SAFETY: the caller has seen that the instruction is there.
        unsafe { _xgetbv(0) }
    }
    // SAFETY: the bit says that the system uses it.
    bit(__cpuid_count(1, 0).ecx, 27) && unsafe { state() } & mask == mask
}

/// Whether there are tiles and products of bytes on them (AMX-TILE, AMX-INT8), which this process may use. Linux is asked for that, which
/// makes signals' frames larger where it is granted; other systems are not known to have them.
pub(super) fn tiles() -> bool {
    /// XTILECFG and XTILEDATA.
    const STATE: u64 = 0b11 << 17;
    if !cfg!(target_os = "linux") || __cpuid_count(0, 0).eax < 7 {
        return false;
    }
    let leaf = __cpuid_count(7, 0);
    bit(leaf.edx, 24) && bit(leaf.edx, 25) && saves(STATE) && is_permitted()
}

/// Whether vectors of 512 bits count the ones of each number (AVX512-VPOPCNTDQ) on a machine that has AVX-512.
pub(super) fn counts_ones() -> bool {
    /// 1 where there are none, 2 where there are.
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    let mut known = KNOWN.load(Ordering::Relaxed);
    if known == 0 {
        known = 1 + u8::from(__cpuid_count(0, 0).eax >= 7 && bit(__cpuid_count(7, 0).ecx, 14));
        KNOWN.store(known, Ordering::Relaxed);
    }
    known == 2
}

/// `arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA)`.
#[cfg(target_os = "linux")]
fn is_permitted() -> bool {
    const ARCH_PRCTL: i64 = 158;
    const ARCH_REQ_XCOMP_PERM: i64 = 0x1023;
    const XTILEDATA: i64 = 18;
    let result: i64;
    // SAFETY: the call takes two numbers and touches no memory of the process; the system keeps all registers but those named.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XTILEDATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result == 0
}

#[cfg(not(target_os = "linux"))]
fn is_permitted() -> bool {
    false
}

/// Whether this machine can run a path.
#[cfg(trainc_archive)]
pub(super) fn has(path: KernelPath) -> bool {
    let most = __cpuid_count(0, 0).eax;
    if path == KernelPath::Portable || most < 7 || !saves(0b110) {
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
            avx2 && all && bit(leaf.ecx, 11) && saves(0b1110_0110)
        }
        KernelPath::Amx => has(KernelPath::Vnni) && tiles(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn counts_of_ones() {
        for _ in 0..2 {
            let known = std::is_x86_feature_detected!("avx512f");
            let found = known && super::counts_ones();
            assert_eq!(found, known && std::is_x86_feature_detected!("avx512vpopcntdq"));
        }
    }

    /// The system's answer fits the processor's: it permits nothing that it does not save.
    #[test]
    fn permission() {
        let permitted = super::is_permitted();
        assert!(!permitted || super::saves(0b11 << 17));
        assert!(!super::tiles() || permitted);
    }
}
