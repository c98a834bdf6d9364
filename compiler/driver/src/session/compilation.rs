//! What is compiled, and how: what every stage knows.

use std::sync::OnceLock;
use std::time::Instant;

use trainc_ir::program::{StageChoice, StageNotes};
use trainc_ir::schedule::{Point, Scheduled};
use trainc_ir::target::Target;
use trainc_onnx_import::Imported;
use trainc_opt::algorithm::Algorithm;
use trainc_opt::algorithm::inputs::{self, ScheduledInput};
use trainc_opt::algorithm::stages::{Choice, STAGE, Stage};
use trainc_opt::batch_norm::BatchNormFate;
use trainc_opt::optimise::{OptimiseOptions, Strategy};

use super::TRAIN_STEP;
use super::weights::Initial;
use crate::config::{Config, OptimiserStrategy};
use crate::error::Result;
use crate::model::graph_hash;
use crate::precision::Assigned;

/// Wall time of a stage.
#[derive(Clone, PartialEq, Debug)]
pub struct StageTime {
    /// `import`, `training graph`, `translate`, `optimise`, `plan`.
    pub stage: &'static str,
    /// Seconds.
    pub seconds: f64,
}

/// See the module documentation.
pub struct Compilation {
    /// What was asked for.
    pub config: Config,
    /// The algorithm, with the step sizes that the configuration gives.
    pub algorithm: Algorithm,
    /// The target.
    pub target: &'static dyn Target,
    /// The model's name.
    pub name: String,
    /// See [`Compilation::model_hash`].
    pub(super) hash: OnceLock<String>,
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
    /// Parameters of the model that are constants here, because the configuration freezes them.
    pub frozen: Vec<String>,
    /// Whether nothing trains: the algorithm only infers, or every parameter is frozen.
    pub only_infers: bool,
    /// The weights that the configuration's file gave.
    pub(super) initial: Initial,
    /// What the precision file assigned, if there is one.
    pub(crate) precision: Option<Assigned>,
    /// Times in order.
    pub times: Vec<StageTime>,
}

impl Compilation {
    /// Fingerprint of the imported model with its weights. It reads all of them, so that the first caller makes it.
    pub fn model_hash(&self) -> &str {
        self.hash.get_or_init(|| graph_hash(&self.imported.graph))
    }

    /// Examples of the graphs that infer, before [`trainc_opt::one_by_one`].
    pub(super) fn graph_batch(&self) -> usize {
        graph_batch(&self.algorithm, self.inference_batch)
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

    /// The step sizes of training. None of a program that only infers.
    pub fn schedule(&self) -> Vec<Point> {
        match self.only_infers {
            true => Vec::new(),
            false => self.algorithm.schedule.clone(),
        }
    }

    /// The schedules of other inputs of training.
    pub fn scheduled(&self) -> Vec<Scheduled> {
        match self.only_infers {
            true => Vec::new(),
            false => inputs::notes(&self.algorithm.optimizer.inputs),
        }
    }

    /// When which training step runs, if there are several.
    pub fn stages(&self) -> Option<StageNotes> {
        let stages = self.algorithm.stages.as_ref().filter(|_| !self.only_infers)?;
        let functions = stages.others.iter().map(Stage::function);
        let functions = std::iter::once(TRAIN_STEP.to_string()).chain(functions).collect();
        let choice = match stages.choice.clone() {
            Choice::Schedule(ScheduledInput { per, points, .. }) => {
                StageChoice::Schedule(Scheduled { name: STAGE.to_string(), per, points })
            }
            Choice::Indicator(indicator) => StageChoice::Indicator(indicator),
        };
        Some(StageNotes { choice, functions })
    }

    /// Seconds of all stages.
    pub fn seconds(&self) -> f64 {
        self.times.iter().map(|t| t.seconds).sum()
    }
}

/// Examples of the graphs that infer: one where examples of a batch would share exponents.
pub(super) fn graph_batch(algorithm: &Algorithm, inference_batch: usize) -> usize {
    if algorithm.shares_exponents() { 1 } else { inference_batch }
}

/// Does a stage's work, and notes how long it took.
pub(super) fn timed<T>(
    times: &mut Vec<StageTime>,
    stage: &'static str,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let start = Instant::now();
    let result = work();
    times.push(StageTime { stage, seconds: start.elapsed().as_secs_f64() });
    result
}
