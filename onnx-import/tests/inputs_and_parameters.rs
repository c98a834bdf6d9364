//! Batch sizes, open dimensions, and what becomes a parameter.

mod common;

use std::collections::BTreeMap;

use common::*;
use trainc_ir::{InputRole, OpKind};
use trainc_onnx_import::proto::{
    AttributeProto, ModelProto, TensorProto, attribute_type, data_type,
};
use trainc_onnx_import::{
    ImportErrorKind, ImportOptions, Imported, WarningKind, check_finite, import_model, import_path,
};

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

/// Names of the operands of each node that is or holds a module of `op`, from the second on.
fn operands(imported: &Imported, op: OpKind) -> Vec<Vec<&str>> {
    let graph = &imported.graph;
    let nodes = graph.nodes().iter().filter(|n| n.op.kind() == op);
    nodes.map(|n| n.inputs[1..].iter().map(|&v| graph.value(v).name.as_str()).collect()).collect()
}

fn warned(imported: &Imported, kind: WarningKind) -> Vec<&str> {
    let found = imported.warnings.iter().filter(|w| w.kind == kind);
    found.map(|w| w.message.as_str()).collect()
}

/// The bias that ends up in each result of `op`: a parameter added as it is or reshaped.
fn biases(imported: &Imported, op: OpKind) -> Vec<&str> {
    let graph = &imported.graph;
    let mut found = Vec::new();
    for product in graph.nodes().iter().filter(|n| n.op.kind() == op) {
        let sum = graph.nodes().iter().find(|n| n.inputs.contains(&product.outputs[0])).unwrap();
        assert_eq!(sum.op.kind(), OpKind::Add);
        let mut bias = *sum.inputs.iter().find(|v| **v != product.outputs[0]).unwrap();
        while let Some(node) = graph.producer(bias) {
            bias = node.inputs[0];
        }
        found.push(graph.value(bias).name.as_str());
    }
    found
}

#[test]
fn batch_norms_with_equal_scales_but_statistics_of_their_own_are_two_modules() {
    let m = model(15)
        .input("x", &[1, 2, 1, 1])
        .floats("ones", &[2], &[1.0, 1.0])
        .floats("zeros", &[2], &[0.0, 0.0])
        .floats("m1", &[2], &[0.5, 1.0])
        .floats("v1", &[2], &[2.0, 3.0])
        .floats("m2", &[2], &[0.25, 2.0])
        .floats("v2", &[2], &[4.0, 5.0])
        .node("BatchNormalization", &["x", "ones", "zeros", "m1", "v1"], &["h"])
        .node("BatchNormalization", &["h", "ones", "zeros", "m2", "v2"], &["y"])
        .output("y");
    let imported = m.import();
    let trained = ["ones", "zeros", "node_y.scale", "node_y.shift"];
    assert_eq!(parameter_names(&imported.graph, true), trained);
    assert_eq!(parameter_names(&imported.graph, false), ["m1", "v1", "m2", "v2"]);
    assert_eq!(
        operands(&imported, OpKind::BatchNorm),
        [["ones", "zeros", "m1", "v1"], ["node_y.scale", "node_y.shift", "m2", "v2"]]
    );
    let untied = warned(&imported, WarningKind::Untied);
    assert!(untied.len() == 2 && untied[0].contains("`node_y.scale`"), "{untied:?}");
    assert!(warned(&imported, WarningKind::Shared).is_empty());
    // One statistic in common is not all of them.
    let mut m = m;
    m.graph.node[1].input[4] = "v1".into();
    let imported = m.import();
    assert_eq!(
        operands(&imported, OpKind::BatchNorm),
        [
            ["ones", "zeros", "m1", "v1"],
            ["node_y.scale", "node_y.shift", "m2", "node_y.running_var"]
        ]
    );
    // All in common: one module, applied twice.
    m.graph.node[1].input[3] = "m1".into();
    let imported = m.import();
    assert_eq!(operands(&imported, OpKind::BatchNorm), [["ones", "zeros", "m1", "v1"]; 2]);
    assert!(warned(&imported, WarningKind::Untied).is_empty());
    assert_eq!(warned(&imported, WarningKind::Shared).len(), 4);
}

