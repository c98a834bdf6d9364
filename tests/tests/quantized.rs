//! Quantized inference of what Brevitas exports, against what the qonnx package computes with the same files
//! (`tests/data/brevitas`): every quantized tensor, end to end and layer by layer.

use std::collections::BTreeMap;

use trainc_driver::config::Config;
use trainc_driver::model::ModelSource;
use trainc_driver::session::{Entries, INFER, Session};
use trainc_ir::graph::{Graph, InputRole};
use trainc_ir::interpreter::Interpreter;
use trainc_ir::ops::{BatchNorm, Conv2d, Quant, Relu, Rounding};
use trainc_ir::{Op, OpKind, RunContext, Tensor, TensorType};
use trainc_opt::quantized::{EightBit, quantize};
use trainc_opt::rules::instance::Random;
use trainc_tests::brevitas::{CASES, Case, cut, differences, folder, interpreted, with_outputs};

fn is_float_work(kind: OpKind) -> bool {
    !matches!(kind, OpKind::QuantizeLinear | OpKind::DequantizeLinear | OpKind::Quant)
}

/// Between the quantized input and the last sums there is no float.
#[test]
fn modules_are_integers_inside() {
    for name in CASES {
        let case = Case::read(name);
        let found = case.quantized(&case.imported.graph, EightBit::ScaleShift);
        assert!(found.warnings.is_empty(), "{name}: {:?}", found.warnings);
        let module = &found.module;
        assert!(module.parameters().is_empty() && module.updates().is_empty());
        let count = |kind| module.nodes().iter().filter(|n| n.op.kind() == kind).count();
        let products = if name.starts_with("mixed") { 5 } else { 3 };
        assert_eq!(count(OpKind::IntegerConv2d), products, "{name}");
        assert_eq!(count(OpKind::QuantizeLinear), 1, "{name}: the input alone");
        // The scores: a scale and a bias.
        let floats = module.nodes().iter().filter(|n| {
            is_float_work(n.op.kind()) && n.outputs.iter().any(|&v| module.ty(v).is_f32())
        });
        assert!(floats.map(|n| n.op.kind()).all(|k| k == OpKind::Add), "{name}");
        // One channel at the input, and the ends of the net: no other change of layout.
        assert_eq!(count(OpKind::Transpose), 1, "{name}");
        let wide = found.stages.len();
        assert_eq!(count(OpKind::ScaleShift), wide, "{name}");
        assert!(wide >= 1 && found.stages.iter().all(|s| s.off_by_one < 0.05), "{name}");
    }
}

/// With exact output stages every integer is qonnx's own.
#[test]
fn exact_stages_end_to_end() {
    for name in CASES {
        let case = Case::read(name);
        let recorded = case.recorded();
        assert!(recorded.len() >= 3, "{name}");
        let graph = with_outputs(&case.imported.graph, &recorded);
        let found = case.quantized(&graph, EightBit::Threshold);
        assert!(found.stages.is_empty());
        for (tensor, found) in differences(&case, &graph, &mut |x| interpreted(&found.module, x)) {
            println!("{name} {tensor}: {found:?}");
            assert_eq!(found.different, 0, "{name}, `{tensor}`: {found:?}");
        }
    }
}

/// With scale and shift a layer's 8-bit results are at most one level off; results of fewer bits are qonnx's own.
#[test]
fn scale_and_shift_layer_by_layer() {
    for name in CASES {
        let case = Case::read(name);
        let recorded = case.recorded();
        let graph = cut(&case.imported.graph, &recorded);
        let found = case.quantized(&graph, EightBit::ScaleShift);
        assert!(found.warnings.is_empty(), "{name}: {:?}", found.warnings);
        let producer = |tensor: &str| {
            let graph = &case.imported.graph;
            let v = graph.value_ids().find(|&v| graph.value(v).name == tensor).expect("a value");
            let node = graph.producer(v).expect("a quantizer");
            match node.op {
                Op::DequantizeLinear(_) => {
                    graph.producer(node.inputs[0]).expect("one").name.clone()
                }
                _ => node.name.clone(),
            }
        };
        for (tensor, off) in differences(&case, &graph, &mut |x| interpreted(&found.module, x)) {
            let wide = found.stages.iter().any(|s| s.node == producer(&tensor));
            println!("{name} {tensor}: {off:?}{}", if wide { " (scale_shift)" } else { "" });
            assert!(off.most <= i64::from(wide), "{name}, `{tensor}`: {off:?}");
            assert!(off.different * 50 <= off.positions, "{name}, `{tensor}`: {off:?}");
        }
    }
}

