//! Machine code by Cranelift: loop kernels as functions.

mod expression;
mod loop_kernel;
mod vector;

pub(crate) use loop_kernel::readonly;
pub use loop_kernel::{build_loop_kernel, loop_kernel_signature};

use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use trainc_ir::loops::LoopKernel;

use crate::HostError;

/// Which machine the code is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Machine {
    /// This one, with every instruction set it has; code runs in this process.
    Native,
    /// Any processor of this architecture that is not a museum piece (x86-64-v2: SSE4.2), so that an object does not
    /// depend on the machine that emitted it.
    Baseline,
}

/// Instruction sets of x86-64-v2 that Cranelift knows. Rounding needs SSE4.1; without it Cranelift calls libm.
const X86_64_V2: [&str; 5] = ["has_sse3", "has_ssse3", "has_sse41", "has_sse42", "has_popcnt"];

/// Loops of a kernel that stay scalar here, each with the reason.
pub(crate) fn scalar_loops(kernel: &LoopKernel) -> Vec<String> {
    trainc_loops::scalar_loops(&trainc_loops::collapsed(kernel), &vector::Words)
}

/// The instruction set to generate code for.
///
/// # Errors
/// If Cranelift does not know this machine.
pub fn instruction_set(machine: Machine) -> Result<OwnedTargetIsa, HostError> {
    let error = |e: &dyn std::fmt::Display| HostError::Codegen(format!("this machine: {e}"));
    let mut flags = settings::builder();
    let pic = if machine == Machine::Native { "false" } else { "true" };
    for (name, value) in [
        ("opt_level", "speed"),
        ("is_pic", pic),
        ("use_colocated_libcalls", "false"),
        ("enable_probestack", "false"),
        ("unwind_info", "false"),
        ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
    ] {
        flags.set(name, value).map_err(|e| error(&e))?;
    }
    let mut builder = cranelift_native::builder_with_options(machine == Machine::Native)
        .map_err(|e| error(&e))?;
    if machine == Machine::Baseline && cfg!(target_arch = "x86_64") {
        for name in X86_64_V2 {
            builder.enable(name).map_err(|e| error(&e))?;
        }
    }
    builder.finish(settings::Flags::new(flags)).map_err(|e| error(&e))
}
