//! A model as the user gives it, and its graphs for training and for inference.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainc_ir::graph::{Graph, InputRole, ValueId};
use trainc_ir::ops::Reduction;
use trainc_ir::text::Printer;
use trainc_ir::{Op, OpKind, RunContext, Tensor};
use trainc_onnx_import::{
    ExternalLocation, ImportOptions, Imported, IntegerParameter, Loss, Model, Warning,
};
use trainc_opt::algorithm::{Algorithm, Initialization, Otherwise, Units};
use trainc_opt::batch_norm::{BatchNormFate, fold_batch_norms};
use trainc_opt::codes::{StoredCodes, in_codes};
use trainc_opt::dynamic::{COST, add_gates};
use trainc_opt::freeze::freeze;
use trainc_opt::inference::inference_graph;
use trainc_opt::losses::{self, add_losses};
use trainc_opt::model_rules::{Applied, Ruled, apply_model_rules};
use trainc_opt::quantized::StoredScales;
use trainc_opt::training::{LOSS, LossSource, training_graph_under};
use trainc_opt::translate::remove_operations;

use crate::config::LossFunction;
use crate::error::{self, Context, InFile, Result, bail, ensure};
use crate::hash::Fingerprint;
use crate::options::value::OutputLoss;
use crate::select::{before_softmax, depends_on_labels, select, with_initial};
use crate::text_model;

/// Name of the output that holds class scores where the model's only outputs are losses.
pub const SCORES: &str = "scores";

/// Where a model comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ModelSource {
    /// A file.
    File(PathBuf),
    /// A model in memory, such as the built-in one.
    Bytes {
        /// Its name.
        name: String,
        /// An ONNX file's content.
        bytes: Vec<u8>,
    },
}

impl ModelSource {
    /// The model's name: the file's without its extension.
    pub fn name(&self) -> String {
        match self {
            ModelSource::File(path) => path
                .file_stem()
                .map_or_else(|| "model".to_string(), |s| s.to_string_lossy().into_owned()),
            ModelSource::Bytes { name, .. } => name.clone(),
        }
    }

    /// The file, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            ModelSource::File(path) => Some(path),
            ModelSource::Bytes { .. } => None,
        }
    }

    /// A stage's result, of whose error the model's file stands in front unless it names a file.
    pub(crate) fn about<T>(&self, result: Result<T>) -> Result<T> {
        match self.path() {
            Some(path) => result.map_err(|e| e.in_model(path)),
            None => result,
        }
    }

    /// The bytes of a model in the text form; `None` if it is in another form, or cannot be read.
    pub fn text(&self) -> Option<Vec<u8>> {
        match self {
            ModelSource::File(path) => {
                let named = path.extension().is_some_and(|e| e == text_model::EXTENSION);
                if !named && !text_model::starts_as_text(path) {
                    return None;
                }
                std::fs::read(path).ok()
            }
            ModelSource::Bytes { bytes, .. } => text_model::is_text(bytes).then(|| bytes.clone()),
        }
    }

    /// Reads the model: an ONNX or TensorFlow Lite file, or a graph in the text form.
    ///
    /// # Errors
    /// The importer's, with the file.
    pub fn open(&self) -> Result<OpenModel<'_>> {
        let content = match (self.text(), self) {
            (Some(text), _) => Content::Text(text),
            (None, ModelSource::File(path)) => Content::Model(Box::new(Model::open(path)?)),
            (None, ModelSource::Bytes { name, bytes }) => {
                let none =
                    |_: &ExternalLocation| Err("a model in memory has no other files".to_string());
                let model = Model::decode(bytes, &none);
                Content::Model(Box::new(
                    model.with_context(|| format!("the built-in model `{name}`"))?,
                ))
            }
        };
        Ok(OpenModel { source: self, content })
    }

    /// Reads the model and imports it once.
    ///
    /// # Errors
    /// The importer's, with the file.
    pub fn import(&self, options: &ImportOptions) -> Result<Imported> {
        self.open()?.import(options)
    }
}

