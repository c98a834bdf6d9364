//! Training graphs that ONNX Runtime generated: told by their operators, with what to give instead.

use crate::error::{ImportError, ImportErrorKind};
use crate::proto::{GraphProto, NodeProto};

/// Says so if a graph is one of those that ONNX Runtime generates for training: with gradients, or an optimizer.
pub(crate) fn training_graph(graph: &GraphProto) -> Option<ImportError> {
    let index = graph.node.iter().position(trains)?;
    let node = &graph.node[index];
    Some(ImportError::new(ImportErrorKind::TrainingGraph {
        node: crate::error::display_name(node, index),
        op: match node.domain.as_str() {
            "" => node.op_type.clone(),
            domain => format!("{domain}.{}", node.op_type),
        },
    }))
}

fn trains(node: &NodeProto) -> bool {
    let op = node.op_type.as_str();
    match node.domain.as_str() {
        "com.microsoft" => {
            op.ends_with("Grad")
                || op.starts_with("InPlaceAccumulator")
                || ["SGDOptimizer", "AdamOptimizer", "AdamWOptimizer", "LambOptimizer"]
                    .iter()
                    .any(|optimizer| op.starts_with(optimizer))
        }
        "ai.onnx.preview.training" => true,
        _ => false,
    }
}
