//! `trainc bench`.

use serde_json::{Value, json};
use trainc_driver::bench::{BenchOptions, BenchReport, Progress, Subject, bench, flame, svg, text};
use trainc_driver::config::Config;
use trainc_driver::data::write_atomically;
use trainc_driver::trained::choose_algorithm;

use crate::arguments::{BenchArguments, model_file};
use crate::message::Output;

pub(crate) fn run(arguments: &BenchArguments, output: &Output) -> anyhow::Result<()> {
    let mut config = arguments.config.config(Config::default())?;
    let source = model_file(&arguments.model);
    let subject = if arguments.model.is_dir() {
        anyhow::ensure!(
            !arguments.config.says_anything(),
            "{}: an artifact is measured as it was compiled; --target, --batch and the like are for a model",
            arguments.model.display()
        );
        Subject::Folder(&arguments.model)
    } else {
        if arguments.config.model_decides()
            && let Some(note) = choose_algorithm(&source, &mut config)
        {
            output.note(&format!("note: {note}"));
        }
        Subject::Model(&source, &config)
    };
    let options = BenchOptions {
        entry: arguments.entry.clone(),
        seed: config.seed,
        compiler: arguments.cc.clone(),
        runner: arguments.runner.clone(),
        keep: arguments.keep.clone(),
    };
    let mut said: anyhow::Result<()> = Ok(());
    let (report, spans) = bench(&subject, &options, &mut |progress| {
        let reason = match progress {
            Progress::Compile => "compile",
            Progress::Measure => "measure",
        };
        if said.is_ok() {
            said = output.object(&json!({ "reason": reason }));
        }
    })?;
    said?;
    if let Some(path) = &arguments.map {
        let title = format!("{} for {}, {}", report.name, report.target, report.entry);
        write_atomically(path, svg(&title, report.arena_bytes, &spans).as_bytes())?;
    }
    if let Some(path) = &arguments.flame {
        write_atomically(path, flame(&report).as_bytes())?;
    }
    for line in text(&report) {
        output.line(&line)?;
    }
    output.object(&object(&report)?)
}

/// The last line: the report under the reason `benched`.
fn object(report: &BenchReport) -> anyhow::Result<Value> {
    let mut object = serde_json::to_value(report)?;
    object["reason"] = json!("benched");
    Ok(object)
}
