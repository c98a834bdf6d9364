//! A session: a model under a configuration, taken through every stage. Each stage's value is kept, to be printed,
//! with its report and the time it took.

use std::collections::{BTreeMap, BTreeSet};
#[cfg(feature = "host")]
use std::sync::Arc;
use std::time::Instant;

#[cfg(feature = "host")]
use trainc_host::HostProgram;
use trainc_ir::graph::Graph;
use trainc_ir::program::{InputNotes, MemoryPlan, Notes, Program};
use trainc_ir::target::Target;
use trainc_ir::verify::{Stage, verify};
use trainc_ir::{OpKind, Tensor, Verified};
use trainc_onnx_import::{BatchNormMode, ImportOptions, Imported, check_finite};
use trainc_opt::algorithm::{Algorithm, BatchNormTreatment};
use trainc_opt::batch_norm::{BatchNormFate, Fate};
use trainc_opt::frozen_prefix::{FrozenPrefix, frozen_prefix};
use trainc_opt::one_by_one::one_by_one;
use trainc_opt::optimise::{Optimisation, OptimiseOptions, Strategy, optimise};
use trainc_opt::plan::{PlanEntry, PlanOptions, PlanReport, plan};
use trainc_opt::quantized::{EightBit, OutputStage, quantize};
use trainc_opt::translate::{Translation, float_operations, translate};

use crate::config::{Config, InputNormalization, OptimiserStrategy, WeightSource};
use crate::error::{Context, Result, ensure};
use crate::freeze::frozen;
#[cfg(feature = "host")]
use crate::initial::InitialState;
use crate::model::{self, InferenceForm, ModelSource};
use crate::{algorithms, precision, targets};

/// Name of the entry that trains.
pub const TRAIN_STEP: &str = "train_step";
/// Name of the entry that infers.
pub const INFER: &str = "infer";

/// Which functions to compile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entries {
    /// [`TRAIN_STEP`] and [`INFER`]; [`INFER`] alone, of the model as exported, under an algorithm that only infers.
    TrainAndInfer,
    /// [`INFER`] alone, of the model as it was exported but for dropout, which never drops.
    InferAsExported,
}

/// How far to go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Depth {
    /// FP32 graphs.
    Float,
    /// The algorithm's modules.
    Translated,
    /// Optimised modules.
    Optimised,
    /// The program.
    Planned,
}

/// One function on its way through the stages.
#[derive(Debug)]
pub struct EntryStages {
    /// [`TRAIN_STEP`] or [`INFER`].
    pub name: &'static str,
    /// The FP32 graph: with loss, backward pass and update, or forward only.
    pub float: Graph,
    /// The module in the algorithm's representation.
    pub module: Option<(Graph, Translation)>,
    /// The module after the optimiser.
    pub optimised: Option<(Graph, Optimisation)>,
    /// Of a training step whose first layers are frozen: what is computed for one example, as inference is, and the rest.
    frozen: Option<FrozenStages>,
}

/// A training step in two parts on its way through the stages.
#[derive(Debug)]
struct FrozenStages {
    float: FrozenPrefix,
    /// The modules of the prefix and of the rest.
    modules: Option<(Graph, Graph)>,
}

/// Wall time of a stage.
#[derive(Clone, PartialEq, Debug)]
pub struct StageTime {
    /// `import`, `training`, `translate`, `optimise`, `plan`.
    pub stage: &'static str,
    /// Seconds.
    pub seconds: f64,
}

