//! Forms of operators that ONNX's node tests do not cover: older operator sets, automatic padding, quantized
//! weights, values known only by folding.

mod common;

use common::*;
use trainc_ir::{Element, OpKind, RunContext, Tensor, interpreter::Interpreter};
use trainc_onnx_import::proto::{AttributeProto, TensorProto, data_type};
use trainc_onnx_import::{BatchNormMode, DropoutMode, ImportOptions, LossForm, WarningKind};

#[test]
fn clip_takes_attributes_before_opset_11() {
    let attributes = vec![AttributeProto::float("min", -1.0), AttributeProto::float("max", 2.0)];
    let m = model(10).input("x", &[3]).node_with("Clip", &["x"], &["y"], attributes).output("y");
    assert_eq!(run_one(&m, &[3], &[-5.0, 1.0, 5.0]).1, [-1.0, 1.0, 2.0]);
}

#[test]
fn softmax_before_opset_13_runs_over_the_flattened_rest() {
    // [1, 2, 2] of zeros: four equal probabilities over axes 1 and 2 together, two over axis 2 alone.
    let at = |opset: i64, axis: i64| {
        let m = model(opset)
            .input("x", &[1, 2, 2])
            .node_with("Softmax", &["x"], &["y"], vec![int("axis", axis)])
            .output("y");
        run_one(&m, &[1, 2, 2], &[0.0; 4])
    };
    assert_eq!(at(11, 1), (vec![1, 2, 2], vec![0.25; 4]));
    assert_eq!(at(11, 2), (vec![1, 2, 2], vec![0.5; 4]));
    assert_eq!(at(13, 1), (vec![1, 2, 2], vec![0.5; 4]));
    // The default axis is 1 before, and the last from opset 13.
    let default = |opset: i64| {
        let m = model(opset).input("x", &[1, 2, 2]).node("Softmax", &["x"], &["y"]).output("y");
        run_one(&m, &[1, 2, 2], &[0.0; 4]).1
    };
    assert_eq!(default(11), [0.25; 4]);
    assert_eq!(default(13), [0.5; 4]);
}

#[test]
fn slice_split_squeeze_pad_and_sums_take_attributes_in_old_operator_sets() {
    let m = model(9)
        .input("x", &[1, 4])
        .node_with(
            "Slice",
            &["x"],
            &["s"],
            vec![ints("starts", &[1]), ints("ends", &[i64::MAX]), ints("axes", &[1])],
        )
        .node_with("Split", &["s"], &["a", "b"], vec![int("axis", 1), ints("split", &[1, 2])])
        .node_with("Squeeze", &["b"], &["q"], vec![ints("axes", &[0])])
        .node_with(
            "Pad",
            &["q"],
            &["p"],
            vec![ints("pads", &[1, 0]), AttributeProto::float("value", 9.0)],
        )
        .node_with("ReduceSum", &["a"], &["t"], vec![ints("axes", &[1]), int("keepdims", 0)])
        .node("Add", &["p", "t"], &["y"])
        .output("y");
    // x = 1 2 3 4: a = [2], b = [3 4], p = [9 3 4], t = 2.
    assert_eq!(run_one(&m, &[1, 4], &[1.0, 2.0, 3.0, 4.0]), (vec![3], vec![11.0, 5.0, 6.0]));
}

#[test]
fn same_padding_puts_the_odd_element_where_it_says() {
    let at = |auto_pad: &str| {
        let m = model(13)
            .input("x", &[1, 1, 1, 3])
            .floats("w", &[1, 1, 1, 2], &[1.0, 10.0])
            .node_with(
                "Conv",
                &["x", "w"],
                &["y"],
                vec![AttributeProto::string("auto_pad", auto_pad)],
            )
            .output("y");
        run_one(&m, &[1, 1, 1, 3], &[1.0, 2.0, 3.0]).1
    };
    assert_eq!(at("SAME_UPPER"), [21.0, 32.0, 3.0]);
    assert_eq!(at("SAME_LOWER"), [10.0, 21.0, 32.0]);
    assert_eq!(at("VALID"), [21.0, 32.0]);
}

