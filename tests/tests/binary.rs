//! Binary networks whose weights are frozen: bits in place of codes, the same results; and those that PyTorch exported.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use trainc_data::{NpyData, read_npz};
use trainc_driver::config::Config;
use trainc_driver::model::ModelSource;
use trainc_driver::session::{Entries, INFER, Session, TRAIN_STEP};
use trainc_host::HostProgram;
use trainc_ir::graph::{Graph, InputRole, ValueId};
use trainc_ir::interpreter::Interpreter;
use trainc_ir::ops::{
    BatchNorm, BinaryConv2d, Clip, Conv2d, DequantizeLinear, MatMul, MaxPool2d, ProductRole, Relu,
    Reshape, SignBits, Transpose,
};
use trainc_ir::target::Target;
use trainc_ir::verify::Stage;
use trainc_ir::{Element, Op, OpKind, RunContext, ScaleData, Tensor, TensorType};
use trainc_opt::algorithm::Algorithm;
use trainc_opt::constants::fold_constants;
use trainc_opt::freeze::freeze;
use trainc_opt::optimise::{OptimiseOptions, optimise};
use trainc_opt::plan::{PlanEntry, PlanOptions, plan};
use trainc_opt::rules::instance::Random;
use trainc_opt::translate::translate;

const ANY: Stage = Stage::Quantized { float_operations: None };

fn unit(random: &mut Random) -> f32 {
    (random.bits() >> 40) as f32 / (1u32 << 23) as f32 - 1.0
}

fn drawn(random: &mut Random, shape: &[usize]) -> Tensor {
    Tensor::f32(shape, (0..shape.iter().product()).map(|_| unit(random)).collect())
}

struct Net {
    graph: Graph,
    random: Random,
}

impl Net {
    fn parameter(&mut self, shape: &[usize]) -> ValueId {
        let name = format!("p{}", self.graph.parameters().len());
        let value = drawn(&mut self.random, shape);
        self.graph.add_parameter(name, value, true)
    }

    fn conv(&mut self, x: ValueId, features: usize, groups: usize) -> ValueId {
        let channels = self.graph.ty(x).shape[1] / groups;
        let w = self.parameter(&[features, channels, 3, 3]);
        let pads = [1, 0, 1, 1];
        let op = Conv2d { strides: [1, 1], pads, dilations: [1, 1], groups };
        self.graph.add1(op, &[x, w], "conv").unwrap()
    }

    /// Gains of both signs, and 0.
    fn norm(&mut self, x: ValueId) -> ValueId {
        let channels = self.graph.ty(x).shape[1];
        let gains = (0..channels).map(|c| [1.5, -0.75, 0.0][c % 3] * (1.0 + c as f32)).collect();
        let gains = Tensor::f32([channels], gains);
        let variance = Tensor::f32([channels], vec![7.5; channels]);
        let n = self.graph.parameters().len();
        let mut operands = vec![x, self.graph.add_parameter(format!("p{n}"), gains, true)];
        operands.extend([(); 2].map(|()| self.parameter(&[channels])));
        operands.push(self.graph.add_parameter(format!("p{}", n + 3), variance, false));
        let op = BatchNorm { epsilon: 1e-4f32.into(), batch: false };
        self.graph.add1(op, &operands, "norm").unwrap()
    }

    fn relu(&mut self, x: ValueId) -> ValueId {
        self.graph.add1(Relu {}, &[x], "relu").unwrap()
    }

    fn pool(&mut self, x: ValueId) -> ValueId {
        let op = MaxPool2d {
            kernel: [2, 2],
            strides: [2, 2],
            pads: [0; 4],
            dilations: [1, 1],
            ceil: false,
        };
        self.graph.add1(op, &[x], "pool").unwrap()
    }

    fn linear(&mut self, x: ValueId, features: usize) -> ValueId {
        let inputs = self.graph.ty(x).shape[1];
        let w = self.parameter(&[features, inputs]);
        let op = MatMul { transpose_a: false, transpose_b: true, role: ProductRole::Forward };
        self.graph.add1(op, &[x, w], "linear").unwrap()
    }
}

