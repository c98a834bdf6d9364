//! Compilers and emulators: finding them, building an artifact with its harness.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use trainc_ir::harness::{Harness, Tool};

use super::source::{HOOKS, HOOKS_HEADER};

/// A folder that is gone when this is dropped.
pub(super) struct Workspace(pub(super) PathBuf);

impl Workspace {
    pub(super) fn new() -> anyhow::Result<Workspace> {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("trainc-verify-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path)
            .with_context(|| format!("{}: cannot be created", path.display()))?;
        Ok(Workspace(path))
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The commands that build and run.
#[derive(Clone, Debug)]
pub(super) struct Toolchain {
    compiler: Vec<String>,
    runner: Vec<String>,
}

impl Toolchain {
    /// The tools of a target, or those that the user names in their place (a command with arguments): a compiler gets
    /// the target's flags in any case.
    ///
    /// # Errors
    /// If one is not installed; the message names the packages.
    pub(super) fn find(
        target: &str,
        harness: &Harness,
        compiler: Option<&str>,
        runner: Option<&str>,
    ) -> anyhow::Result<Toolchain> {
        let compiler = tool(target, "is built with", &harness.compilers, compiler, "--cc")?;
        let runner = match (&harness.runners[..], runner) {
            ([], None) => Vec::new(),
            ([], Some(named)) => named.split_whitespace().map(String::from).collect(),
            (tools, named) => tool(target, "is run with", tools, named, "--runner")?,
        };
        Ok(Toolchain { compiler, runner })
    }

    /// The compiler's command.
    pub(super) fn compiler(&self) -> String {
        self.compiler.join(" ")
    }

    /// The emulator's command, if there is one.
    pub(super) fn runner(&self) -> Option<String> {
        (!self.runner.is_empty()).then(|| self.runner.join(" "))
    }

    /// Builds an executable of the artifact's sources and the harness's.
    ///
    /// # Errors
    /// With the compiler's words.
    pub(super) fn build(
        &self,
        folder: &Path,
        workspace: &Workspace,
        harness: &Harness,
        main: &str,
        hooks: bool,
    ) -> anyhow::Result<PathBuf> {
        let name = if hooks { "watched" } else { "plain" };
        let executable = workspace.0.join(name);
        let source = workspace.0.join("main.c");
        std::fs::write(&source, main).context("the temporary folder")?;
        std::fs::write(workspace.0.join(HOOKS), HOOKS_HEADER).context("the temporary folder")?;
        let folder = std::path::absolute(folder).context("the artifact's folder")?;
        let mut command = Command::new(&self.compiler[0]);
        command.args(&self.compiler[1..]).arg("-I").arg(&folder);
        if hooks {
            command.arg("-I").arg(&workspace.0).arg(format!("-DTRAINC_HOOKS=\"{HOOKS}\""));
        }
        command.arg("-Werror=implicit-function-declaration").arg(&source);
        for source in &harness.sources {
            let path = folder.join(source);
            ensure!(path.is_file(), "{}: the artifact has no such file", path.display());
            command.arg(path);
        }
        command.arg("-o").arg(&executable);
        let output = command
            .output()
            .with_context(|| format!("`{}` cannot be started", self.compiler[0]))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said: Vec<&str> = said.lines().take(20).collect();
            bail!("{}: `{}` refuses it:\n{}", folder.display(), self.compiler(), said.join("\n"));
        }
        Ok(executable)
    }

    /// The command that runs an executable.
    pub(super) fn command(&self, executable: &Path) -> Command {
        match self.runner.split_first() {
            None => Command::new(executable),
            Some((runner, arguments)) => {
                let mut command = Command::new(runner);
                command.args(arguments).arg(executable);
                command
            }
        }
    }
}

fn tool(
    target: &str,
    purpose: &str,
    tools: &[Tool],
    named: Option<&str>,
    flag: &str,
) -> anyhow::Result<Vec<String>> {
    let Some(first) = tools.first() else {
        bail!("target `{target}` names no tool; name one with {flag}");
    };
    if let Some(named) = named {
        let words: Vec<String> = named.split_whitespace().map(String::from).collect();
        let command = words.first().with_context(|| format!("{flag}: an empty command"))?;
        ensure!(installed(command), "{flag}: there is no command `{command}`");
        // A named compiler still needs the flags that keep the bits; a named emulator knows its processor.
        let more = if flag == "--cc" { first.arguments.clone() } else { Vec::new() };
        return Ok(words.into_iter().chain(more).collect());
    }
    if let Some(tool) = tools.iter().find(|t| installed(&t.command)) {
        return Ok(std::iter::once(tool.command.clone()).chain(tool.arguments.clone()).collect());
    }
    bail!(
        "target `{target}` {purpose} `{}`, which is not installed: on Debian, `apt-get install {}`; another command is \
         named by {flag}",
        first.command,
        first.packages
    )
}

/// Whether a command is a file, or is in a folder of `PATH`.
fn installed(command: &str) -> bool {
    if command.contains('/') {
        return Path::new(command).is_file();
    }
    let path = std::env::var_os("PATH");
    let folders = path.as_deref().unwrap_or(OsStr::new("/usr/bin:/bin"));
    std::env::split_paths(folders).any(|folder| folder.join(command).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_named_with_its_package() {
        let tools = [
            Tool::new("no-such-compiler", &["-x"], "gcc-nowhere libc6-dev-nowhere"),
            Tool::new("no-such-compiler-either", &[], "other"),
        ];
        let error = tool("abacus", "is built with", &tools, None, "--cc").unwrap_err().to_string();
        for word in ["abacus", "no-such-compiler", "apt-get install gcc-nowhere libc6-dev-nowhere"]
        {
            assert!(error.contains(word), "{error}");
        }
        let named = tool("abacus", "is built with", &tools, Some("sh -e"), "--cc").unwrap();
        assert_eq!(named, ["sh", "-e", "-x"]);
        let named = tool("abacus", "is run with", &tools, Some("sh"), "--runner").unwrap();
        assert_eq!(named, ["sh"]);
        assert!(tool("abacus", "is run with", &tools, Some("nowhere"), "--runner").is_err());
    }

    #[test]
    fn the_first_that_is_installed() {
        let tools = [Tool::new("no-such-tool", &[], "none"), Tool::new("sh", &["-u"], "dash")];
        let found = tool("abacus", "is run with", &tools, None, "--runner").unwrap();
        assert_eq!(found, ["sh", "-u"]);
    }
}