/// The scores leave as floats: equal up to the order of FP32 sums.
#[test]
fn scores_are_those_of_qonnx() {
    for name in CASES {
        let case = Case::read(name);
        let graph = &case.imported.graph;
        let found = case.quantized(graph, EightBit::Threshold);
        let (input, output) = (graph.inputs()[0].value, &graph.outputs()[0]);
        for sample in 0..case.samples() {
            let key = format!("input/{}", graph.value(input).name);
            let x = case.sample(&key, sample, &graph.ty(input).shape);
            let y =
                Interpreter::new(&found.module).step(&[x], &RunContext::default()).expect("runs");
            let expected = case.sample(&format!("output/{}", output.name), sample, y[0].shape());
            for (a, b) in y[0].as_f32().iter().zip(expected.as_f32()) {
                assert!((a - b).abs() <= 1e-5 * (1.0 + b.abs()), "{name}: {a} and {b}");
            }
        }
    }
}

/// A layer of every precision, with batch norm whose gains have both signs and are zero. Scales are powers of two and
/// sums small, so the FP32 graph is exact up to batch norm and says what is right.
fn layer(input: u32, weight: u32, output: u32, depthwise: bool, random: &mut Random) -> Graph {
    let mut g = Graph::new("layer");
    let (channels, features) = (6, 6);
    let scalar = |g: &mut Graph, v: f32| g.add_constant("scalar", Tensor::f32([], vec![v]));
    let x = g.add_input("x", TensorType::f32([2, channels, 5, 4]), InputRole::Data);
    let quant = |bits, signed| Quant { signed, narrow: false, rounding: Rounding::HalfEven, bits };
    let (scale, zero) = (scalar(&mut g, 0.25), scalar(&mut g, 0.0));
    let signed = random.range(0, 1) == 0;
    let x = g.add1(quant(input, signed), &[x, scale, zero], "input").unwrap();
    let per_group = if depthwise { 1 } else { channels };
    let mut draw = |shape: &[usize], low: f32, high: f32| {
        let count = shape.iter().product();
        let mut unit = || (random.bits() >> 40) as f32 / (1u32 << 24) as f32;
        Tensor::f32(shape, (0..count).map(|_| low + (high - low) * unit()).collect())
    };
    let w = draw(&[features, per_group, 3, 3], -1.0, 1.0);
    let w = g.add_parameter("w", w, true);
    let steps = (0..features).map(|c| 2f32.powi(1 - weight as i32 - (c % 2) as i32)).collect();
    let steps = g.add_constant("steps", Tensor::f32([features, 1, 1, 1], steps));
    let w = g.add1(quant(weight, true), &[w, steps, zero], "weight").unwrap();
    let groups = if depthwise { channels } else { 1 };
    let conv = Conv2d { strides: [1, 2], pads: [1, 1, 1, 0], dilations: [1, 1], groups };
    let y = g.add1(conv, &[x, w], "conv").unwrap();
    let gains = Tensor::f32([features], vec![1.0, -0.75, 0.0, 1.5, -0.5, 0.0]);
    let mut operands = vec![y, g.add_parameter("gains", gains, true)];
    for (low, high) in [(-1.0, 2.0), (-0.5, 0.5), (0.5, 2.0)] {
        operands.push(g.add_parameter("vector", draw(&[features], low, high), true));
    }
    let norm = BatchNorm { epsilon: 1e-5f32.into(), batch: false };
    let y = g.add1(norm, &operands, "norm").unwrap();
    let y = g.add1(Relu {}, &[y], "relu").unwrap();
    let scale = scalar(&mut g, 16.0 / (1u32 << output) as f32);
    let y = g.add1(quant(output, false), &[y, scale, zero], "output").unwrap();
    g.add_output("y", y);
    g
}

