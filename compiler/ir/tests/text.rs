//! The text form: a fixed example, printing and reading back random graphs, and errors.

use std::sync::Arc;

use proptest::prelude::*;
use trainc_ir::numeric::Rounding;
use trainc_ir::ops::{
    AlignedAdd, AlignedConcat, Case, Dequantize, IntegerCrossEntropyGradient, QuantizeExponent,
    QuantizeGradient, QuantizeWeight, Requantize, SaturatingSubtract, ShiftRight,
};
use trainc_ir::text::{
    Printer, content_hash, cursor::SyntaxError, no_blobs, parse_graph, parse_graphs,
};
use trainc_ir::types::{Element, Scale, Shape};
use trainc_ir::verify::{Stage, Subject, verify};
use trainc_ir::{Data, Graph, InputRole, Op, OpKind, ScaleData, Tensor, TensorType, ValueId};

/// One quantised layer's update with every kind of line.
const EXAMPLE: &str = r#"graph @update {
  %0: i32<2^e>[2,3] = input "accumulator" {role=data}
  %1: i32[] = input "mu" {role=learning_rate}
  %2: i8<2^e>[2,3] = parameter "w" {trainable=true, initial=dense<[1, -2, 3, -4, 5, -127], exponent=-7>}
  %3: f32[4] = parameter "running \"mean\"" {trainable=false, initial=dense<0.1>}
  %4: f32[5] = constant "" dense<[-0.0, inf, nan7fc00001, 1e-45, 3.0]>
  %5: u8<2^e>[1,2] = constant "a" dense<[3, 255], exponent=4>
  %6: i4[0,2] = constant "b" dense<[]>
  %7: i8<2^e>[5,3] = constant "c" dense<1, exponent=-2>
  %8: i8<2^e>[2,3] = quantize_gradient %0, %1 {rounding=pseudo_stochastic} "fc/update"
  %9 "w\nnew": i8<2^e>[2,3] = saturating_subtract %2, %8 "fc/subtract"
  %10: f32[2,3] = dequantize %9
  output "w as f32" %10
  update %2 = %9 ; "w"
}
"#;

#[test]
fn example() {
    let graph = parse_graph(EXAMPLE, &no_blobs).unwrap();
    assert_eq!(Printer::complete().graph(&graph), EXAMPLE);
    // Read independently of the printer.
    assert_eq!(graph.name(), "update");
    assert_eq!(graph.inputs().len(), 2);
    assert_eq!(graph.inputs()[1].role, InputRole::LearningRate);
    assert_eq!((graph.parameters()[0].trainable, graph.parameters()[1].trainable), (true, false));
    let w = Tensor::i8_shared([2, 3], vec![1, -2, 3, -4, 5, -127], -7);
    assert!(graph.parameters()[0].initial.bits_equal(&w));
    assert_eq!(graph.parameters()[1].initial.as_f32(), [0.1; 4]);
    assert_eq!(graph.value(graph.parameters()[1].value).name, "running \"mean\"");
    let values: Vec<ValueId> = graph.value_ids().collect();
    let bits: Vec<u32> =
        graph.constant_of(values[4]).unwrap().as_f32().iter().map(|x| x.to_bits()).collect();
    assert_eq!(bits, [0x8000_0000, 0x7f80_0000, 0x7fc0_0001, 1, 0x4040_0000]);
    let bytes = graph.constant_of(values[5]).unwrap();
    assert_eq!((bytes.data(), bytes.exponent()), (&Data::U8(vec![3, 255]), 4));
    assert_eq!(graph.ty(values[6]).scale, Scale::None);
    assert_eq!(graph.constant_of(values[7]).unwrap().scale(), &ScaleData::Exponent(-2));
    assert_eq!(graph.nodes().len(), 3);
    assert_eq!(graph.nodes()[0].name, "fc/update");
    assert_eq!(graph.nodes()[0].inputs, [values[0], values[1]]);
    assert_eq!(graph.value(values[8]).name, "fc/update");
    assert_eq!(graph.value(values[9]).name, "w\nnew");
    assert_eq!(graph.nodes()[2].name, "");
    assert_eq!(graph.updates()[0].parameter, 0);
    assert_eq!((graph.updates()[0].value, graph.outputs()[0].value), (values[9], values[10]));
}

