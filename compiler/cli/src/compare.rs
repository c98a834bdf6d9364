//! `trainc compare`.

use serde_json::json;
use trainc_driver::compare::{CompareOptions, Progress, compare, files, text};
use trainc_driver::data::{Dataset, write_atomically};
use trainc_driver::train;

use crate::arguments::{CompareArguments, built_in_model, model_file};
use crate::message::Output;
use crate::progress::ProgressBar;

pub(crate) fn run(arguments: &CompareArguments, output: &Output) -> anyhow::Result<()> {
    let config = arguments.config()?;
    let data = match &arguments.data {
        Some(path) => Dataset::open(path)?,
        None => Dataset::digits(),
    };
    let source = match &arguments.model {
        Some(path) => model_file(path),
        None => built_in_model(config.seed)?,
    };
    let options = CompareOptions {
        algorithms: arguments.algorithms(),
        seeds: arguments.seeds,
        folder: arguments.output.clone(),
        targets: arguments.targets.clone(),
    };
    let mut bar = ProgressBar::new();
    let mut said = Ok(());
    let comparison = compare(&source, &config, &data, &options, &mut |progress| {
        if said.is_ok() {
            said = show(&progress, &mut bar, output);
        }
    })?;
    bar.clear();
    said?;
    for line in text(&comparison) {
        output.line(&line)?;
    }
    if let Some(folder) = &arguments.output {
        let command: Vec<String> = std::env::args().skip(1).collect();
        for (name, contents) in files(&comparison, &format!("trainc {}", command.join(" "))) {
            let path = folder.join(name);
            write_atomically(&path, contents.as_bytes())?;
            output.line(&format!("{}", path.display()))?;
        }
    }
    let mut object = serde_json::to_value(&comparison)?;
    object["reason"] = json!("compared");
    object["differences"] = serde_json::to_value(comparison.differences())?;
    output.object(&object)
}

fn show(progress: &Progress<'_>, bar: &mut ProgressBar, output: &Output) -> anyhow::Result<()> {
    match progress {
        Progress::Warning(algorithm, warning) => output.warning(&format!("{algorithm}: {warning}")),
        Progress::Kept(algorithm, seed) => {
            output.note(&format!("{algorithm}, seed {seed}: run before"));
        }
        Progress::Within(algorithm, seed, epoch, at) => {
            let (what, done, total) = match at {
                train::Progress::Train(done, total) => ("training", done, total),
                train::Progress::Evaluate(done, total) => ("testing", done, total),
            };
            bar.show(&format!("{algorithm} seed {seed} epoch {epoch}: {what}"), *done, *total);
        }
        Progress::Epoch(algorithm, seed, record) => {
            bar.clear();
            let mut object = serde_json::to_value(record)?;
            object["reason"] = json!("epoch");
            object["algorithm"] = json!(algorithm);
            object["seed"] = json!(seed);
            output.object(&object)?;
        }
        Progress::Measure(algorithm, target) => {
            bar.clear();
            output.note(&format!("{algorithm}: measuring a step on {target}"));
        }
    }
    Ok(())
}
