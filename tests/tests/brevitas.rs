//! Quantized networks that Brevitas exported, run by the reference interpreter, against the qonnx package's own
//! execution: every quantized tensor and the outputs. tests/data/brevitas/README.md says what the archives hold.
//!
//! Quantizing itself is bit-identical, and so are Relu, Add and MaxPool. Convolutions and matrix products sum in another
//! order than ONNX Runtime, so their results differ in the last bits, unless scales are powers of two: then products
//! and sums of quantized values are exact. Batch norm is computed by another formula. Each quantized tensor is checked
//! twice: in the whole network, and given qonnx's own operands, where it must have the same bits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use trainc_data::{NpyData, read_npz};
use trainc_ir::graph::Definition;
use trainc_ir::interpreter::Interpreter;
use trainc_ir::ops::{BipolarQuant, Mul, Quant, ReduceSum, Rounding, Trunc};
use trainc_ir::{
    Element, Graph, InputRole, Op, OpKind, RunContext, ScaleData, Tensor, TensorType, ValueId,
};
use trainc_onnx_import::{ImportOptions, Imported, import_path};
use trainc_opt::autodiff::differentiate;
use trainc_opt::training::{LOSS, training_graph};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/brevitas")
}

/// A model with what qonnx computed.
struct Case {
    facts: Value,
    arrays: BTreeMap<String, Tensor>,
    imported: Imported,
}

impl Case {
    fn text(&self, key: &str) -> &str {
        self.facts[key].as_str().unwrap_or_else(|| panic!("`{key}` of {}", self.facts))
    }

    fn read(name: &str) -> Case {
        let text = std::fs::read_to_string(folder().join("manifest.json")).expect("the manifest");
        let manifest: Value = serde_json::from_str(&text).expect("JSON");
        let cases = manifest["cases"].as_array().expect("cases");
        let facts = cases.iter().find(|c| c["name"] == name).expect("the case").clone();
        let file = |key: &str| folder().join(facts[key].as_str().expect("a file"));
        let arrays = read_npz(&file("archive")).expect("the archive");
        let tensor = |shape: &[usize], data: &NpyData| match data {
            NpyData::F32(values) => Tensor::f32(shape, values.clone()),
            other => Tensor::i32(shape, other.to_integers().expect("integers")),
        };
        let arrays = arrays
            .iter()
            .map(|(k, array)| (k.clone(), tensor(&array.shape, &array.data)))
            .collect();
        let batch = facts["samples"].as_u64().map(|n| n as usize);
        let options = ImportOptions { batch, ..ImportOptions::default() };
        let imported = import_path(&file("model"), &options).unwrap_or_else(|e| panic!("{e}"));
        Case { facts, arrays, imported }
    }

    /// What qonnx computed for a value of the graph.
    fn expected(&self, value: ValueId) -> Option<&Tensor> {
        let name = &self.imported.graph.value(value).name;
        ["tensor", "constant", "input", "output"]
            .iter()
            .find_map(|kind| self.arrays.get(&format!("{kind}/{name}")))
    }

    /// A value of the graph as qonnx has it: computed, or from the file.
    fn operand(&self, value: ValueId) -> Option<Tensor> {
        let graph = &self.imported.graph;
        match graph.value(value).definition {
            Definition::Parameter(i) => Some((*graph.parameters()[i].initial).clone()),
            Definition::Constant(_) => graph.constant_of(value).map(|tensor| (**tensor).clone()),
            _ => self.expected(value).map(|tensor| like(tensor, graph.ty(value))),
        }
    }

    /// The graph's results with names of the model, computed from the images.
    fn computed(&self) -> Vec<(ValueId, Tensor)> {
        let mut graph = self.imported.graph.clone();
        let count = graph.outputs().len();
        let nodes = graph.nodes().iter();
        let values: Vec<ValueId> = nodes
            .flat_map(|node| node.outputs.iter().copied())
            .filter(|&value| self.expected(value).is_some())
            .collect();
        for (i, &value) in values.iter().enumerate() {
            graph.add_output(format!("watched{i}"), value);
        }
        let image = self.arrays[&format!("input/{}", self.text("input"))].clone();
        let results = Interpreter::new(&graph).step(&[image], &RunContext::default());
        let results = results.unwrap_or_else(|e| panic!("{e}"));
        values.into_iter().zip(results.into_iter().skip(count)).collect()
    }
}

