//! The vector kernels as a static library for objects: no standard library, no allocation, one thread. `build.rs` compiles it.
#![no_std]
#![allow(dead_code, reason = "objects use a part of the kernels")]

#[path = "../src/kernels/mod.rs"]
mod kernels;

use kernels::{LAUNCH_WORDS, Launch};

/// Runs the launch that the words describe, see [`Launch`].
///
/// # Safety
/// As [`Launch::run`].
#[unsafe(export_name = env!("TRAINC_HOST_LAUNCH"))]
pub unsafe extern "C" fn launch(words: *const [i64; LAUNCH_WORDS], arguments: *const *mut u8) {
    // SAFETY: promised by the caller.
    unsafe { Launch::decode(&*words).run(arguments) }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // What the kernels assert was checked when the object was made: this is a defect, which must not go on.
    loop {
        // SAFETY: an instruction that traps.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            core::arch::asm!("ud2", options(noreturn));
            #[cfg(target_arch = "aarch64")]
            core::arch::asm!("brk #1", options(noreturn));
        }
    }
}
