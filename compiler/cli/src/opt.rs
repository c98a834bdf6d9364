//! `trainc opt`.

use std::io::Read;

use anyhow::Context;
use serde_json::json;
use trainc_driver::error::InFile;
use trainc_driver::error::TextError;
use trainc_driver::opt::{self, Request};
use trainc_driver::passes::passes;

use crate::arguments::OptArguments;
use crate::message::Output;

pub(crate) fn run(arguments: &OptArguments, output: &Output) -> anyhow::Result<()> {
    if arguments.list {
        return list(output);
    }
    let path = arguments.file.as_deref().context("no file")?;
    let mut bytes = Vec::new();
    let read = match path.to_str() {
        Some("-") => std::io::stdin().lock().read_to_end(&mut bytes),
        _ => std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)),
    };
    read.map_err(|e| InFile::new(path, format!("cannot read: {e}")))?;
    let text = optimised(arguments, &bytes)
        .map_err(|e| InFile::new(path, trainc_driver::error::message(&e)))?;
    output.object(&json!({ "reason": "module", "text": text }))?;
    if output.is_json() { Ok(()) } else { output.print(&text) }
}

fn optimised(arguments: &OptArguments, bytes: &[u8]) -> trainc_driver::error::Result<String> {
    let flags = Request {
        passes: arguments.passes.clone(),
        algorithm: arguments.algorithm.clone(),
        target: arguments.target.clone(),
        form: arguments.form.clone(),
        strategy: arguments.opt.clone(),
        file: arguments.file_name.clone(),
        with_data: arguments.with_data,
    };
    let text = String::from_utf8_lossy(bytes);
    let own = Request::of(&text).map_err(|e| TextError::new(&text, vec![e]))?;
    opt::run(bytes, &flags.or(own))
}

fn list(output: &Output) -> anyhow::Result<()> {
    let all = passes();
    for (title, rules) in [("Stages:", false), ("Rewrite rules:", true)] {
        output.line(title)?;
        for pass in all.iter().filter(|pass| pass.is_rule() == rules) {
            output.line(&format!("  {:<32} {}", pass.name, pass.summary))?;
            output.object(&json!({
                "reason": "pass", "name": pass.name, "summary": pass.summary, "rule": pass.is_rule(),
            }))?;
        }
    }
    Ok(())
}
