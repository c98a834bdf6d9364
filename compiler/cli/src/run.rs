//! `trainc run`.

use serde_json::json;

use crate::arguments::{RunArguments, model_file};
use crate::message::Output;

pub(crate) fn run(arguments: &RunArguments, output: &Output) -> anyhow::Result<()> {
    let source = model_file(&arguments.model);
    let (arrays, warnings) =
        trainc_driver::run::evaluate(&source, &arguments.input, &arguments.config()?)?;
    warnings.iter().for_each(|w| output.warning(w));
    trainc_driver::run::write(&arguments.output, &arrays)?;
    for (name, array) in &arrays {
        output.line(&format!("{name}: {:?}", array.shape))?;
        output.object(&json!({ "reason": "output", "name": name, "shape": array.shape }))?;
    }
    Ok(())
}
