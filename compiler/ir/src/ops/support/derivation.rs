//! What gradient rules ask of the graph.

use crate::graph::{Definition, Graph, ValueId};
use crate::ops::{Differentiated, Op};

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
