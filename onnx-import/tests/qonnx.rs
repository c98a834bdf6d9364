//! QONNX's operators, and ONNX's quantization to fewer bits than eight. What the operators compute for whole networks
//! is compared with the qonnx package's own execution in tests/tests/brevitas.rs.

mod common;

use common::*;
use trainc_ir::ops::{Quant, Rounding};
use trainc_ir::{Element, Op, OpKind, Tensor};
use trainc_onnx_import::proto::{AttributeProto, TensorProto, data_type};
use trainc_onnx_import::{Imported, WarningKind, supported_qonnx_ops};

fn attributes(signed: i64, narrow: i64, mode: &str) -> Vec<AttributeProto> {
    vec![int("signed", signed), int("narrow", narrow), string("rounding_mode", mode)]
}

/// `y = Quant(x)` with these bits.
fn quant(bits: &[f32], attributes: Vec<AttributeProto>) -> Model {
    model(17)
        .input("x", &[2, 3])
        .floats("scale", &[2, 1], &[0.5, 0.25])
        .floats("zero", &[], &[0.0])
        .floats("bits", if bits.len() == 1 { &[] } else { &[2] }, bits)
        .qonnx("Quant", &["x", "scale", "zero", "bits"], &["y"], attributes)
        .output("y")
}

fn only_op(model: &Model) -> Op {
    let nodes = model.import().graph.nodes().to_vec();
    assert_eq!(nodes.len(), 1);
    nodes[0].op.clone()
}

#[test]
fn quant_keeps_its_grid() {
    let m = quant(&[3.0], attributes(1, 1, "ROUND"));
    let op = Quant { signed: true, narrow: true, rounding: Rounding::HalfEven, bits: 3 };
    assert_eq!(only_op(&m), op.into());
    // qonnx 1.0.0: scale 0.5 and 0.25, integers -3 to 3.
    let x = [-2.0, -0.25, 0.75, 0.6, 0.125, 0.375];
    assert_eq!(run_one(&m, &[2, 3], &x).1, [-1.5, -0.0, 1.0, 0.5, 0.0, 0.5]);
}

#[test]
fn rounding_modes_have_any_case_and_a_default() {
    for (mode, rounding) in [
        ("ROUND", Rounding::HalfEven),
        ("half_even", Rounding::HalfEven),
        ("HALF_UP", Rounding::HalfUp),
        ("Half_Down", Rounding::HalfDown),
        ("UP", Rounding::Up),
        ("DOWN", Rounding::Down),
        ("round_to_zero", Rounding::Down),
        ("ceil", Rounding::Ceil),
        ("floor", Rounding::Floor),
    ] {
        let Op::Quant(op) = only_op(&quant(&[8.0], attributes(0, 0, mode))) else {
            panic!("not a quant");
        };
        assert_eq!(op, Quant { signed: false, narrow: false, rounding, bits: 8 }, "{mode}");
    }
    let without = quant(&[8.0], vec![int("signed", 0), int("narrow", 0)]);
    let Op::Quant(op) = only_op(&without) else { panic!("not a quant") };
    assert_eq!(op.rounding, Rounding::HalfEven);
    let stochastic = quant(&[8.0], attributes(0, 0, "STOCHASTIC_ROUND")).unsupported();
    assert_eq!(stochastic[0].what, "attribute `rounding_mode`");
    assert_eq!(stochastic[0].node, "node_y");
    assert_eq!(stochastic[0].op, "Quant");
}

#[test]
fn older_domains_and_the_other_name_of_quant() {
    for domain in ["onnx.brevitas", "finn.custom_op.general", "qonnx.custom_op.general"] {
        for op in ["Quant", "IntQuant"] {
            let mut m = quant(&[4.0], attributes(1, 0, "ROUND"));
            m.graph.node[0].domain = domain.into();
            m.graph.node[0].op_type = op.into();
            assert_eq!(only_op(&m).kind(), OpKind::Quant);
        }
    }
    // ONNX itself has no such operator, and other domains may mean anything by it.
    for domain in ["", "ai.onnx", "com.example"] {
        let mut m = quant(&[4.0], attributes(1, 0, "ROUND"));
        m.graph.node[0].domain = domain.into();
        assert_eq!(m.unsupported()[0].what, "operator", "{domain}");
    }
    let mut m = quant(&[4.0], attributes(1, 0, "ROUND"));
    m.graph.node[0].op_type = "FloatQuant".into();
    assert_eq!(m.unsupported()[0].reason, "is not supported");
}