/// Labels are free, lines do not matter, comments are skipped.
#[test]
fn written_by_hand() {
    let text = "graph @\"two words\" { ; a comment } \" [\n %x:f32[ 2 ,1]=input\"x\"{role=data}\n\
                %q8 : i8<2^e>[2,1] = quantize_exponent %x output \"q\" %q8 }";
    let graph = parse_graph(text, &no_blobs).unwrap();
    assert_eq!(graph.name(), "two words");
    assert_eq!(graph.nodes().len(), 1);
    assert_eq!(graph.outputs()[0].name, "q");
}

fn error(text: &str) -> SyntaxError {
    parse_graph(text, &no_blobs).expect_err(text)
}

#[test]
fn errors_say_where_and_what() {
    // `¦` marks the place of the error.
    for (marked, message) in [
        ("  %1: ¦i8<2^e>[3] = quantize_exponent %0", "gives i8<2^e>[2] here, not i8<2^e>[3]"),
        ("  %1: f32[2] = ¦dequantize %0", "dequantize takes integers with a shared exponent"),
        ("  %1: f32[2] = ¦no_such_operation %0", "unknown operation `no_such_operation`"),
        ("  %1: f32[2] = dequantize ¦%9", "`%9` is not defined before"),
        ("  ¦%0: i8<2^e>[2] = quantize_exponent %0", "`%0` is defined twice"),
        ("  %1: i8<2^e>[2], %2: f32[] = ¦quantize_exponent %0", "has 1 result(s), here 2"),
        ("  %1: f32[3] = constant \"c\" dense<¦[1.0, 2.0]>", "expected 3 elements, here 2"),
        ("  %1: f32[3] = constant \"é\" dense<[1.0, ¦x]>", "`x` is not an f32"),
        ("  %1: i4[2] = constant \"c\" dense<[7, ¦8]>", "8 is not of type i4"),
        ("  %1: u8[2] = constant \"c\" dense<¦-1>", "-1 is not of type u8"),
        ("  %1: i8<2^e>[2] = constant \"c\" dense<3¦>", "expected `,`"),
        (
            "  %1: f32[2] = constant \"c\" dense<¦blob 0x1f of 2 elements>",
            "no tensor with hash 0x1f",
        ),
        ("  %1: f32[2] = constant \"c\" dense<¦blob 0x1f of 3 elements>", "has 2 elements, here 3"),
        ("  %1: f32[3] = constant \"c\" dense<¦blob 31 of 3 elements>", "expected a hash"),
        ("  %1: f32[99999999] = constant \"c\" dense<¦0.0>", "stands for 99999999 elements"),
        ("  %1: ¦f32[9999999,9999999] = input \"c\" {role=data}", "more than 2^40 elements"),
        ("  %1: ¦f32[18446744073709551615,3] = input \"c\" {role=data}", "more than 2^40 elements"),
        ("  %1: f32[2] = input \"c\" {role=¦dat}", "unknown role `dat`"),
        ("  ¦%1 \"c\": f32[2] = input \"c\" {role=data}", "the name follows the word"),
        ("  %1¦, %2: f32[2] = input \"c\" {role=data}", "expected `:`"),
        ("  update ¦%0 = %0", "only a parameter can be updated"),
        ("  ¦outputs \"a\" %0", "expected a definition"),
        ("  %1: i8<¦affine>[2] = input \"c\" {role=data}", "expected `2^e`"),
        ("  } ¦output", "expected the end"),
    ] {
        let column = marked.chars().position(|c| c == '¦').expect("a mark") + 1;
        let line = marked.replace('¦', "");
        let text = format!("graph @g {{\n  %0: f32[2] = input \"é\" {{role=data}}\n{line}\n}}");
        let error = error(&text);
        assert!(error.message.contains(message), "{line}\n{error}");
        assert_eq!((error.line, error.column), (3, column), "{line}\n{error}");
    }
    let deep = format!("graph @g {{\n%0: f32[] = chain {}", "{ops=[chain".repeat(100_000));
    assert!(error(&deep).message.contains("nest"), "{}", error(&deep));
}