/// See the module documentation.
pub struct Session {
    /// What was asked for.
    pub config: Config,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The target.
    pub target: &'static dyn Target,
    /// The model's name.
    pub name: String,
    /// Fingerprint of the imported model with its weights.
    pub model_hash: String,
    /// The model as imported for the first entry.
    pub imported: Imported,
    /// Examples of a call of inference.
    pub inference_batch: usize,
    /// What the user should know: the importer's warnings, and limits that the optimiser reached.
    pub warnings: Vec<String>,
    /// What became of the model's parts under the algorithm: batch normalizations, operations computed in FP32.
    pub notes: Vec<String>,
    /// What became of each batch normalization, in the model's order.
    pub batch_norms: Vec<BatchNormFate>,
    /// The functions.
    pub entries: Vec<EntryStages>,
    /// Parameters of the model that are constants here, because the configuration freezes them.
    pub frozen: Vec<String>,
    /// The weights that the configuration's file gave.
    #[cfg(feature = "host")]
    initial: Option<InitialState>,
    /// Fingerprint of the precision file, if there is one.
    pub precision_hash: Option<String>,
    /// How 8-bit results are made, if a precision file says so.
    pub(crate) eight_bit: Option<EightBit>,
    /// How close the 8-bit output stages of quantized inference come.
    pub stages: Vec<OutputStage>,
    /// The program and how it was planned.
    pub planned: Option<(Verified<Program>, PlanReport)>,
    /// Times in order.
    pub times: Vec<StageTime>,
}

impl Session {
    /// Takes a model as far as `depth`.
    ///
    /// # Errors
    /// The first stage's that fails, with the file and node where it is about one.
    pub fn new(
        source: &ModelSource,
        config: &Config,
        entries: Entries,
        depth: Depth,
    ) -> Result<Session> {
        Session::named(&source.name(), source, config, entries, depth)
    }

    /// [`Session::new`] under another name than the model's: that of the program, its files and symbols.
    ///
    /// # Errors
    /// As [`Session::new`].
    pub fn named(
        name: &str,
        source: &ModelSource,
        config: &Config,
        entries: Entries,
        depth: Depth,
    ) -> Result<Session> {
        config.check()?;
        let algorithm = algorithms::load(&config.algorithm)?;
        let target = targets::find(&config.target)?;
        let inference_batch = config.inference_batch(&algorithm);
        let mut session = Session {
            config: config.clone(),
            algorithm,
            target,
            name: name.to_string(),
            model_hash: String::new(),
            imported: empty(),
            inference_batch,
            warnings: Vec::new(),
            notes: Vec::new(),
            batch_norms: Vec::new(),
            entries: Vec::new(),
            frozen: Vec::new(),
            #[cfg(feature = "host")]
            initial: None,
            precision_hash: None,
            eight_bit: None,
            stages: Vec::new(),
            planned: None,
            times: Vec::new(),
        };
        let result = session.run(source, entries, depth);
        match source.path() {
            // Every error of a stage is about this model.
            Some(path) => result.map_err(|e| e.in_model(path))?,
            None => result?,
        }
        Ok(session)
    }

    fn run(&mut self, source: &ModelSource, entries: Entries, depth: Depth) -> Result<()> {
        self.import(source, entries)?;
        if depth >= Depth::Translated {
            self.translate()?;
        }
        if depth >= Depth::Optimised {
            self.optimise()?;
        }
        if depth >= Depth::Planned {
            self.plan()?;
        }
        Ok(())
    }

    fn timed<T>(
        &mut self,
        stage: &'static str,
        work: impl FnOnce(&mut Session) -> Result<T>,
    ) -> Result<T> {
        let start = Instant::now();
        let result = work(self);
        self.times.push(StageTime { stage, seconds: start.elapsed().as_secs_f64() });
        result
    }

