//! Training algorithms as data: one TOML file each, in the four parts that Mandheling (Xu et al., MobiCom'22, table 2)
//! names: translation, backpropagation, weight, optimizer. A user's own file works like a built-in one.

use std::collections::{BTreeMap, BTreeSet};

use trainc_ir::ops::formula::Function;
use trainc_ir::schedule::{self, Point};
use trainc_ir::text::nearest::did_you_mean;
use trainc_ir::{Element, Op, OpKind};

use self::dynamic::Dynamic;
pub use self::file::{
    BatchNormTreatment, Carrier, Inference, Initialization, Master, Otherwise, Units,
};
use self::file::{File, OptimizerPart};
use self::optimizer::{Optimizer, OptimizerText};
use self::parameters::Parameters;
pub(crate) use self::rules::read_guard;
use self::rules::{
    line_of, read_forms, read_model_rule, read_quantizer, read_rule, read_states, with_nearest_word,
};
use self::stages::Stages;
use self::widths::Widths;
use crate::egraph::forms::Named;
use crate::egraph::pattern::{self, Template};
use crate::egraph::saturate::{Body, Rewrite};
use crate::model_rules::{Added, ModelRule};

mod base;
pub mod dynamic;
mod file;
pub mod formula;
pub mod inputs;
pub mod optimizer;
pub mod parameters;
mod rules;
pub mod stages;
pub mod widths;

