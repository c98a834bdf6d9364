//! Why the driver could not do what was asked, and where: the file and node behind a chain of causes.

use std::error::Error as Cause;
use std::fmt::Display;
use std::path::Path;

#[cfg(feature = "host")]
use trainc_data::DataError;
#[cfg(feature = "host")]
use trainc_host::HostError;
use trainc_ir::TypeError;
use trainc_ir::interpreter::InterpretError;
use trainc_ir::program_interpreter::ProgramRunError;
use trainc_ir::target::EmitError;
use trainc_ir::text::cursor::SyntaxError;
use trainc_ir::verify::VerifyErrors;
use trainc_onnx_import::ImportError;
use trainc_opt::algorithm::AlgorithmError;
use trainc_opt::optimise::OptimiseError;
use trainc_opt::plan::PlanError;
use trainc_opt::quantized::QuantizeError;
use trainc_opt::quantized::precision::PrecisionError;
use trainc_opt::training::TrainingError;
use trainc_opt::translate::TranslateError;
use trainc_opt::untranslated::Untranslated;

use crate::zoo::ZooError;

/// A result of the driver.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the driver could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was asked for cannot be had, or not so, in words that name it.
    #[error("{0}")]
    Refused(String),
    /// Something about a file.
    #[error(transparent)]
    InFile(#[from] InFile),
    /// A stage's error about a model, with the model's file in front.
    #[error("{place}")]
    InModel {
        /// Where, in the words of the cause.
        place: InFile,
        /// The stage's error.
        #[source]
        cause: Box<Error>,
    },
    /// An error in the course of something.
    #[error("{course}")]
    While {
        /// Of what, or about what.
        course: String,
        /// The error.
        #[source]
        cause: Box<Error>,
    },
    /// A text that is no module, or one that a pass refuses.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A model that does not import.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// No algorithm.
    #[error(transparent)]
    Algorithm(#[from] AlgorithmError),
    /// No training graph.
    #[error(transparent)]
    Training(#[from] TrainingError),
    /// No translation.
    #[error(transparent)]
    Translate(#[from] TranslateError),
    /// No quantized inference.
    #[error(transparent)]
    Quantize(#[from] QuantizeError),
    /// A precision file that does not fit.
    #[error(transparent)]
    Precision(#[from] PrecisionError),
    /// No optimised module.
    #[error(transparent)]
    Optimise(#[from] OptimiseError),
    /// No plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// What a target cannot express.
    #[error(transparent)]
    Emit(#[from] EmitError),
    /// A graph that does not verify: a bug of the pass before.
    #[error(transparent)]
    Verify(#[from] VerifyErrors),
    /// A graph that does not type: a bug of the pass that built it.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// What the interpreter of graphs refuses.
    #[error(transparent)]
    Interpret(#[from] InterpretError),
    /// What the interpreter of programs refuses.
    #[error(transparent)]
    Run(#[from] ProgramRunError),
    /// No reference model.
    #[error(transparent)]
    Zoo(#[from] ZooError),
    /// Data that cannot be read or written.
    #[cfg(feature = "host")]
    #[error(transparent)]
    Data(#[from] DataError),
    /// What this machine's code generator or its programs refuse.
    #[cfg(feature = "host")]
    #[error(transparent)]
    Host(#[from] HostError),
    /// JSON that cannot be read or written.
    #[cfg(feature = "host")]
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// What the system refuses.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

/// Returns with [`Error::Refused`] in these words, or another error.
macro_rules! bail {
    ($words:literal $($rest:tt)*) => {
        return Err($crate::error::Error::Refused(format!($words $($rest)*)).into())
    };
    ($error:expr) => { return Err($crate::error::Error::from($error)) };
}

/// [`bail!`] unless something holds.
macro_rules! ensure {
    ($condition:expr, $($error:tt)*) => {
        if !$condition {
            $crate::error::bail!($($error)*);
        }
    };
}

pub(crate) use {bail, ensure};

/// Says of an error, or of what is not there, what it is about.
pub(crate) trait Context<T>: Sized {
    /// See [`Error::While`]; [`Error::Refused`] of what is not there.
    fn with_context(self, course: impl FnOnce() -> String) -> Result<T>;

    /// [`Context::with_context`] in words that are there.
    fn context(self, course: &str) -> Result<T> {
        self.with_context(|| course.to_string())
    }
}

impl<T> Context<T> for Option<T> {
    fn with_context(self, course: impl FnOnce() -> String) -> Result<T> {
        self.ok_or_else(|| Error::Refused(course()))
    }
}

impl<T, E: Into<Error>> Context<T> for Result<T, E> {
    fn with_context(self, course: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|e| Error::While { course: course(), cause: Box::new(e.into()) })
    }
}

/// The place of an error, as far as it is known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// The file.
    pub file: Option<String>,
    /// The model's node.
    pub node: Option<String>,
}

/// An error in a file whose own message does not name it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}: {message}")]
pub struct InFile {
    /// The file.
    pub file: String,
    /// What is wrong with it.
    pub message: String,
    /// The model's node, if it is about one.
    pub node: Option<String>,
}

impl InFile {
    /// An error of that file in these words.
    pub fn new(file: &Path, message: impl Display) -> InFile {
        InFile { file: file.display().to_string(), message: message.to_string(), node: None }
    }
}

/// An error of a text with its line shown.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{shown}")]
pub struct TextError {
    /// All errors, each with its line of the text.
    pub shown: String,
    /// Where.
    pub errors: Vec<SyntaxError>,
}

impl TextError {
    /// Errors about a text.
    pub fn new(text: &str, errors: Vec<SyntaxError>) -> TextError {
        let shown: Vec<String> = errors.iter().map(|e| e.shown(text)).collect();
        TextError { shown: shown.join("\n"), errors }
    }
}

impl Error {
    /// The error with the model's file in front, unless it names a file.
    pub(crate) fn in_model(self, file: &Path) -> Error {
        let place = place(&self);
        if place.file.is_some() {
            return self;
        }
        let place = InFile { node: place.node, ..InFile::new(file, message(&self)) };
        Error::InModel { place, cause: Box::new(self) }
    }

    /// The nodes without translation, if the error is about those.
    pub fn untranslated(&self) -> Option<&[Untranslated]> {
        match self {
            Error::Translate(TranslateError::Untranslated { nodes, .. }) => Some(nodes),
            Error::InModel { cause, .. } | Error::While { cause, .. } => cause.untranslated(),
            _ => None,
        }
    }
}

fn causes<'e>(error: &'e (dyn Cause + 'static)) -> impl Iterator<Item = &'e (dyn Cause + 'static)> {
    std::iter::successors(Some(error), |&cause| cause.source())
}

/// The file and node that an error names, taken from the first of its causes that knows.
pub fn place(error: &(dyn Cause + 'static)) -> Place {
    let mut place = Place::default();
    for cause in causes(error) {
        let boxed = || cause.downcast_ref::<Box<Error>>().map(AsRef::as_ref);
        let (file, node) = match cause.downcast_ref::<Error>().or_else(boxed) {
            Some(Error::InFile(e) | Error::InModel { place: e, .. }) => {
                (Some(e.file.clone()), e.node.clone())
            }
            Some(Error::Import(e)) => {
                (e.file.as_ref().map(|f| f.display().to_string()), e.node().map(str::to_string))
            }
            Some(Error::Translate(TranslateError::Untranslated { nodes, .. })) => {
                (None, nodes.first().map(|n| n.node.clone()))
            }
            Some(Error::Training(TrainingError::Autodiff(e))) => (None, Some(e.node.clone())),
            #[cfg(feature = "host")]
            Some(Error::Data(e)) => (Some(data_file(e)), None),
            #[cfg(feature = "host")]
            None => (cause.downcast_ref().map(data_file), None),
            _ => (None, None),
        };
        place.file = place.file.or(file);
        place.node = place.node.or(node);
    }
    place
}

/// An error with its causes in one line, each said once: some messages hold their cause's already.
pub fn message(error: &(dyn Cause + 'static)) -> String {
    let mut text = String::new();
    for cause in causes(error).map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text.push_str(&format!(": {cause}"));
        }
    }
    text
}

#[cfg(feature = "host")]
fn data_file(error: &DataError) -> String {
    match error {
        DataError::Read { path, .. }
        | DataError::Write { path, .. }
        | DataError::Unrecognized { path, .. } => path.display().to_string(),
        DataError::Invalid { place, .. } | DataError::TooLarge { place, .. } => place.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing() -> Result<()> {
        bail!("no such thing")
    }

    #[test]
    fn causes_are_said_once() {
        let error = nothing().context("a.onnx: no such thing").unwrap_err();
        assert_eq!(message(&error), "a.onnx: no such thing");
        let error = nothing().context("a.onnx: cannot read").unwrap_err();
        assert_eq!(message(&error), "a.onnx: cannot read: no such thing");
    }

    #[test]
    fn the_first_cause_that_knows_gives_the_place() {
        let inner = InFile::new(Path::new("b"), "");
        let error = Err::<(), _>(inner).context("outer").unwrap_err();
        assert_eq!(place(&error), Place { file: Some("b".to_string()), node: None });
        // A model's file is put in front of those alone that name none.
        assert_eq!(place(&error.in_model(Path::new("c"))).file.as_deref(), Some("b"));
        let error = nothing().unwrap_err();
        assert_eq!(place(&error), Place::default());
        assert_eq!(error.in_model(Path::new("c")).to_string(), "c: no such thing");
    }
}
