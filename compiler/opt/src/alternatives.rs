//! One rule alone, applied once: every graph that it gives for a graph.

use std::collections::BTreeSet;

use trainc_ir::graph::Graph;
use trainc_ir::target::Cost;

use crate::egraph::Id;
use crate::egraph::convert::{load, operation_cost};
use crate::egraph::extract::{Extraction, extract};
use crate::egraph::language::{Graph as EGraph, Node, canonical};
use crate::egraph::saturate::{Limits, saturate};
use crate::optimise::{OptimiseError, rebuild};
use crate::rules::{Rule, RuleContext};

/// Cost of an e-node that the rule added, where one of the graph's own costs 1.
const ADDED: u64 = 1000;

/// The graphs that are `graph` with one class in another form that the rule gives it, in the order of its matches. All
/// else is as it was, as far as the form lets it be.
///
/// # Errors
/// If the rule joins values of two types: a bug of the rule.
pub fn alternatives(graph: &Graph, rule: &Rule) -> Result<Vec<Graph>, OptimiseError> {
    let mut loaded = load(graph);
    let own = nodes(&loaded.egraph);
    let built = |egraph: &EGraph, extraction: &Extraction| {
        rebuild(graph, egraph, &loaded.classes, extraction).ok()
    };
    let before = built(&loaded.egraph, &extraction(&loaded.egraph, &own, None));
    let rewrite = rule.rewrite(&RuleContext::of(graph));
    let run = saturate(&mut loaded.egraph, &[rewrite], Limits::default(), true)
        .map_err(OptimiseError::Rule)?;
    let egraph = &loaded.egraph;
    let own: Vec<(Id, Node)> =
        own.iter().map(|(id, node)| (egraph.find(*id), canonical(egraph, node))).collect();
    let mut seen: Vec<Graph> = before.into_iter().collect();
    let unchanged = seen.len();
    let mut classes = BTreeSet::new();
    for class in run.applications.iter().map(|a| egraph.find(a.class)) {
        if !classes.insert(class) {
            continue;
        }
        for node in &egraph[class].nodes {
            let extraction = extraction(egraph, &own, Some((class, node)));
            let found = rebuild(graph, egraph, &loaded.classes, &extraction).ok();
            seen.extend(found.filter(|found| !seen.contains(found)));
        }
    }
    Ok(seen.split_off(unchanged))
}

/// Every e-node with its class.
fn nodes(egraph: &EGraph) -> Vec<(Id, Node)> {
    let mut all: Vec<(Id, Node)> = egraph
        .classes()
        .flat_map(|class| class.nodes.iter().map(|n| (class.id, canonical(egraph, n))))
        .collect();
    all.sort_unstable();
    all
}

/// The graph's own e-nodes wherever they do, and `forced` in its class.
fn extraction(egraph: &EGraph, own: &[(Id, Node)], forced: Option<(Id, &Node)>) -> Extraction {
    let own: BTreeSet<(Id, &Node)> = own.iter().map(|(id, node)| (*id, node)).collect();
    extract(egraph, |egraph, id, node| match forced {
        Some((class, form)) if id == class && node != form => Cost::INFEASIBLE,
        _ => operation_cost(egraph, id, node, |_, _, _| {
            let is_own = own.contains(&(id, &canonical(egraph, node)));
            Cost::new(if is_own { 1 } else { ADDED })
        }),
    })
}
