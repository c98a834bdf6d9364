//! What a target is: costs for extraction, working memory for planning, and emission.

use crate::Verified;
use crate::harness::{Harness, Toolchain};
use crate::loops::{LoopKernel, Role};
use crate::ops::Op;
use crate::program::Program;
use crate::types::TensorType;

/// Cost of a kernel on a target, in the target's own unit (an estimate of cycles). Saturating.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Cost(u64);

impl Cost {
    /// No cost.
    pub const ZERO: Cost = Cost(0);
    /// The target cannot run it, or must not.
    pub const INFEASIBLE: Cost = Cost(u64::MAX);

    /// A cost; the largest number is reserved.
    pub fn new(cycles: u64) -> Cost {
        Cost(cycles.min(u64::MAX - 1))
    }

    /// The number; `None` if infeasible.
    pub fn cycles(self) -> Option<u64> {
        (self != Cost::INFEASIBLE).then_some(self.0)
    }
}

impl std::ops::Add for Cost {
    type Output = Cost;
    fn add(self, other: Cost) -> Cost {
        if self == Cost::INFEASIBLE || other == Cost::INFEASIBLE {
            Cost::INFEASIBLE
        } else {
            Cost::new(self.0.saturating_add(other.0))
        }
    }
}

/// What a target is called and what it offers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TargetDescription {
    /// Name on the command line.
    pub name: &'static str,
    /// One line for `trainc targets`.
    pub summary: &'static str,
    /// Alignment of buffers in bytes, a power of two.
    pub alignment: usize,
    /// Width of a vector in bytes.
    pub vector_bytes: usize,
    /// Names of the devices that launches may run on, the default first.
    pub devices: &'static [&'static str],
}

/// A file of an artifact.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArtifactFile {
    /// Name relative to the artifact's folder.
    pub name: String,
    /// Contents.
    pub contents: Vec<u8>,
}

/// Why a program could not be emitted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("target {target}: {message}")]
pub struct EmitError {
    /// The target.
    pub target: &'static str,
    /// What is wrong.
    pub message: String,
}

/// A target. The helpers below serve targets that have no tuned kernel.
pub trait Target: Sync {
    /// Name and numbers.
    fn description(&self) -> &TargetDescription;

    /// Bits of an address on the machines that the target is for; where they differ, the most.
    fn address_bits(&self) -> u32 {
        64
    }

    /// Cost of an operation on these types.
    fn cost(&self, op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> Cost;

    /// Working memory of a kernel in bytes.
    fn scratch_bytes(&self, op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> usize;

    /// Emits the program as files (without the manifest, which the driver writes).
    ///
    /// # Errors
    /// If the program holds something that the target cannot express.
    fn emit(&self, program: &Verified<Program>) -> Result<Vec<ArtifactFile>, EmitError>;

    /// What builds and runs artifacts for `trainc verify`; `None` if nothing does.
    fn toolchain(&self) -> Option<Toolchain> {
        None
    }

    /// What of the artifact of a program is built for `trainc verify`; `None` if nothing is.
    ///
    /// # Errors
    /// As [`Target::emit`].
    fn harness(&self, _program: &Verified<Program>) -> Result<Option<Harness>, EmitError> {
        Ok(None)
    }

    /// An example program for what [`Target::emit`] gives; `None` if the target has none.
    ///
    /// # Errors
    /// If the program is not one that the example can show.
    fn example(&self, _program: &Verified<Program>) -> Result<Option<ArtifactFile>, EmitError> {
        Ok(None)
    }
}

/// Alignment of each scratch buffer of a loop kernel.
pub const SCRATCH_ALIGNMENT: usize = 16;

/// Offsets of a loop kernel's scratch buffers within its working memory (in parameter order), and the total.
pub fn loop_scratch(kernel: &LoopKernel) -> (Vec<usize>, usize) {
    let mut total = 0usize;
    let offsets = kernel
        .buffers
        .iter()
        .filter(|b| b.role == Role::Scratch)
        .map(|b| {
            let offset = total;
            total += b.element.bytes(b.count).next_multiple_of(SCRATCH_ALIGNMENT);
            offset
        })
        .collect();
    (offsets, total)
}

/// Working memory of the generic loop kernel of an operation.
pub fn loop_scratch_bytes(op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> usize {
    loop_scratch(&op.lower(inputs, outputs)).1
}
