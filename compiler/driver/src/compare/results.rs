//! Finished runs in a file, a JSON object a line, so that a comparison that was cut short goes on.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Context, InFile, Result};
use crate::history::EpochRecord;

/// The file in the comparison's folder.
pub const RUNS: &str = "runs.jsonl";

/// A finished run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunRecord {
    /// A fingerprint of all that it depends on.
    pub key: String,
    /// The algorithm, as it was given.
    pub algorithm: String,
    /// Its seed.
    pub seed: u64,
    /// What each epoch gave, from before the first step on.
    pub history: Vec<EpochRecord>,
    /// Seconds of a training step, on average.
    pub step_seconds: f64,
    /// Under an algorithm whose widths are state: multiplications of a step by the bits of both operands, the mean of all steps (see
    /// [`StepCost::weighted_macs`](super::StepCost::weighted_macs)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weighted_macs: Option<f64>,
}

impl RunRecord {
    /// The test accuracy after the last epoch, of 1.
    pub fn accuracy(&self) -> Option<f64> {
        self.history.last().and_then(|record| record.test_accuracy)
    }
}

/// The runs that a folder keeps; none without a folder.
pub(super) struct Results {
    path: Option<PathBuf>,
    runs: Vec<RunRecord>,
}

impl Results {
    /// Makes the folder, or reads what it keeps.
    ///
    /// # Errors
    /// If it cannot be made, or its file is damaged. A last line without an end is that of a process that was killed, and is
    /// left out.
    pub(super) fn open(folder: Option<&Path>) -> Result<Results> {
        let Some(folder) = folder else { return Ok(Results { path: None, runs: Vec::new() }) };
        let path = folder.join(RUNS);
        std::fs::create_dir_all(folder)
            .with_context(|| format!("{}: cannot be made", folder.display()))?;
        let mut runs = Vec::new();
        if path.exists() {
            let text = std::fs::read_to_string(&path)
                .map_err(|e| InFile::new(&path, format!("cannot read: {e}")))?;
            let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
            for (number, line) in whole.lines().enumerate() {
                let run = serde_json::from_str(line).map_err(|e| {
                    InFile::new(&path, format!("line {}: no run of a comparison: {e}", number + 1))
                })?;
                runs.push(run);
            }
            if whole.len() < text.len() {
                std::fs::write(&path, whole)
                    .map_err(|e| InFile::new(&path, format!("cannot write: {e}")))?;
            }
        }
        Ok(Results { path: Some(path), runs })
    }

    /// The run with that key.
    pub(super) fn find(&self, key: &str) -> Option<&RunRecord> {
        self.runs.iter().find(|run| run.key == key)
    }

    /// Keeps a run.
    pub(super) fn add(&mut self, run: &RunRecord) -> Result<()> {
        if let Some(path) = &self.path {
            let text = serde_json::to_string(run).context("a run as JSON")?;
            let fail = |e: std::io::Error| InFile::new(path, format!("cannot write: {e}"));
            let mut file = OpenOptions::new().append(true).create(true).open(path).map_err(fail)?;
            file.write_all(format!("{text}\n").as_bytes()).map_err(fail)?;
        }
        self.runs.push(run.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(key: &str) -> RunRecord {
        let record = EpochRecord {
            epoch: 1,
            steps: 3,
            train_loss: Some(0.1),
            test_accuracy: Some(0.7),
            test_loss: None,
        };
        RunRecord {
            key: key.to_string(),
            algorithm: "niti".to_string(),
            seed: 4,
            history: vec![record],
            step_seconds: 0.001,
            weighted_macs: None,
        }
    }

    #[test]
    fn runs_are_kept_and_a_line_that_was_cut_short_is_not() {
        let folder = std::env::temp_dir().join(format!("trainc-compare-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let mut results = Results::open(Some(&folder)).expect("a folder");
        results.add(&run("a")).expect("written");
        results.add(&run("b")).expect("written");
        let path = folder.join(RUNS);
        let text = std::fs::read_to_string(&path).expect("the file");
        std::fs::write(&path, &text[..text.len() - 5]).expect("written");
        let mut results = Results::open(Some(&folder)).expect("reads");
        assert_eq!(results.find("a"), Some(&run("a")));
        assert_eq!(results.find("b"), None);
        results.add(&run("c")).expect("written");
        let results = Results::open(Some(&folder)).expect("reads");
        assert!(results.find("c").is_some() && results.runs.len() == 2);
        std::fs::write(&path, "{}\n").expect("written");
        let error = Results::open(Some(&folder)).err().expect("an error").to_string();
        assert!(error.contains("line 1"), "{error}");
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