    fn import(&mut self, source: &ModelSource, entries: Entries) -> Result<()> {
        let seed = (self.config.init == WeightSource::Random).then_some(self.config.seed);
        let training = self.config.training_import();
        let inference = self.algorithm.inference.is_some();
        ensure!(
            inference || self.config.precision.is_none(),
            "a precision file is for quantized inference (`--algorithm quantized`); `{}` does not take one",
            self.algorithm.name
        );
        let entries = if inference { Entries::InferAsExported } else { entries };
        // Running statistics, unless the user wants others.
        let folds = self.algorithm.batch_norm == BatchNormTreatment::Fold;
        let training = match (inference || folds, training.batch_norm) {
            (true, BatchNormMode::AsExported) => {
                ImportOptions { batch_norm: BatchNormMode::Frozen, ..training }
            }
            _ => training,
        };
        let options = match entries {
            Entries::TrainAndInfer => training,
            Entries::InferAsExported => ImportOptions {
                batch: Some(self.graph_batch()),
                training: false,
                dropout: trainc_onnx_import::DropoutMode::Off,
                ..training
            },
        };
        self.imported = self.timed("import", |_| source.import(&options))?;
        if !self.algorithm.is_identity() {
            check_finite(&self.imported.graph)?;
        }
        self.warnings.extend(model::warnings(&self.imported));
        let inferring = self.import_for_inference(source, &options)?;
        let inferring = self.read_weights(source, inferring)?;
        self.model_hash = model::graph_hash(&self.imported.graph);
        let frozen = match entries {
            Entries::TrainAndInfer => frozen(&self.imported.graph, &self.config)?,
            Entries::InferAsExported => BTreeSet::new(),
        };
        self.batch_norms = model::batch_norms(&self.imported, &self.algorithm, &frozen)?;
        self.notes.extend(batch_norm_notes(&self.batch_norms));
        self.warnings.extend(removed(&self.imported.graph, &self.algorithm));
        if entries == Entries::InferAsExported {
            // Statistics of one example would not be those of the batch that the file means.
            let form = match self.algorithm.shares_exponents() {
                true => InferenceForm::Running,
                false => InferenceForm::AsExported,
            };
            let mut float = model::inference(&self.imported, &self.algorithm, seed, &frozen, form)?;
            verify(&float, &Stage::Float)?;
            if let Some(path) = self.config.precision.clone() {
                float =
                    self.timed("precision", |session| precision::assigned(session, &float, &path))?;
                verify(&float, &Stage::Float)?;
            }
            self.push(INFER, float);
            return Ok(());
        }
        let (train, infer, prefix) = self.timed("training graph", |session| {
            let (imported, algorithm) = (&session.imported, &session.algorithm);
            let train = model::training(imported, algorithm, seed, &frozen)?;
            verify(&train, &Stage::Float)?;
            let form = InferenceForm::Running;
            let alone = inferring.as_ref().unwrap_or(imported);
            // What is frozen here, or constant in the model's file.
            let prefix = match algorithm.shares_exponents() {
                true => {
                    let one = model::training(alone, algorithm, seed, &frozen)?;
                    frozen_prefix(&train, &one)?
                }
                false => None,
            };
            let infer = model::inference(alone, algorithm, seed, &frozen, form)?;
            verify(&infer, &Stage::Float)?;
            let parameter = |&i: &usize| imported.graph.parameters()[i].value;
            let names = frozen.iter().map(parameter);
            session.frozen = names.map(|v| imported.graph.value(v).name.clone()).collect();
            Ok((train, infer, prefix))
        })?;
        self.push(TRAIN_STEP, train);
        if let (Some(prefix), Some(entry)) = (prefix, self.entries.last_mut()) {
            self.notes.push(frozen_note(&prefix));
            entry.frozen = Some(FrozenStages { float: prefix, modules: None });
        }
        self.push(INFER, infer);
        Ok(())
    }

    /// Examples of the graphs that infer, before [`one_by_one`].
    fn graph_batch(&self) -> usize {
        if self.algorithm.shares_exponents() { 1 } else { self.inference_batch }
    }

    /// The model for inference, where its batch is another than that of `options`.
    fn import_for_inference(
        &mut self,
        source: &ModelSource,
        options: &ImportOptions,
    ) -> Result<Option<Imported>> {
        let batch = self.graph_batch();
        if options.batch == Some(batch) {
            return Ok(None);
        }
        let options = ImportOptions { batch: Some(batch), ..options.clone() };
        let imported = self.timed("import", |_| source.import(&options))?;
        Ok(Some(imported))
    }

