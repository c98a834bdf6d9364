//! The manifest of an artifact, and the report of its kernels.

use std::collections::BTreeMap;

use serde::Serialize;
use trainc_ir::batch_split::MicroBatch;
use trainc_ir::graph::InputRole;
use trainc_ir::harness::launches;
use trainc_ir::indicator::Indicator;
use trainc_ir::program::{Argument, Program, StageChoice, StageNotes, Step};
use trainc_ir::schedule::{Point, Position, Scheduled, Shape};
use trainc_ir::tuning::{Candidate, Tunable, Tuning};

use crate::config::Config;
use crate::session::{INFER, Session};
use crate::{algorithms, stored};

/// The manifest: everything a build needs to know about an artifact. No clock, no path of this machine.
#[derive(Serialize)]
pub(crate) struct Manifest<'a> {
    format: u32,
    trainc: &'static str,
    name: &'a str,
    target: &'a str,
    algorithm: AlgorithmReport<'a>,
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
    /// Other inputs that a schedule gives.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scheduled: Vec<ScheduledReport>,
    /// Which training step each stage has, and when.
    #[serde(skip_serializing_if = "Option::is_none")]
    stages: Option<StagesReport>,
    /// Fingerprint of the program.
    program: String,
    memory: Memory,
    entries: Vec<EntryPoint<'a>>,
    operations: BTreeMap<&'static str, usize>,
    /// What `trainc tune` chooses on a device.
    #[serde(skip_serializing_if = "Option::is_none")]
    tunables: Option<Tunables>,
    kernels: Vec<KernelReport>,
    cost: CostReport,
    files: Vec<FileReport>,
}

#[derive(Serialize)]
struct BatchNormReport<'a> {
    node: &'a str,
    fate: String,
}

#[derive(Serialize)]
struct AlgorithmReport<'a> {
    name: &'a str,
    hash: String,
    /// The values of its parameters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    parameters: BTreeMap<&'a str, f64>,
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
    /// Most bytes of the arena, if that was limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    arena_limit: Option<usize>,
    /// How products take their batch, if not whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    micro_batch: Option<String>,
    /// Bytes of local memory in place of the target's.
    #[serde(skip_serializing_if = "Option::is_none")]
    local_memory: Option<usize>,
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
struct ScheduledReport {
    name: String,
    /// What positions and values are by: `step` or `epoch`.
    per: &'static str,
    points: Vec<ScheduledPoint>,
}

#[derive(Serialize)]
struct ScheduledPoint {
    /// A fraction of the training, or `100s` (steps), `5e` (epochs).
    from: String,
    value: f64,
    /// How it goes on to the next point.
    shape: &'static str,
}

impl From<Scheduled> for ScheduledReport {
    fn from(scheduled: Scheduled) -> ScheduledReport {
        let Scheduled { name, per, points } = scheduled;
        let point = |Point { from, value, shape }: Point| ScheduledPoint {
            from: from.to_string(),
            value,
            shape: shape.name(),
        };
        ScheduledReport { name, per: per.name(), points: points.into_iter().map(point).collect() }
    }
}

#[derive(Serialize)]
struct StagesReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<ScheduledReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    indicator: Option<IndicatorReport>,
    entries: Vec<String>,
}

/// As `[stages.indicator]` of algorithm files.
#[derive(Serialize)]
struct IndicatorReport {
    order: Vec<u32>,
    epochs: u32,
    threshold: f32,
    decay: f32,
    decays: u32,
    average: u32,
}

impl From<StageNotes> for StagesReport {
    fn from(stages: StageNotes) -> StagesReport {
        let entries = stages.functions;
        match stages.choice {
            StageChoice::Schedule(schedule) => {
                StagesReport { schedule: Some(schedule.into()), indicator: None, entries }
            }
            StageChoice::Indicator(indicator) => {
                let Indicator { order, epochs, threshold, decay, decays, average } = indicator;
                let own = IndicatorReport { order, epochs, threshold, decay, decays, average };
                StagesReport { schedule: None, indicator: Some(own), entries }
            }
        }
    }
}

#[derive(Serialize)]
struct SchedulePoint {
    /// Fraction of the training from which the size holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<f64>,
    /// The step from which it holds, in place of a fraction.
    #[serde(skip_serializing_if = "Option::is_none")]
    from_step: Option<u32>,
    step_size: f64,
    /// How it goes on to the next point, if it does not stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<&'static str>,
}

