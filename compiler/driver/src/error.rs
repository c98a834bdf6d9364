//! Where an error is: the file and node behind a chain of causes, for messages that machines read.

use std::fmt;

#[cfg(feature = "host")]
use trainc_data::DataError;
use trainc_onnx_import::ImportError;
use trainc_opt::training::TrainingError;
use trainc_opt::translate::TranslateError;
use trainc_opt::untranslated::Untranslated;

/// The place of an error, as far as it is known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// The file.
    pub file: Option<String>,
    /// The model's node.
    pub node: Option<String>,
}

/// An error in a file whose own message does not name it.
#[derive(Debug)]
pub struct InFile {
    /// The file.
    pub file: String,
    /// What is wrong with it.
    pub message: String,
    /// The model's node, if it is about one.
    pub node: Option<String>,
}

impl std::fmt::Display for InFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.file, self.message)
    }
}

impl std::error::Error for InFile {}

impl InFile {
    /// An error of that file in these words.
    pub fn new(file: &std::path::Path, message: impl std::fmt::Display) -> InFile {
        InFile { file: file.display().to_string(), message: message.to_string(), node: None }
    }
}

/// An error of a stage about a model, with the model's file in front.
#[derive(Debug)]
pub struct InModel {
    /// Where, in the words of the cause.
    pub place: InFile,
    /// The stage's error.
    pub cause: anyhow::Error,
}

impl fmt::Display for InModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.fmt(f)
    }
}

impl std::error::Error for InModel {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self.cause.as_ref())
    }
}

/// The file and node that an error names, taken from the first of its causes that knows.
pub fn place(error: &anyhow::Error) -> Place {
    let mut place = Place::default();
    for cause in error.chain() {
        let (file, node) = if let Some(e) = cause.downcast_ref::<ImportError>() {
            (e.file.as_ref().map(|f| f.display().to_string()), e.node().map(str::to_string))
        } else if let Some(e) = cause.downcast_ref::<InFile>() {
            (Some(e.file.clone()), e.node.clone())
        } else if let Some(InModel { place, .. }) = cause.downcast_ref() {
            (Some(place.file.clone()), place.node.clone())
        } else if let Some(TranslateError::Untranslated { nodes, .. }) = cause.downcast_ref() {
            (None, nodes.first().map(|n| n.node.clone()))
        } else if let Some(TrainingError::Autodiff(e)) = cause.downcast_ref() {
            (None, Some(e.node.clone()))
        } else {
            (data_file(cause), None)
        };
        place.file = place.file.or(file);
        place.node = place.node.or(node);
    }
    place
}

/// The nodes without translation, if an error is about those.
pub fn untranslated(error: &anyhow::Error) -> Option<&[Untranslated]> {
    error.chain().find_map(|cause| match cause.downcast_ref() {
        Some(TranslateError::Untranslated { nodes, .. }) => Some(&nodes[..]),
        _ => None,
    })
}

/// An error with its causes in one line, each said once: some messages hold their cause's already.
pub fn message(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text.push_str(&format!(": {cause}"));
        }
    }
    text
}

#[cfg(feature = "host")]
fn data_file(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    Some(match error.downcast_ref::<DataError>()? {
        DataError::Read { path, .. }
        | DataError::Write { path, .. }
        | DataError::Unrecognized { path, .. } => path.display().to_string(),
        DataError::Invalid { place, .. } | DataError::TooLarge { place, .. } => place.clone(),
    })
}

#[cfg(not(feature = "host"))]
fn data_file(_: &(dyn std::error::Error + 'static)) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};

    #[test]
    fn causes_are_said_once() {
        let error = Err::<(), _>(anyhow!("no such thing")).context("a.onnx: no such thing");
        assert_eq!(message(&error.unwrap_err()), "a.onnx: no such thing");
        let error = Err::<(), _>(anyhow!("no such thing")).context("a.onnx: cannot read");
        assert_eq!(message(&error.unwrap_err()), "a.onnx: cannot read: no such thing");
    }

    #[test]
    fn the_first_cause_that_knows_gives_the_place() {
        let inner = InFile { file: "b".to_string(), message: String::new(), node: None };
        let error = anyhow::Error::new(inner).context("outer");
        assert_eq!(place(&error), Place { file: Some("b".to_string()), node: None });
        assert_eq!(place(&anyhow!("nothing")), Place::default());
    }
}