    /// Gives the model, and that for inference, the weights of the configuration's file, if it names one.
    #[cfg(feature = "host")]
    fn read_weights(
        &mut self,
        source: &ModelSource,
        mut inferring: Option<Imported>,
    ) -> Result<Option<Imported>> {
        let Some(path) = &self.config.weights else { return Ok(inferring) };
        let initial = InitialState::read(path, source, &self.config)?;
        let words = initial.apply(&mut self.imported, &self.config)?;
        if let Some(imported) = &mut inferring {
            initial.apply(imported, &self.config)?;
        }
        self.warnings.extend(words);
        self.initial = Some(initial);
        Ok(inferring)
    }

    #[cfg(not(feature = "host"))]
    fn read_weights(
        &mut self,
        _source: &ModelSource,
        inferring: Option<Imported>,
    ) -> Result<Option<Imported>> {
        ensure!(
            self.config.weights.is_none(),
            "weights: reading them needs the cargo feature `host`"
        );
        Ok(inferring)
    }

    /// Gives parameters of a module that the file of weights has in their stored form that form, bit for bit.
    #[cfg(feature = "host")]
    fn with_stored(&self, module: Graph) -> Result<Graph> {
        let Some(initial) = &self.initial else { return Ok(module) };
        let stored = |name: &str, old: &Arc<Tensor>| {
            initial.stored(name, old.ty()).map_or_else(|| old.clone(), Arc::new)
        };
        Ok(crate::select::with_initial(&module, stored))
    }

    #[cfg(not(feature = "host"))]
    fn with_stored(&self, module: Graph) -> Result<Graph> {
        Ok(module)
    }

    fn push(&mut self, name: &'static str, float: Graph) {
        self.entries.push(EntryStages { name, float, module: None, optimised: None, frozen: None });
    }

    /// What a quantized module of this session's algorithm may contain.
    pub fn stage(&self) -> Stage {
        let modules = self.entries.iter().filter_map(|e| e.module.as_ref());
        let floated = modules.flat_map(|(_, t)| t.floated.iter().map(|(_, kind)| *kind));
        // Inputs of several examples are taken apart, their results put together.
        let apart = [OpKind::Slice, OpKind::Concat];
        let in_two = self.entries.iter().any(|entry| entry.frozen.is_some());
        let several = in_two || self.graph_batch() != self.inference_batch;
        let floated = floated.chain(apart.into_iter().filter(|_| several));
        Stage::Quantized { float_operations: float_operations(&self.algorithm, floated) }
    }

    fn translate(&mut self) -> Result<()> {
        if let Some(inference) = self.algorithm.inference {
            let eight_bit = self.eight_bit.unwrap_or(inference.eight_bit);
            return self.timed("translate", |session| {
                let stored = model::stored_scales(&session.imported);
                for entry in &mut session.entries {
                    let found = quantize(&entry.float, eight_bit, &stored)?;
                    session.warnings.extend(found.warnings);
                    session.stages.extend(found.stages);
                    entry.module = Some((found.module, found.report));
                }
                Ok(())
            });
        }
        self.timed("translate", |session| {
            for i in 0..session.entries.len() {
                let algorithm = &session.algorithm;
                let entry = &session.entries[i];
                let float = entry.frozen.as_ref().map_or(&entry.float, |f| &f.float.rest);
                let (module, mut report) = translate(float, algorithm)?;
                let mut module = session.with_stored(module)?;
                let batch = session.config.batch_size();
                let entry = &mut session.entries[i];
                if let Some(frozen) = &mut entry.frozen {
                    let (prefix, own) = translate(&frozen.float.prefix, algorithm)?;
                    report.floated.splice(0..0, own.floated);
                    let rest = module;
                    module = frozen.float.join(&one_by_one(&prefix, batch)?, &rest)?;
                    frozen.modules = Some((prefix, rest));
                }
                entry.module = Some((module, report));
            }
            let floated = session.entries.first().and_then(|e| e.module.as_ref());
            session.notes.extend(floated.and_then(|(_, report)| float_note(&report.floated)));
            Ok(())
        })
    }

