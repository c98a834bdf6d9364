//! What is not supported and what is wrong, in clear words and in bounded memory.

mod common;

use common::*;
use trainc_onnx_import::proto::*;
use trainc_onnx_import::{
    ExternalLocation, FIRST_OPSET, ImportErrorKind, ImportOptions, LAST_OPSET, check_bytes,
    import_bytes, import_path, limits, supported_ops, supported_ops_table,
};

fn relu(opset: i64) -> Model {
    model(opset).input("x", &[1, 2]).node("Relu", &["x"], &["y"]).output("y")
}

#[test]
fn everything_unsupported_is_listed_at_once() {
    let m = model(17)
        .input("x", &[1, 3, 4, 4])
        .node("NonZero", &["x"], &["a"])
        .node_with(
            "MaxPool",
            &["a"],
            &["b"],
            vec![ints("kernel_shape", &[2, 2]), int("spatial", 1)],
        )
        .node_with("Pad", &["x", "p"], &["c"], vec![AttributeProto::string("mode", "reflect")])
        .node("Gelu", &["x"], &["d"])
        .ints("p", &[8], &[0; 8])
        .node("Mean", &["b", "c", "d"], &["y"])
        .output("y");
    let found: Vec<(String, String, String)> =
        m.unsupported().into_iter().map(|u| (u.node, u.op, u.what)).collect();
    let expected = [
        ("node_a", "NonZero", "operator"),
        ("node_b", "MaxPool", "attribute `spatial`"),
        ("node_c", "Pad", "attribute `mode`"),
        ("node_d", "Gelu", "opset"),
    ];
    let expected = expected.map(|(a, b, c)| (a.to_string(), b.to_string(), c.to_string()));
    assert_eq!(found, expected);
    let text = m.message();
    assert!(
        text.contains("node `node_c` (Pad): attribute `mode`: mode `reflect`; supported: constant")
    );
    let report = check_bytes(&m.bytes(), &no_files);
    assert_eq!(report.unsupported.len(), 4);
    assert_eq!(report.operators["MaxPool"], 1);
    assert!(!report.imports);
}

#[test]
fn operators_of_other_domains_are_named_with_it() {
    let mut m = relu(13);
    m.graph.node[0].domain = "com.example".into();
    assert_eq!(m.unsupported()[0].op, "com.example.Relu");
}

#[test]
fn unnamed_nodes_are_named_by_operator_and_position() {
    let mut m = relu(13);
    m.graph.node[0].op_type = "NonZero".into();
    m.graph.node[0].name.clear();
    assert_eq!(m.unsupported()[0].node, "NonZero_0");
}

#[test]
fn a_check_lists_operators_even_if_an_input_stands_in_the_way() {
    let m = model(13).input("x", &[1, 0]).node("NonZero", &["x"], &["y"]).output("y");
    let report = check_bytes(&m.bytes(), &no_files);
    assert_eq!(report.unsupported.len(), 1);
    assert!(matches!(
        report.error.map(|e| e.kind),
        Some(ImportErrorKind::DynamicShape { dimension: 1, .. })
    ));
}

#[test]
fn operator_sets_outside_the_range_are_refused() {
    for opset in [FIRST_OPSET - 1, LAST_OPSET + 1, -1, i64::MAX] {
        assert!(
            matches!(relu(opset).error(), ImportErrorKind::Opset { found, .. } if found == opset)
        );
    }
    relu(FIRST_OPSET).import();
    relu(LAST_OPSET).import();
}

#[test]
fn graphs_that_do_not_hang_together_are_refused() {
    let missing = model(13).input("x", &[1]).node("Add", &["x", "z"], &["y"]).output("y");
    assert_eq!(missing.message(), "node `node_y` (Add): uses `z`, which nothing defines");
    let error = missing.try_import(&ImportOptions::default()).expect_err("no model");
    assert_eq!(error.node(), Some("node_y"));
    let cyclic = model(13)
        .input("x", &[1])
        .node("Add", &["x", "b"], &["a"])
        .node("Relu", &["a"], &["b"])
        .output("b");
    assert!(cyclic.message().contains("cyclic or not sorted"), "{}", cyclic.message());
    let itself = model(13).input("x", &[1]).node("Add", &["x", "a"], &["a"]).output("a");
    assert!(itself.message().contains("cyclic"), "{}", itself.message());
    let twice = relu(13).node("Neg", &["x"], &["y"]);
    assert!(twice.message().contains("defines `y`, which is already defined"));
    let weights_twice = relu(13).floats("w", &[1], &[1.0]).floats("w", &[1], &[1.0]);
    assert!(weights_twice.message().contains("initializer `w`: is defined twice"));
    let inputs_twice = relu(13).input("x", &[1]);
    assert!(inputs_twice.message().contains("input `x`: is defined twice"));
    let no_output = model(13).input("x", &[1]).node("Relu", &["x"], &["y"]).output("z");
    assert!(no_output.message().contains("output `z`: nothing defines it"));
    let none = model(13).input("x", &[1]);
    assert!(none.message().contains("no output"));
    assert!(matches!(
        import_bytes(&[], &no_files, &ImportOptions::default()).map_err(|e| e.kind),
        Err(ImportErrorKind::NotOnnx(_))
    ));
}

