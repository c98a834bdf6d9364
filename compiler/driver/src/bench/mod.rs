//! What a training step costs, launch by launch: executed packets, instructions or cycles under the target's emulator or
//! simulator, times on the host and on devices with a driver; bytes of code and memory, and what fills the arena where it is fullest.

mod device;
mod flame;
mod host;
mod machine;
mod map;
mod memory;
mod text;

use std::path::{Path, PathBuf};

use serde::Serialize;
use trainc_ir::graph::InputRole;
use trainc_ir::harness::launches;
use trainc_ir::ops::BinaryConv2d;
use trainc_ir::product::Product;
use trainc_ir::program::{DeviceId, Entry, Kernel, Program, buffer_bytes};
use trainc_ir::target::Target;
use trainc_ir::{Op, Verified};
use trainc_opt::plan::{PlanEntry, PlanOptions, plan};

use crate::config::Config;
use crate::emit;
use crate::error::{Context, Result, bail};
use crate::model::ModelSource;
use crate::session::{Entries, Session, TRAIN_STEP};
use crate::verify::artifact::{self, Artifact};
use crate::verify::measure::{Count, MeasureOptions, Measured, measure};
use crate::verify::tools::Workspace;

pub use flame::flame;
pub use machine::{Factors, Machine};
pub use map::svg;
pub use memory::{Held, Peak, Span, spans};
pub use text::text;

/// What is measured.
#[derive(Clone, Debug)]
pub enum Subject<'a> {
    /// An artifact's folder.
    Folder(&'a Path),
    /// A model, compiled for this.
    Model(&'a ModelSource, &'a Config),
}

/// How it is measured.
#[derive(Clone, Debug, Default)]
pub struct BenchOptions {
    /// The entry; without it `train_step`, or the first where none trains.
    pub entry: Option<String>,
    /// Seed of data and random numbers.
    pub seed: u64,
    /// A compiler in place of the target's, which gets the target's flags.
    pub compiler: Option<String>,
    /// An emulator in place of the target's, with its arguments.
    pub runner: Option<String>,
    /// A folder for the program around the artifact and its executables, which then stay.
    pub keep: Option<PathBuf>,
}

/// What a step costs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BenchReport {
    /// The program.
    pub name: String,
    /// Its target.
    pub target: String,
    /// The entry whose second call was measured.
    pub entry: String,
    /// Examples of a call, if its data have a first axis.
    pub batch: Option<usize>,
    /// Multiplications of its products, those with padding included.
    pub macs: u64,
    /// What the whole call takes, everything included.
    pub units: u64,
    /// What is counted: `packets`, `instructions`, `cycles`; `nanoseconds` on the host and on devices with a driver.
    pub unit: &'static str,
    /// What this machine makes at most, where its time is measured.
    pub machine: Option<Machine>,
    /// Executed instructions, where cycles are counted.
    pub instructions: Option<u64>,
    /// Cycles on eight cores, where they are modelled.
    pub cycles_8_cores: Option<u64>,
    /// Of the units, those outside of launches.
    pub outside: i64,
    /// Bytes of entries' and kernels' code, without the runtime; `None` if the object is of an unknown format.
    pub code_bytes: Option<u64>,
    /// Bytes of tables beside the code.
    pub table_bytes: Option<u64>,
    /// Constants.
    pub constant_bytes: usize,
    /// State.
    pub state_bytes: usize,
    /// The arena, of all entries.
    pub arena_bytes: usize,
    /// What each device counts, where the artifact runs on several; `units`, `unit` and `outside` are the first one's.
    pub devices: Vec<BenchDevice>,
    /// The launches that ran, in order.
    pub launches: Vec<BenchLaunch>,
    /// Where the entry fills the arena most, and with what.
    pub peak: Option<Peak>,
    /// What the counts assume.
    pub model: String,
    /// The compiler's command, if one built it.
    pub compiler: Option<String>,
    /// The emulator's command or the simulated machine, if there is one.
    pub runner: Option<String>,
}

/// What a device does of a call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct BenchDevice {
    /// Its name.
    pub device: String,
    /// What it takes in all.
    pub units: u64,
    /// What is counted there.
    pub unit: &'static str,
    /// Of the units, those outside of launches.
    pub outside: i64,
    /// What the counts assume.
    pub model: &'static str,
}

/// What a launch costs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BenchLaunch {
    /// Its number in the entry.
    pub launch: usize,
    /// The model's node that it stems from.
    pub node: String,
    /// Its kernel.
    pub kernel: String,
    /// How the target runs it.
    pub implementation: &'static str,
    /// Multiplications, those with padding included.
    pub macs: u64,
    /// What they multiply.
    pub factors: Option<Factors>,
    /// Bytes of its operands and results; working memory apart.
    pub bytes: u64,
    /// The device that runs it, where there are several.
    pub device: Option<String>,
    /// What it takes.
    pub units: u64,
    /// What is counted there.
    pub unit: &'static str,
    /// Cycles on eight cores, where they are modelled.
    pub cycles_8_cores: Option<u64>,
    /// What the target's cost says, in its own unit.
    pub estimate: Option<u64>,
    /// The unit of the estimate, which on the host is not the unit that is measured.
    pub estimate_unit: &'static str,
}