#[test]
fn batch_norms_that_start_at_zero_are_not_one_module() {
    // The variances alone are of one kind; the others say that nothing here is shared on purpose.
    let m = model(15)
        .input("x", &[1, 1, 1, 1])
        .floats("zeros", &[1], &[0.0])
        .floats("ones", &[1], &[1.0])
        .node("BatchNormalization", &["x", "zeros", "zeros", "zeros", "ones"], &["h"])
        .node("BatchNormalization", &["h", "zeros", "zeros", "zeros", "ones"], &["y"])
        .output("y");
    let imported = m.import();
    assert_eq!(
        operands(&imported, OpKind::BatchNorm),
        [
            ["zeros", "node_h.shift", "node_h.running_mean", "ones"],
            ["node_y.scale", "node_y.shift", "node_y.running_mean", "node_y.running_var"]
        ]
    );
}

#[test]
fn convolutions_with_weights_of_their_own_share_no_bias() {
    let m = model(13)
        .input("x", &[1, 2, 1, 1])
        .floats("w1", &[2, 2, 1, 1], &[1.0, 2.0, 3.0, 4.0])
        .floats("w2", &[2, 2, 1, 1], &[1.0, 0.0, 0.0, 1.0])
        .floats("b", &[2], &[0.5, 0.25])
        .node("Conv", &["x", "w1", "b"], &["h"])
        .node("Conv", &["h", "w2", "b"], &["i"])
        .node("Conv", &["i", "w2", "b"], &["y"])
        .output("y");
    let imported = m.import();
    assert_eq!(parameter_names(&imported.graph, true), ["w1", "w2", "b", "node_i.bias"]);
    // The last two are one module, applied twice.
    assert_eq!(biases(&imported, OpKind::Conv2d), ["b", "node_i.bias", "node_i.bias"]);
    let copy = &imported.graph.parameters()[3];
    assert!(copy.trainable && copy.initial.as_f32() == [0.5, 0.25]);
    assert_eq!(warned(&imported, WarningKind::Untied).len(), 1);
    let shared = warned(&imported, WarningKind::Shared);
    assert!(shared.len() == 1 && shared[0].contains("`node_i.bias` serves 2"), "{shared:?}");
}

/// Two dense layers `x w + b` in a row, the second with the weight `second`; `gemm` as one node each, else as
/// transposed weight, product and sum each.
fn dense_twice(gemm: bool, second: &str) -> Model {
    let mut m = model(13)
        .input("x", &[1, 2])
        .floats("w", &[2, 2], &[1.0, 2.0, 3.0, 4.0])
        .floats("v", &[2, 2], &[1.0, 0.0, 0.0, 1.0])
        .floats("b", &[2], &[0.0, 0.0]);
    for (x, weight, y) in [("x", "w", "h"), ("h", second, "y")] {
        m = match gemm {
            true => m.node_with("Gemm", &[x, weight, "b"], &[y], vec![int("transB", 1)]),
            false => {
                let [t, p] = ["t", "p"].map(|s| format!("{y}.{s}"));
                m.node_with("Transpose", &[weight], &[&t], vec![ints("perm", &[1, 0])])
                    .node("MatMul", &[x, &t], &[&p])
                    .node("Add", &["b", &p], &[y])
            }
        };
    }
    m.output("y")
}