/// A model that was read: what is imported from it shares its weights.
#[derive(Debug)]
pub struct OpenModel<'s> {
    source: &'s ModelSource,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Text(Vec<u8>),
    Model(Box<Model>),
}

impl OpenModel<'_> {
    /// Imports the model.
    ///
    /// # Errors
    /// The importer's, with the file.
    pub fn import(&self, options: &ImportOptions) -> Result<Imported> {
        match (&self.content, self.source) {
            (Content::Text(text), source) => {
                text_model::import(text, options).map_err(|e| match source.path() {
                    Some(path) => InFile::new(path, error::message(&e)).into(),
                    None => e,
                })
            }
            (Content::Model(model), ModelSource::File(_)) => Ok(model.import(options)?),
            (Content::Model(model), ModelSource::Bytes { name, .. }) => {
                let imported = model.import(options);
                imported.with_context(|| format!("the built-in model `{name}`"))
            }
        }
    }
}

/// Fingerprint of a graph with its initial values: 16 hexadecimal digits.
pub fn graph_hash(graph: &Graph) -> String {
    let text = Printer { inline_limit: 0 }.graph(graph);
    Fingerprint::new().add(text.as_bytes()).text()
}

/// The FP32 graph of one training step: the loss as its only result, and the updates.
///
/// `seed` draws the weights anew in the way the algorithm names; without it they are the model's. The parameters of the
/// model at the positions `frozen` are constants.
///
/// # Errors
/// If the model has no scores to put a loss on, nothing to train, or a node without gradient; if a loss is asked for and it
/// brings one.
pub fn training(
    imported: &Imported,
    algorithm: &Algorithm,
    seed: Option<u64>,
    frozen: &BTreeSet<usize>,
    asked: LossFunction,
) -> Result<Graph> {
    training_for(imported, algorithm, seed, frozen, (asked, &BTreeMap::new()))
}

/// [`training`] where some results have a loss of their own.
///
/// # Errors
/// As [`training`], and if there is no result of a name.
pub fn training_for(
    imported: &Imported,
    algorithm: &Algorithm,
    seed: Option<u64>,
    frozen: &BTreeSet<usize>,
    (asked, own): (LossFunction, &BTreeMap<String, OutputLoss>),
) -> Result<Graph> {
    let mut graph = prepare(imported, algorithm, seed, frozen)?.graph;
    let loss = |asked: LossFunction| match asked {
        LossFunction::Model => None,
        LossFunction::CrossEntropy => Some(losses::Loss::CrossEntropy),
        LossFunction::BinaryCrossEntropy => Some(losses::Loss::BinaryCrossEntropy),
        LossFunction::MeanSquaredError => Some(losses::Loss::MeanSquaredError),
    };
    let own: BTreeMap<String, (losses::Loss, f64)> = own
        .iter()
        .filter_map(|(name, own)| Some((name.clone(), (loss(own.loss)?, own.factor))))
        .collect();
    let asked = loss(asked);
    let source = match (&imported.loss, asked.is_some() || !own.is_empty()) {
        (Some(loss), false) => Some(own_loss(&graph, loss, algorithm)?),
        (None, true) => Some(LossSource::Model(add_losses(&mut graph, asked, &own)?)),
        (None, false) => None,
        (Some(loss), true) => bail!(
            "the model computes its own loss, `{}`, and is trained for it; export it without to train it for another",
            loss.output
        ),
    };
    let training = training_graph_under(&graph, source, algorithm)?;
    // A loss of the model's own keeps its name; the others are dropped: a step reports its loss alone.
    let loss = match source {
        Some(LossSource::Model(loss)) if algorithm.dynamic.is_none() => loss,
        _ => {
            let added = training.outputs().iter().rev().find(|o| o.name == LOSS);
            added.map(|o| o.value).context("the training graph has no loss")?
        }
    };
    Ok(select(&training, &[("loss".to_string(), loss)], true)?)
}