/// The built-in algorithm files: name and text.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("fp32", include_str!("../algorithms/fp32.toml")),
    ("niti", include_str!("../algorithms/niti.toml")),
    ("niti-2020", include_str!("../algorithms/niti-2020.toml")),
    ("niti-finetune", include_str!("../algorithms/niti-finetune.toml")),
    ("ui8", include_str!("../algorithms/ui8.toml")),
    ("sbm", include_str!("../algorithms/sbm.toml")),
    ("pfq", include_str!("../algorithms/pfq.toml")),
    ("dfq", include_str!("../algorithms/dfq.toml")),
    ("fractrain", include_str!("../algorithms/fractrain.toml")),
    ("dorefa", include_str!("../algorithms/dorefa.toml")),
    ("bnn-ste", include_str!("../algorithms/bnn-ste.toml")),
    ("fp8-chunk", include_str!("../algorithms/fp8-chunk.toml")),
    ("afp", include_str!("../algorithms/afp.toml")),
    ("mls", include_str!("../algorithms/mls.toml")),
    ("dynasty", include_str!("../algorithms/dynasty.toml")),
    ("wageubn", include_str!("../algorithms/wageubn.toml")),
    ("octo", include_str!("../algorithms/octo.toml")),
    ("priot", include_str!("../algorithms/priot.toml")),
    ("qas", include_str!("../algorithms/qas.toml")),
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
    /// No built-in optimizer of that name.
    #[error("there is no optimizer `{name}`{near}; there are {}", optimizer::OPTIMIZERS.iter().map(|(n, _)| *n).collect::<Vec<_>>().join(", "))]
    UnknownOptimizer {
        /// The name asked for.
        name: String,
        /// The nearest one, in words.
        near: String,
    },
    /// Values of its parameters that an algorithm does not take.
    #[error("algorithm `{algorithm}`: {message}")]
    Parameter {
        /// The algorithm.
        algorithm: String,
        /// Why.
        message: String,
    },
    /// An optimizer that the algorithm does not take.
    #[error("optimizer: algorithm `{algorithm}`: {message}")]
    Optimizer {
        /// The algorithm.
        algorithm: String,
        /// Why.
        message: String,
    },
    /// What the user asks of the training is nothing for the algorithm.
    #[error("{option}: algorithm `{algorithm}`: {message}")]
    Recipe {
        /// The option.
        option: &'static str,
        /// The algorithm.
        algorithm: String,
        /// Why.
        message: String,
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

/// What a user asks of a training beside algorithm and optimizer.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Recipe {
    /// Share of the loss that asks for all classes alike.
    pub label_smoothing: f64,
    /// The largest magnitude of a gradient's element.
    pub clip_value: Option<f64>,
    /// The largest Euclidean norm of all gradients together.
    pub clip_norm: Option<f64>,
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
    /// What is integer, in words.
    pub integer: String,
    /// What is FP32, in words.
    pub float: String,
    /// Present if the algorithm infers and does not train: see [`crate::quantized`].
    pub inference: Option<Inference>,
    /// Rules of the three parts, in order; empty if the algorithm computes in FP32 as it is.
    pub rules: Vec<Rewrite>,
    /// Rules on the model, before it is differentiated.
    pub model_rules: Vec<ModelRule>,
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
    /// What carries values between products, if no representation of the algorithm's does.
    pub carrier: Option<Carrier>,
    /// What becomes of batch normalization.
    pub batch_norm: BatchNormTreatment,
    /// The elements an example from which on elementwise functions of a tensor are one `formula` for the rules
    /// ([`crate::functions`]); `None`: never.
    pub gather_functions: Option<usize>,
    /// Forms in 8 bits of forward values in other elements.
    pub narrow: BTreeMap<Element, Template>,
    /// Forms in 8 bits of errors in other elements.
    pub narrow_error: BTreeMap<Element, Template>,
    /// Forms of FP32 values by name.
    pub forms: Named,
    /// What the loss is multiplied by for the backward pass.
    pub loss_scale: f64,
    /// How a trainable parameter is stored.
    pub quantizer: Option<Op>,
    /// How a bias is stored, if not as weights are.
    pub bias_quantizer: Option<Op>,
    /// How weights are updated.
    pub optimizer: Optimizer,
    /// The optimizer that the user chose, in the command line's words.
    pub chosen: Option<String>,
    /// Whether the file names its optimizer, so that another may take its place; else it is the file's own.
    pub names_optimizer: bool,
    /// What optimizers work on in place of weights that are stored in integers.
    pub master: Option<Master>,
    /// What weights are kept in that the model's file stores as integers; `None`: the values that they stand for.
    pub units: Option<Units>,
    /// How weights are drawn.
    pub initialization: Initialization,
    /// Element type of the step size.
    pub learning_rate: Element,
    /// The schedule of step sizes.
    pub schedule: Vec<Point>,
    /// The least and the largest step size.
    pub range: (f64, f64),
    /// What else the user asks of the training.
    pub recipe: Recipe,
    /// What its user may set, and the values.
    pub parameters: Parameters,
    /// Training steps with other values of the parameters.
    pub stages: Option<Stages>,
    /// Widths of blocks that are chosen at an epoch's end.
    pub widths: Option<Widths>,
    /// Precisions that each example chooses.
    pub dynamic: Option<Dynamic>,
    /// The file's text, which names it in artifacts and checkpoints.
    pub text: String,
    /// The file or built-in name.
    file: String,
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
        Algorithm::parse_with(file, text, None)
    }

    /// The algorithm with values of its parameters, as the command line spells them: `w=4,a=4`.
    ///
    /// # Errors
    /// If it has no such parameter, a value is out of range, or the file is no algorithm with them.
    pub fn with_parameters(self, values: &str) -> Result<Algorithm, AlgorithmError> {
        Algorithm::parse_with(&self.file, &self.text, Some(values))
    }

    /// Its name on the command line, with the values of parameters that are other than the file's.
    pub fn spelled(&self) -> String {
        format!("{}{}", self.name, self.parameters.spelled())
    }

    fn parse_with(
        file: &str,
        text: &str,
        values: Option<&str>,
    ) -> Result<Algorithm, AlgorithmError> {
        let algorithm = Algorithm::parse_one(file, text, values)?;
        algorithm.in_stages()?;
        Ok(algorithm)
    }

    /// Reads a file, whose stages are not looked at as algorithms.
    fn parse_one(
        file: &str,
        text: &str,
        values: Option<&str>,
    ) -> Result<Algorithm, AlgorithmError> {
        let syntax = |message: String| AlgorithmError::Syntax { file: file.to_string(), message };
        let mut parsed: File = match base::merged(text) {
            Some(merged) => merged.map_err(syntax)?.try_into(),
            None => toml::from_str(text),
        }
        .map_err(|e: toml::de::Error| syntax(with_nearest_word(&e.to_string())))?;
        let fail = |rule: &str, message: String| AlgorithmError::Rule {
            file: match line_of(text, rule) {
                Some(line) => format!("{file}, line {line}"),
                None => file.to_string(),
            },
            rule: rule.to_string(),
            message,
        };
        let declared = std::mem::take(&mut parsed.parameters);
        let mut parameters = Parameters::new(declared).map_err(|(place, e)| fail(&place, e))?;
        if let Some(values) = values {
            let algorithm = parsed.name.clone();
            parameters
                .set(values)
                .map_err(|message| AlgorithmError::Parameter { algorithm, message })?;
        }
        let stages = parsed.stages.take().map(|text| Stages::read(text, &parameters));
        let stages = stages.transpose().map_err(|(place, e)| fail(&place, e))?;
        parameters.apply(&mut parsed).map_err(|(place, e)| fail(&place, e))?;
        let mut model_rules = Vec::new();
        for rule in &parsed.model.rules {
            let read = read_model_rule(rule).map_err(|message| fail(&rule.name, message))?;
            model_rules.push(read);
        }
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
        let otherwise = match (parsed.translation.carrier, parsed.translation.otherwise) {
            (Some(_), Some(_)) => {
                let message = "a carrier says what becomes of operations without a rule: leave `otherwise` out";
                return Err(fail("translation.carrier", message.into()));
            }
            (Some(_), None) => Otherwise::Float,
            (None, otherwise) => otherwise.unwrap_or_default(),
        };
        let quantizer = parsed
            .weight
            .quantizer
            .as_ref()
            .map(|text| read_quantizer(text).map_err(|e| fail("weight.quantizer", e)))
            .transpose()?;
        if parsed.weight.units.is_some() && (quantizer.is_some() || parsed.weight.master.is_some())
        {
            let message = "weights in the file's integers have no `quantizer` and no `master`";
            return Err(fail("weight.units", message.into()));
        }
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
        let parts =
            [&parsed.translation.forms, &parsed.backpropagation.forms, &parsed.weight.forms]
                .map(file::form_texts);
        let parts = parts.each_ref();
        let named = |own: &BTreeMap<String, String>, part: &str| {
            read_forms(own, parts[0])
                .map_err(|(name, message)| fail(&format!("{part}.forms.{name}"), message))
        };
        let by_rules: BTreeSet<&str> = rules.iter().flat_map(Rewrite::defined_forms).collect();
        let forms = Named {
            forward: named(parts[0], "translation")?,
            backward: named(parts[1], "backpropagation")?,
            weight: named(parts[2], "weight")?,
            states: read_states(&parsed.translation.state, parts, &by_rules)
                .map_err(|(name, message)| fail(&name, message))?,
        };
        let widths = parsed.widths.as_ref().map(|text| Widths::read(text, &forms.states));
        let widths = widths.transpose().map_err(|(place, e)| fail(&place, e))?;
        let dynamic = parsed.dynamic.as_ref().map(Dynamic::read).transpose();
        let dynamic = dynamic.map_err(|(place, e)| fail(&place, e))?;
        let known_forms: BTreeSet<&str> = forms.names().into_iter().map(String::as_str).collect();
        let known_forms: BTreeSet<&str> = by_rules.iter().copied().chain(known_forms).collect();
        for rule in &rules {
            let Body::Patterns { forms: patterns, .. } = &rule.body else { continue };
            for form in patterns {
                let Some(states) = pattern::states_of_result(&form.right) else {
                    let message = "into: a state stands in forms, or is that of `?result`";
                    return Err(fail(&rule.name, message.into()));
                };
                if let Some(name) = states.iter().find(|&&name| !forms.states.contains_key(name)) {
                    let near = did_you_mean(name, forms.states.keys().map(String::as_str));
                    let message =
                        format!("there is no state `{name}`{near}: [[translation.state]]");
                    return Err(fail(&rule.name, message));
                }
            }
            let named = patterns.iter().flat_map(|form| pattern::forms(&form.right));
            for name in named.filter(|name| !name.starts_with(pattern::STATE)) {
                if !known_forms.contains(name) {
                    let near = did_you_mean(name, known_forms.iter().copied());
                    return Err(fail(&rule.name, format!("there is no form `{name}`{near}")));
                }
            }
        }
        let loss_scale = parsed.backpropagation.loss_scale.unwrap_or(1.0);
        if !(loss_scale > 0.0 && (loss_scale as f32).is_normal()) {
            let message = format!("expected a number above 0, here {loss_scale}");
            return Err(fail("backpropagation.loss_scale", message));
        }
        let trains = parsed.optimizer.is_some() || !rules.is_empty() || quantizer.is_some();
        if stages.is_some() && parsed.inference.is_some() {
            return Err(fail("stages", "an algorithm that only infers has no stages".into()));
        }
        if parsed.inference.is_some() && trains {
            let message = "an algorithm that only infers has no rules, weights and optimizer";
            return Err(fail("inference", message.into()));
        }
        let part = match (parsed.optimizer, parsed.inference) {
            (Some(part), _) => part,
            // Nothing reads it.
            (None, Some(_)) => OptimizerPart {
                learning_rate: Element::F32.name().into(),
                r#use: Some("sgd".into()),
                ..OptimizerPart::default()
            },
            (None, None) => {
                let message =
                    "the part `optimizer` is missing (or `inference`, for inference alone)";
                return Err(AlgorithmError::Syntax { file: file.into(), message: message.into() });
            }
        };
        let learning_rate = inputs::element(&part.learning_rate)
            .map_err(|message| fail("optimizer.learning_rate", message))?;
        let names_optimizer = part.r#use.is_some();
        let points = part.schedule.as_deref().map(file::schedule).transpose();
        let points = points.map_err(|e| fail("optimizer.schedule", e))?;
        let range = inputs::range(part.range, [0.0, f64::INFINITY])
            .map_err(|message| fail("optimizer.range", message))?;
        let added = model_rules.iter().flat_map(|rule: &ModelRule| &rule.parameters);
        let added: Vec<String> = added.map(|own| own.name.clone()).collect();
        let optimizer = read_optimizer(part, added).map_err(|e| match e {
            Unread::Optimizer(e) => e,
            Unread::Key(place, message) => fail(&place, message),
        })?;
        let schedule = points.unwrap_or_else(|| optimizer.schedule.clone());
        if schedule.is_empty() {
            return Err(fail("optimizer.schedule", "it is missing".into()));
        }
        Ok(Algorithm {
            otherwise,
            loss_scale,
            carrier: parsed.translation.carrier,
            gather_functions: parsed.translation.gather_functions,
            batch_norm: parsed.translation.batch_norm,
            narrow: narrowing(&parsed.translation.narrow, "translation.narrow")?,
            narrow_error: narrowing(&parsed.backpropagation.narrow, "backpropagation.narrow")?,
            forms,
            bias_quantizer,
            optimizer,
            chosen: None,
            names_optimizer,
            master: parsed.weight.master,
            units: parsed.weight.units,
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
            model_rules,
            quantizer,
            initialization: parsed.weight.initialization,
            learning_rate,
            schedule,
            range,
            recipe: Recipe::default(),
            inference: parsed.inference,
            name: parsed.name,
            title: parsed.title,
            paper: parsed.paper,
            notes: parsed.notes,
            integer: parsed.integer,
            float: parsed.float,
            parameters,
            stages,
            widths,
            dynamic,
            text: text.to_string(),
            file: file.to_string(),
        })
    }

    /// The parameters that the algorithm's rules add to models.
    pub fn added(&self) -> impl Iterator<Item = &Added> {
        self.model_rules.iter().flat_map(|rule| &rule.parameters)
    }

    /// Whether the algorithm keeps the graph's FP32 meaning (no rule at all).
    pub fn is_identity(&self) -> bool {
        self.rules.is_empty() && self.inference.is_none()
    }

    /// The algorithm with another optimizer, as the command line spells it: `adamw`, `adamw:beta1=0.8,weight_decay.bias=0`.
    ///
    /// # Errors
    /// If the algorithm brings its own, there is none of that name, or a parameter is none of its own or out of range.
    pub fn with_optimizer(mut self, text: &str) -> Result<Algorithm, AlgorithmError> {
        let (name, values) = match text.split_once(':') {
            Some((name, values)) => (name, Some(values)),
            None => (text, None),
        };
        let fail =
            |message: String| AlgorithmError::Optimizer { algorithm: self.name.clone(), message };
        if !self.names_optimizer || self.inference.is_some() {
            return Err(fail(match self.inference {
                Some(_) => "it only infers".to_string(),
                None => "its file writes out an update of its own, which is part of the algorithm; algorithms whose \
                         file names an optimizer (`use = \"sgd\"`) take another"
                    .to_string(),
            }));
        }
        let mut optimizer = Optimizer::built_in(name)?;
        optimizer.added.clone_from(&self.optimizer.added);
        if name == self.optimizer.name {
            optimizer = self.optimizer.clone();
        } else {
            self.schedule.clone_from(&optimizer.schedule);
        }
        if let Some(values) = values {
            optimizer.set(values).map_err(fail)?;
        }
        self.optimizer = optimizer;
        self.chosen = Some(self.optimizer.spelled());
        Ok(self)
    }

    /// Whether weights that are stored in integers get their new value from FP32 formulas.
    pub fn updates_in_float(&self) -> bool {
        let mut operations = Vec::new();
        let formulas = self.optimizer.update.values().chain(self.optimizer.epoch_end.values());
        formulas.for_each(|f| f.operations(&mut operations));
        self.master.is_some()
            || self.optimizer.epoch_end.contains_key(optimizer::WEIGHT)
            || operations.iter().any(|kind| Function::of(*kind).is_some()) && !self.rules.is_empty()
    }

    /// The algorithm without FP32 for operations that it has no rule for: they are refused. A carrier is the algorithm's own.
    pub fn strict(mut self) -> Algorithm {
        if self.carrier.is_none() && !self.is_identity() {
            self.otherwise = Otherwise::Refuse;
        }
        self
    }

    /// The operation that a recipe would need in FP32 and that the algorithm's rules take, if there is one.
    fn integer(&self, needed: &[OpKind]) -> Option<OpKind> {
        let of_rules: Vec<OpKind> = self.rules.iter().flat_map(Rewrite::matched).collect();
        needed.iter().copied().find(|kind| of_rules.contains(kind))
    }

    /// The algorithm with what the user asks of the training.
    ///
    /// # Errors
    /// If the algorithm cannot: its loss's gradient, or its update's gradients, are integers.
    pub fn with_recipe(mut self, recipe: Recipe) -> Result<Algorithm, AlgorithmError> {
        let name = self.name.clone();
        let fail = |option: &'static str, message: String| {
            Err(AlgorithmError::Recipe { option, algorithm: name.clone(), message })
        };
        if recipe.label_smoothing > 0.0
            && let Some(kind) = self.integer(&[OpKind::SoftmaxCrossEntropyGradient])
        {
            let message = format!(
                "its rules compute `{}` in integers, from one label an example",
                kind.name()
            );
            return fail("label-smoothing", message);
        }
        let clipped = match (recipe.clip_value, recipe.clip_norm) {
            (Some(_), Some(_)) => {
                return fail("clip-norm", "give it or `clip-value`, not both".into());
            }
            (Some(_), None) => "clip-value",
            (None, Some(_)) => "clip-norm",
            (None, None) => "",
        };
        let mut operations = Vec::new();
        self.optimizer.update.values().for_each(|f| f.operations(&mut operations));
        operations.retain(|kind| Function::of(*kind).is_none());
        if let (false, Some(kind)) = (clipped.is_empty(), self.integer(&operations)) {
            let message = format!("its update (`{}`) takes gradients in integers", kind.name());
            return fail(clipped, message);
        }
        self.recipe = recipe;
        Ok(self)
    }

    /// Whether the exponent of an activation follows the values of its whole tensor, so that the examples of a batch share
    /// it and the result of one depends on the others.
    pub fn shares_exponents(&self) -> bool {
        !self.is_identity() && self.inference.is_none()
    }

    /// The step size for a step (from 0) of a training of `steps`.
    pub fn step_size(&self, step: u64, steps: u64) -> f64 {
        schedule::value(&self.schedule, step, steps)
    }
}