impl From<Point> for SchedulePoint {
    fn from(point: Point) -> SchedulePoint {
        let (from, from_step) = match point.from {
            Position::Fraction(from) => (Some(from), None),
            Position::Steps(step) | Position::Epochs(step) => (None, Some(step)),
        };
        let shape = (point.shape != Shape::Constant).then(|| point.shape.name());
        SchedulePoint { from, from_step, step_size: point.value, shape }
    }
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
    /// The device of each launch, by its number, if the target has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    devices: Option<Vec<usize>>,
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

/// How kernels are launched, as it was chosen.
#[derive(Serialize)]
pub(crate) struct Tunables {
    /// Where it was, if it was.
    device: Option<String>,
    /// The artifact's file that says so.
    file: String,
    kernels: Vec<TunableReport>,
}

#[derive(Serialize)]
struct TunableReport {
    kernel: String,
    /// Work items of a group in the three dimensions, or `driver`, behind the name of a variant.
    chosen: String,
    /// All that may be.
    candidates: String,
}

impl Tunables {
    /// A choice by positions among the candidates.
    pub(crate) fn of(tuning: &Tuning, choice: &[usize], device: Option<&str>) -> Tunables {
        let several = tuning.tunables.iter().zip(choice).filter(|(t, _)| t.candidates.len() > 1);
        let kernel = |(tunable, &at): (&Tunable, &usize)| {
            let all: Vec<String> = tunable.candidates.iter().map(Candidate::to_string).collect();
            TunableReport {
                kernel: tunable.kernel.clone(),
                chosen: all.get(at).cloned().unwrap_or_default(),
                candidates: all.join(", "),
            }
        };
        Tunables {
            device: device.map(str::to_string),
            file: tuning.file.clone(),
            kernels: several.map(kernel).collect(),
        }
    }
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
    /// How the target runs it.
    pub implementation: &'static str,
    /// The target's other ways for such operations, each with the reason why it does not suit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub declined: Vec<String>,
    /// Estimated cost of one launch, in the target's unit.
    pub cost: Option<u64>,
    /// Working memory of a launch.
    pub scratch_bytes: usize,
    /// Loops that fill no vector, each with the reason, where a report asks for them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scalar_loops: Vec<String>,
}

#[derive(Serialize)]
struct CostReport {
    before_optimisation: u64,
    after_optimisation: u64,
}

#[derive(Serialize)]
pub(crate) struct FileReport {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) hash: String,
}

pub(crate) fn manifest<'a>(
    session: &'a Session,
    program: &'a Program,
    tuning: Option<Tuning>,
    files: Vec<FileReport>,
) -> Manifest<'a> {
    let Config { seed, exact, opt, batch_norm, init, ref dimensions, .. } = session.config;
    let batch = session.config.batch_size();
    let memory = program.memory;
    let mut cost = CostReport { before_optimisation: 0, after_optimisation: 0 };
    for report in session.entries.iter().map(|entry| &entry.optimisation) {
        cost.before_optimisation += report.cost_before;
        cost.after_optimisation += report.cost_after;
    }
    let counts = launch_counts(program);
    let mut operations = BTreeMap::new();
    for (kernel, count) in program.kernels.iter().zip(&counts) {
        *operations.entry(kernel.op.kind().name()).or_insert(0) += count;
    }
    let splitting = session.config.splitting();
    let split = splitting.micro_batch != MicroBatch::Off;
    Manifest {
        format: 1,
        trainc: env!("CARGO_PKG_VERSION"),
        name: &program.name,
        target: session.target.description().name,
        algorithm: AlgorithmReport {
            name: &session.algorithm.name,
            hash: algorithms::hash(&session.algorithm),
            parameters: session.algorithm.parameters.values().collect(),
        },
        model: Named { name: &session.name, hash: session.model_hash().to_string() },
        flags: Flags {
            batch,
            infer_batch: session.inference_batch,
            arena_limit: session.config.arena_limit.map(|limit| limit.0),
            micro_batch: split.then(|| splitting.micro_batch.to_string()),
            local_memory: splitting.local_bytes,
            seed,
            exact,
            opt,
            batch_norm,
            init,
            dimensions: dimensions.clone(),
            precision: session.precision.as_ref().map(|precision| precision.hash.clone()),
        },
        input: input_report(session, program),
        classes: session.entries.iter().find(|entry| entry.name == INFER).and_then(|entry| {
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
        schedule: session.schedule().into_iter().map(SchedulePoint::from).collect(),
        scheduled: session.scheduled().into_iter().map(ScheduledReport::from).collect(),
        stages: session.stages().map(StagesReport::from),
        program: stored::fingerprint(program),
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
                module: stored::module_file(&entry.name),
                inputs: arguments(program, &entry.inputs, true),
                outputs: arguments(program, &entry.outputs, false),
                launches: count_launches(&entry.steps, &mut |_| {}),
                devices: session
                    .target
                    .switch_cost()
                    .map(|_| launches(entry).into_iter().map(|launch| launch.device.0).collect()),
            })
            .collect(),
        operations,
        tunables: tuning.map(|t| Tunables::of(&t, &vec![0; t.tunables.len()], None)),
        kernels: kernels(session),
        cost,
        files,
    }
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
                InputRole::Scheduled => "scheduled",
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
pub fn kernels(session: &Session) -> Vec<KernelReport> {
    let program = session.program();
    let counts = launch_counts(program);
    program
        .kernels
        .iter()
        .zip(counts)
        .map(|(kernel, launches)| KernelReport {
            name: kernel.name.clone(),
            operation: kernel.op.to_string(),
            launches,
            implementation: kernel.selection.name(),
            declined: kernel
                .selection
                .declined
                .iter()
                .map(|d| format!("{}: {}", d.name, d.reason))
                .collect(),
            cost: kernel.selection.cost().cycles(),
            scratch_bytes: kernel.scratch_bytes(),
            scalar_loops: Vec::new(),
        })
        .collect()
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
