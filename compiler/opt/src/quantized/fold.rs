//! Folds the chains that a translation wrote into output stages, by rewrite rules that keep every bit.
//!
//! Here FP32 costs more than any integer operation, so what can be an integer stage is one on every target.

use trainc_ir::graph::Graph;
use trainc_ir::target::Cost;
use trainc_ir::{Op, OpKind};

use super::QuantizeError;
use crate::egraph::convert::{load, operation_cost};
use crate::egraph::extract::extract;
use crate::egraph::saturate::{Limits, saturate};
use crate::optimise::rebuild;
use crate::rules::{Rule, RuleContext, movement, stages};
use crate::stage::chain::trace;

/// A folded graph and what was done.
pub(super) struct Folded {
    pub(super) graph: Graph,
    pub(super) fired: Vec<(String, usize)>,
    pub(super) iterations: usize,
    pub(super) nodes: usize,
}

pub(super) fn fold(graph: &Graph) -> Result<Folded, QuantizeError> {
    let rules: Vec<Rule> = [stages::RULES, movement::RULES].concat();
    let context = RuleContext::of(graph);
    let rewrites: Vec<_> = rules.iter().map(|rule| rule.rewrite(&context)).collect();
    let mut loaded = load(graph);
    let run = saturate(&mut loaded.egraph, &rewrites, Limits::default(), false)
        .map_err(QuantizeError::Rule)?;
    let extraction = extract(&loaded.egraph, |egraph, id, node| {
        operation_cost(egraph, id, node, |op, inputs, outputs| {
            let float = inputs.iter().chain(outputs).any(|ty| ty.is_f32());
            let count = outputs.iter().map(|ty| ty.count() as u64).max().unwrap_or(1);
            let each = match op {
                _ if float => 1000,
                Op::Transpose(_) => 10,
                Op::Reshape(_) => 1,
                _ => 3,
            };
            Cost::new(1 + each * count)
        })
    });
    let folded = rebuild(graph, &loaded.egraph, &loaded.classes, &extraction)?;
    let mut fired: Vec<(String, usize)> = Vec::new();
    for (i, rule) in rules.iter().enumerate() {
        let count = run.applications.iter().filter(|a| a.rule == i).count();
        if count > 0 {
            fired.push((rule.name.to_string(), count));
        }
    }
    Ok(Folded { graph: folded, fired, iterations: run.iterations, nodes: run.nodes })
}

/// The quantizers of integer sums that no stage could follow.
pub(super) fn left_over(graph: &Graph) -> Vec<String> {
    let live = graph.live_nodes();
    let nodes = graph.nodes().iter().zip(live).filter(|(_, live)| *live).map(|(node, _)| node);
    nodes
        .filter(|node| node.op.kind() == OpKind::QuantizeLinear)
        .filter(|node| trace(graph, node.outputs[0]).is_some())
        .map(|node| {
            format!(
                "node `{}`: its operand is computed in FP32 from integers: the chain of operations between them is not \
                 seen to be monotone",
                node.name
            )
        })
        .collect()
}
