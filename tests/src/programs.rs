//! Training programs of the model zoo, and what a C program around them reads and writes.

use std::fmt::Write as _;

use trainc_driver::zoo::{ZooSpec, build};
use trainc_ir::graph::InputRole;
use trainc_ir::program::Program;
use trainc_ir::program_interpreter::ProgramInterpreter;
use trainc_ir::target::{ArtifactFile, Target};
use trainc_ir::tensor_bytes::tensor_bytes;
use trainc_ir::verify::Stage;
use trainc_ir::{Element, RunContext, Tensor, TensorType, Verified};
use trainc_onnx_import::{ImportOptions, import_bytes};
use trainc_opt::algorithm::Algorithm;
use trainc_opt::inference::inference_graph;
use trainc_opt::optimise::{OptimiseOptions, optimise};
use trainc_opt::plan::{PlanEntry, PlanOptions, plan};
use trainc_opt::training::training_graph;
use trainc_opt::translate::{Translation, float_operations, remove_operations, translate};

use crate::random::Random;

/// The seed of [`Session`].
pub const SEED: u64 = 0x0123_4567_89ab_cdef;

/// Training and inference of a zoo model for a target.
pub fn program(
    model: &str,
    algorithm: &str,
    batch: usize,
    target: &dyn Target,
) -> Verified<Program> {
    let algorithm = Algorithm::built_in(algorithm).expect("a built-in algorithm");
    program_of(model, &algorithm, batch, target)
}

/// What a module may hold: what its algorithm allows, and what was left in FP32.
pub fn stage(algorithm: &Algorithm, translation: &Translation) -> Stage {
    let floated = translation.floated.iter().map(|(_, kind)| *kind);
    Stage::Quantized { float_operations: float_operations(algorithm, floated) }
}

/// As [`program`], by any algorithm.
pub fn program_of(
    model: &str,
    algorithm: &Algorithm,
    batch: usize,
    target: &dyn Target,
) -> Verified<Program> {
    planned(model, algorithm, batch, target, &["train_step", "infer"])
}

/// As [`program_of`], without inference.
pub fn step_of(
    model: &str,
    algorithm: &Algorithm,
    batch: usize,
    target: &dyn Target,
) -> Verified<Program> {
    planned(model, algorithm, batch, target, &["train_step"])
}

/// A program of entries of those names.
fn planned(
    model: &str,
    algorithm: &Algorithm,
    batch: usize,
    target: &dyn Target,
    entries: &[&str],
) -> Verified<Program> {
    let spec = ZooSpec::new(model).expect("a model of the zoo");
    let bytes = build(&spec).expect("the zoo builds");
    let options = ImportOptions { batch: Some(batch), ..ImportOptions::default() };
    let imported = import_bytes(&bytes, &|_| Err("no external data".into()), &options);
    let forward = remove_operations(&imported.expect("imports").graph, &algorithm.remove);
    let graphs = entries.iter().map(|&name| {
        let graph = match name {
            "infer" => inference_graph(&forward).expect("infers"),
            _ => training_graph(&forward, None).expect("trains"),
        };
        let (module, translation) = translate(&graph, algorithm).expect("translates");
        let stage = stage(algorithm, &translation);
        optimise(&module, &stage, target, &OptimiseOptions::default()).expect("optimises").0
    });
    let graphs: Vec<_> = graphs.collect();
    let entries: Vec<PlanEntry<'_>> =
        entries.iter().zip(&graphs).map(|(&name, graph)| PlanEntry { name, graph }).collect();
    let (mut program, _) = plan(model, &entries, target, &PlanOptions::default()).expect("plans");
    program.notes_mut().schedule = algorithm.schedule.clone();
    program
}

/// A random operand of an entry.
pub fn operand(ty: &TensorType, role: InputRole, classes: usize, random: &mut Random) -> Tensor {
    let mut draw = |n: usize| (random.next() >> 33) as usize % n;
    match (role, ty.element) {
        (InputRole::Labels, _) => {
            let labels = (0..ty.count()).map(|_| draw(classes) as i32).collect();
            Tensor::i32(ty.shape.clone(), labels)
        }
        (InputRole::LearningRate, Element::I32) => Tensor::i32(ty.shape.clone(), vec![3]),
        (InputRole::LearningRate, _) => Tensor::f32(ty.shape.clone(), vec![0.05]),
        (InputRole::Scheduled, Element::I32) => Tensor::i32(ty.shape.clone(), vec![1]),
        (InputRole::Scheduled, _) => Tensor::f32(ty.shape.clone(), vec![0.5]),
        (InputRole::Data, _) => {
            let pixels = (0..ty.count()).map(|_| draw(4096) as f32 / 2048.0 - 1.0).collect();
            Tensor::f32(ty.shape.clone(), pixels)
        }
    }
}