/// Where a measurement is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// The model is compiled.
    Compile,
    /// It is built and runs.
    Measure,
}

/// Measures the second call of an entry.
///
/// # Errors
/// If the model does not compile, or the artifact cannot be built, run or counted here.
pub fn bench(
    subject: &Subject<'_>,
    options: &BenchOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<(BenchReport, Vec<Span>)> {
    let workspace = Workspace::new(options.keep.as_deref())?;
    let compiled = workspace.path().join("artifact");
    let folder = match subject {
        Subject::Folder(folder) => folder,
        Subject::Model(source, config) => {
            progress(Progress::Compile);
            let session = Session::new(source, config, Entries::TrainAndInfer)?;
            emit::write_folder(&compiled, &emit::artifact(&session, &[])?)?;
            compiled.as_path()
        }
    };
    let artifact = artifact::read(folder)?;
    progress(Progress::Measure);
    measured(folder, &artifact, options, &workspace)
}

/// Measures a model's modules, optimised for its target, by a program that another target plans of them, such as one that runs
/// everything by loops: what the target's kernels are worth.
///
/// # Errors
/// As [`bench()`].
pub fn bench_planned(
    (source, config): (&ModelSource, &Config),
    target: &'static dyn Target,
    options: &BenchOptions,
) -> Result<(BenchReport, Verified<Program>)> {
    let workspace = Workspace::new(options.keep.as_deref())?;
    let [compiled, planned] = ["compiled", "artifact"].map(|name| workspace.path().join(name));
    let session = Session::new(source, config, Entries::TrainAndInfer)?;
    emit::write_folder(&compiled, &emit::artifact(&session, &[])?)?;
    let mut artifact = artifact::read(&compiled)?;
    let named = artifact.program.entries.iter().zip(&artifact.modules);
    let entries: Vec<PlanEntry<'_>> =
        named.map(|(entry, graph)| PlanEntry { name: &entry.name, graph }).collect();
    let (program, _) = plan(&artifact.program.name, &entries, target, &PlanOptions::default())?;
    (artifact.program, artifact.target) = (program, target);
    emit::write_folder(&planned, &target.emit(&artifact.program)?)?;
    let (report, _) = measured(&planned, &artifact, options, &workspace)?;
    Ok((report, artifact.program))
}

/// What an artifact in a folder takes.
fn measured(
    folder: &Path,
    artifact: &Artifact,
    options: &BenchOptions,
    workspace: &Workspace,
) -> Result<(BenchReport, Vec<Span>)> {
    let number = entry_number(&artifact.program, options.entry.as_deref())?;
    let measured = if is_host(artifact) {
        host::measure(artifact, number, options.seed)?
    } else {
        let BenchOptions { seed, compiler, runner, .. } = options.clone();
        let built = MeasureOptions { seed, compiler, runner };
        match artifact.target.tuning(&artifact.program)? {
            Some(tuning) => {
                let keep = options.keep.as_deref();
                device::measure((folder, artifact), &tuning, number, &built, keep)?
            }
            None => measure((folder, artifact), number, &built, workspace)?,
        }
    };
    let spans = spans(&artifact.program, &artifact.program.entries[number]);
    Ok((report(artifact, number, &measured, &spans), spans))
}

/// Whether this machine's own clock is what counts.
fn is_host(artifact: &Artifact) -> bool {
    trainc_host::HOST.description().name == artifact.target.description().name
}

fn entry_number(program: &Program, named: Option<&str>) -> Result<usize> {
    let names: Vec<&str> = program.entries.iter().map(|e| e.name.as_str()).collect();
    let position = |name: &str| names.iter().position(|n| *n == name);
    match named {
        Some(name) => position(name).with_context(|| {
            format!("there is no entry `{name}`; the program has {}", names.join(", "))
        }),
        None if names.is_empty() => bail!("the program has no entry"),
        None => Ok(position(TRAIN_STEP).unwrap_or(0)),
    }
}

/// The number that is shown of a count.
fn in_unit(count: Count, unit: &str) -> u64 {
    if unit == "instructions" { count.instructions } else { count.cycles }
}

fn report(artifact: &Artifact, number: usize, measured: &Measured, spans: &[Span]) -> BenchReport {
    let program: &Program = &artifact.program;
    let description = artifact.target.description();
    let entry = &program.entries[number];
    let unit = measured.unit;
    let (own, cluster) = (&measured.counts[0], measured.counts.get(1));
    let mut all = Vec::new();
    for (launch, place) in launches(entry).into_iter().enumerate() {
        let there = measured.there.as_ref();
        let other = there.and_then(|t| Some((*t.counts.launches.get(&launch)?, t.unit)));
        let Some((count, unit)) = own.launches.get(&launch).map(|c| (*c, unit)).or(other) else {
            continue;
        };
        let kernel = program.kernel(place.kernel);
        let estimate = match there {
            Some(_) => kernel.selection.device_cost(place.device),
            None => kernel.selection.cost(),
        };
        all.push(BenchLaunch {
            launch,
            node: place.name.clone(),
            kernel: kernel.name.clone(),
            implementation: way(kernel, place.device),
            macs: multiplications(kernel),
            factors: Factors::of(kernel),
            bytes: moved(kernel),
            device: there.map(|_| program.devices[place.device.0].clone()),
            units: in_unit(count, unit),
            unit,
            cycles_8_cores: cluster.and_then(|c| c.launches.get(&launch)).map(|c| c.cycles),
            estimate: estimate.cycles(),
            estimate_unit: description.cost_unit,
        });
    }
    let units = in_unit(own.step, unit);
    let outside = |device: usize, units: u64| {
        let runs = |l: &&BenchLaunch| {
            l.device.as_deref().is_none_or(|name| name == program.devices[device])
        };
        units as i64 - all.iter().filter(runs).map(|l| l.units as i64).sum::<i64>()
    };
    let devices = measured.there.iter().flat_map(|there| {
        let other = in_unit(there.counts.step, there.unit);
        let device = |at: usize, units, unit, model| BenchDevice {
            device: program.devices[at].clone(),
            units,
            unit,
            outside: outside(at, units),
            model,
        };
        [device(0, units, unit, measured.model), device(1, other, there.unit, there.model)]
    });
    let devices: Vec<BenchDevice> = devices.collect();
    let outside = outside(0, units);
    BenchReport {
        name: program.name.clone(),
        target: description.name.to_string(),
        entry: entry.name.clone(),
        batch: batch(program, entry),
        macs: all.iter().map(|l| l.macs).sum(),
        units,
        unit,
        machine: is_host(artifact).then(|| Machine::measured(&all)),
        instructions: (unit == "cycles").then_some(own.step.instructions),
        cycles_8_cores: cluster.map(|c| c.step.cycles),
        outside,
        code_bytes: measured.sizes.map(|sizes| sizes.code),
        table_bytes: measured.sizes.map(|sizes| sizes.tables),
        constant_bytes: program.memory.constant_bytes,
        state_bytes: program.memory.state_bytes,
        arena_bytes: program.memory.arena_bytes,
        devices,
        launches: all,
        peak: memory::peak(entry, spans),
        model: measured.model.to_string(),
        compiler: (!measured.compiler.is_empty()).then(|| measured.compiler.clone()),
        runner: measured.runner.clone(),
    }
}

/// How a kernel runs on a device.
#[cfg(feature = "hvx")]
fn way(kernel: &Kernel, device: DeviceId) -> &'static str {
    let both = kernel.selection.implementation::<trainc_pair::Both>();
    both.map_or(&kernel.selection, |both| both.on(device)).name()
}

