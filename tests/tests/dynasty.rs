//! `dynasty` bit for bit against numpy written from its formulas (tests/reference/carrier/make_dynasty.py), by the interpreter and by the
//! host's code: training steps and ends of epochs of small networks, and choices of widths alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use trainc_data::{Dataset, NpyArray, NpyData, read_npz};
use trainc_driver::compare::{CompareOptions, compare};
use trainc_driver::config::Config;
use trainc_driver::model::ModelSource;
use trainc_driver::session::{EPOCH_END, Entries, Session, TRAIN_STEP};
use trainc_driver::train::Trainer;
use trainc_driver::widths::WidthMap;
use trainc_ir::graph::Graph;
use trainc_ir::interpreter::Interpreter;
use trainc_ir::ops::BlockWidths;
use trainc_ir::{Element, Op, RunContext, Tensor};
use trainc_tests::arrays::row;

type Arrays = BTreeMap<String, NpyArray>;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(name)
}

fn arrays(name: &str) -> Arrays {
    read_npz(&data(&format!("dynasty/{name}.npz"))).expect("the arrays").into_iter().collect()
}

fn session(network: &str, algorithm: &str, batch: usize) -> Session {
    let config = Config { algorithm: algorithm.into(), batch: Some(batch), ..Config::default() };
    let source = ModelSource::File(data(&format!("carrier/{network}.onnx")));
    Session::new(&source, &config, Entries::TrainAndInfer)
        .unwrap_or_else(|e| panic!("{network}, {algorithm}: {e:#}"))
}

/// The parameters of a module by their names.
fn named(graph: &Graph) -> impl Iterator<Item = &str> {
    graph.parameters().iter().map(|parameter| graph.value(parameter.value).name.as_str())
}

fn steps_are_numpys(network: &str, arrays: &Arrays, budget: &str) {
    let batch = arrays["labels"].shape[1];
    let session = session(network, &format!("dynasty:bits={budget}"), batch);
    let [step, end] =
        [TRAIN_STEP, EPOCH_END].map(|entry| &session.entry(entry).expect("an entry").module);
    let mut interpreters = [Interpreter::new(step), Interpreter::new(end)];
    let mut host = session.on_this_machine().expect("the host runs it");
    let states = arrays.keys().filter(|key| key.starts_with("state.")).count();
    let events: Vec<i64> = arrays["events"].data.to_integers().expect("integers");
    let mut losses = 0..;
    for at in 0..=events.len() {
        let state = host.state().expect("state");
        assert_eq!(state.len(), states, "{network}: {:?}", session.state_names());
        let check = |name: &str, found: &Tensor| {
            let expected = row(arrays, &format!("state.{name}"), at);
            assert!(
                found.bits_equal(&expected),
                "{network}, {budget} bits: {name} after {at} events: {found:?}, {expected:?}"
            );
        };
        for (graph, interpreter) in [step, end].into_iter().zip(&interpreters) {
            named(graph).zip(interpreter.parameters()).for_each(|(name, found)| check(name, found));
        }
        for (name, (_, found)) in session.state_names().iter().zip(&state) {
            check(name, found);
        }
        let Some(&event) = events.get(at) else { break };
        let run = RunContext { seed: 0, step: at as u32 };
        if event < 0 {
            interpreters[1].step(&[], &run).expect("the end of an epoch");
            host.run(EPOCH_END, &[], &run).expect("the end of an epoch");
        } else {
            let inputs = ["images", "labels", "rates"].map(|key| row(arrays, key, event as usize));
            let expected = row(arrays, "losses", losses.next().expect("a number"));
            let outputs = interpreters[0].step(&inputs, &run).expect("a step");
            assert!(outputs[0].bits_equal(&expected), "{network}: {outputs:?}, {expected:?}");
            let [images, labels, rate] = &inputs;
            let outputs = host.run(TRAIN_STEP, &[images, labels, rate], &run).expect("a step");
            assert!(outputs[0].bits_equal(&expected), "{network}: {outputs:?}, {expected:?}");
        }
        // What one entry left is what the other begins with.
        let (from, to) = if event < 0 { (1, 0) } else { (0, 1) };
        let graphs = [step, end];
        let left: BTreeMap<&str, Tensor> =
            named(graphs[from]).zip(interpreters[from].parameters().iter().cloned()).collect();
        for (index, name) in named(graphs[to]).enumerate() {
            if let Some(tensor) = left.get(name) {
                interpreters[to].set_parameter(index, tensor.clone());
            }
        }
    }
}

#[test]
fn steps_and_ends_of_epochs_are_numpys() {
    for network in ["lenet", "residual"] {
        for budget in ["4", "2.5"] {
            steps_are_numpys(network, &arrays(&format!("{network}.{budget}")), budget);
        }
    }
}

