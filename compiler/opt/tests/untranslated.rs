//! What cannot be translated is named: the operations without a rule, not those around them; and what was once refused
//! without a reason trains.

use trainc_ir::attributes::F32;
use trainc_ir::graph::{Graph, InputRole, ValueId};
use trainc_ir::interpreter::Interpreter;
use trainc_ir::ops::{
    Add, Concat, Conv2d, Dropout, LeakyRelu, MatMul, Neg, ProductRole, Reshape, Tanh,
};
use trainc_ir::types::TensorType;
use trainc_ir::{OpKind, RunContext, Tensor};
use trainc_opt::algorithm::Algorithm;
use trainc_opt::coverage::{Coverage, coverage};
use trainc_opt::training::{training_graph, training_graph_under};
use trainc_opt::translate::{TranslateError, translate};
use trainc_opt::untranslated::without_rule;

fn weights(seed: u32, shape: &[usize]) -> Tensor {
    let run = RunContext { seed: u64::from(seed), step: 0 };
    let count = shape.iter().product::<usize>();
    let data =
        (0..count).map(|i| (run.draw(7, i as u32) >> 8) as f32 / (1 << 24) as f32 - 0.5).collect();
    Tensor::f32(shape, data)
}

/// A convolution with a bias over `[batch, 3, size, size]` to 4 channels.
fn convolution(g: &mut Graph, batch: usize, size: usize) -> ValueId {
    let x = g.add_input("x", TensorType::f32([batch, 3, size, size]), InputRole::Data);
    let w = g.add_parameter("conv.weight", weights(1, &[4, 3, 1, 1]), true);
    let bias = g.add_parameter("conv.bias", weights(2, &[4]), true);
    let op = Conv2d { strides: [1, 1], pads: [0; 4], dilations: [1, 1], groups: 1 };
    let y = g.add1(op, &[x, w], "conv").unwrap();
    let bias = g.add1(Reshape { shape: [1, 4, 1, 1].into() }, &[bias], "conv/bias").unwrap();
    g.add1(Add {}, &[y, bias], "conv/add").unwrap()
}

fn scores(g: &mut Graph, y: ValueId) {
    let shape = g.ty(y).shape.clone();
    let flat = [shape[0], shape[1..].iter().product()];
    let y = g.add1(Reshape { shape: flat.into() }, &[y], "flatten").unwrap();
    let w = g.add_parameter("fc.weight", weights(3, &[5, flat[1]]), true);
    let op = MatMul { transpose_a: false, transpose_b: true, role: ProductRole::Forward };
    let y = g.add1(op, &[y, w], "fc").unwrap();
    g.add_output("scores", y);
}

/// NITI as an algorithm that computes nothing in FP32.
fn strict() -> Algorithm {
    let text = Algorithm::built_in("niti").unwrap().text;
    Algorithm::parse("strict.toml", &text.replace("\"float\"", "\"refuse\"")).unwrap()
}

