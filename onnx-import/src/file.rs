//! A model's file: its bytes, and what other formats are told by.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::{ImportError, ImportErrorKind};
use crate::limits;

/// Says what a file is if it is a model in a known other format.
pub(crate) fn other_format(bytes: &[u8]) -> Option<ImportError> {
    let (what, instead) = if bytes.get(4..8) == Some(b"ORTM") {
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

/// The bytes of a model's file.
///
/// # Errors
/// If it is no plain file, cannot be read, or is beyond the limits.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, ImportError> {
    let fail = |e: std::io::Error| ImportError::new(ImportErrorKind::Read(e.to_string()));
    let metadata = path.metadata().map_err(fail)?;
    if !metadata.is_file() {
        return Err(ImportError::new(ImportErrorKind::Read("not a file".to_string())));
    }
    if metadata.len() > limits::MAX_FILE_BYTES {
        return Err(ImportError::limit(format!("a file of {} bytes", metadata.len())));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(fail)?;
    file.take(limits::MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(fail)?;
    Ok(bytes)
}
