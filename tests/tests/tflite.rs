//! TensorFlow Lite models against the runtimes that execute them, and against the same network in ONNX.
//!
//! `tests/reference/tflite_models.py`, `tflite_larq.py` and `larq_digits.py` wrote the models and what LiteRT's and Larq's
//! reference kernels compute with them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use trainc_data::{Dataset, Images, NpyData, Split, read_npz};
use trainc_driver::config::Config;
use trainc_driver::model::ModelSource;
use trainc_driver::session::{Entries, INFER, Session};
use trainc_driver::train::Trainer;
use trainc_ir::interpreter::Interpreter;
use trainc_ir::{Graph, OpKind, RunContext, Tensor};
use trainc_onnx_import::{ImportOptions, Imported, WarningKind, check_path, import_path};

/// Largest difference of FP32 outputs, relative to the largest of them (at least 1).
const TOLERANCE: f32 = 1e-4;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/tflite")
}

fn archive(name: &str) -> BTreeMap<String, Tensor> {
    let arrays = read_npz(&folder().join(format!("{name}.npz"))).expect("the archive");
    let tensor = |shape: &[usize], data: &NpyData| match data {
        NpyData::F32(values) => Tensor::f32(shape.to_vec(), values.clone()),
        other => panic!("{name}: {other:?}"),
    };
    arrays.iter().map(|(name, a)| (name.clone(), tensor(&a.shape, &a.data))).collect()
}

fn import(name: &str, batch: usize) -> Imported {
    let options = ImportOptions { batch: Some(batch), ..ImportOptions::default() };
    import_path(&folder().join(format!("{name}.tflite")), &options)
        .unwrap_or_else(|e| panic!("{e}"))
}

/// A model's outputs for the archive's input, with what its runtime gives.
fn outputs(name: &str) -> (Graph, Vec<(Tensor, Tensor)>) {
    let arrays = archive(name);
    let input = arrays.iter().find(|(key, _)| key.starts_with("in_")).expect("an input").1.clone();
    let graph = import(name, input.shape()[0]).graph;
    let found = Interpreter::new(&graph)
        .step(&[input], &RunContext::default())
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    let expected = (0..found.len()).map(|i| arrays[&format!("out_{i}")].clone());
    assert!(!arrays.contains_key(&format!("out_{}", found.len())), "{name} has more outputs");
    let pairs = found.into_iter().zip(expected).collect();
    (graph, pairs)
}

fn difference(a: &Tensor, b: &Tensor) -> f32 {
    let pairs = a.as_f32().iter().zip(b.as_f32());
    pairs.fold(0.0, |m: f32, (a, b)| if (a - b).is_nan() { f32::NAN } else { m.max((a - b).abs()) })
}

