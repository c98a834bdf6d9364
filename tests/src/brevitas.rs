//! Quantized networks that Brevitas exports, with what the qonnx package computes with the same files
//! (`tests/data/brevitas`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use trainc_data::{NpyData, read_npz};
use trainc_driver::model::stored_scales;
use trainc_ir::graph::{Definition, Graph, InputRole, Node, ValueId};
use trainc_ir::interpreter::Interpreter;
use trainc_ir::ops::{Quant, Rounding};
use trainc_ir::{Op, OpKind, RunContext, Shape, Tensor};
use trainc_onnx_import::{ImportOptions, Imported, import_path};
use trainc_opt::quantized::{EightBit, Quantized, quantize};

/// The networks.
pub const CASES: [&str; 5] =
    ["mixed", "mixed_power_of_two", "mixed_dynamo", "bipolar_trunc", "affine"];

/// Where the models and records are.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/brevitas")
}

/// A network and what was recorded of it.
#[derive(Debug)]
pub struct Case {
    /// Its name.
    pub name: String,
    facts: Value,
    arrays: BTreeMap<String, Tensor>,
    /// The model at batch 1.
    pub imported: Imported,
}

impl Case {
    /// Reads a network of [`CASES`].
    ///
    /// # Panics
    /// If a file is not as it should be.
    pub fn read(name: &str) -> Case {
        let text = std::fs::read_to_string(folder().join("manifest.json")).expect("the manifest");
        let manifest: Value = serde_json::from_str(&text).expect("JSON");
        let cases = manifest["cases"].as_array().expect("cases");
        let facts = cases.iter().find(|c| c["name"] == name).expect("the case").clone();
        let file = |key: &str| folder().join(facts[key].as_str().expect("a file"));
        let arrays =
            read_npz(&file("archive")).expect("the archive").into_iter().map(|(name, a)| {
                let tensor = match &a.data {
                    NpyData::F32(values) => Tensor::f32(a.shape.clone(), values.clone()),
                    data => Tensor::i32(a.shape.clone(), data.to_integers().expect("integers")),
                };
                (name, tensor)
            });
        let options = ImportOptions { batch: Some(1), training: false, ..ImportOptions::default() };
        let imported = import_path(&file("model"), &options).unwrap_or_else(|e| panic!("{e}"));
        Case { name: name.to_string(), arrays: arrays.collect(), imported, facts: facts.clone() }
    }

    /// Images that were recorded.
    ///
    /// # Panics
    /// If the manifest does not say.
    pub fn samples(&self) -> usize {
        self.facts["samples"].as_u64().expect("a number") as usize
    }

    /// A sample of a recorded array in a shape.
    ///
    /// # Panics
    /// If there is none of that size.
    pub fn sample(&self, key: &str, sample: usize, shape: &Shape) -> Tensor {
        let array = &self.arrays[key];
        let count = shape.count();
        assert_eq!(array.ty().count(), count * self.samples(), "{}: `{key}`", self.name);
        let values = &array.as_f32()[sample * count..(sample + 1) * count];
        Tensor::f32(shape.clone(), values.to_vec())
    }

    /// The FP32 values that qonnx recorded for each sample, with the scale of their grid.
    ///
    /// # Panics
    /// If a scale is not known.
    pub fn recorded(&self) -> Vec<(ValueId, f32)> {
        let graph = &self.imported.graph;
        let runs = runs(graph);
        let recorded = |v: &ValueId| {
            let key = format!("tensor/{}", graph.value(*v).name);
            let quantizer = |node: &Node| {
                let kind = node.op.kind();
                use OpKind::{BipolarQuant, DequantizeLinear, Quant, Trunc};
                matches!(kind, BipolarQuant | DequantizeLinear | Quant | Trunc)
            };
            runs[v.index()]
                && graph.producer(*v).is_some_and(quantizer)
                && self.arrays.contains_key(&key)
        };
        let ids = graph.value_ids().filter(recorded);
        ids.map(|v| {
            let node = graph.producer(v).expect("a quantizer");
            let scale = if let Op::Trunc(_) = node.op { 3 } else { 1 };
            (v, known(graph, node.inputs[scale]).as_f32()[0])
        })
        .collect()
    }

    /// Operands of a form of the model: the image, and recorded tensors where it is cut.
    ///
    /// # Panics
    /// If one was not recorded.
    pub fn operands(&self, graph: &Graph, sample: usize) -> Vec<Tensor> {
        let operand = |v: ValueId| {
            let name = &graph.value(v).name;
            let key = match name.strip_prefix("given ") {
                Some(tensor) => format!("tensor/{tensor}"),
                None => format!("input/{name}"),
            };
            self.sample(&key, sample, &graph.ty(v).shape)
        };
        graph.inputs().iter().map(|input| operand(input.value)).collect()
    }

    /// The integer network of a form of the model.
    ///
    /// # Panics
    /// If it cannot be quantized.
    pub fn quantized(&self, graph: &Graph, eight_bit: EightBit) -> Quantized {
        quantize(graph, eight_bit, &stored_scales(&self.imported)).unwrap_or_else(|e| panic!("{e}"))
    }
}

/// Which values depend on an input.
fn runs(graph: &Graph) -> Vec<bool> {
    let mut runs = vec![false; graph.values().len()];
    for v in graph.value_ids() {
        runs[v.index()] = match &graph.value(v).definition {
            Definition::Input(_) => true,
            Definition::Result { node, .. } => {
                graph.node(*node).inputs.iter().any(|o| runs[o.index()])
            }
            _ => false,
        };
    }
    runs
}

