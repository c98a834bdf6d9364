//! Evaluating a model on arrays: npz in, npz out.

use std::path::Path;

use trainc_data::{NpyArray, read_npz, write_npz};
use trainc_ir::{Data, Element, RunContext, ScaleData, Tensor, TensorType};

use crate::algorithms;
use crate::config::Config;
use crate::error::{Context, InFile, Result, ensure};
use crate::model::ModelSource;
use crate::session::{Entries, INFER, Session};
use crate::weights::real_values;

/// What [`evaluate`] gave.
#[derive(Clone, PartialEq, Debug)]
pub struct Evaluation {
    /// The model's outputs in its order, by name.
    pub outputs: Vec<(String, NpyArray)>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Evaluates `source` on the arrays of the npz file `input`, one for each input of the model under its name, and gives
/// the outputs under theirs. The batch is the data's; with [`Config::batch`] the data are taken in batches of that
/// size, the last one padded with copies of its last sample. Where examples of a batch would share exponents they are
/// taken one by one, whatever the batch.
///
/// # Errors
/// If an array is missing, of another shape or type, or the model does not compile.
pub fn evaluate(source: &ModelSource, input: &Path, config: &Config) -> Result<Evaluation> {
    let arrays = read_npz(input)?;
    let fail = |message: String| InFile::new(input, message);
    // The model's own inputs say which arrays count; their first dimension is the batch.
    let names: Vec<String> = {
        let imported = source.import(&trainc_onnx_import::ImportOptions {
            batch: Some(1),
            dropout: trainc_onnx_import::DropoutMode::Off,
            training: false,
            ..config.training_import()
        })?;
        let graph = imported.graph;
        graph.inputs().iter().map(|i| graph.value(i.value).name.clone()).collect()
    };
    let find = |name: &str| arrays.iter().find(|(n, _)| n == name).map(|(_, a)| a);
    let sizes = names.iter().filter_map(|name| find(name)?.shape.first().copied());
    let samples = sizes.max().filter(|&n| n > 0).ok_or_else(|| {
        fail(format!("no array for an input of the model ({})", names.join(", ")))
    })?;
    let one_by_one = algorithms::load(&config.algorithm)?.shares_exponents();
    let all = if one_by_one { 1 } else { samples };
    let batch = config.infer_batch.or(config.batch.filter(|_| !one_by_one)).unwrap_or(all);
    let config = Config { batch: Some(batch), infer_batch: Some(batch), ..config.clone() };
    let session = Session::new(source, &config, Entries::InferAsExported)?;
    let mut host = session.on_this_machine()?;
    let graph = &session.entry(INFER)?.float;
    let mut inputs: Vec<(&TensorType, Data)> = Vec::new();
    for input in graph.inputs() {
        let name = graph.value(input.value).name.clone();
        let ty = graph.ty(input.value);
        let array = find(&name).ok_or_else(|| fail(format!("there is no array `{name}`")))?;
        let expected: Vec<usize> = match ty.shape.first() {
            Some(&first) if first == batch => {
                std::iter::once(samples).chain(ty.shape[1..].iter().copied()).collect()
            }
            _ => ty.shape.to_vec(),
        };
        if array.shape != expected {
            let message =
                format!("array `{name}` is {:?}, the model takes {expected:?}", array.shape);
            return Err(fail(message).into());
        }
        let data = convert(ty.element, array).map_err(|e| fail(format!("array `{name}`: {e}")))?;
        inputs.push((ty, data));
    }
    let mut results: Vec<Collected> = Vec::new();
    for start in (0..samples).step_by(batch) {
        let count = batch.min(samples - start);
        let tensors: Vec<Tensor> =
            inputs.iter().map(|(ty, data)| slice(ty, data, batch, start, count)).collect();
        let operands: Vec<&Tensor> = tensors.iter().collect();
        let run = RunContext { seed: config.seed, step: 0 };
        let outputs = host.run(INFER, &operands, &run)?;
        for (i, tensor) in outputs.iter().enumerate() {
            let name = &graph.outputs()[i].name;
            if results.len() <= i {
                results.push(Collected { name: name.clone(), shape: Vec::new(), data: Vec::new() });
            }
            results[i].add(tensor, batch, count, batch < samples)?;
        }
    }
    let outputs = results.into_iter().map(|r| (r.name, NpyArray::f32(&r.shape, r.data))).collect();
    Ok(Evaluation { outputs, warnings: session.warnings.clone() })
}

/// Writes what [`evaluate`] gave.
///
/// # Errors
/// If the file cannot be written.
pub fn write(path: &Path, outputs: &[(String, NpyArray)]) -> Result<()> {
    Ok(write_npz(path, outputs)?)
}

struct Collected {
    name: String,
    shape: Vec<usize>,
    data: Vec<f32>,
}

impl Collected {
    /// Appends the first `count` rows of a batch.
    fn add(&mut self, tensor: &Tensor, batch: usize, count: usize, several: bool) -> Result<()> {
        let values = real_values(tensor)
            .with_context(|| format!("output `{}` of type {}", self.name, tensor.ty()))?;
        let dims = tensor.shape().to_vec();
        let by_sample = dims.first() == Some(&batch);
        ensure!(
            by_sample || !several,
            "output `{}` has no batch dimension; give all samples in one batch",
            self.name
        );
        if !by_sample {
            (self.shape, self.data) = (dims, values);
            return Ok(());
        }
        let row = values.len() / batch;
        self.data.extend(&values[..row * count]);
        let total = self.shape.first().copied().unwrap_or(0) + count;
        self.shape = std::iter::once(total).chain(dims[1..].iter().copied()).collect();
        Ok(())
    }
}

/// An array as the elements of an input.
fn convert(element: Element, array: &NpyArray) -> Result<Data, String> {
    match element {
        Element::F32 => Ok(Data::F32(array.data.to_f32())),
        Element::I32 => Ok(Data::I32(array.data.to_integers()?)),
        Element::U8 => Ok(Data::U8(array.data.to_integers()?)),
        Element::I8 => Ok(Data::I8(array.data.to_integers()?)),
        other => Err(format!("inputs of type {other} are not supported")),
    }
}

/// `count` samples from `start` as a tensor of the batch's type, the last one repeated to fill it.
fn slice(ty: &TensorType, data: &Data, batch: usize, start: usize, count: usize) -> Tensor {
    fn rows<T: Copy>(all: &[T], row: usize, index: impl Iterator<Item = usize>) -> Vec<T> {
        index.flat_map(|i| all[i * row..(i + 1) * row].iter().copied()).collect()
    }
    if ty.shape.first() != Some(&batch) {
        return Tensor::new(ty.clone(), data.clone(), ScaleData::None);
    }
    let row = ty.count() / batch;
    let index = (0..batch).map(|i| start + i.min(count - 1));
    let data = match data {
        Data::F32(all) => Data::F32(rows(all, row, index)),
        Data::I32(all) => Data::I32(rows(all, row, index)),
        Data::U8(all) => Data::U8(rows(all, row, index)),
        Data::I8(all) => Data::I8(rows(all, row, index)),
        other => other.clone(),
    };
    Tensor::new(ty.clone(), data, ScaleData::None)
}
