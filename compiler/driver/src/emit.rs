//! What is written of stages and artifacts: texts of every stage, an artifact's files with their manifest.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use trainc_data::safetensors_bytes;
use trainc_ir::Tensor;
use trainc_ir::graph::{Graph, InputRole};
use trainc_ir::names;
use trainc_ir::program::{Argument, Program, Region, Step};
use trainc_ir::target::{ArtifactFile, Target};
use trainc_ir::text::Printer;

use crate::config::Config;
use crate::error::{Context, Result, ensure};
use crate::hash::Fingerprint;
use crate::session::{Depth, Session};
use crate::verify::artifact;
use crate::{algorithms, weights};

pub use crate::folder::write_folder;

/// Name of the manifest in an artifact's folder.
pub const MANIFEST: &str = "manifest.json";
/// Name of the initial weights in an artifact's folder.
pub const WEIGHTS: &str = "weights.safetensors";

/// A name that a user gives to an artifact, its files and symbols.
///
/// # Errors
/// If it is no such name: what one is, and the nearest.
pub fn checked_name(name: &str) -> Result<String, String> {
    names::check(name).map(|()| name.to_string())
}

/// A stage that can be written as text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum EmitKind {
    /// The model's FP32 graph for inference.
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
}

impl EmitKind {
    /// Every kind, in the order of the stages.
    pub const ALL: [EmitKind; 7] = [
        EmitKind::Graph,
        EmitKind::Training,
        EmitKind::Qir,
        EmitKind::Optimised,
        EmitKind::Program,
        EmitKind::Clif,
        EmitKind::Asm,
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
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<EmitKind> {
        EmitKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// How far a session must go for it.
    pub fn depth(self) -> Depth {
        match self {
            EmitKind::Graph | EmitKind::Training => Depth::Float,
            EmitKind::Qir => Depth::Translated,
            EmitKind::Optimised => Depth::Optimised,
            EmitKind::Program | EmitKind::Clif | EmitKind::Asm => Depth::Planned,
        }
    }
}

/// The text of a stage. Modules of several entries stand one after another.
///
/// # Errors
/// If the session was not taken that far, or the target has no such text.
pub fn text(session: &Session, kind: EmitKind) -> Result<String> {
    let missing = || format!("stage `{}` was not reached", kind.name());
    let graphs: Vec<&Graph> = match kind {
        EmitKind::Graph => vec![&session.entries.last().with_context(missing)?.float],
        EmitKind::Training => {
            let name = &session.algorithm.name;
            let entry = session.entry(crate::session::TRAIN_STEP);
            vec![&entry.with_context(|| format!("algorithm `{name}` only infers"))?.float]
        }
        EmitKind::Qir => {
            session.entries.iter().filter_map(|e| e.module.as_ref().map(|m| &m.0)).collect()
        }
        EmitKind::Optimised => {
            session.entries.iter().filter_map(|e| e.optimised.as_ref().map(|m| &m.0)).collect()
        }
        EmitKind::Program => return Ok(session.program()?.to_string()),
        EmitKind::Clif => return listing(session, trainc_host::Listing::Clif),
        EmitKind::Asm => return listing(session, trainc_host::Listing::Assembly),
    };
    ensure!(!graphs.is_empty(), "{}", missing());
    Ok(graphs.iter().map(|g| Printer::default().graph(g)).collect::<Vec<_>>().join("\n"))
}

fn listing(session: &Session, form: trainc_host::Listing) -> Result<String> {
    let program = session.program()?;
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
    files(session, texts, false)
}

/// The files of [`artifact`], and the target's example program.
///
/// # Errors
/// If the target cannot express the program, or has no example for it.
pub fn artifact_with_example(session: &Session, texts: &[EmitKind]) -> Result<Vec<ArtifactFile>> {
    files(session, texts, true)
}

fn files(session: &Session, texts: &[EmitKind], example: bool) -> Result<Vec<ArtifactFile>> {
    let program = session.program()?;
    let mut files = session.target.emit(program)?;
    if example {
        let target = session.target.description().name;
        let file = session.target.example(program)?;
        files.push(file.with_context(|| format!("target {target}: there is no example for it"))?);
    }
    let state: Vec<(String, Tensor)> = session
        .state_names()
        .into_iter()
        .zip(program.state())
        .filter_map(|(name, buffer)| match &buffer.region {
            Region::State { initial, .. } => Some((name, (**initial).clone())),
            _ => None,
        })
        .collect();
    let exported = weights::export(&state);
    let contents = safetensors_bytes(&exported)?;
    files.push(ArtifactFile { name: WEIGHTS.to_string(), contents });
    files.extend(artifact::files(session, &exported)?);
    for &kind in texts {
        let name = format!("{}.{}.txt", names::file(&session.name), kind.name());
        files.push(ArtifactFile { name, contents: text(session, kind)?.into_bytes() });
    }
    let manifest = manifest(session, program, &files)?;
    let mut json = names::json(&serde_json::to_string_pretty(&manifest)?);
    json.push('\n');
    files.push(ArtifactFile { name: MANIFEST.to_string(), contents: json.into_bytes() });
    Ok(files)
}

/// The manifest: everything a build needs to know about an artifact. No clock, no path of this machine.
#[derive(Serialize)]
struct Manifest<'a> {
    format: u32,
    trainc: &'static str,
    name: &'a str,
    target: &'a str,
    algorithm: Named<'a>,
    model: Named<'a>,
    flags: Flags,
    /// The input, if there is one alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<InputReport<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    classes: Option<ClassReport<'a>>,
    /// Parameters that do not train: constants.
    frozen: &'a [String],
    /// What became of the model's parts under the algorithm.
    notes: &'a [String],
    /// What became of each batch normalization.
    batch_norms: Vec<BatchNormReport<'a>>,
    /// Step sizes by fraction of the training.
    schedule: Vec<SchedulePoint>,
    /// Fingerprint of the program.
    program: String,
    memory: Memory,
    entries: Vec<EntryPoint<'a>>,
    operations: BTreeMap<&'static str, usize>,
    kernels: Vec<KernelReport>,
    cost: CostReport,
    files: Vec<FileReport<'a>>,
}

#[derive(Serialize)]
struct BatchNormReport<'a> {
    node: &'a str,
    fate: String,
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    hash: String,
}

