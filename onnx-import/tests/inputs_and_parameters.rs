//! Batch sizes, open dimensions, and what becomes a parameter.

mod common;

use std::collections::BTreeMap;

use common::*;
use trainc_ir::InputRole;
use trainc_onnx_import::proto::{AttributeProto, TensorProto, data_type};
use trainc_onnx_import::{ImportErrorKind, ImportOptions, WarningKind};

fn batch(size: usize) -> ImportOptions {
    ImportOptions { batch: Some(size), ..ImportOptions::default() }
}

fn input_shapes(model: &Model, options: &ImportOptions) -> Vec<Vec<usize>> {
    let imported = model.import_with(options);
    let graph = &imported.graph;
    graph.inputs().iter().map(|i| graph.ty(i.value).shape.to_vec()).collect()
}

#[test]
fn an_open_batch_takes_the_size_asked_for() {
    assert_eq!(input_shapes(&net(), &batch(5)), [vec![5, 1, 6, 6], vec![5]]);
    assert_eq!(input_shapes(&net(), &ImportOptions::default()), [vec![1, 1, 6, 6], vec![1]]);
    let imported = net().import_with(&batch(5));
    let graph = &imported.graph;
    assert_eq!(graph.ty(graph.outputs()[0].value).shape.dims(), [5, 3]);
    let roles: Vec<InputRole> = graph.inputs().iter().map(|i| i.role).collect();
    assert_eq!(roles, [InputRole::Data, InputRole::Labels]);
}

#[test]
fn a_fixed_batch_is_replaced_also_where_a_reshape_repeats_it() {
    let m = model(13)
        .input("x", &[4, 2, 3])
        .ints("s", &[2], &[4, 6])
        .node("Reshape", &["x", "s"], &["y"])
        .output("y");
    let imported = m.import_with(&batch(7));
    let graph = &imported.graph;
    assert_eq!(graph.ty(graph.outputs()[0].value).shape.dims(), [7, 6]);
    assert_eq!(imported.warnings[0].kind, WarningKind::Batch);
    // Also where the fixed size would divide the elements.
    let m = model(13)
        .input("x", &[4, 2, 3])
        .ints("s", &[2], &[4, -1])
        .node("Reshape", &["x", "s"], &["y"])
        .output("y");
    let imported = m.import_with(&batch(8));
    let graph = &imported.graph;
    assert_eq!(graph.ty(graph.outputs()[0].value).shape.dims(), [8, 6]);
    // Where the shape leaves no doubt that it is not the batch, the error says what to do.
    let m = model(13)
        .input("x", &[4, 2, 3])
        .ints("s", &[2], &[2, 12])
        .node("Reshape", &["x", "s"], &["y"])
        .output("y");
    let error = m.try_import(&batch(7)).expect_err("no such shape").to_string();
    assert!(error.contains("node_y") && error.contains("fixes the batch at 4"), "{error}");
}

#[test]
fn other_open_dimensions_are_an_error_that_names_them() {
    let m = model(13).input("image", &[-1, 3, 0, 8]).node("Relu", &["image"], &["y"]).output("y");
    assert_eq!(
        m.error(),
        ImportErrorKind::DynamicShape {
            input: "image".into(),
            dimension: 2,
            symbol: "size".into()
        }
    );
    let options = ImportOptions { dimensions: BTreeMap::from([("size".into(), 9)]), ..batch(2) };
    assert_eq!(input_shapes(&m, &options), [[2, 3, 9, 8]]);
}

#[test]
fn weights_are_trained_statistics_are_kept_constants_stay() {
    let imported = net().import();
    assert_eq!(
        parameter_names(&imported.graph, true),
        ["c.weight", "c.bias", "b.weight", "b.bias", "f.weight", "f.bias"]
    );
    assert_eq!(parameter_names(&imported.graph, false), ["b.running_mean", "b.running_var"]);
    assert_eq!(imported.graph.updates().len(), 2);

    let m = model(13)
        .input("x", &[1, 2])
        .floats("divisor", &[2], &[2.0, 2.0])
        .floats("factor", &[], &[3.0])
        .floats("w", &[2, 2], &[1.0, 0.0, 0.0, 1.0])
        .floats("b", &[2], &[1.0, 2.0])
        .node("Div", &["x", "divisor"], &["d"])
        .node("Mul", &["d", "factor"], &["m"])
        .node_with("Transpose", &["w"], &["wt"], vec![ints("perm", &[1, 0])])
        .node("MatMul", &["m", "wt"], &["p"])
        .node("Add", &["p", "b"], &["s"])
        .node_with(
            "Constant",
            &[],
            &["k"],
            vec![AttributeProto::tensor("value", TensorProto::f32("", &[2], &[5.0, 6.0]))],
        )
        .node("Add", &["s", "k"], &["y"])
        .output("y");
    let imported = m.import();
    assert_eq!(parameter_names(&imported.graph, true), ["w", "b"]);
    assert_eq!(run_one(&m, &[1, 2], &[2.0, 4.0]).1, [9.0, 14.0]);
}