/// Pools before and behind batch norm, channels that are no whole bytes, a flattened map and rows.
fn net() -> Graph {
    let mut net = Net { graph: Graph::new("net"), random: Random::new(3) };
    let x = net.graph.add_input("x", TensorType::f32([2, 3, 9, 8]), InputRole::Data);
    let mut y = net.conv(x, 5, 1);
    for (features, early) in [(9, true), (17, false)] {
        y = net.norm(y);
        y = net.relu(y);
        y = net.conv(y, features, 1);
        y = if early { net.pool(y) } else { y };
    }
    y = net.norm(y);
    y = net.relu(y);
    y = net.pool(y);
    let shape = net.graph.ty(y).shape.clone();
    let op = Reshape { shape: [2, shape.count() / 2].into() };
    y = net.graph.add1(op, &[y], "flat").unwrap();
    for features in [13, 11, 4] {
        y = net.linear(y, features);
        if features > 4 {
            y = net.norm(y);
            y = net.relu(y);
        }
    }
    net.graph.add_output("y", y);
    net.graph
}

fn run(graph: &Graph, x: &Tensor) -> Tensor {
    let inputs = std::slice::from_ref(x);
    Interpreter::new(graph).step(inputs, &RunContext::default()).expect("runs").remove(0)
}

/// Operations of a kind, those of chains too.
fn count(graph: &Graph, kind: OpKind) -> usize {
    let parts = |op: &Op| match op {
        Op::Chain(chain) => chain.ops.clone(),
        op => vec![op.clone()],
    };
    graph.nodes().iter().flat_map(|node| parts(&node.op)).filter(|op| op.kind() == kind).count()
}

fn optimised(graph: &Graph, target: &dyn Target) -> Graph {
    optimise(graph, &ANY, target, &OptimiseOptions::default()).expect("optimises").0
}

#[test]
fn frozen_networks_compute_with_bits() {
    let model = net();
    let algorithm = Algorithm::built_in("bnn-ste").expect("an algorithm");
    let (trained, _) = translate(&model, &algorithm).expect("translates");
    let all: BTreeSet<usize> = (0..model.parameters().len()).collect();
    let (frozen, _) = translate(&freeze(&model, &all).unwrap(), &algorithm).expect("translates");
    let bits = optimised(&fold_constants(&frozen).unwrap(), &trainc_c::C);
    let count = |kind| count(&bits, kind);
    assert_eq!(count(OpKind::BinaryConv2d), 4);
    // The signs of floats alone are those behind the first layer; the last layer takes floats.
    assert_eq!((count(OpKind::SignBits), count(OpKind::Threshold)), (1, 3));
    assert_eq!((count(OpKind::QuantizeSteps), count(OpKind::Dequantize)), (0, 0));
    // A bit a weight, and what fills up bytes.
    let constants =
        || bits.value_ids().filter(|&v| bits.constant_of(v).is_some()).map(|v| bits.ty(v));
    let stored: usize =
        constants().filter(|ty| ty.element == Element::B1).map(TensorType::element_bytes).sum();
    let weights = 9 * 5 * 9 + 17 * 9 * 9 + 13 * 34 + 11 * 13;
    assert!((weights / 8..weights / 4).contains(&stored), "{stored} bytes");
    assert!(constants().all(|ty| ty.element != Element::I8));
    let mut random = Random::new(5);
    for _ in 0..6 {
        let x = drawn(&mut random, &[2, 3, 9, 8]);
        let (expected, found) = (run(&trained, &x), run(&bits, &x));
        assert!(found.bits_equal(&expected));
    }
}

