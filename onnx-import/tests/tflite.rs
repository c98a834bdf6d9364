//! What is said of TensorFlow Lite files that are not imported, or not in every detail.

use std::path::{Path, PathBuf};

use trainc_onnx_import::export::{ParameterValue, with_parameters};
use trainc_onnx_import::{
    ExternalLocation, ImportError, ImportErrorKind, ImportOptions, WarningKind, check_path,
    import_bytes, import_path,
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/tflite")
}

fn refused(name: &str) -> ImportError {
    let path = folder().join(format!("refused/{name}.tflite"));
    let error = import_path(&path, &ImportOptions::default()).expect_err(name);
    assert_eq!(error.file.as_deref(), Some(&*path));
    let report = check_path(&path);
    assert!(!report.imports && (report.error.is_some() || !report.unsupported.is_empty()));
    error
}

#[test]
fn everything_unsupported_is_named_with_its_place() {
    let error = refused("refused");
    let ImportErrorKind::Unsupported(items) = &error.kind else { panic!("{error}") };
    let found: Vec<(&str, &str, &str)> =
        items.iter().map(|u| (&*u.node, &*u.op, &*u.what)).collect();
    // Neither what follows from a refused operator nor what no output needs.
    let expected = [
        ("operator 0 of subgraph 0 (main)", "COS", "operator"),
        ("operator 1 of subgraph 0 (main)", "MyOperator", "custom operator"),
        ("operator 3 of subgraph 0 (main)", "ADD", "fused activation function"),
        ("operator 5 of subgraph 0 (main)", "TRANSPOSE", "operand 1"),
    ];
    assert_eq!(found, expected);
    let text = error.to_string();
    assert!(text.contains("refused.tflite: the model uses 4 things"), "{text}");
    assert!(text.contains("SIGN_BIT; supported: NONE, RELU, RELU_N1_TO_1, RELU6, TANH"), "{text}");
    let report = check_path(&folder().join("refused/refused.tflite"));
    assert_eq!(report.operators["ADD"], 2);
}

#[test]
fn a_file_that_only_trains_says_so() {
    let text = refused("trains_only").to_string();
    assert!(text.contains("no signature is for inference: `train` changes variables"), "{text}");
}

#[test]
fn open_dimensions_other_than_the_batch_are_refused() {
    let error = refused("open_height");
    assert!(matches!(error.kind, ImportErrorKind::DynamicShape { dimension: 1, .. }), "{error}");
}

#[test]
fn a_batch_that_does_not_fit_names_the_operator() {
    // Its reshape to [4, 60] fixes the batch at 2.
    let options = ImportOptions { batch: Some(5), ..ImportOptions::default() };
    let error = import_path(&folder().join("dense.tflite"), &options).expect_err("a batch of 5");
    let node = error.node().expect("a node");
    assert!(node.starts_with("operator ") && node.ends_with("of subgraph 0 (main)"), "{error}");
}

#[test]
fn what_differs_is_said() {
    let warnings = |name: &str| {
        let path = folder().join(format!("{name}.tflite"));
        import_path(&path, &ImportOptions::default()).unwrap_or_else(|e| panic!("{e}")).warnings
    };
    let said = |name: &str, part: &str| {
        let warnings = warnings(name);
        let found = warnings
            .iter()
            .any(|w| w.kind == WarningKind::Quantization && w.message.contains(part));
        assert!(found, "{name}: {warnings:?}");
    };
    said("quantized", "input `x` is FP32 here; the file's is INT8");
    said("quantized", "is FP32 here; the file's is INT8, (value / ");
    said("quantized_probabilities", "is not rounded to the file's integers");
    said("hybrid", "1 operator(s) have integer weights and FP32 activations");
    assert!(warnings("pair").is_empty(), "{:?}", warnings("pair"));
}

#[test]
fn weights_are_written_back_as_onnx() {
    use trainc_onnx_import::proto::{Message, ModelProto};
    let path = folder().join("pair.tflite");
    let value = ParameterValue { name: "bias_2", shape: &[8], values: &[0.5; 8], integers: None };
    let bytes = with_parameters(&path, &[value]).expect("an ONNX model");
    let model = ModelProto::decode(&*bytes).expect("an ONNX model");
    // Before version 4 of the format every initializer is an input, too.
    assert!(model.ir_version >= 4, "version {}", model.ir_version);
    let options = ImportOptions::default();
    let none = |_: &ExternalLocation| Err("no files".to_string());
    let (old, new) =
        (import_path(&path, &options).unwrap(), import_bytes(&bytes, &none, &options).unwrap());
    let parameters = |graph: &trainc_ir::Graph| -> Vec<(String, trainc_ir::Tensor)> {
        let own = graph.parameters().iter();
        own.map(|p| (graph.value(p.value).name.clone(), (*p.initial).clone())).collect()
    };
    for ((name, before), (_, after)) in parameters(&old.graph).iter().zip(parameters(&new.graph)) {
        match name.as_str() {
            "bias_2" => assert_eq!(after.as_f32(), [0.5; 8]),
            _ => assert_eq!(*before, after, "{name}"),
        }
    }
}
