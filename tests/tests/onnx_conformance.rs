//! ONNX's own backend node tests, imported and run through the reference interpreter.
//!
//! A test runs if all its operators are in the importer's table. It must then pass, unless [`EXCLUDED`] gives a
//! reason; an excluded test that passes is a failure too, so the list stays honest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use trainc_ir::interpreter::Interpreter;
use trainc_ir::{Element, RunContext, Tensor};
use trainc_onnx_import::proto::{Message, ModelProto, TensorProto, data_type};
use trainc_onnx_import::{ImportOptions, import_model, read_tensor, supported_ops};

/// Largest relative difference of floats.
const RELATIVE: f32 = 1e-4;
/// Largest absolute difference of floats.
const ABSOLUTE: f32 = 1e-5;

/// Tests that are not expected to pass, and why.
const EXCLUDED: &[(&str, &str)] = &[
    (
        "test_averagepool_2d_ceil_last_window_starts_on_pad",
        "its expected output is rounded to four digits",
    ),
    ("test_averagepool_2d_dilations", "AveragePool with dilation"),
    ("test_cast_DOUBLE_to_FLOAT16", NARROW),
    ("test_cast_FLOAT_to_BFLOAT16", NARROW),
    ("test_cast_FLOAT_to_DOUBLE", NARROW),
    ("test_cast_FLOAT_to_FLOAT16", NARROW),
    ("test_castlike_DOUBLE_to_FLOAT16_expanded", NARROW),
    ("test_castlike_FLOAT_to_BFLOAT16_expanded", NARROW),
    ("test_castlike_FLOAT_to_DOUBLE_expanded", NARROW),
    ("test_castlike_FLOAT_to_FLOAT16_expanded", NARROW),
    ("test_constantofshape_int_shape_zero", EMPTY),
    ("test_reduce_l1_empty_set_expanded", EMPTY),
    ("test_reduce_log_sum_empty_set_expanded", EMPTY),
    ("test_reduce_max_empty_set", EMPTY),
    ("test_reduce_sum_empty_set", EMPTY),
    ("test_reduce_sum_empty_set_non_reduced_axis_zero", EMPTY),
    ("test_reduce_sum_square_empty_set_expanded", EMPTY),
    ("test_reshape_allowzero_reordered", EMPTY),
    ("test_shape_start_greater_than_end", EMPTY),
    ("test_slice_start_out_of_bounds", EMPTY),
    ("test_split_zero_size_splits_opset13", EMPTY),
    ("test_split_zero_size_splits_opset18", EMPTY),
    ("test_dequantizelinear_blocked", BLOCKS),
    ("test_quantizelinear_blocked_asymmetric", BLOCKS),
    ("test_quantizelinear_blocked_symmetric", BLOCKS),
    ("test_dequantizelinear_e4m3fn", BITS),
    ("test_dequantizelinear_e4m3fn_float16", BITS),
    ("test_dequantizelinear_e4m3fn_zero_point", BITS),
    ("test_dequantizelinear_e5m2", BITS),
    ("test_dequantizelinear_float4e2m1", BITS),
    ("test_dequantizelinear_int16", BITS),
    ("test_dequantizelinear_uint16", BITS),
    ("test_quantizelinear_e4m3fn", BITS),
    ("test_quantizelinear_e5m2", BITS),
    ("test_quantizelinear_float4e2m1", BITS),
    ("test_quantizelinear_int16", BITS),
    ("test_quantizelinear_uint16", BITS),
    ("test_equal_string", "strings"),
    ("test_equal_string_broadcast", "strings"),
    ("test_maxpool_2d_uint8", INTEGERS),
    ("test_pow_types_int32_float32", INTEGERS),
    ("test_pow_types_int64_float32", INTEGERS),
    ("test_maxpool_with_argmax_2d_precomputed_pads", "MaxPool's Indices"),
    ("test_maxpool_with_argmax_2d_precomputed_strides", "MaxPool's Indices"),
    ("test_training_dropout", RANDOM),
    ("test_training_dropout_default", RANDOM),
    ("test_training_dropout_default_mask", RANDOM),
    ("test_training_dropout_mask", RANDOM),
    ("test_bernoulli", RANDOM),
    ("test_bernoulli_double", RANDOM),
    ("test_bernoulli_seed", RANDOM),
    ("test_convtranspose_3d", "three spatial dimensions"),
    ("test_einsum_batch_diagonal", "Einsum's diagonals"),
    ("test_not_2d", OLD),
    ("test_not_3d", OLD),
    ("test_not_4d", OLD),
    ("test_reduce_l1_empty_set", EMPTY),
    ("test_reduce_l2_empty_set", EMPTY),
    ("test_reduce_log_sum_empty_set", EMPTY),
    ("test_reduce_log_sum_exp_empty_set", EMPTY),
    ("test_reduce_min_empty_set", EMPTY),
    ("test_reduce_sum_square_empty_set", EMPTY),
    ("test_resize_tf_crop_and_resize", CROP),
    ("test_resize_tf_crop_and_resize_axes_2_3", CROP),
    ("test_resize_tf_crop_and_resize_axes_3_2", CROP),
    ("test_resize_tf_crop_and_resize_extrapolation_value", CROP),
    ("test_scatter_elements_with_reduction_max", REDUCTION),
    ("test_scatter_elements_with_reduction_min", REDUCTION),
    ("test_scatternd_max", REDUCTION),
    ("test_scatternd_min", REDUCTION),
    ("test_scatternd_multiply", REDUCTION),
    ("test_tril_zero", EMPTY),
    ("test_triu_zero", EMPTY),
];

