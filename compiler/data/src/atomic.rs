//! Files that appear whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::DataError;

/// Tells apart two threads of one process that write the same path at once.
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// Writes `bytes` to `path` so that a reader, at any moment and after a crash, sees the old content or the new, never
/// a part: the bytes go to a temporary file in the same folder, are flushed to disk, and the file is renamed over
/// `path`. The folder must exist. On an error the temporary file is removed and `path` is as it was.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), DataError> {
    let (temporary, mut file) = create_beside(path).map_err(DataError::write(path))?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    // Closed before the rename, which some systems require.
    drop(file);
    let result = written.and_then(|()| fs::rename(&temporary, path));
    if result.is_err() {
        // The first error is the one to report; a file that is already gone is no second one.
        let _ = fs::remove_file(&temporary);
    }
    result.map_err(DataError::write(path))?;
    sync_folder(path);
    Ok(())
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
    loop {
        let mut temporary = OsString::from(".");
        temporary.push(name);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        temporary.push(format!(".{}-{number}.tmp", std::process::id()));
        let temporary = folder_of(path).join(temporary);
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            // Left by a process that died; the next number is free or is tried after.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Makes the rename itself durable where folders can be opened; without it only durability is lost, never wholeness.
fn sync_folder(path: &Path) {
    if let Ok(folder) = File::open(folder_of(path)) {
        let _ = folder.sync_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::TemporaryFolder;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn replaces_the_content_and_leaves_nothing_else() {
        let folder = TemporaryFolder::new();
        let path = folder.path().join("weights.bin");
        write_atomically(&path, b"first").unwrap();
        write_atomically(&path, b"second, longer").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second, longer");
        assert_eq!(names(folder.path()), ["weights.bin"]);
    }

    #[test]
    fn a_failed_rename_keeps_the_target_and_removes_the_temporary_file() {
        let folder = TemporaryFolder::new();
        let path = folder.path().join("taken");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside"), b"kept").unwrap();
        let error = write_atomically(&path, b"bytes").unwrap_err();
        assert!(error.to_string().contains("taken: cannot write"), "{error}");
        assert_eq!(names(folder.path()), ["taken"]);
        assert_eq!(fs::read(path.join("inside")).unwrap(), b"kept");
    }

    #[test]
    fn a_missing_folder_and_a_path_without_a_name_are_errors() {
        let folder = TemporaryFolder::new();
        assert!(write_atomically(&folder.path().join("no/such/file"), b"").is_err());
        assert!(write_atomically(Path::new("/"), b"").is_err());
    }
}
