//! The first stage: the model as imported, and its FP32 graphs for training and for inference.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use trainc_ir::Element;
use trainc_ir::graph::Graph;
use trainc_ir::verify::{Stage, verify};
use trainc_onnx_import::{BatchNormMode, DropoutMode, ImportOptions, check_finite};
use trainc_opt::algorithm::{Algorithm, BatchNormTreatment};
use trainc_opt::frozen_prefix::{FrozenPrefix, frozen_prefix};
use trainc_opt::functions::gathered_for;
use trainc_opt::update::epoch_end_graph;

use super::compilation::{Compilation, graph_batch, timed};
use super::{EPOCH_END, Entries, INFER, Staged, TRAIN_STEP, weights, words};
use crate::config::{Config, InputNormalization, WeightSource};
use crate::error::{Context, Error, Result, ensure};
use crate::freeze::frozen;
use crate::model::{self, InferenceForm, ModelSource};
use crate::{precision, targets};

/// A function in FP32.
#[derive(Debug)]
pub struct FloatEntry {
    /// [`TRAIN_STEP`], [`INFER`], [`EPOCH_END`], or the training step of another stage.
    pub name: String,
    /// The graph: with loss, backward pass and update, or forward only.
    pub float: Graph,
    /// Of a training step whose first layers are frozen: what is computed for one example, as inference is, and the rest.
    pub(super) prefix: Option<FrozenPrefix>,
    /// Of an epoch's end: the graph beside the training step's values, which say what parameters are for.
    pub(super) context: Option<Graph>,
    /// Of another stage's training step: the algorithm with that stage's parameters.
    pub(super) algorithm: Option<Algorithm>,
}

impl FloatEntry {
    fn new(name: &str, float: Graph, prefix: Option<FrozenPrefix>) -> FloatEntry {
        FloatEntry { name: name.to_string(), float, prefix, context: None, algorithm: None }
    }
}

/// Imports a model under a configuration, and makes its FP32 graphs. The program and its files will have that name.
///
/// # Errors
/// What is wrong with the configuration or the model.
pub fn import(
    name: &str,
    source: &ModelSource,
    config: &Config,
    entries: Entries,
) -> Result<Staged<FloatEntry>> {
    config.check()?;
    let algorithm = config.chosen_algorithm()?;
    let target = targets::find(&config.target)?;
    source.about(imported(name, source, config, entries, (algorithm, target)))
}

