//! ONNX's own backend node tests, imported and run through the reference interpreter.
//!
//! A test runs if all its operators are in the importer's table. It must then pass, unless [`EXCLUDED`] gives a
//! reason; an excluded test that passes is a failure too, so the list stays honest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use trainc_ir::interpreter::Interpreter;
use trainc_ir::{RunContext, Tensor};
use trainc_onnx_import::proto::{Message, ModelProto, TensorProto, data_type};
use trainc_onnx_import::{ImportOptions, import_model, read_tensor, supported_ops};

/// Largest relative difference of floats.
const RELATIVE: f32 = 1e-4;
/// Largest absolute difference of floats.
const ABSOLUTE: f32 = 1e-5;

/// Tests (a `*` at the end stands for any rest) that are not expected to pass, and why.
const EXCLUDED: &[(&str, &str)] = &[];

/// One test of the archive.
#[derive(Default)]
struct NodeTest {
    model: ModelProto,
    /// By data set, then by position.
    inputs: BTreeMap<String, BTreeMap<usize, TensorProto>>,
    outputs: BTreeMap<String, BTreeMap<usize, TensorProto>>,
}

fn archive() -> BTreeMap<String, NodeTest> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/onnx-node-tests/node-tests.tar.gz");
    let file = File::open(&path).expect("the archive of node tests");
    let mut tests: BTreeMap<String, NodeTest> = BTreeMap::new();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    for entry in archive.entries().expect("a tar archive") {
        let mut entry = entry.expect("an entry");
        let path: PathBuf = entry.path().expect("a path").into_owned();
        let parts: Vec<String> =
            path.components().map(|c| c.as_os_str().to_string_lossy().into_owned()).collect();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("its bytes");
        match &parts[..] {
            [test, file] if file == "model.onnx" => {
                let model = ModelProto::decode(&*bytes).expect("a model");
                tests.entry(test.clone()).or_default().model = model;
            }
            [test, set, file] if file.ends_with(".pb") => {
                let tensor = TensorProto::decode(&*bytes).expect("a tensor");
                let (kind, position) =
                    file.trim_end_matches(".pb").split_once('_').expect("a name");
                let test = tests.entry(test.clone()).or_default();
                let sets = if kind == "input" { &mut test.inputs } else { &mut test.outputs };
                let position = position.parse().expect("a position");
                sets.entry(set.clone()).or_default().insert(position, tensor);
            }
            _ => {}
        }
    }
    tests
}

/// Whether an input is given to the importer as a constant: values that trainc takes only so (shapes, axes, bounds,
/// integers other than labels and quantized data).
fn is_bound(model: &ModelProto, name: &str, dtype: i32) -> bool {
    let graph = model.graph.as_ref().expect("a graph");
    let used_as = |op: &str, operand: usize| {
        graph
            .node
            .iter()
            .any(|n| n.op_type == op && n.input.get(operand).is_some_and(|i| i == name))
    };
    let is_label = used_as("SoftmaxCrossEntropyLoss", 1) || used_as("NegativeLogLikelihoodLoss", 1);
    let is_quantized =
        graph.node.iter().any(|n| matches!(&*n.op_type, "QuantizeLinear" | "DequantizeLinear"))
            && matches!(dtype, data_type::INT8 | data_type::UINT8);
    let float_parameter =
        used_as("Pad", 2) || used_as("Dropout", 1) || (0..3).any(|i| used_as("Range", i));
    (dtype != data_type::FLOAT && !is_label && !is_quantized) || float_parameter
}

fn differs(found: &Tensor, expected: &TensorProto) -> Option<String> {
    let expected = match read_tensor(expected) {
        Ok(tensor) => tensor,
        Err(e) => return Some(format!("expected output: {e}")),
    };
    if found.shape() != expected.shape() {
        return Some(format!("shape {} instead of {}", found.shape(), expected.shape()));
    }
    let (float_found, float_expected) =
        (found.ty().element.is_float(), expected.ty().element.is_float());
    match (float_found, float_expected) {
        (true, true) => {
            let close = |a: f32, b: f32| {
                a == b
                    || (a.is_nan() && b.is_nan())
                    || (a - b).abs() <= ABSOLUTE + RELATIVE * b.abs()
            };
            let mut pairs = found.as_f32().iter().zip(expected.as_f32()).enumerate();
            pairs
                .find(|(_, (a, b))| !close(**a, **b))
                .map(|(i, (a, b))| format!("[{i}] {a} instead of {b}"))
        }
        (false, false) => {
            let (found, expected) = (found.to_i64(), expected.to_i64());
            let mut pairs = found.iter().zip(&expected).enumerate();
            pairs.find(|(_, (a, b))| a != b).map(|(i, (a, b))| format!("[{i}] {a} instead of {b}"))
        }
        _ => Some(format!("{} instead of {}", found.ty(), expected.ty())),
    }
}

