//! Files and graphs that are not what trainc reads, told by a few bytes or names, with what to give instead.

use crate::error::{ImportError, ImportErrorKind};
use crate::proto::{GraphProto, NodeProto};

const INSTEAD_OF_LITE: &str = "give the ONNX model of the same network, exported from the framework that trained it (tf2onnx converts Keras and \
     TensorFlow Lite models)";

/// Says what a file is if it is a model in a known other format.
pub(crate) fn other_format(bytes: &[u8]) -> Option<ImportError> {
    let (what, instead) = if bytes.get(4..8) == Some(b"TFL3") {
        ("a TensorFlow Lite model (.tflite), which is not supported yet", INSTEAD_OF_LITE)
    } else if bytes.get(4..8) == Some(b"ORTM") {
        (
            "a model in ONNX Runtime's own format (.ort), which is not supported",
            "give the .onnx file that it was made from",
        )
    } else if bytes.starts_with(b"PK\x03\x04") {
        (
            "a zip archive, as torch.save and Keras write them, which is not supported",
            "give an ONNX model (torch.onnx.export, tf2onnx)",
        )
    } else {
        return None;
    };
    Some(ImportError::new(ImportErrorKind::NotOnnx(format!("{what}; {instead}"))))
}

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
