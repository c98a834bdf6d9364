//! What cargo tells a build script, and what a build script tells cargo.

use std::path::{Path, PathBuf};

use crate::Error;

/// Replaces the target that a build script leaves open.
pub(crate) const TARGET_OVERRIDE: &str = "TRAINC_TARGET";

/// Cargo on both sides: variables in, lines out.
pub(crate) struct Cargo<'a> {
    /// Value of an environment variable.
    pub(crate) variable: &'a dyn Fn(&str) -> Option<String>,
    /// Takes a line for cargo.
    pub(crate) line: &'a mut dyn FnMut(String),
    /// Whether `cc` may print its own lines.
    pub(crate) live: bool,
}

impl Cargo<'_> {
    /// A variable that cargo sets, if it is there.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        (self.variable)(name)
    }

    /// A variable that cargo sets for every build script.
    ///
    /// # Errors
    /// If it is missing.
    pub(crate) fn need(&self, name: &str) -> Result<String, Error> {
        self.get(name).ok_or_else(|| {
            Error::new(format!("{name} is not set: trainc-build runs in a build script"))
        })
    }

    /// A variable of the user's, which cargo shall watch.
    pub(crate) fn watched(&mut self, name: &str) -> Option<String> {
        self.say("rerun-if-env-changed", name);
        self.get(name).filter(|value| !value.is_empty())
    }

    /// Has cargo run the script again when that file changes.
    pub(crate) fn watch_file(&mut self, path: &Path) {
        self.say("rerun-if-changed", &path.display().to_string());
    }

    /// `cargo::KEY=TEXT`, once a line of the text.
    pub(crate) fn say(&mut self, key: &str, text: &str) {
        for line in text.lines() {
            let clean: String = line.chars().filter(|c| !c.is_control()).collect();
            (self.line)(format!("cargo::{key}={clean}"));
        }
    }

    /// The folder for what is made.
    pub(crate) fn out_dir(&self) -> Result<PathBuf, Error> {
        self.need("OUT_DIR").map(PathBuf::from)
    }

    /// The best target for the machine that cargo builds for.
    pub(crate) fn default_target(&self) -> &'static str {
        let features = self.get("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
        let has = |name: &str| features.split(',').any(|f| f == name);
        let endian = self.get("CARGO_CFG_TARGET_ENDIAN").unwrap_or_default();
        match self.get("CARGO_CFG_TARGET_ARCH").unwrap_or_default().as_str() {
            _ if endian == "big" => "c",
            "aarch64" if has("i8mm") => "neon+i8mm",
            "aarch64" if has("dotprod") => "neon+dotprod",
            // Kernels' or bare-metal AArch64 may be without vectors.
            "aarch64" if has("neon") => "neon",
            "arm" if has("neon") => "armv7-neon",
            _ => "c",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(arch: &str, features: &str) -> &'static str {
        let variable = |name: &str| match name {
            "CARGO_CFG_TARGET_ARCH" => Some(arch.to_string()),
            "CARGO_CFG_TARGET_FEATURE" => Some(features.to_string()),
            _ => None,
        };
        Cargo { variable: &variable, line: &mut |_| {}, live: false }.default_target()
    }

    #[test]
    fn the_machine_decides_the_target() {
        assert_eq!(target("x86_64", "fxsr,sse,sse2"), "c");
        assert_eq!(target("aarch64", "neon"), "neon");
        assert_eq!(target("aarch64", "neon,dotprod"), "neon+dotprod");
        assert_eq!(target("aarch64", "dotprod,i8mm,neon"), "neon+i8mm");
        assert_eq!(target("aarch64", ""), "c");
        // Cortex-M and plain Armv7 have no vectors.
        assert_eq!(target("arm", "mclass,thumb-mode"), "c");
        assert_eq!(target("arm", "neon,vfp3"), "armv7-neon");
    }

    #[test]
    fn lines_stay_lines() {
        let mut lines = Vec::new();
        let mut take = |line| lines.push(line);
        let mut cargo = Cargo { variable: &|_| None, line: &mut take, live: false };
        cargo.say("error", "first\nsecond\r\n\tcargo::x");
        assert_eq!(lines, ["cargo::error=first", "cargo::error=second", "cargo::error=cargo::x"]);
    }
}
