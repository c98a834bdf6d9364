//! Gates in a model's graph: which layers choose together, what is counted, and what is refused.

use trainc_ir::graph::{Graph, InputRole, ValueId};
use trainc_ir::interpreter::Interpreter;
use trainc_ir::ops::{Add, Conv2d, MatMul, PrecisionOf, ProductRole, Relu, Reshape};
use trainc_ir::verify::{Stage, verify};
use trainc_ir::{Op, RunContext, Tensor, TensorType};
use trainc_opt::algorithm::Algorithm;
use trainc_opt::algorithm::dynamic::Dynamic;
use trainc_opt::dynamic::{COST, add_gates, count_names, counted_blocks, counts, share};

fn dynamic() -> Dynamic {
    Dynamic {
        options: vec![[2, 4], [8, 8]],
        weight_bits: 4,
        gate: [3, 2],
        target: 3.0,
        band: 0.5,
        weight: 0.1,
    }
}

fn conv(g: &mut Graph, name: &str, x: ValueId, outputs: usize, groups: usize) -> ValueId {
    let inputs = g.ty(x).shape[1] / groups;
    let count = outputs * inputs * 9;
    let values = (0..count).map(|i| (i * 7 % 11) as f32 * 0.1 - 0.5).collect();
    let w = Tensor::f32([outputs, inputs, 3, 3], values);
    let w = g.add_parameter(format!("{name}.weight"), w, true);
    let op = Conv2d { strides: [1, 1], pads: [1; 4], dilations: [1, 1], groups };
    g.add1(op, &[x, w], name).unwrap()
}

/// A first layer; a block of two layers with a depthwise one between them around which its operand goes; a layer outside; the last.
fn model() -> Graph {
    let mut g = Graph::new("g");
    let x = g.add_input("x", TensorType::f32([2, 1, 4, 4]), InputRole::Data);
    let y = conv(&mut g, "first", x, 2, 1);
    let x = g.add1(Relu {}, &[y], "relu").unwrap();
    let y = conv(&mut g, "a", x, 2, 1);
    let y = conv(&mut g, "depthwise", y, 2, 2);
    let y = conv(&mut g, "b", y, 2, 1);
    let x = g.add1(Add {}, &[y, x], "join").unwrap();
    let y = conv(&mut g, "outside", x, 3, 1);
    let bias = g.add_parameter("bias", Tensor::f32([3, 1, 1], vec![0.5; 3]), true);
    let y = g.add1(Add {}, &[y, bias], "outside.bias").unwrap();
    let flat = g.add1(Reshape { shape: [2, 48].into() }, &[y], "flat").unwrap();
    let w = Tensor::f32([48, 3], (0..144).map(|i| (i % 5) as f32 - 2.0).collect());
    let w = g.add_parameter("last.weight", w, true);
    let op = MatMul { transpose_a: false, transpose_b: false, role: ProductRole::Forward };
    let y = g.add1(op, &[flat, w], "last").unwrap();
    g.add_output("y", y);
    g
}

#[test]
fn residual_blocks_and_layers_outside_choose() {
    let gated = add_gates(&model(), &dynamic(), 0).unwrap();
    verify(&gated.graph, &Stage::Float).unwrap();
    let names: Vec<&str> = gated.applied.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["join (a, b)", "outside.bias (outside)"]);
    let graph = &gated.graph;
    let marks = |of: PrecisionOf| -> Vec<(usize, String)> {
        let own = graph.nodes().iter().filter_map(|node| match &node.op {
            Op::ExamplePrecision(op) if op.of == of => {
                let x = graph.producer(node.inputs[0]).map(|by| by.name.clone());
                Some((op.block, x.unwrap_or_default()))
            }
            _ => None,
        });
        own.collect()
    };
    let all = |of: &[(usize, &str)]| -> Vec<(usize, String)> {
        of.iter().map(|(block, name)| (*block, name.to_string())).collect()
    };
    assert_eq!(marks(PrecisionOf::Value), all(&[(0, "relu"), (0, "depthwise"), (1, "join")]));
    // The error of a result with a bias, behind it.
    assert_eq!(marks(PrecisionOf::ErrorOf), all(&[(0, "a"), (0, "b"), (1, "outside.bias")]));
}