#[cfg(not(feature = "hvx"))]
fn way(kernel: &Kernel, _device: DeviceId) -> &'static str {
    kernel.selection.name()
}

/// Bytes of a kernel's operands and results.
fn moved(kernel: &Kernel) -> u64 {
    kernel.inputs.iter().chain(&kernel.outputs).map(|ty| buffer_bytes(ty) as u64).sum()
}

/// Examples of a call.
pub(crate) fn batch(program: &Program, entry: &Entry) -> Option<usize> {
    let data = entry.inputs.iter().find(|a| a.role == InputRole::Data)?;
    program.buffer(data.buffer).ty.shape.dims().first().copied()
}

/// The convolution of bits that a kernel is or begins with.
fn of_bits(kernel: &Kernel) -> Option<&BinaryConv2d> {
    let first = match &kernel.op {
        Op::Chain(chain) => chain.ops.first()?,
        op => op,
    };
    match first {
        Op::BinaryConv2d(conv) => Some(conv),
        _ => None,
    }
}

/// Multiplications of the product that a kernel is or begins with.
pub(crate) fn multiplications(kernel: &Kernel) -> u64 {
    if let Some(conv) = of_bits(kernel) {
        let (w, y) = (&kernel.inputs[1], &kernel.outputs[0]);
        return (y.count() * w.shape[1] * w.shape[2] * conv.channels) as u64;
    }
    let of;
    let ops = match &kernel.op {
        Op::Chain(chain) => &chain.ops[..],
        // Sums of their own, of the terms of a product.
        Op::ChunkedProduct(op) => {
            of = Op::from(op.of.clone());
            std::slice::from_ref(&of)
        }
        Op::GroupedProduct(op) => {
            of = Op::from(op.of.clone());
            std::slice::from_ref(&of)
        }
        Op::BlockProduct(op) => {
            of = Op::from(op.of.clone());
            std::slice::from_ref(&of)
        }
        op => std::slice::from_ref(op),
    };
    match Product::of(ops, &kernel.input_types(), |_| true) {
        Some(Ok(product)) => product.multiplications() as u64,
        _ => 0,
    }
}