/// A tensor over the inline limit stands as its hash, which is checked on reading.
#[test]
fn blobs() {
    let mut graph = Graph::new("g");
    let big = Arc::new(Tensor::i8_shared([3], vec![1, 2, 3], -4));
    let equal = Arc::new(Tensor::f32([1000], vec![0.0; 1000]));
    graph.add_constant("big", big.clone());
    graph.add_constant("equal", equal);
    let printer = Printer { inline_limit: 2 };
    let text = printer.graph(&graph);
    // FNV-1a of "i8<2^e>[3]", 00, 01 02 03, fc ff ff ff, by another implementation.
    let hash = 0x10b725d24c615653;
    assert_eq!(content_hash(&big), hash);
    assert!(text.contains(&format!("dense<blob 0x{hash:016x} of 3 elements>")), "{text}");
    assert!(text.contains("dense<0.0>"), "{text}");
    assert_eq!(printer.blobs(&graph).into_iter().collect::<Vec<_>>(), [(hash, big.clone())]);
    let found = |h: u64| (h == hash).then(|| big.clone());
    assert_eq!(parse_graph(&text, &found).unwrap(), graph);
    assert!(error(&text).message.contains("no tensor with hash"));
    let wrong_exponent = Arc::new(Tensor::i8_shared([3], vec![1, 2, 3], -5));
    let wrong = parse_graph(&text, &|_| Some(wrong_exponent.clone())).unwrap_err();
    assert!(wrong.message.contains("has another hash"), "{wrong}");
    let wrong = parse_graph(&text, &|_| Some(Arc::new(Tensor::i32([3], vec![0; 3])))).unwrap_err();
    assert!(wrong.message.contains("is i32[3], here i8<2^e>[3]"), "{wrong}");
}

/// Data after a graph read back; damaged ones are told, and what is missing is drawn, the same each time.
#[test]
fn data_of_tensors() {
    let mut graph = Graph::new("g");
    let packed = TensorType::new([3], Element::I4);
    graph.add_constant("big", Tensor::i8_shared([3], vec![1, 2, 3], -4));
    graph.add_constant("packed", Tensor::from_i64(&packed, &[-8, 7, 1], ScaleData::None));
    graph.add_parameter("gain", Tensor::f32([3], vec![0.5, -0.0, f32::NAN]), true);
    let text = Printer { inline_limit: 2 }.with_data(&graph);
    // Elements, a byte to the next multiple of 4, the exponent; nibbles, the first one low.
    assert!(text.contains("data 0x10b725d24c615653 {\n  01020300fcffffff\n}\n"), "{text}");
    assert!(text.contains("{\n  7801\n}\n"), "{text}");
    let read = parse_graphs(&text).unwrap();
    assert!(same(&read[0].graph, &graph), "{text}");
    assert_eq!((read.len(), read[0].drawn), (1, 0));
    // Two functions may share data, in any order.
    let twice = format!("{text}\n{text}");
    assert!(parse_graphs(&twice).unwrap().iter().all(|read| same(&read.graph, &graph)));
    for (from, to, message) in [
        ("7801", "7802", "has another hash"),
        ("7801", "78", "are not those of a i4[3]"),
        ("7801", "780", "two hexadecimal digits"),
        ("7801", "78 0g", "two hexadecimal digits"),
        ("data 0x10b7", "data 10b7", "expected a hash"),
    ] {
        let error = parse_graphs(&text.replace(from, to)).unwrap_err();
        assert!(error.message.contains(message), "{error}");
    }
    let bare = Printer { inline_limit: 2 }.graph(&graph);
    let (a, b) = (parse_graphs(&bare).unwrap(), parse_graphs(&bare).unwrap());
    assert_eq!(a[0].drawn, 3);
    assert!(same(&a[0].graph, &b[0].graph) && !same(&a[0].graph, &graph));
    let gain = a[0].graph.parameters()[0].initial.as_f32();
    assert!(gain.iter().all(|x| (0.5..=1.5).contains(x)), "{gain:?}");
    for (text, message) in [
        ("", "expected `graph`"),
        ("data 0x1 {00}", "expected `graph`"),
        ("graph @g {} module", "expected `graph` or `data`"),
        ("graph @g {} }", "expected `graph` or `data`"),
        ("graph @g { ", "expected a definition"),
    ] {
        let error = parse_graphs(text).unwrap_err();
        assert!(error.message.contains(message), "{text}: {error}");
    }
}

