//! Small programs built by hand, and their interpretation: the reference for whole programs.
#![allow(dead_code, reason = "each test file uses a part")]

use std::collections::BTreeMap;
use std::sync::Arc;

use trainc_host::HOST;
use trainc_ir::graph::InputRole;
use trainc_ir::program::{
    Argument, Buffer, BufferId, DeviceId, Entry, Kernel, KernelId, Launch, MemoryPlan, Notes,
    Program, Region, Step, buffer_bytes,
};
use trainc_ir::program_verify::verify_program;
use trainc_ir::target::Target;
use trainc_ir::{Op, RunContext, Tensor, TensorType, Verified};

/// Lays every buffer out behind the one before; nothing is reused.
pub(crate) struct ProgramBuilder {
    program: Program,
    inputs: Vec<Argument>,
    outputs: Vec<Argument>,
    steps: Vec<Step>,
    states: usize,
}

impl ProgramBuilder {
    pub(crate) fn new(name: &str) -> ProgramBuilder {
        ProgramBuilder {
            program: Program {
                name: name.into(),
                devices: vec!["cpu".into()],
                buffers: Vec::new(),
                kernels: Vec::new(),
                entries: Vec::new(),
                memory: MemoryPlan::default(),
                notes: Notes::default(),
            },
            inputs: Vec::new(),
            outputs: Vec::new(),
            steps: Vec::new(),
            states: 0,
        }
    }

    fn push(&mut self, name: &str, ty: TensorType, region: Region) -> BufferId {
        let memory = &mut self.program.memory;
        let size = match region {
            Region::Arena => Some(&mut memory.arena_bytes),
            Region::State { .. } => Some(&mut memory.state_bytes),
            Region::Constant(_) => Some(&mut memory.constant_bytes),
            Region::Input(_) | Region::Output(_) => None,
        };
        let offset = size.map_or(0, |size| {
            let offset = size.next_multiple_of(64);
            *size = offset + buffer_bytes(&ty);
            offset
        });
        let number = self.program.buffers.len();
        let taken = self.program.buffers.iter().any(|b| b.name == name);
        let name = if taken { format!("{name}_{number}") } else { name.into() };
        self.program.buffers.push(Buffer { name, ty, region, offset });
        BufferId(number)
    }

    pub(crate) fn input(&mut self, name: &str, ty: TensorType, role: InputRole) -> BufferId {
        let buffer = self.push(name, ty, Region::Input(self.inputs.len()));
        self.inputs.push(Argument { name: name.into(), buffer, role });
        buffer
    }

    pub(crate) fn output(&mut self, name: &str, ty: TensorType) -> BufferId {
        let buffer = self.push(name, ty, Region::Output(self.outputs.len()));
        self.outputs.push(Argument { name: name.into(), buffer, role: InputRole::Data });
        buffer
    }

    pub(crate) fn state(&mut self, name: &str, initial: Tensor) -> BufferId {
        let ty = initial.ty().clone();
        let index = self.states;
        self.states += 1;
        self.push(name, ty, Region::State { index, initial: Arc::new(initial) })
    }

    pub(crate) fn constant(&mut self, name: &str, value: Tensor) -> BufferId {
        let ty = value.ty().clone();
        self.push(name, ty, Region::Constant(Arc::new(value)))
    }

    pub(crate) fn ty(&self, id: BufferId) -> TensorType {
        self.program.buffer(id).ty.clone()
    }

    /// Runs an operation into new working memory; its results.
    pub(crate) fn op(&mut self, op: impl Into<Op>, inputs: &[BufferId]) -> Vec<BufferId> {
        let op = op.into();
        let types: Vec<TensorType> = inputs.iter().map(|&b| self.ty(b)).collect();
        let results = op.infer(&types.iter().collect::<Vec<_>>()).expect("the operands fit");
        let outputs: Vec<BufferId> = results
            .into_iter()
            .map(|ty| {
                let name = format!("t{}", self.program.buffers.len());
                self.push(&name, ty, Region::Arena)
            })
            .collect();
        self.op_into(op, inputs, &outputs);
        outputs
    }

    /// Runs an operation into given buffers.
    pub(crate) fn op_into(&mut self, op: impl Into<Op>, inputs: &[BufferId], outputs: &[BufferId]) {
        let step = self.launch(op.into(), inputs, outputs);
        self.steps.push(step);
    }