    /// The options of the optimiser, under another strategy if one is given.
    pub fn optimise_options(&self, strategy: Option<OptimiserStrategy>) -> OptimiseOptions {
        OptimiseOptions {
            strategy: match strategy.unwrap_or(self.config.opt) {
                OptimiserStrategy::Saturate => Strategy::Saturate,
                OptimiserStrategy::Ordered => Strategy::Ordered,
                OptimiserStrategy::Off => Strategy::Off,
            },
            exact: self.config.exact,
            ..OptimiseOptions::default()
        }
    }

    fn optimise(&mut self) -> Result<()> {
        let stage = self.stage();
        let options = self.optimise_options(None);
        self.timed("optimise", |session| {
            let mut limits = Vec::new();
            for entry in &mut session.entries {
                let Some((module, _)) = &entry.module else { continue };
                let parts = entry.frozen.as_ref().and_then(|f| Some((f, f.modules.as_ref()?)));
                let rest = parts.map_or(module, |(_, (_, rest))| rest);
                let (mut optimised, mut report) = optimise(rest, &stage, session.target, &options)?;
                if let Some((frozen, (prefix, _))) = parts {
                    let (before, own) = optimise(prefix, &stage, session.target, &options)?;
                    let batch = session.config.batch_size();
                    optimised = frozen.float.join(&one_by_one(&before, batch)?, &optimised)?;
                    report.cost_before += own.cost_before * batch as u64;
                    report.cost_after += own.cost_after * batch as u64;
                    report.limit = report.limit.or(own.limit);
                }
                verify(&optimised, &stage)?;
                if let Some(limit) = &report.limit {
                    limits.push(format!(
                        "{}: the optimiser stopped early ({limit}); the result is correct",
                        entry.name
                    ));
                }
                entry.optimised = Some((optimised, report));
            }
            session.warnings.extend(limits);
            if session.graph_batch() != session.inference_batch {
                session.infer_one_by_one()?;
            }
            Ok(())
        })
    }

    /// Inference of several examples from that of one, at every stage.
    fn infer_one_by_one(&mut self) -> Result<()> {
        let (count, stage) = (self.inference_batch, self.stage());
        for entry in self.entries.iter_mut().filter(|entry| entry.name == INFER) {
            entry.float = one_by_one(&entry.float, count)?;
            if let Some((module, _)) = &mut entry.module {
                *module = one_by_one(module, count)?;
            }
            if let Some((optimised, _)) = &mut entry.optimised {
                *optimised = one_by_one(optimised, count)?;
                verify(optimised, &stage)?;
            }
        }
        Ok(())
    }

    fn plan(&mut self) -> Result<()> {
        self.timed("plan", |session| {
            let entries: Vec<PlanEntry<'_>> = session
                .entries
                .iter()
                .filter_map(|e| Some(PlanEntry { name: e.name, graph: &e.optimised.as_ref()?.0 }))
                .collect();
            let mut planned =
                plan(&session.name, &entries, session.target, &PlanOptions::default())?;
            *planned.0.notes_mut() = session.notes();
            check_size(session.target, session.config.batch_size(), &planned.0.memory)?;
            session.planned = Some(planned);
            Ok(())
        })
    }

    /// The step sizes of training: from which fraction of it on, and the size. None under an algorithm that only infers.
    pub fn schedule(&self) -> Vec<(f64, f64)> {
        match self.config.learning_rate {
            _ if self.algorithm.inference.is_some() => Vec::new(),
            Some(rate) => vec![(0.0, rate)],
            None => self.algorithm.schedule.iter().map(|p| (p.from, p.value)).collect(),
        }
    }

