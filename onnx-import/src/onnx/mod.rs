//! ONNX files: from bytes to the model that the importer takes, and back.

pub mod export;
pub(crate) mod external;
mod messages;
pub(crate) mod signs;
pub(crate) mod training;
pub mod write;

use crate::error::{ImportError, ImportErrorKind};
use crate::file;
use crate::proto::{Message, ModelProto};

/// Decodes a file's bytes.
///
/// # Errors
/// If they are a model in another format, beyond the limits, or not of the wire format.
pub(crate) fn decode(bytes: &[u8]) -> Result<ModelProto, ImportError> {
    if let Some(other) = file::other_format(bytes) {
        return Err(other);
    }
    messages::check_messages(bytes)?;
    ModelProto::decode(bytes).map_err(|e| ImportError::new(ImportErrorKind::NotOnnx(e.to_string())))
}