/// A tensor of an archive, where integers are wide, as a value of that type.
fn like(tensor: &Tensor, ty: &TensorType) -> Tensor {
    match ty.is_f32() {
        true => tensor.clone(),
        false => Tensor::from_i64(ty, &tensor.to_i64(), ScaleData::None),
    }
}

/// Number of elements that differ, and the largest difference relative to the largest element.
fn difference(found: &Tensor, expected: &Tensor) -> (usize, f32) {
    assert_eq!(found.shape(), expected.shape());
    let floats = |tensor: &Tensor| match tensor.ty().is_f32() {
        true => tensor.as_f32().to_vec(),
        false => tensor.to_i64().into_iter().map(|x| x as f32).collect(),
    };
    let (found, expected) = (floats(found), floats(expected));
    let unequal = found.iter().zip(&expected).filter(|(a, b)| a != b).count();
    let scale = expected.iter().fold(f32::MIN_POSITIVE, |max, x| max.max(x.abs()));
    let largest = found.iter().zip(&expected).map(|(a, b)| (a - b).abs());
    let largest = largest.fold(0.0, |max, x| if x > max || x.is_nan() { x } else { max });
    (unequal, largest / scale)
}

/// Whether results are on a grid.
fn quantizes(op: &Op) -> bool {
    use OpKind::*;
    matches!(op.kind(), Quant | BipolarQuant | Trunc | QuantizeLinear | DequantizeLinear)
}

/// Whether the operation's result does not depend on the order of sums.
fn is_exact(op: &Op) -> bool {
    quantizes(op) || matches!(op.kind(), OpKind::Relu | OpKind::MaxPool2d | OpKind::Add)
}

/// Largest difference of one convolution, matrix product or batch norm from the same operands, relative to its largest
/// element: two units in the last place of that. Found: 1.6e-7.
const ONE_SUM: f32 = 2.0 * f32::EPSILON;
/// The same of a result of the whole network, where a product's difference goes through batch norm. Found: 2.6e-7.
const ALL_SUMS: f32 = 4.0 * f32::EPSILON;

const CASES: [&str; 5] = ["mixed", "mixed_power_of_two", "mixed_dynamo", "bipolar_trunc", "affine"];

#[test]
fn quantizers_have_qonnxs_bits_given_its_operands() {
    for name in CASES {
        let case = Case::read(name);
        let graph = &case.imported.graph;
        let mut quantizers = 0;
        for node in graph.nodes() {
            let result = node.outputs[0];
            let operands: Option<Vec<Tensor>> =
                node.inputs.iter().map(|&value| case.operand(value)).collect();
            // What ONNX has as one operator may be several operations here.
            let (Some(operands), Some(expected)) = (operands, case.expected(result)) else {
                assert!(!quantizes(&node.op) || name == "affine", "{name}: {}", node.name);
                continue;
            };
            let operands: Vec<&Tensor> = operands.iter().collect();
            let found = &node.op.evaluate(&operands, &RunContext::default())[0];
            let place = format!("{name}: {} `{}`", node.op.kind().name(), graph.value(result).name);
            let (unequal, largest) = difference(found, expected);
            if is_exact(&node.op) {
                // Bits: also the signs of zeros.
                assert!(like(expected, found.ty()).bits_equal(found), "{place}: {unequal} differ");
            }
            assert!(
                largest <= ONE_SUM,
                "{place}: {unequal} differ, by up to {largest} of the largest"
            );
            let exact_sums = name == "mixed_power_of_two" && node.op.kind() == OpKind::Conv2d;
            assert!(!exact_sums || unequal == 0, "{place}: {unequal} differ");
            quantizers += usize::from(quantizes(&node.op));
        }
        let all = if name == "bipolar_trunc" { 8 } else { 13 };
        assert_eq!(quantizers, if name == "affine" { 6 } else { all }, "{name}");
    }
}

