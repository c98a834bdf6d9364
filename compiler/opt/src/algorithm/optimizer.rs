//! Optimizers as data: the state that one keeps, and the update as formulas over the weight, its gradient, that state
//! and the inputs. An algorithm names a built-in one or brings its own.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use trainc_ir::schedule::Point;
use trainc_ir::text::nearest::did_you_mean;

use super::file::{InputText, PointText, schedule};
use super::formula::Formula;
use super::inputs::{self, ScheduledInput};
use super::{AlgorithmError, with_nearest_word};
use crate::roles::{LAYERS, Role};

/// The built-in optimizer files: name and text.
pub const OPTIMIZERS: &[(&str, &str)] = &[
    ("sgd", include_str!("../../optimizers/sgd.toml")),
    ("nesterov", include_str!("../../optimizers/nesterov.toml")),
    ("adam", include_str!("../../optimizers/adam.toml")),
    ("adamw", include_str!("../../optimizers/adamw.toml")),
];

/// Name of the weight in formulas, and of its update.
pub const WEIGHT: &str = "w";
/// Name of the gradient in formulas.
pub const GRADIENT: &str = "g";
/// Name of the step size in formulas.
pub const RATE: &str = "learning_rate";

/// Names of what a weight that is kept in integers stands for: the size of a step, the least and the largest integer.
pub const GRID: [&str; 3] = ["scale", "least", "largest"];

/// A number that an optimizer's formulas use and its user may set.
#[derive(Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Its value where nobody sets it.
    pub default: f64,
    /// The least that it may be.
    pub min: Option<f64>,
    /// The most that it may be.
    pub max: Option<f64>,
    /// What it must stay below.
    pub below: Option<f64>,
    /// Whether it is a whole number.
    #[serde(default)]
    pub whole: bool,
    /// What it is.
    #[serde(default)]
    pub about: String,
}

impl Parameter {
    /// Whether it may be `value`.
    pub(super) fn check(&self, name: &str, value: f64) -> Result<(), String> {
        let fits = value.is_finite()
            && (!self.whole || value.fract() == 0.0)
            && self.min.is_none_or(|min| value >= min)
            && self.max.is_none_or(|max| value <= max)
            && self.below.is_none_or(|below| value < below);
        if fits { Ok(()) } else { Err(format!("`{name}` is {}, not {value}", self.range())) }
    }

    /// Its range in words.
    pub fn range(&self) -> String {
        let mut words = Vec::new();
        words.extend(self.min.map(|min| format!("at least {min}")));
        words.extend(self.max.map(|max| format!("at most {max}")));
        words.extend(self.below.map(|below| format!("below {below}")));
        match (self.whole, words.is_empty()) {
            (false, true) => "any number".to_string(),
            (false, false) => words.join(" and "),
            (true, true) => "a whole number".to_string(),
            (true, false) => format!("a whole number of {}", words.join(" and ")),
        }
    }
}

/// What a state is kept for.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub enum StateOf {
    /// Each trained parameter has one, of its shape.
    Weight,
    /// The step has one, a scalar.
    Step,
}

/// How a state is stored.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "snake_case")]
pub enum Stored {
    /// In FP32.
    #[default]
    F32,
    /// As the algorithm stores the weight that it is of.
    Weight,
}

/// State that lives across steps.
#[derive(Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Its name in formulas; a weight's is called `WEIGHT.NAME`, the step's `optimizer.NAME`.
    pub name: String,
    /// What it is kept for.
    pub of: StateOf,
    /// Its value before the first step.
    #[serde(default)]
    pub initial: f64,
    /// How it is stored.
    #[serde(default)]
    pub stored: Stored,
}

/// Parameters of the model that a value of an optimizer's parameter is for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Group {
    /// Those of a role.
    Role(Role),
    /// Weights of the products of a layer: see [`LAYERS`].
    Layer(&'static str),
    /// Those that the algorithm adds to the model under that name.
    Added(String),
}

