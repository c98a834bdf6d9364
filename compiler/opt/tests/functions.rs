//! Elementwise functions of one tensor as formulas: the same step as before up to FP32 rounding, forward and back; and as tables under
//! the algorithms of integers: the bits that quantizing each element's FP32 result gives.

use std::sync::Arc;

use trainc_ir::attributes::F32;
use trainc_ir::graph::{Graph, InputRole, ValueId};
use trainc_ir::interpreter::Interpreter;
use trainc_ir::ops::formula::{Formula, Function, Step, Term};
use trainc_ir::ops::{
    Abs, Add, Clip, Conv2d, Dequantize, Div, Erf, EveryCode, Exp, LeakyRelu, Log, Lookup, MatMul,
    Mul, Neg, Occurring, ProductRole, QuantizeExponent, Reciprocal, ReduceMean, Relu, Reshape,
    Sigmoid, Sqrt, Sub, Tanh,
};
use trainc_ir::types::{Element, TensorType};
use trainc_ir::verify::{Stage, verify};
use trainc_ir::{Op, OpKind, RunContext, ScaleData, Tensor};
use trainc_opt::algorithm::Algorithm;
use trainc_opt::functions::gather_functions;
use trainc_opt::losses::{Loss, add_loss};
use trainc_opt::training::{LossSource, training_graph};
use trainc_opt::translate::translate;

fn drawn(seed: u32, shape: &[usize], scale: f32) -> Tensor {
    let run = RunContext { seed: u64::from(seed), step: 0 };
    let count = shape.iter().product::<usize>();
    let draw = |i: usize| (run.draw(7, i as u32) >> 8) as f32 / (1 << 24) as f32 - 0.5;
    Tensor::f32(shape, (0..count).map(|i| draw(i) * scale).collect())
}

fn number(g: &mut Graph, x: f32) -> ValueId {
    g.add_constant("number", Arc::new(Tensor::f32([], vec![x])))
}

/// Activations as imports write them out.
const ACTIVATIONS: [&str; 8] =
    ["hard_swish", "silu", "gelu", "gelu_tanh", "mish", "leaky_relu", "prelu", "softsign"];

fn activation(g: &mut Graph, name: &str, x: ValueId) -> ValueId {
    let n = |g: &mut Graph, op: Op, operands: &[ValueId]| g.add1(op, operands, name).unwrap();
    match name {
        "hard_swish" => {
            let (sixth, half) = (number(g, 1.0 / 6.0), number(g, 0.5));
            let scaled = n(g, Mul {}.into(), &[x, sixth]);
            let shifted = n(g, Add {}.into(), &[scaled, half]);
            let bounds = Clip { min: F32::new(0.0), max: F32::new(1.0) };
            let gate = n(g, bounds.into(), &[shifted]);
            n(g, Mul {}.into(), &[x, gate])
        }
        "silu" => {
            let gate = n(g, Sigmoid {}.into(), &[x]);
            n(g, Mul {}.into(), &[gate, x])
        }
        "gelu" => {
            let (root, one, half) =
                (number(g, std::f32::consts::SQRT_2), number(g, 1.0), number(g, 0.5));
            let scaled = n(g, Div {}.into(), &[x, root]);
            let erf = n(g, Erf {}.into(), &[scaled]);
            let sum = n(g, Add {}.into(), &[erf, one]);
            let product = n(g, Mul {}.into(), &[x, sum]);
            n(g, Mul {}.into(), &[product, half])
        }
        "gelu_tanh" => {
            let (a, b, one, half) =
                (number(g, 0.044_715), number(g, 0.797_884_6), number(g, 1.0), number(g, 0.5));
            let square = n(g, Mul {}.into(), &[x, x]);
            let cube = n(g, Mul {}.into(), &[square, x]);
            let scaled = n(g, Mul {}.into(), &[cube, a]);
            let sum = n(g, Add {}.into(), &[x, scaled]);
            let inner = n(g, Mul {}.into(), &[sum, b]);
            let tanh = n(g, Tanh {}.into(), &[inner]);
            let sum = n(g, Add {}.into(), &[one, tanh]);
            let product = n(g, Mul {}.into(), &[x, sum]);
            n(g, Mul {}.into(), &[half, product])
        }
        "mish" => {
            let most = n(g, Relu {}.into(), &[x]);
            let less = n(g, Sub {}.into(), &[x, most]);
            let power = n(g, Exp {}.into(), &[less]);
            let below = n(g, Neg {}.into(), &[most]);
            let unit = n(g, Exp {}.into(), &[below]);
            let sum = n(g, Add {}.into(), &[power, unit]);
            let logarithm = n(g, Log {}.into(), &[sum]);
            let soft = n(g, Add {}.into(), &[logarithm, most]);
            let gate = n(g, Tanh {}.into(), &[soft]);
            n(g, Mul {}.into(), &[x, gate])
        }
        "leaky_relu" => n(g, LeakyRelu { alpha: F32::new(0.1) }.into(), &[x]),
        "prelu" => {
            let slope = number(g, 0.25);
            let positive = n(g, Relu {}.into(), &[x]);
            let negative = n(g, Sub {}.into(), &[x, positive]);
            let scaled = n(g, Mul {}.into(), &[negative, slope]);
            n(g, Add {}.into(), &[positive, scaled])
        }
        "softsign" => {
            let one = number(g, 1.0);
            let size = n(g, Abs {}.into(), &[x]);
            let sum = n(g, Add {}.into(), &[size, one]);
            n(g, Div {}.into(), &[x, sum])
        }
        _ => unreachable!("{name}"),
    }
}