#[test]
fn every_quantized_tensor_of_the_network_equals_qonnxs() {
    for name in CASES {
        let case = Case::read(name);
        let (mut quantizers, mut elements) = (0, 0);
        for (value, found) in case.computed() {
            let Some(node) = case.imported.graph.producer(value) else { continue };
            let place = format!("{name}: `{}`", case.imported.graph.value(value).name);
            let expected = case.expected(value).expect("computed where it is expected");
            let (unequal, largest) = difference(&found, expected);
            if quantizes(&node.op) {
                // No rounding tie is near enough for another order of sums to move it.
                assert_eq!(unequal, 0, "{place}");
                quantizers += 1;
                elements += found.ty().count();
            }
            assert!(largest <= ALL_SUMS, "{place}: {unequal} differ, by up to {largest}");
        }
        let least = if name == "bipolar_trunc" || name == "affine" { 7 } else { 13 };
        assert!(quantizers >= least && elements > 2000, "{name}: {quantizers}, {elements}");
    }
}

#[test]
fn logits_equal_qonnxs() {
    for name in CASES {
        let case = Case::read(name);
        let output = case.imported.graph.outputs()[0].value;
        let computed = case.computed();
        let found = &computed.iter().find(|(value, _)| *value == output).expect("the logits").1;
        let expected = case.expected(output).expect("the logits");
        let (unequal, largest) = difference(found, expected);
        assert!(largest <= ALL_SUMS, "{name}: {unequal} differ, by up to {largest}");
        // Exact sums, and an output that is quantized.
        if matches!(name, "mixed_power_of_two" | "bipolar_trunc") {
            assert!(found.bits_equal(expected), "{name}: {unequal} differ");
        }
        let labels = case.arrays["labels"].to_i64();
        let hits = found.as_f32().chunks(10).zip(&labels).filter(|(scores, label)| {
            let best = (0..10).max_by(|&a, &b| scores[a].total_cmp(&scores[b]));
            best == usize::try_from(**label).ok()
        });
        assert!(hits.count() * 2 > labels.len(), "{name}");
    }
}

#[test]
fn weights_are_parameters_with_their_grids() {
    let mixed = Case::read("mixed").imported;
    assert!(mixed.integer_parameters.is_empty());
    // Five weights, a bias, scales and shifts of four batch norms.
    assert_eq!(mixed.graph.parameters().iter().filter(|p| p.trainable).count(), 14);
    let grids: Vec<(bool, bool, u32)> = mixed
        .graph
        .nodes()
        .iter()
        .filter_map(|node| match &node.op {
            Op::Quant(op) => Some((op.signed, op.narrow, op.bits)),
            _ => None,
        })
        .collect();
    let weight = |bits| (true, true, bits);
    let relu = |bits| (false, false, bits);
    let mut expected = vec![relu(8), weight(8), weight(4), weight(2), weight(4), weight(4)];
    expected.extend([(true, false, 16), relu(8), relu(4), relu(4)]);
    expected.extend([(true, false, 4), (true, false, 4), relu(2)]);
    assert_eq!(grids, expected);

    let affine = Case::read("affine").imported;
    let elements: Vec<Element> = affine.integer_parameters.iter().map(|p| p.element).collect();
    assert_eq!(
        elements,
        [Element::I8, Element::I32, Element::I8, Element::I32, Element::I8, Element::I32]
    );
    for parameter in &affine.integer_parameters {
        let Definition::Parameter(i) = affine.graph.value(parameter.value).definition else {
            panic!("not a parameter");
        };
        let initial = &affine.graph.parameters()[i].initial;
        let channels = parameter.scale.len();
        let each = initial.shape()[parameter.axis..].iter().skip(1).product::<usize>();
        assert_eq!(parameter.zero_point, vec![0; channels]);
        for (j, (x, q)) in initial.as_f32().iter().zip(&parameter.integers).enumerate() {
            assert_eq!(*x, *q as f32 * parameter.scale[j / each % channels]);
        }
    }
    assert_eq!(affine.integer_parameters[0].scale.len(), 6);
    assert!(affine.integer_parameters[2].integers.iter().all(|q| (-7..=7).contains(q)));
}

