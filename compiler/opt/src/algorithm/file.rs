//! An algorithm file as TOML has it.

use std::collections::BTreeMap;

use serde::Deserialize;
use trainc_ir::schedule::{self, Per, Point, Position, Shape};

use super::EightBit;
use super::dynamic::DynamicText;
use super::optimizer::{Parameter, State};
use super::stages::StagesText;

fn float() -> String {
    "f32".to_string()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) name: String,
    pub(super) title: String,
    #[serde(default)]
    pub(super) paper: String,
    #[serde(default)]
    pub(super) notes: String,
    /// What is integer, in words.
    #[serde(default)]
    pub(super) integer: String,
    /// What is FP32, in words.
    #[serde(default)]
    pub(super) float: String,
    /// Present for inference in integers alone; the other parts are then absent.
    pub(super) inference: Option<Inference>,
    /// Numbers that texts use as `$(name)` and a user may set.
    #[serde(default)]
    pub(super) parameters: BTreeMap<String, Parameter>,
    #[serde(default)]
    pub(super) model: ModelPart,
    #[serde(default)]
    pub(super) translation: Translation,
    #[serde(default)]
    pub(super) backpropagation: Backpropagation,
    #[serde(default)]
    pub(super) weight: WeightPart,
    pub(super) optimizer: Option<OptimizerPart>,
    /// Training steps with other values of the parameters.
    pub(super) stages: Option<StagesText>,
    /// Widths of blocks that are chosen at an epoch's end.
    pub(super) widths: Option<WidthsText>,
    /// Precisions that each example chooses.
    pub(super) dynamic: Option<DynamicText>,
}

/// Inference alone: a model's quantizers in integers.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct Inference {
    /// How 8-bit results are made.
    #[serde(default)]
    pub eight_bit: EightBit,
}

/// What becomes of the model before it is differentiated.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct ModelPart {
    #[serde(default)]
    pub(super) rules: Vec<RuleText>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Translation {
    /// Pattern of the representation of an FP32 input; `?x` is the input. Absent: inputs stay FP32.
    pub(super) input: Option<String>,
    /// Pattern of an FP32 output; `?q` is the lowered value.
    pub(super) output: Option<String>,
    /// Operations of the forward graph that are left out: their first operand takes their place.
    #[serde(default)]
    pub(super) remove: Vec<String>,
    /// Operations that may have FP32 operands or results in the lowered module; absent: all.
    pub(super) float_operations: Option<Vec<String>>,
    /// What becomes of operations without a rule.
    pub(super) otherwise: Option<Otherwise>,
    /// What values are where no rule says otherwise: then only products need rules.
    pub(super) carrier: Option<Carrier>,
    /// What becomes of batch normalization.
    #[serde(default)]
    pub(super) batch_norm: BatchNormTreatment,
    /// Elementwise functions of a tensor of at least so many elements an example are one `formula` for the rules; absent: never.
    pub(super) gather_functions: Option<usize>,
    /// Forms in 8 bits of forward values in other elements, by element; `?q` is the value.
    #[serde(default)]
    pub(super) narrow: BTreeMap<String, String>,
    /// Forms of FP32 values by name; `?x` is the value.
    #[serde(default)]
    pub(super) forms: BTreeMap<String, FormText>,
    /// What is kept of values from step to step, whose forms ask for it.
    #[serde(default)]
    pub(super) state: Vec<StateText>,
    #[serde(default)]
    pub(super) rules: Vec<RuleText>,
}

/// What is kept of a value from step to step.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StateText {
    /// `(state{NAME} ?x)` in forms; the value's is called `VALUE.NAME`.
    pub(super) name: String,
    /// Its numbers before the first step; of blocks, the one of each.
    pub(super) initial: Vec<f64>,
    /// What has one.
    #[serde(default)]
    pub(super) of: KeptOf,
    /// The form of the value that is the next; absent: steps leave it as it is.
    pub(super) next: Option<String>,
}

/// What has a state of its own.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "snake_case")]
pub(super) enum KeptOf {
    /// A value.
    #[default]
    Value,
    /// Each block of a value.
    Block,
}

