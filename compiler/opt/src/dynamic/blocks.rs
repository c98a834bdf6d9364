//! What chooses a precision together: residual blocks of a model, and layers outside of them.

use std::collections::BTreeSet;

use trainc_ir::Op;
use trainc_ir::graph::{Definition, Graph, NodeId, ValueId};
use trainc_ir::ops::properties::Property;

use crate::roles::{Role, Roles};

/// Layers with one choice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Block {
    /// The addition of a residual block, or the layer.
    pub(super) name: String,
    /// What its gate looks at: where the branches of a residual block begin, or the layer's activations.
    pub(super) of: ValueId,
    /// The layers, in the graph's order.
    pub(super) layers: Vec<NodeId>,
}

/// The blocks of a model, in the order of their first layers. Layers that choose: convolutions in one group and products by a matrix, of
/// activations [batch, ...] by a trained weight, but for the model's first and last. The batch is the first dimension of the model's first
/// input: rows that stand for something else do not choose, nor do layers that share a weight, as the steps of a recurrent one.
pub(super) fn blocks(graph: &Graph) -> Vec<Block> {
    let roles = Roles::of(graph);
    let data = of_data(graph);
    let mut left: BTreeSet<NodeId> =
        graph.node_ids().filter(|&id| chooses(graph, &roles, &data, id)).collect();
    let mut blocks = Vec::new();
    for id in graph.node_ids() {
        let node = graph.node(id);
        let [a, b] = node.inputs[..] else { continue };
        let joins = matches!(node.op, Op::Add(_)) && data[a.index()] && data[b.index()];
        if !joins || graph.ty(a).shape != graph.ty(b).shape {
            continue;
        }
        let (of_a, of_b) = (behind(graph, a), behind(graph, b));
        let fork = of_a.intersection(&of_b).filter(|v| data[v.index()]).last();
        let Some(&fork) = fork.filter(|&&v| batch(graph, v)) else { continue };
        let own = |id: &NodeId| {
            let y = graph.node(*id).outputs[0];
            y > fork && (of_a.contains(&y) || of_b.contains(&y))
        };
        let layers: Vec<NodeId> = left.iter().copied().filter(own).collect();
        if !layers.is_empty() {
            layers.iter().for_each(|id| {
                left.remove(id);
            });
            blocks.push(Block { name: node.name.clone(), of: fork, layers });
        }
    }
    for id in left {
        let node = graph.node(id);
        let (name, of) = (node.name.clone(), node.inputs[0]);
        blocks.push(Block { name, of, layers: vec![id] });
    }
    blocks.sort_by_key(|block| block.layers[0]);
    blocks
}

/// Whether a node is a layer that chooses.
fn chooses(graph: &Graph, roles: &Roles, data: &[bool], id: NodeId) -> bool {
    let node = graph.node(id);
    let fits = match &node.op {
        Op::Conv2d(op) => op.groups == 1,
        Op::MatMul(op) => {
            !op.transpose_a && node.inputs.iter().all(|&v| graph.ty(v).shape.rank() == 2)
        }
        _ => false,
    };
    if !fits || !node.op.kind().has(Property::Bilinear) {
        return false;
    }
    let (x, w) = (node.inputs[0], node.inputs[1]);
    let weight = roles.role_in_products(w) == Some(Role::Weight) && !roles.constant(w);
    let shares = graph.node_ids().any(|other| other != id && graph.node(other).inputs.contains(&w));
    !shares
        && batch(graph, x)
        && data[x.index()]
        && !data[w.index()]
        && weight
        && roles.layer(w) == ["inner"]
}

/// Whether a value has as many rows as the model's first input.
fn batch(graph: &Graph, value: ValueId) -> bool {
    let rows = |v: ValueId| graph.ty(v).shape.first().copied();
    let first = graph.inputs().first().map(|input| input.value);
    rows(value).is_some() && rows(value) == first.and_then(rows)
}

/// Which values depend on an input.
pub(super) fn of_data(graph: &Graph) -> Vec<bool> {
    let mut data = vec![false; graph.values().len()];
    for v in graph.value_ids() {
        data[v.index()] = match &graph.value(v).definition {
            Definition::Input(_) => true,
            Definition::Result { node, .. } => {
                graph.node(*node).inputs.iter().any(|v| data[v.index()])
            }
            Definition::Parameter(_) | Definition::Constant(_) => false,
        };
    }
    data
}

/// A value and all that it is computed from.
fn behind(graph: &Graph, value: ValueId) -> BTreeSet<ValueId> {
    graph.needed([value])
}
