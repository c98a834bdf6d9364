//! `trainc export`.

use serde_json::json;
use trainc_driver::config::Config;
use trainc_driver::export::export;

use crate::arguments::{ExportArguments, model_file};
use crate::message::Output;

pub(crate) fn run(arguments: &ExportArguments, output: &Output) -> anyhow::Result<()> {
    let report = export(
        &model_file(&arguments.model),
        &arguments.config.config(Config::default())?,
        &arguments.onnx,
    )?;
    report.warnings.iter().for_each(|warning| output.warning(warning));
    let file = arguments.onnx.display().to_string();
    let (changed, same) = (report.changed.len(), report.same);
    output.line(&format!("{file}: {changed} parameters changed, {same} as before"))?;
    output.object(&json!({
        "reason": "exported", "file": file, "changed": report.changed, "same": same,
    }))
}