#[test]
fn copies_through_identity_are_parameters_of_their_own() {
    let m = model(13)
        .input("x", &[1, 1, 1, 1])
        .floats("w", &[1, 1, 1, 1], &[2.0])
        .floats("b1", &[1], &[1.0])
        .node("Identity", &["b1"], &["b2"])
        .node("Conv", &["x", "w", "b1"], &["h"])
        .node("Conv", &["h", "w", "b2"], &["y"])
        .output("y");
    let imported = m.import();
    assert_eq!(parameter_names(&imported.graph, true), ["w", "b1", "b2"]);
    let untied: Vec<_> =
        imported.warnings.iter().filter(|w| w.kind == WarningKind::Untied).collect();
    assert_eq!(untied.len(), 1);
    assert!(untied[0].message.contains("`b1`") && untied[0].message.contains("`b2`"));
    assert_eq!(run_one(&m, &[1, 1, 1, 1], &[1.0]).1, [7.0]);
}

#[test]
fn one_vector_as_scale_and_variance_is_several_parameters() {
    let m = model(15)
        .input("x", &[1, 1, 1, 1])
        .floats("ones", &[1], &[1.0])
        .floats("zeros", &[1], &[0.0])
        .node("BatchNormalization", &["x", "ones", "zeros", "zeros", "ones"], &["h"])
        .node("BatchNormalization", &["h", "ones", "zeros", "zeros", "ones"], &["y"])
        .output("y");
    let imported = m.import();
    assert_eq!(
        parameter_names(&imported.graph, true),
        ["ones", "zeros", "node_y.scale", "node_y.shift"]
    );
    assert_eq!(
        parameter_names(&imported.graph, false),
        ["node_h.running_mean", "node_h.running_var", "node_y.running_mean", "node_y.running_var"]
    );
}

#[test]
fn initializers_of_inputs_are_no_inputs() {
    let m = model(8)
        .input("x", &[1, 2])
        .input("w", &[2, 1])
        .floats("w", &[2, 1], &[1.0, 1.0])
        .node("MatMul", &["x", "w"], &["y"])
        .output("y");
    let imported = m.import();
    assert_eq!(imported.graph.inputs().len(), 1);
    assert_eq!(parameter_names(&imported.graph, true), ["w"]);
}

#[test]
fn inputs_can_be_bound_to_constants() {
    let m = model(13)
        .input("x", &[2, 3])
        .typed_input("shape", data_type::INT64, &[1])
        .node("Reshape", &["x", "shape"], &["y"])
        .output("y");
    assert!(m.message().contains("`shape`"), "{}", m.message());
    let constants = BTreeMap::from([("shape".to_string(), TensorProto::i64("", &[1], &[6]))]);
    let options = ImportOptions { constants, ..ImportOptions::default() };
    let imported = m.import_with(&options);
    assert_eq!(imported.graph.inputs().len(), 1);
    assert_eq!(imported.graph.ty(imported.graph.outputs()[0].value).shape.dims(), [6]);
}

#[test]
fn folded_and_inference_batch_norm_are_reported_when_training() {
    let training = ImportOptions { training: true, ..ImportOptions::default() };
    let m = model(15)
        .input("x", &[1, 1, 1, 1])
        .floats("c.weight", &[1, 1, 1, 1], &[1.0])
        .floats("c.weight_bias", &[1], &[1.0])
        .node("Conv", &["x", "c.weight", "c.weight_bias"], &["y"])
        .output("y");
    let kinds = |m: &Model, o: &ImportOptions| -> Vec<WarningKind> {
        m.import_with(o).warnings.iter().map(|w| w.kind).collect()
    };
    assert_eq!(kinds(&m, &training), [WarningKind::FoldedBatchNorm]);
    assert_eq!(kinds(&m, &ImportOptions::default()), []);
    let m = model(15)
        .input("x", &[1, 1, 1, 1])
        .floats("s", &[1], &[1.0])
        .floats("b", &[1], &[1.0])
        .floats("m", &[1], &[1.0])
        .floats("v", &[1], &[1.0])
        .node("BatchNormalization", &["x", "s", "b", "m", "v"], &["y"])
        .output("y");
    assert_eq!(kinds(&m, &training), [WarningKind::InferenceBatchNorm]);
    let message = &m.import_with(&training).warnings[0].message;
    assert!(message.contains("dynamo=False") && message.contains("node_y"), "{message}");
    let asked =
        ImportOptions { batch_norm: trainc_onnx_import::BatchNormMode::Training, ..training };
    assert_eq!(kinds(&m, &asked), []);
}
