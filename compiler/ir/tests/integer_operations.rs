//! The operations of quantized inference against results computed independently (tests/data/integer/README.md), bit for
//! bit: the meaning and the loop lowering.

use std::collections::BTreeMap;
use std::path::Path;

use trainc_ir::attributes::Attribute;
use trainc_ir::text::cursor::Cursor;
use trainc_ir::{Element, Op, RunContext, ScaleData, Tensor, TensorType, loops};

fn tensor(text: &str) -> Tensor {
    let mut words = text.split(' ');
    let element = words.next().and_then(Element::from_name).expect("an element");
    let shape = words.next().expect("a shape").trim_matches(['[', ']']);
    let shape: Vec<usize> = shape.split(',').map(|d| d.parse().expect("a size")).collect();
    let values: Vec<i64> = words.map(|v| v.parse().expect("an integer")).collect();
    let (low, high) = element.integer_range().expect("an integer");
    assert!(values.iter().all(|v| (low..=high).contains(v)), "{text}");
    Tensor::from_i64(&TensorType::new(shape, element), &values, ScaleData::None)
}

fn check(op: &Op, operands: &[Tensor], expected: &Tensor) {
    let operands: Vec<&Tensor> = operands.iter().collect();
    let types: Vec<&TensorType> = operands.iter().map(|t| t.ty()).collect();
    let results = op.infer(&types).unwrap_or_else(|e| panic!("{op}: {e}"));
    let run = RunContext::default();
    let meaning = op.evaluate(&operands, &run);
    assert!(expected.bits_equal(&meaning[0]), "{op}\n{operands:?}\nexpected {expected:?}");
    let kernel = op.lower(&types, &results.iter().collect::<Vec<_>>());
    assert!(kernel.buffers.iter().all(|b| b.element.bits() >= 8), "{op}");
    let lowered = loops::evaluate::run(&kernel, &operands, &results, &run);
    assert!(expected.bits_equal(&lowered[0]), "{op}\n{operands:?}\nfound {:?}", lowered[0]);
}

#[test]
fn against_numpy() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/integer/operations.txt");
    let text = std::fs::read_to_string(path).expect("the fixture");
    let mut counts = BTreeMap::new();
    let mut case: Option<(Op, Vec<Tensor>)> = None;
    for line in text.lines() {
        match line.split_once(' ').expect("a word") {
            ("op", text) => {
                let op = Op::parse(&mut Cursor::new(text)).expect("an operation");
                case = Some((op, Vec::new()));
            }
            ("operand", text) => case.as_mut().expect("an operation").1.push(tensor(text)),
            ("result", text) => {
                let (op, operands) = case.take().expect("an operation");
                check(&op, &operands, &tensor(text));
                *counts.entry(op.kind().name()).or_insert(0) += 1;
            }
            (word, _) => panic!("`{word}`"),
        }
    }
    let expected = [
        ("integer_add", 14),
        ("integer_conv2d", 22),
        ("integer_max_pool2d", 14),
        ("integer_sum_pool2d", 14),
        ("scale_shift", 42),
        ("threshold", 28),
    ];
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), expected);
}