/// What the verifier finds is shown in the text.
#[test]
fn places_of_errors() {
    let text = "graph @g {\n  %0: f32[2] = input \"\u{e9}\" {role=data}\n  %y: f32[2] = relu %0 \"r\"\n\
                \toutput \"o\" %y output \"o\" %0\n}";
    let read = &parse_graphs(text).unwrap()[0];
    let errors = verify(&read.graph, &Stage::Float).unwrap_err().errors;
    let places: Vec<&str> = errors
        .iter()
        .filter_map(|e| read.places.of(e.subject))
        .map(|span| &text[span.start..span.end])
        .collect();
    assert_eq!(places, ["output \"o\" %0"]);
    let span = read.places.of(errors[0].subject).unwrap();
    let shown = span.error(text, "taken").shown(text);
    let expected = "line 4, column 16: taken\n4 | ?output \"o\" %y output \"o\" %0\n  |                \
                    ^^^^^^^^^^^^^";
    assert_eq!(shown, expected);
    let node = Subject::Node(read.graph.node_ids().next().unwrap());
    let span = read.places.of(node).unwrap();
    assert_eq!(&text[span.start..span.end], "relu");
    // Far to the right the line's beginning is left out; carets stay beneath.
    let long = format!("graph @g {{ ; \n{}%0 }}", " ".repeat(300));
    let error = parse_graphs(&long).unwrap_err();
    let shown = error.shown(&long);
    let lines: Vec<&str> = shown.lines().collect();
    let caret = lines[2].find('^').unwrap();
    assert!(lines[1].chars().count() < 120 && lines[1][caret..].starts_with('}'), "{shown}");
}

/// Names with everything that quoting must survive.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "",
            "conv1",
            "a\"b",
            "x\ny",
            "é∂𝄞",
            "\\u{41}",
            "; no comment",
            "a.0",
            "{",
            "}",
            "\\",
            "\u{0}\u{7f}\r\t",
            "%1",
            "\u{85}\u{2028}",
            "graph",
        ])
        .prop_map(String::from),
        prop::collection::vec(any::<char>(), 0..5).prop_map(String::from_iter),
    ]
}

fn float() -> impl Strategy<Value = f32> {
    prop_oneof![
        any::<u32>().prop_map(f32::from_bits),
        prop::sample::select(vec![
            0.0,
            -0.0,
            1.0,
            0.1,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::MAX,
            f32::MIN_POSITIVE,
            f32::from_bits(1),
            f32::from_bits(0x7f80_0001),
            f32::from_bits(0xffff_ffff),
            f32::NAN,
        ]),
    ]
}

fn ty() -> impl Strategy<Value = TensorType> {
    let shape = prop::collection::vec(prop_oneof![Just(0usize), 1usize..4], 0..4);
    // Types that operations take come often.
    let known = prop::sample::select(vec![
        TensorType::f32([]),
        TensorType::shared([], Element::I8),
        TensorType::shared([], Element::I32),
        TensorType::new([], Element::I32),
    ]);
    let any_type = (prop::sample::select(Element::ALL.to_vec()), any::<bool>()).prop_map(
        |(element, scaled)| {
            let scale = if scaled { Scale::Exponent } else { Scale::None };
            TensorType { shape: Shape::scalar(), element, scale }
        },
    );
    (prop_oneof![known, any_type], shape).prop_map(|(ty, shape)| ty.with_shape(shape))
}

