//! What can go wrong with a model, and what is worth saying about one that imports.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::proto::NodeProto;

/// Why a model was not imported.
#[derive(Clone, PartialEq, Debug)]
pub struct ImportError {
    /// The model's file, if it came from one.
    pub file: Option<PathBuf>,
    /// What is wrong.
    pub kind: ImportErrorKind,
}

/// What is wrong with a model.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ImportErrorKind {
    /// The file, or a file it refers to, could not be read.
    #[error("cannot read: {0}")]
    Read(String),
    /// The bytes are not an ONNX model: not the wire format, or without a graph.
    #[error("not an ONNX model: {0}")]
    NotOnnx(String),
    /// The bytes are not a TensorFlow Lite model, or have none for inference.
    #[error("not a TensorFlow Lite model: {0}")]
    NotLite(String),
    /// The file claims more than the importer accepts; see [`crate::limits`].
    #[error("beyond the importer's limits: {0}")]
    Limit(String),
    /// The model's version of ONNX's operator set.
    #[error("operator set {found} of ONNX is not supported; supported are {first} to {last}")]
    Opset {
        /// The model's.
        found: i64,
        /// First supported.
        first: i64,
        /// Last supported.
        last: i64,
    },
    /// A graph input that cannot be one.
    #[error("input `{input}`: {reason}")]
    Input {
        /// Its name.
        input: String,
        /// Why.
        reason: String,
    },
    /// A dimension other than the batch that is not known.
    #[error(
        "input `{input}`: dimension {dimension} is `{symbol}`, only the first dimension (the batch) may be open; \
         export the model with a fixed size, or name the size of `{symbol}`"
    )]
    DynamicShape {
        /// The input.
        input: String,
        /// Which dimension, from 0.
        dimension: usize,
        /// Its symbol, `?` if it has none.
        symbol: String,
    },
    /// The model breaks ONNX's rules, or its shapes do not fit together.
    #[error("{}{reason}", place.as_ref().map(|p| format!("{p}: ")).unwrap_or_default())]
    Invalid {
        /// The node's name, if it is a node.
        node: Option<String>,
        /// The node, initializer or value, in words.
        place: Option<String>,
        /// What is wrong with it.
        reason: String,
    },
    /// A training step that ONNX Runtime generated, where the model is wanted from which it was generated.
    #[error(
        "node `{node}` ({op}): this is a training graph that ONNX Runtime generated, which is not supported: trainc \
         makes gradients and update itself; give the forward model that was passed to generate_artifacts"
    )]
    TrainingGraph {
        /// The first node that tells.
        node: String,
        /// Its operator with its domain.
        op: String,
    },
    /// Operators, attributes and operands outside the supported set: all of the model's.
    #[error("{}", list(.0))]
    Unsupported(Vec<Unsupported>),
}

/// One thing a model uses that the importer does not support.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unsupported {
    /// Name of the node, or `#12` by its position if it has no name.
    pub node: String,
    /// Its operator, with the domain if that is not ONNX's own.
    pub op: String,
    /// What about it: `operator`, `opset`, ``attribute `mode` ``, ``operand `x` ``, ``output `Indices` ``.
    pub what: String,
    /// Why it is not supported.
    pub reason: String,
    /// What is supported instead.
    pub supported: String,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node `{}` ({}): {}: {}", self.node, self.op, self.what, self.reason)?;
        if self.supported.is_empty() {
            Ok(())
        } else {
            write!(f, "; supported: {}", self.supported)
        }
    }
}

fn list(items: &[Unsupported]) -> String {
    let mut text = match items.len() {
        1 => "the model uses something that is not supported:".to_string(),
        n => format!("the model uses {n} things that are not supported:"),
    };
    for item in items {
        text.push_str(&format!("\n  {item}"));
    }
    text
}

impl ImportError {
    pub(crate) fn new(kind: ImportErrorKind) -> ImportError {
        ImportError { file: None, kind }
    }

    pub(crate) fn invalid(place: impl Into<String>, reason: impl Into<String>) -> ImportError {
        ImportError::new(ImportErrorKind::Invalid {
            node: None,
            place: Some(place.into()),
            reason: reason.into(),
        })
    }

    pub(crate) fn invalid_node(node: &str, op: &str, reason: impl Into<String>) -> ImportError {
        ImportError::new(ImportErrorKind::Invalid {
            node: Some(node.to_string()),
            place: Some(format!("node `{node}` ({op})")),
            reason: reason.into(),
        })
    }

    pub(crate) fn limit(reason: impl Into<String>) -> ImportError {
        ImportError::new(ImportErrorKind::Limit(reason.into()))
    }

    pub(crate) fn in_file(mut self, file: &Path) -> ImportError {
        self.file.get_or_insert_with(|| file.to_path_buf());
        self
    }

    /// The name of the first node that the error is about.
    pub fn node(&self) -> Option<&str> {
        match &self.kind {
            ImportErrorKind::Unsupported(items) => items.first().map(|u| u.node.as_str()),
            ImportErrorKind::Invalid { node, .. } => node.as_deref(),
            ImportErrorKind::TrainingGraph { node, .. } => Some(node),
            _ => None,
        }
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        self.kind.fmt(f)
    }
}

impl std::error::Error for ImportError {}

/// What kind of a warning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WarningKind {
    /// Batch norm in inference form in a model to be trained.
    InferenceBatchNorm,
    /// Batch norm in training form, written by an exporter that moved its running statistics.
    MovedStatistics,
    /// Batch norm seems to have been folded into convolutions by the exporter.
    FoldedBatchNorm,
    /// Parameters that the exporter merged because they were equal are separate again.
    Untied,
    /// One parameter serves several nodes.
    Shared,
    /// Weights stored as integers become FP32 parameters.
    IntegerWeights,
    /// A part of the file that has no effect.
    Ignored,
    /// A batch size in the file was replaced.
    Batch,
    /// Something quantized in the file is not so here, or differently.
    Quantization,
    /// Signs became binary quantizers, or did not.
    Signs,
    /// Parameters that the file has no values for.
    Empty,
    /// Weights that a text form has only by their hash were drawn.
    Drawn,
}

/// Something worth saying about a model that imports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// What kind.
    pub kind: WarningKind,
    /// In words.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Why one node was not imported; the pass adds where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NodeError {
    /// Outside the supported set.
    Unsupported { what: String, reason: String, supported: String },
    /// Against ONNX's rules.
    Invalid(String),
}

pub(crate) type NodeResult<T> = Result<T, NodeError>;

/// A [`NodeError::Invalid`] with a formatted text.
macro_rules! invalid {
    ($($arg:tt)*) => { $crate::error::NodeError::Invalid(format!($($arg)*)) };
}
pub(crate) use invalid;

pub(crate) fn unsupported(
    what: impl Into<String>,
    reason: impl Into<String>,
    supported: impl Into<String>,
) -> NodeError {
    NodeError::Unsupported { what: what.into(), reason: reason.into(), supported: supported.into() }
}

/// A node's name for messages: its own, or operator and position.
pub(crate) fn display_name(node: &NodeProto, index: usize) -> String {
    if node.name.is_empty() { format!("{}_{index}", node.op_type) } else { node.name.clone() }
}
