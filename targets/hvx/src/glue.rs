//! Kernels as C around assembly: what a tuned kernel tells of itself.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::OnceLock;

use trainc_c::{CKernel, Emitted, Piece, element_type};
use trainc_ir::Element;
use trainc_ir::implementation::{Cost, Implementation};
use trainc_ir::loops::{BufferParameter, Role};
use trainc_ir::names::identifier;
use trainc_ir::program::Kernel;

use crate::machine::{Function, MachineError, Options, Version, compile};
use crate::select::{Routine, SelectError};

/// The file of kernels, among [`Piece`]s.
pub(crate) const KERNELS: &str = "kernels";
/// The file of routines that kernels call; a piece's name is the routine's symbol.
pub(crate) const ROUTINES: &str = "routines";

/// A kernel written on the machine layer: assembly, and a C function that calls it and sets the exponent.
pub(crate) trait Glue: Debug + Send + Sync + 'static {
    /// The name for readers.
    const NAME: &str;

    /// An estimate of the packets of a launch.
    fn packets(&self) -> u64;

    /// Working memory.
    ///
    /// # Errors
    /// Of the machine layer.
    fn scratch_bytes(&self) -> Result<usize, MachineError>;

    /// As [`Implementation::aligned_elements`].
    fn aligned_elements(&self) -> &'static [Element] {
        &[Element::I8]
    }

    /// As [`CKernel::packed`].
    fn packed(&self) -> Option<(usize, usize)> {
        None
    }

    /// Everything for the kernel of that name; `head` is its C function's `static void name(...)`.
    ///
    /// # Errors
    /// Of the machine layer, and of selection.
    fn print(&self, name: &str, head: &str) -> Result<Printed, SelectError>;
}

/// Statements that have `packed` point to the packed form of an operand: `pack` is the call that writes it there. In the working
/// memory, unless a constant's is kept elsewhere.
pub(crate) fn packing(name: &str, (operand, bytes): (usize, usize), pack: &str) -> String {
    // FNV-1a: what tells orders of one constant apart.
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let number = name.bytes().fold(0x811c_9dc5, step);
    format!(
        "    uint8_t *packed = scratch;\n    \
         if (!TRAINC_HVX_KEPT(UINT32_C({number:#010x}), x{operand}, {bytes}, &packed)) {{\n        {pack};\n    }}\n"
    )
}

/// Functions and tables in assembly, and the C around them.
#[derive(Debug)]
pub(crate) struct Printed {
    /// Functions that are called from C or from one another.
    pub(crate) functions: Vec<Function>,
    /// Tables, as assembly.
    pub(crate) tables: String,
    /// Declarations and the kernel's C function.
    pub(crate) source: String,
    /// Routines that they call.
    pub(crate) routines: BTreeSet<Routine>,
}

/// A [`Glue`] kernel of a program.
#[derive(Debug)]
pub(crate) struct Tuned<G> {
    glue: G,
    version: Version,
    packets: u64,
    scratch_bytes: OnceLock<usize>,
}

impl<G: Glue> Tuned<G> {
    pub(crate) fn new(glue: G, version: Version) -> Tuned<G> {
        let packets = glue.packets();
        Tuned { glue, version, packets, scratch_bytes: OnceLock::new() }
    }
}

impl<G: Glue> Implementation for Tuned<G> {
    fn name(&self) -> &'static str {
        G::NAME
    }

    fn cost(&self) -> Cost {
        Cost::new(self.packets)
    }

    fn scratch_bytes(&self) -> usize {
        // What the machine layer refuses it refuses again, aloud, when the kernel is printed.
        *self.scratch_bytes.get_or_init(|| self.glue.scratch_bytes().unwrap_or(0))
    }

    fn aligned_elements(&self) -> &'static [Element] {
        self.glue.aligned_elements()
    }
}

impl<G: Glue> CKernel for Tuned<G> {
    fn emit(&self, name: &str, kernel: &Kernel) -> Result<Emitted, String> {
        let parameters = kernel.op.lower(&kernel.input_types(), &kernel.output_types()).buffers;
        let prototype = prototype(name, &parameters, self.scratch_bytes() > 0);
        let head = format!("static {prototype}");
        let printed = self.glue.print(name, &head).map_err(|e| e.to_string())?;
        let mut text = String::new();
        for function in &printed.functions {
            text.push_str(&assembly(function, self.version)?);
        }
        text.push_str(&printed.tables);
        Ok(emitted(name, printed.source, text, &printed.routines))
    }

    fn packed(&self) -> Option<(usize, usize)> {
        self.glue.packed()
    }
}

pub(crate) fn emitted(
    name: &str,
    text: String,
    assembly: String,
    routines: &BTreeSet<Routine>,
) -> Emitted {
    let mut pieces = vec![Piece { file: KERNELS, name: name.to_string(), text: assembly }];
    pieces.extend(routines.iter().map(|routine| Piece {
        file: ROUTINES,
        name: routine.symbol().to_string(),
        text: String::new(),
    }));
    Emitted { text, pieces }
}

/// `void name(...)`: the buffers in order, then the working memory.
pub(crate) fn prototype(name: &str, buffers: &[BufferParameter], scratch: bool) -> String {
    let parameters = parameters(buffers, scratch);
    let parameters: Vec<String> =
        parameters.iter().map(|(ty, name)| format!("{ty}{name}")).collect();
    format!("void {name}({})", parameters.join(", "))
}

/// Types and names of parameters: the buffers in order, then the working memory.
pub(crate) fn parameters(buffers: &[BufferParameter], scratch: bool) -> Vec<(String, String)> {
    let buffers = buffers.iter().filter(|b| b.role != Role::Scratch).map(|b| {
        let constant = match b.role {
            Role::Input(_) | Role::InputScale(_) | Role::RunContext => "const ",
            _ => "",
        };
        (format!("{constant}{} *", element_type(b.element)), identifier(&b.name))
    });
    buffers.chain(scratch.then(|| ("uint8_t *".to_string(), "scratch".to_string()))).collect()
}

/// A function in packets.
pub(crate) fn assembly(function: &Function, version: Version) -> Result<String, String> {
    let assembled = compile(function, version, &Options::default()).map_err(|e| e.to_string())?;
    // A kernel that spills is one to look at.
    let spills = match assembled.spills {
        0 => String::new(),
        n => format!("// Values that live in the frame for want of registers: {n}.\n"),
    };
    Ok(format!("\n{spills}{}", assembled.assembly()))
}