const NARROW: &str = "conversion to other floats than FLOAT at run time";
const EMPTY: &str = "inputs or results without elements";
const BLOCKS: &str = "quantization in blocks";
const BITS: &str =
    "QuantizeLinear and DequantizeLinear of other types than integers of 8, 4 and 2 bits";
const INTEGERS: &str = "arithmetic on integers computed at run time";
const CROP: &str = "Resize of a region";
const OLD: &str = "an operator set before 7";
const REDUCTION: &str = "writing by maximum, minimum or product";
const RANDOM: &str = "the expected mask is that of NumPy's generator";

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

/// Operators whose integers may also be computed at run time.
const INDEXED: &[&str] = &["Gather", "GatherElements", "Equal"];

/// Whether an input is given to the importer as a constant: values that trainc takes only so (shapes, axes, bounds,
/// integers other than labels, quantized data and, where they are to run, indices).
fn is_bound(model: &ModelProto, name: &str, dtype: i32, indices_run: bool) -> bool {
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
            && is_narrow(dtype);
    let float_parameter = used_as("Pad", 2)
        || used_as("Dropout", 1)
        || (0..3).any(|i| used_as("Range", i))
        || (1..3).any(|i| used_as("Resize", i))
        || used_as("Upsample", 1);
    let runs = indices_run && matches!(dtype, data_type::INT32 | data_type::INT64);
    (dtype != data_type::FLOAT && !is_label && !is_quantized && !runs) || float_parameter
}

/// Whether trainc quantizes to it.
fn is_narrow(dtype: i32) -> bool {
    use data_type::*;
    matches!(dtype, INT8 | UINT8 | INT4 | UINT4 | INT2 | UINT2)
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
        // Truth values are FP32 at run time.
        (true, false) if expected.ty().element == Element::B1 => {
            let pairs = found.as_f32().iter().zip(expected.to_i64());
            let different = pairs.enumerate().find(|(_, (a, b))| **a != *b as f32);
            different.map(|(i, (a, b))| format!("[{i}] {a} instead of {b}"))
        }
        (false, false) => {
            let (found, expected) = (found.to_i64(), expected.to_i64());
            let mut pairs = found.iter().zip(&expected).enumerate();
            pairs.find(|(_, (a, b))| a != b).map(|(i, (a, b))| format!("[{i}] {a} instead of {b}"))
        }
        _ => Some(format!("{} instead of {}", found.ty(), expected.ty())),
    }
}

/// Runs a test; `indices_run` leaves integers to run time.
fn run(test: &NodeTest, indices_run: bool) -> Result<(), String> {
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
                && is_bound(&test.model, &info.name, tensor.data_type, indices_run)
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
    EXCLUDED.iter().find(|(test, _)| *test == name).map(|(_, reason)| *reason)
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
        let indexed = ops.iter().all(|op| INDEXED.contains(&op.as_str()));
        let both =
            || run(test, false).and_then(|()| if indexed { run(test, true) } else { Ok(()) });
        let result = std::panic::catch_unwind(both)
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
                matched.insert(name.as_str());
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
    for (test, _) in EXCLUDED {
        if !matched.contains(test) && !failures.iter().any(|f| f.starts_with(&format!("{test}:"))) {
            failures.push(format!("{test}: is excluded, but does not run"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