fn known(graph: &Graph, v: ValueId) -> Tensor {
    match &graph.value(v).definition {
        Definition::Parameter(i) => graph.parameters()[*i].initial.as_ref().clone(),
        Definition::Constant(tensor) => tensor.as_ref().clone(),
        Definition::Result { node, slot } => {
            let node = graph.node(*node);
            let operands: Vec<Tensor> = node.inputs.iter().map(|&o| known(graph, o)).collect();
            let operands: Vec<&Tensor> = operands.iter().collect();
            node.op.evaluate(&operands, &RunContext::default()).swap_remove(*slot)
        }
        Definition::Input(_) => panic!("known only at run time"),
    }
}

/// The model with every recorded tensor as an output too.
pub fn with_outputs(graph: &Graph, recorded: &[(ValueId, f32)]) -> Graph {
    let mut graph = graph.clone();
    for &(v, _) in recorded {
        let name = format!("recorded {}", graph.value(v).name);
        graph.add_output(name, v);
    }
    graph
}

/// The model cut at every recorded tensor: an input with the recorded values takes its place for its users, behind the
/// same quantizer (which changes nothing), so that no layer sees what another one computed.
///
/// # Panics
/// If the model is not valid.
pub fn cut(graph: &Graph, recorded: &[(ValueId, f32)]) -> Graph {
    let mut fresh = Graph::new(graph.name());
    let mut new: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    let mut outputs = Vec::new();
    for old in graph.value_ids() {
        let value = graph.value(old);
        let v = match &value.definition {
            Definition::Input(i) => {
                fresh.add_input(&value.name, value.ty.clone(), graph.inputs()[*i].role)
            }
            Definition::Parameter(i) => {
                fresh.add_parameter(&value.name, graph.parameters()[*i].initial.clone(), true)
            }
            Definition::Constant(tensor) => fresh.add_constant(&value.name, tensor.clone()),
            Definition::Result { node, .. } => {
                let node = graph.node(*node);
                let operands: Vec<ValueId> = node.inputs.iter().map(|o| new[o]).collect();
                let y = fresh.add1(node.op.clone(), &operands, &node.name).expect("types");
                if recorded.iter().any(|(v, _)| *v == old) {
                    outputs.push((format!("recorded {}", value.name), y));
                    let name = format!("given {}", value.name);
                    let given = fresh.add_input(&name, value.ty.clone(), InputRole::Data);
                    let (op, others): (Op, Vec<ValueId>) = match &node.op {
                        Op::Trunc(trunc) => {
                            let op = Quant {
                                signed: trunc.signed,
                                narrow: trunc.narrow,
                                rounding: Rounding::HalfEven,
                                bits: trunc.bits,
                            };
                            (op.into(), operands[3..].to_vec())
                        }
                        Op::DequantizeLinear(_) => {
                            let producer = graph.producer(node.inputs[0]).expect("a quantizer");
                            let q = std::iter::once(given).chain(operands[1..].iter().copied());
                            let q: Vec<ValueId> = q.collect();
                            let q = fresh.add1(producer.op.clone(), &q, &name).expect("types");
                            let all = [vec![q], operands[1..].to_vec()].concat();
                            new.insert(
                                old,
                                fresh.add1(node.op.clone(), &all, &name).expect("types"),
                            );
                            continue;
                        }
                        op => (op.clone(), operands[1..].to_vec()),
                    };
                    let all = [vec![given], others].concat();
                    fresh.add1(op, &all, &name).expect("types")
                } else {
                    y
                }
            }
        };
        new.insert(old, v);
    }
    for (name, v) in outputs {
        fresh.add_output(name, v);
    }
    for output in graph.outputs() {
        fresh.add_output(&output.name, new[&output.value]);
    }
    fresh
}

/// How recorded and computed integers differ.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Differences {
    /// Integers that were compared.
    pub positions: usize,
    /// Those that differ.
    pub different: usize,
    /// Largest difference in levels.
    pub most: i64,
}

/// Results of each run.
pub type Results = Vec<Vec<Tensor>>;

/// Differences of each recorded tensor over all samples: `run` computes a module's results of its operands.
///
/// # Panics
/// If a result was not recorded.
pub fn differences(
    case: &Case,
    graph: &Graph,
    run: &mut dyn FnMut(&[Vec<Tensor>]) -> Results,
) -> BTreeMap<String, Differences> {
    let recorded = case.recorded();
    let mut found: BTreeMap<String, Differences> = BTreeMap::new();
    let operands: Vec<Vec<Tensor>> =
        (0..case.samples()).map(|sample| case.operands(graph, sample)).collect();
    for (sample, results) in run(&operands).iter().enumerate() {
        assert_eq!(results.len(), graph.outputs().len());
        for (output, result) in graph.outputs().iter().zip(results) {
            let Some(name) = output.name.strip_prefix("recorded ") else { continue };
            let own = |v: &ValueId| case.imported.graph.value(*v).name == name;
            let scale = recorded.iter().find(|(v, _)| own(v)).expect("recorded").1;
            let expected = case.sample(&format!("tensor/{name}"), sample, result.shape());
            let total = found.entry(name.to_string()).or_default();
            for (x, y) in result.as_f32().iter().zip(expected.as_f32()) {
                let off = ((x - y) / scale).round_ties_even().abs() as i64;
                total.positions += 1;
                total.different += usize::from(off != 0);
                total.most = total.most.max(off);
            }
        }
    }
    found
}

/// What the interpreter computes with a module.
///
/// # Panics
/// If the operands do not fit.
pub fn interpreted(module: &Graph, operands: &[Vec<Tensor>]) -> Results {
    let step = |inputs: &Vec<Tensor>| {
        Interpreter::new(module).step(inputs, &RunContext::default()).expect("runs")
    };
    operands.iter().map(step).collect()
}
