//! An artifact's folder: it appears whole or not at all, and replaces nothing but an artifact that is as it was written.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use trainc_data::{Hold, create_held, hold, is_numbered, stale};
use trainc_ir::names::shown;
use trainc_ir::target::ArtifactFile;

use crate::error::{Context, Result, bail};
use crate::hash::FileFingerprint;
use crate::stored::MANIFEST;

/// Most names of a list in an error.
const SHOWN: usize = 8;
/// Ends of the names of folders that are being made, and of those that are being replaced.
const NEW: &str = ".trainc-new";
const OLD: &str = ".trainc-old";

/// What a manifest says of its folder.
#[derive(Deserialize)]
struct Manifest {
    format: u32,
    trainc: String,
    #[serde(rename = "program")]
    _program: String,
    files: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    name: String,
    bytes: u64,
    hash: String,
}

/// The names of an artifact's files, its manifest's among them.
type Names = Vec<String>;

/// What a folder holds.
enum Found {
    /// Nothing.
    Empty,
    /// An artifact, each file as it was written.
    Artifact(Names),
    /// Something else, and what of it is not an artifact's: each in words.
    Foreign(Vec<String>),
}

/// Looks through a folder.
///
/// # Errors
/// If it cannot be read.
fn content(folder: &Path) -> std::io::Result<Found> {
    let mut entries: BTreeMap<String, PathBuf> = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        entries.insert(entry.file_name().to_string_lossy().into_owned(), entry.path());
    }
    if entries.is_empty() {
        return Ok(Found::Empty);
    }
    let text = fs::read(folder.join(MANIFEST)).unwrap_or_default();
    let manifest: Option<Manifest> = serde_json::from_slice(&text).ok();
    let listed: BTreeMap<&str, &Listed> = match &manifest {
        Some(manifest) if manifest.format == 1 && !manifest.trainc.is_empty() => {
            manifest.files.iter().map(|file| (file.name.as_str(), file)).collect()
        }
        // Another program's manifest, or none.
        _ => return Ok(Found::Foreign(entries.keys().map(|name| shown(name)).collect())),
    };
    let mut foreign = Vec::new();
    for (name, path) in &entries {
        let plain = fs::symlink_metadata(path)?.is_file();
        if name == MANIFEST && plain {
            continue;
        }
        match listed.get(name.as_str()) {
            Some(file) if plain => {
                let bytes = fs::read(path)?;
                let same =
                    bytes.len() as u64 == file.bytes && FileFingerprint::of(&bytes) == file.hash;
                if !same {
                    foreign.push(format!("{} (edited)", shown(name)));
                }
            }
            _ => foreign.push(shown(name)),
        }
    }
    Ok(match foreign.is_empty() {
        true => Found::Artifact(entries.into_keys().collect()),
        false => Found::Foreign(foreign),
    })
}

/// Removes the files of an artifact and then its folder, unless something else has come into it.
fn remove(folder: &Path, names: &[String]) -> std::io::Result<()> {
    names.iter().try_for_each(|name| fs::remove_file(folder.join(name)))?;
    fs::remove_dir(folder)
}

/// Writes files as a folder: into a temporary one beside it, which is then renamed. A folder of that name is replaced
/// if it is empty, or holds an artifact's files as they were written and nothing else. Temporary folders of runs that were
/// killed are removed.
///
/// # Errors
/// If something else is in the way, or the disk refuses; what was there is then as it was.
pub fn write_folder(folder: &Path, files: &[ArtifactFile]) -> Result<()> {
    write_folder_by(folder, &mut |take| {
        files.iter().try_for_each(|file| {
            take(&file.name, &|out| Ok(out.write_all(&file.contents)?))?;
            Ok(())
        })
    })
}

/// Writes the content of a file.
pub(crate) type Content<'c> = dyn Fn(&mut dyn Write) -> Result<()> + 'c;

/// Takes the files of a folder, one after another, and says what each became.
pub(crate) type Take<'t> = dyn FnMut(&str, &Content<'_>) -> Result<FileFingerprint> + 't;

/// A writer that sees what it writes.
pub(crate) struct Seen<W> {
    pub(crate) out: W,
    pub(crate) print: FileFingerprint,
}

