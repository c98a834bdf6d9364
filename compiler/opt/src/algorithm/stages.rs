//! Stages of a training: steps with other values of an algorithm's parameters (other precisions), over one state.

use std::collections::BTreeMap;

use serde::Deserialize;
use trainc_ir::Element;
use trainc_ir::indicator::Indicator;
use trainc_ir::schedule::{Per, Point};

use super::dynamic::Dynamic;
use super::file::{PerText, PointText, schedule_per};
use super::inputs::ScheduledInput;
use super::parameters::Parameters;
use super::{Algorithm, AlgorithmError};

/// The schedule's name on the command line, and its function's in artifacts.
pub const STAGE: &str = "stage";
/// Most stages beside the algorithm's own step: each is code of its own.
const MOST: usize = 15;

/// `[stages]` of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StagesText {
    #[serde(default = "epochs")]
    per: PerText,
    /// Numbers of stages: 0 is the algorithm as it is, k entry k of `others`.
    #[serde(default)]
    schedule: Vec<PointText>,
    /// In place of a schedule.
    indicator: Option<IndicatorText>,
    others: Vec<StageText>,
}

fn epochs() -> PerText {
    PerText::Epoch
}

/// `[stages.indicator]` of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IndicatorText {
    order: Vec<u32>,
    #[serde(default = "five")]
    epochs: u32,
    threshold: f64,
    #[serde(default = "one")]
    decay: f64,
    #[serde(default)]
    decays: u32,
    #[serde(default = "ten")]
    average: u32,
}

fn five() -> u32 {
    5
}

fn one() -> f64 {
    1.0
}

fn ten() -> u32 {
    10
}

