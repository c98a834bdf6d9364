//! What an algorithm makes of a model before it is differentiated: rules on the FP32 graph, so that gradients go through what
//! they put in place.

use std::collections::BTreeMap;

use trainc_ir::graph::{Copied, Graph, Node, ValueId};
use trainc_ir::ops::TypeError;
use trainc_ir::{Op, Tensor};

use crate::egraph::pattern::{Attributes, Part, Single, Template};
use crate::egraph::saturate::{Body, Form, Guard, Rewrite, fact};
use crate::roles::Roles;

/// A rule of the model that was applied, and the node.
pub type Applied = (String, String);

/// The forward graph with an algorithm's rules of the model applied: for each node the first rule that matches it. What a rule puts
/// in place is not matched again. Also the rules that were applied, by name, each with its node's name.
///
/// # Errors
/// If what a rule puts in place has no types: the rule and why.
pub fn apply_model_rules(
    graph: &Graph,
    rules: &[Rewrite],
) -> Result<(Graph, Vec<Applied>), TypeError> {
    let mut applied = Vec::new();
    if rules.is_empty() {
        return Ok((graph.clone(), applied));
    }
    let roles = Roles::of(graph);
    let mut result = Graph::new(graph.name());
    let mut new: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    graph.copy_changed(&mut result, &mut new, |target, new, v| {
        let Some(node) = graph.producer(v).filter(|node| node.outputs.len() == 1) else {
            return Ok(Copied::AsItIs);
        };
        let found = rules.iter().find_map(|rule| Some((rule, matched(graph, &roles, rule, node)?)));
        let Some((rule, (form, bound))) = found else { return Ok(Copied::AsItIs) };
        let build = || Template::of(&form.right).parts();
        let parts = build().ok_or_else(|| TypeError::new("operations and numbers alone"))?;
        let value = built(target, node, &parts, &|name| bound.get(name).map(|v| new[v]))
            .map_err(|e| TypeError::new(format!("rule `{}` at `{}`: {e}", rule.name, node.name)))?;
        target.set_name(value, &graph.value(v).name);
        applied.push((rule.name.clone(), node.name.clone()));
        Ok(Copied::As(value))
    })?;
    graph.copy_roots(&mut result, &new);
    Ok((result, applied))
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
/// If `match` is not one operation on values, or `into` holds a marker of translation.
pub(crate) fn check(rule: &Rewrite) -> Result<(), String> {
    let Body::Patterns { forms, .. } = &rule.body else { return Ok(()) };
    for form in forms {
        let Some(single) = Single::of(&form.left) else {
            return Err(
                "match: a rule of the model matches one operation, `(conv2d ?a ?x ?w)`".into()
            );
        };
        let Some(parts) = Template::of(&form.right).parts() else {
            return Err(
                "into: a rule of the model is made of operations, numbers and what `match` binds"
                    .into(),
            );
        };
        for part in &parts {
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