fn run(test: &NodeTest) -> Result<(), String> {
    if test.inputs.keys().chain(test.outputs.keys()).collect::<BTreeSet<_>>().is_empty() {
        return Err("no data".to_string());
    }
    let graph = test.model.graph.as_ref().ok_or("no graph")?;
    let empty = BTreeMap::new();
    for (set, outputs) in &test.outputs {
        let inputs = test.inputs.get(set).unwrap_or(&empty);
        let mut options = ImportOptions::default();
        for (i, info) in graph.input.iter().enumerate() {
            if let Some(tensor) = inputs.get(&i)
                && is_bound(&test.model, &info.name, tensor.data_type)
            {
                options.constants.insert(info.name.clone(), tensor.clone());
            }
        }
        let no_files = |_: &_| Err("no external data".to_string());
        let imported =
            import_model(test.model.clone(), &no_files, &options).map_err(|e| e.to_string())?;
        let mut values = Vec::new();
        for input in imported.graph.inputs() {
            let name = &imported.graph.value(input.value).name;
            let position = graph.input.iter().position(|i| i.name == *name).ok_or("an input")?;
            values.push(read_tensor(&inputs[&position])?);
        }
        let found = Interpreter::new(&imported.graph)
            .step(&values, &RunContext::default())
            .map_err(|e| e.to_string())?;
        if found.len() != outputs.len() {
            return Err(format!("{} outputs instead of {}", found.len(), outputs.len()));
        }
        for (i, expected) in outputs {
            if let Some(difference) = differs(&found[*i], expected) {
                return Err(format!("output {i}: {difference}"));
            }
        }
    }
    Ok(())
}

fn excluded(name: &str) -> Option<&'static str> {
    let matches = |pattern: &str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    };
    EXCLUDED.iter().find(|(pattern, _)| matches(pattern)).map(|(_, reason)| *reason)
}

#[test]
fn node_tests_pass() {
    let claimed: BTreeSet<&str> = supported_ops().map(|op| op.op).collect();
    let tests = archive();
    assert!(tests.len() > 500, "only {} tests in the archive", tests.len());
    let mut failures = Vec::new();
    let mut passes: BTreeMap<String, usize> = BTreeMap::new();
    let mut exclusions: BTreeMap<String, usize> = BTreeMap::new();
    let (mut passed, mut left_out, mut not_claimed) = (0, 0, 0);
    let mut matched = BTreeSet::new();
    for (name, test) in &tests {
        let ops: BTreeSet<String> = test
            .model
            .graph
            .iter()
            .flat_map(|g| g.node.iter().map(|n| n.op_type.clone()))
            .collect();
        if !ops.iter().all(|op| claimed.contains(op.as_str())) {
            not_claimed += 1;
            continue;
        }
        let result = std::panic::catch_unwind(|| run(test))
            .unwrap_or_else(|_| Err("the program panicked".to_string()));
        match (result, excluded(name)) {
            (Ok(()), None) => {
                passed += 1;
                ops.into_iter().for_each(|op| *passes.entry(op).or_default() += 1);
            }
            (Ok(()), Some(reason)) => {
                failures.push(format!("{name}: passes, but is excluded: {reason}"));
            }
            (Err(_), Some(reason)) => {
                left_out += 1;
                matched.insert(reason);
                *exclusions.entry(reason.to_string()).or_default() += 1;
            }
            (Err(e), None) => failures.push(format!("{name}: {e}")),
        }
    }
    for (op, count) in &passes {
        println!("{op}: {count} passed");
    }
    for (reason, count) in &exclusions {
        println!("{count} excluded: {reason}");
    }
    println!(
        "{passed} passed, {left_out} excluded, {not_claimed} with operators outside the table, {} failed",
        failures.len()
    );
    for (pattern, reason) in EXCLUDED {
        assert!(matched.contains(reason), "{pattern} excludes nothing");
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
