//! Verification of a program that is no artifact, on operands that the caller gives: for tests of targets.

use trainc_ir::program::Program;
use trainc_ir::program_interpreter::ProgramInterpreter;
use trainc_ir::target::Target;
use trainc_ir::{Tensor, Verified};

use crate::error::{Context, Result};

use super::inputs::{Case, Kind};
use super::partner::Partner;
use super::process::Requests;
use super::report::{Finding, LaunchCost};
use super::run::{Call, INIT, Run};
use super::source::{WATCHED, source};
use super::tools::{Build, Tools, Workspace};
use super::{VerifyOptions, count, runnable};

/// A call of an entry.
#[derive(Clone, Debug)]
pub struct ProgramCall {
    /// The entry's position.
    pub entry: usize,
    /// For random numbers.
    pub step: u32,
    /// Its operands.
    pub operands: Vec<Tensor>,
}

/// What came of the calls.
#[derive(Clone, PartialEq, Debug)]
pub struct ProgramReport {
    /// What is wrong, in the order of the calls. Nothing follows the end of the program.
    pub findings: Vec<Finding>,
    /// What launches cost, if nothing is wrong and a simulator counted them.
    pub launches: Vec<LaunchCost>,
}

/// Emits a program for a target, builds it, and makes the calls one after another from the initial state. Of the options
/// `steps` and `extremes` mean nothing here; where `launches` are compared, the first finding is the last.
///
/// # Errors
/// If the program cannot be emitted, built or run here.
pub fn verify_program(
    program: &Verified<Program>,
    target: &dyn Target,
    calls: &[ProgramCall],
    options: &VerifyOptions,
) -> Result<ProgramReport> {
    let (toolchain, harness) = runnable(target, program)?;
    let (compiler, runner) = (options.compiler.as_deref(), options.runner.as_deref());
    let mut tools = Tools::find(target.description().name, &toolchain, compiler, runner)?;
    let workspace = Workspace::new(options.keep.as_deref())?;
    let folder = workspace.path().join("artifact");
    let place = || format!("{}: cannot be written", folder.display());
    std::fs::create_dir_all(&folder).with_context(place)?;
    for file in target.emit(program)? {
        std::fs::write(folder.join(&file.name), &file.contents).with_context(place)?;
    }
    let partner = Partner::of(target, program, &workspace)?;
    let watched = options.launches.then_some(WATCHED);
    tools.partner = partner.map(|p| p.build(&folder, watched)).transpose()?;
    let main = source(program, &harness, target.description().alignment, options.launches);
    let build = Build { folder: &folder, tools: &tools, workspace: &workspace, harness: &harness };
    let executable = build.executable(&main, watched)?;

    let cases: Vec<Case> = calls
        .iter()
        .map(|call| Case {
            name: format!("step {}", call.step),
            step: call.step,
            kind: Kind::Random,
        })
        .collect();
    let mut requests = Requests::default();
    requests.init();
    let mut all = Vec::new();
    for (call, case) in calls.iter().zip(&cases) {
        let operands = call.operands.clone();
        requests.call((call.entry, options.launches), (options.seed, case.step), &operands);
        let entry = &program.entries[call.entry];
        all.push(Call { case, number: call.entry, entry, operands });
    }
    let state_names: Vec<String> = program.state().iter().map(|b| b.name.clone()).collect();
    let mut run = Run {
        program,
        state_names: &state_names,
        process: build.start(&executable, &requests)?,
        reference: ProgramInterpreter::new(program),
        seed: options.seed,
        elements: 0,
    };
    let mut report = ProgramReport { findings: Vec::new(), launches: Vec::new() };
    report.findings.extend(run.initial(INIT));
    for call in &all {
        let Some(finding) = run.call(call, options.launches)? else { continue };
        let over = finding.crash.is_some() || options.launches;
        report.findings.push(finding);
        if over {
            return Ok(report);
        }
    }
    if let (true, true, Some(simulator)) =
        (report.findings.is_empty(), options.counts, tools.simulator())
    {
        let (launches, finding) = count::count(&build, &main, &run, simulator, &all)?;
        report.launches = launches;
        report.findings.extend(finding);
    }
    Ok(report)
}
