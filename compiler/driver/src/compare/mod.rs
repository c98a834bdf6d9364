//! One model under several algorithms: test accuracy by epoch over seeds, beside what a training step costs.
//!
//! Each algorithm trains once for each seed, on this machine, on the same data in the same order. Runs that a folder holds
//! already are not made again (`results`); `statistics` says which differences the seeds explain, `cost` what a step costs,
//! `report`, `picture` and `text` show it all.

mod chosen;
mod cost;
mod picture;
mod report;
mod results;
mod statistics;
mod text;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;
use trainc_data::Dataset;

use crate::checkpoint::data_hash;
use crate::config::{Config, WeightSource};
use crate::error::{Result, ensure};
use crate::hash::Fingerprint;
use crate::history::EpochRecord;
use crate::model::ModelSource;
use crate::options::OPTIONS;
use crate::session::{Entries, Session};
use crate::stored::fingerprint;
use crate::train::{self, Trainer, check_trains};

pub use cost::{StepCost, TargetCost};
pub use report::{PICTURE, REPORT, files};
pub use results::{RUNS, RunRecord};
pub use statistics::{Difference, Spread};
pub use text::text;

use cost::StageCosts;
use results::Results;

/// What is compared.
#[derive(Clone, PartialEq, Debug)]
pub struct CompareOptions {
    /// Algorithms as `--algorithm` takes them.
    pub algorithms: Vec<String>,
    /// Runs of each, with the configuration's seed and those that follow.
    pub seeds: u64,
    /// The folder that keeps finished runs.
    pub folder: Option<PathBuf>,
    /// Targets whose step is measured, too.
    pub targets: Vec<String>,
}

/// What came of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// The model.
    pub model: String,
    /// The data set.
    pub data: String,
    /// Images that it is trained on, and tested on.
    pub images: [usize; 2],
    /// Examples of a step.
    pub batch: usize,
    /// Whether each seed draws weights of its own; else all runs begin with the model's.
    pub fresh_weights: bool,
    /// The algorithms, as they were given.
    pub algorithms: Vec<AlgorithmResult>,
}

/// What came of an algorithm.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AlgorithmResult {
    /// As it was given.
    pub name: String,
    /// What it is.
    pub title: String,
    /// What a training step costs on any machine.
    pub cost: StepCost,
    /// What it costs on targets.
    pub targets: Vec<TargetCost>,
    /// A run for each seed.
    pub runs: Vec<RunRecord>,
    /// The test accuracy after the last epoch.
    pub accuracy: Spread,
    /// Seconds of a training step on this machine, of each run's mean; `None` where no run was made now or before.
    pub step_seconds: Spread,
}

impl Comparison {
    /// Whether the difference of each pair of algorithms is more than the seeds explain.
    pub fn differences(&self) -> Vec<Difference> {
        let mut all = Vec::new();
        for (i, a) in self.algorithms.iter().enumerate() {
            for b in &self.algorithms[i + 1..] {
                all.push(Difference::between((&a.name, &a.accuracy), (&b.name, &b.accuracy)));
            }
        }
        all
    }
}

