//! The program: a static schedule of kernels over buffers at fixed places in memory.
//!
//! It is everything an emitter needs, and leaves it nothing to decide about meaning: each kernel is an operation
//! with concrete types, each launch names its buffers, each buffer has a region and an offset.

use std::fmt;
use std::sync::Arc;

use crate::graph::InputRole;
use crate::implementation::{Selection, Signature};
use crate::names;
use crate::ops::Op;
use crate::tensor::Tensor;
use crate::types::TensorType;

/// Position in [`Program::buffers`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BufferId(pub usize);

/// Position in [`Program::kernels`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct KernelId(pub usize);

/// Position in [`Program::devices`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct DeviceId(pub usize);

/// Where a buffer lives.
#[derive(Clone, PartialEq, Debug)]
pub enum Region {
    /// Working memory, reused during a step; contents do not survive it.
    Arena,
    /// State that survives steps: weights, exponents, statistics. With its value before the first step.
    State {
        /// Position among the state buffers; the order of checkpoints.
        index: usize,
        /// Value before the first step.
        initial: Arc<Tensor>,
    },
    /// Read-only data.
    Constant(Arc<Tensor>),
    /// Memory of the caller, argument `n` of the entry.
    Input(usize),
    /// Memory of the caller, result `n` of the entry.
    Output(usize),
}

/// A tensor in memory: packed elements, then (4-byte aligned) the run-time part of its scale.
#[derive(Clone, PartialEq, Debug)]
pub struct Buffer {
    /// Readable, unique in the program.
    pub name: String,
    /// What it holds.
    pub ty: TensorType,
    /// Where it lives.
    pub region: Region,
    /// First byte within the region (0 for inputs and outputs).
    pub offset: usize,
}

impl Buffer {
    /// Offset of the run-time scale from the buffer's first byte.
    pub fn scale_offset(&self) -> usize {
        scale_offset(&self.ty)
    }

    /// Bytes of elements and scale.
    pub fn bytes(&self) -> usize {
        buffer_bytes(&self.ty)
    }
}

/// Offset of the run-time scale of a tensor of that type from its first byte: after the elements, 4-byte aligned.
pub fn scale_offset(ty: &TensorType) -> usize {
    ty.element_bytes().next_multiple_of(4)
}

/// Bytes that a tensor of that type takes: elements, then scale.
pub fn buffer_bytes(ty: &TensorType) -> usize {
    match ty.scale_bytes() {
        0 => ty.element_bytes(),
        scale => scale_offset(ty) + scale,
    }
}

/// An operation with concrete types. Launches of equal kernels share one.
#[derive(Clone, PartialEq, Debug)]
pub struct Kernel {
    /// Emitted name, unique in the program: from the operation and shape.
    pub name: String,
    /// The operation.
    pub op: Op,
    /// Operand types.
    pub inputs: Vec<TensorType>,
    /// Result types.
    pub outputs: Vec<TensorType>,
    /// How the program's target runs it.
    pub selection: Selection,
}

impl Kernel {
    /// A kernel as a target runs it in the program's memory.
    pub fn new(
        name: impl Into<String>,
        op: impl Into<Op>,
        inputs: Vec<TensorType>,
        outputs: Vec<TensorType>,
        select: impl FnOnce(&Signature<'_>) -> Selection,
    ) -> Kernel {
        let op = op.into();
        let types = [&inputs, &outputs].map(|types| types.iter().collect::<Vec<_>>());
        let selection = select(&Signature::new(&op, &types[0], &types[1]));
        Kernel { name: name.into(), op, inputs, outputs, selection }
    }

    /// Bytes of working memory that a launch gets.
    pub fn scratch_bytes(&self) -> usize {
        self.selection.scratch_bytes()
    }

    /// Operand types by reference, as operations take them.
    pub fn input_types(&self) -> Vec<&TensorType> {
        self.inputs.iter().collect()
    }

    /// Result types by reference.
    pub fn output_types(&self) -> Vec<&TensorType> {
        self.outputs.iter().collect()
    }
}

/// One execution of a kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct Launch {
    /// What runs.
    pub kernel: KernelId,
    /// Where it runs.
    pub device: DeviceId,
    /// Operand buffers.
    pub inputs: Vec<BufferId>,
    /// Result buffers; one may be an operand's buffer where the operation allows it.
    pub outputs: Vec<BufferId>,
    /// Arena offset of the working memory, if the kernel has any.
    pub scratch: Option<usize>,
    /// The model's node this stems from.
    pub name: String,
}

