//! Quantized inference of what Brevitas exports, against what the qonnx package computes with the same files
//! (`tests/data/brevitas`): every quantized tensor, end to end and layer by layer.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use trainc_data::{NpyData, read_npz};
use trainc_driver::model::stored_scales;
use trainc_ir::graph::{Definition, Graph, InputRole, Node, ValueId};
use trainc_ir::interpreter::Interpreter;
use trainc_ir::ops::{BatchNorm, Conv2d, Quant, Relu, Rounding};
use trainc_ir::{Op, OpKind, RunContext, Shape, Tensor, TensorType};
use trainc_onnx_import::{ImportOptions, Imported, import_path};
use trainc_opt::quantized::{EightBit, Quantized, quantize};
use trainc_opt::rules::instance::Random;

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

const CASES: [&str; 5] = ["mixed", "mixed_power_of_two", "mixed_dynamo", "bipolar_trunc", "affine"];

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
                Op::DequantizeLinear(_) => {
                    graph.producer(node.inputs[0]).expect("one").name.clone()
                }
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

/// The scores leave as floats: equal up to the order of FP32 sums.
#[test]
fn scores_are_those_of_qonnx() {
    for name in CASES {
        let case = Case::read(name);
        let graph = &case.imported.graph;
        let found = case.quantized(graph, EightBit::Threshold);
        let (input, output) = (graph.inputs()[0].value, &graph.outputs()[0]);
        for sample in 0..case.samples() {
            let key = format!("input/{}", graph.value(input).name);
            let x = case.sample(&key, sample, &graph.ty(input).shape);
            let y =
                Interpreter::new(&found.module).step(&[x], &RunContext::default()).expect("runs");
            let expected = case.sample(&format!("output/{}", output.name), sample, y[0].shape());
            for (a, b) in y[0].as_f32().iter().zip(expected.as_f32()) {
                assert!((a - b).abs() <= 1e-5 * (1.0 + b.abs()), "{name}: {a} and {b}");
            }
        }
    }
}

/// A layer of every precision, with batch norm whose gains have both signs and are zero. Scales are powers of two and
/// sums small, so the FP32 graph is exact up to batch norm and says what is right.
fn layer(input: u32, weight: u32, output: u32, depthwise: bool, random: &mut Random) -> Graph {
    let mut g = Graph::new("layer");
    let (channels, features) = (6, 6);
    let scalar = |g: &mut Graph, v: f32| g.add_constant("scalar", Tensor::f32([], vec![v]));
    let x = g.add_input("x", TensorType::f32([2, channels, 5, 4]), InputRole::Data);
    let quant = |bits, signed| Quant { signed, narrow: false, rounding: Rounding::HalfEven, bits };
    let (scale, zero) = (scalar(&mut g, 0.25), scalar(&mut g, 0.0));
    let signed = random.range(0, 1) == 0;
    let x = g.add1(quant(input, signed), &[x, scale, zero], "input").unwrap();
    let per_group = if depthwise { 1 } else { channels };
    let mut draw = |shape: &[usize], low: f32, high: f32| {
        let count = shape.iter().product();
        let mut unit = || (random.bits() >> 40) as f32 / (1u32 << 24) as f32;
        Tensor::f32(shape, (0..count).map(|_| low + (high - low) * unit()).collect())
    };
    let w = draw(&[features, per_group, 3, 3], -1.0, 1.0);
    let w = g.add_parameter("w", w, true);
    let steps = (0..features).map(|c| 2f32.powi(1 - weight as i32 - (c % 2) as i32)).collect();
    let steps = g.add_constant("steps", Tensor::f32([features, 1, 1, 1], steps));
    let w = g.add1(quant(weight, true), &[w, steps, zero], "weight").unwrap();
    let groups = if depthwise { channels } else { 1 };
    let conv = Conv2d { strides: [1, 2], pads: [1, 1, 1, 0], dilations: [1, 1], groups };
    let y = g.add1(conv, &[x, w], "conv").unwrap();
    let gains = Tensor::f32([features], vec![1.0, -0.75, 0.0, 1.5, -0.5, 0.0]);
    let mut operands = vec![y, g.add_parameter("gains", gains, true)];
    for (low, high) in [(-1.0, 2.0), (-0.5, 0.5), (0.5, 2.0)] {
        operands.push(g.add_parameter("vector", draw(&[features], low, high), true));
    }
    let norm = BatchNorm { epsilon: 1e-5f32.into(), batch: false };
    let y = g.add1(norm, &operands, "norm").unwrap();
    let y = g.add1(Relu {}, &[y], "relu").unwrap();
    let scale = scalar(&mut g, 16.0 / (1u32 << output) as f32);
    let y = g.add1(quant(output, false), &[y, scale, zero], "output").unwrap();
    g.add_output("y", y);
    g
}

#[test]
fn every_precision_of_a_convolution() {
    let mut random = Random::new(7);
    for depthwise in [false, true] {
        for (input, weight, output) in [8, 4, 2]
            .into_iter()
            .flat_map(|i| [8, 4, 2].into_iter().flat_map(move |w| [8, 4, 2].map(|o| (i, w, o))))
        {
            let graph = layer(input, weight, output, depthwise, &mut random);
            let x = random.tensor(graph.ty(graph.inputs()[0].value));
            let bounded: Vec<f32> = x.as_f32().iter().map(|v| v.clamp(-1e4, 1e4)).collect();
            let x = Tensor::f32(x.shape().clone(), bounded);
            let run = |g: &Graph| {
                Interpreter::new(g)
                    .step(std::slice::from_ref(&x), &RunContext::default())
                    .expect("runs")
                    .remove(0)
            };
            let expected = run(&graph);
            let name = format!("x{input} w{weight} y{output}, depthwise {depthwise}");
            for eight_bit in [EightBit::ScaleShift, EightBit::Threshold] {
                let found = quantize(&graph, eight_bit, &BTreeMap::new()).expect(&name);
                assert!(found.warnings.is_empty(), "{name}: {:?}", found.warnings);
                let count =
                    |kind| found.module.nodes().iter().filter(|n| n.op.kind() == kind).count();
                let scaled = output == 8 && eight_bit == EightBit::ScaleShift;
                assert_eq!(count(OpKind::ScaleShift), usize::from(scaled), "{name}");
                assert_eq!(count(OpKind::Threshold), usize::from(!scaled), "{name}");
                let step = 16.0 / (1u32 << output) as f32;
                for (a, b) in run(&found.module).as_f32().iter().zip(expected.as_f32()) {
                    let off = ((a - b) / step).abs();
                    assert!(off <= if scaled { 1.0 } else { 0.0 }, "{name}: {a} and {b}");
                }
            }
        }
    }
}

/// What is on no grid stays FP32, with a warning that says so.
#[test]
fn unquantized_products_stay_and_are_named() {
    let mut g = Graph::new("plain");
    let x = g.add_input("x", TensorType::f32([1, 2, 3, 3]), InputRole::Data);
    let w = g.add_parameter("w", Tensor::f32([1, 2, 1, 1], vec![0.3, 0.7]), true);
    let conv = Conv2d { strides: [1, 1], pads: [0; 4], dilations: [1, 1], groups: 1 };
    let y = g.add1(conv, &[x, w], "first").unwrap();
    g.add_output("y", y);
    let found = quantize(&g, EightBit::ScaleShift, &BTreeMap::new()).unwrap();
    assert_eq!(found.warnings.len(), 1);
    assert!(found.warnings[0].contains("`first`") && found.warnings[0].contains("no grid"));
    assert_eq!(found.module.nodes().len(), 1);
}
