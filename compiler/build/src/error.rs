//! What goes wrong, in words for cargo's output.

use std::fmt;

use trainc_driver::error::{self, InFile, Place, message, place};

/// Why a model could not be compiled. `Debug` is the message too, so that a build script may return it from `main`.
pub struct Error {
    message: String,
    place: Place,
}

impl Error {
    /// An error in these words.
    pub(crate) fn new(message: impl Into<String>) -> Error {
        Error { message: message.into(), place: Place::default() }
    }

    /// An error of a file that the words do not name.
    pub(crate) fn at(path: &std::path::Path, message: impl fmt::Display) -> Error {
        error::Error::from(InFile::new(path, message)).into()
    }

    /// The file it is about.
    pub fn file(&self) -> Option<&str> {
        self.place.file.as_deref()
    }

    /// The model's node that it is about.
    pub fn node(&self) -> Option<&str> {
        self.place.node.as_deref()
    }
}

impl From<error::Error> for Error {
    fn from(error: error::Error) -> Error {
        Error { message: message(&error), place: place(&error) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