impl Group {
    fn named(name: &str, added: &[String]) -> Result<Group, String> {
        if added.iter().any(|own| own == name) {
            return Ok(Group::Added(name.to_string()));
        }
        match LAYERS.into_iter().find(|layer| *layer == name) {
            Some(layer) => Ok(Group::Layer(layer)),
            None => Role::named(name).map(Group::Role).map_err(|e| {
                let layers = LAYERS.join(", ");
                match added {
                    [] => format!("{e}, and the layers {layers}"),
                    _ => format!(
                        "{e}, the layers {layers}, and of the algorithm's own {}",
                        added.join(", ")
                    ),
                }
            }),
        }
    }

    fn name(&self) -> &str {
        match self {
            Group::Role(role) => role.name(),
            Group::Layer(layer) => layer,
            Group::Added(name) => name,
        }
    }

    /// For people.
    fn words(&self) -> String {
        match self {
            Group::Added(name) => format!("of {name}"),
            Group::Role(role) => format!("of {}", role.name()),
            Group::Layer(layer) => {
                format!("in the {layer} layer{}", if *layer == "inner" { "s" } else { "" })
            }
        }
    }
}

/// An optimizer, as an algorithm's file has it or as a file of its own.
#[derive(Deserialize, Clone, PartialEq, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct OptimizerText {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) title: String,
    #[serde(default)]
    pub(super) paper: String,
    #[serde(default)]
    pub(super) parameters: BTreeMap<String, Parameter>,
    #[serde(default)]
    pub(super) state: Vec<State>,
    #[serde(default)]
    pub(super) update: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) epoch_end: BTreeMap<String, String>,
    /// Inputs of the step beside the step size.
    #[serde(default)]
    pub(super) inputs: BTreeMap<String, InputText>,
    /// The schedule of the step size where the algorithm gives none.
    #[serde(default)]
    pub(super) schedule: Vec<PointText>,
}

/// An optimizer, read and checked, with the values of its parameters.
#[derive(Clone, PartialEq, Debug)]
pub struct Optimizer {
    /// Name on the command line; empty if it is an algorithm's own.
    pub name: String,
    /// One line.
    pub title: String,
    /// Reference.
    pub paper: String,
    /// What its user may set.
    pub parameters: BTreeMap<String, Parameter>,
    /// What it keeps.
    pub state: Vec<State>,
    /// The formulas: of the weight, of each state, and of what they share.
    pub update: BTreeMap<String, Formula>,
    /// The formulas of an epoch's end: of the weight, of states, and of what they share.
    pub epoch_end: BTreeMap<String, Formula>,
    /// Inputs of the step that formulas may name beside the step size, each with its schedule.
    pub inputs: BTreeMap<String, ScheduledInput>,
    /// The schedule of the step size where the algorithm gives none.
    pub(super) schedule: Vec<Point>,
    /// Names of parameters that the algorithm adds to the model.
    pub(crate) added: Vec<String>,
    /// What was set, for all parameters or for those of a group.
    values: BTreeMap<(String, Option<Group>), f64>,
}

impl Optimizer {
    /// The built-in optimizer of that name.
    ///
    /// # Errors
    /// If there is none.
    pub fn built_in(name: &str) -> Result<Optimizer, AlgorithmError> {
        let found = OPTIMIZERS.iter().find(|(n, _)| *n == name);
        let Some((_, text)) = found else {
            return Err(AlgorithmError::UnknownOptimizer {
                name: name.to_string(),
                near: did_you_mean(name, OPTIMIZERS.iter().map(|(n, _)| *n)),
            });
        };
        let parsed = toml::from_str(text).map_err(|e| AlgorithmError::Syntax {
            file: name.to_string(),
            message: with_nearest_word(&e.to_string()),
        })?;
        Optimizer::read(parsed).map_err(|(place, message)| AlgorithmError::Rule {
            file: format!("optimizer {name}"),
            rule: place,
            message,
        })
    }