/// A step of the schedule.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Run a kernel.
    Launch(Launch),
    /// Choose at run time by the first element (an i32) of a buffer: not zero, or zero.
    Branch {
        /// The condition's buffer.
        condition: BufferId,
        /// When not zero.
        then: Vec<Step>,
        /// When zero.
        otherwise: Vec<Step>,
    },
}

/// An argument or result of an entry.
#[derive(Clone, PartialEq, Debug)]
pub struct Argument {
    /// Name from the model.
    pub name: String,
    /// Its buffer, of region `Input` or `Output`.
    pub buffer: BufferId,
    /// What it means (results are `Data`).
    pub role: InputRole,
}

/// A function of the program: `train_step` or `infer`.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Arguments in call order.
    pub inputs: Vec<Argument>,
    /// Results in call order.
    pub outputs: Vec<Argument>,
    /// The schedule.
    pub steps: Vec<Step>,
}

/// Memory of the plan, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryPlan {
    /// Arena size: the planned peak.
    pub arena_bytes: usize,
    /// The largest sum of buffers live at once, which no plan of this schedule can beat.
    pub arena_lower_bound_bytes: usize,
    /// State.
    pub state_bytes: usize,
    /// Read-only data.
    pub constant_bytes: usize,
}

/// What the user of a program must know beside it. It changes no result, and the program's text does not hold it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Notes {
    /// Step sizes by how far the training is ([`crate::schedule::check`]); empty if unknown.
    pub schedule: Vec<crate::schedule::Point>,
    /// The schedules of other inputs.
    pub scheduled: Vec<crate::schedule::Scheduled>,
    /// Which training step runs when, if there are several.
    pub stages: Option<StageNotes>,
    /// The model's parameters that do not train: constants.
    pub frozen: Vec<String>,
    /// How stored data become the model's input, if it is known.
    pub input: Option<InputNotes>,
    /// Names of the classes, if they are known.
    pub classes: Vec<String>,
}

/// Training steps of one state, of which each stage of a training has one.
#[derive(Clone, PartialEq, Debug)]
pub struct StageNotes {
    /// What says which stage it is.
    pub choice: StageChoice,
    /// The entry of each number.
    pub functions: Vec<String>,
}

/// What says in which stage a training is.
#[derive(Clone, PartialEq, Debug)]
pub enum StageChoice {
    /// How far it is: the stage's number.
    Schedule(crate::schedule::Scheduled),
    /// Its loss.
    Indicator(crate::indicator::Indicator),
}

/// How stored data become a model's input: `(stored / divisor - mean) / deviation`, in f64, then rounded to f32.
#[derive(Clone, PartialEq, Debug)]
pub struct InputNotes {
    /// What stored elements are divided by: 255 makes fractions of pixels that are bytes.
    pub divisor: f64,
    /// Mean and deviation of each channel.
    pub channels: Vec<(f64, f64)>,
}

/// A compiled model. See the module documentation.
#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    /// The model's name: prefix of emitted symbols.
    pub name: String,
    /// Names of the devices; launches refer to them.
    pub devices: Vec<String>,
    /// All buffers of all entries.
    pub buffers: Vec<Buffer>,
    /// All kernels, each once.
    pub kernels: Vec<Kernel>,
    /// The functions. All share one arena and one state.
    pub entries: Vec<Entry>,
    /// Sizes.
    pub memory: MemoryPlan,
    /// For headers and examples.
    pub notes: Notes,
}

