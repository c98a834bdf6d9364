//! The second executable of an artifact that two machines run.

use std::path::Path;

use trainc_ir::Verified;
use trainc_ir::program::Program;
use trainc_ir::target::Target;

use super::tools::{Build, Tools, Workspace};

use crate::error::Result;

/// Builds it in a folder of the workspace: its command, a word a line; `None` if one machine runs all.
///
/// # Errors
/// If it cannot be built here.
pub(super) fn partner(
    target: &dyn Target,
    program: &Verified<Program>,
    folder: &Path,
    workspace: &Workspace,
) -> Result<Option<String>> {
    let Some((toolchain, harness)) = target.partner(program)? else { return Ok(None) };
    let tools = Tools::find(target.description().name, &toolchain, None, None)?;
    let workspace = Workspace::new(Some(&workspace.path().join("partner")))?;
    let build = Build { folder, tools: &tools, workspace: &workspace, harness: &harness };
    let executable = build.executable("", None)?;
    let words = tools.runner_words().unwrap_or_default().iter().cloned();
    Ok(Some(words.chain([executable.display().to_string()]).collect::<Vec<_>>().join("\n")))
}
