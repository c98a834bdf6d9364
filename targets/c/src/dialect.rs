//! What a target adds to portable C: kernels of its own, and what they need.

use trainc_ir::program::Kernel;
use trainc_ir::target::{TargetDescription, loop_scratch_bytes};
use trainc_ir::{Op, TensorType};

/// A file that the kernels of a dialect need; headers are included before the first kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SupportFile {
    /// Name in the artifact's folder, ending in `.h` or `.c`.
    pub name: String,
    /// Contents.
    pub contents: String,
}

/// A dialect of C: portable C, with kernels of the target's own where it has them.
///
/// A kernel is a `static void` function. Its parameters are those of [`crate::function`]: the buffers of the
/// operation's loop kernel in order, each a pointer to its element type; then, if [`Dialect::scratch_bytes`] is not 0,
/// `uint8_t *scratch`, as aligned as the target's buffers are.
pub trait Dialect: Sync {
    /// Name and numbers.
    fn description(&self) -> &TargetDescription;

    /// Flags for the compiler beside those that portable C needs, such as `-O3`.
    fn flags(&self) -> &'static [&'static str] {
        &["-O2"]
    }

    /// Text of the target's own function for a kernel; `None` if its loop kernel serves.
    ///
    /// # Errors
    /// If the kernel cannot be expressed.
    fn kernel(&self, _name: &str, _kernel: &Kernel) -> Result<Option<String>, String> {
        Ok(None)
    }

    /// Working memory of a kernel in bytes.
    fn scratch_bytes(&self, op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> usize {
        loop_scratch_bytes(op, inputs, outputs)
    }

    /// What the kernels need beside `trainc_rt.h`.
    fn support(&self) -> Vec<SupportFile> {
        Vec::new()
    }
}