#[test]
fn wrong_types_and_shapes_are_refused() {
    let doubles = model(13)
        .typed_input("x", data_type::DOUBLE, &[1])
        .node("Relu", &["x"], &["y"])
        .output("y");
    assert!(doubles.message().contains("input `x`: element type DOUBLE"), "{}", doubles.message());
    let integers = relu(13).ints("k", &[2], &[1, 2]);
    let mut mixed = integers.clone();
    mixed.graph.node[0] = NodeProto::new("Add", "sum", &["x", "k"], &["y"]);
    assert!(mixed.message().contains("operand `k`: element type i32"), "{}", mixed.message());
    let shapes = model(13)
        .input("x", &[1, 2])
        .floats("w", &[3, 4], &[0.0; 12])
        .node("MatMul", &["x", "w"], &["y"])
        .output("y");
    assert!(shapes.message().starts_with("node `node_y` (MatMul): "), "{}", shapes.message());
    let wrong_attribute = model(13)
        .input("x", &[1, 2])
        .node_with("Flatten", &["x"], &["y"], vec![AttributeProto::float("axis", 1.0)])
        .output("y");
    assert!(wrong_attribute.message().contains("attribute `axis` has a wrong type"));
    let run_time_shape =
        model(13).input("x", &[1, 2]).node("Reshape", &["x", "x"], &["y"]).output("y");
    assert!(run_time_shape.message().contains("shape computed at run time"));
    let three_d = model(13)
        .input("x", &[1, 2, 8, 2, 2])
        .floats("w", &[2, 2, 3, 1, 1], &[0.0; 12])
        .node("Conv", &["x", "w"], &["y"])
        .output("y");
    assert!(three_d.message().contains("5 dimensions; supported: 3"), "{}", three_d.message());
}

fn tensor(dims: &[i64], bytes: usize) -> TensorProto {
    TensorProto {
        name: "w".into(),
        dims: dims.to_vec(),
        data_type: data_type::FLOAT,
        raw_data: Some(vec![0; bytes]),
        ..TensorProto::default()
    }
}

#[test]
fn claims_without_the_data_are_refused() {
    let with = |tensor: TensorProto| {
        model(13).input("x", &[1]).tensor(tensor).node("Add", &["x", "w"], &["y"]).output("y")
    };
    for dims in [
        &[1 << 29][..],
        &[1 << 20, 1 << 20],
        &[i64::MAX, 2],
        &[i64::MAX, i64::MAX, 0],
        &[-1],
        &[1; 40],
        &[3],
    ] {
        let m = with(tensor(dims, 8));
        assert!(m.message().starts_with("initializer `w`: "), "{}", m.message());
    }
    with(tensor(&[2], 8)).import();
    // Inputs need no data; they still may not be of any size.
    let huge = model(13).input("x", &[1 << 20, 1 << 20]).node("Relu", &["x"], &["y"]).output("y");
    assert!(huge.message().contains("more than 2147483647 elements"), "{}", huge.message());
    // What is folded is limited.
    let folded = model(13)
        .input("x", &[1])
        .ints("s", &[2], &[1 << 15, 1 << 15])
        .node("ConstantOfShape", &["s"], &["big"])
        .node("Add", &["x", "big"], &["y"])
        .output("y");
    assert!(folded.message().contains("computed while importing"), "{}", folded.message());
    let many = (0..40).fold(model(13).input("x", &[1]).ints("s", &[1], &[1 << 22]), |m, i| {
        let (a, b) = (format!("big{i}"), format!("n{i}"));
        m.node("ConstantOfShape", &["s"], &[&a]).node("Size", &[&a], &[&b]).output(&b)
    });
    assert!(many.message().contains("computed while importing"), "{}", many.message());
    // Nor do copies of one large tensor add up.
    let values = vec![0.0; 1 << 20];
    let start = model(13).input("x", &[1]).floats("w", &[1 << 20], &values);
    let copies = (0..200).fold(start, |m, i| {
        let (a, b) = (format!("w{i}"), format!("y{i}"));
        m.node("Identity", &["w"], &[&a]).node("Add", &["x", &a], &[&b]).output(&b)
    });
    assert!(copies.message().contains("copied parameters"), "{}", copies.message());
    // Growth by broadcasting is checked, too.
    let grown = model(13)
        .input("x", &[1 << 20, 1])
        .input("z", &[1, 1 << 20])
        .node("Add", &["x", "z"], &["y"])
        .output("y");
    assert!(grown.message().contains("at most 2147483647 elements"), "{}", grown.message());
}