/// What it says of a model: the groups, and the message.
fn refused(model: &Graph) -> (Vec<(&'static str, Vec<String>)>, String) {
    let error = translate(&training_graph(model, None).unwrap(), &strict()).unwrap_err();
    let TranslateError::Untranslated { nodes, .. } = &error else { panic!("{error}") };
    let groups = without_rule(nodes).into_iter().map(|g| (g.op.name(), g.nodes)).collect();
    (groups, error.to_string())
}

#[test]
fn an_activation_is_named_not_the_convolution_before_it() {
    let mut g = Graph::new("leaky");
    let mut y = convolution(&mut g, 2, 2);
    for name in ["first", "second"] {
        y = g.add1(LeakyRelu { alpha: 0.5.into() }, &[y], name).unwrap();
    }
    scores(&mut g, y);
    let (groups, message) = refused(&g);
    let names: Vec<&str> = groups.iter().map(|(op, _)| *op).collect();
    assert_eq!(names, ["leaky_relu", "leaky_relu_gradient"], "{message}");
    assert_eq!(groups[0].1, ["first", "second"]);
    assert!(message.contains("2 nodes: `first`, `second`"), "{message}");
    assert!(message.contains("`--algorithm fp32`"), "{message}");
    for innocent in ["conv", "fc", "aligned"] {
        assert!(!message.contains(innocent), "{message}");
    }
}

#[test]
fn every_operation_without_a_rule_is_listed() {
    let mut g = Graph::new("neg");
    let y = convolution(&mut g, 2, 2);
    let y = g.add1(Neg {}, &[y], "minus").unwrap();
    let y = g.add1(Tanh {}, &[y], "bend").unwrap();
    scores(&mut g, y);
    let (groups, message) = refused(&g);
    for (op, node) in [("neg", "minus"), ("tanh", "bend")] {
        let group = groups.iter().find(|(name, _)| *name == op).expect(op);
        assert_eq!(group.1[0], node, "{message}");
    }
    assert!(!message.contains("matmul"), "{message}");
}

/// At batch 1 nothing is summed over a 1x1 map: the gradient of the bias is the error itself.
#[test]
fn the_bias_of_a_single_pixel_trains() {
    let mut g = Graph::new("pixel");
    let y = convolution(&mut g, 1, 1);
    scores(&mut g, y);
    let niti = Algorithm::built_in("niti").unwrap();
    let (module, _) = translate(&training_graph(&g, None).unwrap(), &niti).unwrap();
    let mut interpreter = Interpreter::new(&module);
    let bias = module.parameter_named("conv.bias").unwrap();
    let before = interpreter.parameters()[bias].to_i64();
    let inputs = [weights(9, &[1, 3, 1, 1]), Tensor::i32([1], vec![2]), Tensor::i32([], vec![5])];
    interpreter.step(&inputs, &RunContext { seed: 3, step: 0 }).unwrap();
    assert_ne!(interpreter.parameters()[bias].to_i64(), before);
}

/// Nor over one whose error is FP32, as before an activation without a rule: the gradient of the bias becomes integers as it does at
/// larger batches.
#[test]
fn the_bias_of_a_single_pixel_before_floats_trains() {
    for (name, rate) in
        [("niti", Tensor::i32([], vec![5])), ("niti-finetune", Tensor::f32([], vec![0.5]))]
    {
        let mut g = Graph::new("pixel");
        let y = convolution(&mut g, 1, 1);
        let y = g.add1(Tanh {}, &[y], "tanh").unwrap();
        scores(&mut g, y);
        let algorithm = Algorithm::built_in(name).unwrap();
        let training = training_graph_under(&g, None, &algorithm).unwrap();
        let (module, report) = translate(&training, &algorithm).unwrap();
        assert!(report.floated.iter().any(|(_, kind)| kind.name() == "tanh"), "{name}");
        let mut interpreter = Interpreter::new(&module);
        let bias = module.parameter_named("conv.bias").unwrap();
        let before = interpreter.parameters()[bias].to_i64();
        let inputs = [weights(9, &[1, 3, 1, 1]), Tensor::i32([1], vec![2]), rate];
        interpreter.step(&inputs, &RunContext { seed: 3, step: 0 }).unwrap();
        assert_ne!(interpreter.parameters()[bias].to_i64(), before, "{name}");
    }
}

#[test]
fn coverage_of_the_built_in_algorithms() {
    let of = |name: &str| coverage(&Algorithm::built_in(name).unwrap());
    let find = |all: &[(OpKind, Coverage)], kind: OpKind| {
        all.iter().find(|(k, _)| *k == kind).expect("an FP32 operation").1
    };
    let (niti, strict) = (of("niti"), coverage(&strict()));
    let integers = [
        OpKind::Conv2d,
        OpKind::MatMul,
        OpKind::Relu,
        OpKind::AvgPool2d,
        OpKind::Concat,
        OpKind::BatchNorm,
    ];
    for kind in integers {
        assert_eq!(find(&niti, kind), Coverage::Trains, "{}", kind.name());
    }
    for kind in [OpKind::Softmax, OpKind::LeakyRelu, OpKind::Neg, OpKind::Mul] {
        assert_eq!(find(&niti, kind), Coverage::Float, "{}", kind.name());
        assert_eq!(find(&strict, kind), Coverage::None, "{}", kind.name());
    }
    assert!(of("fp32").iter().all(|(_, coverage)| *coverage == Coverage::Trains));
}

/// Where the rules of an operation do not fit a node, it is FP32 as if it had none.
#[test]
fn what_a_rule_refuses_is_computed_in_floats() {
    let mut g = Graph::new("refused");
    let y = convolution(&mut g, 2, 3);
    // Integers drop with probability one half alone; `niti` joins any number, `niti-finetune` has no rule for it.
    let parts = vec![y; 7];
    let y = g.add1(Concat { axis: 1 }, &parts, "concat").unwrap();
    let y = g.add(Dropout { ratio: F32::new(0.2), stream: 0 }, &[y], "dropout").unwrap()[0];
    scores(&mut g, y);
    let training = training_graph(&g, None).unwrap();
    let TranslateError::Untranslated { nodes, .. } = translate(&training, &strict()).unwrap_err()
    else {
        panic!("it translates")
    };
    assert!(!nodes.is_empty());
    let translated = |name: &str| {
        let algorithm = Algorithm::built_in(name).unwrap();
        let training = training_graph_under(&g, None, &algorithm).unwrap();
        let (module, report) = translate(&training, &algorithm).expect("it translates");
        let floated: Vec<&str> = report.floated.iter().map(|(_, kind)| kind.name()).collect();
        assert!(floated.contains(&"dropout"), "{name}: {floated:?}");
        assert_eq!(floated.contains(&"concat"), name != "niti", "{name}: {floated:?}");
        assert!(!floated.contains(&"conv2d") && !floated.contains(&"matmul"), "{floated:?}");
        module
    };
    translated("niti");
    let module = translated("niti-finetune");
    // It runs, and its loss is near that of the FP32 step.
    let run = RunContext { seed: 3, step: 0 };
    let x = weights(9, &[2, 3, 3, 3]);
    let labels = Tensor::i32([2], vec![1, 4]);
    let loss = |graph: &Graph, rate: Tensor| {
        let results = Interpreter::new(graph).step(&[x.clone(), labels.clone(), rate], &run);
        let outputs = graph.outputs().iter();
        let place = outputs.clone().position(|o| o.name == "loss").expect("a loss");
        results.expect("a step")[place].as_f32()[0]
    };
    let float = loss(&training, Tensor::f32([], vec![0.0]));
    let integer = loss(&module, Tensor::f32([], vec![0.0]));
    assert!((float - integer).abs() < 0.1 * float, "{float} in FP32, {integer}");
}