/// Why an optimizer cannot be read.
enum Unread {
    /// The built-in one.
    Optimizer(AlgorithmError),
    /// A key of the file, and what is wrong with it.
    Key(String, String),
}

fn read_optimizer(part: OptimizerPart, added: Vec<String>) -> Result<Optimizer, Unread> {
    let OptimizerPart { r#use, with, parameters, state, update, inputs, epoch_end, .. } = part;
    let mut optimizer = match r#use {
        Some(name) => {
            let none = parameters.is_empty() && state.is_empty() && update.is_empty();
            if !(none && inputs.is_empty() && epoch_end.is_empty()) {
                let message = format!(
                    "with `use = \"{name}\"` it has no parameters, inputs, state, update and epoch_end of its own"
                );
                return Err(Unread::Key("optimizer".into(), message));
            }
            Optimizer::built_in(&name).map_err(Unread::Optimizer)?
        }
        None => {
            let text = OptimizerText {
                parameters,
                state,
                update,
                epoch_end,
                inputs,
                ..OptimizerText::default()
            };
            Optimizer::read(text).map_err(|(place, message)| Unread::Key(place, message))?
        }
    };
    optimizer.added = added;
    for (name, value) in &with {
        let place = || format!("optimizer.with.{name}");
        optimizer.set_one(name, *value).map_err(|e| Unread::Key(place(), e))?;
    }
    Ok(optimizer)
}
