//! What an algorithm's rules leave untranslated, for the error that says so: the operations without a rule, not those
//! around them.

use std::collections::BTreeSet;

use trainc_ir::OpKind;
use trainc_ir::graph::{Definition, Graph, NodeId, ValueId};
use trainc_ir::ops::properties::Property;
use trainc_ir::target::Cost;

use crate::algorithm::{Algorithm, BUILT_IN, Otherwise};
use crate::egraph::convert::Loaded;
use crate::egraph::extract::Extraction;
use crate::egraph::language::Ty;
use crate::egraph::saturate::Body;
use crate::roles::node_name;
use crate::translate::find_lowered;

/// A node that the algorithm's rules do not cover.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Untranslated {
    /// The model's node.
    pub node: String,
    /// Its place in the graph; `None` for a value that no node computes.
    pub id: Option<NodeId>,
    /// Its operation with attributes, or the type of a value that none computes.
    pub op: String,
    /// Its operation, if no rule of the algorithm is about it.
    pub without_rule: Option<OpKind>,
    /// Why, where a rule applied but its result does not type.
    pub reason: Option<String>,
}

/// Nodes of one operation that have no rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WithoutRule {
    /// The operation.
    pub op: OpKind,
    /// Its nodes, in the model's order.
    pub nodes: Vec<String>,
}

/// The operations without a rule, in the order of their first nodes.
pub fn without_rule(nodes: &[Untranslated]) -> Vec<WithoutRule> {
    let mut groups: Vec<WithoutRule> = Vec::new();
    for (op, node) in nodes.iter().filter_map(|n| Some((n.without_rule?, &n.node))) {
        match groups.iter_mut().find(|group| group.op == op) {
            Some(group) => group.nodes.push(node.clone()),
            None => groups.push(WithoutRule { op, nodes: vec![node.clone()] }),
        }
    }
    groups
}

/// Most node names of a group in a message.
const NAMES: usize = 4;

/// The nodes in lines: operations without a rule with their nodes and what has rules for them, then single nodes.
pub(crate) fn report(algorithm: &str, nodes: &[Untranslated]) -> String {
    let groups = without_rule(nodes);
    let mut lines = Vec::new();
    for WithoutRule { op, nodes } in &groups {
        let names: Vec<String> = nodes.iter().take(NAMES).map(|n| format!("`{n}`")).collect();
        let more = if nodes.len() > NAMES { ", ..." } else { "" };
        let count = match nodes.len() {
            1 => "1 node".to_string(),
            n => format!("{n} nodes"),
        };
        lines.push(format!("  {}: no rule ({count}: {}{more})", op.name(), names.join(", ")));
    }
    for n in nodes.iter().filter(|n| n.without_rule.is_none()) {
        let reason = n.reason.as_ref().map(|r| format!(" ({r})")).unwrap_or_default();
        lines.push(format!("  node `{}`: {}{reason}", n.node, n.op));
    }
    if !groups.is_empty() {
        let kinds: BTreeSet<OpKind> = groups.iter().map(|group| group.op).collect();
        let serving = serving(algorithm, &kinds);
        let names: Vec<String> =
            serving.training.iter().map(|name| format!("`--algorithm {name}`")).collect();
        if !names.is_empty() {
            lines.push(format!("{} would train it", names.join(" or ")));
        }
        for name in serving.inference {
            lines.push(format!(
                "`--algorithm {name}` would infer in integers, if the model is quantized or with `--precision`"
            ));
        }
    }
    lines.join("\n")
}

/// Built-in algorithms that serve where one does not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Serving {
    /// Those that train every one of the operations.
    pub training: Vec<&'static str>,
    /// Those that only infer.
    pub inference: Vec<&'static str>,
}

/// The built-in algorithms other than `but` that have rules for all of the operations, or need none.
pub fn serving(but: &str, kinds: &BTreeSet<OpKind>) -> Serving {
    let mut serving = Serving::default();
    for (name, _) in BUILT_IN.iter().filter(|(name, _)| *name != but) {
        let Ok(algorithm) = Algorithm::built_in(name) else { continue };
        if algorithm.inference.is_some() {
            serving.inference.push(*name);
        } else if algorithm.is_identity() || kinds.is_subset(&covered(&algorithm)) {
            serving.training.push(*name);
        }
    }
    serving
}