/// Which statistics batch normalisation infers with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InferenceForm {
    /// What the model's file says.
    AsExported,
    /// The running statistics that training keeps.
    Running,
}

/// The FP32 graph for inference: the model's outputs that need no labels.
///
/// Under an algorithm that is not FP32 a final softmax is left out, so the output holds class scores. `seed` and
/// `frozen` are as for [`training`].
///
/// # Errors
/// If every output needs labels.
pub fn inference(
    imported: &Imported,
    algorithm: &Algorithm,
    seed: Option<u64>,
    frozen: &BTreeSet<usize>,
    form: InferenceForm,
) -> Result<Graph> {
    let graph = prepare(imported, algorithm, seed, frozen)?.graph;
    let graph = match form {
        InferenceForm::AsExported => graph,
        InferenceForm::Running => inference_graph(&graph)?,
    };
    let outputs: Vec<(String, ValueId)> = graph
        .outputs()
        .iter()
        .filter(|o| !depends_on_labels(&graph, o.value) && o.name != COST)
        .map(|o| {
            let scores = before_softmax(&graph, o.value);
            let whole = algorithm.is_identity() || algorithm.inference.is_some();
            (o.name.clone(), if whole { o.value } else { scores })
        })
        .collect();
    ensure!(!outputs.is_empty(), "every output of the model depends on class labels");
    Ok(select(&graph, &outputs, false)?)
}

/// What becomes of the model's batch normalizations under an algorithm, in the model's order.
///
/// # Errors
/// As [`training`].
pub fn batch_norms(
    imported: &Imported,
    algorithm: &Algorithm,
    frozen: &BTreeSet<usize>,
) -> Result<Vec<BatchNormFate>> {
    Ok(prepare(imported, algorithm, None, frozen)?.fates)
}

/// The algorithm's rules of the model that apply to it, by name, each with its node's name.
///
/// # Errors
/// As [`training`].
pub fn applied_rules(
    imported: &Imported,
    algorithm: &Algorithm,
    frozen: &BTreeSet<usize>,
) -> Result<Vec<Applied>> {
    Ok(prepare(imported, algorithm, None, frozen)?.applied)
}

/// Names of the parameters that the algorithm's rules of the model freeze.
///
/// # Errors
/// As [`training`].
pub(crate) fn frozen_by_rules(
    imported: &Imported,
    algorithm: &Algorithm,
    frozen: &BTreeSet<usize>,
) -> Result<Vec<String>> {
    Ok(prepare(imported, algorithm, None, frozen)?.frozen)
}

/// A model that an algorithm can differentiate.
struct Prepared {
    graph: Graph,
    /// What became of batch normalizations, in the model's order.
    fates: Vec<BatchNormFate>,
    /// The rules of the model that were applied.
    applied: Vec<Applied>,
    /// Names of the parameters that these rules froze.
    frozen: Vec<String>,
}