/// How widths of blocks are chosen at an epoch's end.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WidthsText {
    /// The state that has them.
    pub(super) state: String,
    /// Bits in the mean, a number or an expression of parameters.
    pub(super) budget: String,
    /// The most bits.
    pub(super) largest: f64,
    /// Share of the widths before in the next.
    pub(super) kept: f64,
    /// Rounds of the search.
    pub(super) rounds: u32,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Backpropagation {
    /// As in translation, of errors.
    #[serde(default)]
    pub(super) narrow: BTreeMap<String, String>,
    /// As in translation, of errors.
    #[serde(default)]
    pub(super) forms: BTreeMap<String, FormText>,
    /// What the loss is multiplied by for the backward pass; gradients are divided by it again where optimizers take them.
    pub(super) loss_scale: Option<f64>,
    #[serde(default)]
    pub(super) rules: Vec<RuleText>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct WeightPart {
    /// Operation that turns a trainable FP32 parameter into its stored form; absent: FP32.
    pub(super) quantizer: Option<String>,
    /// The same for biases; absent: as weights.
    pub(super) bias_quantizer: Option<String>,
    /// Forms of FP32 values by name, of weights.
    #[serde(default)]
    pub(super) forms: BTreeMap<String, FormText>,
    /// What weights are kept in.
    pub(super) units: Option<Units>,
    /// What optimizers work on in place of weights that are stored in integers, which are then made of it anew in each step.
    pub(super) master: Option<Master>,
    /// Random initialisation of weights where the user asks for one.
    #[serde(default)]
    pub(super) initialization: Initialization,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct OptimizerPart {
    /// Element type of the step size input.
    #[serde(default = "float")]
    pub(super) learning_rate: String,
    /// Points of the schedule, by fraction of the training; absent: the optimizer's.
    pub(super) schedule: Option<Vec<PointText>>,
    /// The least and the largest step size.
    pub(super) range: Option<[f64; 2]>,
    /// A built-in optimizer, in place of one that is written out here.
    pub(super) r#use: Option<String>,
    /// What its parameters are: `NAME`, or `"NAME.ROLE"` for those of one role.
    #[serde(default)]
    pub(super) with: BTreeMap<String, f64>,
    /// What a user may set.
    #[serde(default)]
    pub(super) parameters: BTreeMap<String, Parameter>,
    /// Inputs of the step beside the step size, that a schedule gives.
    #[serde(default)]
    pub(super) inputs: BTreeMap<String, InputText>,
    /// What is kept from step to step.
    #[serde(default)]
    pub(super) state: Vec<State>,
    /// Formulas of the weight `w`, of each state, and of what they share.
    #[serde(default)]
    pub(super) update: BTreeMap<String, String>,
    /// The same at an epoch's end.
    #[serde(default)]
    pub(super) epoch_end: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) rules: Vec<RuleText>,
}

/// An input that a schedule gives.
#[derive(Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct InputText {
    /// Its element type.
    #[serde(default = "float")]
    pub(super) element: String,
    /// What its schedule counts.
    #[serde(default)]
    pub(super) per: PerText,
    /// The points of its schedule.
    pub(super) schedule: Vec<PointText>,
    /// The least and the largest value.
    pub(super) range: Option<[f64; 2]>,
    /// What it is.
    #[serde(default)]
    pub(super) about: String,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Debug, Default)]
#[serde(rename_all = "snake_case")]
pub(super) enum PerText {
    #[default]
    Step,
    Epoch,
}

impl From<PerText> for Per {
    fn from(per: PerText) -> Per {
        match per {
            PerText::Step => Per::Step,
            PerText::Epoch => Per::Epoch,
        }
    }
}

/// What becomes of operations that no rule of the algorithm matches.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "snake_case")]
pub enum Otherwise {
    /// An error names them.
    #[default]
    Refuse,
    /// They are computed in FP32, between a dequantization and a quantization where neighbours are integers.
    Float,
}

/// What becomes of a model's batch normalization.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "snake_case")]
pub enum BatchNormTreatment {
    /// Where it trains (exported in training form) it stays; with frozen statistics it is folded into the convolution or
    /// matrix product before it, exactly, and stays where there is none.
    #[default]
    Keep,
    /// Folded with its running statistics, however it was exported; it stays where it cannot be folded.
    Fold,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleText {
    pub(super) name: String,
    pub(super) r#match: String,
    pub(super) into: String,
    /// Guards such as `?a.role = gradient`.
    #[serde(default)]
    pub(super) r#where: Vec<String>,
    /// In rules of the model: parameters that it gets.
    #[serde(default)]
    pub(super) parameters: Vec<AddedText>,
    /// In rules of the model: variables of parameters that stop training, `["?w"]`.
    #[serde(default)]
    pub(super) freezes: Vec<String>,
}

/// A parameter that a rule adds to the model.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AddedText {
    /// `?NAME` in `into`.
    pub(super) name: String,
    /// What has one each: `"?w"`, or `"result"`, the value that the rule replaces.
    pub(super) of: String,
    /// Axes of size 1.
    #[serde(default)]
    pub(super) single: Vec<usize>,
    /// First values.
    #[serde(default)]
    pub(super) initial: InitialText,
    /// Whether gradients update it.
    #[serde(default = "yes")]
    pub(super) trains: bool,
}

