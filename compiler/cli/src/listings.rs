//! `trainc algorithms`, `targets`, `zoo` and `completions`.

use clap::CommandFactory;
use serde_json::{Value, json};
use trainc_driver::algorithms::{Algorithm, Parameter};
use trainc_driver::config::Config;
use trainc_driver::verify::needs;
use trainc_driver::zoo::{self, ZooSpec};
use trainc_driver::{algorithm_check, algorithms, data, targets};

use crate::arguments::{
    AlgorithmsArguments, Arguments, CompletionsArguments, ZooArguments, model_file,
};
use crate::message::Output;

pub(crate) fn algorithms(arguments: &AlgorithmsArguments, output: &Output) -> anyhow::Result<()> {
    if let (true, Some(name)) = (arguments.check, &arguments.name) {
        return check(name, arguments, output);
    }
    if let Some(name) = &arguments.name {
        if let Some((_, text)) = algorithms::OPTIMIZERS.iter().find(|(known, _)| known == name) {
            let object = json!({ "reason": "optimizer", "name": name, "text": text });
            output.object(&object)?;
            return if output.is_json() { Ok(()) } else { output.print(text) };
        }
        let algorithm = algorithms::load(name)?;
        output.object(&json!({
            "reason": "algorithm", "name": algorithm.name, "title": algorithm.title,
            "paper": algorithm.paper, "notes": algorithm.notes, "integer": algorithm.integer,
            "float": algorithm.float, "state": algorithms::state_of_weights(&algorithm),
            "parameters": parameters(&algorithm), "text": algorithm.text,
        }))?;
        return if output.is_json() { Ok(()) } else { output.print(&algorithm.text) };
    }
    for algorithm in algorithms::built_in()? {
        let state = algorithms::state_of_weights(&algorithm);
        output.line(&format!("{:<14} {}", algorithm.name, algorithm.title))?;
        let kept = match algorithm.inference {
            Some(_) => String::new(),
            None if state.is_empty() => "the weight alone".to_string(),
            None => format!("the weight, {}", state.join(", ")),
        };
        let facts = [
            ("paper", &algorithm.paper),
            ("integer", &algorithm.integer),
            ("FP32", &algorithm.float),
            ("kept", &kept),
        ];
        for (what, text) in facts.into_iter().filter(|(_, text)| !text.is_empty()) {
            output.line(&format!("{:<14} {what}: {text}", ""))?;
        }
        for line in algorithm.parameters.lines() {
            output.line(&format!("{:<14} parameter: {line}", ""))?;
        }
        for own in algorithm.added() {
            output.line(&format!("{:<14} adds: {}", "", own.described()))?;
        }
        output.object(&json!({
            "reason": "algorithm", "name": algorithm.name, "title": algorithm.title,
            "paper": algorithm.paper, "notes": algorithm.notes, "integer": algorithm.integer,
            "float": algorithm.float, "state": state, "parameters": parameters(&algorithm),
            "adds": algorithm.added().map(|own| own.described()).collect::<Vec<_>>(),
        }))?;
    }
    for (name, _) in algorithms::OPTIMIZERS {
        let optimizer = algorithms::Optimizer::built_in(name)?;
        output.line(&format!("--optimizer {name:<10} {}", optimizer.title))?;
        let parameters: Vec<_> = optimizer.parameters.iter().map(|(name, parameter)| json!({
            "name": name, "default": parameter.default, "range": parameter.range(), "about": parameter.about,
        })).collect();
        output.object(&json!({
            "reason": "optimizer", "name": name, "title": optimizer.title, "paper": optimizer.paper,
            "parameters": parameters,
        }))?;
    }
    Ok(())
}

fn check(name: &str, arguments: &AlgorithmsArguments, output: &Output) -> anyhow::Result<()> {
    let config = Config { algorithm: name.to_string(), ..Config::default() };
    let model = arguments.model.as_deref().map(model_file);
    let found = algorithm_check::check(&config, model.as_ref())?;
    let mut object = serde_json::to_value(&found)?;
    object["reason"] = json!("algorithm-check");
    output.object(&object)?;
    if !output.is_json() {
        output.print(&found.text())?;
    }
    match found.model.and_then(|model| model.error) {
        Some(_) => anyhow::bail!("algorithm `{}` does not translate the model", found.algorithm),
        None => Ok(()),
    }
}

/// What a user may set.
fn parameters(algorithm: &Algorithm) -> Vec<Value> {
    let value =
        |name: &str| algorithm.parameters.values().find(|(n, _)| *n == name).map(|(_, v)| v);
    let one = |(name, parameter): (&str, &Parameter)| {
        json!({
            "name": name, "value": value(name), "default": parameter.default, "range": parameter.range(),
            "about": parameter.about,
        })
    };
    algorithm.parameters.declared().map(one).collect()
}

pub(crate) fn targets(output: &Output) -> anyhow::Result<()> {
    for target in targets::TARGETS {
        let description = target.description();
        output.line(&format!("{:<14} {}", description.name, description.summary))?;
        let needs = needs(*target);
        if let Some(needs) = &needs {
            output.line(&format!("{:<14} {needs}", ""))?;
        }
        output.object(&json!({
            "reason": "target", "name": description.name, "summary": description.summary,
            "verify": needs,
        }))?;
    }
    Ok(())
}

pub(crate) fn zoo(arguments: &ZooArguments, output: &Output) -> anyhow::Result<()> {
    let (Some(name), Some(path)) = (&arguments.name, &arguments.output) else {
        for model in zoo::names() {
            let [c, h, w] = model.input;
            let input = format!("{c}x{h}x{w}");
            output.line(&format!(
                "{:<18} {input:<9} {:>10} weights  {}",
                model.name, model.parameters, model.description
            ))?;
            output.object(&json!({
                "reason": "model", "name": model.name, "input": model.input,
                "parameters": model.parameters, "description": model.description,
            }))?;
        }
        return Ok(());
    };
    let mut spec = ZooSpec::new(name)?;
    spec.input = arguments.input.unwrap_or(spec.input);
    spec.classes = arguments.classes.unwrap_or(spec.classes);
    spec.width = arguments.width;
    spec.seed = arguments.seed;
    spec.training = !arguments.inference;
    spec.bytes = arguments.bytes;
    let bytes = zoo::build(&spec)?;
    data::write_atomically(path, &bytes)?;
    let file = path.display().to_string();
    output.line(&format!("{file}: {} bytes", bytes.len()))?;
    output.object(&json!({ "reason": "model", "name": name, "file": file, "bytes": bytes.len() }))
}

pub(crate) fn completions(arguments: &CompletionsArguments, output: &Output) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "trainc", &mut script);
    output.print(&String::from_utf8_lossy(&script))
}
