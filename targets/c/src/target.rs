//! Portable C as the compiler sees it.

use trainc_ir::Verified;
use trainc_ir::batch_split::{Holds, LocalMemory, Splitting};
use trainc_ir::harness::{Harness, Runner, Tool, Toolchain};
use trainc_ir::implementation::{Selection, Signature, Ways};
use trainc_ir::program::Program;
use trainc_ir::target::{ArtifactFile, EmitError, Target, TargetDescription};

use crate::batch_split::{Machine, in_place};
use crate::counting::counting;
use crate::dialect::Dialect;
use crate::example::example;
use crate::kernel::{self, Loops};
use crate::{harness, program};

/// Name of the target.
pub(crate) const NAME: &str = "c";

/// Cycles of a KiB from the second level, at 16 bytes a cycle. A model.
const REFILL: u64 = 64;

/// See [`C`].
#[derive(Clone, Debug)]
pub struct CTarget {
    description: TargetDescription,
}

/// The C target.
pub static C: CTarget = CTarget {
    description: TargetDescription {
        name: NAME,
        summary: "portable C99 for any machine: readable sources, freestanding, no allocation",
        // Of arena, state and their buffers.
        alignment: 16,
        vector_bytes: 4,
        cost_unit: "cycles",
        devices: &["cpu"],
    },
};

impl Dialect for CTarget {}

impl Target for CTarget {
    fn description(&self) -> &TargetDescription {
        &self.description
    }

    fn select(&self, signature: &Signature<'_>) -> Selection {
        kernel::take(Ways::default(), Loops::of(signature))
    }

    fn select_split(&self, signature: &Signature<'_>, splitting: &Splitting) -> Selection {
        let machine = Machine {
            description: &self.description,
            local: self.local_memory(),
            select: &|signature| self.select(signature),
            working_memory: in_place,
        };
        machine.select(signature, splitting)
    }

    fn local_memory(&self) -> Option<LocalMemory> {
        Some(LocalMemory {
            name: "L1 cache",
            bytes: 32 << 10,
            holds: Holds::Everything,
            refill: REFILL,
        })
    }

    fn emit(&self, program: &Verified<Program>) -> Result<Vec<ArtifactFile>, EmitError> {
        program::emit(program, self).map_err(|message| EmitError { target: NAME, message })
    }

    fn compiler_flags(&self) -> Option<Vec<&'static str>> {
        Some(harness::flags(self))
    }

    fn toolchain(&self) -> Option<Toolchain> {
        let tools = [Tool::new("cc", &[], "gcc"), Tool::new("gcc", &[], "gcc")];
        // Programs of this machine under its own emulator, which counts.
        let emulator = format!("qemu-{}", std::env::consts::ARCH);
        let counting = counting(vec![Tool::new(&emulator, &[], "qemu-user")]);
        Some(Toolchain {
            compilers: harness::compilers(self, tools),
            runner: Runner::Native,
            counting: Some(counting),
            libraries: Vec::new(),
        })
    }

    fn harness(&self, program: &Verified<Program>) -> Result<Option<Harness>, EmitError> {
        let harness = harness::harness(program, self);
        harness.map(Some).map_err(|message| EmitError { target: NAME, message })
    }

    fn example(&self, program: &Verified<Program>) -> Result<Option<ArtifactFile>, EmitError> {
        let refused = |message| EmitError { target: NAME, message };
        example(program).map(Some).map_err(refused)
    }
}
