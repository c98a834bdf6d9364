//! The state that a model starts with, from a file in place of the model's own: weights as safetensors, a checkpoint of
//! `trainc train`, or the state that a device saved.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainc_data::{NamedTensor, TensorData, read_safetensors};
use trainc_ir::{Tensor, TensorType};
use trainc_onnx_import::Imported;
use trainc_opt::codes::CODES;

use crate::config::{Config, WeightSource};
use crate::device_state::DeviceState;
use crate::error::{InFile, Result, ensure};
use crate::{checkpoint_file, weights};

/// Tensors by the model's names, as [`weights::export`] gives them.
#[derive(Clone, PartialEq, Debug)]
pub struct InitialState {
    path: PathBuf,
    tensors: Vec<NamedTensor>,
}

/// What a file of weights holds.
pub(crate) enum Contents {
    /// Tensors by name.
    Tensors(InitialState),
    /// The state that a device saved, which its program alone names.
    Device(DeviceState),
}

/// Reads a file of weights, whose first bytes say what it is.
///
/// # Errors
/// If the file cannot be read, or is damaged.
pub(crate) fn read(path: &Path) -> Result<Contents> {
    let fail = |message: String| InFile::new(path, message);
    let mut start = [0; 4];
    let file = std::fs::File::open(path).map_err(|e| fail(format!("cannot read: {e}")))?;
    let short = std::io::Read::read_exact(&mut { file }, &mut start).is_err();
    Ok(if !short && DeviceState::starts_with(&start) {
        Contents::Device(DeviceState::read(path)?)
    } else if !short && checkpoint_file::is_checkpoint(&start) {
        Contents::Tensors(InitialState::of(path, &checkpoint_file::tensors(path)?))
    } else {
        let tensors = read_safetensors(path)?;
        Contents::Tensors(InitialState { path: path.to_path_buf(), tensors })
    })
}

impl InitialState {
    /// Of these tensors, which that file stands for.
    pub(crate) fn of(path: &Path, tensors: &[(String, Tensor)]) -> InitialState {
        InitialState { path: path.to_path_buf(), tensors: weights::export(tensors) }
    }

    /// The FP32 values of a tensor with their shape, if the file has it.
    pub fn real(&self, name: &str) -> Option<(&[usize], &[f32])> {
        let found = self.tensors.iter().find(|t| t.name == name)?;
        match &found.data {
            TensorData::F32(values) => Some((&found.shape, values)),
            _ => None,
        }
    }

    /// The tensor in its stored form, if the file has it in this one.
    pub(crate) fn stored(&self, name: &str, ty: &TensorType) -> Option<Tensor> {
        weights::stored(&self.tensors, name, ty)
    }

    /// Gives the parameters of a model the file's values. Returns what the user should know: parameters that the file
    /// lacks, and tensors that the model does not have.
    ///
    /// # Errors
    /// If no tensor is the model's, one has another shape or a value that is not finite, or the model stores one as
    /// integers and the file has it in FP32. What an algorithm kept in the model's integers (`NAME.codes`) is rounded to them.
    pub(crate) fn apply(&self, imported: &mut Imported, config: &Config) -> Result<Vec<String>> {
        let fail = |message: String| InFile::new(&self.path, message);
        ensure!(
            config.init == WeightSource::Model,
            fail("the weights are either the file's or random (`init`), not both".to_string())
        );
        let graph = &mut imported.graph;
        let (mut missing, mut known) = (Vec::new(), BTreeSet::new());
        for i in 0..graph.parameters().len() {
            let parameter = &graph.parameters()[i];
            let name = graph.value(parameter.value).name.clone();
            let value = parameter.value;
            let codes = self.real(&format!("{name}{CODES}"));
            let stored = imported.integer_parameters.iter_mut().find(|p| p.value == value);
            if let (Some((shape, values)), Some(stored)) = (codes, stored) {
                let own = parameter.initial.shape();
                ensure!(
                    shape == own.dims() && values.iter().all(|v| v.is_finite()),
                    fail(format!("`{name}{CODES}` does not fit the model's `{name}`"))
                );
                let (low, high) = stored.element.integer_range().unwrap_or_default();
                let integer = |v: &f32| (v.round_ties_even() as i64).clamp(low, high);
                stored.integers = values.iter().map(integer).collect();
                let real = stored.values(own.dims());
                graph.set_initial(i, Arc::new(Tensor::f32(shape, real)));
                known.insert(name);
                continue;
            }
            let Some((shape, values)) = self.real(&name) else {
                missing.push(format!("`{name}`"));
                continue;
            };
            let own = parameter.initial.shape().dims();
            ensure!(*shape == *own, fail(format!("`{name}` is {shape:?}, the model's {own:?}")));
            let integers = imported.integer_parameters.iter().any(|p| p.value == value);
            ensure!(!integers, fail(format!("`{name}`: the model stores it as integers")));
            ensure!(
                values.iter().all(|v| v.is_finite()),
                fail(format!("`{name}` has a value that is not finite"))
            );
            graph.set_initial(i, Arc::new(Tensor::f32(shape, values.to_vec())));
            known.insert(name);
        }
        let own = |t: &NamedTensor| {
            let stem = |suffix| t.name.strip_suffix(suffix).is_some_and(|n| known.contains(n));
            known.contains(&t.name) || [".int8", ".int32", ".exponent", CODES].into_iter().any(stem)
        };
        let others: Vec<String> =
            self.tensors.iter().filter(|t| !own(t)).map(|t| format!("`{}`", t.name)).collect();
        ensure!(
            !known.is_empty(),
            fail(format!(
                "none of its tensors is a parameter of the model: it has {}, the model {}",
                listed(&others),
                listed(&missing)
            ))
        );
        let file = self.path.display();
        let mut words = Vec::new();
        if !missing.is_empty() {
            words
                .push(format!("{file}: lacks {}, which keep the model's values", listed(&missing)));
        }
        if !others.is_empty() {
            words.push(format!(
                "{file}: {} are no parameters of the model's file; what the algorithm keeps or adds under these names takes them",
                listed(&others)
            ));
        }
        Ok(words)
    }
}

/// Names for a message, not too many.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 20;
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        _ if names.is_empty() => "none".to_string(),
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
