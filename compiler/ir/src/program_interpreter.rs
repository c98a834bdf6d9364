//! Runs a program over plain bytes: each launch decodes its operands, evaluates the operation by its reference
//! meaning, and stores the results.
//!
//! It shows what a plan of memory does without any target. Memory that a launch may not rely on is filled with a
//! pattern, so that a value read after its memory was reused gives other bits, not the right ones by luck.

use std::collections::BTreeSet;

use crate::Verified;
use crate::harness::launch_count;
use crate::program::{Argument, Buffer, BufferId, Launch, Program, Region, Step};
use crate::program_verify::Space;
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::tensor_bytes::{tensor_bytes, tensor_from_bytes};

/// Sees the results of launches.
type Observer<'a> = &'a mut dyn FnMut(usize, &[Tensor]);

/// What fills memory without a value.
const GARBAGE: u8 = 0xa5;

/// Why a program could not run.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProgramRunError {
    /// No such entry.
    #[error("the program has no entry `{0}`")]
    Entry(String),
    /// Arguments that do not fit the entry.
    #[error("entry `{entry}`: {message}")]
    Arguments {
        /// The entry.
        entry: String,
        /// What does not fit.
        message: String,
    },
    /// The program breaks its own promises; see [`crate::program_verify`].
    #[error("launch `{launch}`: {message}")]
    Program {
        /// The launch.
        launch: String,
        /// What is wrong.
        message: String,
    },
}

/// A program with its memory.
#[derive(Clone, Debug)]
pub struct ProgramInterpreter<'p> {
    program: &'p Program,
    arena: Vec<u8>,
    state: Vec<u8>,
    constants: Vec<u8>,
}