#[test]
fn bits_are_whole_known_and_few() {
    for (bits, text) in [(2.5, "2.5 bits"), (0.0, "0 bits"), (33.0, "33 bits"), (-4.0, "-4 bits")] {
        let found = quant(&[bits], attributes(1, 0, "ROUND")).unsupported();
        assert_eq!(found[0].what, "operand `bits`");
        assert_eq!(found[0].reason, text);
    }
    assert!(quant(&[f32::NAN], attributes(1, 0, "ROUND")).unsupported()[0].reason.contains("NaN"));
    let many = quant(&[4.0, 4.0], attributes(1, 0, "ROUND"));
    assert!(many.message().contains("a number of bits of shape [2]"), "{}", many.message());
    let open = model(17)
        .input("x", &[2])
        .input("bits", &[])
        .floats("one", &[], &[1.0])
        .qonnx("Quant", &["x", "one", "one", "bits"], &["y"], attributes(1, 0, "ROUND"))
        .output("y");
    assert!(open.unsupported()[0].reason.contains("a number of bits computed at run time"));
}

#[test]
fn broken_quantizers_are_refused() {
    let missing = quant(&[4.0], vec![int("signed", 1)]);
    assert!(missing.message().contains("attribute `narrow` is missing"), "{}", missing.message());
    let flag = quant(&[4.0], attributes(2, 0, "ROUND"));
    assert!(flag.message().contains("`signed` is 2"), "{}", flag.message());
    let m = |scale: &[usize]| {
        let values = vec![1.0; scale.iter().product()];
        model(17)
            .input("x", &[2, 3])
            .floats("scale", scale, &values)
            .floats("one", &[], &[1.0])
            .qonnx("BipolarQuant", &["x", "scale"], &["y"], vec![])
            .output("y")
    };
    for scale in [&[2][..], &[4, 1], &[2, 2, 3]] {
        let text = m(scale).message();
        assert!(text.contains("node_y") && text.contains("does not broadcast"), "{text}");
    }
    // One element fits whatever its rank.
    m(&[1, 1, 1, 1]).import();
    let few = model(17)
        .input("x", &[2])
        .floats("one", &[], &[1.0])
        .qonnx("Trunc", &["x", "one", "one", "one"], &["y"], vec![])
        .output("y");
    assert!(few.message().contains("4 operand(s)"), "{}", few.message());
}

#[test]
fn quantized_weights_are_parameters_and_keep_their_quantizer() {
    let m = model(17)
        .input("x", &[1, 2])
        .floats("w", &[2, 2], &[0.6, -0.1, 3.0, 0.24])
        .floats("scale", &[1, 2], &[0.5, 0.25])
        .floats("zero", &[], &[0.0])
        .floats("bits", &[], &[2.0])
        .qonnx("Quant", &["w", "scale", "zero", "bits"], &["wq"], attributes(1, 1, "ROUND"))
        .node("MatMul", &["x", "wq"], &["y"])
        .output("y");
    let imported = m.import();
    assert_eq!(parameter_names(&imported.graph, true), ["w"]);
    assert!(imported.warnings.is_empty(), "{:?}", imported.warnings);
    // Columns with scales 0.5 and 0.25: [[1, 0], [1, 1]] as integers.
    assert_eq!(run_one(&m, &[1, 2], &[1.0, 10.0]).1, [5.5, 2.5]);
}