#[test]
fn a_dense_layer_applied_twice_is_one_and_two_layers_are_two() {
    for gemm in [true, false] {
        let imported = dense_twice(gemm, "w").import();
        assert_eq!(parameter_names(&imported.graph, true), ["w", "b"], "gemm {gemm}");
        assert_eq!(biases(&imported, OpKind::MatMul), ["b", "b"]);
        assert!(warned(&imported, WarningKind::Untied).is_empty());
        assert_eq!(warned(&imported, WarningKind::Shared).len(), 1);
        let imported = dense_twice(gemm, "v").import();
        let trained = ["w", "v", "b", "node_y.bias"];
        assert_eq!(parameter_names(&imported.graph, true), trained, "gemm {gemm}");
        assert_eq!(biases(&imported, OpKind::MatMul), ["b", "node_y.bias"]);
        assert_eq!(warned(&imported, WarningKind::Untied).len(), 1);
    }
}

#[test]
fn a_dense_layer_applied_twice_is_one_though_its_bias_was_merged_with_a_statistic() {
    for gemm in [true, false] {
        let mut m =
            dense_twice(gemm, "w").floats("s", &[2], &[1.0, 1.0]).floats("z", &[2], &[2.0, 1.0]);
        m.graph.output.clear();
        let m = m.node("BatchNormalization", &["y", "s", "z", "b", "s"], &["n"]).output("n");
        let imported = m.import();
        assert_eq!(biases(&imported, OpKind::MatMul), ["b", "b"], "gemm {gemm}");
        assert_eq!(
            operands(&imported, OpKind::BatchNorm),
            [["s", "z", "node_n.running_mean", "node_n.running_var"]]
        );
    }
}

#[test]
fn weights_computed_alike_are_one_weight() {
    let m = |first: &str, second: &str| {
        model(13)
            .input("x", &[1, 1, 1, 1])
            .floats("v", &[1, 1, 1, 1], &[2.0])
            .floats("g1", &[1, 1, 1, 1], &[3.0])
            .floats("g2", &[1, 1, 1, 1], &[4.0])
            .floats("b", &[1], &[0.0])
            .node("Mul", &[first, "v"], &["w1"])
            .node("Conv", &["x", "w1", "b"], &["h"])
            .node("Mul", &[second, "v"], &["w2"])
            .node("Conv", &["h", "w2", "b"], &["y"])
            .output("y")
            .import()
    };
    assert_eq!(biases(&m("g1", "g1"), OpKind::Conv2d), ["b", "b"]);
    assert_eq!(biases(&m("g1", "g2"), OpKind::Conv2d), ["b", "node_y.bias"]);
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
    let message = &m.import_with(&training).warnings[0].message;
    for part in ["works as it is", "frozen statistics", "TrainingMode.TRAINING", "`y`"] {
        assert!(message.contains(part), "{part}: {message}");
    }
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
    assert!(message.contains("`--batch-norm training`"), "{message}");
    let asked =
        ImportOptions { batch_norm: trainc_onnx_import::BatchNormMode::Training, ..training };
    assert_eq!(kinds(&m, &asked), []);
}

#[test]
fn statistics_that_the_exporter_moved_are_reported_once() {
    let training = ImportOptions { training: true, ..ImportOptions::default() };
    let start = ["s", "b", "m", "v"]
        .iter()
        .fold(model(15).input("x", &[2, 1, 1, 1]), |m, name| m.floats(name, &[1], &[1.0]));
    let norm = |m: Model, x: &str, y: &str| {
        let inputs = [x, "s", "b", "m", "v"];
        m.node_with("BatchNormalization", &inputs, &[y], vec![int("training_mode", 1)])
    };
    let mut proto = norm(norm(start, "x", "h"), "h", "y").output("y").proto();
    let warnings = |proto: &ModelProto, options: &ImportOptions| -> Vec<String> {
        let imported = import_model(proto.clone(), &no_files, options).expect("a model");
        let found = warned(&imported, WarningKind::MovedStatistics);
        found.into_iter().map(str::to_string).collect()
    };
    // Other tools do not run the model.
    assert_eq!(warnings(&proto, &training), [""; 0]);
    proto.producer_name = "pytorch".into();
    assert_eq!(warnings(&proto, &ImportOptions::default()), [""; 0]);
    let found = warnings(&proto, &training);
    assert_eq!(found.len(), 1, "{found:?}");
    for part in
        ["2 batch norm", "`node_h`", "--learning-rate 0 --steps 30", "register_forward_hook"]
    {
        assert!(found[0].contains(part), "{part}: {found:?}");
    }
}

