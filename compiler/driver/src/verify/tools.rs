//! Compilers and emulators: finding them, building an artifact with its harness.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use trainc_data::{Hold, create_held, is_numbered, stale};
use trainc_ir::harness::{Harness, Library, PARTNER, Runner, Simulator, Tool, Toolchain};

use super::process::{Process, Requests, Runs};

use crate::error::{Context, Result, bail, ensure};

/// What the names of temporary folders start with.
const TEMPORARY: &str = "trainc-verify-";

/// Removes the folders of verifications that were killed.
fn remove_stale(root: &Path) {
    for (path, _held) in stale(root, |name| is_numbered(name, TEMPORARY, "")) {
        // Other people's cannot be removed.
        let _ = std::fs::remove_dir_all(path);
    }
}

/// The folder of a verification; gone when this is dropped, unless the user wants it.
pub(crate) struct Workspace {
    path: PathBuf,
    keep: bool,
    _held: Option<Hold>,
}

impl Workspace {
    /// The folder to keep, or a temporary one.
    ///
    /// # Errors
    /// If it cannot be created.
    pub(crate) fn new(keep: Option<&Path>) -> Result<Workspace> {
        let (path, held) = match keep {
            Some(path) => {
                let created = std::fs::create_dir_all(path);
                created.with_context(|| format!("{}: cannot be created", path.display()))?;
                (path.to_path_buf(), None)
            }
            None => {
                let root = std::env::temp_dir();
                remove_stale(&root);
                let name = |n: u32| root.join(format!("{TEMPORARY}{}-{n}", std::process::id()));
                let created = create_held((0..u32::MAX).map(name));
                created.with_context(|| format!("{}: no folder can be made", root.display()))?
            }
        };
        // Executables are started from it.
        let path = path.canonicalize().with_context(|| path.display().to_string())?;
        Ok(Workspace { path, keep: keep.is_some(), _held: held })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// The commands that build and run.
#[derive(Clone, Debug)]
pub(super) struct Tools {
    compiler: Vec<String>,
    runner: Running,
    libraries: Vec<Library>,
    /// The command of the artifact's second executable, a word a line, if it has one.
    pub(super) partner: Option<String>,
}

#[derive(Clone, Debug)]
enum Running {
    Here,
    Command(Vec<String>),
    Simulator(&'static dyn Simulator),
}

impl Tools {
    /// The tools of a target, or those that the user names in their place (a command with arguments): a compiler gets
    /// the target's flags in any case.
    ///
    /// # Errors
    /// If one is not installed; the message names the packages.
    pub(super) fn find(
        target: &str,
        toolchain: &Toolchain,
        compiler: Option<&str>,
        runner: Option<&str>,
    ) -> Result<Tools> {
        let compiler = tool(target, "is built with", &toolchain.compilers, compiler, "--cc")?;
        let runner = match (&toolchain.runner, runner) {
            (Runner::Emulator(tools), named) => {
                Running::Command(tool(target, "is run with", tools, named, "--runner")?)
            }
            (_, Some(named)) => Running::Command(words(named, "--runner")?),
            (Runner::Native, None) => Running::Here,
            (Runner::Simulator(simulator), None) => Running::Simulator(*simulator),
        };
        Ok(Tools { compiler, runner, libraries: toolchain.libraries.clone(), partner: None })
    }

    /// The compiler's command.
    pub(super) fn compiler(&self) -> String {
        self.compiler.join(" ")
    }

    /// Gives the compiler another flag.
    pub(super) fn flag(&mut self, flag: &str) {
        self.compiler.push(flag.to_string());
    }

    /// The emulator's command or the simulated machine, if there is one.
    pub(super) fn runner(&self) -> Option<String> {
        match &self.runner {
            Running::Here => None,
            Running::Command(words) => Some(words.join(" ")),
            Running::Simulator(simulator) => Some(simulator.name().to_string()),
        }
    }

    /// The simulator, if one runs executables.
    pub(super) fn simulator(&self) -> Option<&'static dyn Simulator> {
        match self.runner {
            Running::Simulator(simulator) => Some(simulator),
            _ => None,
        }
    }

    /// These tools with another command in place of what runs executables.
    pub(super) fn run_by(&self, words: Vec<String>) -> Tools {
        Tools { runner: Running::Command(words), ..self.clone() }
    }

    /// The words of the command that runs executables, if one does.
    pub(super) fn runner_words(&self) -> Option<&[String]> {
        match &self.runner {
            Running::Command(words) => Some(words),
            _ => None,
        }
    }

    /// What runs an executable.
    fn runs(&self, executable: &Path) -> Runs {
        match &self.runner {
            Running::Here => Runs::Command(Command::new(executable)),
            Running::Command(words) => {
                let mut command = Command::new(&words[0]);
                command.args(&words[1..]).arg(executable);
                Runs::Command(command)
            }
            Running::Simulator(simulator) => Runs::Simulator(*simulator, executable.to_path_buf()),
        }
    }
}

/// A header that emitted sources include.
#[derive(Clone, Copy)]
pub(super) struct Hooks<'a> {
    /// Of the executable, too.
    pub(super) name: &'a str,
    pub(super) text: &'a str,
}

/// What an executable is built of.
#[derive(Clone, Copy)]
pub(super) struct Build<'a> {
    /// The artifact's.
    pub(super) folder: &'a Path,
    pub(super) tools: &'a Tools,
    pub(super) workspace: &'a Workspace,
    pub(super) harness: &'a Harness,
}

