//! ReLUs of results that are rounded by a kept shift, as their lower clamp.
//!
//! Such a result has readers besides its ReLU: the schedule of its shift, which reads the exponent, and the ReLU's gradient, which asks
//! where it is above 0. Both see the same of `max(y, 0)`, so that one kernel serves them all. This is no rule of the e-graph: there both
//! forms cost the same, and whoever reads the unclamped one would have the product computed twice.

use std::collections::{BTreeMap, BTreeSet};

use trainc_ir::Op;
use trainc_ir::graph::{Copied, Graph, Node, ValueId};
use trainc_ir::ops::RequantizeAdaptive;

/// The graph with `relu(requantize_adaptive{low}(x, state))` as `requantize_adaptive{low=0}(x, state)`, where nothing else than such
/// readers tells the two apart: every bit stays.
pub fn fold_relus(graph: &Graph) -> Graph {
    let mut told_apart: BTreeSet<ValueId> = graph.roots().collect();
    // With the names of their ReLUs, which the results are called by.
    let mut clamped: BTreeMap<ValueId, &str> = BTreeMap::new();
    for node in graph.nodes() {
        for (position, &v) in node.inputs.iter().enumerate() {
            match (&node.op, position) {
                (Op::Relu(_), _) => drop(clamped.entry(v).or_insert(&node.name)),
                (Op::ShiftSchedule(_), 1) | (Op::ReluGradient(_), 0) => {}
                _ => drop(told_apart.insert(v)),
            }
        }
    }
    let from_zero = |node: &Node| {
        let Op::RequantizeAdaptive(op) = &node.op else { return None };
        let y = node.outputs[0];
        let name = clamped.get(&y).filter(|_| !told_apart.contains(&y))?;
        Some((RequantizeAdaptive { low: 0, ..op.clone() }, *name))
    };
    if !graph.nodes().iter().any(|node| from_zero(node).is_some()) {
        return graph.clone();
    }
    let mut result = Graph::new(graph.name());
    let mut new: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    let copied = graph.copy_changed(&mut result, &mut new, |target, new, v| {
        let Some(node) = graph.producer(v) else { return Ok(Copied::AsItIs) };
        if let Some((op, name)) = from_zero(node) {
            let operands: Vec<ValueId> = node.inputs.iter().map(|v| new[v]).collect();
            return Ok(Copied::As(target.add1(op, &operands, name)?));
        }
        let operand = matches!(node.op, Op::Relu(_)).then(|| graph.producer(node.inputs[0]));
        Ok(match operand.flatten().and_then(from_zero) {
            Some(_) => Copied::As(new[&node.inputs[0]]),
            None => Copied::AsItIs,
        })
    });
    copied.unwrap_or_else(|e| unreachable!("a clamp does not change a type: {e}"));
    graph.copy_roots(&mut result, &new);
    result
}