#[test]
fn gemm_scales_both_terms() {
    let m = model(13)
        .input("x", &[1, 2])
        .floats("w", &[2, 1], &[3.0, 4.0])
        .floats("c", &[1], &[10.0])
        .node_with(
            "Gemm",
            &["x", "w", "c"],
            &["y"],
            vec![AttributeProto::float("alpha", 0.5), AttributeProto::float("beta", 2.0)],
        )
        .output("y");
    assert_eq!(run_one(&m, &[1, 2], &[1.0, 1.0]).1, [23.5]);
}

fn batch_norm(opset: i64, outputs: &[&str], attributes: Vec<AttributeProto>) -> Model {
    model(opset)
        .input("x", &[2, 1, 1, 2])
        .floats("scale", &[1], &[2.0])
        .floats("shift", &[1], &[1.0])
        .floats("mean", &[1], &[10.0])
        .floats("var", &[1], &[4.0])
        .node_with(
            "BatchNormalization",
            &["x", "scale", "shift", "mean", "var"],
            outputs,
            [attributes, vec![AttributeProto::float("epsilon", 0.0)]].concat(),
        )
        .output("y")
}

/// Mean 2.5, population variance 1.25.
const BATCH: [f32; 4] = [1.0, 2.0, 3.0, 4.0];

fn step(m: &Model, options: &ImportOptions) -> (Vec<f32>, Vec<f32>) {
    let imported = m.import_with(options);
    let mut interpreter = Interpreter::new(&imported.graph);
    let y = interpreter
        .step(&[Tensor::f32([2, 1, 1, 2], BATCH.to_vec())], &RunContext::default())
        .unwrap_or_else(|e| panic!("{e}"));
    let statistics = interpreter.parameters()[2..].iter().map(|t| t.as_f32()[0]).collect();
    (y[0].as_f32().to_vec(), statistics)
}

fn close(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() < 1e-5, "{found:?} instead of {expected:?}");
    }
}

#[test]
fn batch_norm_in_training_form_normalizes_by_the_batch_and_moves_its_statistics() {
    let by_batch: Vec<f32> = BATCH.iter().map(|x| (x - 2.5) / 1.25f32.sqrt() * 2.0 + 1.0).collect();
    let by_running: Vec<f32> = BATCH.iter().map(|x| (x - 10.0) / 2.0 * 2.0 + 1.0).collect();
    let moved = [10.0 * 0.75 + 2.5 * 0.25, 4.0 * 0.75 + 1.25 * 0.25];
    let momentum = || AttributeProto::float("momentum", 0.75);
    let training = batch_norm(15, &["y", "m", "v"], vec![int("training_mode", 1), momentum()]);
    let one_result = batch_norm(14, &["y"], vec![int("training_mode", 1), momentum()]);
    let old = batch_norm(9, &["y", "m", "v", "sm", "sv"], vec![momentum()]);
    let inference = batch_norm(13, &["y"], vec![momentum()]);
    let default = ImportOptions::default();
    for m in [&training, &one_result, &old] {
        let (y, statistics) = step(m, &default);
        close(&y, &by_batch);
        close(&statistics, &moved);
        let frozen = ImportOptions { batch_norm: BatchNormMode::Frozen, ..default.clone() };
        let (y, statistics) = step(m, &frozen);
        close(&y, &by_running);
        close(&statistics, &[10.0, 4.0]);
    }
    let (y, statistics) = step(&inference, &default);
    close(&y, &by_running);
    close(&statistics, &[10.0, 4.0]);
    let asked = ImportOptions { batch_norm: BatchNormMode::Training, ..default };
    let (y, statistics) = step(&inference, &asked);
    close(&y, &by_batch);
    close(&statistics, &moved);
}