/// Results of the qonnx package 1.0.0 (`trunc_v1` and `trunc_v2`) for these operands.
#[test]
fn trunc_of_both_versions() {
    let x = [-40.0, -3.5, -0.75, 0.2, 1.0, 6.1, 7.3, 33.0];
    let m = model(17)
        .input("x", &[8])
        .floats("scale", &[], &[0.25])
        .floats("zero", &[], &[0.0])
        .floats("one", &[], &[1.0])
        .floats("four", &[], &[4.0])
        .floats("six", &[], &[6.0])
        .floats("eight", &[], &[8.0]);
    let second = m
        .clone()
        .qonnx(
            "Trunc",
            &["x", "scale", "zero", "eight", "one", "four"],
            &["y"],
            vec![string("rounding_mode", "floor"), int("signed", 1), int("narrow", 0)],
        )
        .output("y");
    assert_eq!(run_one(&second, &[8], &x).1, [-8.0, -4.0, -1.0, 0.0, 1.0, 6.0, 7.0, 7.0]);
    let moved = m
        .clone()
        .qonnx(
            "Trunc",
            &["x", "scale", "four", "eight", "one", "four"],
            &["y"],
            vec![string("rounding_mode", "ROUND"), int("signed", 0), int("narrow", 1)],
        )
        .output("y");
    assert_eq!(run_one(&moved, &[8], &x).1, [-1.0, -1.0, -1.0, 0.0, 1.0, 6.0, 7.0, 13.0]);
    let first = m
        .clone()
        .qonnx("Trunc", &["x", "scale", "one", "eight", "six"], &["y"], vec![])
        .output("y");
    assert_eq!(run_one(&first, &[8], &x).1, [-10.25, -1.25, -0.5, -0.25, 0.0, 1.25, 1.5, 8.0]);
    // The ratio of the scales is a power of two, the same for all channels.
    for (scales, text) in [
        (&[1.0, 2.0][..], "differ"),
        (&[0.0, 1.0], "0 times the operand's scale"),
        (&[f32::INFINITY, 1.0], "inf times"),
        (&[-1.0, -1.0], "-4 times"),
    ] {
        let m = m
            .clone()
            .input("z", &[2])
            .floats("scales", &[2], scales)
            .qonnx("Trunc", &["z", "scale", "zero", "eight", "scales", "four"], &["y"], vec![])
            .output("y");
        let found = m.unsupported();
        assert!(found[0].reason.contains(text), "{}", found[0].reason);
    }
}

fn packed(name: &str, dtype: i32, dims: &[i64], raw: &[u8]) -> TensorProto {
    TensorProto {
        name: name.into(),
        dims: dims.to_vec(),
        data_type: dtype,
        raw_data: Some(raw.to_vec()),
        ..TensorProto::default()
    }
}

#[test]
fn integers_of_four_and_two_bits_are_read_packed() {
    for (dtype, raw, expected) in [
        (data_type::INT4, vec![0xf1, 0x87, 0x03], [1.0, -1.0, 7.0, -8.0, 3.0]),
        (data_type::UINT4, vec![0xf1, 0x87, 0xf3], [1.0, 15.0, 7.0, 8.0, 3.0]),
        (data_type::INT2, vec![0b11_10_01_00, 0b1101], [0.0, 1.0, -2.0, -1.0, 1.0]),
        (data_type::UINT2, vec![0b11_10_01_00, 0b10], [0.0, 1.0, 2.0, 3.0, 2.0]),
    ] {
        let with = |tensor: TensorProto| {
            model(25)
                .input("x", &[1, 1])
                .tensor(tensor)
                .floats("one", &[], &[1.0])
                .node("DequantizeLinear", &["w", "one"], &["wf"])
                .node("MatMul", &["x", "wf"], &["y"])
                .output("y")
        };
        let m = with(packed("w", dtype, &[1, 5], &raw));
        assert_eq!(run_one(&m, &[1, 1], &[1.0]).1, expected);
        let imported = m.import();
        assert_eq!(imported.warnings[0].kind, WarningKind::IntegerWeights);
        let integers: Vec<f32> =
            imported.integer_parameters[0].integers.iter().map(|&q| q as f32).collect();
        assert_eq!(integers, expected);
        // The same bytes as numbers.
        let mut typed = packed("w", dtype, &[1, 5], &[]);
        typed.raw_data = None;
        typed.int32_data = raw.iter().map(|&byte| i32::from(byte)).collect();
        assert_eq!(run_one(&with(typed.clone()), &[1, 1], &[1.0]).1, expected);
        // Too many, too few, no bytes.
        typed.int32_data.push(0);
        assert!(with(typed.clone()).message().starts_with("initializer `w`: "));
        typed.int32_data = vec![300; raw.len()];
        assert!(with(typed).message().contains("300 is not an 8-bit pattern"));
        let short = with(packed("w", dtype, &[1, 5], &raw[1..]));
        assert!(short.message().contains("takes"), "{}", short.message());
    }
}