/// A quantizer's error against Brevitas' own, for the archive's operands.
#[test]
fn errors_pass_straight_through_as_in_brevitas() {
    let archive = read_npz(&folder().join("gradients.npz")).expect("the archive");
    let archive: BTreeMap<_, _> = archive.into_iter().collect();
    let quant = |signed, narrow, rounding, bits| Quant { signed, narrow, rounding, bits };
    let trunc = Trunc {
        shift: 2,
        signed: true,
        narrow: false,
        rounding: Rounding::Floor,
        bits: 4,
        clamp: true,
    };
    let with_zero: &[&str] = &["scale", "zero"];
    let cases: [(&str, Op, &[&str]); 6] = [
        (
            "quant_half_even_signed_narrow_4",
            quant(true, true, Rounding::HalfEven, 4).into(),
            with_zero,
        ),
        ("quant_floor_unsigned_3", quant(false, false, Rounding::Floor, 3).into(), with_zero),
        ("quant_ceil_signed_2", quant(true, false, Rounding::Ceil, 2).into(), with_zero),
        ("quant_down_unsigned_narrow_4", quant(false, true, Rounding::Down, 4).into(), with_zero),
        ("bipolar", BipolarQuant {}.into(), &["scale"]),
        ("trunc_floor_signed_4", trunc.into(), &["scale", "zero", "output_scale", "zero"]),
    ];
    for (name, op, factors) in cases {
        let tensor = |key: &str| {
            let array = &archive[&format!("{name}/{key}")];
            match &array.data {
                NpyData::F32(values) => Tensor::f32(array.shape.clone(), values.clone()),
                _ => panic!("{name}/{key} is not f32"),
            }
        };
        let (x, error, expected) = (tensor("x"), tensor("error"), tensor("gradient"));
        let mut graph = Graph::new(name);
        let input = graph.add_input("x", x.ty().clone(), InputRole::Data);
        let mut operands = vec![input];
        operands.extend(factors.iter().map(|key| graph.add_constant(*key, tensor(key))));
        let y = graph.add1(op, &operands, "y").expect("a type");
        let weights = graph.add_constant("error", error);
        let weighted = graph.add1(Mul {}, &[y, weights], "weighted").expect("a type");
        let axes = (0..x.shape().rank()).collect();
        let sum = ReduceSum { axes, keep_dims: false };
        let loss = graph.add1(sum, &[weighted], "loss").expect("a type");
        let gradients = differentiate(&mut graph, loss, &[input]).expect("a gradient");
        graph.add_output("gradient", gradients[0].expect("the loss depends on it"));
        let found = Interpreter::new(&graph).step(&[x], &RunContext::default()).expect("a step");
        let (unequal, _) = difference(&found[0], &expected);
        assert_eq!(unequal, 0, "{name}");
        let zeros = expected.as_f32().iter().filter(|x| **x == 0.0).count();
        assert!(zeros > 0 && zeros < expected.ty().count(), "{name}: nothing to tell apart");
    }
}

#[test]
fn quantized_networks_train_further() {
    for name in ["mixed", "bipolar_trunc"] {
        let case = Case::read(name);
        let graph = training_graph(&case.imported.graph, None).unwrap_or_else(|e| panic!("{e}"));
        let mut interpreter = Interpreter::new(&graph);
        let loss = graph.outputs().iter().position(|o| o.name == LOSS).expect("the loss");
        let image = &case.arrays[&format!("input/{}", case.text("input"))];
        // Wrong labels on purpose: there is much to learn.
        let labels: Vec<i32> =
            case.arrays["labels"].to_i64().iter().map(|x| ((x + 1) % 10) as i32).collect();
        let inputs: Vec<Tensor> = graph
            .inputs()
            .iter()
            .map(|input| match input.role {
                InputRole::Data => image.clone(),
                InputRole::Labels => Tensor::i32([labels.len()], labels.clone()),
                InputRole::LearningRate | InputRole::Scheduled => Tensor::f32([], vec![0.02]),
            })
            .collect();
        let losses: Vec<f32> = (0..8)
            .map(|_| {
                interpreter.step(&inputs, &RunContext::default()).expect("a step")[loss].as_f32()[0]
            })
            .collect();
        assert!(losses[7] < 0.7 * losses[0], "{name}: {losses:?}");
    }
}