/// What the algorithm leaves out is left out, batch normalizations with frozen statistics are folded, its rules of the model are
/// applied, weights are as they shall be, those that do not train are constants.
fn prepare(
    imported: &Imported,
    algorithm: &Algorithm,
    seed: Option<u64>,
    frozen: &BTreeSet<usize>,
) -> Result<Prepared> {
    let mut graph = imported.graph.clone();
    if let Some(loss) = &imported.loss
        && loss.scores_output.is_none()
        && !graph.outputs().iter().any(|o| o.name == SCORES)
    {
        graph.add_output(SCORES, loss.scores);
    }
    if algorithm.units == Some(Units::Codes) {
        ensure!(
            seed.is_none(),
            "algorithm `{}` goes on from the integers of the model's file: leave `init` out",
            algorithm.name
        );
        graph = in_codes(&graph, &stored_codes(imported, algorithm)?)?;
    }
    if let Some(seed) = seed {
        let trainable: Vec<(String, bool)> = graph
            .parameters()
            .iter()
            .map(|p| (graph.value(p.value).name.clone(), p.trainable))
            .collect();
        graph = with_initial(&graph, |name, old| {
            let wanted = trainable.iter().any(|(n, trainable)| n == name && *trainable);
            if wanted { Arc::new(draw(name, old, algorithm, seed)) } else { old.clone() }
        });
    }
    if !frozen.is_empty() {
        graph = freeze(&graph, frozen)?;
    }
    let graph = remove_operations(&graph, &algorithm.remove);
    let (graph, fates) = match algorithm.is_identity() || algorithm.inference.is_some() {
        true => (graph, Vec::new()),
        false => fold_batch_norms(&graph)?,
    };
    let Ruled { mut graph, mut applied, frozen } =
        apply_model_rules(&graph, &algorithm.model_rules, seed.unwrap_or_default())?;
    if let Some(dynamic) = &algorithm.dynamic {
        let gated = add_gates(&graph, dynamic, seed.unwrap_or_default())?;
        graph = gated.graph;
        applied.extend(gated.applied);
    }
    Ok(Prepared { graph, fates, applied, frozen })
}

/// The loss of a model that brings one, in the prepared graph. FP32 trains it as it is; other algorithms know the mean
/// softmax cross-entropy, which is built anew from the scores where the model spells it as log-softmax and mean
/// negative log-likelihood.
///
/// # Errors
/// If the algorithm is not FP32 and the model's loss is another one.
fn own_loss(graph: &Graph, loss: &Loss, algorithm: &Algorithm) -> Result<LossSource> {
    let output = |name: &str| graph.outputs().iter().find(|o| o.name == name).map(|o| o.value);
    let value = output(&loss.output)
        .with_context(|| format!("the loss `{}` is no output of the model", loss.output))?;
    let producer = graph.producer(value);
    let whole = producer.is_some_and(|node| node.op.kind() == OpKind::SoftmaxCrossEntropy);
    if algorithm.is_identity() || whole {
        return Ok(LossSource::Model(value));
    }
    let in_float = algorithm.otherwise == Otherwise::Float;
    let scores = output(loss.scores_output.as_deref().unwrap_or(SCORES))
        .with_context(|| format!("the scores of the loss `{}` are no output", loss.output))?;
    let logits = before_softmax(graph, scores);
    let plain = producer.is_some_and(|node| match &node.op {
        Op::NllLoss(nll) => {
            let classes = graph.ty(scores).shape.get(1).copied().unwrap_or(0) as i64;
            nll.reduction == Reduction::Mean
                && !(0..classes).contains(&nll.ignore_index)
                && node.inputs.len() == 2
        }
        _ => false,
    });
    let plain = plain && graph.ty(logits).shape.rank() == 2;
    if !plain && in_float {
        return Ok(LossSource::Model(value));
    }
    ensure!(
        plain,
        "algorithm `{}` trains the mean softmax cross-entropy over all classes; the loss `{}` of the model is another \
         one (weighted, masked, not a mean, or of more than [batch, classes])",
        algorithm.name,
        loss.output
    );
    Ok(LossSource::Scores(logits))
}

/// Random values of a trainable parameter: weights (rank 2 and up) uniform in the bounds that the algorithm names,
/// vectors as the model has them where they are all equal (biases 0, batch norm's gains 1), else 0.
///
/// A draw depends on the seed, the parameter's name and the element alone.
fn draw(name: &str, old: &Tensor, algorithm: &Algorithm, seed: u64) -> Tensor {
    let shape = old.shape();
    if shape.rank() < 2 {
        let values = old.as_f32();
        let equal = values.windows(2).all(|w| w[0] == w[1]);
        return if equal { old.clone() } else { Tensor::zeros(old.ty()) };
    }
    let window: usize = shape[2..].iter().product();
    let (fan_out, fan_in) = ((shape[0] * window) as f64, (shape[1] * window) as f64);
    let bound = match algorithm.initialization {
        Initialization::XavierUniform => (6.0 / (fan_in + fan_out)).sqrt(),
        Initialization::KaimingUniform => (6.0 / fan_in).sqrt(),
    };
    let hash = Fingerprint::new().add(name.as_bytes()).text();
    let stream = u64::from_str_radix(&hash, 16).unwrap_or(0);
    let run = RunContext { seed: seed ^ stream, step: 0 };
    let values = (0..shape.count() as u32)
        .map(|i| {
            let unit = f64::from(run.draw(u32::MAX, i)) / f64::from(u32::MAX);
            ((2.0 * unit - 1.0) * bound) as f32
        })
        .collect();
    Tensor::f32(shape.clone(), values)
}