#[test]
fn windows_of_any_size_do_not_overflow() {
    for (name, values) in [
        ("strides", [i64::MAX, 1]),
        ("dilations", [i64::MAX, i64::MAX]),
        ("strides", [0, 0]),
        ("dilations", [-1, 1]),
        ("kernel_shape", [i64::MAX, i64::MAX]),
        ("kernel_shape", [0, 0]),
    ] {
        let mut attributes = vec![ints(name, &values)];
        if name != "kernel_shape" {
            attributes.push(ints("kernel_shape", &[2, 2]));
        }
        for op in ["MaxPool", "AveragePool"] {
            let m = model(19)
                .input("x", &[1, 1, 4, 4])
                .node_with(op, &["x"], &["y"], attributes.clone())
                .output("y");
            assert!(m.message().contains("node_y"), "{name} {values:?}");
        }
    }
    let m = model(13)
        .input("x", &[1, 1, 4, 4])
        .floats("w", &[1, 1, 1, 1], &[1.0])
        .node_with("Conv", &["x", "w"], &["y"], vec![ints("pads", &[i64::MAX, -1, 0, 0])])
        .output("y");
    assert!(m.message().contains("`pads`"));
}

#[test]
fn messages_by_the_million_are_refused_before_they_are_built() {
    // Empty nodes: two bytes each on the wire.
    let nodes = [0x0a, 0x00].repeat(limits::MAX_MESSAGES + 1);
    let mut bytes = vec![0x3a];
    prost::encoding::encode_varint(nodes.len() as u64, &mut bytes);
    bytes.extend(nodes);
    let kind = import_bytes(&bytes, &no_files, &ImportOptions::default()).map_err(|e| e.kind);
    assert!(matches!(kind, Err(ImportErrorKind::Limit(_))), "{kind:?}");
    // Graphs within graphs.
    let mut inner = GraphProto::default();
    for _ in 0..2 * limits::MAX_DEPTH {
        let attribute = AttributeProto { g: Some(Box::new(inner)), ..AttributeProto::default() };
        let node = NodeProto { attribute: vec![attribute], ..NodeProto::default() };
        inner = GraphProto { node: vec![node], ..GraphProto::default() };
    }
    let bytes = ModelProto { graph: Some(inner), ..ModelProto::default() }.encode_to_vec();
    let kind = import_bytes(&bytes, &no_files, &ImportOptions::default()).map_err(|e| e.kind);
    assert!(matches!(kind, Err(ImportErrorKind::Limit(_))), "{kind:?}");
}

fn external(location: &str, offset: &str, length: &str) -> Model {
    let entry =
        |key: &str, value: &str| StringStringEntryProto { key: key.into(), value: value.into() };
    let w = TensorProto {
        raw_data: None,
        data_location: Some(data_location::EXTERNAL),
        external_data: vec![
            entry("location", location),
            entry("offset", offset),
            entry("length", length),
        ],
        ..tensor(&[2], 0)
    };
    model(13).input("x", &[1]).tensor(w).node("Add", &["x", "w"], &["y"]).output("y")
}