fn tensor(ty: TensorType) -> impl Strategy<Value = Tensor> {
    let count = ty.count();
    // Seeds cycle, so that equal elements occur too.
    let floats = prop::collection::vec(float(), 1..6);
    let integers = prop::collection::vec(any::<i64>(), 1..6);
    (floats, integers, any::<i32>()).prop_map(move |(floats, integers, e)| {
        let scale = match ty.scale {
            Scale::None => ScaleData::None,
            Scale::Exponent => ScaleData::Exponent(e),
        };
        if ty.element == Element::F32 {
            let data = (0..count).map(|i| floats[i % floats.len()]).collect();
            Tensor::new(ty.clone(), Data::F32(data), scale)
        } else {
            let (low, high) = ty.element.integer_range().unwrap_or((0, 255));
            let fit = |v: i64| low + v.rem_euclid(high - low + 1);
            let values: Vec<i64> = (0..count).map(|i| fit(integers[i % integers.len()])).collect();
            Tensor::from_i64(&ty, &values, scale)
        }
    })
}

#[derive(Clone, Debug)]
enum Line {
    Input(String, TensorType, InputRole),
    Parameter(String, Tensor, bool),
    Constant(String, Tensor),
    Node { op: Op, operands: Vec<prop::sample::Index>, name: String, rename: Option<String> },
    Output(String, prop::sample::Index),
    Update(prop::sample::Index, prop::sample::Index),
}

fn op() -> impl Strategy<Value = Op> {
    let rounding = || prop::sample::select(Rounding::ALL.to_vec());
    prop_oneof![
        Just(QuantizeExponent {}.into()),
        Just(QuantizeWeight {}.into()),
        Just(Dequantize {}.into()),
        (1u8..8, rounding(), -127i8..1).prop_map(|(bits, rounding, low)| Requantize {
            bits,
            rounding,
            low
        }
        .into()),
        rounding().prop_map(|rounding| QuantizeGradient { rounding }.into()),
        (0u8..32, rounding()).prop_map(|(amount, rounding)| ShiftRight {
            amount,
            rounding,
            element: Element::I16
        }
        .into()),
        Just(AlignedAdd {}.into()),
        (0usize..3).prop_map(|axis| AlignedConcat { axis }.into()),
        Just(SaturatingSubtract {}.into()),
        any::<u32>().prop_map(|stream| IntegerCrossEntropyGradient { stream }.into()),
    ]
}

fn line() -> impl Strategy<Value = Line> {
    use prop::sample::Index;
    let roles = vec![InputRole::Data, InputRole::Labels, InputRole::LearningRate];
    let tensor = || ty().prop_flat_map(tensor);
    prop_oneof![
        2 => (name(), ty(), prop::sample::select(roles)).prop_map(|(n, t, r)| Line::Input(n, t, r)),
        2 => (name(), tensor(), any::<bool>()).prop_map(|(n, t, b)| Line::Parameter(n, t, b)),
        2 => (name(), tensor()).prop_map(|(n, t)| Line::Constant(n, t)),
        8 => (op(), prop::collection::vec(any::<Index>(), 1..4), name(), prop::option::of(name()))
            .prop_map(|(op, operands, name, rename)| Line::Node { op, operands, name, rename }),
        1 => (name(), any::<Index>()).prop_map(|(n, i)| Line::Output(n, i)),
        1 => (any::<Index>(), any::<Index>()).prop_map(|(p, v)| Line::Update(p, v)),
    ]
}