/// The operations that the left sides of an algorithm's rules hold, and those that it leaves out of models; all, if it
/// computes others in FP32.
pub fn covered(algorithm: &Algorithm) -> BTreeSet<OpKind> {
    // Between products that are integer alone, all others are FP32.
    let carried = |kind: &OpKind| algorithm.carrier.is_none() || !kind.has(Property::Bilinear);
    let float = algorithm.otherwise == Otherwise::Float;
    let float = OpKind::ALL.iter().copied().filter(move |kind| float && carried(kind));
    let patterns = algorithm.rules.iter().flat_map(|rule| match &rule.body {
        Body::Patterns { forms, .. } => &forms[..],
        Body::Search(_) => &[],
    });
    let rules = patterns.flat_map(|form| crate::egraph::pattern::operations(&form.left));
    rules.chain(algorithm.remove.iter().copied()).chain(float).collect()
}

/// What stands in the way of `roots`: the nodes behind them whose operation has no rule; if all have one, the earliest
/// nodes whose rules do not give an allowed form though their operands have one.
pub(crate) fn untranslated(
    graph: &Graph,
    algorithm: &Algorithm,
    loaded: &Loaded,
    extraction: &Extraction,
    roots: &[ValueId],
) -> Vec<Untranslated> {
    let egraph = &loaded.egraph;
    let feasible = |v: ValueId| {
        find_lowered(egraph, loaded.classes[v.index()])
            .is_some_and(|id| extraction.cost(egraph, id) != Cost::INFEASIBLE)
    };
    let mut needed = BTreeSet::new();
    let mut stack = roots.to_vec();
    while let Some(v) = stack.pop() {
        if needed.insert(v)
            && let Some(node) = graph.producer(v)
        {
            stack.extend(&node.inputs);
        }
    }
    needed.retain(|&v| !feasible(v));
    let covered = covered(algorithm);
    let entry = |v: ValueId| Untranslated {
        node: node_name(graph, v),
        id: match graph.value(v).definition {
            Definition::Result { node, .. } => Some(node),
            _ => None,
        },
        op: graph
            .producer(v)
            .map_or_else(|| format!("{} constant", graph.ty(v)), |node| node.op.to_string()),
        without_rule: None,
        reason: None,
    };
    let kind = |v: ValueId| graph.producer(v).map(|node| node.op.kind());
    let without_rule =
        |v: ValueId| kind(v).filter(|kind| graph.ty(v).is_f32() && !covered.contains(kind));
    let mut nodes: Vec<Untranslated> = needed
        .iter()
        .filter_map(|&v| Some(Untranslated { without_rule: Some(without_rule(v)?), ..entry(v) }))
        .collect();
    if nodes.is_empty() {
        let ready = |v: ValueId| match graph.producer(v) {
            Some(node) => node.inputs.iter().all(|&o| feasible(o) || !graph.ty(o).is_f32()),
            None => graph.ty(v).is_f32(),
        };
        nodes.extend(needed.iter().filter(|&&v| ready(v)).map(|&v| {
            let lowered = find_lowered(egraph, loaded.classes[v.index()]);
            let reason = lowered.and_then(|id| match &egraph[id].data.ty {
                Ty::Invalid(reason) => Some(reason.clone()),
                _ => None,
            });
            Untranslated { reason, ..entry(v) }
        }));
    }
    // Once each: a node may have several results.
    let mut seen = BTreeSet::new();
    nodes.retain(|n| seen.insert((n.node.clone(), n.op.clone())));
    if nodes.is_empty() {
        nodes.extend(roots.iter().map(|&v| Untranslated {
            op: graph.ty(v).to_string(),
            reason: Some("no allowed form".into()),
            ..entry(v)
        }));
    }
    nodes
}