impl<'p> ProgramInterpreter<'p> {
    /// A program before its first step.
    pub fn new(program: &'p Verified<Program>) -> ProgramInterpreter<'p> {
        ProgramInterpreter::unverified(program)
    }

    /// [`ProgramInterpreter::new`] of a program that may break its promises, for the checks of who must find that. Memory
    /// that its sizes do not cover shows when it is used.
    pub fn unverified(program: &'p Program) -> ProgramInterpreter<'p> {
        let mut state = vec![GARBAGE; program.memory.state_bytes];
        let mut constants = vec![GARBAGE; program.memory.constant_bytes];
        for buffer in &program.buffers {
            let (region, tensor) = match &buffer.region {
                Region::State { initial, .. } => (&mut state, initial),
                Region::Constant(tensor) => (&mut constants, tensor),
                _ => continue,
            };
            let bytes = tensor_bytes(tensor);
            if let Some(place) = region.get_mut(buffer.offset..buffer.offset + bytes.len()) {
                place.copy_from_slice(&bytes);
            }
        }
        let arena = vec![GARBAGE; program.memory.arena_bytes];
        ProgramInterpreter { program, arena, state, constants }
    }

    /// The state: names and current values, in the order of checkpoints.
    pub fn state(&self) -> Vec<(&'p str, Tensor)> {
        let read = |buffer: &'p Buffer| {
            let bytes = self.state.get(buffer.offset..buffer.offset + buffer.bytes())?;
            Some((buffer.name.as_str(), tensor_from_bytes(&buffer.ty, bytes)?))
        };
        self.program.state().into_iter().filter_map(read).collect()
    }

    /// The state's memory: each buffer at its offset as [`tensor_bytes`] lays it out. Bytes between mean nothing.
    pub fn state_memory(&self) -> &[u8] {
        &self.state
    }

    /// Sets the state's memory; whether its length is the program's.
    pub fn set_state_memory(&mut self, memory: &[u8]) -> bool {
        let fits = memory.len() == self.state.len();
        if fits {
            self.state.copy_from_slice(memory);
        }
        fits
    }

    /// Runs an entry once: returns its results in call order and updates the state.
    ///
    /// # Errors
    /// See [`ProgramRunError`].
    pub fn run(
        &mut self,
        entry: &str,
        inputs: &[Tensor],
        run: &RunContext,
    ) -> Result<Vec<Tensor>, ProgramRunError> {
        self.run_observed(entry, inputs, run, &mut |_, _| {})
    }

    /// As [`ProgramInterpreter::run`]; `observe` sees the results of each launch that runs with its number in the order
    /// of [`crate::harness::launches`].
    ///
    /// # Errors
    /// See [`ProgramRunError`].
    pub fn run_observed(
        &mut self,
        entry: &str,
        inputs: &[Tensor],
        run: &RunContext,
        observe: &mut dyn FnMut(usize, &[Tensor]),
    ) -> Result<Vec<Tensor>, ProgramRunError> {
        let entry =
            self.program.entry(entry).ok_or_else(|| ProgramRunError::Entry(entry.to_string()))?;
        let wrong =
            |message: String| ProgramRunError::Arguments { entry: entry.name.clone(), message };
        if inputs.len() != entry.inputs.len() {
            let counts = format!("takes {} input(s), got {}", entry.inputs.len(), inputs.len());
            return Err(wrong(counts));
        }
        for (argument, tensor) in entry.inputs.iter().zip(inputs) {
            let expected = &self.program.buffer(argument.buffer).ty;
            if expected != tensor.ty() {
                let name = &argument.name;
                return Err(wrong(format!("`{name}` is {expected}, got {}", tensor.ty())));
            }
        }
        self.arena.fill(GARBAGE);
        let mut caller = Caller {
            inputs: inputs.iter().map(tensor_bytes).collect(),
            outputs: entry
                .outputs
                .iter()
                .map(|a| vec![GARBAGE; self.program.buffer(a.buffer).bytes()])
                .collect(),
        };
        self.steps(&entry.steps, 0, &mut caller, (run, observe))?;
        let decode = |argument: &Argument| self.read(argument.buffer, &caller).map_err(&wrong);
        entry.outputs.iter().map(decode).collect()
    }

    fn steps(
        &mut self,
        steps: &[Step],
        first: usize,
        caller: &mut Caller,
        (run, observe): (&RunContext, Observer<'_>),
    ) -> Result<(), ProgramRunError> {
        let mut next = first;
        for step in steps {
            match step {
                Step::Launch(launch) => {
                    let results = self.launch(launch, caller, run).map_err(|message| {
                        ProgramRunError::Program { launch: launch.name.clone(), message }
                    })?;
                    observe(next, &results);
                    next += 1;
                }
                Step::Branch { condition, then, otherwise } => {
                    let wrong = |message: String| ProgramRunError::Program {
                        launch: "branch".into(),
                        message,
                    };
                    let bytes = self.bytes(*condition, caller).map_err(wrong)?;
                    let first = bytes.first_chunk::<4>();
                    let first = first.ok_or_else(|| wrong("the condition is not an i32".into()))?;
                    let after_then = next + launch_count(then);
                    let (taken, start) = match i32::from_le_bytes(*first) {
                        0 => (otherwise, after_then),
                        _ => (then, next),
                    };
                    self.steps(taken, start, caller, (run, observe))?;
                    next = after_then + launch_count(otherwise);
                }
            }
        }
        Ok(())
    }

    fn launch(
        &mut self,
        launch: &Launch,
        caller: &mut Caller,
        run: &RunContext,
    ) -> Result<Vec<Tensor>, String> {
        let kernel = self.program.kernel(launch.kernel);
        if let (Some(scratch), bytes @ 1..) = (launch.scratch, kernel.scratch_bytes()) {
            let place = self.arena.get_mut(scratch..scratch + bytes);
            place.ok_or("the working memory lies outside of the arena")?.fill(GARBAGE);
        }
        // A kernel may store results before it has read all operands, except where it runs in place.
        let mut read = BTreeSet::new();
        for (&id, ty) in launch.inputs.iter().zip(&kernel.inputs) {
            let buffer = self.program.buffer(id);
            if &buffer.ty != ty {
                return Err(format!("`{}` is {}, the kernel takes {ty}", buffer.name, buffer.ty));
            }
            read.insert((Space::of(&buffer.region), buffer.offset));
        }
        for &id in &launch.outputs {
            let buffer = self.program.buffer(id);
            if !read.contains(&(Space::of(&buffer.region), buffer.offset)) {
                self.bytes_mut(id, caller)?.fill(GARBAGE);
            }
        }
        let operands: Vec<Tensor> =
            launch.inputs.iter().map(|&id| self.read(id, caller)).collect::<Result<_, _>>()?;
        let results = kernel.op.evaluate(&operands.iter().collect::<Vec<_>>(), run);
        if results.len() != launch.outputs.len() {
            return Err(format!("{} results for {} buffers", results.len(), launch.outputs.len()));
        }
        for (&id, tensor) in launch.outputs.iter().zip(&results) {
            let buffer = self.program.buffer(id);
            if &buffer.ty != tensor.ty() {
                let found = tensor.ty();
                return Err(format!("`{}` is {}, its value {found}", buffer.name, buffer.ty));
            }
            self.bytes_mut(id, caller)?.copy_from_slice(&tensor_bytes(tensor));
        }
        Ok(results)
    }

    fn read(&self, id: BufferId, caller: &Caller) -> Result<Tensor, String> {
        let buffer = self.program.buffer(id);
        tensor_from_bytes(&buffer.ty, self.bytes(id, caller)?)
            .ok_or_else(|| format!("`{}` has another length", buffer.name))
    }

    fn bytes<'a>(&'a self, id: BufferId, caller: &'a Caller) -> Result<&'a [u8], String> {
        let buffer = self.program.buffer(id);
        let memory: Option<&[u8]> = match buffer.region {
            Region::Arena => Some(&self.arena),
            Region::State { .. } => Some(&self.state),
            Region::Constant(_) => Some(&self.constants),
            Region::Input(i) => caller.inputs.get(i).map(Vec::as_slice),
            Region::Output(i) => caller.outputs.get(i).map(Vec::as_slice),
        };
        memory
            .and_then(|m| m.get(buffer.offset..buffer.offset + buffer.bytes()))
            .ok_or_else(|| format!("`{}` lies outside of its region", buffer.name))
    }

    fn bytes_mut<'a>(
        &'a mut self,
        id: BufferId,
        caller: &'a mut Caller,
    ) -> Result<&'a mut [u8], String> {
        let buffer = self.program.buffer(id);
        let memory: Option<&mut [u8]> = match buffer.region {
            Region::Arena => Some(&mut self.arena),
            Region::State { .. } => Some(&mut self.state),
            Region::Constant(_) | Region::Input(_) => {
                return Err(format!("`{}` is read-only", buffer.name));
            }
            Region::Output(i) => caller.outputs.get_mut(i).map(Vec::as_mut_slice),
        };
        memory
            .and_then(|m| m.get_mut(buffer.offset..buffer.offset + buffer.bytes()))
            .ok_or_else(|| format!("`{}` lies outside of its region", buffer.name))
    }
}

