//! Verification of an artifact: what its sources compute, built by the target's compiler and run on this machine or
//! under an emulator, against the reference interpreter, bit for bit.
//!
//! Read in this order: `artifact` (the program back from its folder), `inputs` (what it is run on), `source` (the C
//! program around it), `tools` and `process` (building and running), `compare`, `bisect` (from a wrong result to the
//! first wrong launch), [`Report`] and [`junit`].

pub(crate) mod artifact;
mod bisect;
mod compare;
mod inputs;
mod junit;
mod process;
mod report;
mod source;
mod tools;

use std::path::Path;

use anyhow::Context;
use trainc_ir::harness::Harness;
use trainc_ir::program::{Entry, Program};
use trainc_ir::program_interpreter::ProgramInterpreter;
use trainc_ir::tensor_bytes::tensor_bytes;
use trainc_ir::{RunContext, Tensor};

use artifact::Artifact;
use compare::difference;
use inputs::{Case, Kind, cases, operands};
use process::{Ended, Process, Requests};
use source::CALLED;
use tools::{Toolchain, Workspace};

pub use compare::Difference;
pub use junit::junit;
pub use report::{CallReport, Finding, LaunchFinding, Outcome, Report};

/// What to run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyOptions {
    /// Training steps one after another, each followed by the other entries on the same data.
    pub steps: u32,
    /// Seed of data and random numbers.
    pub seed: u64,
    /// Whether single steps on extreme data follow.
    pub extremes: bool,
    /// A compiler in place of the target's: a command with arguments, which gets the target's flags.
    pub compiler: Option<String>,
    /// An emulator in place of the target's: a command with arguments.
    pub runner: Option<String>,
}

impl Default for VerifyOptions {
    fn default() -> VerifyOptions {
        VerifyOptions { steps: 3, seed: 0, extremes: true, compiler: None, runner: None }
    }
}

/// Where a verification is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// The compiler runs: its command.
    Build(String),
    /// Calls: done, of how many, and the next one's case and entry.
    Call(usize, usize, String, String),
    /// The failing call runs again, launch by launch.
    Bisect,
}

/// Entry of a report for the initial state.
const INIT: &str = "init";

/// One call of the run.
struct Call<'p> {
    case: &'p Case,
    number: usize,
    entry: &'p Entry,
    operands: Vec<Tensor>,
}

/// Verifies the artifact in a folder. A wrong result is no error but a [`Finding`].
///
/// # Errors
/// If the folder is not an artifact of this version, or cannot be built or run here.
pub fn verify(
    folder: &Path,
    options: &VerifyOptions,
    progress: &mut dyn FnMut(Progress),
) -> anyhow::Result<Report> {
    let artifact = artifact::read(folder)?;
    let program = &artifact.program;
    let target = artifact.target.description();
    let harness = artifact
        .target
        .harness(program)?
        .with_context(|| format!("artifacts of target `{}` cannot be run here", target.name))?;
    let (compiler, runner) = (options.compiler.as_deref(), options.runner.as_deref());
    let toolchain = Toolchain::find(target.name, &harness, compiler, runner)?;
    let workspace = Workspace::new()?;
    progress(Progress::Build(toolchain.compiler()));
    let main = source::source(program, &harness, target.alignment);
    let executable = toolchain.build(folder, &workspace, &harness, &main, false)?;

    let cases = cases(options.steps, options.extremes);
    let (classes, rates) = (artifact.classes(), &artifact.learning_rates[..]);
    let called = |entry: &Entry| harness.functions.iter().any(|f| f.entry == entry.name);
    let mut calls: Vec<Call<'_>> = Vec::new();
    let mut requests = Requests::default();
    requests.init();
    for case in &cases {
        if case.kind != Kind::Random {
            requests.init();
        }
        for (number, entry) in program.entries.iter().enumerate().filter(|(_, e)| called(e)) {
            let operands = operands(program, entry, case, options.seed, (classes, rates));
            requests.call((number, false), (options.seed, case.step), &operands);
            calls.push(Call { case, number, entry, operands });
        }
    }
    let mut run = Run {
        artifact: &artifact,
        state_names: artifact.state_names(),
        process: Process::start(&toolchain, &executable, &workspace, &requests)?,
        reference: ProgramInterpreter::new(program),
        elements: 0,
    };
    drop(requests);
    let initial = run.reference.state_memory().to_vec();
    let mut reports = Vec::new();
    let mut finding = run.initial("step 0");
    let report = |case: &str, entry: &str, outcome| CallReport {
        case: case.to_string(),
        entry: entry.to_string(),
        outcome,
    };
    let outcome = if finding.is_some() { Outcome::Failed } else { Outcome::Equal };
    reports.push(report("step 0", INIT, outcome));
    let mut previous: Option<&Case> = None;
    for (i, call) in calls.iter().enumerate() {
        let (case, entry) = (call.case, call.entry);
        if finding.is_some() {
            reports.push(report(&case.name, &entry.name, Outcome::Skipped));
            continue;
        }
        progress(Progress::Call(i, calls.len(), case.name.clone(), entry.name.clone()));
        let fresh = case.kind != Kind::Random && previous != Some(case);
        previous = Some(case);
        if fresh {
            run.reference.set_state_memory(&initial);
            finding = run.initial(&case.name);
        }
        let before = run.reference.state_memory().to_vec();
        if finding.is_none() {
            finding = run.call(call, options.seed)?;
            if let Some(finding) = &mut finding {
                progress(Progress::Bisect);
                let watched = bisect::Watched {
                    artifact: &artifact,
                    harness: &harness,
                    toolchain: &toolchain,
                    workspace: &workspace,
                    main: &main,
                    state_names: &run.state_names,
                };
                watched.bisect(folder, (call, options.seed), &before, finding)?;
            }
        }
        let outcome = if finding.is_some() { Outcome::Failed } else { Outcome::Equal };
        reports.push(report(&case.name, &entry.name, outcome));
    }
    let notes = notes(&artifact, &harness);
    Ok(Report {
        name: program.name.clone(),
        target: target.name.to_string(),
        bit_exact: finding.is_none(),
        steps: options.steps,
        seed: options.seed,
        compiler: toolchain.compiler(),
        runner: toolchain.runner(),
        calls: reports,
        elements: run.elements,
        finding,
        notes,
    })
}