/// The scale of each element of the parameters that the model's file stores as integers, by name.
pub fn stored_scales(imported: &Imported) -> StoredScales {
    let graph = &imported.graph;
    let scale = |p: &IntegerParameter| {
        let shape = graph.ty(p.value).shape.clone();
        let stride = shape.strides().get(p.axis).copied().unwrap_or(1).max(1);
        let count = p.scale.len().max(1);
        let own = |i: usize| p.scale.get(i / stride % count).copied().unwrap_or(1.0);
        Tensor::f32(shape.clone(), (0..shape.count()).map(own).collect())
    };
    let name = |p: &IntegerParameter| graph.value(p.value).name.clone();
    imported.integer_parameters.iter().map(|p| (name(p), scale(p))).collect()
}

/// How the file stores parameters as integers without zero points, by name: what an algorithm keeps in its integers.
///
/// # Errors
/// If it stores none so.
fn stored_codes(
    imported: &Imported,
    algorithm: &Algorithm,
) -> Result<BTreeMap<String, StoredCodes>> {
    let signed = |p: &IntegerParameter| p.element.integer_range().is_some_and(|(low, _)| low < 0);
    let symmetric = |p: &&IntegerParameter| signed(p) && p.zero_point.iter().all(|&zero| zero == 0);
    let one = |p: &IntegerParameter| {
        let own = StoredCodes {
            integers: p.integers.clone(),
            element: p.element,
            axis: p.axis,
            scale: p.scale.clone(),
        };
        (imported.graph.value(p.value).name.clone(), own)
    };
    let all = &imported.integer_parameters;
    let found: BTreeMap<_, _> = all.iter().filter(symmetric).map(one).collect();
    let (name, why) = match all.is_empty() {
        true => (&algorithm.name, "this one has no weights that are stored as integers"),
        false => (&algorithm.name, "the integers of this one's are unsigned or have zero points"),
    };
    ensure!(
        !found.is_empty(),
        "algorithm `{name}` fine-tunes a network that is quantized already (int8 ONNX with QuantizeLinear and DequantizeLinear, or \
         int8 TensorFlow Lite), with symmetric weights; {why}"
    );
    Ok(found)
}

/// The importer's warnings, as lines.
pub fn warnings(imported: &Imported) -> Vec<String> {
    imported.warnings.iter().map(Warning::to_string).collect()
}

/// The position and type of the class scores among a graph's outputs: the first FP32 output [batch, classes].
pub fn scores_output(graph: &Graph) -> Option<usize> {
    graph
        .outputs()
        .iter()
        .position(|o| graph.ty(o.value).is_f32() && graph.ty(o.value).shape.rank() == 2)
}

/// The model's names of a program's state, from its modules, in the order of checkpoints.
pub(crate) fn state_names<'g>(modules: impl Iterator<Item = &'g Graph>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for graph in modules {
        for parameter in graph.parameters() {
            let name = &graph.value(parameter.value).name;
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    names
}

/// The data input of a graph, if it has exactly one.
pub fn data_input(graph: &Graph) -> Option<ValueId> {
    let mut inputs = graph.inputs().iter().filter(|i| i.role == InputRole::Data);
    match (inputs.next(), inputs.next()) {
        (Some(input), None) => Some(input.value),
        _ => None,
    }
}
