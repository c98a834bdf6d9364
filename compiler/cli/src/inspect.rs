//! `trainc inspect`.

use serde_json::{Value, json};
use trainc_driver::config::Config;
use trainc_driver::emit::Depth;
use trainc_driver::error::{Error, InFile};
use trainc_driver::inspect::{self, Reached};
use trainc_driver::trained::choose_algorithm;

use crate::arguments::{InspectArguments, model_file};
use crate::compile;
use crate::message::Output;

pub(crate) fn run(arguments: &InspectArguments, output: &Output) -> anyhow::Result<()> {
    let file = arguments.model.display().to_string();
    if arguments.check {
        return check(arguments, &file, output);
    }
    let mut config = arguments.config.config(Config::default())?;
    let emit = &arguments.emit.emit;
    let depth = if arguments.rewrites { Some(Depth::Optimised) } else { None };
    let depth = emit.iter().map(|e| e.kind.depth()).chain(depth).max().unwrap_or(Depth::Planned);
    let source = model_file(&arguments.model);
    if arguments.config.model_decides()
        && let Some(note) = choose_algorithm(&source, &mut config)
    {
        output.note(&format!("note: {note}"));
    }
    let reached = Reached::new(&source, &config, depth)?;
    let compilation = reached.compilation();
    compilation.warnings.iter().for_each(|w| output.warning(w));
    compilation.notes.iter().for_each(|n| output.note(&format!("note: {n}")));
    for one in emit {
        compile::write(reached.texts(), one, arguments.with_data, output)?;
    }
    if let (true, Some(optimised)) = (arguments.rewrites, reached.optimised()) {
        let report = inspect::rewrites(optimised)?;
        output.object(&with_reason("rewrites", serde_json::to_value(&report)?))?;
        return if output.is_json() { Ok(()) } else { output.print(&report.text()) };
    }
    if let (true, Reached::Planned(session)) = (emit.is_empty(), &reached) {
        let report = inspect::summary(session);
        output.object(&with_reason("summary", serde_json::to_value(&report)?))?;
        return if output.is_json() { Ok(()) } else { output.print(&report.text()) };
    }
    Ok(())
}

fn check(arguments: &InspectArguments, file: &str, output: &Output) -> anyhow::Result<()> {
    let config = match arguments.config.says_how() {
        true => Some(arguments.config.config(Config::default())?),
        false => None,
    };
    let report = inspect::check(&arguments.model, config.as_ref());
    output.object(&with_reason("check", serde_json::to_value(&report)?))?;
    if !output.is_json() {
        output.print(&report.text(file))?;
    }
    if let Some(inspect::Compiles { compiles: false, error, node, .. }) = report.compiles {
        let (file, message) = (file.to_string(), error.unwrap_or_default());
        return Err(Error::from(InFile { file, message, node }).into());
    }
    if report.imports {
        return Ok(());
    }
    let node = report.unsupported.first().map(|u| u.node.clone());
    let what = report
        .error
        .unwrap_or_else(|| format!("{} thing(s) are not supported", report.unsupported.len()));
    Err(Error::from(InFile { file: file.to_string(), message: what, node }).into())
}

fn with_reason(reason: &str, value: Value) -> Value {
    let mut object = json!({ "reason": reason });
    if let (Value::Object(object), Value::Object(fields)) = (&mut object, value) {
        object.extend(fields);
    }
    object
}
