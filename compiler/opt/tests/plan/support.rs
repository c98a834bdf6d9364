//! What the tests share: a target, a generator of numbers and tensors, and the comparison of a program with its graphs.

use std::collections::BTreeMap;

use trainc_ir::interpreter::Interpreter;
use trainc_ir::program::Program;
use trainc_ir::program_interpreter::ProgramInterpreter;
use trainc_ir::target::{
    ArtifactFile, Cost, EmitError, Selection, Signature, Target, TargetDescription,
};
use trainc_ir::{
    Data, Element, Graph, Op, RunContext, Scale, ScaleData, Tensor, TensorType, Verified,
};
use trainc_opt::plan::PlanEntry;

/// A target that runs products with as much working memory as their result takes, and the rest by generic loops with
/// a little more than they need.
pub(crate) struct Generic {
    description: TargetDescription,
}

impl Generic {
    pub(crate) fn new() -> Generic {
        Generic {
            description: TargetDescription {
                name: "generic",
                summary: "generic loops",
                alignment: 64,
                vector_bytes: 16,
                cost_unit: "cycles",
                devices: &["cpu"],
            },
        }
    }
}

impl Target for Generic {
    fn description(&self) -> &TargetDescription {
        &self.description
    }

    fn select(&self, signature: &Signature<'_>) -> Selection {
        let scratch_bytes = match signature.op {
            Op::MatMul(_) | Op::Conv2d(_) | Op::Conv2dGradientInput(_) => {
                signature.outputs.iter().map(|ty| ty.element_bytes()).sum()
            }
            Op::BatchStatistics(_) | Op::Transpose(_) => 100,
            _ => Selection::loops(signature, Cost::ZERO).scratch_bytes(),
        };
        Selection::known("generic", Cost::new(1), scratch_bytes)
    }

    fn emit(&self, _program: &Verified<Program>) -> Result<Vec<ArtifactFile>, EmitError> {
        Ok(Vec::new())
    }
}

/// xorshift64*.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n.max(1)
    }

    /// A tensor of f32, i8 or i32, with an exponent if its type has one.
    pub(crate) fn tensor(&mut self, ty: &TensorType) -> Tensor {
        let count = ty.count();
        let data = match ty.element {
            Element::F32 => {
                let value = |r: &mut Random| (r.below(2001) as f32 - 1000.0) / 256.0;
                Data::F32((0..count).map(|_| value(self)).collect())
            }
            Element::I8 => Data::I8((0..count).map(|_| self.below(255) as u8 as i8).collect()),
            Element::I32 => Data::I32((0..count).map(|_| self.below(10) as i32).collect()),
            element => panic!("no random {element}"),
        };
        let scale = match ty.scale {
            Scale::Exponent => ScaleData::Exponent(self.below(5) as i32 - 7),
            _ => ScaleData::None,
        };
        Tensor::new(ty.clone(), data, scale)
    }
}

/// Runs the entries of a program in turn beside the graphs, on random inputs; both must give the same results and
/// leave the same state. Returns the first difference.
pub(crate) fn difference(
    program: &Program,
    entries: &[PlanEntry<'_>],
    rounds: u32,
    random: &mut Random,
) -> Option<String> {
    let mut machine = ProgramInterpreter::unverified(program);
    let mut state: BTreeMap<String, Tensor> = BTreeMap::new();
    // Names in the order of first appearance: the order of the state.
    let mut order: Vec<String> = Vec::new();
    for entry in entries {
        for parameter in entry.graph.parameters() {
            let name = entry.graph.value(parameter.value).name.clone();
            if !state.contains_key(&name) {
                state.insert(name.clone(), (*parameter.initial).clone());
                order.push(name);
            }
        }
    }
    for step in 0..rounds {
        for entry in entries {
            let graph = entry.graph;
            let inputs: Vec<Tensor> =
                graph.inputs().iter().map(|i| random.tensor(graph.ty(i.value))).collect();
            let run = RunContext { seed: 7, step };
            let mut reference = Interpreter::new(graph);
            let names: Vec<String> =
                graph.parameters().iter().map(|p| graph.value(p.value).name.clone()).collect();
            for (i, name) in names.iter().enumerate() {
                reference.set_parameter(i, state[name].clone());
            }
            let expected = reference.step(&inputs, &run).expect("inputs of the graph's types");
            for (name, tensor) in names.iter().zip(reference.parameters()) {
                state.insert(name.clone(), tensor.clone());
            }
            let place = format!("{} in step {step}", entry.name);
            let found = match machine.run(entry.name, &inputs, &run) {
                Ok(found) => found,
                Err(error) => return Some(format!("{place}: {error}")),
            };
            for ((output, expected), found) in graph.outputs().iter().zip(&expected).zip(&found) {
                if !expected.bits_equal(found) {
                    return Some(format!("{place}: output {}", output.name));
                }
            }
            let found = machine.state();
            if found.len() != order.len() {
                return Some(format!("{place}: {} pieces of state", found.len()));
            }
            for (name, (_, tensor)) in order.iter().zip(found) {
                if !state[name].bits_equal(&tensor) {
                    return Some(format!("{place}: state {name}"));
                }
            }
        }
    }
    None
}

/// An FP32 tensor of zeros.
pub(crate) fn zeros(shape: &[usize]) -> Tensor {
    Tensor::zeros(&TensorType::f32(shape))
}

/// A graph for tests whose nodes always type.
pub(crate) fn node(
    graph: &mut Graph,
    op: impl Into<Op>,
    operands: &[trainc_ir::ValueId],
) -> trainc_ir::ValueId {
    let op = op.into();
    let name = format!("{}{}", op.kind().name(), graph.nodes().len());
    graph.add1(op, operands, name).expect("the operands fit")
}