/// Groups of channels, whole bytes and not, and one of each channel: bits on every kind of target, with the floats' results.
#[test]
fn grouped_layers_compute_with_bits() {
    let mut net = Net { graph: Graph::new("groups"), random: Random::new(7) };
    let x = net.graph.add_input("x", TensorType::f32([2, 3, 8, 7]), InputRole::Data);
    let mut y = net.conv(x, 32, 1);
    // Groups and features.
    let layers = [(2, 32), (4, 24), (2, 16), (16, 16), (1, 5)];
    for (groups, features) in layers {
        y = net.norm(y);
        y = net.relu(y);
        y = net.conv(y, features, groups);
    }
    net.graph.add_output("y", y);
    let model = net.graph;
    let algorithm = Algorithm::built_in("bnn-ste").expect("an algorithm");
    let (trained, _) = translate(&model, &algorithm).expect("translates");
    let all: BTreeSet<usize> = (0..model.parameters().len()).collect();
    let (frozen, _) = translate(&freeze(&model, &all).unwrap(), &algorithm).expect("translates");
    let frozen = fold_constants(&frozen).unwrap();
    // A group of one channel takes a byte, which its cost may not be worth.
    let targets: [(&dyn Target, usize); 3] =
        [(&trainc_c::C, 3), (&trainc_host::HOST, 4), (&trainc_opencl::OPENCL, 4)];
    for (target, products) in targets {
        let bits = optimised(&frozen, target);
        let name = target.description().name;
        assert_eq!(count(&bits, OpKind::BinaryConv2d), products, "{name}");
        let entries = [PlanEntry { name: "infer", graph: &bits }];
        let (program, _) =
            plan("groups", &entries, &trainc_host::HOST, &PlanOptions::default()).expect("plans");
        // Its kernels for programs in memory, which artifacts do not have.
        let mut host = HostProgram::compile(&program).expect("compiles");
        let mut random = Random::new(11);
        for _ in 0..4 {
            let x = drawn(&mut random, &[2, 3, 8, 7]);
            let expected = run(&trained, &x);
            assert!(run(&bits, &x).bits_equal(&expected), "{name}");
            let found = host.run("infer", &[&x], &RunContext::default()).expect("runs");
            assert!(found[0].bits_equal(&expected), "{name}, in memory");
        }
    }
}

/// Every sum of nine signs under batch norms of any sign, 0 and -0 among the gains, with and without a clip: the threshold is
/// that of the floats.
#[test]
fn every_sum_has_the_sign_of_its_floats() {
    const CHANNELS: usize = 9;
    let mut norms = Vec::new();
    for gain in [-2.0f32, -1e-30, -0.0, 0.0, 1e-30, 0.3, 3.0] {
        for shift in [-1.0f32, -0.0, 0.0, 0.25, 1e20] {
            for mean in [-3.0f32, -0.5, 0.0, 2.75] {
                norms.extend([0.0f32, 1.0, 4e-9].map(|variance| [gain, shift, mean, variance]));
            }
        }
    }
    let features = norms.len();
    let all = 1usize << CHANNELS;
    let b1 = |shape: [usize; 4], bit: &dyn Fn(usize) -> bool| {
        let ty = TensorType::new(shape, Element::B1);
        let bits: Vec<i64> = (0..ty.count()).map(|i| bit(i).into()).collect();
        Tensor::from_i64(&ty, &bits, ScaleData::None)
    };
    for clipped in [false, true] {
        let mut g = Graph::new("sums");
        let x = g.add_input("x", TensorType::new([all, 1, 1, 16], Element::B1), InputRole::Data);
        let w = b1([features, 1, 1, 16], &|i| i % 16 < CHANNELS);
        let w = g.add_constant("w", w);
        let (strides, dilations) = ([1, 1], [1, 1]);
        let op = BinaryConv2d {
            strides,
            pads: [0; 4],
            dilations,
            groups: 1,
            padding: 0,
            channels: CHANNELS,
        };
        let sums = g.add1(op, &[x, w], "sums").unwrap();
        let first = Transpose { permutation: vec![0, 3, 1, 2] };
        let first = g.add1(first, &[sums], "first").unwrap();
        let one = g.add_constant("one", Tensor::f32([], vec![1.0]));
        let zero = g.add_constant("zero", Tensor::i32([], vec![0]));
        let mut y = g.add1(DequantizeLinear { axis: 0 }, &[first, one, zero], "real").unwrap();
        let mut operands = vec![y];
        for i in 0..4 {
            let values = norms.iter().map(|norm| norm[i]).collect();
            operands.push(g.add_constant("vector", Tensor::f32([features], values)));
        }
        let norm = BatchNorm { epsilon: 1e-5f32.into(), batch: false };
        y = g.add1(norm, &operands, "norm").unwrap();
        if clipped {
            y = g.add1(Clip { min: (-1.0).into(), max: 1.0.into() }, &[y], "clip").unwrap();
        }
        y = g.add1(SignBits {}, &[y], "bits").unwrap();
        g.add_output("y", y);
        let bits = optimised(&g, &trainc_c::C);
        assert_eq!((count(&bits, OpKind::Threshold), count(&bits, OpKind::BatchNorm)), (1, 0));
        // Every pattern of nine signs.
        let x = b1([all, 1, 1, 16], &|i| i % 16 < CHANNELS && (i / 16) >> (i % 16) & 1 == 1);
        assert!(run(&bits, &x).bits_equal(&run(&g, &x)));
    }
}

