//! Training algorithms as data: one TOML file each, in the four parts that Mandheling (Xu et al., MobiCom'22, table 2)
//! names: translation, backpropagation, weight, optimizer. A user's own file works like a built-in one.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use trainc_ir::attributes::Attribute;
use trainc_ir::text::cursor::Cursor;
use trainc_ir::text::nearest::did_you_mean;
use trainc_ir::{Element, Op, OpKind, TensorType};

use crate::egraph::pattern::{self, Template};
use crate::egraph::saturate::{Condition, Guard, Rewrite};

/// The built-in algorithm files: name and text.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("fp32", include_str!("../algorithms/fp32.toml")),
    ("niti", include_str!("../algorithms/niti.toml")),
    ("niti-finetune", include_str!("../algorithms/niti-finetune.toml")),
    ("quantized", include_str!("../algorithms/quantized.toml")),
];

/// How 8-bit results are made of sums.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EightBit {
    /// `(sum * scale + offset) >> shift`: at most one level from the model's rounding.
    #[default]
    ScaleShift,
    /// 255 thresholds a channel: exact.
    Threshold,
}

/// Why an algorithm file cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AlgorithmError {
    /// No built-in algorithm of that name.
    #[error("there is no algorithm `{name}`; built in are {}, or give the path of a .toml file", BUILT_IN.iter().map(|(n, _)| *n).collect::<Vec<_>>().join(", "))]
    Unknown {
        /// The name asked for.
        name: String,
    },
    /// The file is not valid TOML of this form.
    #[error("algorithm {file}: {message}")]
    Syntax {
        /// The file or built-in name.
        file: String,
        /// The parser's message, with the line.
        message: String,
    },
    /// A rule does not parse.
    #[error("algorithm {file}, rule `{rule}`: {message}")]
    Rule {
        /// The file or built-in name.
        file: String,
        /// The rule.
        rule: String,
        /// Why.
        message: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    title: String,
    #[serde(default)]
    paper: String,
    #[serde(default)]
    notes: String,
    /// Present for inference in integers alone; the other parts are then absent.
    inference: Option<Inference>,
    #[serde(default)]
    translation: Translation,
    #[serde(default)]
    backpropagation: Backpropagation,
    #[serde(default)]
    weight: WeightPart,
    optimizer: Option<OptimizerPart>,
}