fn yes() -> bool {
    true
}

/// First values of a parameter.
#[derive(Deserialize, Clone, Copy, PartialEq, Debug)]
#[serde(untagged)]
pub(super) enum InitialText {
    /// All the same.
    Number(f64),
    /// Drawn.
    Drawn(DrawnText),
}

impl Default for InitialText {
    fn default() -> InitialText {
        InitialText::Number(0.0)
    }
}

#[derive(Deserialize, Clone, Copy, PartialEq, Debug)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum DrawnText {
    /// Uniform between plus and minus this.
    Uniform(f64),
    /// Normal, of this deviation.
    Normal(f64),
}

/// A form of an FP32 value.
#[derive(Deserialize, Clone)]
#[serde(untagged)]
pub(super) enum FormText {
    /// Whatever the parameters are.
    One(String),
    /// The first whose conditions hold.
    Choice(Vec<ChoiceText>),
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
pub(super) struct ChoiceText {
    /// Conditions on parameters, such as `$(bits) = 1`.
    #[serde(default)]
    pub(super) r#where: Vec<String>,
    pub(super) is: String,
}

/// Form texts by name, once one is chosen of each.
pub(super) fn form_texts(forms: &BTreeMap<String, FormText>) -> BTreeMap<String, String> {
    let text = |form: &FormText| match form {
        FormText::One(text) => text.clone(),
        FormText::Choice(choices) => choices.last().map(|c| c.is.clone()).unwrap_or_default(),
    };
    forms.iter().map(|(name, form)| (name.clone(), text(form))).collect()
}

/// How weights are drawn when training starts from scratch.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "snake_case")]
pub enum Initialization {
    /// Uniform in +-sqrt(6 / (fan_in + fan_out)).
    #[default]
    XavierUniform,
    /// Uniform in +-sqrt(6 / fan_in).
    KaimingUniform,
}

/// A point of a schedule.
#[derive(Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct PointText {
    from: FromText,
    value: f64,
    /// How it goes on to the next point.
    #[serde(default)]
    shape: ShapeText,
}

/// A fraction of the training, or steps as in `"100s"`.
#[derive(Deserialize, Clone, PartialEq, Debug)]
#[serde(untagged)]
enum FromText {
    Fraction(f64),
    Text(String),
}

#[derive(Deserialize, Clone, Copy, PartialEq, Debug, Default)]
#[serde(rename_all = "snake_case")]
enum ShapeText {
    #[default]
    Constant,
    Linear,
    Cosine,
}

/// The points of a schedule.
///
/// # Errors
/// If they are none.
pub(super) fn schedule(points: &[PointText]) -> Result<Vec<Point>, String> {
    schedule_per(points, Per::Step)
}

/// The points of a schedule that counts steps or epochs.
///
/// # Errors
/// If they are none.
pub(super) fn schedule_per(points: &[PointText], per: Per) -> Result<Vec<Point>, String> {
    let point = |point: &PointText| {
        let from = match &point.from {
            FromText::Fraction(from) => Position::Fraction(*from),
            FromText::Text(text) => Position::parse(text)?,
        };
        let shape = match point.shape {
            ShapeText::Constant => Shape::Constant,
            ShapeText::Linear => Shape::Linear,
            ShapeText::Cosine => Shape::Cosine,
        };
        Ok(Point { from, value: point.value, shape })
    };
    let points: Vec<Point> = points.iter().map(point).collect::<Result<_, String>>()?;
    schedule::check_per(&points, per)?;
    Ok(points)
}

/// What carries values from one product to the next.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Carrier {
    /// FP32: products alone are integer, and FP32 ones are refused.
    F32,
}

/// What weights that the model's file stores as integers are kept in.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Units {
    /// In steps of the file's integers: see [`crate::codes`].
    Codes,
}

/// The form of a master weight.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Master {
    /// FP32.
    F32,
}
