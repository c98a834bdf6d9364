//! What an algorithm's rules leave untranslated, for the error that says so.

use std::collections::BTreeSet;

use trainc_ir::graph::{Graph, ValueId};
use trainc_ir::target::Cost;

use crate::egraph::convert::Loaded;
use crate::egraph::extract::Extraction;
use crate::egraph::language::Ty;
use crate::translate::{find_lowered, node_name};

/// A node that the algorithm's rules do not cover.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Untranslated {
    /// The model's node.
    pub node: String,
    /// Its operation with attributes.
    pub op: String,
    /// Why, where a rule applied but its result does not type.
    pub reason: Option<String>,
}

/// The nodes, one a line.
pub(crate) fn report(nodes: &[Untranslated]) -> String {
    let line = |n: &Untranslated| {
        let reason = n.reason.as_ref().map(|r| format!(" ({r})")).unwrap_or_default();
        format!("  node `{}`: {}{reason}", n.node, n.op)
    };
    nodes.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The earliest nodes behind `roots` whose operands are lowered but which are not.
pub(crate) fn untranslated(
    graph: &Graph,
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
    let mut found: Vec<Untranslated> = Vec::new();
    for &v in &needed {
        let ready = match graph.producer(v) {
            Some(node) => node.inputs.iter().all(|&o| feasible(o) || !graph.ty(o).is_f32()),
            None => graph.ty(v).is_f32(),
        };
        if feasible(v) || !ready {
            continue;
        }
        let reason = find_lowered(egraph, loaded.classes[v.index()]).and_then(|id| {
            match &egraph[id].data.ty {
                Ty::Invalid(reason) => Some(reason.clone()),
                _ => None,
            }
        });
        let op = graph
            .producer(v)
            .map_or_else(|| format!("{} constant", graph.ty(v)), |node| node.op.to_string());
        let entry = Untranslated { node: node_name(graph, v), op, reason };
        if !found.contains(&entry) {
            found.push(entry);
        }
    }
    if found.is_empty() {
        found.extend(roots.iter().map(|&v| Untranslated {
            node: node_name(graph, v),
            op: graph.ty(v).to_string(),
            reason: Some("no allowed form".into()),
        }));
    }
    found
}
