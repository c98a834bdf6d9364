//! The second executable of an artifact that two machines run.

use std::path::{Path, PathBuf};

use trainc_ir::Verified;
use trainc_ir::harness::{Harness, Toolchain};
use trainc_ir::program::Program;
use trainc_ir::target::Target;

use super::tools::{Build, Hooks, Tools, Workspace};

use crate::error::Result;

/// What it takes to build it.
pub(super) struct Partner {
    pub(super) toolchain: Toolchain,
    tools: Tools,
    harness: Harness,
    workspace: Workspace,
}

impl Partner {
    /// That of a program, in a folder of the workspace; `None` if one machine runs all.
    ///
    /// # Errors
    /// If its tools are not installed.
    pub(super) fn of(
        target: &dyn Target,
        program: &Verified<Program>,
        workspace: &Workspace,
    ) -> Result<Option<Partner>> {
        let Some((toolchain, harness)) = target.partner(program)? else { return Ok(None) };
        let tools = Tools::find(target.description().name, &toolchain, None, None)?;
        let workspace = Workspace::new(Some(&workspace.path().join("partner")))?;
        Ok(Some(Partner { toolchain, tools, harness, workspace }))
    }

    /// Adds sources beside the artifact's.
    pub(super) fn support(&mut self, support: &[(&str, &str)]) {
        let owned = support.iter().map(|(name, text)| (name.to_string(), text.to_string()));
        self.harness.support.extend(owned);
    }

    /// Gives its compiler another flag.
    pub(super) fn flag(&mut self, flag: &str) {
        self.tools.flag(flag);
    }

    /// The command that runs executables, if there is one.
    pub(super) fn runner(&self) -> Option<String> {
        self.tools.runner()
    }

    fn of_folder<'b>(&'b self, folder: &'b Path) -> Build<'b> {
        let (tools, workspace, harness) = (&self.tools, &self.workspace, &self.harness);
        Build { folder, tools, workspace, harness }
    }

    /// Builds it of an artifact's folder: its command, a word a line.
    ///
    /// # Errors
    /// With the compiler's words.
    pub(super) fn build(&self, folder: &Path, hooks: Option<Hooks<'_>>) -> Result<String> {
        let executable = self.of_folder(folder).executable("", hooks)?;
        let words = self.tools.runner_words().unwrap_or_default().iter().cloned();
        Ok(words.chain([executable.display().to_string()]).collect::<Vec<_>>().join("\n"))
    }

    /// Its sources as objects.
    ///
    /// # Errors
    /// With the compiler's words.
    pub(super) fn objects(&self, folder: &Path, hooks: Hooks<'_>) -> Result<Vec<PathBuf>> {
        self.of_folder(folder).objects(hooks)
    }
}
