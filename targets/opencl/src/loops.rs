//! An operation's loops as OpenCL kernels.

use std::sync::OnceLock;

use trainc_c::loop_cycles;
use trainc_c::syntax::Printed;
use trainc_ir::implementation::{Cost, Signature};
use trainc_ir::loops::{LoopKernel, Stmt};
use trainc_ir::target::loop_scratch;
use trainc_loops::{Between, Phase, in_parts, phases};

use crate::printed::{LANES, LAUNCH, PrintedPhase};
use crate::syntax::OpenClC;

/// Fewest rounds whose sum is made in parts: a launch costs a GPU as much as some hundred rounds of one work item.
const FEWEST: i64 = 2048;

/// The operation's loops.
#[derive(Debug)]
pub(crate) struct Loops {
    kernel: LoopKernel,
    /// The operands of which the first result may take the place.
    overwritten: Vec<usize>,
    cycles: u64,
    phases: OnceLock<Result<Vec<Phase>, String>>,
}

impl Loops {
    /// Those of an operation.
    pub(crate) fn of(signature: &Signature<'_>) -> Loops {
        let kernel = signature.lower_apart();
        let loops = kernel.body.iter().filter(|s| matches!(s, Stmt::For { .. })).count() as u64;
        // An estimate that asks no analysis: work items for all work, a launch for each outer loop.
        let cycles = (loop_cycles(&kernel) / LANES).saturating_add(LAUNCH * loops.max(1));
        let operands = 0..signature.inputs.len();
        let overwritten = operands.filter(|&i| signature.op.may_overwrite(i)).collect();
        Loops { kernel, overwritten, cycles, phases: OnceLock::new() }
    }

    fn phases(&self) -> Result<&[Phase], String> {
        let all = self.phases.get_or_init(|| {
            let overwrites = |operand: usize| self.overwritten.contains(&operand);
            phases(&in_parts(&self.kernel, FEWEST), Between::FirstItem, &overwrites)
        });
        all.as_ref().map(Vec::as_slice).map_err(Clone::clone)
    }

    /// The buffers that pointers number, the same of all phases.
    pub(crate) fn buffers(&self) -> Result<&LoopKernel, String> {
        Ok(self.phases()?.first().map_or(&self.kernel, |phase| &phase.kernel))
    }

    /// See [`Way::print`](crate::kernel::Way::print).
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
            printed.push(PrintedPhase {
                name,
                text,
                pointers,
                rounds: rounds.clone(),
                variant: None,
                first: None,
            });
        }
        Ok(printed)
    }

    /// An estimate.
    pub(crate) fn cost(&self) -> Cost {
        Cost::new(self.cycles)
    }

    /// Working memory in bytes.
    pub(crate) fn scratch_bytes(&self) -> usize {
        self.buffers().map_or(0, |kernel| loop_scratch(kernel).1)
    }
}