#[derive(Serialize)]
struct Flags {
    batch: usize,
    /// Examples of a call of inference.
    infer_batch: usize,
    seed: u64,
    exact: bool,
    opt: crate::config::OptimiserStrategy,
    batch_norm: crate::config::BatchNormHandling,
    init: crate::config::WeightSource,
    dimensions: BTreeMap<String, usize>,
    /// Fingerprint of the precision file.
    #[serde(skip_serializing_if = "Option::is_none")]
    precision: Option<String>,
}

/// What an artifact's input is.
#[derive(Serialize)]
struct InputReport<'a> {
    name: &'a str,
    shape: Vec<usize>,
    /// The meaning of the dimensions: `NCHW` (batch, channels, rows, columns), `NC`.
    #[serde(skip_serializing_if = "Option::is_none")]
    layout: Option<&'static str>,
    element: String,
    /// `(stored / divisor - mean) / deviation`.
    #[serde(skip_serializing_if = "Option::is_none")]
    normalization: Option<NormalizationReport>,
}

#[derive(Serialize)]
struct NormalizationReport {
    divisor: f64,
    /// Of each channel.
    mean: Vec<f64>,
    deviation: Vec<f64>,
}

#[derive(Serialize)]
struct ClassReport<'a> {
    count: usize,
    /// In the order of the scores; empty if they are not known.
    names: &'a [String],
}

fn input_report<'a>(session: &'a Session, program: &'a Program) -> Option<InputReport<'a>> {
    let graph = &session.entries.first()?.float;
    let value = graph.value(crate::model::data_input(graph)?);
    Some(InputReport {
        name: &value.name,
        shape: value.ty.shape.to_vec(),
        layout: match value.ty.shape.rank() {
            4 => Some("NCHW"),
            2 => Some("NC"),
            _ => None,
        },
        element: value.ty.element.to_string(),
        normalization: program.notes.input.as_ref().map(|input| NormalizationReport {
            divisor: input.divisor,
            mean: input.channels.iter().map(|c| c.0).collect(),
            deviation: input.channels.iter().map(|c| c.1).collect(),
        }),
    })
}

#[derive(Serialize)]
struct SchedulePoint {
    /// Fraction of the training from which the size holds.
    from: f64,
    step_size: f64,
}

#[derive(Serialize)]
struct Memory {
    arena_bytes: usize,
    arena_lower_bound_bytes: usize,
    state_bytes: usize,
    constant_bytes: usize,
}

#[derive(Serialize)]
struct EntryPoint<'a> {
    name: &'a str,
    /// File of its optimised module.
    module: String,
    inputs: Vec<ArgumentReport<'a>>,
    outputs: Vec<ArgumentReport<'a>>,
    launches: usize,
}

#[derive(Serialize)]
struct ArgumentReport<'a> {
    name: &'a str,
    #[serde(rename = "type")]
    ty: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    bytes: usize,
}

/// A kernel with its estimated cost.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct KernelReport {
    /// Its emitted name.
    pub name: String,
    /// The operation with its attributes.
    pub operation: String,
    /// Launches in all entries.
    pub launches: usize,
    /// Estimated cycles of one launch.
    pub cost: Option<u64>,
    /// Working memory of a launch.
    pub scratch_bytes: usize,
}

#[derive(Serialize)]
struct CostReport {
    before_optimisation: u64,
    after_optimisation: u64,
}

#[derive(Serialize)]
struct FileReport<'a> {
    name: &'a str,
    bytes: usize,
    hash: String,
}