impl Build<'_> {
    /// Builds an executable of the artifact's sources and the program around them.
    ///
    /// # Errors
    /// With the compiler's words.
    pub(super) fn executable(&self, main: &str, hooks: Option<Hooks<'_>>) -> Result<PathBuf> {
        let sources = self.sources()?;
        self.linked(main, hooks, &sources)
    }

    /// The artifact's files that the compiler gets.
    ///
    /// # Errors
    /// If one is not there.
    fn sources(&self) -> Result<Vec<PathBuf>> {
        let folder = std::path::absolute(self.folder).context("the artifact's folder")?;
        let source = |name: &String| {
            let path = folder.join(name);
            ensure!(path.is_file(), "{}: the artifact has no such file", path.display());
            Ok(path)
        };
        self.harness.sources.iter().map(source).collect()
    }

    /// Compiles each of the artifact's sources to an object of its own.
    ///
    /// # Errors
    /// With the compiler's words.
    pub(super) fn objects(&self, hooks: Hooks<'_>) -> Result<Vec<PathBuf>> {
        let mut objects = Vec::new();
        for source in self.sources()? {
            let name = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let object = self.workspace.path().join(format!("{name}.o"));
            if name.ends_with(".o") {
                objects.push(source);
                continue;
            }
            let mut command = self.command(Some(hooks))?;
            command.arg("-c").arg(&source);
            self.compile(command, &object)?;
            objects.push(object);
        }
        Ok(objects)
    }

    /// The compiler with its flags, once the files beside the program are written.
    fn command(&self, hooks: Option<Hooks<'_>>) -> Result<Command> {
        let place = self.workspace.path();
        let header = hooks.map(|hooks| (format!("trainc_verify_{}.h", hooks.name), hooks.text));
        let support = &self.harness.support;
        let written = support
            .iter()
            .try_for_each(|(name, text)| std::fs::write(place.join(name), text))
            .and_then(|()| {
                header.iter().try_for_each(|(name, text)| std::fs::write(place.join(name), text))
            });
        written.with_context(|| format!("{}: cannot be written", place.display()))?;
        let folder = std::path::absolute(self.folder).context("the artifact's folder")?;
        let compiler = &self.tools.compiler;
        let mut command = Command::new(&compiler[0]);
        command.args(&compiler[1..]).arg("-I").arg(&folder);
        if header.is_some() || !support.is_empty() {
            command.arg("-I").arg(place);
        }
        if let Some((name, _)) = &header {
            command.arg(format!("-DTRAINC_HOOKS=\"{name}\""));
        }
        Ok(command)
    }

    /// Builds an executable of the program around the artifact, and sources or objects.
    ///
    /// # Errors
    /// With the compiler's words.
    pub(super) fn linked(
        &self,
        main: &str,
        hooks: Option<Hooks<'_>>,
        parts: &[PathBuf],
    ) -> Result<PathBuf> {
        let place = self.workspace.path();
        let executable = place.join(hooks.map_or("plain", |hooks| hooks.name));
        let source = place.join("main.c");
        std::fs::write(&source, main)
            .with_context(|| format!("{}: cannot be written", place.display()))?;
        let mut command = self.command(hooks)?;
        command.arg("-Werror=implicit-function-declaration").arg(&source);
        let is_source = |name: &str| name.ends_with(".c") || name.ends_with(".S");
        for (name, _) in self.harness.support.iter().filter(|(name, _)| is_source(name)) {
            command.arg(place.join(name));
        }
        command.args(parts);
        command.args(self.tools.libraries.iter().map(|library| format!("-l{}", library.name)));
        self.compile(command, &executable)?;
        Ok(executable)
    }

    /// Runs the compiler.
    fn compile(&self, mut command: Command, result: &Path) -> Result<()> {
        let compiler = &self.tools.compiler;
        command.arg("-o").arg(result);
        let output =
            command.output().with_context(|| format!("`{}` cannot be started", compiler[0]))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let missing =
                |l: &&Library| said.contains(l.header) || said.contains(&format!("-l{}", l.name));
            if let Some(Library { name, packages, .. }) = self.tools.libraries.iter().find(missing)
            {
                bail!(
                    "{}: the library `{name}` is not installed: on Debian, `apt-get install {packages}`",
                    self.folder.display()
                );
            }
            let said: Vec<&str> = said.lines().take(20).collect();
            let (place, compiler) = (self.folder.display(), self.tools.compiler());
            bail!("{place}: `{compiler}` refuses it:\n{}", said.join("\n"));
        }
        Ok(())
    }

    /// Starts an executable on some requests.
    ///
    /// # Errors
    /// If it does not start.
    pub(super) fn start(&self, executable: &Path, requests: &Requests) -> Result<Process> {
        self.start_with(executable, requests, &[])
    }

    /// As [`Build::start`], with variables of the environment.
    ///
    /// # Errors
    /// As its.
    pub(super) fn start_with(
        &self,
        executable: &Path,
        requests: &Requests,
        variables: &[(&str, &Path)],
    ) -> Result<Process> {
        let mut runs = self.tools.runs(executable);
        if let Runs::Command(command) = &mut runs {
            command.envs(variables.iter().copied());
            command.envs(self.tools.partner.iter().map(|partner| (PARTNER, partner)));
            for cache in self.tools.libraries.iter().flat_map(|library| library.caches) {
                if std::env::var_os(cache).is_none() {
                    let folder = self.workspace.path().join(cache.to_lowercase());
                    let created = std::fs::create_dir_all(&folder);
                    created.with_context(|| format!("{}: cannot be created", folder.display()))?;
                    command.env(cache, folder);
                }
            }
        }
        Process::start(runs, self.workspace.path(), requests)
    }
}