/// Two convolutions, each with an activation behind it; the second one's is scaled by a gate for each channel.
fn model(name: &str) -> Graph {
    let mut g = Graph::new("net");
    let x = g.add_input("x", TensorType::f32([2, 3, 9, 9]), InputRole::Data);
    let convolution = Conv2d { strides: [1, 1], pads: [1; 4], dilations: [1, 1], groups: 1 };
    let w1 = g.add_parameter("a.weight", drawn(1, &[5, 3, 3, 3], 3.0), true);
    let w2 = g.add_parameter("b.weight", drawn(2, &[5, 5, 3, 3], 1.0), true);
    let w3 = g.add_parameter("gate.weight", drawn(3, &[5, 5, 1, 1], 2.0), true);
    let w4 = g.add_parameter("fc.weight", drawn(4, &[4, 405], 0.3), true);
    let y = g.add1(convolution.clone(), &[x, w1], "a").unwrap();
    let y = activation(&mut g, name, y);
    let y = g.add1(convolution.clone(), &[y, w2], "b").unwrap();
    let y = activation(&mut g, name, y);
    let mean = ReduceMean { axes: vec![2, 3], keep_dims: true };
    let mean = g.add1(mean, &[y], "gate/mean").unwrap();
    let one = Conv2d { pads: [0; 4], ..convolution };
    let gate = g.add1(one, &[mean, w3], "gate/conv").unwrap();
    let gate = g.add1(Sigmoid {}, &[gate], "gate").unwrap();
    let y = g.add1(Mul {}, &[y, gate], "gated").unwrap();
    let y = g.add1(Reshape { shape: [2, 405].into() }, &[y], "flatten").unwrap();
    let fc = MatMul { transpose_a: false, transpose_b: true, role: ProductRole::Forward };
    let y = g.add1(fc, &[y, w4], "fc").unwrap();
    g.add_output("logits", y);
    g
}

fn inputs(graph: &Graph) -> Vec<Tensor> {
    let input = |input: &trainc_ir::graph::Input| match input.role {
        InputRole::Data => drawn(9, &[2, 3, 9, 9], 4.0),
        InputRole::Labels => Tensor::i32([2], vec![3, 0]),
        _ => Tensor::f32([], vec![0.5]),
    };
    graph.inputs().iter().map(input).collect()
}

fn count(graph: &Graph, kind: OpKind) -> usize {
    graph.nodes().iter().filter(|node| node.op.kind() == kind).count()
}

/// Both graphs make the same step, up to the rounding of FP32.
fn same_step(training: &Graph, gathered: &Graph, name: &str) {
    let [before, after] = [training, gathered].map(|graph| {
        let mut interpreter = Interpreter::new(graph);
        let outputs = interpreter.step(&inputs(graph), &RunContext::default()).unwrap();
        outputs.into_iter().chain(interpreter.parameters().to_vec()).collect::<Vec<Tensor>>()
    });
    assert_eq!(before.len(), after.len());
    for (a, b) in before.iter().zip(&after) {
        assert_eq!(a.ty(), b.ty());
        let largest = a.as_f32().iter().fold(0.0f32, |m, x| m.max(x.abs()));
        for (x, y) in a.as_f32().iter().zip(b.as_f32()) {
            assert!((x - y).abs() <= 4e-6 * largest.max(1.0), "{name}: {x} and {y}");
        }
    }
}

#[test]
fn a_step_stays_as_it_is_up_to_rounding() {
    for name in ACTIVATIONS {
        let training = training_graph(&model(name), None).unwrap();
        let gathered = gather_functions(&training, 64).unwrap();
        verify(&gathered, &Stage::Float).unwrap();
        // Each activation's value and its slope, and nothing left of what they are made of.
        assert_eq!(count(&gathered, OpKind::Formula), 4, "{name}\n{gathered}");
        for kind in
            [OpKind::Clip, OpKind::ClipGradient, OpKind::Tanh, OpKind::Erf, OpKind::LeakyRelu]
        {
            assert_eq!(count(&gathered, kind), 0, "{name}: {}", kind.name());
        }
        same_step(&training, &gathered, name);
    }
}