    /// Checks what a file says; errors are the key and what is wrong with it.
    pub(super) fn read(text: OptimizerText) -> Result<Optimizer, (String, String)> {
        let at = |place: String, message: String| (place, message);
        let formulas = |part: &str,
                        texts: &BTreeMap<String, String>|
         -> Result<_, (String, String)> {
            let mut formulas = BTreeMap::new();
            for (name, formula) in texts {
                let place = || format!("optimizer.{part}.{name}");
                let formula = Formula::parse(formula).map_err(|e| at(place(), e.to_string()))?;
                formulas.insert(name.clone(), formula);
            }
            Ok(formulas)
        };
        let update = formulas("update", &text.update)?;
        let epoch_end = formulas("epoch_end", &text.epoch_end)?;
        for (name, parameter) in &text.parameters {
            let place = format!("optimizer.parameters.{name}");
            parameter.check(name, parameter.default).map_err(|e| at(place, e))?;
        }
        let points = match &text.schedule[..] {
            [] => Vec::new(),
            points => schedule(points).map_err(|e| at("optimizer.schedule".into(), e))?,
        };
        let optimizer = Optimizer {
            name: text.name,
            title: text.title,
            paper: text.paper,
            parameters: text.parameters,
            state: text.state,
            update,
            epoch_end,
            inputs: inputs::read(&text.inputs)?,
            schedule: points,
            added: Vec::new(),
            values: BTreeMap::new(),
        };
        optimizer.check()?;
        Ok(optimizer)
    }

    fn check(&self) -> Result<(), (String, String)> {
        let mut taken = vec![WEIGHT, GRADIENT, RATE];
        taken.extend(GRID);
        for name in self.inputs.keys() {
            if taken.contains(&name.as_str()) {
                let place = format!("optimizer.inputs.{name}");
                return Err((place, format!("`{name}` has a meaning already")));
            }
            taken.push(name);
        }
        for state in &self.state {
            let place = || format!("optimizer.state.{}", state.name);
            let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if state.name.is_empty() || !state.name.chars().all(word) {
                return Err((place(), "a name is letters, digits and `_`".into()));
            }
            if taken.contains(&state.name.as_str()) || self.parameters.contains_key(&state.name) {
                return Err((place(), format!("`{}` has a meaning already", state.name)));
            }
            if state.of == StateOf::Step && state.stored == Stored::Weight {
                return Err((place(), "the step's state is stored in f32".into()));
            }
            let at_end = self.epoch_end.contains_key(&state.name);
            if !self.update.contains_key(&state.name) && !at_end {
                return Err((
                    place(),
                    format!("it has no formula in `update`: {} = ...", state.name),
                ));
            }
            if at_end && state.stored == Stored::Weight {
                let message = format!(
                    "`{}` is stored as its weight is, and formulas of an epoch's end are FP32",
                    state.name
                );
                return Err((format!("optimizer.epoch_end.{}", state.name), message));
            }
            taken.push(&state.name);
        }
        if !self.update.contains_key(WEIGHT) {
            return Err(("optimizer.update".into(), format!("there is no formula of `{WEIGHT}`")));
        }
        for name in self.inputs.keys() {
            let formulas = self.update.values().chain(self.epoch_end.values());
            let mut named = Vec::new();
            formulas.for_each(|formula| formula.names(&mut named));
            if !named.contains(&name.as_str()) {
                return Err((
                    format!("optimizer.inputs.{name}"),
                    format!("no formula names `?{name}`"),
                ));
            }
        }
        for name in self.parameters.keys() {
            if taken.contains(&name.as_str()) {
                let place = format!("optimizer.parameters.{name}");
                return Err((place, format!("`{name}` has a meaning already")));
            }
        }
        self.check_formulas("update", &self.update, &taken)?;
        // An epoch's end has no gradient.
        taken.retain(|name| *name != GRADIENT);
        self.check_formulas("epoch_end", &self.epoch_end, &taken)
    }