pub(super) fn tool(
    target: &str,
    purpose: &str,
    tools: &[Tool],
    named: Option<&str>,
    flag: &str,
) -> Result<Vec<String>> {
    let Some(first) = tools.first() else {
        bail!("target `{target}` names no tool; name one with {flag}");
    };
    if let Some(named) = named {
        let words = words(named, flag)?;
        // A named compiler still needs the flags that keep the bits, but for a level that it names itself; a named
        // emulator knows its processor.
        let mut more = if flag == "--cc" { first.arguments.clone() } else { Vec::new() };
        let is_level = |word: &String| word.starts_with("-O");
        more.retain(|word| !(is_level(word) && words.iter().any(is_level)));
        return Ok(words.into_iter().chain(more).collect());
    }
    if let Some(tool) = tools.iter().find(|t| installed(&t.command)) {
        return Ok(std::iter::once(tool.command.clone()).chain(tool.arguments.clone()).collect());
    }
    let command = &first.command;
    bail!(
        "target `{target}` {purpose} `{command}`, which is not installed: on Debian, `apt-get install {}`; another command \
         is named by {flag}",
        first.packages
    )
}

/// The words of a command that the user names.
fn words(named: &str, flag: &str) -> Result<Vec<String>> {
    let words: Vec<String> = named.split_whitespace().map(String::from).collect();
    let command = words.first().with_context(|| format!("{flag}: an empty command"))?;
    ensure!(installed(command), "{flag}: there is no command `{command}`");
    Ok(words)
}

/// Whether a command is a file, or is in a folder of `PATH`.
pub(super) fn installed(command: &str) -> bool {
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
        let levels = [Tool::new("no-such-compiler", &["-O3", "-x"], "none")];
        let named = |words| tool("abacus", "is built with", &levels, Some(words), "--cc").unwrap();
        assert_eq!(named("sh -O1"), ["sh", "-O1", "-x"]);
        assert_eq!(named("sh"), ["sh", "-O3", "-x"]);
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
