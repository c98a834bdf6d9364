//! What a configuration means: files of it, and what follows from its options.

use std::path::Path;

#[cfg(feature = "host")]
use trainc_data::{Normalization, Normalizer};
use trainc_ir::batch_split::{MicroBatch, Splitting};
use trainc_ir::schedule::{self, Point};
use trainc_onnx_import::{BatchNormMode, DropoutMode, ImportOptions};
use trainc_opt::algorithm::stages::STAGE;
use trainc_opt::algorithm::{Algorithm, Recipe, inputs};

use crate::algorithms;
use crate::error::{Error, InFile, Result, ensure};
pub use crate::options::{
    BatchNormHandling, Config, InputNormalization, LossFunction, OptimiserStrategy, WeightSource,
};

/// The target that is this machine.
const HOST: &str = "host";
/// Batch size where neither flag nor file gives one.
pub const DEFAULT_BATCH: usize = 32;

impl Config {
    /// Reads a `trainc.toml`. Keys that are absent keep their defaults.
    ///
    /// # Errors
    /// If the file cannot be read, is not TOML, or has an unknown key.
    pub fn read(path: &Path) -> Result<Config> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| InFile::new(path, format!("cannot read: {e}")))?;
        Ok(toml::from_str(&text)
            .map_err(|e| InFile::new(path, format!("not a configuration: {e}")))?)
    }

    /// Batch size for training and compiling.
    pub fn batch_size(&self) -> usize {
        self.batch.unwrap_or(DEFAULT_BATCH)
    }

    /// Examples of a call of inference: as asked for, else 1 on devices and where the algorithm computes examples one by
    /// one; on the host otherwise the batch of training. A program that only infers has the batch that is asked for.
    pub fn inference_batch(&self, algorithm: &Algorithm) -> usize {
        let host = self.target == HOST && !algorithm.shares_exponents();
        let only = self.batch.filter(|_| algorithm.inference.is_some());
        self.infer_batch.or(only).unwrap_or(if host { self.batch_size() } else { 1 })
    }

    /// How products take their batch.
    pub(crate) fn splitting(&self) -> Splitting {
        let local_bytes = self.local_memory.map(|bytes| bytes.0);
        Splitting { micro_batch: self.micro_batch.0, local_bytes }
    }

    /// Checks each option that no type can.
    ///
    /// # Errors
    /// In words that name the option.
    pub(crate) fn check_each(&self) -> Result<(), String> {
        let must = |holds: bool, words: &str| if holds { Ok(()) } else { Err(words.to_string()) };
        let size = |size: &f64| size.is_finite() && *size >= 0.0;
        must(self.batch != Some(0), "batch: must be at least 1")?;
        must(self.infer_batch != Some(0), "infer-batch: must be at least 1")?;
        let some = self.arena_limit.is_none_or(|limit| limit.0 > 0);
        must(some, "arena-limit: must be at least 1")?;
        let some = self.local_memory.is_none_or(|bytes| bytes.0 > 0);
        must(some, "local-memory: must be at least 1")?;
        must(self.learning_rate.iter().all(size), "learning-rate: must be 0 or more")?;
        must(self.schedule.0.iter().all(|p| size(&p.value)), "schedule: sizes are 0 or more")?;
        if !self.schedule.0.is_empty() {
            schedule::check(&self.schedule.0).map_err(|e| format!("schedule: {e}"))?;
        }
        let share = (0.0..1.0).contains(&self.label_smoothing);
        must(share, "label-smoothing: must be from 0 to below 1")?;
        for (name, bound) in [("clip-value", self.clip_value), ("clip-norm", self.clip_norm)] {
            let holds = bound.is_none_or(|x| x.is_finite() && x > 0.0);
            must(holds, &format!("{name}: must be more than 0"))?;
        }
        must(self.mean.iter().all(|x| x.is_finite()), "mean: must be numbers")?;
        must(
            self.deviation.iter().all(|x| x.is_finite() && *x > 0.0),
            "deviation: must be more than 0",
        )
    }

    /// Checks the options, and those that belong together.
    ///
    /// # Errors
    /// In words that name the option.
    pub fn check(&self) -> Result<()> {
        self.check_each().map_err(crate::error::Error::Refused)?;
        ensure!(
            self.schedule.0.is_empty() || self.learning_rate.is_none(),
            "learning-rate, schedule: give one of them"
        );
        ensure!(
            self.local_memory.is_none() || self.micro_batch.0 != MicroBatch::Off,
            "local-memory: it is for micro-batch, which is off"
        );
        let stated = !self.mean.is_empty() || !self.deviation.is_empty();
        ensure!(
            !stated || self.normalization == InputNormalization::Unit,
            "mean, deviation: they are of pixels in 0 to 1, so normalization must be `unit`"
        );
        let (m, d) = (self.mean.len(), self.deviation.len());
        ensure!(m == d || m < 2 || d < 2, "mean, deviation: {m} and {d} channels");
        Ok(())
    }

    /// The algorithm that the options name, with the optimizer and the step sizes that they give in place of its own.
    ///
    /// # Errors
    /// If there is none, or it does not take them.
    pub fn chosen_algorithm(&self) -> Result<Algorithm> {
        let algorithm = algorithms::load(&self.algorithm)?;
        let algorithm = match &self.optimizer {
            Some(optimizer) => algorithm.with_optimizer(optimizer)?,
            None => algorithm,
        };
        let algorithm = if self.strict { algorithm.strict() } else { algorithm };
        let recipe = Recipe {
            label_smoothing: self.label_smoothing,
            clip_value: self.clip_value,
            clip_norm: self.clip_norm,
        };
        self.scheduled(algorithm.with_recipe(recipe)?)
    }

    /// The algorithm with the step sizes that the options give in place of its own.
    ///
    /// # Errors
    /// If one is none of the algorithm's.
    pub(crate) fn scheduled(&self, mut algorithm: Algorithm) -> Result<Algorithm> {
        if algorithm.inference.is_some() {
            return Ok(algorithm);
        }
        if let Some(rate) = self.learning_rate {
            algorithm.schedule = vec![Point::constant(0.0, rate)];
        } else if !self.schedule.0.is_empty() {
            algorithm.schedule.clone_from(&self.schedule.0);
        }
        let name = &algorithm.name;
        inputs::fits(&algorithm.schedule, algorithm.learning_rate, algorithm.range).map_err(
            |e| Error::Refused(format!("learning-rate: the step size of algorithm `{name}`: {e}")),
        )?;
        let refused = |e: String| Error::Refused(format!("scheduled: algorithm `{name}`: {e}"));
        let mut given: Vec<_> = self.scheduled.iter().map(|(name, s)| (name, &s.0)).collect();
        if let Some(stages) = &mut algorithm.stages
            && let Some(at) = given.iter().position(|(name, _)| *name == STAGE)
        {
            let points = given.remove(at).1;
            stages.set_schedule(points).map_err(|e| refused(format!("`{STAGE}`: {e}")))?;
        }
        inputs::set(&mut algorithm.optimizer.inputs, given.into_iter()).map_err(refused)?;
        Ok(algorithm)
    }

    /// The mean and deviation of each channel that the options state, for pixels in 0 to 1; `None` if they state none.
    ///
    /// # Errors
    /// If they are of another number of channels.
    pub(crate) fn stated(&self, channels: usize) -> Result<Option<Vec<(f64, f64)>>> {
        if self.mean.is_empty() && self.deviation.is_empty() {
            return Ok(None);
        }
        for (name, list) in [("mean", &self.mean), ("deviation", &self.deviation)] {
            let count = list.len();
            ensure!(
                count < 2 || count == channels,
                "{name}: {count} channels, and images of {channels}"
            );
        }
        let of = |list: &[f64], channel: usize, none: f64| {
            list.get(channel).or(list.first()).copied().unwrap_or(none)
        };
        let channel = |c| (of(&self.mean, c, 0.0), of(&self.deviation, c, 1.0));
        Ok(Some((0..channels).map(channel).collect()))
    }

    /// How stored images become inputs, fitted to the training split where the options do not state it.
    ///
    /// # Errors
    /// As [`Config::stated`].
    #[cfg(feature = "host")]
    pub(crate) fn normalizer(&self, train: &trainc_data::Split) -> Result<Normalizer> {
        if let Some(channels) = self.stated(train.shape[0])? {
            return Ok(Normalizer::stated(&channels));
        }
        let normalization = match self.normalization {
            InputNormalization::None => Normalization::None,
            InputNormalization::Unit => Normalization::UnitInterval,
            InputNormalization::Standardize => Normalization::Standardize,
        };
        Ok(Normalizer::fit(normalization, train))
    }

    /// How the model is imported for training.
    pub fn training_import(&self) -> ImportOptions {
        ImportOptions {
            batch: Some(self.batch_size()),
            dimensions: self.dimensions.clone(),
            training: true,
            batch_norm: match self.batch_norm {
                BatchNormHandling::AsExported => BatchNormMode::AsExported,
                BatchNormHandling::Training => BatchNormMode::Training,
                BatchNormHandling::Frozen => BatchNormMode::Frozen,
            },
            dropout: DropoutMode::AsExported,
            ..ImportOptions::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::value::Schedule;

    #[test]
    fn files_and_defaults() {
        let text = "algorithm = \"fp32\"\nbatch = 8\nopt = \"ordered\"\nlearning-rate = 0.5\n";
        let config: Config = toml::from_str(text).unwrap();
        assert_eq!(config.algorithm, "fp32");
        assert_eq!(config.batch_size(), 8);
        assert_eq!(config.opt, OptimiserStrategy::Ordered);
        assert_eq!(config.learning_rate, Some(0.5));
        // What the file does not say stays as it was.
        assert_eq!(config.epochs, Config::default().epochs);
        assert!(config.exact && config.shuffle);
    }

    #[test]
    fn the_batch_of_inference() {
        let of = |target: &str, algorithm: &str, batch: Option<usize>| {
            let target = target.to_string();
            let config = Config { target, batch, ..Config::default() };
            config.inference_batch(&crate::algorithms::load(algorithm).unwrap())
        };
        assert_eq!([of("host", "fp32", None), of("host", "fp32", Some(8))], [DEFAULT_BATCH, 8]);
        assert_eq!([of("c", "fp32", Some(8)), of("host", "niti", Some(8))], [1, 1]);
        assert_eq!([of("c", "quantized", Some(8)), of("c", "quantized", None)], [8, 1]);
        let asked = Config { infer_batch: Some(5), ..Config::default() };
        assert_eq!(asked.inference_batch(&crate::algorithms::load("niti").unwrap()), 5);
    }

    #[test]
    fn unknown_keys_are_refused() {
        let error = toml::from_str::<Config>("bach = 8\n").unwrap_err();
        assert!(error.to_string().contains("bach"), "{error}");
    }

    #[test]
    fn a_configuration_survives_its_file() {
        let schedule = Schedule(
            ["0:0.5", "10s:0.25~linear", "1:0"].map(|p| Point::parse(p).unwrap()).to_vec(),
        );
        let config = Config { batch: Some(7), schedule, mean: vec![0.5], ..Config::default() };
        let text = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<Config>(&text).unwrap(), config);
    }

    #[test]
    fn options_that_do_not_fit() {
        let bad = |edit: fn(&mut Config)| {
            let mut config = Config::default();
            edit(&mut config);
            config.check().unwrap_err().to_string()
        };
        assert!(bad(|c| c.batch = Some(0)).starts_with("batch"));
        assert!(bad(|c| c.infer_batch = Some(0)).starts_with("infer-batch"));
        assert!(bad(|c| c.learning_rate = Some(f64::NAN)).starts_with("learning-rate"));
        let both = bad(|c| {
            (c.learning_rate, c.schedule) = (Some(1.0), Schedule(vec![Point::constant(0.0, 1.0)]))
        });
        assert!(both.contains("one of them"), "{both}");
        let channels = bad(|c| (c.mean, c.deviation) = (vec![0.1, 0.2], vec![1.0, 1.0, 1.0]));
        assert!(channels.contains("2 and 3"), "{channels}");
        let fitted = bad(|c| {
            (c.mean, c.normalization) = (vec![0.1], InputNormalization::Standardize);
        });
        assert!(fitted.contains("unit"), "{fitted}");
        assert!(Config::default().check().is_ok());
    }

    #[test]
    fn step_sizes_are_the_algorithms() {
        let of = |algorithm: &str, config: Config| {
            config.scheduled(crate::algorithms::load(algorithm).unwrap())
        };
        for bad in [0.5, 8.0] {
            let config = Config { learning_rate: Some(bad), ..Config::default() };
            assert!(of("niti", config.clone()).unwrap_err().to_string().contains("whole number"));
            assert_eq!(of("fp32", config).unwrap().step_size(3, 9), bad);
        }
        let config = Config {
            schedule: Schedule(vec![Point::constant(0.0, 5.0), Point::constant(0.5, 3.0)]),
            ..Config::default()
        };
        let niti = of("niti", config).unwrap();
        assert_eq!([0, 4, 5, 9].map(|step| niti.step_size(step, 10)), [5.0, 5.0, 3.0, 3.0]);
    }

    #[test]
    fn stated_channels() {
        let config = Config { mean: vec![0.5, 0.25], deviation: vec![2.0], ..Config::default() };
        assert_eq!(config.stated(2).unwrap(), Some(vec![(0.5, 2.0), (0.25, 2.0)]));
        assert!(config.stated(3).is_err());
        assert_eq!(Config::default().stated(3).unwrap(), None);
    }
}