/// Strides, uneven padding, depthwise convolutions and such in groups, odd sizes.
#[test]
fn random_layers_are_numpys() {
    for number in 0..5 {
        let network = format!("random-{number}");
        steps_are_numpys(&network, &arrays(&network), "3");
    }
}

#[test]
fn choices_are_numpys() {
    let arrays = arrays("choice");
    let floats = |key: &str| match &arrays[key].data {
        NpyData::F32(all) => all.clone(),
        _ => panic!("{key} is FP32"),
    };
    for run in 0..12 {
        let of = |key: &str| format!("{run}.{key}");
        let op: Op = BlockWidths {
            budget: floats(&of("budget"))[0].into(),
            largest: 8.0.into(),
            kept: 0.5.into(),
            rounds: 3,
            uses: floats(&of("uses")).into_iter().map(Into::into).collect(),
        }
        .into();
        let tensors = ["0", "1"];
        let width = |tensor: &&str| {
            let count = arrays[&of(&format!("widths{tensor}"))].shape[1];
            Tensor::f32([count], vec![4.0; count])
        };
        let mut state = Tensor::f32([2], vec![0.0; 2]);
        let mut widths: Vec<Tensor> = tensors.iter().map(width).collect();
        for epoch in 0..arrays[&of("states")].shape[0] {
            let at = |key: String| row(&arrays, &of(&key), epoch);
            let sums = tensors.map(|tensor| at(format!("sensitivities{tensor}")));
            let operands = [&state, &widths[0], &sums[0], &widths[1], &sums[1]];
            let results = op.evaluate(&operands, &RunContext::default());
            assert!(results[0].bits_equal(&at("states".into())), "{run}, {epoch}: {results:?}");
            for (tensor, found) in [&results[1], &results[3]].into_iter().enumerate() {
                let expected = at(format!("widths{tensor}"));
                assert!(found.bits_equal(&expected), "{run}, {epoch}: {found:?}, {expected:?}");
            }
            state = results[0].clone();
            widths = vec![results[1].clone(), results[3].clone()];
        }
    }
}

/// Products are of bytes, whatever the widths; those of a step are the model's three for each layer, but for the first layer's error.
#[test]
fn products_are_of_blocks() {
    let session = session("lenet", "dynasty", 4);
    let graph = &session.entry(TRAIN_STEP).expect("a step").module;
    let products = graph.nodes().iter().filter(|node| matches!(node.op, Op::BlockProduct(_)));
    let elements: Vec<Element> = products.map(|node| graph.ty(node.inputs[0]).element).collect();
    assert_eq!(elements, [Element::I8; 11]);
    let float = graph.nodes().iter().any(|node| matches!(node.op, Op::MatMul(_) | Op::Conv2d(_)));
    assert!(!float);
}

/// Widths go to the budget, and the network learns.
#[test]
fn widths_follow_the_budget() {
    let data = Dataset::digits();
    let config = Config { epochs: 3, batch: Some(32), ..Config::default() };
    let config = Config { algorithm: "dynasty:bits=3".into(), ..config };
    let source = ModelSource::File(self::data("carrier/cnn.onnx"));
    let session = Session::new(&source, &config, Entries::TrainAndInfer).expect("compiles");
    let mut trainer = Trainer::new(session, &data).expect("a trainer");
    let mut mean = Vec::new();
    for _ in 0..3 {
        trainer.epoch(&data, &mut |_| {}).expect("an epoch");
        let state = trainer.state().expect("a state");
        let widths = state.iter().filter(|(name, _)| name.ends_with(".weight.width"));
        let widths: Vec<f32> = widths.flat_map(|(_, widths)| widths.as_f32().to_vec()).collect();
        mean.push(widths.iter().sum::<f32>() / widths.len() as f32);
    }
    // From 4 towards 3 bits, half of the way in an epoch; tensors do not count alike in the budget.
    assert!(mean[0] < 4.0 && mean[2] < mean[0] && mean[2] > 1.0, "{mean:?}");
    let accuracy = trainer.history().last().and_then(|record| record.test_accuracy);
    assert!(accuracy.expect("classes") > 0.95, "{accuracy:?}");
}

/// The bits that elements have in the mean, by the widths of their blocks: over the first two axes of `shape`.
fn mean_bits(shape: &[usize], widths: &Tensor) -> f64 {
    let (rows, columns) = (shape[0], shape[1]);
    let planes: usize = shape[2..].iter().product();
    let mut all = 0.0;
    for r in 0..rows {
        for c in 0..columns {
            for p in 0..planes {
                let block = (r / 4 * columns.div_ceil(4) + c / 4) * planes + p;
                let width = f64::from(widths.as_f32()[block]);
                all += (2.0 * (width / 2.0).round_ties_even()).clamp(0.0, 8.0);
            }
        }
    }
    all / (rows * columns * planes) as f64
}