/// Every pair of bytes by every pair of signs: the sums of FP32, in integers, for scales that are powers of two and for no other.
#[test]
fn every_pair_of_bytes_sums_as_floats_do() {
    let bytes = |element| {
        let ty = TensorType::new([1, 2, 256, 256], element);
        let values: Vec<i64> = (0..ty.count())
            .map(|i| (if i < 1 << 16 { i >> 8 } else { i & 255 }) as i64)
            .map(|byte| if element == Element::U8 { byte } else { byte - 128 })
            .collect();
        Tensor::from_i64(&ty, &values, ScaleData::None)
    };
    for element in [Element::U8, Element::I8] {
        for (scale, exact) in [(1.0f32, true), (2f32.powi(-8), true), (1.0 / 255.0, false)] {
            let x = bytes(element);
            let mut g = Graph::new("bytes");
            let input = g.add_input("x", x.ty().clone(), InputRole::Data);
            let scale = g.add_constant("scale", Tensor::f32([], vec![scale]));
            let zero = TensorType::new([0usize; 0], element);
            let zero = Tensor::from_i64(&zero, &[0], ScaleData::None);
            let zero = g.add_constant("zero", zero);
            let real = g.add1(DequantizeLinear { axis: 0 }, &[input, scale, zero], "real").unwrap();
            // As many features as make integers pay.
            let signs = [1.0, 1.0, 1.0, -1.0, -1.0, 1.0, -1.0, -1.0].repeat(16);
            let w = g.add_constant("w", Tensor::f32([64, 2, 1, 1], signs));
            let op = Conv2d { strides: [1, 1], pads: [0; 4], dilations: [1, 1], groups: 1 };
            let y = g.add1(op, &[real, w], "sums").unwrap();
            g.add_output("y", y);
            let sums = optimised(&g, &trainc_opencl::OPENCL);
            let found = (count(&sums, OpKind::IntegerConv2d), count(&sums, OpKind::Conv2d));
            assert_eq!(found, if exact { (1, 0) } else { (0, 1) }, "{element:?}");
            assert!(run(&sums, &x).bits_equal(&run(&g, &x)));
        }
    }
}

/// The same of a matrix product, of rows and of a flattened map.
#[test]
fn products_of_bytes_by_signs_are_integers() {
    let mut random = Random::new(9);
    for flattened in [false, true] {
        let shape: &[usize] = if flattened { &[64, 4, 7, 28] } else { &[64, 784] };
        let ty = TensorType::new(shape, Element::U8);
        let values: Vec<i64> = (0..ty.count()).map(|_| (random.bits() >> 56) as i64).collect();
        let x = Tensor::from_i64(&ty, &values, ScaleData::None);
        let mut g = Graph::new("bytes");
        let input = g.add_input("x", ty, InputRole::Data);
        let scale = g.add_constant("scale", Tensor::f32([], vec![1.0]));
        let zero = TensorType::new([0usize; 0], Element::U8);
        let zero = g.add_constant("zero", Tensor::from_i64(&zero, &[0], ScaleData::None));
        let mut y = g.add1(DequantizeLinear { axis: 0 }, &[input, scale, zero], "real").unwrap();
        if flattened {
            y = g.add1(Reshape { shape: [64, 784].into() }, &[y], "flat").unwrap();
        }
        let signs = (0..96 * 784).map(|_| 1.0 - 2.0 * (random.bits() >> 63) as f32).collect();
        let w = g.add_constant("w", Tensor::f32([96, 784], signs));
        let op = MatMul { transpose_a: false, transpose_b: true, role: ProductRole::Forward };
        y = g.add1(op, &[y, w], "sums").unwrap();
        g.add_output("y", y);
        let sums = optimised(&g, &trainc_opencl::OPENCL);
        let found = (count(&sums, OpKind::IntegerConv2d), count(&sums, OpKind::MatMul));
        assert_eq!(found, (1, 0), "{sums}");
        assert!(run(&sums, &x).bits_equal(&run(&g, &x)));
    }
}