/// Where a comparison is.
#[derive(Clone, Debug)]
pub enum Progress<'a> {
    /// A remark of the compiler on an algorithm.
    Warning(&'a str, &'a str),
    /// A run is there already: algorithm, seed.
    Kept(&'a str, u64),
    /// A run is within an epoch: algorithm, seed, epoch, how far.
    Within(&'a str, u64, usize, train::Progress),
    /// A run has ended an epoch.
    Epoch(&'a str, u64, EpochRecord),
    /// A step is measured: algorithm, target.
    Measure(&'a str, &'a str),
}

/// Trains under each algorithm with each seed.
///
/// # Errors
/// If an algorithm does not train, the model does not compile under it, data do not fit, or the folder cannot be written.
/// What cannot be measured on a target is no error, but said in its [`TargetCost`].
pub fn compare(
    source: &ModelSource,
    config: &Config,
    data: &Dataset,
    options: &CompareOptions,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Comparison> {
    ensure!(!options.algorithms.is_empty(), "no algorithm is named");
    ensure!(options.seeds > 0, "a comparison needs a seed");
    let mut results = Results::open(options.folder.as_deref())?;
    let hash = data_hash(data);
    // All compile before hours are spent on the first.
    let mut sessions = Vec::new();
    for name in &options.algorithms {
        let config = Config { algorithm: name.clone(), ..config.clone() };
        check_trains(&config.chosen_algorithm()?)?;
        let session = Session::new(source, &config, Entries::TrainAndInfer)?;
        session.warnings.iter().for_each(|w| progress(Progress::Warning(name, w)));
        sessions.push((name, config, session));
    }
    let mut comparison = Comparison {
        model: sessions[0].2.name.clone(),
        data: data.name.clone(),
        images: [data.train.len(), data.test.len()],
        batch: 0,
        fresh_weights: config.init == WeightSource::Random,
        algorithms: Vec::new(),
    };
    for (name, config, session) in sessions {
        let (costs, epochs) = (StageCosts::of(session.program())?, session.config.epochs);
        let title = session.algorithm.title.clone();
        let mut trained = Trained { name, source, config: &config, data, hash: &hash };
        let runs = trained.runs(session, options.seeds, &mut results, progress)?;
        let cost = costs.mean(epochs, &runs)?;
        comparison.batch = cost.batch;
        let targets = options.targets.iter().map(|target| {
            progress(Progress::Measure(name, target));
            TargetCost::measure(source, &config, target)
        });
        comparison.algorithms.push(AlgorithmResult {
            name: name.clone(),
            title,
            cost,
            targets: targets.collect(),
            accuracy: Spread::of(runs.iter().filter_map(RunRecord::accuracy)),
            step_seconds: Spread::of(runs.iter().map(|run| run.step_seconds)),
            runs,
        });
    }
    Ok(comparison)
}

/// What runs under an algorithm have in common.
struct Trained<'a> {
    name: &'a str,
    source: &'a ModelSource,
    config: &'a Config,
    data: &'a Dataset,
    hash: &'a str,
}

impl Trained<'_> {
    /// The runs, one after another; those that begin with the model's weights share the compiled program.
    fn runs(
        &mut self,
        session: Session,
        seeds: u64,
        results: &mut Results,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Vec<RunRecord>> {
        let (mut session, mut trainer) = (Some(session), None::<Trainer>);
        let mut runs = Vec::new();
        for seed in (0..seeds).map(|n| self.config.seed.wrapping_add(n)) {
            if self.config.init == WeightSource::Random && !runs.is_empty() {
                let config = Config { seed, ..self.config.clone() };
                session = Some(Session::new(self.source, &config, Entries::TrainAndInfer)?);
                trainer = None;
            }
            let program = match (&trainer, &session) {
                (Some(trainer), _) => trainer.session.program(),
                (None, Some(session)) => session.program(),
                (None, None) => continue,
            };
            let key = self.key(seed, &fingerprint(program));
            if let Some(run) = results.find(&key) {
                progress(Progress::Kept(self.name, seed));
                runs.push(run.clone());
                continue;
            }
            let mut this = match (trainer.take(), session.take()) {
                (Some(trainer), _) => trainer,
                (None, Some(session)) => Trainer::new(session, self.data)?,
                (None, None) => continue,
            };
            let initial: Vec<_> = this.state()?.into_iter().map(|(_, tensor)| tensor).collect();
            let run = self.run(&mut this, key, seed, progress)?;
            results.add(&run)?;
            runs.push(run);
            this.restart(seed, &initial)?;
            trainer = Some(this);
        }
        Ok(runs)
    }

    fn run(
        &self,
        trainer: &mut Trainer,
        key: String,
        seed: u64,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<RunRecord> {
        trainer.session.set_seed(seed);
        let (mut spent, mut steps) = (Duration::ZERO, 0);
        // Multiplications by bits in all steps, where the widths change from epoch to epoch.
        let mut weighted = None::<f64>;
        let within = |epoch, at, progress: &mut dyn FnMut(Progress<'_>)| {
            progress(Progress::Within(self.name, seed, epoch, at));
        };
        let start = trainer.start(self.data, &mut |at| within(0, at, progress))?;
        start.into_iter().for_each(|record| progress(Progress::Epoch(self.name, seed, record)));
        loop {
            let epoch = trainer.epochs() + 1;
            let mut began = None;
            let state: Vec<_> = trainer.state()?.into_iter().map(|(_, tensor)| tensor).collect();
            let cost = StepCost::in_state(trainer.session.program(), &state)?;
            let record = trainer.epoch(self.data, &mut |at| {
                match (at, began) {
                    (train::Progress::Train(..), None) => began = Some(Instant::now()),
                    (train::Progress::Evaluate(0, _), Some(start)) => spent += start.elapsed(),
                    _ => {}
                }
                within(epoch, at, progress);
            })?;
            let Some(record) = record else { break };
            if let Some(cost) = cost {
                let own = cost.weighted_macs * (record.steps - steps) as f64;
                weighted = Some(weighted.unwrap_or_default() + own);
            }
            steps = record.steps;
            progress(Progress::Epoch(self.name, seed, record));
        }
        let by_choices = trainer.weighted_by_choices()?;
        Ok(RunRecord {
            key,
            algorithm: self.name.to_string(),
            seed,
            history: trainer.history().to_vec(),
            step_seconds: spent.as_secs_f64() / steps.max(1) as f64,
            weighted_macs: by_choices.or(weighted.map(|all| all / steps.max(1) as f64)),
        })
    }

    /// What a run depends on: the program with the state that it begins with, the data, the seed, all options.
    fn key(&self, seed: u64, program: &str) -> String {
        let config = Config { seed, ..self.config.clone() };
        let words = OPTIONS.iter().map(|option| {
            let words = config.value(option.name).and_then(|value| value.words());
            format!("{}={words:?};", option.name)
        });
        let of_options = Fingerprint::new().add(words.collect::<String>().as_bytes()).text();
        Fingerprint::new()
            .add(
                format!("{} {program} {} {of_options}", env!("CARGO_PKG_VERSION"), self.hash)
                    .as_bytes(),
            )
            .text()
    }
}
