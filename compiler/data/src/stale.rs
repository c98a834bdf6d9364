//! What killed runs left: temporary files and folders whose maker no longer lives.
//!
//! A maker holds a lock on each of its temporary files and folders; the system drops the lock when the process ends,
//! however it ends. What bears a temporary name and is not locked is nobody's. Where the system has no such locks
//! nothing is removed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The lock on a file or a folder, held until this is dropped.
#[derive(Debug)]
pub struct Hold {
    _file: File,
}

/// Locks what is at `path`: `None` if somebody else holds it, or it was removed or replaced meanwhile.
///
/// # Errors
/// If it cannot be opened, or the system has no locks for it.
pub fn hold(path: &Path) -> io::Result<Option<Hold>> {
    lock(File::open(path)?, path)
}

/// As [`hold`], with a file that is open.
pub(crate) fn lock(file: File, path: &Path) -> io::Result<Option<Hold>> {
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => return Ok(None),
        Err(fs::TryLockError::Error(error)) => return Err(error),
    }
    // Whoever removes what is stale holds it while removing it, so it may be gone, and the name another's since.
    Ok(is_at(&file, path).then_some(Hold { _file: file }))
}

/// Whether `path` is the name of `file` itself, not of what was made there after it was removed.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(file), Ok(named)) => place(file) == place(named),
        _ => false,
    }
}

/// Whether `path` is there: what is open is not removed on other systems, so the name is still its own.
#[cfg(not(unix))]
fn is_at(_file: &File, path: &Path) -> bool {
    path.exists()
}

/// A new folder with the lock on it (none where the system has no locks), under the first of `names` that nothing has.
/// Whoever cleans up may find it before it is locked and remove it: then the next name is tried.
///
/// # Errors
/// If it cannot be created.
pub fn create_held(
    mut names: impl Iterator<Item = PathBuf>,
) -> io::Result<(PathBuf, Option<Hold>)> {
    loop {
        let taken = || io::Error::new(io::ErrorKind::AlreadyExists, "every name is taken");
        let path = names.next().ok_or_else(taken)?;
        match fs::create_dir(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        }
        match hold(&path) {
            Ok(Some(held)) => return Ok((path, Some(held))),
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => return Ok((path, None)),
        }
    }
}

/// What `folder` holds under names that `is_temporary` knows and that no process locks, in the order of names. Each comes
/// with its lock: nobody else takes it for stale at the same time.
pub fn stale(folder: &Path, is_temporary: impl Fn(&str) -> bool) -> Vec<(PathBuf, Hold)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_str().is_some_and(&is_temporary))
        // A link is nobody's temporary file.
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file() || kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found.into_iter().filter_map(|path| Some((path.clone(), hold(&path).ok()??))).collect()
}

/// Whether `name` is `before`, numbers with `-` between them, `after`.
pub fn is_numbered(name: &str, before: &str, after: &str) -> bool {
    let middle = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    middle.is_some_and(|numbers| {
        let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        numbers.split('-').all(number)
    })
}

#[cfg(all(test, feature = "formats"))]
mod tests {
    use super::*;
    use crate::test_support::TemporaryFolder;

    #[test]
    fn what_is_held_is_not_stale() {
        let folder = TemporaryFolder::new();
        let path = folder.write(".a.1-2.tmp", b"part");
        let other = folder.write(".b.1-2.tmp", b"of another file");
        let temporary = |name: &str| is_numbered(name, ".a.", ".tmp");
        let held = hold(&path).unwrap().unwrap();
        assert!(hold(&path).unwrap().is_none());
        assert!(stale(folder.path(), temporary).is_empty());
        drop(held);
        let found = stale(folder.path(), temporary);
        assert_eq!(found.iter().map(|(path, _)| path).collect::<Vec<_>>(), [&path]);
        // Two that clean up at once do not both find it.
        assert!(stale(folder.path(), temporary).is_empty());
        assert!(other.exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_held_as_what_it_names() {
        let folder = TemporaryFolder::new();
        let (path, link) = (folder.path().join("a"), folder.path().join("b"));
        fs::create_dir(&path).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let held = hold(&link).unwrap().unwrap();
        assert!(hold(&path).unwrap().is_none());
        drop(held);
        assert!(hold(&path).unwrap().is_some());
    }

    #[test]
    fn a_new_folder_outlives_those_who_clean_up() {
        let folder = TemporaryFolder::new();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(std::sync::atomic::Ordering::Relaxed) {
                        for (path, _held) in stale(folder.path(), |n| is_numbered(n, "w-", "")) {
                            let _ = fs::remove_dir_all(path);
                        }
                    }
                });
            }
            let makers: Vec<_> = (0..2)
                .map(|maker| {
                    let root = folder.path();
                    scope.spawn(move || {
                        for turn in 0..1000 {
                            // Every other folder is removed by its maker, so its name is soon taken again.
                            let again = turn % 2 == 0;
                            let turn = if again { 0 } else { turn };
                            let name = |n: u32| root.join(format!("w-{maker}-{turn}-{n}"));
                            let (path, held) = create_held((0..).map(name)).unwrap();
                            fs::write(path.join("inside"), b"kept").unwrap();
                            std::thread::yield_now();
                            assert!(held.is_some() && path.join("inside").exists());
                            if again {
                                fs::remove_dir_all(&path).unwrap();
                            }
                            drop(held);
                        }
                    })
                })
                .collect();
            let results: Vec<_> = makers.into_iter().map(|maker| maker.join()).collect();
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(results.iter().all(Result::is_ok));
        });
    }

    #[test]
    fn names() {
        assert!(is_numbered(".w.bin.12-0.tmp", ".w.bin.", ".tmp"));
        for other in
            [".w.bin..tmp", ".w.bin.12-.tmp", ".w.bin.x.tmp", ".w.bin.12.tmp2", "w.bin.1.tmp"]
        {
            assert!(!is_numbered(other, ".w.bin.", ".tmp"), "{other}");
        }
    }
}