impl<W: Write> Write for Seen<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.print.add(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// [`write_folder`] of files that `give` hands over one by one, so that they need not be in memory together.
///
/// # Errors
/// As [`write_folder`], and what `give` fails with.
pub(crate) fn write_folder_by(
    folder: &Path,
    give: &mut dyn FnMut(&mut Take<'_>) -> Result<()>,
) -> Result<()> {
    let at = |what: &str| format!("{}: cannot {what}", folder.display());
    let name = folder.file_name().with_context(|| at("be written: it names no folder"))?;
    let parent = match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let replaced = match content(folder) {
        Ok(Found::Empty) => Some(Vec::new()),
        Ok(Found::Artifact(names)) => Some(names),
        Ok(Found::Foreign(names)) => bail!(
            "{}: is there already and is not an artifact as `trainc compile` wrote it, so it is not replaced; not of an \
             artifact: {}. Move what you need, or name another folder",
            folder.display(),
            list(&names)
        ),
        Err(e) if e.kind() == ErrorKind::NotFound => None,
        Err(e) => return Err(e).with_context(|| at("be read")),
    };
    fs::create_dir_all(parent).with_context(|| at("be created"))?;
    remove_stale(parent, name);
    // Two runs must not both take away what is there.
    let _held = match &replaced {
        None => None,
        Some(_) => match hold(folder) {
            Ok(None) => bail!("{}: another run is writing it", folder.display()),
            held => held.ok().flatten(),
        },
    };
    let temporary = Temporary::new(parent, name).with_context(|| at("be created"))?;
    give(&mut |name, content| {
        let file = fs::File::create(temporary.path.join(name)).with_context(|| at("be written"))?;
        let mut seen = Seen { out: file, print: FileFingerprint::new() };
        content(&mut seen).with_context(|| at("be written"))?;
        Ok(seen.print)
    })?;
    let Some(names) = replaced else {
        return fs::rename(&temporary.path, folder).with_context(|| at("be written"));
    };
    let unused = |path: &PathBuf| fs::symlink_metadata(path).is_err();
    let old = beside(parent, name, OLD).find(unused).with_context(|| at("be replaced"))?;
    fs::rename(folder, &old).with_context(|| at("be replaced"))?;
    if let Err(e) = fs::rename(&temporary.path, folder) {
        let _ = fs::rename(&old, folder);
        return Err(e).with_context(|| at("be written"));
    }
    remove(&old, &names).with_context(|| {
        format!(
            "{}: is written; what came into the one before meanwhile is in {}",
            folder.display(),
            old.display()
        )
    })
}

/// Temporary names beside a folder.
fn beside(parent: &Path, name: &OsStr, end: &str) -> impl Iterator<Item = PathBuf> {
    let name = name.to_string_lossy();
    (0..u32::MAX).map(move |n| parent.join(format!(".{name}.{}-{n}{end}", std::process::id())))
}

/// The folder that is being made: gone when this is dropped, unless it was renamed.
struct Temporary {
    path: PathBuf,
    _held: Option<Hold>,
}

impl Temporary {
    fn new(parent: &Path, name: &OsStr) -> std::io::Result<Temporary> {
        let (path, held) = create_held(beside(parent, name, NEW))?;
        Ok(Temporary { path, _held: held })
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes what killed runs left beside a folder: half-made ones, and artifacts that were being replaced.
fn remove_stale(parent: &Path, name: &OsStr) {
    let before = format!(".{}.", name.to_string_lossy());
    for (path, _held) in stale(parent, |name| is_numbered(name, &before, NEW)) {
        let _ = fs::remove_dir_all(path);
    }
    for (path, _held) in stale(parent, |name| is_numbered(name, &before, OLD)) {
        // It was a user's folder once.
        if let Ok(Found::Artifact(names)) = content(&path) {
            let _ = remove(&path, &names);
        }
    }
}

fn list(names: &[String]) -> String {
    let mut text = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn temporary(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("trainc-folder-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn file(name: &str, contents: &str) -> ArtifactFile {
        ArtifactFile { name: name.to_string(), contents: contents.as_bytes().to_vec() }
    }

    /// Files with their manifest.
    fn artifact(mut files: Vec<ArtifactFile>) -> Vec<ArtifactFile> {
        let listed: Vec<serde_json::Value> = files
            .iter()
            .map(|file| {
                let hash = FileFingerprint::of(&file.contents);
                serde_json::json!({"name": file.name, "bytes": file.contents.len(), "hash": hash})
            })
            .collect();
        let manifest = serde_json::json!({
            "format": 1, "trainc": "0.1.0", "program": "0123456789abcdef", "files": listed,
        });
        files.push(file(MANIFEST, &manifest.to_string()));
        files
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_folder_appears_whole_and_replaces_its_predecessor() {
        let root = temporary("replace");
        let folder = root.join("out");
        fs::create_dir(&folder).unwrap();
        write_folder(&folder, &artifact(vec![file("a.o", "x")])).unwrap();
        assert_eq!(names(&folder), ["a.o", MANIFEST]);
        write_folder(&folder, &artifact(vec![])).unwrap();
        assert_eq!(names(&folder), [MANIFEST]);
        assert_eq!(names(&root), ["out"]);
        fs::remove_dir_all(&root).unwrap();
    }

    /// Everything that is not an artifact's stays, and is named.
    #[test]
    fn a_user_s_files_stay() {
        let root = temporary("foreign");
        let written = artifact(vec![file("a.c", "x"), file("b.h", "y")]);
        let ours = String::from_utf8(written[2].contents.clone()).unwrap();
        let other_format = ours.replace("\"format\":1", "\"format\":2");
        /// What stands in a folder: a name for it, its files, and the one that is named.
        type Change<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);
        let changes: &[Change<'_>] = &[
            ("no manifest", &[("thesis.tex", "x")], "thesis.tex"),
            ("an empty one", &[(MANIFEST, "{}"), ("thesis.tex", "x")], "thesis.tex"),
            ("of another program", &[(MANIFEST, r#"{"name": "app"}"#)], MANIFEST),
            ("of another format", &[(MANIFEST, &other_format), ("a.c", "x")], "a.c"),
            ("a file beside", &[(MANIFEST, &ours), ("a.c", "x"), ("notes", "")], "notes"),
            ("an edited file", &[(MANIFEST, &ours), ("a.c", "z"), ("b.h", "y")], "a.c (edited)"),
        ];
        for (what, files, named) in changes {
            let folder = root.join("mine");
            fs::create_dir(&folder).unwrap();
            for (name, text) in *files {
                fs::write(folder.join(name), text).unwrap();
            }
            let error = write_folder(&folder, &written).expect_err(what).to_string();
            assert!(error.contains("not replaced") && error.contains(named), "{what}: {error}");
            for (name, text) in *files {
                assert_eq!(fs::read_to_string(folder.join(name)).unwrap(), *text, "{what}");
            }
            assert_eq!(names(&folder).len(), files.len(), "{what}");
            assert_eq!(names(&root), ["mine"], "{what}");
            fs::remove_dir_all(&folder).unwrap();
        }
        // A folder in it, even of a listed name.
        let folder = root.join("mine");
        write_folder(&folder, &written).unwrap();
        fs::remove_file(folder.join("a.c")).unwrap();
        fs::create_dir(folder.join("a.c")).unwrap();
        fs::write(folder.join("a.c/thesis.tex"), "x").unwrap();
        assert!(write_folder(&folder, &written).is_err());
        assert_eq!(names(&folder.join("a.c")), ["thesis.tex"]);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_failure_leaves_nothing() {
        let root = temporary("failure");
        let folder = root.join("out");
        let bad = [file("a.o", "x"), file("no/such/folder.o", "x"), file(MANIFEST, "1")];
        assert!(write_folder(&folder, &bad).is_err());
        assert!(names(&root).is_empty());
        let good = artifact(vec![file("a.o", "x")]);
        write_folder(&folder, &good).unwrap();
        assert!(write_folder(&folder, &bad).is_err());
        assert_eq!(
            (names(&root), names(&folder)),
            (vec!["out".into()], vec!["a.o".into(), MANIFEST.into()])
        );
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn what_killed_runs_left_goes() {
        let root = temporary("stale");
        let written = artifact(vec![file("a.o", "x")]);
        let left = |name: &str, files: &[ArtifactFile]| {
            let path = root.join(name);
            fs::create_dir(&path).unwrap();
            files.iter().for_each(|f| fs::write(path.join(&f.name), &f.contents).unwrap());
            path
        };
        left(".out.4194305.trainc-new", &[file("a.o", "half")]);
        left(".out.4194305.trainc-old", &written);
        // Not an artifact any more, of another folder, or of nobody.
        left(".out.4194306.trainc-old", &[file("thesis.tex", "x")]);
        left(".other.4194305.trainc-new", &[]);
        left(".out.mine.trainc-new", &[]);
        // A run that goes on.
        let running = left(".out.4194307.trainc-new", &[]);
        let _held = hold(&running).unwrap().unwrap();
        write_folder(&root.join("out"), &written).unwrap();
        assert_eq!(
            names(&root),
            [
                ".other.4194305.trainc-new",
                ".out.4194306.trainc-old",
                ".out.4194307.trainc-new",
                ".out.mine.trainc-new",
                "out"
            ]
        );
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn two_at_once_do_not_take_the_same_folder() {
        let root = temporary("twice");
        let folder = root.join("out");
        let written = artifact(vec![file("a.o", "x")]);
        write_folder(&folder, &written).unwrap();
        let held = hold(&folder).unwrap().unwrap();
        let error = write_folder(&folder, &written).unwrap_err().to_string();
        assert!(error.contains("another run"), "{error}");
        drop(held);
        write_folder(&folder, &written).unwrap();
        assert_eq!(names(&root), ["out"]);
        fs::remove_dir_all(&root).unwrap();
    }
}
