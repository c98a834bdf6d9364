//! Building gradients.

use crate::graph::{Definition, Graph, ValueId};
use crate::ops::{Differentiated, Op, ReduceSum, Reshape, TypeError};
use crate::types::Shape;

/// The name of a derived node: the forward result's, then `suffix`.
pub(crate) fn name(graph: &Graph, node: &Differentiated<'_>, suffix: &str) -> String {
    format!("{}/{suffix}", graph.value(node.outputs[0]).name)
}

/// Whether a value is a trainable parameter, possibly reshaped or transposed: its gradient is a weight gradient,
/// not an error that flows on.
pub(crate) fn is_weight(graph: &Graph, mut value: ValueId) -> bool {
    loop {
        match &graph.value(value).definition {
            Definition::Parameter(index) => return graph.parameters()[*index].trainable,
            Definition::Input(_) | Definition::Constant(_) => return false,
            Definition::Result { node, .. } => {
                let node = graph.node(*node);
                if !matches!(node.op, Op::Reshape(_) | Op::Transpose(_)) {
                    return false;
                }
                value = node.inputs[0];
            }
        }
    }
}

/// A value under another shape of the same count; itself if it has that shape.
pub(crate) fn reshape(
    graph: &mut Graph,
    value: ValueId,
    shape: &Shape,
    name: &str,
) -> Result<ValueId, TypeError> {
    if graph.ty(value).shape == *shape {
        return Ok(value);
    }
    graph.add1(Reshape { shape: shape.clone() }, &[value], name)
}

/// Sums a gradient over the axes along which an operand of `shape` was stretched.
pub(crate) fn reduce_to(
    graph: &mut Graph,
    value: ValueId,
    shape: &Shape,
    name: &str,
) -> Result<ValueId, TypeError> {
    let from = graph.ty(value).shape.clone();
    if from.count() == shape.count() {
        return reshape(graph, value, shape, name);
    }
    let missing = from.rank() - shape.rank();
    let axes: Vec<usize> = (0..from.rank())
        .filter(|&axis| axis < missing || (shape[axis - missing] == 1 && from[axis] != 1))
        .collect();
    let sum = match axes.is_empty() {
        true => value,
        false => graph.add1(ReduceSum { axes, keep_dims: false }, &[value], name)?,
    };
    reshape(graph, sum, shape, name)
}