fn manifest<'a>(
    session: &'a Session,
    program: &'a Program,
    files: &'a [ArtifactFile],
) -> Result<Manifest<'a>> {
    let Config { seed, exact, opt, batch_norm, init, ref dimensions, .. } = session.config;
    let batch = session.config.batch_size();
    let memory = program.memory;
    let reports = session.entries.iter().filter_map(|e| e.optimised.as_ref().map(|o| &o.1));
    let mut cost = CostReport { before_optimisation: 0, after_optimisation: 0 };
    for report in reports {
        cost.before_optimisation += report.cost_before;
        cost.after_optimisation += report.cost_after;
    }
    let counts = launch_counts(program);
    let mut operations = BTreeMap::new();
    for (kernel, count) in program.kernels.iter().zip(&counts) {
        *operations.entry(kernel.op.kind().name()).or_insert(0) += count;
    }
    Ok(Manifest {
        format: 1,
        trainc: env!("CARGO_PKG_VERSION"),
        name: &program.name,
        target: session.target.description().name,
        algorithm: Named {
            name: &session.algorithm.name,
            hash: algorithms::hash(&session.algorithm),
        },
        model: Named { name: &session.name, hash: session.model_hash.clone() },
        flags: Flags {
            batch,
            infer_batch: session.inference_batch,
            seed,
            exact,
            opt,
            batch_norm,
            init,
            dimensions: dimensions.clone(),
            precision: session.precision_hash.clone(),
        },
        input: input_report(session, program),
        classes: session.entries.last().and_then(|entry| {
            let graph = &entry.float;
            let scores = graph.outputs()[crate::model::scores_output(graph)?].value;
            Some(ClassReport { count: graph.ty(scores).shape[1], names: &program.notes.classes })
        }),
        frozen: &session.frozen,
        notes: &session.notes,
        batch_norms: session
            .batch_norms
            .iter()
            .map(|b| BatchNormReport { node: &b.node, fate: b.fate.to_string() })
            .collect(),
        schedule: session
            .schedule()
            .into_iter()
            .map(|(from, step_size)| SchedulePoint { from, step_size })
            .collect(),
        program: artifact::fingerprint(program),
        memory: Memory {
            arena_bytes: memory.arena_bytes,
            arena_lower_bound_bytes: memory.arena_lower_bound_bytes,
            state_bytes: memory.state_bytes,
            constant_bytes: memory.constant_bytes,
        },
        entries: program
            .entries
            .iter()
            .map(|entry| EntryPoint {
                name: &entry.name,
                module: artifact::module_file(&entry.name),
                inputs: arguments(program, &entry.inputs, true),
                outputs: arguments(program, &entry.outputs, false),
                launches: count_launches(&entry.steps, &mut |_| {}),
            })
            .collect(),
        operations,
        kernels: kernels(session)?,
        cost,
        files: files
            .iter()
            .map(|file| FileReport {
                name: &file.name,
                bytes: file.contents.len(),
                hash: Fingerprint::new().add(&file.contents).text(),
            })
            .collect(),
    })
}

fn arguments<'a>(
    program: &Program,
    arguments: &'a [Argument],
    roles: bool,
) -> Vec<ArgumentReport<'a>> {
    arguments
        .iter()
        .map(|argument| {
            let buffer = program.buffer(argument.buffer);
            let role = match argument.role {
                InputRole::Data => "data",
                InputRole::Labels => "labels",
                InputRole::LearningRate => "learning_rate",
            };
            ArgumentReport {
                name: &argument.name,
                ty: buffer.ty.to_string(),
                role: roles.then_some(role),
                bytes: buffer.bytes(),
            }
        })
        .collect()
}

/// The kernels of a session's program, in its order.
///
/// # Errors
/// If the session has no program.
pub fn kernels(session: &Session) -> Result<Vec<KernelReport>> {
    let program = session.program()?;
    let counts = launch_counts(program);
    Ok(program
        .kernels
        .iter()
        .zip(counts)
        .map(|(kernel, launches)| KernelReport {
            name: kernel.name.clone(),
            operation: kernel.op.to_string(),
            launches,
            cost: session
                .target
                .cost(&kernel.op, &kernel.input_types(), &kernel.output_types())
                .cycles(),
            scratch_bytes: kernel.scratch_bytes,
        })
        .collect())
}

fn launch_counts(program: &Program) -> Vec<usize> {
    let mut counts = vec![0; program.kernels.len()];
    for entry in &program.entries {
        count_launches(&entry.steps, &mut |kernel| counts[kernel] += 1);
    }
    counts
}

fn count_launches(steps: &[Step], count: &mut dyn FnMut(usize)) -> usize {
    steps
        .iter()
        .map(|step| match step {
            Step::Launch(launch) => {
                count(launch.kernel.0);
                1
            }
            Step::Branch { then, otherwise, .. } => {
                count_launches(then, count) + count_launches(otherwise, count)
            }
        })
        .sum()
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
