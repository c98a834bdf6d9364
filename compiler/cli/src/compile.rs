//! `trainc compile`.

use anyhow::Context;
use serde_json::json;
use trainc_driver::data::Dataset;
use trainc_driver::emit::{self, EmitKind, Texts};
use trainc_driver::session::{Entries, Session};
use trainc_driver::trained::choose_algorithm;

use crate::arguments::{CompileArguments, Emit, model_file};
use crate::message::Output;

pub(crate) fn run(arguments: &CompileArguments, output: &Output) -> anyhow::Result<()> {
    let start = std::time::Instant::now();
    let mut config = arguments.config()?;
    let source = model_file(&arguments.model);
    if arguments.config.model_decides()
        && let Some(note) = choose_algorithm(&source, &mut config)
    {
        output.note(&format!("note: {note}"));
    }
    let name = arguments.name.clone().unwrap_or_else(|| source.name());
    let mut session = Session::named(&name, &source, &config, Entries::TrainAndInfer)?;
    session.warnings.iter().for_each(|w| output.warning(w));
    session.notes.iter().for_each(|n| output.note(&format!("note: {n}")));
    if let Some(path) = &arguments.data {
        session.note_data(&Dataset::open(path)?)?;
    }
    let (beside, within): (Vec<&Emit>, Vec<&Emit>) =
        arguments.emit.emit.iter().partition(|e| e.path.is_some());
    let within: Vec<EmitKind> = within.iter().map(|e| e.kind).collect();
    emit::write_artifact(&arguments.output, &session, &within, arguments.example)?;
    for one in beside {
        write(&session, one, false, output)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let memory = session.program().memory;
    let directory = arguments.output.display().to_string();
    output.line(&format!(
        "{directory}: {} kernels, arena {} bytes ({:.3} x the lower bound), state {} bytes, {seconds:.2} s",
        session.program().kernels.len(),
        memory.arena_bytes,
        memory.arena_bytes as f64 / memory.arena_lower_bound_bytes.max(1) as f64,
        memory.state_bytes,
    ))?;
    output.object(&json!({
        "reason": "artifact",
        "directory": directory,
        "arena_bytes": memory.arena_bytes,
        "arena_lower_bound_bytes": memory.arena_lower_bound_bytes,
        "seconds": seconds,
    }))
}

/// Writes a text to its path, or to stdout.
pub(crate) fn write(
    stages: &dyn Texts,
    one: &Emit,
    with_data: bool,
    output: &Output,
) -> anyhow::Result<()> {
    let text = stages.text(one.kind, with_data)?;
    let text = text.with_context(|| format!("stage `{}` was not reached", one.kind.name()))?;
    match &one.path {
        Some(path) if !one.to_stdout() => Ok(emit::write_text(path, &text)?),
        _ if output.is_json() => {
            output.object(&json!({ "reason": "emit", "kind": one.kind.name(), "text": text }))
        }
        _ => output.print(&text),
    }
}