#[test]
fn quantize_linear_gives_four_bits_and_refuses_sixteen() {
    let m = |dtype: i32, raw: &[u8]| {
        model(21)
            .input("x", &[4])
            .floats("scale", &[], &[0.5])
            .tensor(packed("zero", dtype, &[], raw))
            .node("QuantizeLinear", &["x", "scale", "zero"], &["q"])
            .node("DequantizeLinear", &["q", "scale", "zero"], &["y"])
            .output("q")
            .output("y")
    };
    let x = Tensor::f32([4], vec![-9.0, -0.75, 1.0, 9.0]);
    let outputs = run(&m(data_type::INT4, &[1]).import().graph, std::slice::from_ref(&x));
    assert_eq!(outputs[0].ty().element, Element::I4);
    assert_eq!(outputs[0].to_i64(), [-8, -1, 3, 7]);
    assert_eq!(outputs[1].as_f32(), [-4.5, -1.0, 1.0, 3.0]);
    for (dtype, name) in [(data_type::INT16, "INT16"), (data_type::UINT16, "UINT16")] {
        let found = m(dtype, &[0, 0]).unsupported();
        assert_eq!(found[0].op, "QuantizeLinear");
        assert!(found[0].reason.contains(name), "{}", found[0].reason);
        assert_eq!(found[0].supported, "integers of 8, 4 and 2 bits");
    }
}

#[test]
fn the_table_is_in_order() {
    let ops: Vec<&str> = supported_qonnx_ops().map(|op| op.op).collect();
    assert_eq!(ops, ["BipolarQuant", "IntQuant", "Quant", "Trunc"]);
}

/// `y = sign(what is made of x) @ w`.
fn signs(make: impl Fn(Model) -> Model, w: &[f32]) -> Model {
    let m = model(17).input("x", &[1, 4]).floats("w", &[4, 2], w).floats("zero", &[], &[0.0]);
    let m = m.floats("one", &[], &[1.0]).floats("minus", &[], &[-1.0]).floats("two", &[], &[2.0]);
    make(m).node("MatMul", &["sign", "w"], &["y"]).output("y")
}

/// Binary quantizers in the graph, and the kinds of operations whose results they take.
fn quantizers(imported: &Imported) -> usize {
    imported.graph.nodes().iter().filter(|n| n.op.kind() == OpKind::BipolarQuant).count()
}

fn said(imported: &Imported) -> Vec<&str> {
    let own = imported.warnings.iter().filter(|w| w.kind == WarningKind::Signs);
    own.map(|w| w.message.as_str()).collect()
}

const W: [f32; 8] = [0.5, -0.25, 0.125, 1.0, 2.0, 0.75, -1.5, 0.375];

#[test]
fn comparisons_with_zero_are_signs() {
    let of = |compare: &'static [&'static str], yes: &'static str, no: &'static str| {
        signs(
            |m| m.node(compare[0], &compare[1..], &["c"]).node("Where", &["c", yes, no], &["sign"]),
            &W,
        )
    };
    let x = [0.0, -2.0, 3.0, -0.0];
    // Ones at 0, 2 and 3.
    let expected = [0.5 - 0.125 + 2.0 - 1.5, -0.25 - 1.0 + 0.75 + 0.375];
    for (compare, yes, no) in [
        (&["GreaterOrEqual", "x", "zero"][..], "one", "minus"),
        (&["LessOrEqual", "zero", "x"], "one", "minus"),
        (&["Less", "x", "zero"], "minus", "one"),
        (&["Greater", "zero", "x"], "minus", "one"),
    ] {
        let m = of(compare, yes, no);
        let imported = m.import();
        assert_eq!((quantizers(&imported), said(&imported).len()), (1, 0), "{compare:?}");
        assert_eq!(run_one(&m, &[1, 4], &x).1, expected, "{compare:?}");
    }
    // Not -1 and 1; the other way round; compared with something else.
    for (compare, yes, no) in [
        (&["GreaterOrEqual", "x", "zero"][..], "one", "zero"),
        (&["GreaterOrEqual", "x", "zero"], "minus", "one"),
        (&["GreaterOrEqual", "x", "one"], "one", "minus"),
    ] {
        assert_eq!(quantizers(&of(compare, yes, no).import()), 0, "{compare:?} {yes} {no}");
    }
    // A bit where zeros are meant as -1 would change them: an input may be 0.
    let m = of(&["Greater", "x", "zero"], "one", "minus");
    let imported = m.import();
    assert_eq!(quantizers(&imported), 0);
    assert!(said(&imported)[0].contains("`sign` stays the sign of FP32 numbers"), "{imported:?}");
    assert_eq!(run_one(&m, &[1, 4], &[0.0; 4]).1, [-1.125, -1.875]);
    // 2 (x >= 0) - 1.
    let m = signs(
        |m| {
            m.node("GreaterOrEqual", &["x", "zero"], &["c"])
                .node_with("Cast", &["c"], &["f"], vec![int("to", data_type::FLOAT.into())])
                .node("Mul", &["f", "two"], &["d"])
                .node("Sub", &["d", "one"], &["sign"])
        },
        &W,
    );
    assert_eq!(quantizers(&m.import()), 1);
    assert_eq!(run_one(&m, &[1, 4], &x).1, expected);
}

