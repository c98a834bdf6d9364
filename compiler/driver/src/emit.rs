//! What is written of stages and artifacts: texts of every stage, an artifact's files with their manifest.

use std::path::Path;
use std::sync::Arc;

use trainc_ir::Tensor;
use trainc_ir::graph::Graph;
use trainc_ir::names;
use trainc_ir::program::Region;
use trainc_ir::target::{ArtifactFile, Target};
use trainc_ir::text::Printer;

use crate::error::{Context, Result, ensure};
use crate::session::{
    Compilation, FloatEntry, OptimisedEntry, Session, Staged, TRAIN_STEP, TranslatedEntry,
};
use crate::stored::{self, MANIFEST, WEIGHTS};
use crate::{manifest, timeline, weights};

use crate::folder::{Content, Seen, Take, write_folder_by};
use crate::hash::FileFingerprint;
use crate::manifest::FileReport;

pub use crate::folder::write_folder;

/// A name that a user gives to an artifact, its files and symbols.
///
/// # Errors
/// If it is no such name: what one is, and the nearest.
pub fn checked_name(name: &str) -> Result<String, String> {
    names::check(name).map(|()| name.to_string())
}

/// A stage of a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Depth {
    /// FP32 graphs.
    Float,
    /// The algorithm's modules.
    Translated,
    /// Optimised modules.
    Optimised,
    /// The program.
    Planned,
}

/// A stage that can be written as text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum EmitKind {
    /// The model's FP32 graph as imported: a text that every command takes as a model.
    Graph,
    /// The FP32 training graph.
    Training,
    /// The modules in the algorithm's representation.
    Qir,
    /// The modules after the optimiser.
    Optimised,
    /// The schedule and memory plan.
    Program,
    /// The target's intermediate form, if it has one.
    Clif,
    /// The target's assembly or source.
    Asm,
    /// The devices of the launches over time, as SVG, if the target has several.
    Timeline,
    /// What the launches take on each of them, as a file for `--latencies`.
    Latencies,
}

impl EmitKind {
    /// Every kind, in the order of the stages.
    pub const ALL: [EmitKind; 9] = [
        EmitKind::Graph,
        EmitKind::Training,
        EmitKind::Qir,
        EmitKind::Optimised,
        EmitKind::Program,
        EmitKind::Clif,
        EmitKind::Asm,
        EmitKind::Timeline,
        EmitKind::Latencies,
    ];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            EmitKind::Graph => "graph",
            EmitKind::Training => "training",
            EmitKind::Qir => "qir",
            EmitKind::Optimised => "optimised",
            EmitKind::Program => "program",
            EmitKind::Clif => "clif",
            EmitKind::Asm => "asm",
            EmitKind::Timeline => "timeline",
            EmitKind::Latencies => "latencies",
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<EmitKind> {
        EmitKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The stage that has it.
    pub fn depth(self) -> Depth {
        match self {
            EmitKind::Graph | EmitKind::Training => Depth::Float,
            EmitKind::Qir => Depth::Translated,
            EmitKind::Optimised => Depth::Optimised,
            EmitKind::Program
            | EmitKind::Clif
            | EmitKind::Asm
            | EmitKind::Timeline
            | EmitKind::Latencies => Depth::Planned,
        }
    }
}

/// A stage of a session, whose text can be written.
pub trait Texts {
    /// The text of that kind, `with_data` of tensors that stand as their hash otherwise; `None` if it is a later stage's.
    /// Modules of several entries stand one after another.
    ///
    /// # Errors
    /// If the model or the target has no such text.
    fn text(&self, kind: EmitKind, with_data: bool) -> Result<Option<String>>;
}

/// Graphs in the text form.
fn printed<'g>(graphs: impl Iterator<Item = &'g Graph>, with_data: bool) -> Option<String> {
    let printer = Printer::default();
    let text = |graph| match with_data {
        true => printer.with_data(graph),
        false => printer.graph(graph),
    };
    Some(graphs.map(text).collect::<Vec<_>>().join("\n"))
}

fn float<'e>(
    compilation: &Compilation,
    mut entries: impl Iterator<Item = &'e FloatEntry>,
    kind: EmitKind,
    with_data: bool,
) -> Result<Option<String>> {
    Ok(match kind {
        EmitKind::Graph => printed(std::iter::once(&compilation.imported.graph), with_data),
        EmitKind::Training => {
            let algorithm = &compilation.algorithm.name;
            let entry = entries.find(|entry| entry.name == TRAIN_STEP);
            let entry = entry.with_context(|| format!("algorithm `{algorithm}` only infers"))?;
            printed(std::iter::once(&entry.float), with_data)
        }
        _ => None,
    })
}

impl Texts for Staged<FloatEntry> {
    fn text(&self, kind: EmitKind, with_data: bool) -> Result<Option<String>> {
        float(self, self.entries.iter(), kind, with_data)
    }
}

impl Texts for Staged<TranslatedEntry> {
    fn text(&self, kind: EmitKind, with_data: bool) -> Result<Option<String>> {
        match kind {
            EmitKind::Qir => Ok(printed(self.entries.iter().map(|entry| &entry.module), with_data)),
            _ => float(self, self.entries.iter().map(|entry| &**entry), kind, with_data),
        }
    }
}

impl Texts for Staged<OptimisedEntry> {
    fn text(&self, kind: EmitKind, with_data: bool) -> Result<Option<String>> {
        match kind {
            EmitKind::Qir => Ok(printed(self.entries.iter().map(|entry| &entry.module), with_data)),
            EmitKind::Optimised => {
                Ok(printed(self.entries.iter().map(|entry| &entry.optimised), with_data))
            }
            _ => float(self, self.entries.iter().map(|entry| &***entry), kind, with_data),
        }
    }
}

