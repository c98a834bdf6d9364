//! The operations of fine-tuning in integers against results computed independently (tests/data/niti_finetune/README.md),
//! bit for bit: the meaning and the loop lowering.

use std::collections::BTreeMap;
use std::path::Path;

use trainc_ir::attributes::Attribute;
use trainc_ir::text::cursor::Cursor;
use trainc_ir::{Element, Op, RunContext, ScaleData, Tensor, TensorType, loops};

fn tensor(text: &str) -> Tensor {
    let mut words = text.split(' ').filter(|word| !word.is_empty());
    let kind = words.next().expect("an element");
    let shape = words.next().expect("a shape").trim_matches(['[', ']']);
    let sizes = shape.split(',').filter(|d| !d.is_empty());
    let shape: Vec<usize> = sizes.map(|d| d.parse().expect("a size")).collect();
    if kind == "f32" {
        let bits = words.map(|v| u32::from_str_radix(v, 16).expect("bits"));
        return Tensor::f32(shape, bits.map(f32::from_bits).collect());
    }
    let (element, exponent) = kind.split_once('^').map_or((kind, None), |(k, e)| (k, Some(e)));
    let element = Element::from_name(element).expect("an element");
    let values: Vec<i64> = words.map(|v| v.parse().expect("an integer")).collect();
    match exponent {
        Some(e) => {
            let scale = ScaleData::Exponent(e.parse().expect("an exponent"));
            Tensor::from_i64(&TensorType::shared(shape, element), &values, scale)
        }
        None => Tensor::from_i64(&TensorType::new(shape, element), &values, ScaleData::None),
    }
}

/// What the operation and its loops give, where that is not `expected`.
fn check(op: &Op, operands: &[Tensor], run: &RunContext, expected: &Tensor) -> Option<String> {
    let operands: Vec<&Tensor> = operands.iter().collect();
    let types: Vec<&TensorType> = operands.iter().map(|t| t.ty()).collect();
    let results = op.infer(&types).unwrap_or_else(|e| panic!("{op}: {e}"));
    let meaning = op.evaluate(&operands, run);
    let kernel = op.lower(&types, &results.iter().collect::<Vec<_>>());
    let lowered = loops::evaluate::run(&kernel, &operands, &results, run);
    let found = [("meaning", &meaning[0]), ("loops", &lowered[0])];
    let (form, found) = found.into_iter().find(|(_, found)| !expected.bits_equal(found))?;
    Some(format!("{op} ({form})\n{operands:?}\n{run:?}\nexpected {expected:?}\nfound    {found:?}"))
}

#[test]
fn against_numpy() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/niti_finetune/operations.txt");
    let text = std::fs::read_to_string(path).expect("the fixture");
    let mut counts = BTreeMap::new();
    let mut differences = Vec::new();
    let mut case: Option<(Op, Vec<Tensor>, RunContext)> = None;
    for line in text.lines() {
        let (word, text) = line.split_once(' ').expect("a word");
        if word == "op" {
            let op = Op::parse(&mut Cursor::new(text)).expect("an operation");
            case = Some((op, Vec::new(), RunContext::default()));
            continue;
        }
        let (op, operands, run) = case.as_mut().expect("an operation");
        match word {
            "run" => {
                let (seed, step) = text.split_once(' ').expect("a seed and a step");
                *run = RunContext {
                    seed: seed.parse().expect("a seed"),
                    step: step.parse().expect("a step"),
                };
            }
            "operand" => operands.push(tensor(text)),
            "result" => {
                *counts.entry(op.kind().name()).or_insert(0) += 1;
                differences.extend(check(op, operands, run, &tensor(text)));
            }
            word => panic!("`{word}`"),
        }
    }
    let shown: Vec<&str> = differences.iter().take(6).map(String::as_str).collect();
    assert!(differences.is_empty(), "{} difference(s)\n{}", differences.len(), shown.join("\n\n"));
    for operation in OPERATIONS {
        assert!(counts.contains_key(operation), "no case of `{operation}`");
    }
    println!("{} cases of {} operations", counts.values().sum::<usize>(), counts.len());
}

/// All that the algorithm's rules put in place of an operation whose integers are not just moved.
const OPERATIONS: [&str; 27] = [
    "accumulate_bias",
    "aligned_sum",
    "avg_pool2d",
    "avg_pool2d_gradient",
    "clip",
    "clip_gradient",
    "conv2d",
    "conv2d_gradient_input",
    "conv2d_gradient_weight",
    "dequantize",
    "matmul",
    "max_pool2d",
    "max_pool2d_gradient",
    "momentum_step",
    "quantize_bias",
    "quantize_exponent",
    "quantize_parameter",
    "quantize_unsigned",
    "reduce_sum",
    "relu_gradient",
    "requantize",
    "requantize_stochastic",
    "saturating_subtract",
    "scaled_step",
    "shift_right",
    "softmax_cross_entropy",
    "softmax_cross_entropy_gradient",
];
