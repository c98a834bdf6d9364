//! `trainc measure`.

use serde_json::json;
use trainc_driver::bench::Subject;
use trainc_driver::config::Config;
use trainc_driver::data::write_atomically;
use trainc_driver::measure::{Options, Progress, measure};
use trainc_driver::trained::choose_algorithm;

use crate::arguments::{MeasureArguments, model_file};
use crate::message::Output;

pub(crate) fn run(arguments: &MeasureArguments, output: &Output) -> anyhow::Result<()> {
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
    let options = Options {
        calls: arguments.calls,
        seed: config.seed,
        compiler: arguments.cc.clone(),
        runner: arguments.runner.clone(),
        keep: arguments.keep.clone(),
        log: arguments.log.clone(),
    };
    let mut said: anyhow::Result<()> = Ok(());
    let report = measure(&subject, &options, &mut |progress| {
        let object = match progress {
            Progress::Compile => json!({ "reason": "compile" }),
            Progress::Run(device) => {
                output.note(&format!("all launches on {device}"));
                json!({ "reason": "run", "device": device })
            }
        };
        if said.is_ok() {
            said = output.object(&object);
        }
    })?;
    said?;
    let text = report.file();
    let mut notes: Vec<String> = report.warning().into_iter().collect();
    if report.missing > 0 {
        notes.push(format!(
            "{} kernels have no time on some device; there the target's estimate counts",
            report.missing
        ));
    }
    match &arguments.output {
        Some(path) => {
            write_atomically(path, text.as_bytes())?;
            let switch = report.switch.map_or(String::new(), |us| format!(", a switch {us:.1} us"));
            output.line(&format!(
                "wrote {}: {} kernels on {}{switch}",
                path.display(),
                report.kernels.len(),
                report.devices.join(" and ")
            ))?;
        }
        None => {
            for line in text.lines() {
                output.line(line)?;
            }
        }
    }
    notes.iter().for_each(|note| output.note(&format!("note: {note}")));
    let mut object = serde_json::to_value(&report)?;
    object["reason"] = json!("measured");
    output.object(&object)
}