#[test]
fn statistics_of_a_module_used_twice_move_twice() {
    let m = batch_norm(
        15,
        &["t"],
        vec![int("training_mode", 1), AttributeProto::float("momentum", 0.5)],
    );
    let m = m.node_with(
        "BatchNormalization",
        &["x", "scale", "shift", "mean", "var"],
        &["y"],
        vec![int("training_mode", 1), AttributeProto::float("momentum", 0.5)],
    );
    let m = Model { opset: 15, ..m }.output("t");
    let (_, statistics) = step(&m, &ImportOptions::default());
    close(&statistics, &[(10.0 * 0.5 + 1.25) * 0.5 + 1.25, (4.0 * 0.5 + 0.625) * 0.5 + 0.625]);
    let shared = m.import().warnings.iter().filter(|w| w.kind == WarningKind::Shared).count();
    assert_eq!(shared, 4);
}

#[test]
fn dropouts_have_streams_of_their_own_and_can_be_off() {
    let m = model(13)
        .input("x", &[1, 64])
        .floats("ratio", &[], &[0.5])
        .tensor(TensorProto {
            name: "training".into(),
            data_type: data_type::BOOL,
            int32_data: vec![1],
            ..TensorProto::default()
        })
        .node("Dropout", &["x", "ratio", "training"], &["a"])
        .node("Dropout", &["x", "ratio", "training"], &["b"])
        .output("a")
        .output("b");
    let x = Tensor::f32([1, 64], vec![1.0; 64]);
    let outputs = run(&m.import().graph, std::slice::from_ref(&x));
    assert!(outputs[0].as_f32().iter().all(|&v| v == 0.0 || v == 2.0));
    assert_ne!(outputs[0], outputs[1]);
    let off = ImportOptions { dropout: DropoutMode::Off, ..ImportOptions::default() };
    assert_eq!(run(&m.import_with(&off).graph, std::slice::from_ref(&x))[0], x);
}

#[test]
fn losses_say_what_they_are_given() {
    let loss = net().import().loss.expect("a loss");
    assert_eq!((loss.output.as_str(), loss.scores_output.as_deref()), ("loss", Some("logits")));
    assert_eq!(loss.form, LossForm::SoftmaxCrossEntropy);
    let m = model(13)
        .input("x", &[2, 3])
        .typed_input("labels", data_type::INT32, &[2])
        .node("LogSoftmax", &["x"], &["log"])
        .node("NegativeLogLikelihoodLoss", &["log", "labels"], &["loss"])
        .output("loss");
    let imported = m.import();
    let loss = imported.loss.expect("a loss");
    assert_eq!((loss.form, loss.scores_output), (LossForm::NegativeLogLikelihood, None));
    // Two rows of three equal scores: log 3.
    let inputs = [Tensor::f32([2, 3], vec![0.0; 6]), Tensor::i32([2], vec![0, 2])];
    close(run(&imported.graph, &inputs)[0].as_f32(), &[3f32.ln()]);
}

fn int8(name: &str, dims: &[i64], values: &[i8]) -> TensorProto {
    TensorProto {
        name: name.into(),
        dims: dims.to_vec(),
        data_type: data_type::INT8,
        raw_data: Some(values.iter().map(|&v| v as u8).collect()),
        ..TensorProto::default()
    }
}

#[test]
fn integer_weights_become_parameters_of_their_fp32_values() {
    let m = model(13)
        .input("x", &[1, 2])
        .tensor(int8("w", &[2, 2], &[1, 2, 3, -128]))
        .floats("scale", &[2], &[0.5, 0.25])
        .tensor(int8("zero", &[2], &[0, 1]))
        .node_with("DequantizeLinear", &["w", "scale", "zero"], &["wf"], vec![int("axis", 1)])
        .node("MatMul", &["x", "wf"], &["y"])
        .output("y");
    let imported = m.import();
    assert_eq!(parameter_names(&imported.graph, true), ["w"]);
    assert_eq!(imported.warnings[0].kind, WarningKind::IntegerWeights);
    let initial = imported.graph.parameters()[0].initial.clone();
    assert_eq!(initial.as_f32(), [0.5, 0.25, 1.5, -32.25]);
    assert_eq!(run_one(&m, &[1, 2], &[1.0, 1.0]).1, [2.0, -32.0]);
}