impl Texts for Session {
    fn text(&self, kind: EmitKind, with_data: bool) -> Result<Option<String>> {
        match kind {
            EmitKind::Program => Ok(Some(self.program().to_string())),
            EmitKind::Clif => listing(self, trainc_host::Listing::Clif).map(Some),
            EmitKind::Asm => listing(self, trainc_host::Listing::Assembly).map(Some),
            EmitKind::Timeline | EmitKind::Latencies => {
                let timelines = timeline::timelines(self);
                let name = self.target.description().name;
                ensure!(!timelines.is_empty(), "target `{name}` runs all launches on one device");
                Ok(Some(match kind {
                    EmitKind::Timeline => timeline::svg(&self.name, &timelines),
                    _ => timeline::latencies(&timelines),
                }))
            }
            _ => (**self).text(kind, with_data),
        }
    }
}

fn listing(session: &Session, form: trainc_host::Listing) -> Result<String> {
    let program = session.program();
    if session.target.description().name == trainc_host::HOST.description().name {
        return Ok(trainc_host::listing(program, form)?);
    }
    ensure!(form == trainc_host::Listing::Assembly, "only the host has a Cranelift form");
    let files = session.target.emit(program)?;
    let sources = files.iter().filter_map(|file| {
        let text = std::str::from_utf8(&file.contents).ok()?;
        Some(format!("// {}\n{text}", file.name))
    });
    Ok(sources.collect::<Vec<_>>().join("\n"))
}

/// Writes one file whole, or nothing.
///
/// # Errors
/// If it cannot be written.
pub fn write_text(path: &Path, text: &str) -> Result<()> {
    Ok(trainc_data::write_atomically(path, text.as_bytes())?)
}

/// The files of a session's artifact: the target's, the initial weights, the modules that [`crate::verify`] plans again,
/// the manifest, and the texts asked for, named `NAME.graph.txt` and so on.
///
/// # Errors
/// If the target cannot express the program.
pub fn artifact(session: &Session, texts: &[EmitKind]) -> Result<Vec<ArtifactFile>> {
    collected(session, texts, false)
}

/// The files of [`artifact`], and the target's example program.
///
/// # Errors
/// If the target cannot express the program, or has no example for it.
pub fn artifact_with_example(session: &Session, texts: &[EmitKind]) -> Result<Vec<ArtifactFile>> {
    collected(session, texts, true)
}

/// Writes the files of [`artifact`], or of [`artifact_with_example`], as [`write_folder`] does. They are not all in memory
/// at a time.
///
/// # Errors
/// As theirs.
pub fn write_artifact(
    folder: &Path,
    session: &Session,
    texts: &[EmitKind],
    example: bool,
) -> Result<()> {
    write_folder_by(folder, &mut |take| files(session, texts, example, take))
}

fn collected(session: &Session, texts: &[EmitKind], example: bool) -> Result<Vec<ArtifactFile>> {
    let mut all = Vec::new();
    files(session, texts, example, &mut |name, content| {
        let mut seen = Seen { out: Vec::new(), print: FileFingerprint::new() };
        content(&mut seen)?;
        all.push(ArtifactFile { name: name.to_string(), contents: seen.out });
        Ok(seen.print)
    })?;
    Ok(all)
}

/// Gives the files one by one.
fn files(session: &Session, texts: &[EmitKind], example: bool, take: &mut Take<'_>) -> Result<()> {
    let program = session.program();
    let mut reports = Vec::new();
    let mut give = |name: &str, content: &Content<'_>| -> Result<()> {
        let print = take(name, content)?;
        let (name, bytes) = (name.to_string(), print.length());
        reports.push(FileReport { name, bytes, hash: print.text() });
        Ok(())
    };
    let target = session.target;
    // Each goes once it is written.
    for file in target.emit(program)? {
        give(&file.name, &|out| Ok(out.write_all(&file.contents)?))?;
    }
    if example {
        let name = target.description().name;
        let file = target.example(program)?;
        let file = file.with_context(|| {
            format!(
                "target {name}: there is no example for it, as its objects have neither checkpoints nor `evaluate`; leave out \
                 `--example`: the artifact's header says what each function takes"
            )
        })?;
        give(&file.name, &|out| Ok(out.write_all(&file.contents)?))?;
    }
    let state: Vec<(String, Arc<Tensor>)> = session
        .state_names()
        .into_iter()
        .zip(program.state())
        .filter_map(|(name, buffer)| match &buffer.region {
            Region::State { initial, .. } => Some((name, initial.clone())),
            _ => None,
        })
        .collect();
    give(WEIGHTS, &|out| Ok(weights::write(out, &state)?))?;
    let modules: Vec<(&str, &Graph)> =
        session.entries.iter().map(|entry| (entry.name.as_str(), &entry.optimised)).collect();
    for file in stored::files(&modules, &state)? {
        give(&file.name, &|out| Ok(out.write_all(&file.contents)?))?;
    }
    for &kind in texts {
        let name = format!("{}.{}.txt", names::file(&session.name), kind.name());
        let text = session.text(kind, false)?.unwrap_or_default();
        give(&name, &|out| Ok(out.write_all(text.as_bytes())?))?;
    }
    let manifest = manifest::manifest(session, program, target.tuning(program)?, reports);
    let mut json = names::json(&serde_json::to_string_pretty(&manifest)?);
    json.push('\n');
    take(MANIFEST, &|out| Ok(out.write_all(json.as_bytes())?))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_unique_names() {
        for kind in EmitKind::ALL {
            assert_eq!(EmitKind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(EmitKind::from_name("nothing"), None);
    }
}
