//! Files that appear whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::DataError;
use crate::stale::{Hold, is_numbered, lock, stale};

/// Tells apart two threads of one process that write the same path at once.
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// Writes `bytes` to `path` so that a reader, at any moment and after a crash, sees the old content or the new, never
/// a part: the bytes go to a temporary file in the same folder, are flushed to disk, and the file is renamed over
/// `path`. The folder must exist. On an error the temporary file is removed and `path` is as it was; that of a run that
/// was killed, by the next run that writes `path`.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), DataError> {
    let (temporary, mut file, held) = create_beside(path).map_err(DataError::write(path))?;
    remove_stale(path);
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    // Closed before the rename, which some systems require; where locks are on the file and not on its name, the lock
    // stays until the file has its own.
    drop(file);
    let held = if cfg!(unix) { held } else { None };
    let result = written.and_then(|()| fs::rename(&temporary, path));
    if result.is_err() {
        // The first error is the one to report; a file that is already gone is no second one.
        let _ = fs::remove_file(&temporary);
    }
    drop(held);
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

/// What names of temporary files for `path` start with.
fn beginning(path: &Path) -> io::Result<OsString> {
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
    let mut beginning = OsString::from(".");
    beginning.push(name);
    beginning.push(".");
    Ok(beginning)
}

/// Removes temporary files for `path` of runs that were killed.
fn remove_stale(path: &Path) {
    let Ok(Some(before)) = beginning(path).map(|name| name.into_string().ok()) else { return };
    for (file, _held) in stale(folder_of(path), |name| is_numbered(name, &before, ".tmp")) {
        // What cannot be removed harms nobody.
        let _ = fs::remove_file(file);
    }
}

/// A new temporary file, and the lock on it where there are locks.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File, Option<Hold>)> {
    let beginning = beginning(path)?;
    loop {
        let mut temporary = beginning.clone();
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        temporary.push(format!("{}-{number}.tmp", std::process::id()));
        let temporary = folder_of(path).join(temporary);
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Ok(file) => match file.try_clone().and_then(|file| lock(file, &temporary)) {
                Ok(Some(held)) => return Ok((temporary, file, Some(held))),
                // Somebody who cleans up found it before it was locked, and removes it.
                Ok(None) => {}
                Err(_) => return Ok((temporary, file, None)),
            },
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
    fn what_a_killed_run_left_goes_with_the_next() {
        let folder = TemporaryFolder::new();
        let path = folder.path().join("weights.bin");
        folder.write(".weights.bin.4194305-7.tmp", b"half");
        for kept in [".weights.bin.mine.tmp", ".other.bin.4194305-7.tmp", "weights.bin.1-1.tmp"] {
            folder.write(kept, b"not of this file");
        }
        // A run that goes on.
        let (temporary, _file, held) = create_beside(&path).unwrap();
        assert!(held.is_some());
        write_atomically(&path, b"whole").unwrap();
        let running = temporary.file_name().unwrap().to_str().unwrap().to_string();
        let mut expected = vec![
            ".other.bin.4194305-7.tmp".to_string(),
            ".weights.bin.mine.tmp".into(),
            running,
            "weights.bin".into(),
            "weights.bin.1-1.tmp".into(),
        ];
        expected.sort();
        assert_eq!(names(folder.path()), expected);
    }

    #[test]
    fn many_at_once_leave_one_file() {
        let folder = TemporaryFolder::new();
        let path = folder.path().join("weights.bin");
        std::thread::scope(|scope| {
            for writer in 0..8u8 {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..50 {
                        write_atomically(path, &[writer; 1000]).unwrap();
                    }
                });
            }
        });
        assert_eq!(names(folder.path()), ["weights.bin"]);
        let bytes = fs::read(&path).unwrap();
        assert!(bytes.len() == 1000 && bytes.iter().all(|b| *b == bytes[0]));
    }

    #[test]
    fn a_missing_folder_and_a_path_without_a_name_are_errors() {
        let folder = TemporaryFolder::new();
        assert!(write_atomically(&folder.path().join("no/such/file"), b"").is_err());
        assert!(write_atomically(Path::new("/"), b"").is_err());
    }
}