#[test]
fn external_data_stay_in_the_models_folder() {
    let root = std::env::temp_dir().join(format!("trainc-external-{}", std::process::id()));
    let folder = root.join("model");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(root.join("secret.bin"), [0; 8]).expect("a file");
    let data: Vec<u8> = [9.0f32, 1.0, 2.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    std::fs::write(folder.join("w.bin"), data).expect("a file");
    let at = |m: &Model| {
        let path = folder.join("model.onnx");
        std::fs::write(&path, m.bytes()).expect("a file");
        import_path(&path, &ImportOptions::default())
    };
    let imported = at(&external("w.bin", "4", "8")).expect("a model");
    assert_eq!(imported.graph.parameters()[0].initial.as_f32(), [1.0, 2.0]);
    let absolute = root.join("secret.bin").to_string_lossy().into_owned();
    let mut escapes = vec!["../secret.bin", "./../secret.bin", "..", "", &absolute, "a\\..\\b"];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(root.join("secret.bin"), folder.join("link")).expect("a link");
        escapes.push("link");
    }
    for location in escapes {
        let error = at(&external(location, "0", "8")).expect_err(location).to_string();
        assert!(error.contains("leaves the model's folder"), "{location}: {error}");
        assert!(error.contains("model.onnx"), "{error}");
    }
    for (location, offset, length) in [
        ("w.bin", "8", "8"),
        ("w.bin", "18446744073709551615", "8"),
        ("w.bin", "0", "4"),
        ("w.bin", "-1", "8"),
        ("missing.bin", "0", "8"),
        (".", "0", "8"),
    ] {
        let error = at(&external(location, offset, length)).expect_err(location).to_string();
        assert!(error.contains("initializer `w`: "), "{error}");
    }
    let folder_error = import_path(&folder, &ImportOptions::default()).expect_err("a folder");
    assert!(matches!(folder_error.kind, ImportErrorKind::Read(_)), "{folder_error}");
    std::fs::remove_dir_all(&root).expect("removed");
}

#[test]
fn a_reader_that_gives_the_wrong_number_of_bytes_is_an_error() {
    let short = |_: &ExternalLocation| Ok(vec![0; 7]);
    let m = external("w.bin", "0", "8");
    assert!(import_bytes(&m.bytes(), &short, &ImportOptions::default()).is_err());
}

#[test]
fn the_table_of_operators_is_complete_and_in_order() {
    let ops: Vec<&str> = supported_ops().map(|op| op.op).collect();
    assert!(ops.is_sorted());
    for op in ["Conv", "Gemm", "BatchNormalization", "SoftmaxCrossEntropyLoss", "QuantizeLinear"] {
        assert!(ops.contains(&op));
    }
    assert_eq!(supported_ops_table().lines().count(), ops.len() + 2);
}

#[test]
fn attributes_given_twice_are_refused() {
    let conv = |attributes: Vec<AttributeProto>| {
        model(13)
            .input("x", &[1, 1, 4, 4])
            .floats("w", &[1, 1, 2, 2], &[1.0; 4])
            .node_with("Conv", &["x", "w"], &["y"], attributes)
            .output("y")
    };
    conv(vec![ints("strides", &[2, 2])]).import();
    for second in [[2, 2], [1, 1]] {
        let twice = conv(vec![ints("strides", &[2, 2]), int("group", 1), ints("strides", &second)]);
        assert_eq!(twice.message(), "node `node_y` (Conv): attribute `strides` is given twice");
    }
}

#[test]
fn more_operands_or_results_than_the_operator_has_are_refused() {
    let node = |opset: i64, op: &str, inputs: &[&str], outputs: &[&str]| {
        model(opset).input("x", &[1, 2]).node(op, inputs, outputs).output("y")
    };
    let message = |m: Model| m.message();
    assert_eq!(
        message(node(13, "Relu", &["x", "x"], &["y"])),
        "node `node_y` (Relu): 2 operands, but Relu has at most 1"
    );
    // An absent one counts: its name is there.
    assert!(message(node(13, "Relu", &["x", ""], &["y"])).contains("at most 1"));
    assert!(message(node(13, "Add", &["x", "x", "x"], &["y"])).contains("at most 2"));
    assert_eq!(
        message(node(13, "Relu", &["x"], &["y", "z"])),
        "node `node_y` (Relu): 2 results, but Relu has at most 1"
    );
    // Bounds became operands in operator set 11.
    assert!(message(node(10, "Clip", &["x", "", ""], &["y"])).contains("at most 1"));
    node(11, "Clip", &["x", "", ""], &["y"]).import();
    node(13, "Max", &["x"; 40], &["y"]).import();
    node(13, "Split", &["x"], &["y", "z"]).import();
    let quant = node(13, "Quant", &["x", "x", "x", "x", "x"], &["y"]);
    let mut quant = quant;
    quant.graph.node[0].domain = "qonnx.custom_op.general".into();
    assert!(quant.message().contains("at most 4"), "{}", quant.message());
}