#[test]
fn signs_of_what_is_often_zero_stay() {
    let affine = |m: Model| {
        let m =
            m.floats("g", &[4], &[1.5, -2.0, 1.0, 0.5]).floats("b", &[4], &[0.1, 0.2, 0.3, 0.4]);
        m.node("BatchNormalization", &["x", "g", "b", "b", "b"], &["n"])
    };
    let sign = |m: Model, of: &str| m.node("Sign", &[of], &["sign"]);
    // Batch normalization is seldom exactly 0, and said to count as 1 there.
    let bits = signs(|m| sign(affine(m), "n"), &W).import();
    assert_eq!(quantizers(&bits), 1);
    let [zeros] = said(&bits)[..] else { panic!("{:?}", bits.warnings) };
    assert!(
        zeros.contains("exactly 0 counts as 1") && zeros.contains("the first `sign`"),
        "{zeros}"
    );
    // A ReLU is often 0, and an input may be.
    for made in [
        signs(|m| sign(affine(m).node("Relu", &["n"], &["r"]), "r"), &W),
        signs(|m| sign(m, "x"), &W),
        signs(|m| sign(affine(m).node("Clip", &["n", "zero"], &["r"]), "r"), &W),
    ] {
        let imported = made.import();
        assert_eq!(quantizers(&imported), 0);
        assert!(said(&imported)[0].contains("may often be exactly 0"), "{:?}", imported.warnings);
    }
    // So are sums of signs by signs, without a normalization between.
    let deep = {
        let m = signs(|m| sign(affine(m), "n"), &[1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0, -1.0]);
        let mut m = m.floats("v", &[2, 1], &[0.5, 0.25]).node("Sign", &["y"], &["s"]);
        m.graph.output.clear();
        m.node("MatMul", &["s", "v"], &["out"]).output("out").import()
    };
    // Those of the weights, too: they have one magnitude.
    assert_eq!(quantizers(&deep), 2);
    assert!(said(&deep).iter().any(|s| s.starts_with("`s` stays")), "{:?}", deep.warnings);
    // What else takes a sign keeps its zeros.
    let shown = signs(|m| sign(affine(m), "n"), &W).output("sign").import();
    assert_eq!((quantizers(&shown), said(&shown).len()), (0, 0));
}

#[test]
fn weights_of_one_magnitude_beside_signs_are_quantized() {
    let m = |w: &[f32]| {
        signs(
            |m| {
                m.node("GreaterOrEqual", &["x", "zero"], &["c"]).node(
                    "Where",
                    &["c", "one", "minus"],
                    &["sign"],
                )
            },
            w,
        )
    };
    let one = [0.5, -0.5, 0.5, 0.5, -0.5, -0.5, 0.5, -0.5];
    let by_feature = [0.5, -2.0, 0.5, 2.0, -0.5, -2.0, 0.5, 2.0];
    for (w, count) in [(one, 2), (by_feature, 2), (W, 1), ([0.0; 8], 1), ([1.0; 8], 1)] {
        assert_eq!(quantizers(&m(&w).import()), count, "{w:?}");
        let x = [1.0f32, -1.0, -1.0, 1.0];
        let y = |feature: usize| (0..4).map(|i| x[i] * w[2 * i + feature]).sum::<f32>();
        assert_eq!(run_one(&m(&w), &[1, 4], &x).1, [y(0), y(1)], "{w:?}");
    }
    // Weights that a sign makes: none of them may be 0.
    let trained = |w: &[f32]| {
        let m =
            model(17).input("x", &[1, 4]).floats("zero", &[], &[0.0]).floats("latent", &[4, 2], w);
        m.node("Sign", &["latent"], &["w"]).node("MatMul", &["x", "w"], &["y"]).output("y").import()
    };
    assert_eq!((quantizers(&trained(&W)), said(&trained(&W)).len()), (1, 0));
    let holed = trained(&[0.0, 1.0, -1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(quantizers(&holed), 0);
    assert!(said(&holed)[0].contains("`latent`, which has zeros"), "{:?}", holed.warnings);
}
