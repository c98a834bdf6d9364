//! From structured code to packets on the register file.

use super::error::MachineError;
use super::function::Function;
use super::packets::Packet;
use super::registers::Version;

/// Choices of the compilation.
#[derive(Clone, Debug)]
pub struct Options {
    /// Software pipeline innermost loops.
    pub pipeline: bool,
    /// Registers of each file that allocation may use: R, V (for tests of spilling).
    pub scalars: u32,
    /// See `scalars`.
    pub vectors: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { pipeline: true, scalars: 28, vectors: 32 }
    }
}

/// What became of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopReport {
    /// Its purpose.
    pub purpose: String,
    /// Packets of one round in the steady state.
    pub packets: usize,
    /// Rounds in flight; 1 if not pipelined.
    pub stages: usize,
}

/// A function ready to print.
#[derive(Clone, Debug)]
pub struct Assembled {
    /// Symbol.
    pub name: String,
    /// Version it was made for.
    pub version: Version,
    /// Blocks in order.
    pub blocks: Vec<Block>,
    /// Values that were spilled; a kernel that spills is a bug to look at.
    pub spills: usize,
    /// Loops in the order of the code.
    pub loops: Vec<LoopReport>,
}

/// Packets behind one label.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Label, if anything jumps here.
    pub label: Option<String>,
    /// Comment above the block.
    pub purpose: Option<String>,
    /// Packets.
    pub packets: Vec<Packet>,
}

impl Assembled {
    /// The function's assembly text: `.globl`, alignment, type, packets, size.
    #[must_use]
    pub fn assembly(&self) -> String {
        self.name.clone()
    }
}

/// Compiles a function.
///
/// # Errors
/// An instruction that the version lacks; a register that cannot be allocated.
pub fn compile(
    function: &Function,
    version: Version,
    options: &Options,
) -> Result<Assembled, MachineError> {
    let _ = options;
    Err(MachineError::Structure {
        function: function.name.to_string(),
        reason: format!("no schedule for {version} yet"),
    })
}
