//! An artifact built so that each call launches its kernels in another way and times them.

use std::path::{Path, PathBuf};

use trainc_ir::harness::Harness;
use trainc_ir::program::{Entry, Program};
use trainc_ir::tuning::Tuning;

use crate::error::{Context, Error, Result, bail, ensure};

use super::artifact::Artifact;
use super::inputs::{cases, operands};
use super::measure::MeasureOptions;
use super::process::{Ended, Process, Requests};
use super::runnable;
use super::source::source;
use super::tools::{Build, Tools, Workspace};

/// The program that tries choices.
pub(crate) struct Trials<'a> {
    artifact: &'a Artifact,
    tuning: &'a Tuning,
    entry: usize,
    seed: u64,
    folder: &'a Path,
    tools: Tools,
    workspace: Workspace,
    harness: Harness,
    executable: PathBuf,
}

/// Times of a call in nanoseconds: the whole, and on the device each kernel; `None` where the device refused how it was to be launched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Call {
    pub(crate) whole: u64,
    pub(crate) kernels: Vec<Option<u64>>,
    /// Of the launches that ran, by number.
    pub(crate) launches: Vec<(usize, u64)>,
}

/// What calls took.
pub(crate) struct Times {
    /// The device's name.
    pub(crate) device: String,
    /// Of each call.
    pub(crate) calls: Vec<Call>,
}

impl<'a> Trials<'a> {
    /// Builds the program.
    ///
    /// # Errors
    /// If the artifact cannot be built here.
    pub(crate) fn new(
        (folder, keep): (&'a Path, Option<&Path>),
        artifact: &'a Artifact,
        tuning: &'a Tuning,
        entry: usize,
        options: &MeasureOptions,
        builds: &mut dyn FnMut(String),
    ) -> Result<Trials<'a>> {
        let program = &artifact.program;
        let target = artifact.target.description();
        let (toolchain, mut harness) = runnable(artifact.target, program)?;
        let name = &program.entries[entry].name;
        let exported = harness.functions.iter().any(|f| f.entry == *name);
        ensure!(exported, "entry `{name}` is not exported");
        harness.support.extend(tuning.support.iter().cloned());
        let (compiler, runner) = (options.compiler.as_deref(), options.runner.as_deref());
        let mut tools = Tools::find(target.name, &toolchain, compiler, runner)?;
        builds(tools.compiler());
        tools.flag(tuning.flag);
        let workspace = Workspace::new(keep)?;
        let main = source(program, &harness, target.alignment, false);
        let build = Build { folder, tools: &tools, workspace: &workspace, harness: &harness };
        let executable = build.executable(&main, None)?;
        let seed = options.seed;
        Ok(Trials { artifact, tuning, entry, seed, folder, tools, workspace, harness, executable })
    }

    /// Makes a call for each choice, each of the same data from the initial state.
    ///
    /// # Errors
    /// If the program ends early, or a call has another result than the first.
    pub(crate) fn run(&self, choices: &[Vec<usize>]) -> Result<Times> {
        let plan = self.workspace.path().join("plan.txt");
        let lines: Vec<String> =
            choices.iter().flat_map(|choice| self.tuning.lines(choice)).collect();
        std::fs::write(&plan, lines.join("\n") + "\n")
            .with_context(|| plan.display().to_string())?;
        self.calls(choices.len(), Some(&plan))
    }

    /// Makes so many calls of the same data from the initial state, each with the artifact's own choices.
    ///
    /// # Errors
    /// As [`Trials::run`].
    pub(crate) fn run_as_tuned(&self, count: usize) -> Result<Times> {
        self.calls(count, None)
    }

    /// The command that built the program.
    pub(crate) fn compiler(&self) -> String {
        self.tools.compiler()
    }

    fn calls(&self, count: usize, plan: Option<&Path>) -> Result<Times> {
        let times = self.workspace.path().join("times.txt");
        let program: &Program = &self.artifact.program;
        let called = &program.entries[self.entry];
        let context = (self.artifact.classes(), self.artifact.rows(), &self.artifact.rates);
        let case = cases(1, false).into_iter().next().context("a case")?;
        let operands = operands(program, called, &case, self.seed, context);
        let mut requests = Requests::default();
        for _ in 0..count {
            requests.init();
            requests.call((self.entry, false), (self.seed, case.step), &operands);
        }
        let Trials { folder, tools, workspace, harness, .. } = self;
        let variables: Vec<(&str, &Path)> = plan
            .map(|plan| (Tuning::PLAN, plan))
            .into_iter()
            .chain([(Tuning::TIMES, times.as_path())])
            .collect();
        let build = Build { folder, tools, workspace, harness };
        let mut process = build.start_with(&self.executable, &requests, &variables)?;
        let mut first: Option<Vec<u8>> = None;
        for number in 0..count {
            let answer = answer(&mut process, program, called)
                .map_err(|Ended(how)| Error::Refused(format!("the program ended early: {how}")))?;
            let same = first.get_or_insert_with(|| answer.clone()) == &answer;
            ensure!(same, "call {number} has another result than the first: the driver is wrong");
        }
        process.marks().map_err(|Ended(how)| Error::Refused(format!("the program: {how}")))?;
        let text = std::fs::read_to_string(&times).with_context(|| times.display().to_string())?;
        let mut lines = text.lines();
        let device = lines.next().unwrap_or_default().trim().to_string();
        let kernels = self.tuning.tunables.len();
        let calls: Option<Vec<Call>> = lines.map(|line| call(line, kernels)).collect();
        match calls {
            Some(calls) if calls.len() == count => Ok(Times { device, calls }),
            _ => bail!("{}: no times of {count} calls", times.display()),
        }
    }
}

/// The bytes of a call's results and state.
fn answer(process: &mut Process, program: &Program, entry: &Entry) -> Result<Vec<u8>, Ended> {
    let results: usize = entry.outputs.iter().map(|a| program.buffer(a.buffer).bytes()).sum();
    let head = 1 + 4;
    // What the initial state answers.
    process.read(head + program.memory.state_bytes)?;
    process.read(head + results + program.memory.state_bytes)
}

/// A line of times.
fn call(line: &str, kernels: usize) -> Option<Call> {
    let (line, launches) = line.split_once(" |")?;
    let mut words = line.split(' ');
    let whole = words.next()?.parse().ok()?;
    let time = |word: &str| match word {
        "-" => Some(None),
        word => word.parse().ok().map(Some),
    };
    let found: Vec<Option<u64>> = words.map(time).collect::<Option<_>>()?;
    let launch = |word: &str| {
        let (number, time) = word.split_once(':')?;
        Some((number.parse().ok()?, time.parse().ok()?))
    };
    let launches = launches.split_whitespace().map(launch).collect::<Option<_>>()?;
    (found.len() == kernels).then_some(Call { whole, kernels: found, launches })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_times() {
        let found = call("90 30 - 5 | 0:30 2:5", 3).unwrap();
        assert_eq!((found.whole, found.kernels), (90, vec![Some(30), None, Some(5)]));
        assert_eq!(found.launches, [(0, 30), (2, 5)]);
        assert_eq!(call("90 30 |", 1).unwrap().launches, []);
        for wrong in ["90 30", "90 30 |", "90 x - 5 |", "90 30 - 5 | 7", "90 30 - 5 | a:7"] {
            assert_eq!(call(wrong, 3), None, "{wrong}");
        }
    }
}
