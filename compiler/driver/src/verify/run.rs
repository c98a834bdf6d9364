//! The harness beside the interpreter: each call runs in both, and all that comes of it is compared.

use trainc_ir::harness::{CHECKPOINT_HEADER, CheckpointFunctions, launches};
use trainc_ir::program::{BufferId, Entry, Launch, Program, Region};
use trainc_ir::program_interpreter::ProgramInterpreter;
use trainc_ir::tensor_bytes::tensor_bytes;
use trainc_ir::{RunContext, Tensor, Verified};

use super::compare::{Difference, difference};
use super::inputs::Case;
use super::process::{Ended, Process};
use super::report::{Finding, LaunchFinding};
use super::source::{CALLED, CHECKS, LAUNCHED, SAVED};

use crate::device_state::checkpoint_header;
use crate::error::Result;

/// Entry of a report for the initial state.
pub(super) const INIT: &str = "init";
/// Entry of a report for a checkpoint.
pub(super) const CHECKPOINT: &str = "checkpoint";
/// The number of steps that checkpoints are saved with: every byte is another.
pub(super) const SAVED_STEPS: u64 = 0x0123_4567_89ab_cdef;

/// One call of a verification.
pub(super) struct Call<'p> {
    pub(super) case: &'p Case,
    /// Position of the entry.
    pub(super) number: usize,
    pub(super) entry: &'p Entry,
    pub(super) operands: Vec<Tensor>,
}

/// A run with its reference.
pub(super) struct Run<'p> {
    pub(super) program: &'p Verified<Program>,
    /// The model's names of the state.
    pub(super) state_names: &'p [String],
    pub(super) process: Process,
    pub(super) reference: ProgramInterpreter<'p>,
    pub(super) seed: u64,
    /// Elements compared so far.
    pub(super) elements: u64,
}

