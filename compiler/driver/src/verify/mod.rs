//! Verification of an artifact: what its sources compute, built by the target's compiler and run on this machine or
//! under an emulator, against the reference interpreter, bit for bit.
//!
//! Read in this order: `artifact` (the program back from its folder), `inputs` (what it is run on), `source` (the C
//! program around it), `tools` and `process` (building and running), `compare`, `run` (harness and interpreter side by
//! side, launch by launch if asked for), `count` (what launches cost in a simulator), here (from a wrong result to the first wrong launch), [`Report`], [`junit`].

pub(crate) mod artifact;
mod compare;
mod count;
pub(crate) mod elf;
pub(crate) mod inputs;
mod junit;
pub(crate) mod measure;
mod needs;
mod partner;
mod process;
mod program;
mod report;
mod run;
mod source;
pub(crate) mod times;
pub(crate) mod tools;
pub(crate) mod trials;

use std::path::{Path, PathBuf};

use trainc_ir::Verified;
use trainc_ir::harness::{CheckpointFunctions, Harness, Simulator, Toolchain};
use trainc_ir::program::{Entry, Program};
use trainc_ir::program_interpreter::ProgramInterpreter;
use trainc_ir::target::Target;

use artifact::Artifact;
use inputs::{Case, Kind, cases, operands};
use partner::Partner;
use process::Requests;
use run::{CHECKPOINT, Call, INIT, Run, SAVED_STEPS};
use source::WATCHED;
use tools::{Build, Tools, Workspace};

use crate::error::{Result, bail, ensure};

pub use compare::Difference;
pub use junit::junit;
pub use needs::{Needs, needs};
pub use program::{ProgramCall, ProgramReport, verify_program};
pub use report::{CallReport, Cost, Finding, LaunchCost, LaunchFinding, Outcome, Report};

/// What to run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyOptions {
    /// Training steps one after another, each followed by the other entries on the same data.
    pub steps: u32,
    /// Seed of data and random numbers.
    pub seed: u64,
    /// Whether single steps on extreme data follow.
    pub extremes: bool,
    /// Whether the results of each launch are compared, too. The sources are then built with a hook after each launch.
    pub launches: bool,
    /// Whether a simulator counts what the launches of the first step cost.
    pub counts: bool,
    /// A compiler in place of the target's: a command with arguments, which gets the target's flags.
    pub compiler: Option<String>,
    /// An emulator in place of the target's: a command with arguments.
    pub runner: Option<String>,
    /// A folder for the program around the artifact, its requests and executables, which then stay.
    pub keep: Option<PathBuf>,
}