#[test]
fn algorithms_of_integers_have_tables_and_products_of_codes() {
    for algorithm in ["niti", "niti-finetune"] {
        let mut algorithm = Algorithm::built_in(algorithm).unwrap();
        algorithm.gather_functions = Some(64);
        for name in ACTIVATIONS {
            let training = training_graph(&model(name), None).unwrap();
            let (module, translation) = translate(&training, &algorithm).unwrap();
            // Two results and two slopes; the gate forward, the errors of both its operands, and of both activations.
            assert_eq!(count(&module, OpKind::Lookup), 4, "{name}\n{module}");
            let floated = &translation.floated;
            assert_eq!(count(&module, OpKind::IntegerMul), 5, "{name}: {floated:?}\n{module}");
            // The gate's own sigmoid and mean are FP32, and what no algorithm translates.
            let own = |(name, kind): &&(String, OpKind)| {
                name.starts_with("gate") || name.starts_with("loss") || *kind == OpKind::SgdUpdate
            };
            assert!(floated.iter().all(|node| own(&node)), "{name}: {floated:?}");
        }
    }
}

/// What a table gives is what quantizing each element's own result gives: the same codes and exponent.
#[test]
fn tables_have_the_bits_of_the_elements_own_results() {
    let (x, s) = (Term::Operand(0), Term::Step);
    let n = |value: f32| Term::Number(F32::new(value));
    let step = |function, terms: &[Term]| Step { function, terms: terms.to_vec() };
    let formulas = [
        (vec![step(Function::Sigmoid, &[x]), step(Function::Mul, &[x, s(0)])], s(1)),
        (vec![step(Function::Tanh, &[x])], s(0)),
        (vec![step(Function::Exp, &[x])], s(0)),
        (vec![step(Function::Reciprocal, &[x])], s(0)),
        (vec![step(Function::Log, &[x])], s(0)),
        (vec![step(Function::Sub, &[x, x])], s(0)),
        (vec![step(Function::Maximum, &[x, n(0.5)]), step(Function::Mul, &[s(0), s(0)])], s(1)),
    ];
    for (number, (steps, result)) in formulas.into_iter().enumerate() {
        let formula = Formula { steps, results: vec![result] };
        for element in [Element::I8, Element::U8] {
            for (range, exponent) in [(256i64, -3), (256, 3), (40, -7), (3, -5), (1, 0)] {
                let ty = TensorType::shared([7, 43], element);
                let run = RunContext { seed: 5, step: number as u32 };
                let (low, high) = element.integer_range().unwrap();
                let draw =
                    |i| i64::from(run.draw(1, i)) % range - if low < 0 { range / 2 } else { 0 };
                let codes: Vec<i64> = (0..301).map(|i| draw(i).clamp(low, high)).collect();
                let q = Tensor::from_i64(&ty, &codes, ScaleData::Exponent(exponent));
                let mut g = Graph::new("g");
                let input = g.add_input("q", ty, InputRole::Data);
                let real = g.add1(Dequantize {}, &[input], "real").unwrap();
                let own = g.add1(formula.clone(), &[real], "own").unwrap();
                let own = g.add1(QuantizeExponent {}, &[own], "own").unwrap();
                let codes = g.add1(EveryCode {}, &[input], "codes").unwrap();
                let real = g.add1(Dequantize {}, &[codes], "reals").unwrap();
                let table = g.add1(formula.clone(), &[real], "table").unwrap();
                let mask = g.add1(Occurring {}, &[input], "mask").unwrap();
                let table = g.add1(Mul {}, &[table, mask], "table").unwrap();
                let table = g.add1(QuantizeExponent {}, &[table], "table").unwrap();
                let found = g.add1(Lookup {}, &[table, input], "found").unwrap();
                g.add_output("own", own);
                g.add_output("found", found);
                let results = Interpreter::new(&g).step(&[q], &RunContext::default()).unwrap();
                assert!(results[0].bits_equal(&results[1]), "{number}: {results:?}");
            }
        }
    }
}

/// A convolution, what `middle` makes of its result, and a matrix product.
fn around(middle: impl FnOnce(&mut Graph, ValueId) -> ValueId) -> Graph {
    let mut g = Graph::new("net");
    let x = g.add_input("x", TensorType::f32([2, 3, 9, 9]), InputRole::Data);
    let convolution = Conv2d { strides: [1, 1], pads: [1; 4], dilations: [1, 1], groups: 1 };
    let w1 = g.add_parameter("a.weight", drawn(1, &[5, 3, 3, 3], 3.0), true);
    let w2 = g.add_parameter("fc.weight", drawn(4, &[4, 405], 0.3), true);
    let y = g.add1(convolution, &[x, w1], "a").unwrap();
    let y = middle(&mut g, y);
    let y = g.add1(Reshape { shape: [2, 405].into() }, &[y], "flatten").unwrap();
    let fc = MatMul { transpose_a: false, transpose_b: true, role: ProductRole::Forward };
    let y = g.add1(fc, &[y, w2], "fc").unwrap();
    g.add_output("logits", y);
    g
}