impl Run<'_> {
    /// Compares the initial state.
    pub(super) fn initial(&mut self, case: &str) -> Option<Finding> {
        let mut finding = Finding::new(case, 0, INIT);
        match self.answer(&[]) {
            Ok(Called { damage, state, .. }) => {
                finding.overruns = overruns(damage, None);
                finding.differences = self.state_differences(&state);
            }
            Err(Ended(how)) => finding.crash = Some(how),
        }
        finding.is_something().then_some(finding)
    }

    /// Runs a call in the interpreter and compares the answer; if `watched`, that of each launch before.
    ///
    /// # Errors
    /// If the interpreter refuses the program.
    pub(super) fn call(&mut self, call: &Call<'_>, watched: bool) -> Result<Option<Finding>> {
        let Call { case, entry, operands, .. } = call;
        let run = RunContext { seed: self.seed, step: case.step };
        let mut finding = Finding::new(&case.name, case.step, &entry.name);
        let expected = if watched {
            let all = launches(entry);
            let mut watch = Watch {
                program: self.program,
                state_names: self.state_names,
                process: &mut self.process,
                elements: &mut self.elements,
            };
            let mut found = None;
            let results =
                self.reference.run_observed(&entry.name, operands, &run, &mut |i, results| {
                    if found.is_none() {
                        found = watch.launch(entry, (i, all[i]), results);
                    }
                })?;
            finding.launch = found;
            results
        } else {
            self.reference.run(&entry.name, operands, &run)?
        };
        if finding.launch.is_some() {
            return Ok(Some(finding));
        }
        let sizes: Vec<usize> =
            entry.outputs.iter().map(|a| self.program.buffer(a.buffer).bytes()).collect();
        match self.answer(&sizes) {
            Ok(Called { damage, results, state }) => {
                finding.overruns = overruns(damage, Some(entry));
                let pairs = entry.outputs.iter().zip(&expected).zip(&results);
                for ((argument, tensor), found) in pairs {
                    self.elements += tensor.ty().count() as u64;
                    let expected = tensor_bytes(tensor);
                    let one = difference(&argument.name, tensor.ty(), &expected, found);
                    finding.differences.extend(one);
                }
                finding.differences.extend(self.state_differences(&state));
            }
            Err(Ended(how)) => finding.crash = Some(how),
        }
        Ok(finding.is_something().then_some(finding))
    }

    /// Compares a checkpoint, and the state that was loaded of it.
    pub(super) fn checkpoint(
        &mut self,
        (case, step): (&str, u32),
        functions: &CheckpointFunctions,
    ) -> Option<Finding> {
        let mut finding = Finding::new(case, step, CHECKPOINT);
        match self.saved() {
            Ok(Saved { damage, failed, checkpoint, steps, state }) => {
                finding.overruns = overruns(damage & 3, None);
                if damage & 4 != 0 {
                    finding.overruns.push("the checkpoint".to_string());
                }
                let (header, saved) = checkpoint.split_at(CHECKPOINT_HEADER);
                finding.differences = self.state_differences(saved);
                finding.differences.extend(self.state_differences(&state));
                let checks = (0..CHECKS.len()).filter(|bit| failed >> bit & 1 != 0);
                let mut wrong: Vec<&str> = checks.map(|bit| CHECKS[bit]).collect();
                if header != checkpoint_header(functions.model, SAVED_STEPS, saved) {
                    wrong.push("the checkpoint's header is not what its format says");
                }
                if steps != SAVED_STEPS {
                    wrong.push("the number of steps that was saved is another when loaded");
                }
                finding.remark = (!wrong.is_empty()).then(|| wrong.join("; "));
            }
            Err(Ended(how)) => finding.crash = Some(how),
        }
        finding.is_something().then_some(finding)
    }

    fn saved(&mut self) -> Result<Saved, Ended> {
        self.record(SAVED)?;
        let bytes = self.program.memory.state_bytes;
        let (damage, failed) = (self.process.read_u32()?, self.process.read_u32()?);
        let checkpoint = self.process.read(CHECKPOINT_HEADER + bytes)?;
        let (low, high) = (self.process.read_u32()?, self.process.read_u32()?);
        let steps = u64::from(low) | u64::from(high) << 32;
        Ok(Saved { damage, failed, checkpoint, steps, state: self.process.read(bytes)? })
    }

    /// Reads what a record begins with.
    fn record(&mut self, expected: u8) -> Result<(), Ended> {
        if self.process.read(1)? == [expected] {
            return Ok(());
        }
        Err(Ended("it wrote something else on its standard output".to_string()))
    }

    /// Reads the answer to a call.
    fn answer(&mut self, sizes: &[usize]) -> Result<Called, Ended> {
        self.record(CALLED)?;
        let damage = self.process.read_u32()?;
        let results = sizes.iter().map(|&n| self.process.read(n)).collect::<Result<Vec<_>, _>>()?;
        let state = self.process.read(self.program.memory.state_bytes)?;
        Ok(Called { damage, results, state })
    }

    fn state_differences(&mut self, found: &[u8]) -> Vec<Difference> {
        let expected = self.reference.state_memory();
        let mut differences = Vec::new();
        for (buffer, name) in self.program.state().into_iter().zip(self.state_names) {
            let range = buffer.offset..buffer.offset + buffer.bytes();
            self.elements += buffer.ty.count() as u64;
            let pair = expected.get(range.clone()).zip(found.get(range));
            let Some((expected, found)) = pair else { continue };
            differences.extend(difference(name, &buffer.ty, expected, found));
        }
        differences
    }
}

/// The answer to a call.
struct Called {
    damage: u32,
    results: Vec<Vec<u8>>,
    state: Vec<u8>,
}

/// A checkpoint, and what was loaded of it.
struct Saved {
    damage: u32,
    failed: u32,
    checkpoint: Vec<u8>,
    steps: u64,
    state: Vec<u8>,
}

/// What it takes to compare a launch.
struct Watch<'a> {
    program: &'a Program,
    state_names: &'a [String],
    process: &'a mut Process,
    elements: &'a mut u64,
}