fn notes(artifact: &Artifact, harness: &Harness) -> Vec<String> {
    let mut notes: Vec<String> = artifact
        .edited
        .iter()
        .map(|file| format!("`{file}` is not as trainc wrote it; it was verified as it is"))
        .collect();
    for entry in &artifact.program.entries {
        if !harness.functions.iter().any(|f| f.entry == entry.name) {
            notes.push(format!("entry `{}` is not exported, and was not run", entry.name));
        }
    }
    notes
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

/// A run with its reference.
struct Run<'p> {
    artifact: &'p Artifact,
    state_names: Vec<String>,
    process: Process,
    reference: ProgramInterpreter<'p>,
    elements: u64,
}

impl<'p> Run<'p> {
    fn program(&self) -> &'p Program {
        &self.artifact.program
    }

    /// Compares the initial state.
    fn initial(&mut self, case: &str) -> Option<Finding> {
        let mut finding = Finding {
            case: case.to_string(),
            step: 0,
            entry: INIT.to_string(),
            differences: Vec::new(),
            overruns: Vec::new(),
            crash: None,
            launch: None,
            remark: None,
        };
        match self.answer(&[]) {
            Ok((damage, _, state)) => {
                finding.overruns = overruns(damage, None);
                finding.differences = self.state_differences(&state);
            }
            Err(Ended(how)) => finding.crash = Some(how),
        }
        finding.is_something().then_some(finding)
    }

    /// Runs a call in the interpreter and compares the answer.
    fn call(&mut self, call: &Call<'_>, seed: u64) -> anyhow::Result<Option<Finding>> {
        let Call { case, entry, operands, .. } = call;
        let run = RunContext { seed, step: case.step };
        let expected = self.reference.run(&entry.name, operands, &run)?;
        let sizes: Vec<usize> =
            entry.outputs.iter().map(|a| self.program().buffer(a.buffer).bytes()).collect();
        let mut finding = Finding {
            case: case.name.clone(),
            step: case.step,
            entry: entry.name.clone(),
            differences: Vec::new(),
            overruns: Vec::new(),
            crash: None,
            launch: None,
            remark: None,
        };
        match self.answer(&sizes) {
            Ok((damage, results, state)) => {
                finding.overruns = overruns(damage, Some(entry));
                for ((argument, tensor), found) in entry.outputs.iter().zip(&expected).zip(&results)
                {
                    self.elements += tensor.ty().count() as u64;
                    let bytes = tensor_bytes(tensor);
                    finding.differences.extend(difference(
                        &argument.name,
                        tensor.ty(),
                        &bytes,
                        found,
                    ));
                }
                finding.differences.extend(self.state_differences(&state));
            }
            Err(Ended(how)) => finding.crash = Some(how),
        }
        Ok(finding.is_something().then_some(finding))
    }

    /// Reads the answer to a call: damage, results, state.
    fn answer(&mut self, sizes: &[usize]) -> Result<(u32, Vec<Vec<u8>>, Vec<u8>), Ended> {
        let record = self.process.read(1)?;
        if record != [CALLED] {
            return Err(Ended("it wrote something else on its standard output".to_string()));
        }
        let damage = self.process.read_u32()?;
        let results = sizes.iter().map(|&n| self.process.read(n)).collect::<Result<Vec<_>, _>>()?;
        let state = self.process.read(self.program().memory.state_bytes)?;
        Ok((damage, results, state))
    }

    fn state_differences(&mut self, found: &[u8]) -> Vec<Difference> {
        let expected = self.reference.state_memory();
        let mut differences = Vec::new();
        for (buffer, name) in self.program().state().into_iter().zip(&self.state_names) {
            let range = buffer.offset..buffer.offset + buffer.bytes();
            self.elements += buffer.ty.count() as u64;
            let pair = expected.get(range.clone()).zip(found.get(range));
            let Some((expected, found)) = pair else { continue };
            differences.extend(difference(name, &buffer.ty, expected, found));
        }
        differences
    }
}

impl Finding {
    fn is_something(&self) -> bool {
        !self.differences.is_empty() || !self.overruns.is_empty() || self.crash.is_some()
    }
}
