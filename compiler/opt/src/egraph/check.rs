//! Refuses patterns and guards of rules that parse but could never match or build anything: a typing error in an
//! algorithm file is an error, not a rule that never applies.

use std::collections::BTreeMap;

use egg::{ENodeOrVar, Pattern, Var};
use trainc_ir::OpKind;
use trainc_ir::text::nearest::did_you_mean;

use super::language::{Node, around};
use super::saturate::Guard;

/// What guards ask of values, with what it may be (nothing: whole numbers).
const FACTS: [(&str, &[&str]); 10] = [
    ("role", &["weight", "bias", "normalization", "other"]),
    ("layer", &["first", "inner", "last"]),
    ("depthwise", &["true", "false"]),
    ("side", &["forward", "backward", "statistic"]),
    ("constant", &["true", "false"]),
    ("chosen", &["true", "false"]),
    ("quantized", &["true", "false"]),
    ("codes", &["true", "false"]),
    ("entry", &["train", "infer"]),
    ("rank", &[]),
];

/// The variables that stand for attributes, each with the operation whose they are.
type Attributes = BTreeMap<Var, OpKind>;

/// Checks both sides of a rule.
///
/// # Errors
/// If an operation has no pattern for its attributes, or a variable stands for attributes and for a value, or for
/// attributes of two operations that have not the same.
pub(crate) fn patterns(left: &Pattern<Node>, right: &Pattern<Node>) -> Result<(), String> {
    let mut attributes = Attributes::new();
    for (side, pattern) in [("match", left), ("into", right)] {
        one(pattern, &mut attributes).map_err(|e| format!("{side}: {e}"))?;
    }
    Ok(())
}

fn one(pattern: &Pattern<Node>, attributes: &mut Attributes) -> Result<(), String> {
    let nodes = pattern.ast.as_ref();
    let mut values = Vec::new();
    for node in nodes {
        let ENodeOrVar::ENode(node) = node else { continue };
        let operands = match node {
            Node::Operation(kind, children) if !kind.fields().is_empty() => {
                let missing = || {
                    format!(
                        "`{name}` has attributes ({}): the first pattern in it binds them, as `?a` in `({name} ?a ...)`, \
                         or they are written out, `({name}{{...}} ...)`",
                        kind.fields().join(", "),
                        name = kind.name()
                    )
                };
                let (first, operands) = children.split_first().ok_or_else(missing)?;
                match &nodes[usize::from(*first)] {
                    ENodeOrVar::Var(var) => {
                        let known = *attributes.entry(*var).or_insert(*kind);
                        if known.fields() != kind.fields() {
                            return Err(format!(
                                "`{var}` stands for the attributes of `{}` and of `{}`",
                                known.name(),
                                kind.name()
                            ));
                        }
                    }
                    ENodeOrVar::ENode(Node::Attributes(_) | Node::Around(..)) => {}
                    ENodeOrVar::ENode(_) => return Err(missing()),
                }
                operands
            }
            Node::Around(kind, text, [of]) => {
                let ENodeOrVar::Var(var) = &nodes[usize::from(*of)] else { continue };
                let known = attributes.get(var).ok_or_else(|| {
                    format!("`{var}` does not stand for the attributes of an operation in `match`")
                })?;
                // Any operation of that kind: what the attributes are does not matter.
                if let Some(example) = known.cases().first() {
                    around(*kind, text, &example.op).map_err(|e| {
                        format!(
                            "`{}` with `{}` in the place of `{var}`: {}",
                            kind.name(),
                            known.name(),
                            e.message
                        )
                    })?;
                }
                continue;
            }
            node => egg::Language::children(node),
        };
        values.extend(operands.iter().map(|&id| &nodes[usize::from(id)]));
    }
    for value in values {
        if let ENodeOrVar::Var(var) = value
            && let Some(kind) = attributes.get(var)
        {
            return Err(format!(
                "`{var}` stands for the attributes of `{}` and for a value",
                kind.name()
            ));
        }
    }
    Ok(())
}

/// A guard with its value as attributes print it.
///
/// # Errors
/// If its variable does not bind attributes that have the field, or a value is none of the field's; for the role of a
/// value, if it is none.
pub(crate) fn guard(left: &Pattern<Node>, guard: Guard) -> Result<Guard, String> {
    let mut attributes = Attributes::new();
    one(left, &mut attributes)?;
    let var = super::pattern::variable(&guard.variable);
    let place = format!("?{}.{}", guard.variable, guard.field);
    let bound = |var| egg::Searcher::<Node, super::language::Types>::vars(left).contains(&var);
    let Some(kind) = var.and_then(|var| attributes.get(&var)) else {
        let known = FACTS.iter().find(|(field, _)| *field == guard.field);
        let result = guard.variable == super::pattern::RESULT;
        let (Some((field, names)), true) = (known, result || var.is_some_and(bound)) else {
            let fields = FACTS.map(|(field, _)| field);
            return Err(format!(
                "where: `?{}` does not stand for the attributes of an operation in `match`, nor is `{place}` a fact of a \
                 value in it ({}){}",
                guard.variable,
                fields.join(", "),
                did_you_mean(&guard.field, fields)
            ));
        };
        let fits = |value: &str| match names {
            [] => value.parse::<usize>().is_ok(),
            names => names.contains(&value),
        };
        return match guard.values.iter().find(|value| !fits(value)) {
            Some(value) if names.is_empty() => {
                Err(format!("where: {place}: `{value}` is no whole number"))
            }
            Some(value) => Err(format!(
                "where: {place}: there is no {field} `{value}`{}; there are {}",
                did_you_mean(value, names.iter().copied()),
                names.join(", ")
            )),
            None => Ok(guard),
        };
    };
    let values = guard
        .values
        .iter()
        .map(|value| kind.canonical_attribute(&guard.field, value))
        .collect::<Result<_, _>>()
        .map_err(|e| format!("where: {place}: {}", e.message))?;
    Ok(Guard { values, ..guard })
}