/// Some steps of training: what is called, what it reads, and what it must write.
#[derive(Debug)]
pub struct Session {
    /// C statements of one step: `in(place, bytes)` reads, `out(place, bytes)` writes; `arena`, `state`, `step`.
    pub calls: String,
    /// Operands of all entries and steps.
    pub input: Vec<u8>,
    /// Results of all entries and the state after them, of all steps.
    pub expected: Vec<u8>,
    /// Where each value of `expected` ends.
    pub ends: Vec<(usize, String)>,
}

impl Session {
    /// Steps of a program, by the reference interpreter.
    pub fn new(program: &Verified<Program>, files: &[ArtifactFile], steps: u32) -> Session {
        let prefix = &program.name;
        let header = files.iter().find(|f| f.name == format!("{prefix}.h")).expect("a header");
        let header = String::from_utf8(header.contents.clone()).expect("text");
        let mut bodies = String::new();
        for entry in &program.entries {
            let mut arguments = vec!["arena".to_string(), "state".to_string()];
            let prototype = format!("void {prefix}_{}(", entry.name);
            let prototype = header.split(&prototype).nth(1).expect("the entry is declared");
            let prototype = prototype.split(';').next().unwrap_or_default();
            if prototype.contains("uint64_t seed") {
                arguments.extend([format!("UINT64_C({SEED})"), "step".into()]);
            }
            let mut results = String::new();
            for (i, argument) in entry.inputs.iter().enumerate() {
                let ty = &program.buffer(argument.buffer).ty;
                let (c, name) =
                    (trainc_c::element_type(ty.element), format!("{}_i{i}", entry.name));
                let _ = writeln!(bodies, "        static {c} {name}[{}];", ty.count());
                let _ = writeln!(bodies, "        in({name}, sizeof {name});");
                let rate = argument.role == InputRole::LearningRate;
                arguments.push(if rate { format!("{name}[0]") } else { name });
            }
            for (i, argument) in entry.outputs.iter().enumerate() {
                let ty = &program.buffer(argument.buffer).ty;
                let (c, name) =
                    (trainc_c::element_type(ty.element), format!("{}_o{i}", entry.name));
                let _ = writeln!(bodies, "        static {c} {name}[{}];", ty.count());
                let _ = writeln!(results, "        out({name}, sizeof {name});");
                arguments.push(name);
            }
            let _ = writeln!(bodies, "        memset(arena, 0xa5, sizeof arena);");
            let _ = writeln!(bodies, "        {prefix}_{}({});", entry.name, arguments.join(", "));
            bodies.push_str(&results);
        }

        let mut reference = ProgramInterpreter::new(program);
        let mut random = Random(SEED);
        let (mut input, mut expected, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        let mut changed = false;
        for step in 0..steps {
            let run = RunContext { seed: SEED, step };
            for entry in &program.entries {
                let operands: Vec<Tensor> = entry
                    .inputs
                    .iter()
                    .map(|a| operand(&program.buffer(a.buffer).ty, a.role, 10, &mut random))
                    .collect();
                operands.iter().for_each(|t| input.extend(tensor_bytes(t)));
                let results = reference.run(&entry.name, &operands, &run).expect("the entry runs");
                for (argument, tensor) in entry.outputs.iter().zip(&results) {
                    expected.extend(tensor_bytes(tensor));
                    ends.push((expected.len(), format!("step {step}: {}", argument.name)));
                }
            }
            // The state as it lies in memory, from its tensors.
            let mut state = vec![0u8; program.memory.state_bytes];
            for (buffer, (_, tensor)) in program.state().into_iter().zip(reference.state()) {
                let bytes = tensor_bytes(&tensor);
                assert_eq!(bytes.len(), buffer.bytes());
                state[buffer.offset..buffer.offset + bytes.len()].copy_from_slice(&bytes);
                ends.push((
                    expected.len() + buffer.offset + bytes.len(),
                    format!("step {step}: {}", buffer.name),
                ));
            }
            ends.push((expected.len() + state.len(), format!("step {step}: the state's padding")));
            changed |= step > 0 && !expected.ends_with(&state);
            expected.extend(state);
        }
        assert!(changed, "training changes the state");
        Session { calls: bodies, input, expected, ends }
    }

    /// Compares what was written.
    ///
    /// # Panics
    /// At the first difference, with its place.
    pub fn check(&self, what: &str, found: &[u8]) {
        assert_eq!(found.len(), self.expected.len(), "{what}");
        if let Some(at) = found.iter().zip(&self.expected).position(|(a, b)| a != b) {
            let place = self.ends.iter().find(|(end, _)| at < *end).map(|(_, name)| name.as_str());
            panic!("{what}: byte {at} differs, in {}", place.unwrap_or("?"));
        }
    }
}