fn exported(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/binary").join(name)
}

fn arrays(way: &str) -> BTreeMap<String, Tensor> {
    let all = read_npz(&exported(&format!("{way}.npz"))).expect("the arrays").into_iter();
    let tensor = |data: &NpyData, shape: &[usize]| match data {
        NpyData::F32(values) => Tensor::f32(shape, values.clone()),
        other => {
            let integers: Vec<i64> = other.to_integers().expect("integers");
            Tensor::i32(shape, integers.iter().map(|&v| v as i32).collect())
        }
    };
    all.map(|(name, array)| (name, tensor(&array.data, &array.shape))).collect()
}

fn session(file: &str, algorithm: &str, target: &str, freeze: &[String]) -> Session {
    let config = Config {
        algorithm: algorithm.into(),
        batch: Some(12),
        infer_batch: Some(12),
        target: target.into(),
        freeze: freeze.to_vec(),
        ..Config::default()
    };
    Session::new(&ModelSource::File(exported(file)), &config, Entries::TrainAndInfer)
        .unwrap_or_else(|e| panic!("{file}: {e:#}"))
}

fn largest_difference(a: &Tensor, b: &Tensor) -> f32 {
    assert_eq!(a.shape(), b.shape());
    a.as_f32().iter().zip(b.as_f32()).fold(0.0, |most, (a, b)| most.max((a - b).abs()))
}

/// Signs as PyTorch users write them, by both exporters: bits, with PyTorch's scores (FP32 in the first and the last layer).
#[test]
fn exported_signs_are_bits() {
    for way in ["function", "detached", "where"] {
        let arrays = arrays(way);
        for exporter in ["torchscript", "dynamo"] {
            let name = format!("{way}-{exporter}");
            let session = session(&format!("{name}.onnx"), "quantized", "c", &["*".to_string()]);
            let infer = &session.entry(INFER).expect("inference").optimised;
            assert_eq!(count(infer, OpKind::BinaryConv2d), 2, "{name}: {infer}");
            let difference = largest_difference(&run(infer, &arrays["images"]), &arrays["scores"]);
            assert!(difference < 1e-5, "{name}: {difference}");
        }
    }
}

/// A step of SGD through the signs moves what it moves in PyTorch, as much.
#[test]
fn exported_signs_train_straight_through() {
    for way in ["function", "detached", "where"] {
        let arrays = arrays(way);
        let session = session(&format!("{way}-torchscript.onnx"), "fp32", "host", &[]);
        let mut host = session.on_this_machine().expect("the host runs it");
        let before = host.state().expect("state");
        let rate = Tensor::f32([], vec![0.1]);
        let inputs = [&arrays["images"], &arrays["labels"], &rate];
        host.run(TRAIN_STEP, &inputs, &RunContext::default()).expect("a step");
        let after = host.state().expect("state");
        let mut compared = 0;
        for (index, name) in session.state_names().iter().enumerate() {
            let Some(expected) = arrays.get(&format!("step.{name}")) else { continue };
            let difference = largest_difference(&after[index].1, expected);
            assert!(difference < 1e-6, "{way}: {name} by {difference}");
            assert!(largest_difference(&before[index].1, expected) > 1e-4, "{way}: {name} stays");
            compared += 1;
        }
        // Batch normalization's statistics stay; that of the first convolution is part of it.
        assert_eq!(compared, 8, "{way}");
    }
}
