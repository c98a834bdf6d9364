//! From a wrong call to the first wrong launch: the call runs again from the same state, built with a hook after each
//! launch that writes its results, beside the interpreter.

use std::path::Path;

use trainc_ir::RunContext;
use trainc_ir::Tensor;
use trainc_ir::harness::{Harness, launches};
use trainc_ir::program::{Launch, Region};
use trainc_ir::program_interpreter::ProgramInterpreter;
use trainc_ir::tensor_bytes::tensor_bytes;

use super::artifact::Artifact;
use super::compare::difference;
use super::process::{Ended, Process, Requests};
use super::report::{Finding, LaunchFinding};
use super::source::LAUNCHED;
use super::tools::{Toolchain, Workspace};
use super::{Call, overruns};

/// What it takes to run a call again.
pub(super) struct Watched<'a> {
    pub(super) artifact: &'a Artifact,
    pub(super) harness: &'a Harness,
    pub(super) toolchain: &'a Toolchain,
    pub(super) workspace: &'a Workspace,
    pub(super) main: &'a str,
    pub(super) state_names: &'a [String],
}

impl Watched<'_> {
    /// Adds the first wrong launch to a finding, or why there is none.
    ///
    /// # Errors
    /// If the artifact cannot be built with hooks.
    pub(super) fn bisect(
        &self,
        folder: &Path,
        (call, seed): (&Call<'_>, u64),
        before: &[u8],
        finding: &mut Finding,
    ) -> anyhow::Result<()> {
        if !self.harness.hooks {
            finding.remark = Some(format!(
                "artifacts of target `{}` have no hook after each launch, so the first wrong one is not known; \
                 compile the model for target `c` to see whether it is right there",
                self.artifact.target.description().name
            ));
            return Ok(());
        }
        let executable =
            self.toolchain.build(folder, self.workspace, self.harness, self.main, true)?;
        let program = &self.artifact.program;
        let mut requests = Requests::default();
        requests.load(before);
        requests.call((call.number, true), (seed, call.case.step), &call.operands);
        let mut process = Process::start(self.toolchain, &executable, self.workspace, &requests)?;
        let mut reference = ProgramInterpreter::new(program);
        reference.set_state_memory(before);
        let run = RunContext { seed, step: call.case.step };
        let all = launches(call.entry);
        let mut found: Option<LaunchFinding> = None;
        reference.run_observed(
            &call.entry.name,
            &call.operands,
            &run,
            &mut |number, results| {
                if found.is_none() {
                    found = self.launch(&mut process, call, (number, all[number]), results);
                }
            },
        )?;
        if found.is_none() {
            finding.remark = Some(
                "the call alone, run again with a hook after each launch, has no wrong launch: what is wrong happens \
                 between launches, depends on memory that no launch may rely on, or is the compiler's"
                    .to_string(),
            );
        }
        finding.launch = found;
        Ok(())
    }

    /// Reads the results of a launch and compares them.
    fn launch(
        &self,
        process: &mut Process,
        call: &Call<'_>,
        (number, launch): (usize, &Launch),
        expected: &[Tensor],
    ) -> Option<LaunchFinding> {
        let kernel = self.artifact.program.kernel(launch.kernel);
        let mut finding = LaunchFinding {
            launch: number,
            kernel: kernel.name.clone(),
            operation: kernel.op.to_string(),
            node: launch.name.clone(),
            differences: Vec::new(),
            overruns: Vec::new(),
            remark: None,
        };
        match self.results(process, (number, launch)) {
            Ok(Some((ran, ..))) if ran != number => {
                finding.remark = Some(format!("launch {ran} ran in its place"));
            }
            Ok(Some((_, damage, results))) => {
                finding.overruns = overruns(damage, Some(call.entry));
                let pairs = launch.outputs.iter().zip(expected).zip(&results);
                for ((&id, tensor), found) in pairs {
                    let name = self.buffer_name(id);
                    let bytes = tensor_bytes(tensor);
                    finding.differences.extend(difference(&name, tensor.ty(), &bytes, found));
                }
                if finding.differences.is_empty() && finding.overruns.is_empty() {
                    return None;
                }
            }
            Ok(None) => finding.remark = Some("it did not run".to_string()),
            Err(Ended(how)) => finding.remark = Some(format!("the program ended in it: {how}")),
        }
        Some(finding)
    }

    /// Number, damage and results of the next launch; none if the call is over. Without results if it is another
    /// launch than expected.
    fn results(
        &self,
        process: &mut Process,
        (expected, launch): (usize, &Launch),
    ) -> Result<Option<(usize, u32, Vec<Vec<u8>>)>, Ended> {
        if process.read(1)? != [LAUNCHED] {
            return Ok(None);
        }
        let number = process.read_u32()? as usize;
        let damage = process.read_u32()?;
        if number != expected {
            return Ok(Some((number, damage, Vec::new())));
        }
        let sizes = launch.outputs.iter().map(|&id| self.artifact.program.buffer(id).bytes());
        let results = sizes.map(|n| process.read(n)).collect::<Result<Vec<_>, _>>();
        Ok(Some((number, damage, results?)))
    }

    fn buffer_name(&self, id: trainc_ir::program::BufferId) -> String {
        let buffer = self.artifact.program.buffer(id);
        match buffer.region {
            Region::State { index, .. } => {
                self.state_names.get(index).cloned().unwrap_or_else(|| buffer.name.clone())
            }
            _ => buffer.name.clone(),
        }
    }
}