    /// What headers and examples say beside the program.
    fn notes(&self) -> Notes {
        Notes {
            schedule: self.schedule(),
            frozen: self.frozen.clone(),
            input: self.normalization(),
            classes: Vec::new(),
        }
    }

    /// How images become the model's input by the configuration alone; `None` where that takes data, or for a model
    /// that takes no images.
    fn normalization(&self) -> Option<InputNotes> {
        let graph = &self.entries.first()?.float;
        let [_, channels, _, _] = graph.ty(model::data_input(graph)?).shape[..] else {
            return None;
        };
        let divisor = match self.config.normalization {
            InputNormalization::None => 1.0,
            InputNormalization::Unit => 255.0,
            InputNormalization::Standardize => return None,
        };
        Some(InputNotes { divisor, channels: vec![(0.0, 1.0); channels] })
    }

    /// Notes what a data set says about the model's input and classes, for the artifact.
    ///
    /// # Errors
    /// If the data are not what the model takes, or the session was not planned.
    #[cfg(feature = "host")]
    pub fn note_data(&mut self, data: &trainc_data::Dataset) -> Result<()> {
        let normalizer = crate::train::normalizer(&self.config, &data.train);
        let graph = &self.entries.first().context("the session has no entry")?.float;
        let ty = graph.ty(model::data_input(graph).context("the model has several inputs")?);
        let [c, h, w] = data.train.shape;
        ensure!(
            ty.shape[..].get(1..) == Some(&[c, h, w][..]),
            "the model takes {ty}, but images of `{}` are {c} x {h} x {w} (channels x height x width)",
            data.name
        );
        let planned = self.planned.as_mut().context("the program is not planned")?;
        let notes = planned.0.notes_mut();
        notes.input = Some(InputNotes {
            divisor: normalizer.pixel_scale(),
            channels: normalizer.mean_and_deviation(),
        });
        notes.classes = data.classes.clone();
        Ok(())
    }

    /// The program.
    ///
    /// # Errors
    /// If the session was not taken that far.
    pub fn program(&self) -> Result<&Verified<Program>> {
        self.planned.as_ref().map(|(program, _)| program).context("the program is not planned")
    }

    /// The function of that name.
    ///
    /// # Errors
    /// If the session has none.
    pub fn entry(&self, name: &str) -> Result<&EntryStages> {
        self.entries.iter().find(|e| e.name == name).with_context(|| format!("no entry `{name}`"))
    }

