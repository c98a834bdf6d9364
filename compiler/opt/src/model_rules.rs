//! What an algorithm makes of a model before it is differentiated: rules on the FP32 graph, so that gradients go through what
//! they put in place.

use std::collections::{BTreeMap, BTreeSet};

use trainc_ir::graph::{Copied, Definition, Graph, Node, ValueId};
use trainc_ir::ops::TypeError;
use trainc_ir::ops::properties::Property;
use trainc_ir::random::RunContext;
use trainc_ir::text::nearest::did_you_mean;
use trainc_ir::{Op, Shape, Tensor};

use crate::egraph::pattern::{Attributes, Part, RESULT, Single, Template};
use crate::egraph::saturate::{Body, Form, Guard, Rewrite, fact};
use crate::freeze::freeze;
use crate::roles::Roles;

/// A rule of the model that was applied, and the node.
pub type Applied = (String, String);

/// A rule of the model.
#[derive(Clone, Debug)]
pub struct ModelRule {
    /// What it matches and puts in place.
    pub rewrite: Rewrite,
    /// Parameters that the model gets by it.
    pub parameters: Vec<Added>,
    /// Variables of `match`, without the question mark, whose parameters stop training.
    pub freezes: Vec<String>,
}

/// A parameter that a rule adds to the model. It is the model's own from then on: planned, kept in checkpoints, exported and restored
/// as weights are.
#[derive(Clone, PartialEq, Debug)]
pub struct Added {
    /// Its variable in `into`; its own name is `OF.NAME`, behind the name of what has one.
    pub name: String,
    /// What has one, by its variable in `match`; `None`: the value that the rule replaces.
    pub of: Option<String>,
    /// Axes of that one's shape that are 1 here.
    pub single: Vec<usize>,
    /// First values.
    pub initial: First,
    /// Whether gradients update it.
    pub trains: bool,
}

/// First values of a parameter that a rule adds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum First {
    /// All the same.
    Number(f64),
    /// Uniform between plus and minus this.
    Uniform(f64),
    /// Normal, of this deviation.
    Normal(f64),
}

impl Added {
    /// For people.
    pub fn described(&self) -> String {
        let of = self.of.as_deref().map_or("a result".to_string(), |name| format!("each ?{name}"));
        let single = match &self.single[..] {
            [] => String::new(),
            axes => format!(", axes {axes:?} of size 1"),
        };
        let first = match self.initial {
            First::Number(value) => format!("at first {value}"),
            First::Uniform(bound) => format!("at first uniform within {bound}"),
            First::Normal(deviation) => format!("at first normal with deviation {deviation}"),
        };
        let trains = if self.trains { "" } else { ", not trained" };
        format!("{} of {of}{single}, FP32, {first}{trains}", self.name)
    }

    /// Its first values, drawn by its name.
    pub(crate) fn first(&self, name: &str, shape: &Shape, seed: u64) -> Tensor {
        let stream = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let run = RunContext { seed: seed ^ stream, step: 0 };
        let unit = |stream: u32, i: usize| {
            (f64::from(run.draw(u32::MAX - stream, i as u32)) + 0.5) / 4_294_967_296.0
        };
        let value = |i: usize| match self.initial {
            First::Number(value) => value,
            First::Uniform(bound) => (2.0 * unit(0, i) - 1.0) * bound,
            // The sum of twelve uniform numbers less 6: the same bits on every machine.
            First::Normal(deviation) => {
                let sum: f64 = (0..12).map(|stream| unit(stream, i)).sum();
                (sum - 6.0) * deviation
            }
        };
        Tensor::f32(shape.clone(), (0..shape.count()).map(|i| value(i) as f32).collect())
    }
}

/// A model with an algorithm's rules applied.
#[derive(Clone, Debug)]
pub struct Ruled {
    /// The forward graph.
    pub graph: Graph,
    /// The rules that were applied, by name, each with its node's name.
    pub applied: Vec<Applied>,
    /// Names of the parameters that are constants now.
    pub frozen: Vec<String>,
}