fn imported(
    name: &str,
    source: &ModelSource,
    config: &Config,
    entries: Entries,
    (algorithm, target): (Algorithm, &'static dyn trainc_ir::target::Target),
) -> Result<Staged<FloatEntry>> {
    let inference_batch = config.inference_batch(&algorithm);
    ensure!(
        algorithm.inference.is_some() || config.precision.is_none(),
        "a precision file is for quantized inference (`--algorithm quantized`); `{}` does not take one",
        algorithm.name
    );
    let entries = match algorithm.inference {
        Some(_) => Entries::InferAsExported,
        None => entries,
    };
    let batch = graph_batch(&algorithm, inference_batch);
    let options = import_options(config, &algorithm, entries, batch);
    let mut times = Vec::new();
    let model = timed(&mut times, "read", || source.open())?;
    let mut imported = timed(&mut times, "import", || model.import(&options))?;
    if !algorithm.is_identity() {
        check_finite(&imported.graph)?;
    }
    let mut warnings = model::warnings(&imported);
    // Inference may have another batch than training.
    let mut inferring = match options.batch == Some(batch) {
        true => None,
        false => {
            let options = ImportOptions { batch: Some(batch), ..options };
            let what = || {
                format!(
                    "inference of a batch of {batch} (`{}` trains {} at a time{})",
                    algorithm.name,
                    config.batch_size(),
                    match algorithm.shares_exponents() {
                        true => ", and infers each example alone, whose exponents are its own",
                        false => "",
                    }
                )
            };
            Some(timed(&mut times, "import", || model.import(&options).with_context(what))?)
        }
    };
    drop(model);
    if let Some(inferring) = &mut inferring {
        share(&imported.graph, &mut inferring.graph);
    }
    let initial = weights::read(source, config, &mut imported, inferring.as_mut(), &mut warnings)?;
    let frozen = match entries {
        Entries::TrainAndInfer => frozen(&imported.graph, config)?,
        Entries::InferAsExported => BTreeSet::new(),
    };
    let all = imported.graph.parameters().len();
    let only_infers = algorithm.inference.is_some() || (all > 0 && frozen.len() == all);
    let batch_norms = model::batch_norms(&imported, &algorithm, &frozen)?;
    let mut notes = words::batch_norms(&batch_norms);
    let mut config = config.clone();
    if entries == Entries::TrainAndInfer && !only_infers {
        notes.extend(feed_bytes(&imported.graph, &mut config));
    }
    let config = &config;
    warnings.extend(words::removed(&imported.graph, &algorithm));
    let seed = (config.init == WeightSource::Random).then_some(config.seed);
    let mut assigned = None;
    let entries = match entries {
        Entries::InferAsExported => {
            // Statistics of one example would not be those of the batch that the file means.
            let form = match algorithm.shares_exponents() {
                true => InferenceForm::Running,
                false => InferenceForm::AsExported,
            };
            let mut float = model::inference(&imported, &algorithm, seed, &frozen, form)?;
            verify(&float, &Stage::Float)?;
            if let Some(path) = &config.precision {
                let found =
                    timed(&mut times, "precision", || precision::assigned(config, &float, path))?;
                (float, assigned) = (found.0, Some(found.1));
                verify(&float, &Stage::Float)?;
            }
            vec![FloatEntry::new(INFER, float, None)]
        }
        Entries::TrainAndInfer if only_infers => {
            let alone = inferring.as_ref().unwrap_or(&imported);
            let form = InferenceForm::Running;
            let infer = model::inference(alone, &algorithm, seed, &frozen, form)?;
            verify(&infer, &Stage::Float)?;
            vec![FloatEntry::new(INFER, infer, None)]
        }
        Entries::TrainAndInfer => timed(&mut times, "training graph", || {
            let asked = (config.loss, &config.output_loss);
            let alone = inferring.as_ref().unwrap_or(&imported);
            let step = |algorithm: &Algorithm| {
                let train = model::training_for(&imported, algorithm, seed, &frozen, asked)?;
                verify(&train, &Stage::Float)?;
                // What is frozen here, or constant in the model's file.
                let prefix = match algorithm.shares_exponents() {
                    true => {
                        let one = model::training_for(alone, algorithm, seed, &frozen, asked)?;
                        // Before it is cut: functions at the border are those of inference.
                        frozen_prefix(
                            &*gathered_for(algorithm, &train)?,
                            &*gathered_for(algorithm, &one)?,
                        )?
                    }
                    false => None,
                };
                Ok::<_, Error>((train, prefix))
            };
            let (train, prefix) = step(&algorithm)?;
            let form = InferenceForm::Running;
            let infer = model::inference(alone, &algorithm, seed, &frozen, form)?;
            verify(&infer, &Stage::Float)?;
            notes.extend(prefix.as_ref().map(words::prefix));
            notes.extend(algorithm.stages.as_ref().map(words::stages));
            notes.extend(algorithm.dynamic.as_ref().map(|own| words::gates(&train, own)));
            let end = epoch_end_graph(&train, &algorithm.optimizer, algorithm.widths.as_ref())?;
            let mut entries = vec![
                FloatEntry::new(TRAIN_STEP, train, prefix),
                FloatEntry::new(INFER, infer, None),
            ];
            if let Some(end) = end {
                verify(&end.graph, &Stage::Float)?;
                let context = Some(end.context);
                entries.push(FloatEntry { context, ..FloatEntry::new(EPOCH_END, end.graph, None) });
            }
            for (name, staged) in algorithm.in_stages()? {
                let (train, prefix) = step(&staged)?;
                let algorithm = Some(staged);
                entries.push(FloatEntry { algorithm, ..FloatEntry::new(&name, train, prefix) });
            }
            Ok(entries)
        })?,
    };
    let ruled = model::frozen_by_rules(&imported, &algorithm, &frozen)?;
    let parameter = |&i: &usize| imported.graph.value(imported.graph.parameters()[i].value);
    let compilation = Compilation {
        config: config.clone(),
        name: name.to_string(),
        hash: OnceLock::new(),
        frozen: frozen.iter().map(|i| parameter(i).name.clone()).chain(ruled).collect(),
        algorithm,
        target,
        imported,
        inference_batch,
        only_infers,
        warnings,
        notes,
        batch_norms,
        initial,
        precision: assigned,
        times,
    };
    Ok(Staged { compilation, entries })
}

/// Keeps values of parameters that two imports of a model have in common only once.
fn share(graph: &Graph, other: &mut Graph) {
    for i in 0..other.parameters().len() {
        let name = &other.value(other.parameters()[i].value).name;
        let Some(own) = graph.parameter_named(name) else { continue };
        let own = &graph.parameters()[own].initial;
        let others = &other.parameters()[i].initial;
        if !Arc::ptr_eq(own, others) && own.bits_equal(others) {
            other.set_initial(i, own.clone());
        }
    }
}

/// How the model is imported for its first entry, where graphs that infer have a batch of that size.
fn import_options(
    config: &Config,
    algorithm: &Algorithm,
    entries: Entries,
    batch: usize,
) -> ImportOptions {
    let training = config.training_import();
    // Running statistics, unless the user wants others.
    let folds = algorithm.batch_norm == BatchNormTreatment::Fold;
    let training = match (algorithm.inference.is_some() || folds, training.batch_norm) {
        (true, BatchNormMode::AsExported) => {
            ImportOptions { batch_norm: BatchNormMode::Frozen, ..training }
        }
        _ => training,
    };
    match entries {
        Entries::TrainAndInfer => training,
        Entries::InferAsExported => ImportOptions {
            batch: Some(batch),
            training: false,
            dropout: DropoutMode::Off,
            ..training
        },
    }
}

/// A model that takes bytes trains with pixels as they are stored, unless another normalization than the default is asked for, which
/// the trainer refuses. What to say of it.
fn feed_bytes(graph: &Graph, config: &mut Config) -> Option<String> {
    let stated = !config.mean.is_empty() || !config.deviation.is_empty();
    let bytes = graph.ty(model::data_input(graph)?).element == Element::U8;
    if !bytes || stated || config.normalization != InputNormalization::Unit {
        return None;
    }
    config.normalization = InputNormalization::None;
    Some("the model takes bytes: pixels are fed as they are stored, from 0 to 255 (normalization `none`)".to_string())
}
