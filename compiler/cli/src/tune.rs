//! `trainc tune`.

use serde_json::{Value, json};
use trainc_driver::tune::{Progress, TuneOptions, TuneReport, tune};

use crate::arguments::TuneArguments;
use crate::message::Output;

pub(crate) fn run(arguments: &TuneArguments, output: &Output) -> anyhow::Result<()> {
    let start = std::time::Instant::now();
    let options = TuneOptions {
        entry: arguments.entry.clone(),
        seed: arguments.seed,
        repeats: arguments.repeats,
        compiler: arguments.cc.clone(),
        runner: arguments.runner.clone(),
        keep: arguments.keep.clone(),
    };
    let mut said: anyhow::Result<()> = Ok(());
    let report = tune(&arguments.directory, &options, &mut |progress| {
        let object = match progress {
            Progress::Build(command) => json!({ "reason": "build", "command": command }),
            Progress::Untuned => json!({ "reason": "untuned" }),
            Progress::Try(ways, kernels) => {
                output.note(&format!("trying {ways} ways to launch {kernels} kernels"));
                json!({ "reason": "try", "ways": ways, "kernels": kernels })
            }
            Progress::Compare => json!({ "reason": "compare" }),
        };
        if said.is_ok() {
            said = output.object(&object);
        }
    })?;
    said?;
    for line in text(&report, start.elapsed().as_secs_f64()) {
        output.line(&line)?;
    }
    output.object(&object(&report)?)
}

fn milliseconds(nanoseconds: u64) -> String {
    format!("{:.3}", nanoseconds as f64 / 1e6)
}

fn text(report: &TuneReport, seconds: f64) -> Vec<String> {
    let mut lines = vec![format!("{}, {} on {}", report.name, report.entry, report.device)];
    let width = report.kernels.iter().map(|k| k.kernel.len() + 2).max().unwrap_or(0).max(24);
    lines.push(format!("{:width$} {:>10} {:>10}  ways tried  chosen", "ms", "driver's", "chosen"));
    for kernel in &report.kernels {
        lines.push(format!(
            "  {:w$} {:>10} {:>10}  {:>10}  {}",
            kernel.kernel,
            milliseconds(kernel.before),
            milliseconds(kernel.after),
            kernel.tried.len(),
            kernel.chosen,
            w = width - 2,
        ));
    }
    if report.small > 0 {
        lines.push(format!("  {} others take less than a hundredth of a call each", report.small));
    }
    let [before, after] = [report.before, report.after].map(milliseconds);
    lines.push(match report.faster {
        true => format!("a call: {before} ms before, {after} ms after; the same bits in every trial"),
        false => format!(
            "a call: {before} ms, and not less with what was chosen: all stays the driver's; the same bits in every trial"
        ),
    });
    lines.push(format!("wrote {} and the manifest, {seconds:.1} s", report.file));
    lines
}

/// The last line: the report under the reason `tuned`.
fn object(report: &TuneReport) -> anyhow::Result<Value> {
    let mut object = serde_json::to_value(report)?;
    object["reason"] = json!("tuned");
    Ok(object)
}
