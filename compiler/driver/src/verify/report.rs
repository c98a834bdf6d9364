//! What a verification found.

use serde::Serialize;

use super::compare::Difference;

/// The outcome of a verification.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// The artifact's model.
    pub name: String,
    /// Its target.
    pub target: String,
    /// Whether every result of every call equals the reference's, bit for bit.
    pub bit_exact: bool,
    /// Training steps one after another.
    pub steps: u32,
    /// Seed of data and random numbers.
    pub seed: u64,
    /// The compiler's command.
    pub compiler: String,
    /// The emulator's command, if there is one.
    pub runner: Option<String>,
    /// Calls in order: up to and with the first that failed, then those that were left out.
    pub calls: Vec<CallReport>,
    /// Elements that were compared.
    pub elements: u64,
    /// What is wrong.
    pub finding: Option<Finding>,
    /// What each launch of the first step costs, if a simulator counted it: entries and launches in order.
    pub launches: Vec<LaunchCost>,
    /// What these counts assume of the machine.
    pub model: Option<&'static str>,
    /// What the user should know: edited files, what could not be checked.
    pub notes: Vec<String>,
}

/// One call of an entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CallReport {
    /// `step 0`, or the kind of extreme data.
    pub case: String,
    /// The entry; `init` for the initial state.
    pub entry: String,
    /// What came of it.
    pub outcome: Outcome,
}

impl CallReport {
    pub(super) fn new(case: &str, entry: &str, outcome: Outcome) -> CallReport {
        CallReport { case: case.to_string(), entry: entry.to_string(), outcome }
    }
}

/// What a launch costs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LaunchCost {
    /// The entry.
    pub entry: String,
    /// The launch's number in the entry.
    pub launch: usize,
    /// Its kernel.
    pub kernel: String,
    /// The model's node that it stems from.
    pub node: String,
    /// For each build that the simulator counts, in one order.
    pub costs: Vec<Cost>,
}

/// Counts of a build.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Cost {
    /// What it runs on: `1 core`.
    pub on: &'static str,
    /// Instructions, of all cores.
    pub instructions: u64,
    /// Cycles.
    pub cycles: u64,
}

/// What came of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Every bit as the reference has it.
    Equal,
    /// See [`Report::finding`].
    Failed,
    /// Not run, because an earlier one failed.
    Skipped,
}

/// The first failure.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// The call's case.
    pub case: String,
    /// The number of the training step, as random numbers see it.
    pub step: u32,
    /// The entry; `init` for the initial state.
    pub entry: String,
    /// Results and state that differ after the call.
    pub differences: Vec<Difference>,
    /// Memory that was written beyond an end.
    pub overruns: Vec<String>,
    /// How the program ended, if it did not return.
    pub crash: Option<String>,
    /// The first launch that went wrong.
    pub launch: Option<LaunchFinding>,
    /// Why no launch is named.
    pub remark: Option<String>,
}

/// A launch that went wrong, all launches before it having been right.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LaunchFinding {
    /// Its number in the entry.
    pub launch: usize,
    /// Its kernel.
    pub kernel: String,
    /// The kernel's operation.
    pub operation: String,
    /// The model's node that it stems from.
    pub node: String,
    /// Results that differ.
    pub differences: Vec<Difference>,
    /// Memory that was written beyond an end.
    pub overruns: Vec<String>,
    /// What else is wrong with it.
    pub remark: Option<String>,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let steps = if self.case.starts_with("step ") { "" } else { "data: " };
        write!(f, "{steps}{}, entry `{}`", self.case, self.entry)?;
        if let Some(crash) = &self.crash {
            write!(f, "\n  the program ended early: {crash}")?;
        }
        for place in &self.overruns {
            write!(f, "\n  {place} was written beyond its end")?;
        }
        for difference in &self.differences {
            write!(f, "\n  {difference}")?;
        }
        if let Some(launch) = &self.launch {
            write!(
                f,
                "\nfirst wrong launch: {}, kernel `{}` for node `{}`\n  {}",
                launch.launch, launch.kernel, launch.node, launch.operation
            )?;
            for place in &launch.overruns {
                write!(f, "\n  {place} was written beyond its end")?;
            }
            for difference in &launch.differences {
                write!(f, "\n  {difference}")?;
            }
            if let Some(remark) = &launch.remark {
                write!(f, "\n  {remark}")?;
            }
        }
        if let Some(remark) = &self.remark {
            write!(f, "\n{remark}")?;
        }
        Ok(())
    }
}