    /// A launch that is not scheduled yet.
    pub(crate) fn launch(&mut self, op: Op, inputs: &[BufferId], outputs: &[BufferId]) -> Step {
        let types = |ids: &[BufferId]| ids.iter().map(|&b| self.ty(b)).collect::<Vec<_>>();
        let number = self.program.kernels.len();
        let name = format!("{}_{number}", op.kind().name());
        let kernel = Kernel::new(&name, op, types(inputs), types(outputs), |signature| {
            HOST.select(signature)
        });
        let free = self.program.memory.arena_bytes.next_multiple_of(64);
        let scratch = (kernel.scratch_bytes() > 0).then_some(free);
        if kernel.scratch_bytes() > 0 {
            self.program.memory.arena_bytes = free + kernel.scratch_bytes();
        }
        self.program.kernels.push(kernel);
        Step::Launch(Launch {
            kernel: KernelId(number),
            device: DeviceId(0),
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
            scratch,
            name,
        })
    }

    pub(crate) fn step(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// Ends an entry.
    pub(crate) fn entry(&mut self, name: &str) {
        self.program.entries.push(Entry {
            name: name.into(),
            inputs: std::mem::take(&mut self.inputs),
            outputs: std::mem::take(&mut self.outputs),
            steps: std::mem::take(&mut self.steps),
        });
    }

    pub(crate) fn finish(self) -> Verified<Program> {
        verify_program(self.program).expect("a valid program")
    }
}

/// Runs programs by the meanings of their operations. Buffers must not share memory.
pub(crate) struct Interpreted<'a> {
    program: &'a Program,
    values: BTreeMap<BufferId, Tensor>,
}

impl<'a> Interpreted<'a> {
    pub(crate) fn new(program: &'a Program) -> Interpreted<'a> {
        let values = program
            .buffers
            .iter()
            .enumerate()
            .filter_map(|(i, b)| match &b.region {
                Region::State { initial, .. } => Some((BufferId(i), (**initial).clone())),
                Region::Constant(value) => Some((BufferId(i), (**value).clone())),
                _ => None,
            })
            .collect();
        Interpreted { program, values }
    }

    pub(crate) fn run(&mut self, entry: &str, inputs: &[&Tensor], run: &RunContext) -> Vec<Tensor> {
        let program = self.program;
        let entry = program.entry(entry).expect("the entry exists");
        for (argument, &tensor) in entry.inputs.iter().zip(inputs) {
            self.values.insert(argument.buffer, tensor.clone());
        }
        self.steps(&entry.steps, run);
        entry.outputs.iter().map(|a| self.values[&a.buffer].clone()).collect()
    }

    fn steps(&mut self, steps: &[Step], run: &RunContext) {
        for step in steps {
            match step {
                Step::Launch(launch) => {
                    let operands: Vec<&Tensor> =
                        launch.inputs.iter().map(|b| &self.values[b]).collect();
                    let op = &self.program.kernel(launch.kernel).op;
                    let results = op.evaluate(&operands, run);
                    for (&buffer, result) in launch.outputs.iter().zip(results) {
                        self.values.insert(buffer, result);
                    }
                }
                Step::Branch { condition, then, otherwise } => {
                    let taken = self.values[condition].as_i32()[0] != 0;
                    self.steps(if taken { then } else { otherwise }, run);
                }
            }
        }
    }

    pub(crate) fn state(&self) -> Vec<(String, Tensor)> {
        let position = |name: &str| {
            self.program.buffers.iter().position(|b| b.name == name).expect("the state exists")
        };
        self.program
            .state()
            .into_iter()
            .map(|b| (b.name.clone(), self.values[&BufferId(position(&b.name))].clone()))
            .collect()
    }
}

/// Panics unless two lists of tensors agree in every bit.
pub(crate) fn assert_bits(place: &str, expected: &[Tensor], found: &[Tensor]) {
    assert_eq!(expected.len(), found.len(), "{place}: number of results");
    for (i, (expected, found)) in expected.iter().zip(found).enumerate() {
        assert!(
            expected.bits_equal(found),
            "{place}: result {i} ({}) differs at {:?}",
            expected.ty(),
            expected.first_difference(found)
        );
    }
}