impl Program {
    /// A buffer.
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.0]
    }

    /// A kernel.
    pub fn kernel(&self, id: KernelId) -> &Kernel {
        &self.kernels[id.0]
    }

    /// The entry of that name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.name == name)
    }

    /// Whether an entry changes the state.
    pub fn writes_state(&self, entry: &Entry) -> bool {
        launches(&entry.steps).any(|launch| {
            let is_state = |&id: &BufferId| matches!(self.buffer(id).region, Region::State { .. });
            launch.outputs.iter().any(is_state)
        })
    }

    /// Bytes of the arena up to the last one that an entry's launches use.
    pub fn arena_bytes_of(&self, entry: &Entry) -> usize {
        let end = |launch: &Launch| {
            let buffers = launch.inputs.iter().chain(&launch.outputs).map(|&id| self.buffer(id));
            let in_arena = buffers.filter(|buffer| matches!(buffer.region, Region::Arena));
            let scratch = self.kernel(launch.kernel).scratch_bytes();
            let scratch = launch.scratch.map(|start| start + scratch);
            in_arena.map(|buffer| buffer.offset + buffer.bytes()).chain(scratch).max()
        };
        launches(&entry.steps).filter_map(end).max().unwrap_or(0)
    }

    /// State buffers in the order of checkpoints.
    pub fn state(&self) -> Vec<&Buffer> {
        let mut state: Vec<(usize, &Buffer)> = self
            .buffers
            .iter()
            .filter_map(|b| match b.region {
                Region::State { index, .. } => Some((index, b)),
                _ => None,
            })
            .collect();
        state.sort_by_key(|(index, _)| *index);
        state.into_iter().map(|(_, b)| b).collect()
    }
}

/// The launches of a schedule, those of branches included.
fn launches(steps: &[Step]) -> Box<dyn Iterator<Item = &Launch> + '_> {
    Box::new(steps.iter().flat_map(|step| -> Box<dyn Iterator<Item = &Launch> + '_> {
        match step {
            Step::Launch(launch) => Box::new(std::iter::once(launch)),
            Step::Branch { then, otherwise, .. } => {
                Box::new(launches(then).chain(launches(otherwise)))
            }
        }
    }))
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "program @{} {{", self.name)?;
        let m = &self.memory;
        writeln!(
            f,
            "  memory arena={} lower_bound={} state={} constants={}",
            m.arena_bytes, m.arena_lower_bound_bytes, m.state_bytes, m.constant_bytes
        )?;
        for buffer in &self.buffers {
            let region = match &buffer.region {
                Region::Arena => "arena".to_string(),
                Region::State { index, .. } => format!("state#{index}"),
                Region::Constant(_) => "constant".to_string(),
                Region::Input(i) => format!("input#{i}"),
                Region::Output(i) => format!("output#{i}"),
            };
            writeln!(f, "  buffer {}: {} at {region}+{}", buffer.name, buffer.ty, buffer.offset)?;
        }
        for kernel in &self.kernels {
            writeln!(
                f,
                "  kernel {} = {} scratch={} by {}",
                kernel.name,
                kernel.op,
                kernel.scratch_bytes(),
                kernel.selection.name()
            )?;
        }
        for entry in &self.entries {
            let names = |arguments: &[Argument]| {
                arguments.iter().map(|a| self.buffer(a.buffer).name.clone()).collect::<Vec<_>>()
            };
            writeln!(
                f,
                "  entry {}({}) -> ({}) {{",
                entry.name,
                names(&entry.inputs).join(", "),
                names(&entry.outputs).join(", ")
            )?;
            self.print_steps(f, &entry.steps, 2)?;
            writeln!(f, "  }}")?;
        }
        writeln!(f, "}}")
    }
}

impl Program {
    fn print_steps(&self, f: &mut fmt::Formatter<'_>, steps: &[Step], depth: usize) -> fmt::Result {
        let indent = "  ".repeat(depth);
        for step in steps {
            match step {
                Step::Launch(launch) => {
                    let names = |ids: &[BufferId]| {
                        ids.iter().map(|&b| self.buffer(b).name.clone()).collect::<Vec<_>>()
                    };
                    writeln!(
                        f,
                        "{indent}{} = {}({}) on {}  ; {}",
                        names(&launch.outputs).join(", "),
                        self.kernel(launch.kernel).name,
                        names(&launch.inputs).join(", "),
                        self.devices[launch.device.0],
                        names::shown(&launch.name)
                    )?;
                }
                Step::Branch { condition, then, otherwise } => {
                    writeln!(f, "{indent}if {} {{", self.buffer(*condition).name)?;
                    self.print_steps(f, then, depth + 1)?;
                    writeln!(f, "{indent}}} else {{")?;
                    self.print_steps(f, otherwise, depth + 1)?;
                    writeln!(f, "{indent}}}")?;
                }
            }
        }
        Ok(())
    }
}
