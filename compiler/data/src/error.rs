//! The one error type of the crate: every variant names the file (or the file inside an archive) and the reason.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

/// Why a data file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The operating system refused to read a file or a folder.
    #[error("{}: cannot read: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The operating system refused to write a file.
    #[error("{}: cannot write: {source}", path.display())]
    Write {
        /// The file that was to be written.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The content contradicts its format, or the parts of a data set contradict each other.
    #[error("{place}: {reason}")]
    Invalid {
        /// The file, or `archive: file inside it`.
        place: String,
        /// What is wrong, in one sentence without a full stop.
        reason: String,
    },
    /// The content would decode to more than this crate is willing to hold in memory.
    #[error("{place}: decodes to more than the limit of {limit} bytes")]
    TooLarge {
        /// The file, or `archive: file inside it`.
        place: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// Nothing at this path looks like a data set.
    #[error("{}: {found}\n{SUPPORTED}", path.display())]
    Unrecognized {
        /// The file or folder.
        path: PathBuf,
        /// What is there instead.
        found: String,
    },
}

/// What `Dataset::open` reads, as shown when it recognises nothing.
pub const SUPPORTED: &str = "supported data sets:
  a folder with MNIST-style IDX files: train-images-idx3-ubyte, train-labels-idx1-ubyte,
    t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte (or test- for t10k-; plain or .gz)
  a folder with CIFAR-10 binary files: data_batch_1.bin to data_batch_5.bin, test_batch.bin
  a folder with images: train/<class>/*.png and test/<class>/*.png (also .jpg, .jpeg)
  a .tar, .tar.gz or .tar.xz file of such an image folder
  a .npz file with x_train, y_train, x_test, y_test
  a .txt file, for models of the next byte";

impl DataError {
    /// An [`DataError::Invalid`] for a file on disk.
    pub(crate) fn invalid(path: &Path, reason: impl Display) -> Self {
        Self::at(path.display(), reason)
    }

    /// An [`DataError::Invalid`] for a place that is not a file on disk.
    pub(crate) fn at(place: impl Display, reason: impl Display) -> Self {
        DataError::Invalid { place: place.to_string(), reason: reason.to_string() }
    }

    /// For `map_err` on reading `path`.
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |source| DataError::Read { path: path.to_path_buf(), source }
    }

    /// For `map_err` on writing `path`.
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |source| DataError::Write { path: path.to_path_buf(), source }
    }
}