    fn check_formulas(
        &self,
        part: &str,
        formulas: &BTreeMap<String, Formula>,
        taken: &[&str],
    ) -> Result<(), (String, String)> {
        for (key, formula) in formulas {
            let place = || format!("optimizer.{part}.{key}");
            let given = [GRADIENT, RATE].iter().chain(&GRID).any(|name| name == key);
            let given = given || self.inputs.contains_key(key);
            if given || self.parameters.contains_key(key) {
                return Err((place(), format!("`{key}` has a meaning already")));
            }
            let step = self.state.iter().any(|s| s.name == *key && s.of == StateOf::Step);
            for name in self.names(formulas, formula) {
                let known = taken.iter().copied();
                let known = known.chain(self.parameters.keys().map(String::as_str));
                let known: Vec<&str> = known.chain(formulas.keys().map(String::as_str)).collect();
                if !known.contains(&name) {
                    let near = did_you_mean(name, known.iter().copied());
                    let known = known.iter().map(|name| format!("`?{name}`"));
                    let known = known.collect::<std::collections::BTreeSet<_>>();
                    let known: Vec<String> = known.into_iter().collect();
                    let message =
                        format!("there is no `?{name}`{near}; there are {}", known.join(", "));
                    return Err((place(), message));
                }
                let of_weight = |s: &State| s.name == name && s.of == StateOf::Weight;
                let own = [WEIGHT, GRADIENT].contains(&name) || GRID.contains(&name);
                if step && (own || self.state.iter().any(of_weight)) {
                    let message = format!("`?{name}` is a weight's, and `{key}` the step's");
                    return Err((place(), message));
                }
            }
            self.acyclic(formulas, key, &mut Vec::new()).map_err(|e| (place(), e))?;
        }
        Ok(())
    }

    /// The state that formulas of an epoch's end need for what no step changes: weights, and state of their own.
    pub(crate) fn read_at_epoch_end(&self) -> BTreeSet<usize> {
        let state = |name: &str| self.state.iter().position(|state| state.name == name);
        let own = |name: &str| name == WEIGHT || !self.update.contains_key(name);
        let mut keys: Vec<&str> =
            self.epoch_end.keys().map(String::as_str).filter(|key| own(key)).collect();
        let mut read = BTreeSet::new();
        while let Some(key) = keys.pop() {
            let Some(formula) = self.epoch_end.get(key) else { continue };
            for name in self.names(&self.epoch_end, formula) {
                if state(name).is_some_and(|index| read.insert(index)) {
                    keys.push(name);
                }
            }
        }
        read
    }