#[test]
fn choices_are_counted_around_the_carry() {
    let graph = add_gates(&model(), &dynamic(), 0).unwrap().graph;
    let names: Vec<String> =
        graph.parameters().iter().map(|p| graph.value(p.value).name.clone()).collect();
    let blocks = counted_blocks(names.iter().map(String::as_str));
    assert_eq!(blocks, ["join", "outside.bias"]);
    let mut interpreter = Interpreter::new(&graph);
    let [count, rounds] =
        count_names("join").map(|name| graph.parameter_named(&name).expect("a state"));
    let full = (1 << 20) as f32 - 1.0;
    interpreter.set_parameter(count, Tensor::f32([2], vec![full; 2]));
    interpreter.set_parameter(rounds, Tensor::f32([2], vec![3.0, 5.0]));
    let x = Tensor::f32([2, 1, 4, 4], (0..32).map(|i| (i % 7) as f32 - 3.0).collect());
    let outputs = interpreter.step(&[x], &RunContext::default()).unwrap();
    let own = interpreter.parameters();
    let found = counts(&own[count], &own[rounds]);
    let before = [(4u64 << 20) - 1, (6u64 << 20) - 1];
    assert_eq!(found.iter().sum::<u64>(), before.iter().sum::<u64>() + 2);
    assert!(found.iter().zip(before).all(|(now, before)| *now >= before), "{found:?}");
    assert!(own[count].as_f32().iter().all(|&low| low < (1 << 20) as f32));
    let cost = graph.outputs().iter().position(|o| o.name == COST).expect("the term");
    let [count, rounds] =
        count_names("outside.bias").map(|name| graph.parameter_named(&name).expect("a state"));
    let joined: Vec<u64> = found.iter().zip(before).map(|(now, before)| now - before).collect();
    let all = [joined, counts(&own[count], &own[rounds])];
    // By hand: 16 pixels of 9 taps, 2 x 2 + 2 x 2 and 2 x 3 channels; the term is 0.1 * 3 layers * 3 percent of the share.
    let reached = share(&dynamic(), &[1152.0, 864.0], &all);
    let sign = match reached {
        r if r < 3.0 => -1.0,
        r if r >= 3.5 => 1.0,
        _ => 0.0,
    };
    let term = f64::from(outputs[cost].as_f32()[0]);
    assert!((term - sign * 0.1 * 9.0 / 100.0 * reached).abs() < 1e-6, "{term} of {reached}");
}

#[test]
fn a_share_is_that_of_bits_over_32() {
    // 2 and 4 bits with weights of 4: (8 + 16 + 8) / 1024, against 3.
    let low = 100.0 * 32.0 / 1024.0 / 3.0;
    let high = 100.0 * (32.0 + 32.0 + 64.0) / 1024.0 / 3.0;
    let of = |counts: [[u64; 2]; 2]| share(&dynamic(), &[3.0, 1.0], &counts.map(|c| c.to_vec()));
    assert!((of([[5, 0], [5, 0]]) - low).abs() < 1e-12);
    assert!((of([[0, 5], [5, 0]]) - (0.75 * high + 0.25 * low)).abs() < 1e-12);
    assert_eq!(of([[0, 0], [0, 0]]), 0.0);
}

#[test]
fn models_without_an_inner_layer_and_taken_names_are_refused() {
    let mut alone = Graph::new("g");
    let x = alone.add_input("x", TensorType::f32([2, 1, 4, 4]), InputRole::Data);
    let y = conv(&mut alone, "only", x, 2, 1);
    alone.add_output("y", y);
    let message = add_gates(&alone, &dynamic(), 0).unwrap_err().to_string();
    assert!(message.contains("no layer of the model could choose a precision"), "{message}");
    let mut taken = model();
    taken.add_parameter("join.gate.first.weight", Tensor::f32([3, 2], vec![0.0; 6]), true);
    let message = add_gates(&taken, &dynamic(), 0).unwrap_err().to_string();
    assert!(message.contains("the model has a parameter `join.gate.first.weight`"), "{message}");
}

#[test]
fn what_a_file_declares_is_checked() {
    let (_, text) =
        trainc_opt::algorithm::BUILT_IN.iter().find(|(name, _)| *name == "dfq").expect("dfq");
    let refused = |from: &str, to: &str| {
        let changed = text.replace(from, to);
        assert_ne!(changed, *text);
        Algorithm::parse("own", &changed).expect_err(to).to_string()
    };
    let message = refused("bits = [3, 4, 4, 6, 8]", "bits = [3, 4]");
    assert!(message.contains("here 2 and 5"), "{message}");
    let message = refused("gradient_bits = [6, 6, 8, 8, 8]", "gradient_bits = [6, 6, 8, 8, 12]");
    assert!(message.contains("1 to 8 bits, here 12"), "{message}");
    let message = refused("gate = [32, 16]", "gate = [32, 0]");
    assert!(message.contains("1 to 1024 features, here 0"), "{message}");
    let message = refused("band = \"$(band)\"", "band = \"wide\"");
    assert!(message.contains("`wide`"), "{message}");
}