#[test]
fn outputs_are_those_of_the_runtimes() {
    let mut failures = Vec::new();
    let mut compared = 0;
    for name in [
        "windows",
        "dense",
        "elements",
        "pairs",
        "movement",
        "images",
        "choices",
        "dynamic",
        "half",
        "variables",
        "pair",
        "larq_layers",
        "larq_bits",
        "larq_digits",
    ] {
        for (i, (found, expected)) in outputs(name).1.iter().enumerate() {
            assert_eq!(found.shape(), expected.shape(), "{name}: output {i}");
            let scale = expected.as_f32().iter().fold(1f32, |m, x| m.max(x.abs()));
            let worst = difference(found, expected);
            println!("{name}: output {i}: {worst:e}");
            if worst.is_nan() || worst > TOLERANCE * scale {
                failures.push(format!("{name}: output {i}: {worst}"));
            }
            compared += 1;
        }
    }
    assert!(compared >= 100, "only {compared} outputs compared");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// All convolutions of Larq's networks are products of bits, whatever stands around their maps, but for a first one of FP32
/// values.
#[test]
fn larq_networks_compute_with_bits() {
    for (name, products, floats) in
        [("larq_layers", 4, 0), ("larq_bits", 2, 0), ("larq_digits", 5, 1)]
    {
        let archive = archive(name);
        let inputs = std::slice::from_ref(&archive["in_0"]);
        let config = Config {
            algorithm: "quantized".into(),
            target: "c".into(),
            batch: Some(inputs[0].shape()[0]),
            freeze: vec!["*".into()],
            ..Config::default()
        };
        let source = ModelSource::File(folder().join(format!("{name}.tflite")));
        let session = Session::new(&source, &config, Entries::TrainAndInfer).expect("compiles");
        let infer = &session.entry(INFER).expect("inference").optimised;
        let text = infer.to_string();
        let words = || text.split(|c: char| !c.is_alphanumeric() && c != '_');
        let count = |op: &str| words().filter(|word| *word == op).count();
        assert_eq!((count("binary_conv2d"), count("conv2d")), (products, floats), "{text}");
        let found = Interpreter::new(infer).step(inputs, &RunContext::default()).expect("runs");
        for (i, found) in found.iter().enumerate() {
            let expected = &archive[&format!("out_{i}")];
            let scale = expected.as_f32().iter().fold(1f32, |m, x| m.max(x.abs()));
            let worst = difference(found, expected);
            assert!(worst <= TOLERANCE * scale, "{name}: output {i}: {worst}");
        }
    }
}

/// Which output is the largest, of each row.
fn classes(scores: &Tensor) -> Vec<usize> {
    let rows = scores.as_f32().chunks_exact(scores.shape()[1]);
    rows.map(|row| (1..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best }))
        .collect()
}

/// A network that Larq trained predicts what Larq Compute Engine's interpreter predicts, for every test image.
#[test]
fn larqs_trained_network_predicts_the_same() {
    let (_, pairs) = outputs("larq_digits");
    let (found, expected) = (classes(&pairs[0].0), classes(&pairs[0].1));
    let differ = found.iter().zip(&expected).filter(|(a, b)| a != b).count();
    assert_eq!((found.len(), expected.len(), differ), (445, 445, 0));
    let labels = &archive("larq_digits")["labels"];
    let right = found.iter().zip(labels.as_f32()).filter(|&(&a, &b)| a as f32 == b).count();
    assert_eq!(right, 439, "98.65 %");
}

/// One level of the output's grid, which the runtime rounds to, and half a level for probabilities, which are not
/// rounded here.
#[test]
fn integers_are_within_a_level() {
    for name in ["quantized", "quantized_probabilities", "quantized_unsigned", "quantized_four"] {
        let (graph, pairs) = outputs(name);
        let (found, expected) = &pairs[0];
        let level = match name {
            "quantized" | "quantized_unsigned" | "quantized_four" => {
                let output = graph.producer(graph.outputs()[0].value).expect("a node");
                assert_eq!(output.op.kind(), OpKind::Quant);
                graph.constant_of(output.inputs[1]).expect("a scale").as_f32()[0]
            }
            _ => 1.0 / 256.0,
        };
        let worst = difference(found, expected) / level;
        println!("{name}: {worst} levels");
        assert!(worst <= 1.001, "{name}: {worst} levels");
    }
}

/// Under `quantized` the same network computes in integers: no multiplication of floats is left before the end.
#[test]
fn integers_stay_integers() {
    let arrays = archive("quantized");
    let input = &arrays["in_0"];
    let config = Config {
        algorithm: "quantized".into(),
        batch: Some(input.shape()[0]),
        ..Config::default()
    };
    let source = ModelSource::File(folder().join("quantized.tflite"));
    let session = Session::new(&source, &config, Entries::InferAsExported).expect("compiles");
    let module = &session.entry(INFER).expect("infer").module;
    let floats: Vec<&str> = module
        .nodes()
        .iter()
        .filter(|n| matches!(n.op.kind(), OpKind::Conv2d | OpKind::MatMul))
        .map(|n| n.name.as_str())
        .collect();
    assert!(floats.is_empty(), "{floats:?}");
    let found = Interpreter::new(module).step(std::slice::from_ref(input), &RunContext::default());
    let found = &found.expect("outputs")[0];
    let reference = outputs("quantized").1.remove(0).1;
    let largest = reference.as_f32().iter().fold(0f32, |m, x| m.max(x.abs()));
    let worst = difference(found, &reference);
    println!("quantized: {worst} of {largest}");
    // Each of seven layers may be a level of 127 off.
    assert!(worst <= 3.0 / 127.0 * largest, "{worst} of {largest}");
}

