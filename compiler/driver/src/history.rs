//! What each epoch of a training run gave, and its curve.

use serde::{Deserialize, Serialize};
use trainc_data::{Series, TrainingChart};

/// What an epoch gave.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct EpochRecord {
    /// Counted from 1; 0 is the state before the first step.
    pub epoch: usize,
    /// Training steps done since the start, this epoch's included.
    pub steps: u64,
    /// Mean of the steps' losses in this epoch; epoch 0 has none.
    pub train_loss: Option<f64>,
    /// Fraction of the test samples (of their positions) whose class has the highest score; nothing where there are no
    /// classes.
    pub test_accuracy: Option<f64>,
    /// Mean loss of the test samples where there are no classes.
    #[serde(default)]
    pub test_loss: Option<f64>,
}

/// How far an epoch is.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenEpoch {
    /// Its training steps so far; 0 between epochs.
    pub(crate) steps: usize,
    /// The sum of their losses.
    pub(crate) losses: f64,
}

/// The curves of runs, each with its name.
pub fn chart(title: &str, runs: &[(&str, &[EpochRecord])]) -> TrainingChart {
    let series = |value: fn(&EpochRecord) -> Option<f64>| {
        runs.iter()
            .map(|(name, records)| Series {
                name: (*name).to_string(),
                points: records.iter().filter_map(|r| Some((r.epoch as f64, value(r)?))).collect(),
            })
            .collect()
    };
    TrainingChart {
        title: title.to_string(),
        loss: series(|r| r.train_loss),
        accuracy: series(|r| r.test_accuracy.map(|accuracy| 100.0 * accuracy)),
    }
}
