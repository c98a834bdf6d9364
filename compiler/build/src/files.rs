//! Writing what is made: whole files, and only those that changed.

use std::fs;
use std::path::Path;

use crate::Error;

/// Writes a file whole or not at all; one that has the content already keeps its time, so that nothing is rebuilt.
///
/// # Errors
/// The system's, with the file.
pub(crate) fn write(path: &Path, contents: &[u8]) -> Result<(), Error> {
    if fs::read(path).is_ok_and(|old| old == contents) {
        return Ok(());
    }
    let fail = |e: std::io::Error| Error::at(path, format!("cannot write: {e}"));
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(fail)?;
    }
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    fs::write(&temporary, contents).and_then(|()| fs::rename(&temporary, path)).map_err(|e| {
        let _ = fs::remove_file(&temporary);
        fail(e)
    })
}
