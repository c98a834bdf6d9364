//! Trained weights back into the model's own ONNX file.

use std::path::Path;
use std::sync::Arc;

use trainc_data::write_atomically;
use trainc_ir::Tensor;
use trainc_ir::graph::Graph;
use trainc_onnx_import::export::{ParameterValue, with_parameters};
use trainc_onnx_import::{ImportOptions, IntegerParameter, import_bytes};

use crate::config::Config;
use crate::error::{Context, InFile, Result, ensure};
use crate::model::{self, ModelSource};
use crate::session::initial_state;

/// What [`export`] wrote.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exported {
    /// Parameters with other values than before, in the model's order.
    pub changed: Vec<String>,
    /// How many others it has.
    pub same: usize,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Writes the model of `source` with the weights of [`Config::weights`] as a file of its own, whose graph is the
/// model's. The file is read again before it is written: every parameter must have its value there.
///
/// # Errors
/// If the weights do not fit the model, or a parameter that has changed has no initializer of its own to change.
pub fn export(source: &ModelSource, config: &Config, to: &Path) -> Result<Exported> {
    let path = source.path().context("export needs a model file")?;
    if source.text().is_some() {
        let why = "export changes the weights of an ONNX file, and this is a text; give the file that it was printed from";
        return Err(InFile::new(path, why).into());
    }
    let weights = config.weights.as_ref().context("export needs weights (`--weights`)")?;
    let options = ImportOptions { batch: config.batch, ..config.training_import() };
    let mut imported = source.import(&options)?;
    let before = parameters(&imported.graph);
    let initial = initial_state(weights, source, config)?;
    let warnings = initial.apply(&mut imported, config)?;
    let after = parameters(&imported.graph);
    let changed: Vec<(String, Arc<Tensor>)> = before
        .iter()
        .zip(&after)
        .filter(|((_, old), (_, new))| !old.bits_equal(new))
        .map(|(_, new)| new.clone())
        .collect();
    let integers = |name: &str| {
        let value = |p: &&IntegerParameter| imported.graph.value(p.value).name == name;
        let stored = imported.integer_parameters.iter().find(value);
        stored.map(|stored| &stored.integers[..])
    };
    let values: Vec<ParameterValue<'_>> = changed
        .iter()
        .map(|(name, tensor)| ParameterValue {
            name,
            shape: tensor.shape().dims(),
            values: tensor.as_f32(),
            integers: integers(name),
        })
        .collect();
    let bytes = with_parameters(path, &values)?;
    let none = |_: &_| Err("all weights are within".to_string());
    let again = import_bytes(&bytes, &none, &options)
        .with_context(|| format!("{}: the model with new weights", path.display()))?;
    let again = parameters(&again.graph);
    let wrong = after.iter().find(|(name, tensor)| {
        !again.iter().any(|(other, found)| other == name && found.bits_equal(tensor))
    });
    let fail = |name: &str| {
        InFile::new(
            path,
            format!("parameter `{name}` shares its initializer in the file with others"),
        )
    };
    ensure!(wrong.is_none(), fail(wrong.map_or("", |(name, _)| name)));
    write_atomically(to, &bytes)?;
    let warnings = [model::warnings(&imported), warnings].concat();
    let same = after.len() - changed.len();
    Ok(Exported { changed: changed.into_iter().map(|(name, _)| name).collect(), same, warnings })
}

fn parameters(graph: &Graph) -> Vec<(String, Arc<Tensor>)> {
    let name = |v| graph.value(v).name.clone();
    graph.parameters().iter().map(|p| (name(p.value), p.initial.clone())).collect()
}