fn images() -> Dataset {
    // Any bytes will do; three channels that differ.
    let split = |count: usize, offset: usize| Split {
        shape: [3, 8, 8],
        images: Images::U8(
            (0..count * 192).map(|i| (((i + offset) * 2_654_435_761) >> 7) as u8).collect(),
        ),
        labels: (0..count).map(|i| (i % 10) as u32).collect(),
        targets: None,
        named: Vec::new(),
    };
    let classes = (0..10).map(|i| i.to_string()).collect();
    Dataset { name: "bytes".into(), train: split(40, 0), test: split(16, 999), classes }
}

/// Parameters by name after two epochs.
fn trained(file: &str, algorithm: &str) -> BTreeMap<String, Tensor> {
    let config =
        Config { algorithm: algorithm.into(), batch: Some(8), epochs: 2, ..Config::default() };
    let data = images();
    let source = ModelSource::File(folder().join(file));
    let session = Session::new(&source, &config, Entries::TrainAndInfer)
        .unwrap_or_else(|e| panic!("{file}: {e}"));
    let mut trainer = Trainer::new(session, &data).unwrap_or_else(|e| panic!("{file}: {e}"));
    let before = trainer.state().expect("state");
    while trainer.epoch(&data, &mut |_| {}).expect("an epoch").is_some() {}
    let after = trainer.state().expect("state");
    assert_ne!(before, after, "{file} learned nothing");
    after.into_iter().collect()
}

/// A network of integers learns through its quantizers.
#[test]
fn integers_are_fine_tuned() {
    for algorithm in ["fp32", "niti-finetune"] {
        let tensors = trained("quantized.tflite", algorithm);
        assert!(tensors.keys().any(|name| name.starts_with("kernel")), "{algorithm}");
    }
}

/// The same network from both files trains to the same bits, with images of three channels.
#[test]
fn trains_as_from_onnx() {
    for algorithm in ["fp32", "niti", "niti-finetune"] {
        let lite = trained("pair.tflite", algorithm);
        let onnx = trained("pair.onnx", algorithm);
        assert_eq!(lite.len(), onnx.len(), "{algorithm}");
        for (name, tensor) in &onnx {
            assert_eq!(lite.get(name), Some(tensor), "{algorithm}: {name}");
        }
    }
}

/// Transposes are at the edges alone.
#[test]
fn layouts_cost_nothing_between() {
    let transposes = |name: &str| {
        let graph = import(name, 8).graph;
        graph.nodes().iter().filter(|n| n.op.kind() == OpKind::Transpose).count()
    };
    assert_eq!(transposes("pair"), 1, "the input's");
    assert_eq!(transposes("quantized"), 1, "the input's");
    assert_eq!(transposes("dynamic"), 1, "the input's");
}

#[test]
fn variables_are_parameters() {
    let imported = import("variables", 1);
    let graph = &imported.graph;
    let names: Vec<&str> =
        graph.parameters().iter().map(|p| graph.value(p.value).name.as_str()).collect();
    assert_eq!(names, ["kernel", "bias"], "the converter's bias of zeros is none");
    assert!(graph.parameters().iter().all(|p| p.trainable));
    let said = |part: &str| imported.warnings.iter().any(|w| w.message.contains(part));
    assert!(said("the model is signature `infer`; the file's `train` is not used"));
    let has = |kind| imported.warnings.iter().any(|w| w.kind == kind);
    assert!(!has(WarningKind::Empty), "their values are in the file");
}

#[test]
fn every_model_is_checked() {
    for entry in std::fs::read_dir(folder()).expect("the models") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "tflite") {
            let report = check_path(&path);
            assert!(report.imports, "{}: {:?}", path.display(), report.error);
            assert!(!report.operators.is_empty());
        }
    }
}
