//! Kernels in C: what an implementation must tell for a program to be printed, and the one that any operation has.

use trainc_ir::Tensor;
use trainc_ir::implementation::{Cost, Implementation, Selection, Signature, Ways};
use trainc_ir::loops::LoopKernel;
use trainc_ir::program::Kernel;
use trainc_ir::target::loop_scratch;
use trainc_ir::types::Element;

use crate::cost::{self, Floats};
use crate::loops;

/// A kernel's C.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Emitted {
    /// Its `static void` function after those that it calls, or its declaration if another file has it.
    pub text: String,
    /// What it needs in other files.
    pub pieces: Vec<Piece>,
}

/// A piece of a file beside the program's C.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Which file, in the dialect's words.
    pub file: &'static str,
    /// What it defines.
    pub name: String,
    /// Its text.
    pub text: String,
}

impl From<String> for Emitted {
    fn from(text: String) -> Emitted {
        Emitted { text, pieces: Vec::new() }
    }
}

/// An implementation that prints itself.
///
/// The function's parameters are the buffers of the operation's loop kernel in order, each a pointer to its element type;
/// then, if it has working memory, `uint8_t *scratch`, as aligned as the target's buffers are.
pub trait CKernel: Implementation {
    /// The function of that name.
    ///
    /// # Errors
    /// If the kernel cannot be expressed.
    fn emit(&self, name: &str, kernel: &Kernel) -> Result<Emitted, String>;

    /// The bytes that [`CKernel::emit_arranged`] reads in the place of an operand whose value is known: in an order of its
    /// own, their number any. `None` if it reads the operand as it is packed.
    fn arranged(&self, _operand: usize, _value: &Tensor) -> Option<Vec<u8>> {
        None
    }

    /// As [`CKernel::emit`], where all launches have constants for the operands that [`CKernel::arranged`] has an order
    /// for.
    ///
    /// # Errors
    /// As [`CKernel::emit`].
    fn emit_arranged(&self, name: &str, kernel: &Kernel) -> Result<Emitted, String> {
        self.emit(name, kernel)
    }

    /// The operand that it packs before it computes, and the bytes of the packed form, where that depends on the operand alone:
    /// of a constant it can be kept.
    fn packed(&self) -> Option<(usize, usize)> {
        None
    }

    /// Whether it asks for the place of its working memory by itself, part by part; otherwise who launches it does.
    fn places_working_memory(&self) -> bool {
        false
    }
}

/// A [`CKernel`] as an [`Implementation`].
#[derive(Debug)]
struct InC(Box<dyn CKernel>);

impl Implementation for InC {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn cost(&self) -> Cost {
        self.0.cost()
    }

    fn scratch_bytes(&self) -> usize {
        self.0.scratch_bytes()
    }

    fn aligned_elements(&self) -> &'static [Element] {
        self.0.aligned_elements()
    }

    fn scalar_loops(&self) -> Vec<String> {
        self.0.scalar_loops()
    }
}

/// The way that a C target takes.
pub fn take(ways: Ways, kernel: impl CKernel) -> Selection {
    ways.take(InC(Box::new(kernel)))
}

/// How a kernel prints itself.
///
/// # Errors
/// If its program was planned for a target that is none of C.
pub fn in_c(kernel: &Kernel) -> Result<&dyn CKernel, String> {
    let found = kernel.selection.implementation::<InC>();
    let found = found.ok_or("the program was planned for a target of another language")?;
    Ok(&*found.0)
}

/// The operation's loops, whose buffers are its function's parameters.
pub(crate) fn lower(kernel: &Kernel) -> LoopKernel {
    kernel.op.lower(&kernel.input_types(), &kernel.output_types())
}

/// The operation's loops as portable C.
#[derive(Debug)]
pub struct Loops {
    kernel: LoopKernel,
    cycles: u64,
    floats: Floats,
}

impl Loops {
    /// Those of an operation.
    pub fn of(signature: &Signature<'_>) -> Loops {
        Loops::with(signature, Floats::Hardware)
    }

    /// Those of an operation whose floats something computes.
    pub fn with(signature: &Signature<'_>, floats: Floats) -> Loops {
        let kernel = signature.lower();
        let cycles = cost::loop_cycles_with(&kernel, floats);
        Loops { kernel, cycles, floats }
    }
}

impl Implementation for Loops {
    fn name(&self) -> &'static str {
        "loops"
    }

    fn cost(&self) -> Cost {
        Cost::new(self.cycles)
    }

    fn scratch_bytes(&self) -> usize {
        loop_scratch(&self.kernel).1
    }
}

impl CKernel for Loops {
    fn emit(&self, name: &str, _: &Kernel) -> Result<Emitted, String> {
        loops::function_by(self.floats, name, &self.kernel).map(Emitted::from)
    }
}
