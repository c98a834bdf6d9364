//! A session: a model under a configuration, taken through every stage. Each stage's value is kept, to be printed,
//! with its report and the time it took.

use std::time::Instant;

use anyhow::Context;
use trainc_ir::graph::Graph;
use trainc_ir::program::Program;
use trainc_ir::target::Target;
use trainc_ir::verify::{Stage, verify};
use trainc_onnx_import::{ImportOptions, Imported};
use trainc_opt::algorithm::Algorithm;
use trainc_opt::optimise::{Optimisation, OptimiseOptions, Strategy, optimise};
use trainc_opt::plan::{PlanEntry, PlanOptions, PlanReport, plan};
use trainc_opt::translate::{Translation, translate};

use crate::config::{Config, OptimiserStrategy, WeightSource};
use crate::error::InFile;
use crate::model::{self, ModelSource};
use crate::{algorithms, targets};

/// Name of the entry that trains.
pub const TRAIN_STEP: &str = "train_step";
/// Name of the entry that infers.
pub const INFER: &str = "infer";

/// Which functions to compile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entries {
    /// [`TRAIN_STEP`] and [`INFER`].
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
#[derive(Debug)]
pub struct Session {
    /// What was asked for.
    pub config: Config,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The target.
    pub target: &'static dyn TargetDebug,
    /// The model's name.
    pub name: String,
    /// Fingerprint of the imported model with its weights.
    pub model_hash: String,
    /// The model as imported for the first entry.
    pub imported: Imported,
    /// What the user should know: the importer's warnings, and limits that the optimiser reached.
    pub warnings: Vec<String>,
    /// The functions.
    pub entries: Vec<EntryStages>,
    /// The program and how it was planned.
    pub planned: Option<(Program, PlanReport)>,
    /// Times in order.
    pub times: Vec<StageTime>,
}
