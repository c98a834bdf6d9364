//! Vector kernels in place of loop kernels.

use trainc_ir::program::Kernel;

/// A kernel of the program that runs as a vector kernel.
pub(crate) struct MicroKernel {}

impl MicroKernel {
    /// The vector kernel of a program's kernel, if there is one.
    pub(crate) fn of(_kernel: &Kernel) -> Option<MicroKernel> {
        None
    }
}

/// Runs a vector kernel.
#[allow(unsafe_code, reason = "called by generated code with addresses")]
pub(crate) unsafe extern "C" fn launch(_kernel: *const MicroKernel, _arguments: *const *mut u8) {}
