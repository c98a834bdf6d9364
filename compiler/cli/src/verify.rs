//! `trainc verify`.

use serde_json::{Value, json};
use trainc_driver::data::write_atomically;
use trainc_driver::verify::{LaunchCost, Outcome, Progress, Report, VerifyOptions, junit, verify};

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
        counts: !arguments.no_counts,
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
            Progress::Count => json!({ "reason": "count" }),
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
    lines.extend(costs(report));
    lines
}

/// A table of what launches cost: instructions of the first build that was counted, cycles of all.
fn costs(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let width = report.launches.iter().map(|l| l.node.chars().count() + 2).max().unwrap_or(0);
    let width = width.max(24);
    let row = |name: &str, cells: &[u64]| {
        let cells: String = cells.iter().map(|cell| format!(" {cell:>16}")).collect();
        format!("{name:width$}{cells}")
    };
    let cells = |launch: &LaunchCost| {
        let instructions = launch.costs.first().map(|cost| cost.instructions);
        instructions.into_iter().chain(launch.costs.iter().map(|cost| cost.cycles)).collect()
    };
    for entry in report.launches.chunk_by(|a, b| a.entry == b.entry) {
        let [first, ..] = entry else { continue };
        let builds =
            first.costs.iter().map(|cost| format!(" {:>16}", format!("cycles, {}", cost.on)));
        lines.push(String::new());
        lines.push(format!(
            "{:width$} {:>16}{}",
            format!("{}, {}", first.entry, "step 0"),
            "instructions",
            builds.collect::<String>()
        ));
        let mut total: Vec<u64> = Vec::new();
        for launch in entry {
            let cells: Vec<u64> = cells(launch);
            total.resize(cells.len(), 0);
            total.iter_mut().zip(&cells).for_each(|(sum, cell)| *sum += cell);
            lines.push(row(&format!("  {}", launch.node), &cells));
        }
        lines.push(row("  all launches", &total));
    }
    if let Some(model) = report.model.filter(|_| !lines.is_empty()) {
        lines.extend([String::new(), format!("counted on {model}")]);
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