    /// The model's names of the program's state, in the order of checkpoints.
    pub fn state_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for graph in self.entries.iter().filter_map(|e| e.optimised.as_ref().map(|o| &o.0)) {
            for parameter in graph.parameters() {
                let name = &graph.value(parameter.value).name;
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
        names
    }

    /// The frozen parameters that the program uses, with their FP32 values, in the model's order.
    pub fn frozen_tensors(&self) -> Vec<(String, Tensor)> {
        let constant = |name: &String| {
            self.entries.iter().find_map(|entry| {
                let graph = &entry.float;
                let named = graph.value_ids().filter(|&v| graph.value(v).name == *name);
                let tensor = named.filter_map(|v| graph.constant_of(v)).next()?;
                Some((name.clone(), (**tensor).clone()))
            })
        };
        self.frozen.iter().filter_map(constant).collect()
    }

    /// The program compiled for this machine.
    ///
    /// # Errors
    /// If it was planned for another target.
    #[cfg(feature = "host")]
    pub fn on_this_machine(&self) -> Result<HostProgram> {
        let target = self.target.description().name;
        let host = trainc_host::HOST.description().name;
        ensure!(
            target == host,
            "programs for target `{target}` do not run here; every target computes the same bits, so leave the target \
             out (`{host}` is what trains and runs on this machine)"
        );
        Ok(HostProgram::compile(self.program()?)?)
    }

    /// Seconds of all stages.
    pub fn seconds(&self) -> f64 {
        self.times.iter().map(|t| t.seconds).sum()
    }
}

/// One line for each kind of fate, with the nodes where they are few.
fn batch_norm_notes(fates: &[BatchNormFate]) -> Vec<String> {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for fate in fates {
        let text = match &fate.fate {
            Fate::Trains => "train in FP32, with running statistics".to_string(),
            Fate::Folded { .. } => {
                "have frozen statistics and are folded into the weights before them".to_string()
            }
            Fate::Frozen { because } => {
                format!("keep frozen statistics and stay in FP32 ({because})")
            }
        };
        match groups.iter_mut().find(|(known, _)| *known == text) {
            Some((_, nodes)) => nodes.push(&fate.node),
            None => groups.push((text, vec![&fate.node])),
        }
    }
    let line = |(text, nodes): (String, Vec<&str>)| {
        let (count, all) = (nodes.len(), fates.len());
        format!("{count} of {all} batch normalizations {text}: {}", few(&nodes))
    };
    groups.into_iter().map(line).collect()
}

/// Says that the layers before the first trained one are computed one example after the other.
fn frozen_note(prefix: &FrozenPrefix) -> String {
    let outputs = prefix.prefix.outputs();
    let names: Vec<&str> = outputs.iter().map(|o| o.name.as_str()).collect();
    format!(
        "what comes before the first trained layer ({} nodes, up to {}) is computed as in inference: one example after the \
         other, in the memory of one",
        prefix.prefix.nodes().len(),
        few(&names)
    )
}

/// At most four names.
fn few(names: &[&str]) -> String {
    let shown: Vec<String> = names.iter().take(4).map(|name| format!("`{name}`")).collect();
    let rest = if names.len() > 4 { ", ..." } else { "" };
    format!("{}{rest}", shown.join(", "))
}

/// What a training step computes in FP32 because the algorithm has no rule for it, by operation.
fn float_note(floated: &[(String, OpKind)]) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    floated.iter().for_each(|(_, kind)| *counts.entry(kind.name()).or_default() += 1);
    let list: Vec<String> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    (!list.is_empty()).then(|| {
        format!(
            "{} operations of the training step are computed in FP32, for the algorithm has no integer form of them: {}",
            floated.len(),
            list.join(", ")
        )
    })
}

/// Says what an algorithm leaves out of a model.
fn removed(graph: &Graph, algorithm: &Algorithm) -> Option<String> {
    let nodes = graph.nodes().iter().filter(|n| algorithm.remove.contains(&n.op.kind()));
    let names: Vec<&str> = nodes.map(|n| n.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "algorithm `{}` leaves {} operations out of the model, which changes what it computes: {}",
            algorithm.name,
            names.len(),
            few(&names)
        )
    })
}

fn empty() -> Imported {
    Imported {
        graph: Graph::new(""),
        warnings: Vec::new(),
        loss: None,
        integer_parameters: Vec::new(),
        producer: trainc_onnx_import::Producer {
            name: String::new(),
            version: String::new(),
            opset: 0,
            ir_version: 0,
        },
    }
}

/// Checks that memory fits the addresses of a target's machines. No object of C has half of them or more.
fn check_size(target: &dyn Target, batch: usize, memory: &MemoryPlan) -> Result<()> {
    let bits = target.address_bits();
    let most = (1u64 << (bits - 1)) - 1;
    let parts = [
        ("arena", memory.arena_bytes),
        ("state", memory.state_bytes),
        ("data of constants", memory.constant_bytes),
    ];
    for (what, bytes) in parts {
        let way_out = match (what, batch) {
            ("arena", 2..) => format!("; a smaller batch than {batch} needs less (--batch)"),
            _ => String::new(),
        };
        ensure!(
            bytes as u64 <= most,
            "target {}: the {what} would have {bytes} bytes ({:.1} GiB), and on machines of {bits} bits one object has at \
             most {most}{way_out}",
            target.description().name,
            bytes as f64 / f64::from(1u32 << 30),
        );
    }
    Ok(())
}