    /// Every name in a formula and in the shared formulas that it names.
    fn names<'a>(
        &self,
        formulas: &'a BTreeMap<String, Formula>,
        formula: &'a Formula,
    ) -> Vec<&'a str> {
        let mut names = Vec::new();
        formula.names(&mut names);
        let mut next = 0;
        while let Some(&name) = names.get(next) {
            next += 1;
            if let (true, Some(formula)) = (self.is_shared(name), formulas.get(name)) {
                let mut more = Vec::new();
                formula.names(&mut more);
                more.retain(|name| !names.contains(name));
                names.extend(more);
            }
        }
        names
    }

    /// What a formula needs of the step's own results must not need it.
    fn acyclic(
        &self,
        formulas: &BTreeMap<String, Formula>,
        key: &str,
        above: &mut Vec<String>,
    ) -> Result<(), String> {
        if above.iter().any(|k| k == key) {
            return Err(format!("`?{key}'` depends on itself"));
        }
        let Some(formula) = formulas.get(key) else { return Ok(()) };
        above.push(key.to_string());
        let mut stack = vec![formula];
        while let Some(formula) = stack.pop() {
            match formula {
                Formula::After(name) => self.acyclic(formulas, name, above)?,
                Formula::Before(name) if self.is_shared(name) => {
                    self.acyclic(formulas, name, above)?;
                }
                Formula::Apply(_, operands) | Formula::Result(_, _, operands) => {
                    stack.extend(operands);
                }
                Formula::Before(_) | Formula::Number(_) => {}
            }
        }
        above.pop();
        Ok(())
    }

    /// Whether a name may be that of a formula that is neither the weight's nor a state's.
    fn is_shared(&self, name: &str) -> bool {
        name != WEIGHT
            && (self.update.contains_key(name) || self.epoch_end.contains_key(name))
            && !self.state.iter().any(|state| state.name == name)
    }

    /// Sets parameters: `beta1=0.9,weight_decay=0.01,weight_decay.bias=0`, the last for parameters of that role or layer.
    ///
    /// # Errors
    /// If there is no such parameter, role or layer, or the value is out of range.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        for part in text.split(',') {
            let expected = || format!("expected NAME=NUMBER with commas between, not `{part}`");
            let (name, value) = part.split_once('=').ok_or_else(expected)?;
            let value: f64 = value.trim().parse().map_err(|_| expected())?;
            self.set_one(name.trim(), value)?;
        }
        Ok(())
    }

    /// Sets one parameter, `NAME`, `NAME.ROLE` or `NAME.LAYER`.
    ///
    /// # Errors
    /// As [`Optimizer::set`].
    pub fn set_one(&mut self, text: &str, value: f64) -> Result<(), String> {
        let (name, group) = match text.split_once('.') {
            Some((name, group)) => (name, Some(group)),
            None => (text, None),
        };
        let Some(parameter) = self.parameters.get(name) else {
            let known: Vec<&str> = self.parameters.keys().map(String::as_str).collect();
            let near = did_you_mean(name, known.iter().copied());
            return Err(match known[..] {
                [] => format!("there is no parameter `{name}`; the optimizer has none"),
                _ => {
                    format!("there is no parameter `{name}`{near}; there are {}", known.join(", "))
                }
            });
        };
        parameter.check(name, value)?;
        let group = group.map(|name| Group::named(name, &self.added)).transpose()?;
        if group.is_none() {
            // What is said of all goes over what a file says of one.
            self.values.retain(|(known, _), _| known != name);
        }
        self.values.insert((name.to_string(), group), value);
        Ok(())
    }

    /// The value of a parameter for a model's parameter of a role, in products of these layers, which the algorithm adds under that
    /// name (which goes over the layer, and that over the role); `None` if there is no such parameter.
    pub fn value(
        &self,
        name: &str,
        role: Option<Role>,
        layers: &[&'static str],
        added: Option<&str>,
    ) -> Option<f64> {
        let set = |group| self.values.get(&(name.to_string(), group)).copied();
        let layers = layers.iter().map(|layer| Group::Layer(layer));
        let added = added.map(|name| Group::Added(name.to_string()));
        let mut groups = added.into_iter().chain(layers).chain(role.map(Group::Role));
        let own = groups.find_map(|group| set(Some(group))).or_else(|| set(None));
        own.or_else(|| self.parameters.get(name).map(|p| p.default))
    }

    /// Under which of its names, by position, the algorithm adds the parameter of that name to the model, if it does.
    pub(crate) fn added_as(&self, parameter: &str) -> Option<usize> {
        let (_, own) = parameter.rsplit_once('.')?;
        self.added.iter().position(|name| name == own)
    }

    /// The optimizer with what was set, as the command line spells it.
    pub fn spelled(&self) -> String {
        let mut text = if self.name.is_empty() { "its own" } else { &self.name }.to_string();
        for (i, ((name, group), value)) in self.values.iter().enumerate() {
            let group =
                group.as_ref().map_or_else(String::new, |group| format!(".{}", group.name()));
            text.push_str(&format!("{}{name}{group}={value}", if i == 0 { ":" } else { "," }));
        }
        text
    }

    /// The values of all parameters, for people.
    pub fn described(&self) -> String {
        let one = |name: &String| {
            let value = self.value(name, None, &[], None).unwrap_or_default();
            let of_groups = self.values.iter().filter_map(|((n, group), value)| {
                group
                    .as_ref()
                    .filter(|_| n == name)
                    .map(|group| format!("{value} {}", group.words()))
            });
            let words: Vec<String> = std::iter::once(value.to_string()).chain(of_groups).collect();
            format!("{name} {}", words.join(", "))
        };
        let name = if self.name.is_empty() { "the algorithm's own" } else { &self.name };
        let words: Vec<String> = self.parameters.keys().map(one).collect();
        if words.is_empty() { name.to_string() } else { format!("{name} ({})", words.join("; ")) }
    }
}
