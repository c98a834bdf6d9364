//! What an algorithm's rules match in a graph, and why nodes stay FP32: for `trainc algorithms --check`.

use std::collections::BTreeSet;

use trainc_ir::OpKind;
use trainc_ir::graph::{Graph, NodeId};

use crate::algorithm::Algorithm;
use crate::egraph::convert::load;
use crate::egraph::saturate::matched_classes;
use crate::roles::Roles;
use crate::translate::is_optimizers;

/// Why a node is computed in FP32.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Why {
    /// No rule holds its operation.
    NoRule,
    /// These rules hold its operation, and match other nodes: their guards or patterns ask for something else.
    NoMatch(Vec<String>),
    /// A rule matches it, and what that gives is not allowed here.
    Refused,
    /// It updates a parameter in FP32.
    Update,
}

/// A node that stays FP32.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Floating {
    /// Its name.
    pub node: String,
    /// Its operation.
    pub op: OpKind,
    /// Why.
    pub why: Why,
}

/// What an algorithm's rules match in a graph.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Matches {
    /// For each rule of [`Algorithm::rules`], the nodes by name and operation, in the graph's order.
    pub rules: Vec<Vec<(String, OpKind)>>,
    /// The nodes that stay FP32, in the graph's order.
    pub floating: Vec<Floating>,
}

/// The matches in a graph that is not translated yet. `floated` are the names of nodes that translation left in FP32.
pub fn matches(graph: &Graph, algorithm: &Algorithm, floated: &BTreeSet<String>) -> Matches {
    let mut loaded = load(graph);
    loaded.egraph.analysis.roles = Roles::of(graph);
    let mut found = Matches::default();
    let mut matched: BTreeSet<NodeId> = BTreeSet::new();
    for rule in &algorithm.rules {
        // Of a rule that says what a form is, the values that it is a form of.
        let of_form = !rule.defined_forms().is_empty();
        let classes = matched_classes(&loaded.egraph, &rule.of_values());
        let classes: BTreeSet<_> = classes.into_iter().collect();
        let here = |id: &NodeId| {
            let outputs = &graph.node(*id).outputs;
            outputs.iter().any(|v| classes.contains(&loaded.egraph.find(loaded.classes[v.index()])))
        };
        let nodes: Vec<NodeId> = graph.node_ids().filter(here).collect();
        let named = |&id: &NodeId| (graph.node(id).name.clone(), graph.node(id).op.kind());
        found.rules.push(nodes.iter().map(named).collect());
        if !of_form {
            matched.extend(nodes);
        }
    }
    for id in graph.node_ids() {
        let node = graph.node(id);
        let op = node.op.kind();
        if !node.outputs.iter().all(|&v| graph.ty(v).is_f32()) {
            continue;
        }
        let of_rules = || {
            let rules = algorithm.rules.iter().filter(|rule| rule.matched().contains(&op));
            rules.map(|rule| rule.name.clone()).collect::<Vec<_>>()
        };
        let why = match matched.contains(&id) {
            true if floated.contains(&node.name) => Why::Refused,
            true => continue,
            false if is_optimizers(op) => Why::Update,
            false => match of_rules() {
                none if none.is_empty() => Why::NoRule,
                rules => Why::NoMatch(rules),
            },
        };
        found.floating.push(Floating { node: node.name.clone(), op, why });
    }
    found
}