/// `compare` counts products by the bits that both operands had, epoch by epoch.
#[test]
fn costs_are_counted_by_the_widths_in_use() {
    let data = Dataset::digits();
    let source = ModelSource::File(self::data("carrier/cnn.onnx"));
    let config = |epochs: usize| {
        let config = Config { epochs, batch: Some(32), ..Config::default() };
        Config { algorithm: "dynasty:bits=2".into(), ..config }
    };
    let cost = |epochs: usize| {
        let options = CompareOptions {
            algorithms: vec!["dynasty:bits=2".into()],
            seeds: 1,
            folder: None,
            targets: Vec::new(),
        };
        let found = compare(&source, &config(epochs), &data, &options, &mut |_| {});
        found.expect("trains").algorithms[0].cost
    };
    // Multiplications of each layer's product, its operand and its weight, with their sizes.
    let of = |macs: f64, x: &'static str, x_shape: &[usize], w: &'static str, w_shape: &[usize]| {
        (macs, (x, x_shape.to_vec()), (w, w_shape.to_vec()))
    };
    let layers = [
        of(294_912.0, "", &[], "conv1.weight", &[16, 1, 3, 3]),
        of(2_359_296.0, "conv1.pool", &[32, 16, 4, 4], "conv2.weight", &[32, 16, 3, 3]),
        of(262_144.0, "flat", &[32, 128], "fc.weight", &[64, 128]),
        of(20_480.0, "fc.relu", &[32, 64], "last.weight", &[10, 64]),
    ];
    let all: f64 = layers.iter().map(|layer| 3.0 * layer.0).sum::<f64>() - layers[0].0;
    // In the first epoch 8 by 4 bits, but for the first layer's gradient.
    let first = (all + layers[0].0) * 32.0 / 1024.0;
    let one = cost(1);
    assert_eq!((one.macs as f64, one.weighted_macs), (all, first));
    let session = Session::new(&source, &config(2), Entries::TrainAndInfer).expect("compiles");
    let mut trainer = Trainer::new(session, &data).expect("a trainer");
    trainer.epoch(&data, &mut |_| {}).expect("an epoch");
    let state: BTreeMap<String, Tensor> = trainer.state().expect("a state").into_iter().collect();
    let second: f64 = layers
        .iter()
        .map(|(macs, (x, x_shape), (w, w_shape))| {
            let weight = mean_bits(w_shape, &state[&format!("{w}.width")]);
            match x.is_empty() {
                true => macs * 8.0 * (weight + 8.0) / 1024.0,
                false => {
                    let x = mean_bits(x_shape, &state[&format!("{x}.width")]);
                    macs * 8.0 * (2.0 * weight + x) / 1024.0
                }
            }
        })
        .sum();
    // What `train --widths` draws of that state: weights are operands of their layer's product and of the errors before it.
    let state: Vec<_> = trainer.state().expect("a state");
    let maps = WidthMap::of(trainer.session.program(), &state).expect("maps");
    let state: BTreeMap<String, Tensor> = state.into_iter().collect();
    let mut left: BTreeMap<&str, &WidthMap> = maps.iter().map(|m| (&m.name[..], m)).collect();
    for (macs, (x, x_shape), (w, w_shape)) in &layers {
        let errors = f64::from(u8::from(!x.is_empty()));
        for (name, shape, macs) in [(w, w_shape, macs * (1.0 + errors)), (x, x_shape, *macs)] {
            let name = format!("{name}.width");
            let Some(map) = left.remove(&name[..]) else {
                assert!(x.is_empty() && name == ".width", "{name}");
                continue;
            };
            let bits = mean_bits(shape, &state[&name]);
            assert_eq!((map.macs as f64, map.mean_bits), (macs, bits), "{name}");
            assert!((map.bit_serial_macs - macs * bits / 8.0).abs() < 1e-6 * macs, "{name}");
            assert!((map.shares().iter().sum::<f64>() - 1.0).abs() < 1e-9, "{name}");
            let planes: usize = shape[2..].iter().product();
            let blocks = shape[0].div_ceil(4) * shape[1].div_ceil(4) * planes;
            assert_eq!(map.bits.len(), blocks, "{name}");
        }
    }
    assert!(left.is_empty(), "{left:?}");
    let two = cost(2).weighted_macs;
    assert!((two - (first + second) / 2.0).abs() < 1e-6 * two, "{two}, {first}, {second}");
    assert!(second < first);
}