impl Default for VerifyOptions {
    fn default() -> VerifyOptions {
        VerifyOptions {
            steps: 3,
            seed: 0,
            extremes: true,
            launches: false,
            counts: true,
            compiler: None,
            runner: None,
            keep: None,
        }
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
    /// The launches of the first step are counted.
    Count,
}

/// Verifies the artifact in a folder. A wrong result is no error but a [`Finding`].
///
/// # Errors
/// If the folder is not an artifact of this version, or cannot be built or run here.
pub fn verify(
    folder: &Path,
    options: &VerifyOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report> {
    let artifact = artifact::read(folder)?;
    let program = &artifact.program;
    let target = artifact.target.description();
    let (toolchain, harness) = runnable(artifact.target, program)?;
    ensure!(
        harness.hooks || !options.launches,
        "artifacts of target `{}` have no hook after each launch; only whole calls can be compared",
        target.name
    );
    let (compiler, runner) = (options.compiler.as_deref(), options.runner.as_deref());
    let mut tools = Tools::find(target.name, &toolchain, compiler, runner)?;
    let workspace = Workspace::new(options.keep.as_deref())?;
    progress(Progress::Build(tools.compiler()));
    let partner = Partner::of(artifact.target, program, &workspace)?;
    let watched = options.launches.then_some(WATCHED);
    tools.partner = partner.as_ref().map(|p| p.build(folder, watched)).transpose()?;
    let main = source::source(program, &harness, target.alignment, true);
    let build = Build { folder, tools: &tools, workspace: &workspace, harness: &harness };
    let executable = build.executable(&main, watched)?;

    let cases = cases(options.steps, options.extremes);
    let (calls, requests) = calls(&artifact, &harness, &cases, options);
    let state_names = artifact.state_names();
    let mut run = Run {
        program,
        state_names: &state_names,
        process: build.start(&executable, &requests)?,
        reference: ProgramInterpreter::new(program),
        seed: options.seed,
        elements: 0,
    };
    drop(requests);
    let initial = run.reference.state_memory().to_vec();
    let outcome = |finding: &Option<Finding>| match finding {
        Some(_) => Outcome::Failed,
        None => Outcome::Equal,
    };
    let start = cases.first().map_or("", |c| c.name.as_str());
    let mut finding = run.initial(start);
    let mut reports = vec![CallReport::new(start, INIT, outcome(&finding))];
    let mut previous: Option<&Case> = None;
    let saved = saved_after(&calls, program, &harness);
    for (i, call) in calls.iter().enumerate() {
        let (case, entry) = (call.case, &call.entry.name);
        if finding.is_some() {
            reports.push(CallReport::new(&case.name, entry, Outcome::Skipped));
            continue;
        }
        progress(Progress::Call(i, calls.len(), case.name.clone(), entry.clone()));
        if case.kind != Kind::Random && previous != Some(case) {
            run.reference.set_state_memory(&initial);
            finding = run.initial(&case.name);
        }
        previous = Some(case);
        let before = run.reference.state_memory().to_vec();
        if finding.is_none() {
            finding = run.call(call, options.launches)?;
            if let Some(finding) = finding.as_mut().filter(|_| !options.launches) {
                progress(Progress::Bisect);
                bisect((&build, partner.as_ref()), &main, &run, call, &before, finding)?;
            }
        }
        reports.push(CallReport::new(&case.name, entry, outcome(&finding)));
        if let (None, Some((last, functions))) = (&finding, saved)
            && last == i
        {
            finding = run.checkpoint((&case.name, case.step), functions);
            reports.push(CallReport::new(&case.name, CHECKPOINT, outcome(&finding)));
        }
    }
    let mut launches = Vec::new();
    if let (None, true, Some(simulator)) = (&finding, options.counts, tools.simulator()) {
        progress(Progress::Count);
        (launches, finding) = count::count(&build, &main, &run, simulator, &calls)?;
    }
    Ok(Report {
        name: program.name.clone(),
        target: target.name.to_string(),
        bit_exact: finding.is_none(),
        steps: options.steps,
        seed: options.seed,
        compiler: tools.compiler(),
        runner: tools.runner(),
        calls: reports,
        elements: run.elements,
        finding,
        launches,
        model: tools.simulator().map(Simulator::model),
        notes: notes(&artifact, &harness),
    })
}

/// What builds and runs an artifact.
fn runnable(target: &dyn Target, program: &Verified<Program>) -> Result<(Toolchain, Harness)> {
    match (target.toolchain(), target.harness(program)?) {
        (Some(toolchain), Some(harness)) => Ok((toolchain, harness)),
        _ => bail!("artifacts of target `{}` cannot be run here", target.description().name),
    }
}

/// All calls of a verification, and the requests for them: the initial state, then each case's, behind the first a
/// checkpoint, before extreme ones the initial state again.
fn calls<'p>(
    artifact: &'p Artifact,
    harness: &Harness,
    cases: &'p [Case],
    options: &VerifyOptions,
) -> (Vec<Call<'p>>, Requests) {
    let program = &artifact.program;
    let context = (artifact.classes(), artifact.rows(), &artifact.rates);
    let exported = |entry: &Entry| harness.functions.iter().any(|f| f.entry == entry.name);
    let (mut calls, mut requests) = (Vec::new(), Requests::default());
    requests.init();
    for case in cases {
        if case.kind != Kind::Random {
            requests.init();
        }
        for (number, entry) in program.entries.iter().enumerate().filter(|(_, e)| exported(e)) {
            let operands = operands(program, entry, case, options.seed, context);
            let watched = options.launches;
            requests.call((number, watched), (options.seed, case.step), &operands);
            calls.push(Call { case, number, entry, operands });
        }
        if Some(case) == cases.first() && saved_after(&calls, program, harness).is_some() {
            requests.checkpoint(SAVED_STEPS);
        }
    }
    (calls, requests)
}

/// The call behind which the state is saved and loaded, the last of the first step, and what does it: the steps that
/// follow go on from there.
fn saved_after<'h>(
    calls: &[Call<'_>],
    program: &Program,
    harness: &'h Harness,
) -> Option<(usize, &'h CheckpointFunctions)> {
    let first = calls.first()?.case;
    let last = calls.iter().rposition(|call| call.case == first)?;
    Some((last, source::checkpoints(program, harness)?))
}

/// Runs a failed call again from the state before it, built with a hook after each launch, and adds the first wrong
/// launch to the finding, or why there is none.
fn bisect(
    (build, partner): (&Build<'_>, Option<&Partner>),
    main: &str,
    run: &Run<'_>,
    call: &Call<'_>,
    before: &[u8],
    finding: &mut Finding,
) -> Result<()> {
    if !build.harness.hooks {
        finding.remark = Some(
            "artifacts of this target have no hook after each launch, so the first wrong one is not known; compile the \
             model for target `c` to see whether it is right there"
                .to_string(),
        );
        return Ok(());
    }
    let mut tools = build.tools.clone();
    tools.partner = partner.map(|p| p.build(build.folder, Some(WATCHED))).transpose()?;
    let build = Build { tools: &tools, ..*build };
    let executable = build.executable(main, Some(WATCHED))?;
    let mut requests = Requests::default();
    requests.load(before);
    requests.call((call.number, true), (run.seed, call.case.step), &call.operands);
    let mut again = Run {
        process: build.start(&executable, &requests)?,
        reference: ProgramInterpreter::new(run.program),
        ..*run
    };
    again.reference.set_state_memory(before);
    finding.launch = again.call(call, true)?.and_then(|finding| finding.launch);
    if finding.launch.is_none() {
        finding.remark = Some(
            "the call alone, run again with a hook after each launch, has no wrong launch: what is wrong happens \
             between launches, depends on memory that no launch may rely on, or is the compiler's"
                .to_string(),
        );
    }
    Ok(())
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