impl From<IndicatorText> for Indicator {
    fn from(text: IndicatorText) -> Indicator {
        let IndicatorText { order, epochs, threshold, decay, decays, average } = text;
        let (threshold, decay) = (threshold as f32, decay as f32);
        Indicator { order, epochs, threshold, decay, decays, average }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StageText {
    name: String,
    parameters: BTreeMap<String, f64>,
}

/// The stages of a training.
#[derive(Clone, PartialEq, Debug)]
pub struct Stages {
    /// Which stage runs: 0 for the algorithm's own step, then those of [`Stages::others`] from 1.
    pub choice: Choice,
    /// The steps beside the algorithm's own.
    pub others: Vec<Stage>,
}

/// What says which stage runs.
#[derive(Clone, PartialEq, Debug)]
pub enum Choice {
    /// How far the training is.
    Schedule(ScheduledInput),
    /// Its loss.
    Indicator(Indicator),
}

/// A training step with other values of parameters.
#[derive(Clone, PartialEq, Debug)]
pub struct Stage {
    /// Its name in the file.
    pub name: String,
    /// The values as the command line spells them: `a=4,w=4`.
    pub values: String,
}

impl Stage {
    /// The name of its function.
    pub fn function(&self) -> String {
        format!("train_step_{}", self.name)
    }
}

impl Stages {
    /// Reads what a file declares; errors are the key and what is wrong with it.
    pub(super) fn read(
        text: StagesText,
        parameters: &Parameters,
    ) -> Result<Stages, (String, String)> {
        let others = "stages.others".to_string();
        if !(1..=MOST).contains(&text.others.len()) {
            return Err((others, format!("1 to {MOST} stages, here {}", text.others.len())));
        }
        let mut stages: Vec<Stage> = Vec::new();
        for StageText { name, parameters: own } in text.others {
            let fail = |message: String| Err((others.clone(), format!("`{name}`: {message}")));
            let word = |part: &str| {
                let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
                !part.is_empty() && part.chars().all(known)
            };
            if !name.split('_').all(word) {
                return fail("a name is small letters and digits, `_` between".into());
            }
            if stages.iter().any(|stage| stage.name == name) {
                return fail("two stages have that name".into());
            }
            if own.is_empty() {
                return fail("it sets no parameter, and so is the algorithm's own step".into());
            }
            let values: Vec<String> =
                own.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let values = values.join(",");
            if let Err(message) = parameters.clone().set(&values) {
                return fail(message);
            }
            stages.push(Stage { name, values });
        }
        let key = |e| ("stages.schedule".to_string(), e);
        if let Some(indicator) = text.indicator {
            if !text.schedule.is_empty() {
                return Err(key("stages follow a schedule or an indicator, not both".into()));
            }
            let indicator = Indicator::from(indicator);
            let fail = |(key, e): (&str, String)| (format!("stages.indicator.{key}"), e);
            indicator.check(stages.len() + 1).map_err(fail)?;
            return Ok(Stages { choice: Choice::Indicator(indicator), others: stages });
        }
        let per = text.per.into();
        let points = schedule_per(&text.schedule, per).map_err(key)?;
        let schedule = Stages::schedule(points, per, stages.len()).map_err(key)?;
        Ok(Stages { choice: Choice::Schedule(schedule), others: stages })
    }

    /// A schedule of numbers of stages, of which there are so many beside the algorithm's own.
    fn schedule(points: Vec<Point>, per: Per, others: usize) -> Result<ScheduledInput, String> {
        let schedule = ScheduledInput {
            element: Element::I32,
            per,
            points,
            range: (0.0, others as f64),
            about: "which stage runs: 0 is the algorithm as it is".into(),
        };
        schedule.check(&schedule.points)?;
        Ok(schedule)
    }

    /// Has stages go by the user's schedule.
    ///
    /// # Errors
    /// If a point is no number of a stage.
    pub fn set_schedule(&mut self, points: &[Point]) -> Result<(), String> {
        let per = match &self.choice {
            Choice::Schedule(own) => own.per,
            Choice::Indicator(_) => Per::Epoch,
        };
        let schedule = Stages::schedule(points.to_vec(), per, self.others.len())?;
        self.choice = Choice::Schedule(schedule);
        Ok(())
    }

    /// The stage of a step, of so many, in an epoch, of so many (all from 0), behind epochs of these mean losses.
    pub fn at(
        &self,
        step: (u64, u64),
        epoch: (u64, u64),
        losses: impl IntoIterator<Item = f32>,
    ) -> usize {
        match &self.choice {
            Choice::Schedule(schedule) => schedule.value(step, epoch) as usize,
            Choice::Indicator(indicator) => indicator.stage(losses) as usize,
        }
    }
}

impl Algorithm {
    /// The algorithm in each of its other stages, with the names of their functions; what the user chose stays.
    ///
    /// # Errors
    /// If a stage's parameters give no algorithm, or one with another state.
    pub fn in_stages(&self) -> Result<Vec<(String, Algorithm)>, AlgorithmError> {
        let Some(stages) = &self.stages else { return Ok(Vec::new()) };
        let chosen = self.parameters.spelled();
        let chosen = chosen.strip_prefix(':').map(|own| format!("{own},")).unwrap_or_default();
        let each = |stage: &Stage| {
            let values = format!("{chosen}{}", stage.values);
            let staged = Algorithm::parse_one(&self.file, &self.text, Some(&values))?;
            if let Some(what) = self.state_differs(&staged) {
                return Err(AlgorithmError::Rule {
                    file: self.file.clone(),
                    rule: format!("stages.others.{}", stage.name),
                    message: format!(
                        "with {} {what} would be another: all stages share one state",
                        stage.values
                    ),
                });
            }
            let staged = Algorithm {
                otherwise: self.otherwise,
                optimizer: self.optimizer.clone(),
                chosen: self.chosen.clone(),
                learning_rate: self.learning_rate,
                schedule: self.schedule.clone(),
                range: self.range,
                recipe: self.recipe,
                stages: None,
                ..staged
            };
            Ok((stage.function(), staged))
        };
        stages.others.iter().map(each).collect()
    }

    /// What of the state an algorithm of the same file would have otherwise.
    fn state_differs(&self, other: &Algorithm) -> Option<&'static str> {
        let kept = |algorithm: &Algorithm| {
            let states = algorithm.forms.states.iter();
            states.map(|(name, kept)| (name.clone(), kept.initial.clone())).collect::<Vec<_>>()
        };
        let weights = (&self.quantizer, self.units, self.master);
        if weights != (&other.quantizer, other.units, other.master) {
            return Some("how weights are stored (`weight`)");
        }
        if self.bias_quantizer != other.bias_quantizer {
            return Some("how biases are stored (`weight.bias_quantizer`)");
        }
        if kept(self) != kept(other) {
            return Some("what is kept of values (`translation.state`)");
        }
        let gates = |algorithm: &Algorithm| algorithm.dynamic.as_ref().map(Dynamic::shape);
        if gates(self) != gates(other) {
            return Some("what gates are (`dynamic`)");
        }
        let added = |algorithm: &Algorithm| format!("{:?}", algorithm.added().collect::<Vec<_>>());
        (added(self) != added(other)).then_some("what rules add to the model (`model.rules`)")
    }
}
