//! The C compiler: from an artifact's sources to a static library that cargo links.

use std::path::{Path, PathBuf};

use crate::Error;
use crate::cargo::Cargo;

/// What to build.
pub(crate) struct Library<'a> {
    /// Its name, without `lib` and ending.
    pub(crate) name: &'a str,
    /// Folder of the sources and of the library.
    pub(crate) folder: &'a Path,
    /// C sources.
    pub(crate) sources: &'a [PathBuf],
    /// Finished objects.
    pub(crate) objects: &'a [PathBuf],
    /// The target's flags.
    pub(crate) flags: &'a [&'static str],
    /// Libraries of the system that it needs.
    pub(crate) libraries: &'a [&'static str],
    /// The user's flags, after them.
    pub(crate) more_flags: &'a [String],
    /// The level of `-O`, in place of the target's.
    pub(crate) opt_level: Option<u32>,
}

/// Builds the library and tells cargo to link it.
///
/// # Errors
/// If there is no GCC or Clang, or it fails.
pub(crate) fn build(library: &Library<'_>, cargo: &mut Cargo<'_>) -> Result<(), Error> {
    let mut build = cc::Build::new();
    build
        .target(&cargo.need("TARGET")?)
        .host(&cargo.need("HOST")?)
        .out_dir(library.folder)
        .files(library.sources)
        .objects(library.objects)
        .include(library.folder)
        // The sources are clean; what a compiler of another age says of them helps no one.
        .warnings(false)
        .debug(cargo.get("DEBUG").is_some_and(|level| level != "false"))
        .cargo_metadata(false)
        .emit_rerun_if_env_changed(cargo.live);
    let (levels, flags): (Vec<_>, Vec<_>) =
        library.flags.iter().copied().partition(|flag| flag.starts_with("-O"));
    // A training step at -O0 serves nobody, so the profile does not decide.
    let level = levels.iter().find_map(|flag| flag.strip_prefix("-O")?.parse().ok());
    build.opt_level(library.opt_level.or(level).unwrap_or(2));
    if !library.sources.is_empty() {
        let compiler = build.try_get_compiler().map_err(failed)?;
        if compiler.is_like_msvc() {
            return Err(Error::new(format!(
                "{}: the emitted C is for GCC and Clang, whose -ffp-contract=off keeps the results' bits",
                compiler.path().display()
            )));
        }
    }
    for flag in flags.iter().copied().chain(library.more_flags.iter().map(String::as_str)) {
        build.flag(flag);
    }
    build.try_compile(library.name).map_err(failed)?;
    let folder = library.folder.display();
    cargo.say("rustc-link-search", &format!("native={folder}"));
    cargo.say("rustc-link-lib", &format!("static={}", library.name));
    library.libraries.iter().for_each(|name| cargo.say("rustc-link-lib", name));
    Ok(())
}

fn failed(error: cc::Error) -> Error {
    Error::new(format!("the C compiler: {error}"))
}