#[test]
fn automatic_and_explicit_padding_exclude_each_other() {
    let window = |op: &str, auto: &str, pads: &[i64]| {
        let attributes =
            vec![ints("kernel_shape", &[3, 3]), string("auto_pad", auto), ints("pads", pads)];
        model(13)
            .input("x", &[1, 1, 4, 4])
            .floats("w", &[1, 1, 3, 3], &[1.0; 9])
            .node_with(op, if op == "Conv" { &["x", "w"] } else { &["x"] }, &["y"], attributes)
            .output("y")
    };
    for op in ["Conv", "MaxPool", "AveragePool"] {
        window(op, "NOTSET", &[1, 1, 1, 1]).import();
        for auto in ["VALID", "SAME_UPPER", "SAME_LOWER"] {
            let message = window(op, auto, &[1, 1, 1, 1]).message();
            assert_eq!(
                message,
                format!(
                    "node `node_y` ({op}): `auto_pad` {auto} together with `pads` [1, 1, 1, 1]"
                )
            );
            // onnxruntime lets zeros pass in pools alone.
            let zeros = window(op, auto, &[0; 4]).try_import(&ImportOptions::default());
            assert_eq!(zeros.is_err(), op == "Conv", "{op} {auto}");
        }
    }
}

#[test]
fn sparse_initializers_are_named_not_ignored() {
    let sparse = |name: &str, m: Model| {
        let values = TensorProto::f32(name, &[1], &[2.0]);
        let mut m = m;
        m.graph.sparse_initializer.push(SparseTensorProto { values: Some(values) });
        m
    };
    let used = sparse("w", model(13).input("x", &[1]).node("Add", &["x", "w"], &["y"]).output("y"));
    assert_eq!(
        used.message(),
        "sparse initializer `w`: sparse tensors are not supported; store it as a dense initializer"
    );
    for (name, m) in
        [("w", relu(13).floats("w", &[1], &[1.0])), ("x", relu(13)), ("s", sparse("s", relu(13)))]
    {
        let message = sparse(name, m).message();
        assert_eq!(message, format!("sparse initializer `{name}`: is defined twice"));
    }
    let result = sparse("y", relu(13)).message();
    assert!(result.contains("defines `y`, which is already defined"), "{result}");
    sparse("unused", relu(13)).import();
}

#[test]
fn models_in_other_formats_are_named() {
    // The first bytes of a file of each.
    let cases: [(&[u8], &str); 2] = [
        (b"\x20\0\0\0ORTM\0\0\0\0", "ONNX Runtime's own format (.ort)"),
        (b"PK\x03\x04\0\0\0\0\0\0", "a zip archive, as torch.save and Keras write them"),
    ];
    for (bytes, words) in cases {
        let error = import_bytes(bytes, &no_files, &ImportOptions::default()).expect_err(words);
        assert!(matches!(error.kind, ImportErrorKind::NotOnnx(_)));
        let message = error.to_string();
        assert!(message.contains(words) && message.lines().count() == 1, "{message}");
        let report = check_bytes(bytes, &no_files);
        assert!(!report.imports && report.error.is_some_and(|e| e.to_string() == message));
    }
}

#[test]
fn training_graphs_of_onnx_runtime_are_named() {
    let graph = |domain: &str, op: &str| {
        let mut m = model(17)
            .input("x", &[1, 2])
            .typed_input("lazy_reset_grad", data_type::BOOL, &[1])
            .node("Relu", &["x"], &["h"])
            .node("NonZero", &["h"], &["e"])
            .node(op, &["e", "lazy_reset_grad"], &["y"])
            .output("y");
        m.graph.node[2].domain = domain.into();
        m
    };
    for (domain, op) in [
        ("com.microsoft", "ReluGrad"),
        ("com.microsoft", "InPlaceAccumulatorV2"),
        ("com.microsoft", "SGDOptimizerV2"),
        ("com.microsoft", "AdamWOptimizer"),
        ("ai.onnx.preview.training", "Momentum"),
    ] {
        let m = graph(domain, op);
        let message = m.message();
        let start = format!("node `node_y` ({domain}.{op}): this is a training graph");
        assert!(message.starts_with(&start) && message.lines().count() == 1, "{message}");
        let report = check_bytes(&m.bytes(), &no_files);
        assert_eq!(report.unsupported, [], "one line, not a list of operators");
        assert_eq!(
            report.error.and_then(|e| e.node().map(str::to_string)).as_deref(),
            Some("node_y")
        );
    }
    // Other operators of that domain are unsupported operators.
    assert!(!graph("com.microsoft", "FusedConv").message().contains("training graph"));
}