#[test]
fn every_precision_of_a_convolution() {
    let mut random = Random::new(7);
    for depthwise in [false, true] {
        for (input, weight, output) in [8, 4, 2]
            .into_iter()
            .flat_map(|i| [8, 4, 2].into_iter().flat_map(move |w| [8, 4, 2].map(|o| (i, w, o))))
        {
            let graph = layer(input, weight, output, depthwise, &mut random);
            let x = random.tensor(graph.ty(graph.inputs()[0].value));
            let bounded: Vec<f32> = x.as_f32().iter().map(|v| v.clamp(-1e4, 1e4)).collect();
            let x = Tensor::f32(x.shape().clone(), bounded);
            let run = |g: &Graph| {
                Interpreter::new(g)
                    .step(std::slice::from_ref(&x), &RunContext::default())
                    .expect("runs")
                    .remove(0)
            };
            let expected = run(&graph);
            let name = format!("x{input} w{weight} y{output}, depthwise {depthwise}");
            for eight_bit in [EightBit::ScaleShift, EightBit::Threshold] {
                let found = quantize(&graph, eight_bit, &BTreeMap::new()).expect(&name);
                assert!(found.warnings.is_empty(), "{name}: {:?}", found.warnings);
                let count =
                    |kind| found.module.nodes().iter().filter(|n| n.op.kind() == kind).count();
                let scaled = output == 8 && eight_bit == EightBit::ScaleShift;
                assert_eq!(count(OpKind::ScaleShift), usize::from(scaled), "{name}");
                assert_eq!(count(OpKind::Threshold), usize::from(!scaled), "{name}");
                let step = 16.0 / (1u32 << output) as f32;
                for (a, b) in run(&found.module).as_f32().iter().zip(expected.as_f32()) {
                    let off = ((a - b) / step).abs();
                    assert!(off <= if scaled { 1.0 } else { 0.0 }, "{name}: {a} and {b}");
                }
            }
        }
    }
}

/// What is on no grid stays FP32, with a warning that says so.
#[test]
fn unquantized_products_stay_and_are_named() {
    let mut g = Graph::new("plain");
    let x = g.add_input("x", TensorType::f32([1, 2, 3, 3]), InputRole::Data);
    let w = g.add_parameter("w", Tensor::f32([1, 2, 1, 1], vec![0.3, 0.7]), true);
    let conv = Conv2d { strides: [1, 1], pads: [0; 4], dilations: [1, 1], groups: 1 };
    let y = g.add1(conv, &[x, w], "first").unwrap();
    g.add_output("y", y);
    let found = quantize(&g, EightBit::ScaleShift, &BTreeMap::new()).unwrap();
    assert_eq!(found.warnings.len(), 1);
    assert!(found.warnings[0].contains("`first`") && found.warnings[0].contains("no grid"));
    assert_eq!(found.module.nodes().len(), 1);
}

/// A network of signs by signs computes with bits on every target that has them, from Brevitas' file to qonnx's scores.
#[test]
fn signs_become_bits_and_scores_are_qonnxs() {
    let case = Case::read("binary");
    let output = case.imported.graph.outputs()[0].value;
    let key = format!("output/{}", case.imported.graph.value(output).name);
    for target in ["c", "neon", "opencl", "host"] {
        let config = Config {
            algorithm: "quantized".into(),
            target: target.into(),
            freeze: vec!["*".into()],
            batch: Some(1),
            ..Config::default()
        };
        let source = ModelSource::File(folder().join("binary.onnx"));
        let session = Session::new(&source, &config, Entries::TrainAndInfer).expect("compiles");
        let infer = &session.entry(INFER).expect("inference").optimised;
        let text = infer.to_string();
        let words = || text.split(|c: char| !c.is_alphanumeric() && c != '_');
        let count = |op: &str| words().filter(|word| *word == op).count();
        // The first layer's pixels are integers of eight bits.
        assert_eq!((count("binary_conv2d"), count("conv2d")), (3, 0), "{target}: {text}");
        for sample in 0..case.samples() {
            let image = case.operands(&case.imported.graph, sample);
            let found =
                &Interpreter::new(infer).step(&image, &RunContext::default()).expect("runs")[0];
            let expected = case.sample(&key, sample, found.shape());
            // Sums are exact: every scale is a power of two.
            assert_eq!(found.as_f32(), expected.as_f32(), "{target}, {sample}");
        }
    }
}