/// What is squared for a variance in FP32 stays there, and with it the rest of a layer normalization.
#[test]
fn normalizations_are_no_functions_of_one_tensor() {
    for root in [false, true] {
        let model = around(|g, x| {
            let mean = ReduceMean { axes: vec![1, 2, 3], keep_dims: true };
            let centred = match root {
                true => x,
                false => {
                    let own = g.add1(mean.clone(), &[x], "mean").unwrap();
                    g.add1(Sub {}, &[x, own], "centred").unwrap()
                }
            };
            let square = g.add1(Mul {}, &[centred, centred], "square").unwrap();
            let variance = g.add1(mean, &[square], "variance").unwrap();
            let deviation = g.add1(Sqrt {}, &[variance], "deviation").unwrap();
            match root {
                true => {
                    let inverse = g.add1(Reciprocal {}, &[deviation], "inverse").unwrap();
                    g.add1(Mul {}, &[centred, inverse], "normal").unwrap()
                }
                false => g.add1(Div {}, &[centred, deviation], "normal").unwrap(),
            }
        });
        let training = training_graph(&model, None).unwrap();
        assert_eq!(count(&gather_functions(&training, 64).unwrap(), OpKind::Formula), 0);
    }
}

/// The loss is FP32, and its gradient.
#[test]
fn losses_are_no_functions_of_one_tensor() {
    for loss in [Some(Loss::MeanSquaredError), Some(Loss::BinaryCrossEntropy), None] {
        let mut g = Graph::new("net");
        let x = g.add_input("x", TensorType::f32([2, 3, 9, 9]), InputRole::Data);
        let w = g.add_parameter("a.weight", drawn(1, &[5, 3, 3, 3], 3.0), true);
        let op = Conv2d { strides: [1, 1], pads: [1; 4], dilations: [1, 1], groups: 1 };
        let y = g.add1(op, &[x, w], "a").unwrap();
        g.add_output("map", y);
        // The last is a model's own, of cubes.
        let value = loss.map(|loss| add_loss(&mut g, loss).unwrap()).unwrap_or_else(|| {
            let targets = g.add_input("targets", g.ty(y).clone(), InputRole::Labels);
            let difference = g.add1(Sub {}, &[y, targets], "difference").unwrap();
            let size = g.add1(Abs {}, &[difference], "size").unwrap();
            let square = g.add1(Mul {}, &[size, size], "square").unwrap();
            let cube = g.add1(Mul {}, &[square, size], "cube").unwrap();
            let mean = ReduceMean { axes: vec![0, 1, 2, 3], keep_dims: false };
            g.add1(mean, &[cube], "loss").unwrap()
        });
        let training = training_graph(&g, Some(LossSource::Model(value))).unwrap();
        let gathered = gather_functions(&training, 64).unwrap();
        assert_eq!(count(&gathered, OpKind::Formula), 0, "{loss:?}\n{gathered}");
    }
}

/// Errors through functions of two values in a row, and times 1, are the same up to rounding.
#[test]
fn errors_go_on_behind_another_function() {
    let model = around(|g, x| {
        let one = number(g, 1.0);
        let own = activation(g, "silu", x);
        let op = Conv2d { strides: [1, 1], pads: [0; 4], dilations: [1, 1], groups: 1 };
        let [skip, weight] = [5, 6].map(|seed| {
            let name = format!("{seed}.weight");
            g.add_parameter(name, drawn(seed, &[5, 5, 1, 1], 2.0), true)
        });
        let skip = g.add1(op.clone(), &[x, skip], "skip").unwrap();
        let sum = g.add1(Add {}, &[own, skip], "sum").unwrap();
        let bound = g.add1(Relu {}, &[sum], "bound").unwrap();
        let other = g.add1(op, &[bound, weight], "b").unwrap();
        let other_own = activation(g, "silu", other);
        let product = g.add1(Mul {}, &[other, x], "product").unwrap();
        let scaled = g.add1(Mul {}, &[product, one], "scaled").unwrap();
        g.add1(Add {}, &[scaled, other_own], "both").unwrap()
    });
    let training = training_graph(&model, None).unwrap();
    let gathered = gather_functions(&training, 64).unwrap();
    verify(&gathered, &Stage::Float).unwrap();
    // Two functions and their slopes.
    assert_eq!(count(&gathered, OpKind::Formula), 4, "{gathered}");
    same_step(&training, &gathered, "two in a row");
}