/// The forward graph with an algorithm's rules of the model applied: for each node the first rule that matches it. What a rule puts
/// in place is not matched again. `seed` draws first values of parameters that rules add.
///
/// # Errors
/// If what a rule puts in place has no types, a parameter cannot be added, or what is frozen is none: the rule and why.
pub fn apply_model_rules(
    graph: &Graph,
    rules: &[ModelRule],
    seed: u64,
) -> Result<Ruled, TypeError> {
    let mut applied = Vec::new();
    if rules.is_empty() {
        return Ok(Ruled { graph: graph.clone(), applied, frozen: Vec::new() });
    }
    let roles = Roles::of(graph);
    let mut result = Graph::new(graph.name());
    let mut new: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    let mut taken: BTreeSet<usize> = BTreeSet::new();
    graph.copy_changed(&mut result, &mut new, |target, new, v| {
        let Some(node) = graph.producer(v).filter(|node| node.outputs.len() == 1) else {
            return Ok(Copied::AsItIs);
        };
        let found = rules.iter().find_map(|rule| {
            let found = matched(graph, &roles, &rule.rewrite, node)?;
            let kept = |variable: &String| moved_from(graph, found.1[variable]).is_some();
            rule.freezes.iter().all(kept).then_some((rule, found))
        });
        let Some((rule, (form, bound))) = found else { return Ok(Copied::AsItIs) };
        let name = &rule.rewrite.name;
        let failed =
            |e: TypeError| TypeError::new(format!("rule `{name}` at `{}`: {e}", node.name));
        let mut added = BTreeMap::new();
        for parameter in &rule.parameters {
            let of = parameter.of.as_ref().map_or(v, |of| bound[of]);
            let value = parameter_of(graph, target, parameter, of, seed).map_err(failed)?;
            added.insert(parameter.name.as_str(), value);
        }
        for variable in &rule.freezes {
            taken.extend(moved_from(graph, bound[variable]));
        }
        let build = || Template::of(&form.right).parts();
        let parts = build().ok_or_else(|| TypeError::new("operations and numbers alone"))?;
        let value =
            |name: &str| added.get(name).copied().or_else(|| bound.get(name).map(|v| new[v]));
        let value = built(target, node, &parts, &value).map_err(failed)?;
        target.set_name(value, &graph.value(v).name);
        applied.push((name.clone(), node.name.clone()));
        Ok(Copied::As(value))
    })?;
    graph.copy_roots(&mut result, &new);
    let name = |i: &usize| graph.value(graph.parameters()[*i].value).name.clone();
    let frozen: Vec<String> = taken.iter().map(name).collect();
    if !frozen.is_empty() {
        let own = frozen.iter().filter_map(|name| result.parameter_named(name)).collect();
        result = freeze(&result, &own)?;
    }
    Ok(Ruled { graph: result, applied, frozen })
}

/// The parameter that a value is, or is moved from (transposed, sliced): what can be frozen.
fn moved_from(graph: &Graph, mut v: ValueId) -> Option<usize> {
    loop {
        match graph.value(v).definition {
            Definition::Parameter(i) => return Some(i),
            _ => {
                let node = graph.producer(v)?;
                let kind = node.op.kind();
                let moves = kind.has(Property::Moves) && !kind.has(Property::Variadic);
                v = *node.inputs.first().filter(|_| moves)?;
            }
        }
    }
}

/// The parameter that a rule adds for a value of the model, which the graph gets the first time.
fn parameter_of(
    graph: &Graph,
    target: &mut Graph,
    parameter: &Added,
    of: ValueId,
    seed: u64,
) -> Result<ValueId, TypeError> {
    let own = match (graph.value(of).name.as_str(), graph.producer(of)) {
        ("", Some(node)) => &node.name,
        (own, _) => own,
    };
    let name = format!("{own}.{}", parameter.name);
    let mut dims = graph.ty(of).shape.dims().to_vec();
    for &axis in &parameter.single {
        let rank = dims.len();
        *dims.get_mut(axis).ok_or_else(|| {
            TypeError::new(format!("`{name}`: there is no axis {axis} of {rank}"))
        })? = 1;
    }
    if graph.parameter_named(&name).is_some() {
        return Err(TypeError::new(format!("the model has a parameter `{name}` already")));
    }
    if let Some(known) = target.parameter_named(&name) {
        return Ok(target.parameters()[known].value);
    }
    let initial = parameter.first(&name, &dims.into(), seed);
    Ok(target.add_parameter(name, initial, parameter.trains))
}

/// The form of a rule that matches a node, and the values that its variables stand for.
fn matched<'r>(
    graph: &Graph,
    roles: &Roles,
    rule: &'r Rewrite,
    node: &Node,
) -> Option<(&'r Form, BTreeMap<String, ValueId>)> {
    let Body::Patterns { forms, .. } = &rule.body else { return None };
    forms.iter().find_map(|form| {
        let bound = operands(&Single::of(&form.left)?, node)?;
        let holds = |guard: &Guard| {
            let found = match bound.get(&guard.variable) {
                Some(&v) => fact(roles, Some(v), Some(&graph.ty(v).shape), &guard.field),
                None => node.op.attribute_text(&guard.field).into_iter().collect(),
            };
            found.iter().any(|text| guard.values.contains(text)) == guard.equal
        };
        form.guards.iter().all(holds).then_some((form, bound))
    })
}

