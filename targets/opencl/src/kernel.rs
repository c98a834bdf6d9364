//! How an operation runs: its loops, as OpenCL kernels.

use std::sync::OnceLock;

use trainc_c::loop_cycles;
use trainc_c::syntax::{Pointer, Printed};
use trainc_ir::implementation::{Cost, Implementation, Signature};
use trainc_ir::loops::{LoopKernel, Stmt};
use trainc_ir::program::Kernel;
use trainc_ir::target::loop_scratch;

use crate::phases::{Phase, phases};
use crate::syntax::OpenClC;

/// What a launch costs beside its work.
const LAUNCH: u64 = 10_000;
/// Work items that run at a time.
const LANES: u64 = 64;

/// The operation's loops.
#[derive(Debug)]
pub(crate) struct Loops {
    kernel: LoopKernel,
    cycles: u64,
    phases: OnceLock<Result<Vec<Phase>, String>>,
}

/// A phase as text.
pub(crate) struct PrintedPhase {
    /// The kernel's name.
    pub(crate) name: String,
    /// It, as OpenCL C.
    pub(crate) text: String,
    /// Its buffers.
    pub(crate) pointers: Vec<Pointer>,
    /// Rounds of the loops that are work items.
    pub(crate) rounds: Vec<i32>,
}

impl Loops {
    /// Those of an operation.
    pub(crate) fn of(signature: &Signature<'_>) -> Loops {
        let kernel = signature.lower();
        let loops = kernel.body.iter().filter(|s| matches!(s, Stmt::For { .. })).count() as u64;
        // An estimate that asks no analysis: work items for all work, a launch for each outer loop.
        let cycles = (loop_cycles(&kernel) / LANES).saturating_add(LAUNCH * loops.max(1));
        Loops { kernel, cycles, phases: OnceLock::new() }
    }

    fn phases(&self) -> Result<&[Phase], String> {
        let all = self.phases.get_or_init(|| phases(&self.kernel));
        all.as_ref().map(Vec::as_slice).map_err(Clone::clone)
    }

    /// The buffers that [`Pointer`]s number, the same of all phases.
    pub(crate) fn buffers(&self) -> Result<&LoopKernel, String> {
        Ok(self.phases()?.first().map_or(&self.kernel, |phase| &phase.kernel))
    }

    /// Its kernels in order; `name` gives each a name that no other has.
    ///
    /// # Errors
    /// If the loops are not well formed.
    pub(crate) fn print(
        &self,
        name: &mut dyn FnMut(&str) -> String,
        own: &str,
    ) -> Result<Vec<PrintedPhase>, String> {
        let all = self.phases()?;
        let mut printed = Vec::new();
        for (at, phase) in all.iter().enumerate() {
            let wanted =
                if all.len() == 1 { own.to_string() } else { format!("{own}_part{}", at + 1) };
            let name = name(&wanted);
            let Phase { kernel, rounds } = phase;
            let Printed { text, pointers } =
                trainc_c::function_in(&OpenClC, &name, kernel, rounds)?;
            printed.push(PrintedPhase { name, text, pointers, rounds: rounds.clone() });
        }
        Ok(printed)
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
        self.buffers().map_or(0, |kernel| loop_scratch(kernel).1)
    }
}

/// How a kernel runs.
///
/// # Errors
/// If its program was planned for another target.
pub(crate) fn of(kernel: &Kernel) -> Result<&Loops, String> {
    let found = kernel.selection.implementation();
    found.ok_or_else(|| "the program was planned for another target".to_string())
}