impl Watch<'_> {
    /// Reads the results of a launch and compares them; what is wrong with it.
    fn launch(
        &mut self,
        entry: &Entry,
        (number, launch): (usize, &Launch),
        expected: &[Tensor],
    ) -> Option<LaunchFinding> {
        let kernel = self.program.kernel(launch.kernel);
        let mut finding = LaunchFinding {
            launch: number,
            kernel: kernel.name.clone(),
            operation: kernel.op.to_string(),
            node: launch.name.clone(),
            differences: Vec::new(),
            overruns: Vec::new(),
            remark: None,
        };
        match self.results(number, launch) {
            Ok(Answer::Ran(damage, results)) => {
                finding.overruns = overruns(damage, Some(entry));
                let pairs = launch.outputs.iter().zip(expected).zip(&results);
                for ((&id, tensor), found) in pairs {
                    *self.elements += tensor.ty().count() as u64;
                    let name = self.buffer_name(id);
                    let bytes = tensor_bytes(tensor);
                    finding.differences.extend(difference(&name, tensor.ty(), &bytes, found));
                }
                if finding.differences.is_empty() && finding.overruns.is_empty() {
                    return None;
                }
            }
            Ok(Answer::Another(ran)) => {
                finding.remark = Some(format!("launch {ran} ran in its place"));
            }
            Ok(Answer::Over) => finding.remark = Some("it did not run".to_string()),
            Err(Ended(how)) => finding.remark = Some(format!("the program ended in it: {how}")),
        }
        Some(finding)
    }

    fn results(&mut self, expected: usize, launch: &Launch) -> Result<Answer, Ended> {
        if self.process.read(1)? != [LAUNCHED] {
            return Ok(Answer::Over);
        }
        let number = self.process.read_u32()? as usize;
        if number != expected {
            return Ok(Answer::Another(number));
        }
        let damage = self.process.read_u32()?;
        let sizes = launch.outputs.iter().map(|&id| self.program.buffer(id).bytes());
        let results = sizes.map(|n| self.process.read(n)).collect::<Result<Vec<_>, _>>()?;
        Ok(Answer::Ran(damage, results))
    }

    fn buffer_name(&self, id: BufferId) -> String {
        let buffer = self.program.buffer(id);
        match buffer.region {
            Region::State { index, .. } => self.state_names.get(index).unwrap_or(&buffer.name),
            _ => &buffer.name,
        }
        .clone()
    }
}

/// What the harness says where a launch is expected.
enum Answer {
    /// Damage and results.
    Ran(u32, Vec<Vec<u8>>),
    /// Another launch ran.
    Another(usize),
    /// The call is over.
    Over,
}

/// Names of the places of a set of damage.
fn overruns(damage: u32, entry: Option<&Entry>) -> Vec<String> {
    let mut names = vec!["the arena".to_string(), "the state".to_string()];
    if let Some(entry) = entry {
        names.extend(entry.inputs.iter().map(|a| format!("operand `{}`", a.name)));
        names.extend(entry.outputs.iter().map(|a| format!("result `{}`", a.name)));
    }
    let name = |bit: usize| match names.get(bit) {
        Some(name) if bit < 31 => name.clone(),
        _ => "an argument".to_string(),
    };
    (0..32).filter(|bit| damage >> bit & 1 != 0).map(name).collect()
}

impl Finding {
    pub(super) fn new(case: &str, step: u32, entry: &str) -> Finding {
        Finding {
            case: case.to_string(),
            step,
            entry: entry.to_string(),
            differences: Vec::new(),
            overruns: Vec::new(),
            crash: None,
            launch: None,
            remark: None,
        }
    }

    fn is_something(&self) -> bool {
        let wrong = !self.differences.is_empty() || !self.overruns.is_empty();
        wrong || self.crash.is_some() || self.remark.is_some()
    }
}
