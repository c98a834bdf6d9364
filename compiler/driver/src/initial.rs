//! The state that a model starts with, from a file in place of the model's own: weights as safetensors, a checkpoint of
//! `trainc train`, or the state that a device saved.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainc_data::{NamedTensor, TensorData, read_safetensors};
use trainc_ir::program::{Program, Region, buffer_bytes};
use trainc_ir::tensor_bytes::tensor_from_bytes;
use trainc_ir::{Tensor, TensorType};
use trainc_onnx_import::Imported;

use crate::config::{Config, WeightSource};
use crate::error::{Context, InFile, Result, ensure};
use crate::hash::crc32;
use crate::model::ModelSource;
use crate::session::{Depth, Entries, Session};
use crate::{checkpoint, targets, weights};

/// The first bytes of a state that emitted code saved; see `trainc_rt.h`.
const DEVICE: &[u8] = b"TRNC";
const DEVICE_HEADER: usize = 32;
const DEVICE_VERSION: u32 = 1;

/// Tensors by the model's names, as [`weights::export`] gives them.
#[derive(Clone, PartialEq, Debug)]
pub struct InitialState {
    path: PathBuf,
    tensors: Vec<NamedTensor>,
}

impl InitialState {
    /// Reads a file, whose first bytes say what it is. The state of a device is one of `source` under `config`: model,
    /// algorithm and frozen parts must be those that it was compiled with.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or is the state of another model.
    pub fn read(path: &Path, source: &ModelSource, config: &Config) -> Result<InitialState> {
        let fail = |message: String| InFile::new(path, message);
        let mut start = [0; 4];
        let file = std::fs::File::open(path).map_err(|e| fail(format!("cannot read: {e}")))?;
        let short = std::io::Read::read_exact(&mut { file }, &mut start).is_err();
        let tensors = if !short && start == DEVICE {
            let bytes = std::fs::read(path).map_err(|e| fail(format!("cannot read: {e}")))?;
            let config =
                Config { weights: None, target: Config::default().target, ..config.clone() };
            let session = Session::new(source, &config, Entries::TrainAndInfer, Depth::Planned)?;
            let state = device_state(&bytes, &session).map_err(|e| fail(e.to_string()))?;
            weights::export(&[state, session.frozen_tensors()].concat())
        } else if !short && checkpoint::is_checkpoint(&start) {
            weights::export(&checkpoint::tensors(path)?)
        } else {
            read_safetensors(path)?
        };
        Ok(InitialState { path: path.to_path_buf(), tensors })
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
    /// integers.
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
            let Some((shape, values)) = self.real(&name) else {
                missing.push(format!("`{name}`"));
                continue;
            };
            let own = parameter.initial.shape().dims();
            ensure!(*shape == *own, fail(format!("`{name}` is {shape:?}, the model's {own:?}")));
            let value = parameter.value;
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
            known.contains(&t.name) || [".int8", ".int32", ".exponent"].into_iter().any(stem)
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
            words.push(format!("{file}: {} are no parameters of the model", listed(&others)));
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

/// The state that a device saved, under the model's names. It is checked as the device's own `_load` does.
fn device_state(bytes: &[u8], session: &Session) -> Result<Vec<(String, Tensor)>> {
    let word = |at: usize| bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
    let number = |at: usize| word(at).map(u32::from_le_bytes).context("it is cut short");
    ensure!(number(4)? == DEVICE_VERSION, "a device's state of another version");
    let hash = u64::from(number(8)?) | u64::from(number(12)?) << 32;
    let (length, sum) = (number(24)? as usize, number(28)?);
    let state = bytes.get(DEVICE_HEADER..).context("it is cut short")?;
    ensure!(state.len() == length, "{length} bytes of state are claimed, it has {}", state.len());
    let checked: Vec<u8> = bytes[..28].iter().chain(state).copied().collect();
    ensure!(crc32(&checked) == sum, "the device's state is damaged: its checksum is wrong");
    let program = session.program()?;
    // Targets align buffers differently.
    let alignments: BTreeSet<usize> =
        targets::TARGETS.iter().map(|t| t.description().alignment).collect();
    let placed = alignments.into_iter().map(|alignment| with_alignment(program, alignment));
    let of_device = |p: &Program| trainc_c::model_hash(p) == hash && p.memory.state_bytes == length;
    let program = placed.into_iter().find(of_device).with_context(|| {
        format!(
            "a device's state of another model than `{}` under algorithm `{}`, or of one that was compiled with other \
             frozen parts",
            program.name, session.algorithm.name
        )
    })?;
    let tensor = |buffer: &trainc_ir::program::Buffer| {
        let bytes = state.get(buffer.offset..buffer.offset + buffer.bytes())?;
        tensor_from_bytes(&buffer.ty, bytes)
    };
    session
        .state_names()
        .into_iter()
        .zip(program.state())
        .map(|(name, buffer)| {
            let tensor = tensor(buffer).with_context(|| format!("`{name}` does not read"))?;
            Ok((name, tensor))
        })
        .collect()
}

/// The program with its state laid out for another alignment.
fn with_alignment(program: &Program, alignment: usize) -> Program {
    let mut program = program.clone();
    let mut state: Vec<(usize, usize)> = program
        .buffers
        .iter()
        .enumerate()
        .filter_map(|(i, buffer)| match buffer.region {
            Region::State { index, .. } => Some((index, i)),
            _ => None,
        })
        .collect();
    state.sort_unstable();
    let mut offset = 0;
    for (_, i) in state {
        program.buffers[i].offset = offset;
        offset += buffer_bytes(&program.buffers[i].ty).next_multiple_of(alignment);
    }
    program.memory.state_bytes = offset;
    program
}
