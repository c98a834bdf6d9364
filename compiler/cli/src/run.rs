//! `trainc run`.

use serde_json::json;
use trainc_driver::run::{evaluate, write};

use crate::arguments::{RunArguments, model_file};
use crate::message::Output;

pub(crate) fn run(arguments: &RunArguments, output: &Output) -> anyhow::Result<()> {
    let source = model_file(&arguments.model);
    let evaluation = evaluate(&source, &arguments.input, &arguments.config()?)?;
    let arrays = evaluation.outputs;
    evaluation.warnings.iter().for_each(|w| output.warning(w));
    write(&arguments.output, &arrays)?;
    for (name, array) in &arrays {
        output.line(&format!("{name}: {:?}", array.shape))?;
        output.object(&json!({ "reason": "output", "name": name, "shape": array.shape }))?;
    }
    Ok(())
}