/// Inference alone: a model's quantizers in integers.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct Inference {
    /// How 8-bit results are made.
    #[serde(default)]
    pub eight_bit: EightBit,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Translation {
    /// Pattern of the representation of an FP32 input; `?x` is the input. Absent: inputs stay FP32.
    input: Option<String>,
    /// Pattern of an FP32 output; `?q` is the lowered value.
    output: Option<String>,
    /// Operations of the forward graph that are left out: their first operand takes their place.
    #[serde(default)]
    remove: Vec<String>,
    /// Operations that may have FP32 operands or results in the lowered module; absent: all.
    float_operations: Option<Vec<String>>,
    /// What becomes of operations without a rule.
    #[serde(default)]
    otherwise: Otherwise,
    /// What becomes of batch normalization.
    #[serde(default)]
    batch_norm: BatchNormTreatment,
    /// Forms in 8 bits of forward values in other elements, by element; `?q` is the value.
    #[serde(default)]
    narrow: BTreeMap<String, String>,
    #[serde(default)]
    rules: Vec<RuleText>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Backpropagation {
    /// As in translation, of errors.
    #[serde(default)]
    narrow: BTreeMap<String, String>,
    #[serde(default)]
    rules: Vec<RuleText>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct WeightPart {
    /// Operation that turns a trainable FP32 parameter into its stored form; absent: FP32.
    quantizer: Option<String>,
    /// The same for biases; absent: as weights.
    bias_quantizer: Option<String>,
    /// Random initialisation of weights where the user asks for one.
    #[serde(default)]
    initialization: Initialization,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OptimizerPart {
    /// Element type of the step size input.
    learning_rate: String,
    /// Points of the schedule, by fraction of the training.
    schedule: Vec<SchedulePoint>,
    /// Factor of the last step in the next one: each weight then has one as state; absent: plain gradient descent.
    momentum: Option<f32>,
    #[serde(default)]
    rules: Vec<RuleText>,
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
struct RuleText {
    name: String,
    r#match: String,
    into: String,
    /// Guards such as `?a.role = gradient`.
    #[serde(default)]
    r#where: Vec<String>,
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

/// From this fraction of the training on, the step size is `value`.
#[derive(Deserialize, Clone, Copy, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub struct SchedulePoint {
    /// Fraction of the training, in [0, 1), from which the value holds.
    pub from: f64,
    /// Step size.
    pub value: f64,
}

/// An algorithm, read and checked.
#[derive(Debug)]
pub struct Algorithm {
    /// Name on the command line.
    pub name: String,
    /// One line.
    pub title: String,
    /// Reference.
    pub paper: String,
    /// Remarks for the user.
    pub notes: String,
    /// Present if the algorithm infers and does not train: see [`crate::quantized`].
    pub inference: Option<Inference>,
    /// Rules of the three parts, in order; empty if the algorithm computes in FP32 as it is.
    pub rules: Vec<Rewrite>,
    /// Form of an FP32 input, with `?x`.
    pub input: Option<Template>,
    /// Form of an FP32 output, with `?q`.
    pub output: Option<Template>,
    /// Operations left out of the model.
    pub remove: BTreeSet<OpKind>,
    /// Operations that may touch FP32; `None`: all.
    pub float_operations: Option<BTreeSet<OpKind>>,
    /// What becomes of operations without a rule.
    pub otherwise: Otherwise,
    /// What becomes of batch normalization.
    pub batch_norm: BatchNormTreatment,
    /// Forms in 8 bits of forward values in other elements.
    pub narrow: BTreeMap<Element, Template>,
    /// Forms in 8 bits of errors in other elements.
    pub narrow_error: BTreeMap<Element, Template>,
    /// How a trainable parameter is stored.
    pub quantizer: Option<Op>,
    /// How a bias is stored, if not as weights are.
    pub bias_quantizer: Option<Op>,
    /// Factor of the last step in the next one.
    pub momentum: Option<f32>,
    /// How weights are drawn.
    pub initialization: Initialization,
    /// Element type of the step size.
    pub learning_rate: Element,
    /// The built-in schedule, by fraction of the training.
    pub schedule: Vec<SchedulePoint>,
    /// The file's text, which names it in artifacts and checkpoints.
    pub text: String,
}

impl Algorithm {
    /// The built-in algorithm of that name.
    ///
    /// # Errors
    /// If there is none.
    pub fn built_in(name: &str) -> Result<Algorithm, AlgorithmError> {
        match BUILT_IN.iter().find(|(n, _)| *n == name) {
            Some((name, text)) => Algorithm::parse(name, text),
            None => Err(AlgorithmError::Unknown { name: name.to_string() }),
        }
    }

    /// Reads an algorithm file's text; `file` names it in errors.
    ///
    /// # Errors
    /// If the text is not TOML of this form, or a rule does not parse.
    pub fn parse(file: &str, text: &str) -> Result<Algorithm, AlgorithmError> {
        let parsed: File = toml::from_str(text).map_err(|e| AlgorithmError::Syntax {
            file: file.to_string(),
            message: with_nearest_word(&e.to_string()),
        })?;
        let fail = |rule: &str, message: String| AlgorithmError::Rule {
            file: file.to_string(),
            rule: rule.to_string(),
            message,
        };
        let mut rules = Vec::new();
        let texts = parsed
            .translation
            .rules
            .iter()
            .chain(&parsed.backpropagation.rules)
            .chain(parsed.optimizer.iter().flat_map(|o| &o.rules));
        for rule in texts {
            rules.push(read_rule(rule).map_err(|message| fail(&rule.name, message))?);
        }
        let kinds = |names: &[String], place: &str| {
            names
                .iter()
                .map(|name| OpKind::named(name).map_err(|message| fail(place, message)))
                .collect::<Result<BTreeSet<_>, _>>()
        };
        let template = |text: &Option<String>, place: &str| {
            text.as_ref()
                .map(|t| Template::parse(t).map_err(|e| fail(place, e.to_string())))
                .transpose()
        };
        let quantizer = parsed
            .weight
            .quantizer
            .as_ref()
            .map(|text| read_quantizer(text).map_err(|e| fail("weight.quantizer", e)))
            .transpose()?;
        let bias_quantizer = parsed
            .weight
            .bias_quantizer
            .as_ref()
            .map(|text| read_quantizer(text).map_err(|e| fail("weight.bias_quantizer", e)))
            .transpose()?;
        let narrowing = |texts: &BTreeMap<String, String>, place: &str| {
            let mut forms = BTreeMap::new();
            for (name, text) in texts {
                let element = Element::from_name(name).ok_or_else(|| {
                    let known: Vec<&str> = Element::ALL.iter().map(|e| e.name()).collect();
                    fail(place, format!("unknown element `{name}`; there are {}", known.join(", ")))
                })?;
                let form = Template::parse(text).map_err(|e| fail(place, e.to_string()))?;
                if form.parts().is_none() {
                    return Err(fail(place, "expected operations applied to ?q".into()));
                }
                forms.insert(element, form);
            }
            Ok(forms)
        };
        let trains = parsed.optimizer.is_some() || !rules.is_empty() || quantizer.is_some();
        if parsed.inference.is_some() && trains {
            let message = "an algorithm that only infers has no rules, weights and optimizer";
            return Err(fail("inference", message.into()));
        }
        let optimizer = match (parsed.optimizer, parsed.inference) {
            (Some(optimizer), _) => optimizer,
            // Nothing reads it.
            (None, Some(_)) => OptimizerPart {
                learning_rate: Element::F32.name().into(),
                schedule: vec![SchedulePoint { from: 0.0, value: 0.0 }],
                momentum: None,
                rules: Vec::new(),
            },
            (None, None) => {
                let message =
                    "the part `optimizer` is missing (or `inference`, for inference alone)";
                return Err(AlgorithmError::Syntax { file: file.into(), message: message.into() });
            }
        };
        let learning_rate = Element::from_name(&optimizer.learning_rate)
            .filter(|e| matches!(e, Element::F32 | Element::I32))
            .ok_or_else(|| {
                let message = format!(
                    "unknown element type `{}`, expected `f32` or `i32`",
                    optimizer.learning_rate
                );
                fail("optimizer.learning_rate", message)
            })?;
        if optimizer.schedule.first().is_none_or(|p| p.from != 0.0)
            || optimizer.schedule.windows(2).any(|w| w[0].from >= w[1].from)
            || optimizer.schedule.iter().any(|p| !(0.0..1.0).contains(&p.from))
        {
            return Err(fail(
                "optimizer.schedule",
                "expected points with ascending `from` below 1, the first at 0".into(),
            ));
        }
        if optimizer.momentum.is_some_and(|m| !(0.0..1.0).contains(&m)) {
            return Err(fail("optimizer.momentum", "expected a number from 0 to below 1".into()));
        }
        Ok(Algorithm {
            otherwise: parsed.translation.otherwise,
            batch_norm: parsed.translation.batch_norm,
            narrow: narrowing(&parsed.translation.narrow, "translation.narrow")?,
            narrow_error: narrowing(&parsed.backpropagation.narrow, "backpropagation.narrow")?,
            bias_quantizer,
            momentum: optimizer.momentum,
            input: template(&parsed.translation.input, "translation.input")?,
            output: template(&parsed.translation.output, "translation.output")?,
            remove: kinds(&parsed.translation.remove, "translation.remove")?,
            float_operations: parsed
                .translation
                .float_operations
                .as_ref()
                .map(|names| kinds(names, "translation.float_operations"))
                .transpose()?,
            rules,
            quantizer,
            initialization: parsed.weight.initialization,
            learning_rate,
            schedule: optimizer.schedule,
            inference: parsed.inference,
            name: parsed.name,
            title: parsed.title,
            paper: parsed.paper,
            notes: parsed.notes,
            text: text.to_string(),
        })
    }

    /// Whether the algorithm keeps the graph's FP32 meaning (no rule at all).
    pub fn is_identity(&self) -> bool {
        self.rules.is_empty() && self.inference.is_none()
    }

    /// Whether the exponent of an activation follows the values of its whole tensor, so that the examples of a batch share
    /// it and the result of one depends on the others.
    pub fn shares_exponents(&self) -> bool {
        !self.is_identity() && self.inference.is_none()
    }

    /// The step size for a step (from 0) of a training of `steps`.
    pub fn step_size(&self, step: u64, steps: u64) -> f64 {
        let fraction = step as f64 / steps.max(1) as f64;
        self.schedule
            .iter()
            .rev()
            .find(|point| point.from <= fraction)
            .map_or(0.0, |point| point.value)
    }
}

/// An operation that stores a parameter, and nothing after it.
fn read_quantizer(text: &str) -> Result<Op, String> {
    let mut cursor = Cursor::new(text);
    let op = Op::parse(&mut cursor).map_err(|e| e.to_string())?;
    if !cursor.at_end() {
        return Err(cursor
            .error(format!("text after the operation `{}`", op.kind().name()))
            .to_string());
    }
    let shape = [2, 2];
    match op.infer(&[&TensorType::f32(shape)]) {
        Err(e) => Err(format!("not an operation that stores an FP32 parameter: {e}")),
        Ok(results) if results.len() == 1 && results[0].shape == shape.into() => Ok(op),
        Ok(_) => Err(format!("`{op}` does not keep a parameter's shape")),
    }
}

/// A message of the TOML reader, with the word that was meant where it lists those it expects.
fn with_nearest_word(message: &str) -> String {
    let known = ["unknown field ", "unknown variant "];
    let words = message.lines().rev().find(|line| known.iter().any(|k| line.starts_with(k)));
    let mut words = words.unwrap_or_default().split('`').skip(1).step_by(2);
    let near = words.next().map_or_else(String::new, |word| did_you_mean(word, words));
    format!("{}{near}", message.trim_end())
}

fn read_rule(rule: &RuleText) -> Result<Rewrite, String> {
    let guards = rule.r#where.iter().map(|text| read_guard(text)).collect::<Result<_, _>>()?;
    pattern::rewrite(&rule.name, &rule.r#match, &rule.into, guards, Condition::Float)
}

/// Reads a guard such as `?a.role = gradient`.
pub(crate) fn read_guard(text: &str) -> Result<Guard, String> {
    let guard = || {
        let (place, equal, value) = match text.split_once("!=") {
            Some((place, value)) => (place, false, value),
            None => text.split_once('=').map(|(place, value)| (place, true, value))?,
        };
        let (variable, field) = place.trim().strip_prefix('?')?.split_once('.')?;
        Some(Guard {
            variable: variable.trim().to_string(),
            field: field.trim().to_string(),
            values: value.split('|').map(|v| v.trim().to_string()).collect(),
            equal,
        })
    };
    guard().ok_or_else(|| {
        format!(
            "`{text}` is not of the form `?variable.attribute = value`, `?variable.role = weight|bias`, or either with `!=`"
        )
    })
}
