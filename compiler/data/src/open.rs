//! Opening a data set from whatever a path holds.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use crate::dataset::{Dataset, file_names};
use crate::error::DataError;
use crate::{cifar, idx, image_archive, image_folder, npz_dataset, text};

impl Dataset {
    /// Opens the data set at `path`, recognising by content which of the [supported kinds](crate::SUPPORTED) it is. `digits`, where
    /// nothing has that name, is the built-in data set.
    ///
    /// Errors name the file and the reason. Nothing decodes to more than
    /// [`DECODED_BYTES_LIMIT`](crate::DECODED_BYTES_LIMIT) bytes a file.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        if path == Path::new("digits") && !path.exists() {
            return Ok(Dataset::digits());
        }
        let metadata = fs::metadata(path).map_err(DataError::read(path))?;
        let dataset = if metadata.is_dir() { open_folder(path) } else { open_file(path) }?;
        dataset.checked(path)
    }
}

fn open_folder(path: &Path) -> Result<Dataset, DataError> {
    if idx::is_idx_folder(path)? {
        return idx::open(path);
    }
    if cifar::is_cifar_folder(path)? {
        return cifar::open(path);
    }
    if image_folder::is_image_folder(path) {
        return image_folder::open(path);
    }
    let mut names = file_names(path)?;
    let found = match names.len() {
        0 => "the folder is empty".to_string(),
        count => {
            names.truncate(5);
            let more = if count > 5 { ", ..." } else { "" };
            format!("no data set is recognised in this folder of {}{more}", names.join(", "))
        }
    };
    Err(DataError::Unrecognized { path: path.to_path_buf(), found })
}

fn open_file(path: &Path) -> Result<Dataset, DataError> {
    let mut start = Vec::new();
    File::open(path)
        .and_then(|file| file.take(512).read_to_end(&mut start))
        .map_err(DataError::read(path))?;
    match image_archive::Compression::of(&start) {
        _ if start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06") => {
            npz_dataset::open(path)
        }
        Some(compression) => image_archive::open(path, compression),
        None if text::is_text(path) => text::open(path),
        None => Err(DataError::Unrecognized {
            path: path.to_path_buf(),
            found: match start.len() {
                0 => "the file is empty".to_string(),
                _ => "the file is neither a tar (plain, gzip, xz), a zip (npz) nor, by its name, a text (.txt)".to_string(),
            },
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::TemporaryFolder;

    #[test]
    fn nothing_recognised_lists_what_is_supported() {
        let folder = TemporaryFolder::new();
        let error = Dataset::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("the folder is empty"), "{error}");
        fs::write(folder.path().join("notes.md"), b"hello").unwrap();
        for path in [folder.path().to_path_buf(), folder.path().join("notes.md")] {
            let error = Dataset::open(&path).unwrap_err();
            assert!(matches!(error, DataError::Unrecognized { .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains("train-images-idx3-ubyte") && text.contains("x_train"), "{text}");
            assert!(text.contains(path.to_str().unwrap()), "{text}");
        }
        fs::write(folder.path().join("empty"), b"").unwrap();
        let error = Dataset::open(&folder.path().join("empty")).unwrap_err().to_string();
        assert!(error.contains("the file is empty"), "{error}");
        let missing = Dataset::open(&folder.path().join("missing")).unwrap_err();
        assert!(matches!(missing, DataError::Read { .. }), "{missing}");
    }
}