/// A graph of the lines that fit; operands that an operation refuses are searched further on.
fn graph() -> impl Strategy<Value = Graph> {
    (name(), prop::collection::vec(line(), 0..24)).prop_map(|(name, lines)| {
        let mut graph = Graph::new(name);
        for line in lines {
            let ids: Vec<ValueId> = graph.value_ids().collect();
            match line {
                Line::Input(name, ty, role) => drop(graph.add_input(name, ty, role)),
                Line::Parameter(name, tensor, b) => drop(graph.add_parameter(name, tensor, b)),
                Line::Constant(name, tensor) => drop(graph.add_constant(name, tensor)),
                Line::Node { op, operands, name, rename } => {
                    let found = (0..ids.len().pow(2)).find_map(|shift| {
                        let pick = |(i, index): (usize, &prop::sample::Index)| {
                            let shift = if i == 0 { shift } else { shift / ids.len() };
                            ids[(index.index(ids.len()) + shift) % ids.len()]
                        };
                        let operands: Vec<ValueId> =
                            operands.iter().enumerate().map(pick).collect();
                        (1..=operands.len())
                            .find_map(|n| graph.add(op.clone(), &operands[..n], &name).ok())
                    });
                    if let (Some(results), Some(rename)) = (found, rename) {
                        graph.set_name(results[0], rename);
                    }
                }
                Line::Output(name, index) if !ids.is_empty() => {
                    graph.add_output(name, *index.get(&ids));
                }
                Line::Update(p, index) if !graph.parameters().is_empty() => {
                    graph.add_update(p.index(graph.parameters().len()), *index.get(&ids));
                }
                Line::Output(..) | Line::Update(..) => {}
            }
        }
        graph
    })
}

/// Equality with floats compared by bits.
fn same(a: &Graph, b: &Graph) -> bool {
    let tensors = |graph: &Graph| -> Vec<Arc<Tensor>> {
        let constants = graph.value_ids().filter_map(|id| graph.constant_of(id).cloned());
        graph.parameters().iter().map(|p| p.initial.clone()).chain(constants).collect()
    };
    let (ta, tb) = (tensors(a), tensors(b));
    let tensors_same = ta.len() == tb.len() && ta.iter().zip(&tb).all(|(a, b)| a.bits_equal(b));
    let values_same = a.values().len() == b.values().len()
        && a.values().iter().zip(b.values()).all(|(a, b)| {
            use trainc_ir::graph::Definition::Constant;
            let constants = matches!((&a.definition, &b.definition), (Constant(_), Constant(_)));
            (&a.ty, &a.name) == (&b.ty, &b.name) && (constants || a.definition == b.definition)
        });
    let parameters_same = a.parameters().len() == b.parameters().len()
        && a.parameters()
            .iter()
            .zip(b.parameters())
            .all(|(a, b)| (a.value, a.trainable) == (b.value, b.trainable));
    tensors_same
        && values_same
        && parameters_same
        && a.name() == b.name()
        && a.nodes() == b.nodes()
        && a.inputs() == b.inputs()
        && a.outputs() == b.outputs()
        && a.updates() == b.updates()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn graphs_read_back(graph in graph(), inline_limit in 0usize..8) {
        let text = Printer::complete().graph(&graph);
        let read = parse_graph(&text, &no_blobs)
            .map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert!(same(&read, &graph), "{}", text);
        prop_assert_eq!(Printer::complete().graph(&read), text);

        let printer = Printer { inline_limit };
        let (text, blobs) = (printer.graph(&graph), printer.blobs(&graph));
        let read = parse_graph(&text, &|hash| blobs.get(&hash).cloned())
            .map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert!(same(&read, &graph), "{}", text);
    }

    /// Damaged texts give an error or a graph.
    #[test]
    fn no_text_panics(
        graph in graph(),
        edits in prop::collection::vec(
            (any::<prop::sample::Index>(), 0usize..4, 0usize..12, any::<char>(), any::<prop::sample::Index>()),
            1..5,
        ),
        truncated in any::<bool>(),
    ) {
        const SIGNS: [char; 16] =
            ['"', '%', '{', '}', '[', ']', '<', '>', ',', '=', ';', '\\', '9', '-', 'e', ':'];
        let mut text: Vec<char> = Printer::complete().graph(&graph).chars().collect();
        for (place, kind, length, c, sign) in edits {
            let place = place.index(text.len() + 1);
            let end = (place + length).min(text.len());
            let insert = match kind {
                0 => vec![],
                1 => vec![*sign.get(&SIGNS)],
                2 => vec![c],
                _ => {
                    let from = sign.index(text.len() + 1);
                    text[from..(from + 3 * length).min(text.len())].to_vec()
                }
            };
            text.splice(place..if kind == 1 { place } else { end }, insert);
            if truncated {
                text.truncate(text.len() - length.min(text.len()));
            }
        }
        let text: String = text.into_iter().collect();
        if let Ok(graph) = parse_graph(&text, &no_blobs) {
            let again = Printer::complete().graph(&graph);
            let read = parse_graph(&again, &no_blobs)
                .map_err(|e| TestCaseError::fail(format!("{e}\n{again}")))?;
            prop_assert!(same(&read, &graph), "{}", again);
        }
    }
}

