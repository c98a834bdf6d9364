//! One configuration behind the command line's flags and a `trainc.toml`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
#[cfg(feature = "host")]
use trainc_data::{Normalization, Normalizer};
use trainc_onnx_import::{BatchNormMode, DropoutMode, ImportOptions};
use trainc_opt::algorithm::Algorithm;

use crate::error::{InFile, Result, ensure};

/// How the optimiser searches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OptimiserStrategy {
    /// All rules until nothing changes (equality saturation).
    #[default]
    Saturate,
    /// Each rule once, in order.
    Ordered,
    /// No rule.
    Off,
}

/// How batch norm normalizes while training.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BatchNormHandling {
    /// As the model file says.
    #[default]
    AsExported,
    /// With the statistics of the batch, updating the running ones.
    Training,
    /// With the running statistics.
    Frozen,
}

/// How pixels become model inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InputNormalization {
    /// The stored values.
    None,
    /// Pixels divided by 255.
    #[default]
    Unit,
    /// Unit, then mean 0 and deviation 1 for each channel of the training images.
    Standardize,
}

/// Where the weights of the first step come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WeightSource {
    /// The model file.
    #[default]
    Model,
    /// Drawn by the seed, in the way the algorithm names.
    Random,
}

/// What a compilation or a training run is asked to do. Field names are those of flags and of `trainc.toml`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// Training algorithm: a built-in name or the path of a `.toml` file.
    pub algorithm: String,
    /// Quantized inference: a file with the bits of each layer, for a model that is not quantized itself.
    pub precision: Option<PathBuf>,
    /// Quantized inference: data whose activations give the ranges that the precision file leaves out.
    pub calibrate: Option<PathBuf>,
    /// Target name.
    pub target: String,
    /// Batch size; the default depends on the command.
    pub batch: Option<usize>,
    /// Examples of a call of inference; see [`Config::inference_batch`] for the default.
    pub infer_batch: Option<usize>,
    /// Sizes of open dimensions other than the batch, by symbol.
    pub dimensions: BTreeMap<String, usize>,
    /// Seed of weights, shuffling and stochastic rounding.
    pub seed: u64,
    /// Whether only rewrites that keep every bit are allowed.
    pub exact: bool,
    /// How the optimiser searches.
    pub opt: OptimiserStrategy,
    /// How batch norm normalizes while training.
    pub batch_norm: BatchNormHandling,
    /// How pixels become model inputs.
    pub normalization: InputNormalization,
    /// Where the weights of the first step come from.
    pub init: WeightSource,
    /// A file with other weights than the model's: safetensors, a checkpoint, or a state that a device saved.
    pub weights: Option<PathBuf>,
    /// Patterns of parameters and layers that do not train.
    pub freeze: Vec<String>,
    /// Patterns of the only parameters and layers that train; empty for all.
    pub train: Vec<String>,
    /// Passes over the training data; with 0 the model is only evaluated.
    pub epochs: usize,
    /// A fixed step size in place of the algorithm's schedule.
    pub learning_rate: Option<f64>,
    /// Most training steps in all.
    pub steps: Option<u64>,
    /// Whether each epoch has its own order of samples.
    pub shuffle: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            algorithm: "niti".to_string(),
            precision: None,
            calibrate: None,
            target: "host".to_string(),
            batch: None,
            infer_batch: None,
            dimensions: BTreeMap::new(),
            seed: 0,
            exact: true,
            opt: OptimiserStrategy::default(),
            batch_norm: BatchNormHandling::default(),
            normalization: InputNormalization::default(),
            init: WeightSource::default(),
            weights: None,
            freeze: Vec::new(),
            train: Vec::new(),
            epochs: 10,
            learning_rate: None,
            steps: None,
            shuffle: true,
        }
    }
}

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

    /// Checks numbers that no type can.
    ///
    /// # Errors
    /// In words that name the field.
    pub fn check(&self) -> Result<()> {
        ensure!(self.batch != Some(0), "batch: must be at least 1");
        ensure!(self.infer_batch != Some(0), "infer-batch: must be at least 1");
        if let Some(rate) = self.learning_rate {
            ensure!(rate.is_finite() && rate >= 0.0, "learning-rate: must be 0 or more");
        }
        Ok(())
    }

    /// How stored images become inputs, fitted to the training split.
    #[cfg(feature = "host")]
    pub(crate) fn normalizer(&self, train: &trainc_data::Split) -> Normalizer {
        let normalization = match self.normalization {
            InputNormalization::None => Normalization::None,
            InputNormalization::Unit => Normalization::UnitInterval,
            InputNormalization::Standardize => Normalization::Standardize,
        };
        Normalizer::fit(normalization, train)
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
        let config = Config { batch: Some(7), learning_rate: Some(0.25), ..Config::default() };
        let text = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<Config>(&text).unwrap(), config);
    }

    #[test]
    fn numbers_out_of_range() {
        let bad = |edit: fn(&mut Config)| {
            let mut config = Config::default();
            edit(&mut config);
            config.check().unwrap_err().to_string()
        };
        assert!(bad(|c| c.batch = Some(0)).starts_with("batch"));
        assert!(bad(|c| c.infer_batch = Some(0)).starts_with("infer-batch"));
        assert!(bad(|c| c.learning_rate = Some(f64::NAN)).starts_with("learning-rate"));
        assert!(Config::default().check().is_ok());
    }
}