/// The operands of a node by the variables of a pattern, if the pattern is its operation.
fn operands(pattern: &Single, node: &Node) -> Option<BTreeMap<String, ValueId>> {
    let same = pattern.attributes.as_ref().is_none_or(|op| *op == node.op);
    if pattern.kind != node.op.kind() || !same || pattern.operands.len() != node.inputs.len() {
        return None;
    }
    let mut bound = BTreeMap::new();
    for (name, &value) in pattern.operands.iter().zip(&node.inputs) {
        if bound.insert(name.clone(), value).is_some_and(|known| known != value) {
            return None;
        }
    }
    Some(bound)
}

/// Adds the parts of a rule's right side; the last has the node's name.
fn built(
    target: &mut Graph,
    node: &Node,
    parts: &[Part],
    value: &impl Fn(&str) -> Option<ValueId>,
) -> Result<ValueId, TypeError> {
    let unbound = || TypeError::new("attributes stand where a value is expected");
    // Nothing for attributes: their operation takes them from the node.
    let mut values: Vec<Option<ValueId>> = Vec::new();
    let mut made: Vec<(Op, Vec<ValueId>, ValueId)> = Vec::new();
    for (i, part) in parts.iter().enumerate() {
        values.push(match part {
            Part::Variable(name) => value(name),
            Part::Number(number) => {
                let number = Tensor::f32([], vec![number.get()]);
                Some(target.add_constant(format!("{}/number", node.name), number))
            }
            Part::Operation(attributes, operands) => {
                let op = match attributes {
                    Attributes::Given(op) => op.clone(),
                    Attributes::Variable(..) => node.op.clone(),
                };
                let operands = operands
                    .iter()
                    .map(|&i| values.get(i).copied().flatten().ok_or_else(unbound))
                    .collect::<Result<Vec<_>, _>>()?;
                // Equal parts are one, so that gradients meet there.
                if let Some((_, _, known)) =
                    made.iter().find(|(o, v, _)| *o == op && *v == operands)
                {
                    values.push(Some(*known));
                    continue;
                }
                let last = i + 1 == parts.len();
                let name = if last {
                    node.name.clone()
                } else {
                    format!("{}/{}", node.name, op.kind().name())
                };
                let value = target.add1(op.clone(), &operands, name)?;
                made.push((op, operands, value));
                Some(value)
            }
        });
    }
    values.last().copied().flatten().ok_or_else(|| TypeError::new("it is empty"))
}

/// Checks a rule of the model.
///
/// # Errors
/// If `match` is not one operation on values, or `into` holds a marker of translation; if a parameter has the name of a variable, or
/// what it is of, or what is frozen, is none.
pub(crate) fn check(rule: &ModelRule) -> Result<(), String> {
    let Body::Patterns { forms, .. } = &rule.rewrite.body else { return Ok(()) };
    for form in forms {
        let Some(single) = Single::of(&form.left) else {
            return Err(
                "match: a rule of the model matches one operation, `(conv2d ?a ?x ?w)`".into()
            );
        };
        let bound = |name: &String| single.operands.contains(name);
        let none = |name: &str| {
            let near = did_you_mean(name, single.operands.iter().map(String::as_str));
            format!("`?{name}` is no value in `match`{near}")
        };
        for (i, own) in rule.parameters.iter().enumerate() {
            if let Some(of) = own.of.as_ref().filter(|of| !bound(of)) {
                return Err(format!("parameters: {}", none(of)));
            }
            let twice = rule.parameters[..i].iter().any(|other| other.name == own.name);
            if bound(&own.name) || twice {
                return Err(format!("parameters: `?{}` has a meaning already", own.name));
            }
        }
        if let Some(name) = rule.freezes.iter().find(|name| !bound(name)) {
            return Err(format!("freezes: {}", none(name)));
        }
        let Some(parts) = Template::of(&form.right).parts() else {
            return Err(
                "into: a rule of the model is made of operations, numbers and what `match` binds"
                    .into(),
            );
        };
        for part in &parts {
            if let Part::Variable(name) = part
                && name == RESULT
                && !bound(name)
                && !rule.parameters.iter().any(|own| own.name == *name)
            {
                return Err(format!("into: `?{RESULT}` stands in rules of translation alone"));
            }
            if let Part::Operation(Attributes::Variable(own, name), _) = part
                && *own != single.kind
            {
                return Err(format!(
                    "into: `?{name}` are the attributes of another operation than `{}`",
                    own.name()
                ));
            }
        }
    }
    Ok(())
}