/// A convolution and a sum with a matrix, to be trained.
fn convolution(weight: &[f32; 4], term: &[f32; 2]) -> Model {
    model(15)
        .input("x", &[1, 1, 2, 2])
        .floats("w", &[1, 1, 2, 2], weight)
        .node("Conv", &["x", "w"], &["c"])
        .floats("t", &[1, 1, 1, 2], term)
        .node("Add", &["c", "t"], &["y"])
        .output("y")
}

#[test]
fn weights_that_are_no_numbers_are_not_trained() {
    let training = ImportOptions { training: true, ..ImportOptions::default() };
    for (bad, word) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf"), (f32::NEG_INFINITY, "-inf")] {
        let m = convolution(&[1.0, 2.0, bad, bad], &[0.0, 1.0]);
        let error = m.try_import(&training).expect_err("no weights").to_string();
        let expected = format!("parameter `w`: element 2 of 4 is {word}: ");
        assert!(error.starts_with(&expected) && error.contains("`trainc run`"), "{error}");
        // To be evaluated in FP32 it is a model like others.
        let kept = m.import().graph.parameters()[0].initial.as_f32()[2];
        assert!(kept.to_bits() == bad.to_bits());
    }
    convolution(&[1.0; 4], &[0.0, 1.0]).import_with(&training);
    let path = std::env::temp_dir().join(format!("trainc-nan-{}.onnx", std::process::id()));
    std::fs::write(&path, convolution(&[f32::NAN; 4], &[0.0; 2]).bytes()).expect("a file");
    let error = import_path(&path, &training).expect_err("no weights").to_string();
    std::fs::remove_file(&path).expect("removed");
    assert!(error.starts_with(&format!("{}: parameter `w`", path.display())), "{error}");
}

#[test]
fn infinite_masks_and_bounds_stay_constants() {
    let training = ImportOptions { training: true, ..ImportOptions::default() };
    let masked = convolution(&[1.0; 4], &[0.0, f32::NEG_INFINITY]);
    let imported = masked.import_with(&training);
    assert_eq!(parameter_names(&imported.graph, true), ["w"]);
    let clipped = convolution(&[1.0; 4], &[0.0; 2]).floats("low", &[], &[f32::NEG_INFINITY]);
    let clipped = clipped.node("Clip", &["y", "low"], &["z"]).output("z");
    clipped.import_with(&training);
    // NaN masks nothing.
    let error = convolution(&[1.0; 4], &[0.0, f32::NAN]).try_import(&training).expect_err("NaN");
    assert!(error.to_string().starts_with("parameter `t`: element 1 of 2 is NaN"), "{error}");
}

#[test]
fn constants_that_are_multiplied_are_weights() {
    let constant = |values: &[f32; 4]| {
        let tensor = TensorProto::f32("", &[1, 1, 2, 2], values);
        let value = AttributeProto {
            name: "value".into(),
            r#type: attribute_type::TENSOR,
            t: Some(Box::new(tensor)),
            ..AttributeProto::default()
        };
        model(15)
            .input("x", &[1, 1, 2, 2])
            .node_with("Constant", &[], &["w"], vec![value])
            .floats("b", &[1], &[0.0])
            .node("Conv", &["x", "w", "b"], &["y"])
            .output("y")
    };
    let imported = constant(&[1.0; 4]).import();
    assert_eq!(parameter_names(&imported.graph, true), ["b"]);
    assert!(check_finite(&imported.graph).is_ok());
    let imported = constant(&[1.0, f32::INFINITY, 1.0, 1.0]).import();
    let error = check_finite(&imported.graph).expect_err("infinite").to_string();
    assert!(error.starts_with("constant `w`: element 1 of 4 is inf"), "{error}");
}
