//! What a target is: how it runs each kernel, and the emission of programs.

use crate::Verified;
use crate::batch_split::{LocalMemory, Splitting};
use crate::harness::{Harness, Timing, Toolchain};
pub use crate::implementation::{Cost, Selection, Signature};
pub use crate::loops::scratch::{SCRATCH_ALIGNMENT, loop_scratch};
use crate::program::Program;
use crate::tuning::Tuning;

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
    /// What a [`Cost`] counts, such as `cycles`.
    pub cost_unit: &'static str,
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

/// A target.
pub trait Target: Sync {
    /// Name and numbers.
    fn description(&self) -> &TargetDescription;

    /// Bits of an address on the machines that the target is for; where they differ, the most.
    fn address_bits(&self) -> u32 {
        64
    }

    /// How it runs an operation on these types: asked once a kernel. Equal questions have equal answers.
    fn select(&self, signature: &Signature<'_>) -> Selection;

    /// As [`Target::select`], where products may take their batch in parts; [`Selection::splits`] says which do and why. A
    /// target that has no such kernels leaves it empty.
    fn select_split(&self, signature: &Signature<'_>, _splitting: &Splitting) -> Selection {
        self.select(signature)
    }

    /// The memory next to its machine that batches are split for, if it is known.
    fn local_memory(&self) -> Option<LocalMemory> {
        None
    }

    /// What it costs to go on with another device, for a target that divides programs among its devices; `None` if all
    /// runs on the first.
    fn switch_cost(&self) -> Option<Cost> {
        None
    }

    /// Whether there are products whose kernel subtracts the gradient that they make from the weights
    /// ([`SaturatingSubtractFrom`](crate::ops::SaturatingSubtractFrom)), so that the gradient has no memory. Elsewhere the
    /// subtraction is a launch of its own.
    fn updates_in_products(&self) -> bool {
        false
    }

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

    /// A second executable, for an artifact that two machines run: what builds and runs it, and its sources. The first, of
    /// [`Target::harness`], finds its command in the environment ([`PARTNER`](crate::harness::PARTNER)) and starts it.
    ///
    /// # Errors
    /// As [`Target::emit`].
    fn partner(
        &self,
        _program: &Verified<Program>,
    ) -> Result<Option<(Toolchain, Harness)>, EmitError> {
        Ok(None)
    }

    /// How the launches of its artifacts tell what they take, for `trainc measure`; `None` where nothing uses that.
    fn timing(&self) -> Option<Timing> {
        None
    }

    /// Flags that its sources need from a compiler of C (GCC, Clang); `None` if it emits none for one.
    fn compiler_flags(&self) -> Option<Vec<&'static str>> {
        None
    }

    /// Libraries that its artifacts are linked with, as `-l` takes them.
    fn libraries(&self) -> &'static [&'static str] {
        &[]
    }

    /// What of the artifact of a program `trainc tune` chooses on the device that runs it; `None` if nothing is.
    ///
    /// # Errors
    /// As [`Target::emit`].
    fn tuning(&self, _program: &Verified<Program>) -> Result<Option<Tuning>, EmitError> {
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