/// Memory of the caller.
struct Caller {
    inputs: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::InputRole;
    use crate::harness::launches;
    use crate::implementation::{Cost, Selection};
    use crate::ops::Relu;
    use crate::program::{DeviceId, Entry, Kernel, KernelId, MemoryPlan, Notes};
    use crate::program_verify::verify_program;
    use crate::types::{Element, TensorType};

    fn launch(name: &str, inputs: usize, output: usize) -> Step {
        Step::Launch(Launch {
            kernel: KernelId(0),
            device: DeviceId(0),
            inputs: vec![BufferId(inputs)],
            outputs: vec![BufferId(output)],
            scratch: None,
            name: name.into(),
        })
    }

    /// Launches of the side that is not taken count, too, so that a number names one launch.
    #[test]
    fn launches_are_numbered_as_they_are_listed() {
        let ty = TensorType::new([2], Element::F32);
        let flag = TensorType::new([0usize; 0], Element::I32);
        let buffer = |name: &str, ty: &TensorType, region: Region| Buffer {
            name: name.into(),
            ty: ty.clone(),
            region,
            offset: 0,
        };
        let argument = |name: &str, buffer: usize| Argument {
            name: name.into(),
            buffer: BufferId(buffer),
            role: InputRole::Data,
        };
        let program = Program {
            name: "branch".into(),
            devices: vec!["cpu".into()],
            buffers: vec![
                buffer("x", &ty, Region::Input(0)),
                buffer("flag", &flag, Region::Input(1)),
                buffer("y", &ty, Region::Output(0)),
                buffer("t", &ty, Region::Arena),
            ],
            kernels: vec![Kernel::new(
                "relu",
                Relu {},
                vec![ty.clone()],
                vec![ty.clone()],
                |signature| Selection::loops(signature, Cost::ZERO),
            )],
            entries: vec![Entry {
                name: "run".into(),
                inputs: vec![argument("x", 0), argument("flag", 1)],
                outputs: vec![argument("y", 2)],
                steps: vec![
                    launch("first", 0, 3),
                    Step::Branch {
                        condition: BufferId(1),
                        then: vec![launch("then", 3, 2), launch("then again", 3, 2)],
                        otherwise: vec![launch("otherwise", 3, 2)],
                    },
                    launch("last", 0, 2),
                ],
            }],
            memory: MemoryPlan { arena_bytes: 8, ..MemoryPlan::default() },
            notes: Notes::default(),
        };
        let program = verify_program(program).expect("a valid program");
        let names: Vec<&str> =
            launches(&program.entries[0]).iter().map(|l| l.name.as_str()).collect();
        assert_eq!(names, ["first", "then", "then again", "otherwise", "last"]);
        let x = Tensor::f32([2], vec![-1.0, 2.0]);
        for (condition, expected) in [(0, vec![0, 3, 4]), (7, vec![0, 1, 2, 4])] {
            let mut seen = Vec::new();
            let operands = [x.clone(), Tensor::i32([0usize; 0], vec![condition])];
            let results = ProgramInterpreter::new(&program)
                .run_observed("run", &operands, &RunContext::default(), &mut |number, results| {
                    assert_eq!(results[0].as_f32(), [0.0, 2.0]);
                    seen.push(number);
                })
                .expect("it runs");
            assert_eq!(results[0].as_f32(), [0.0, 2.0]);
            assert_eq!(seen, expected);
        }
    }
}