/// A graph that applies an operation to inputs of its case's types.
fn graph_of(case: &Case) -> Graph {
    let mut graph = Graph::new("case");
    let inputs: Vec<ValueId> =
        case.inputs.iter().map(|x| graph.add_input("x", x.ty().clone(), InputRole::Data)).collect();
    let results = graph.add(case.op.clone(), &inputs, "node").expect("a case types");
    if let [_, second, ..] = results[..] {
        graph.set_name(second, "a name of its own");
    }
    graph
}

#[test]
fn every_operation_reads_back() {
    for kind in OpKind::ALL {
        for case in kind.cases() {
            let graph = graph_of(&case);
            let text = Printer::complete().graph(&graph);
            let read = parse_graph(&text, &no_blobs).unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert_eq!(read, graph, "{text}");
        }
    }
}

/// Attributes and types with extreme numbers: every operation's type rule gives an error or a type.
#[test]
fn no_number_panics() {
    const NUMBERS: [&str; 14] = [
        "0",
        "1",
        "2",
        "3",
        "7",
        "-1",
        "31",
        "255",
        "32768",
        "2147483647",
        "4294967296",
        "1099511627776",
        "9223372036854775807",
        "18446744073709551615",
    ];
    for kind in OpKind::ALL {
        let mut texts: Vec<String> =
            kind.cases().iter().map(|case| Printer::complete().graph(&graph_of(case))).collect();
        texts.dedup();
        for text in texts.iter().take(3) {
            let is_digit = |i: usize| text.as_bytes()[i].is_ascii_digit();
            let starts = (1..text.len()).filter(|&i| is_digit(i) && !is_digit(i - 1));
            let starts: Vec<usize> = starts.collect();
            let replaced = |text: &str, start: usize, number: &str| {
                let rest = text[start..].trim_start_matches(|c: char| c.is_ascii_digit());
                format!("{}{number}{rest}", &text[..start])
            };
            let check = |text: &str| {
                let parsed = std::panic::catch_unwind(|| parse_graph(text, &no_blobs).is_ok());
                assert!(parsed.is_ok(), "{text}");
            };
            // One number, or an attribute's number together with a dimension.
            for (n, &start) in starts.iter().enumerate() {
                for number in NUMBERS {
                    let once = replaced(text, start, number);
                    check(&once);
                    for &earlier in &starts[..n] {
                        for number in ["0", "2", "1099511627776"] {
                            check(&replaced(&once, earlier, number));
                        }
                    }
                }
            }
        }
    }
}

/// The random graphs are not trivially empty.
#[test]
fn random_graphs_have_nodes() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let graphs: Vec<Graph> =
        (0..200).map(|_| graph().new_tree(&mut runner).expect("a graph").current()).collect();
    for kind in ["quantize_exponent", "requantize", "aligned_add", "shift_right", "dequantize"] {
        let uses = graphs.iter().flat_map(Graph::nodes).filter(|n| n.op.kind().name() == kind);
        assert!(uses.count() >= 10, "{kind} is rare");
    }
}
