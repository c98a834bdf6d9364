//! `trainc verify`.

use serde_json::{Value, json};
use trainc_driver::data::write_atomically;
use trainc_driver::verify::{Outcome, Progress, Report, VerifyOptions, junit, verify};

use crate::arguments::VerifyArguments;
use crate::message::Output;
use crate::progress::ProgressBar;

/// Whether the artifact is right.
pub(crate) fn run(arguments: &VerifyArguments, output: &Output) -> anyhow::Result<bool> {
    let start = std::time::Instant::now();
    let options = VerifyOptions {
        steps: arguments.steps,
        seed: arguments.seed,
        extremes: !arguments.no_extremes,
        launches: arguments.launches,
        compiler: arguments.cc.clone(),
        runner: arguments.runner.clone(),
        keep: arguments.keep.clone(),
    };
    let mut bar = ProgressBar::new();
    let mut said: anyhow::Result<()> = Ok(());
    let report = verify(&arguments.directory, &options, &mut |progress| {
        let object = match &progress {
            Progress::Build(command) => json!({ "reason": "build", "command": command }),
            Progress::Call(done, total, case, entry) => {
                bar.show("verifying", *done, *total);
                json!({
                    "reason": "progress", "done": done, "total": total, "case": case, "entry": entry,
                })
            }
            Progress::Bisect => json!({ "reason": "bisect" }),
        };
        if said.is_ok() {
            said = output.object(&object);
        }
    })?;
    said?;
    bar.clear();
    report.notes.iter().for_each(|note| output.warning(note));
    if let Some(path) = &arguments.junit {
        write_atomically(path, junit(&report).as_bytes())?;
    }
    let seconds = start.elapsed().as_secs_f64();
    for line in text(&report, seconds) {
        output.line(&line)?;
    }
    output.object(&object(&report, seconds)?)?;
    Ok(report.bit_exact)
}

fn text(report: &Report, seconds: f64) -> Vec<String> {
    let Report { name, target, compiler, .. } = report;
    let mut lines = vec![format!("{name} for {target}: {compiler}")];
    if let Some(runner) = &report.runner {
        lines.push(format!("run by {runner}"));
    }
    let equal = report.calls.iter().filter(|c| c.outcome == Outcome::Equal).count();
    let calls = report.calls.len();
    let trains = report.calls.iter().any(|c| c.entry == "train_step");
    let steps = if trains { "training steps" } else { "steps" };
    match &report.finding {
        None => lines.push(format!(
            "bit-exact: {} {steps}, {calls} calls, {} elements compared, {seconds:.2} s",
            report.steps, report.elements
        )),
        Some(finding) => {
            lines.push(format!("NOT bit-exact after {equal} of {calls} calls"));
            lines.push(finding.to_string());
        }
    }
    lines
}

/// The last line: the report under the reason `verified`.
fn object(report: &Report, seconds: f64) -> anyhow::Result<Value> {
    let mut object = serde_json::to_value(report)?;
    object["reason"] = json!("verified");
    object["seconds"] = json!(seconds);
    Ok(object)
}
