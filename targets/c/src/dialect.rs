//! What a target adds to portable C: kernels of its own, and what they need.

use trainc_ir::program::{Kernel, Program};
use trainc_ir::target::{TargetDescription, loop_scratch_bytes};
use trainc_ir::{Op, Tensor, TensorType};

/// A file that the kernels of a dialect need; headers are included before the first kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SupportFile {
    /// Name in the artifact's folder, ending in `.h` or `.c`.
    pub name: String,
    /// Contents.
    pub contents: String,
}

/// What a README tells.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The program.
    pub program: &'a Program,
    /// Start of all names.
    pub prefix: &'a str,
    /// Start of all macros.
    pub macros: &'a str,
    /// C sources.
    pub sources: &'a [String],
    /// Exported functions.
    pub functions: &'a [String],
}

/// Which C a dialect is and what builds it, in words of the README.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Language {
    /// Such as `portable C99`.
    pub name: &'static str,
    /// Such as `any C compiler for a little-endian machine`.
    pub built_with: &'static str,
    /// A compiler's command, such as `cc`.
    pub compiler: &'static str,
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

    /// What a kernel's function is called, before a number makes it unique; `prefix` is the program's. Functions of other
    /// files share one name space with those of other programs.
    fn kernel_name(&self, _prefix: &str, kernel: &Kernel) -> String {
        kernel.name.clone()
    }

    /// An attribute of the array of constants, such as a larger alignment.
    fn constants_attribute(&self) -> &'static str {
        ""
    }

    /// Whether its example runs under an operating system, with a C library.
    fn hosted(&self) -> bool {
        true
    }

    /// Which C it is, for readers.
    fn language(&self) -> Language {
        Language {
            name: "portable C99",
            built_with: "any C compiler for a little-endian machine",
            compiler: "cc",
        }
    }

    /// Text of the target's own function for a kernel, or its declaration if another file has it; `None` if its loop kernel serves.
    ///
    /// # Errors
    /// If the kernel cannot be expressed.
    fn kernel(&self, _name: &str, _kernel: &Kernel) -> Result<Option<String>, String> {
        Ok(None)
    }

    /// The bytes that [`Dialect::constant_kernel`] reads in the place of an operand whose value is known: in an order of its
    /// own, their number any. `None` if it reads the operand as it is packed.
    fn arranged(&self, _kernel: &Kernel, _operand: usize, _value: &Tensor) -> Option<Vec<u8>> {
        None
    }

    /// As [`Dialect::kernel`], for a kernel whose launches all have constants where [`Dialect::arranged`] has an order.
    ///
    /// # Errors
    /// If the kernel cannot be expressed.
    fn constant_kernel(&self, _name: &str, _kernel: &Kernel) -> Result<Option<String>, String> {
        Ok(None)
    }

    /// Working memory of a kernel in bytes.
    fn scratch_bytes(&self, op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> usize {
        loop_scratch_bytes(op, inputs, outputs)
    }

    /// README.md in the place of the one for C compilers.
    fn readme(&self, _facts: &Facts<'_>) -> Option<String> {
        None
    }

    /// What a kernel costs, in words, such as `120 cycles`: an estimate for readers.
    fn cost(&self, op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> String {
        format!("{} cycles", crate::cycles(op, inputs, outputs))
    }

    /// What the kernels need beside `trainc_rt.h`.
    fn support(&self) -> Vec<SupportFile> {
        Vec::new()
    }
}