#[test]
fn fewer_bits_by_clipping_quantized_values() {
    // Four bits: quantized values are clipped to -8..=7.
    let m = model(13)
        .input("x", &[6])
        .floats("scale", &[], &[0.3])
        .tensor(int8("zero", &[], &[1]))
        .tensor(int8("low", &[], &[-8]))
        .tensor(int8("high", &[], &[7]))
        .node("QuantizeLinear", &["x", "scale", "zero"], &["q"])
        .node("Clip", &["q", "low", "high"], &["c"])
        .node("DequantizeLinear", &["c", "scale", "zero"], &["y"])
        .output("c")
        .output("y");
    let imported = m.import();
    let x = [-9.0, -2.7, -2.5, 0.14, 1.8, 30.0];
    let outputs = run(&imported.graph, &[Tensor::f32([6], x.to_vec())]);
    assert_eq!(outputs[0].ty().element, Element::I8);
    // round(x / 0.3) + 1, then clipped.
    assert_eq!(outputs[0].to_i64(), [-8, -8, -7, 1, 7, 7]);
    close(outputs[1].as_f32(), &[-2.7, -2.7, -2.4, 0.0, 1.8, 1.8]);
}

#[test]
fn a_bias_of_zeros_computed_by_the_exporter_is_no_operation() {
    let m = model(18)
        .input("x", &[1, 1, 2, 2])
        .floats("w", &[2, 1, 1, 1], &[1.0, 2.0])
        .floats("zero", &[], &[0.0])
        .ints("one", &[1], &[1])
        .node_with("Shape", &["w"], &["s"], vec![int("start", 0), int("end", 1)])
        .node("CastLike", &["zero", "x"], &["z"])
        .node("Expand", &["z", "s"], &["bias"])
        .node("Conv", &["x", "w", "bias"], &["y"])
        .output("y");
    let imported = m.import();
    let kinds: Vec<OpKind> = imported.graph.nodes().iter().map(|n| n.op.kind()).collect();
    assert_eq!(kinds, [OpKind::Conv2d]);
}

#[test]
fn a_constant_index_into_a_run_time_value_is_a_slice() {
    let at = |dims: &[usize], indices: &[i64]| {
        let m = model(13)
            .input("x", &[1, 4])
            .ints("i", dims, indices)
            .node_with("Gather", &["x", "i"], &["y"], vec![int("axis", 1)])
            .output("y");
        run_one(&m, &[1, 4], &[0.0, 1.0, 2.0, 3.0])
    };
    assert_eq!(at(&[], &[-1]), (vec![1], vec![3.0]));
    assert_eq!(at(&[2, 2], &[3, 1, 1, 0]), (vec![1, 2, 2], vec![3.0, 1.0, 1.0, 0.0]));
    assert_eq!(at(&[3], &[0, 2, 3]), (vec![1, 3], vec![0.0, 2.0, 3.0]));
}

#[test]
fn values_and_nodes_keep_the_names_of_the_model() {
    let imported = net().import();
    let graph = &imported.graph;
    let logits = graph.outputs()[0].value;
    assert_eq!(graph.value(logits).name, "logits");
    assert_eq!(graph.producer(logits).map(|n| n.name.as_str()), Some("node_logits"));
    assert!(graph.nodes().iter().any(|n| n.name == "node_c/product"));
}

#[test]
fn empty_lists_fold() {
    // The reverse of nothing, and then one size: exporters compute shapes so.
    let m = model(13)
        .input("x", &[2, 3])
        .ints("none", &[0], &[])
        .ints("last", &[1], &[-1])
        .ints("before", &[1], &[i64::MIN])
        .ints("axes", &[1], &[0])
        .ints("six", &[1], &[6])
        .node("Slice", &["none", "last", "before", "axes", "last"], &["reversed"])
        .node_with("Concat", &["reversed", "six"], &["shape"], vec![int("axis", 0)])
        .node("Reshape", &["x", "shape"], &["y"])
        .output("y");
    assert_eq!(run_one(&m, &[2, 3], &[1.0; 6]).0, [6]);
}
