//! Quantized inference of what Brevitas exports, against what the qonnx package computes with the same files
//! (`tests/data/brevitas`): every quantized tensor, end to end and layer by layer.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use trainc_data::{NpyData, read_npz};
use trainc_driver::model::stored_scales;
use trainc_ir::graph::{Definition, Graph, InputRole, ValueId};
use trainc_ir::interpreter::Interpreter;
use trainc_ir::ops::{Quant, Rounding};
use trainc_ir::{Op, OpKind, RunContext, Shape, Tensor};
use trainc_onnx_import::{ImportOptions, Imported, import_path};
use trainc_opt::quantized::{EightBit, Quantized, quantize};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/brevitas")
}

struct Case {
    name: String,
    facts: Value,
    arrays: BTreeMap<String, Tensor>,
    imported: Imported,
}

impl Case {
    fn read(name: &str) -> Case {
        let text = std::fs::read_to_string(folder().join("manifest.json")).expect("the manifest");
        let manifest: Value = serde_json::from_str(&text).expect("JSON");
        let cases = manifest["cases"].as_array().expect("cases");
        let facts = cases.iter().find(|c| c["name"] == name).expect("the case").clone();
        let file = |key: &str| folder().join(facts[key].as_str().expect("a file"));
        let arrays = read_npz(&file("archive")).expect("the archive").into_iter().map(|(name, a)| {
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

    fn samples(&self) -> usize {
        self.facts["samples"].as_u64().expect("a number") as usize
    }

    /// A sample of a recorded array in a shape.
    fn sample(&self, key: &str, sample: usize, shape: &Shape) -> Tensor {
        let array = &self.arrays[key];
        let count = shape.count();
        assert_eq!(array.ty().count(), count * self.samples(), "{}: `{key}`", self.name);
        let values = &array.as_f32()[sample * count..(sample + 1) * count];
        Tensor::f32(shape.clone(), values.to_vec())
    }

    /// The FP32 values that qonnx recorded for each sample, with the scale of their grid.
    fn recorded(&self) -> Vec<(ValueId, f32)> {
        let graph = &self.imported.graph;
        let runs = runs(graph);
        let recorded = |v: &ValueId| {
            let key = format!("tensor/{}", graph.value(*v).name);
            runs[v.index()] && graph.ty(*v).is_f32() && self.arrays.contains_key(&key)
        };
        let ids = graph.value_ids().filter(recorded);
        ids.map(|v| {
            let node = graph.producer(v).expect("a quantizer");
            let scale = if let Op::Trunc(_) = node.op { 3 } else { 1 };
            (v, known(graph, node.inputs[scale]).as_f32()[0])
        })
        .collect()
    }

    fn quantized(&self, graph: &Graph, eight_bit: EightBit) -> Quantized {
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
fn with_outputs(graph: &Graph, recorded: &[(ValueId, f32)]) -> Graph {
    let mut graph = graph.clone();
    for &(v, _) in recorded {
        let name = format!("recorded {}", graph.value(v).name);
        graph.add_output(name, v);
    }
    graph
}

/// The model cut at every recorded tensor: an input with the recorded values takes its place for its users, behind the
/// same quantizer (which changes nothing), so that no layer sees what another one computed.
fn cut(graph: &Graph, recorded: &[(ValueId, f32)]) -> Graph {
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
                            new.insert(old, fresh.add1(node.op.clone(), &all, &name).expect("types"));
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
struct Differences {
    positions: usize,
    different: usize,
    /// Largest difference in levels.
    most: i64,
}

/// Differences of each recorded tensor over all samples.
fn differences(case: &Case, graph: &Graph, module: &Graph) -> BTreeMap<String, Differences> {
    let recorded = case.recorded();
    let mut found: BTreeMap<String, Differences> = BTreeMap::new();
    for sample in 0..case.samples() {
        let inputs: Vec<Tensor> = graph
            .inputs()
            .iter()
            .map(|input| {
                let name = &graph.value(input.value).name;
                let key = match name.strip_prefix("given ") {
                    Some(tensor) => format!("tensor/{tensor}"),
                    None => format!("input/{name}"),
                };
                case.sample(&key, sample, &graph.ty(input.value).shape)
            })
            .collect();
        let results = Interpreter::new(module).step(&inputs, &RunContext::default()).expect("runs");
        for (output, result) in module.outputs().iter().zip(&results) {
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

const CASES: [&str; 5] =
    ["mixed", "mixed_power_of_two", "mixed_dynamo", "bipolar_trunc", "affine"];

fn is_float_work(kind: OpKind) -> bool {
    !matches!(kind, OpKind::QuantizeLinear | OpKind::DequantizeLinear | OpKind::Quant)
}

/// Between the quantized input and the last sums there is no float.
#[test]
fn modules_are_integers_inside() {
    for name in CASES {
        let case = Case::read(name);
        let found = case.quantized(&case.imported.graph, EightBit::ScaleShift);
        assert!(found.warnings.is_empty(), "{name}: {:?}", found.warnings);
        let module = &found.module;
        assert!(module.parameters().is_empty() && module.updates().is_empty());
        let count = |kind| module.nodes().iter().filter(|n| n.op.kind() == kind).count();
        let products = if name.starts_with("mixed") { 5 } else { 3 };
        assert_eq!(count(OpKind::IntegerConv2d), products, "{name}");
        assert_eq!(count(OpKind::QuantizeLinear), 1, "{name}: the input alone");
        // The scores: a scale and a bias.
        let floats = module.nodes().iter().filter(|n| {
            is_float_work(n.op.kind()) && n.outputs.iter().any(|&v| module.ty(v).is_f32())
        });
        assert!(floats.map(|n| n.op.kind()).all(|k| k == OpKind::Add), "{name}");
        // One channel at the input, and the ends of the net: no other change of layout.
        assert_eq!(count(OpKind::Transpose), 1, "{name}");
        let wide = found.stages.len();
        assert_eq!(count(OpKind::ScaleShift), wide, "{name}");
        assert!(wide >= 1 && found.stages.iter().all(|s| s.off_by_one < 0.05), "{name}");
    }
}

/// With exact output stages every integer is qonnx's own.
#[test]
fn exact_stages_end_to_end() {
    for name in CASES {
        let case = Case::read(name);
        let recorded = case.recorded();
        assert!(recorded.len() >= 3, "{name}");
        let graph = with_outputs(&case.imported.graph, &recorded);
        let found = case.quantized(&graph, EightBit::Threshold);
        assert!(found.stages.is_empty());
        for (tensor, found) in differences(&case, &graph, &found.module) {
            println!("{name} {tensor}: {found:?}");
            assert_eq!(found.different, 0, "{name}, `{tensor}`: {found:?}");
        }
    }
}

/// With scale and shift a layer's 8-bit results are at most one level off; results of fewer bits are qonnx's own.
#[test]
fn scale_and_shift_layer_by_layer() {
    for name in CASES {
        let case = Case::read(name);
        let recorded = case.recorded();
        let graph = cut(&case.imported.graph, &recorded);
        let found = case.quantized(&graph, EightBit::ScaleShift);
        assert!(found.warnings.is_empty(), "{name}: {:?}", found.warnings);
        let producer = |tensor: &str| {
            let graph = &case.imported.graph;
            let v = graph.value_ids().find(|&v| graph.value(v).name == tensor).expect("a value");
            let node = graph.producer(v).expect("a quantizer");
            match node.op {
                Op::DequantizeLinear(_) => graph.producer(node.inputs[0]).expect("one").name.clone(),
                _ => node.name.clone(),
            }
        };
        for (tensor, off) in differences(&case, &graph, &found.module) {
            let wide = found.stages.iter().any(|s| s.node == producer(&tensor));
            println!("{name} {tensor}: {off:?}{}", if wide { " (scale_shift)" } else { "" });
            assert!(off.most <= i64::from(wide), "{name}, `{tensor}`: {off:?}");
            assert!(off.different * 50 <= off.positions, "{name}, `{tensor}`: {off:?}");
        }
    }
}
