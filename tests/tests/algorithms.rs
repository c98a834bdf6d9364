//! Built-in algorithms bit for bit against numpy written from the papers, by the interpreter and by the host's code: those whose
//! values stay FP32 and whose products alone are not (`ui8`, `sbm`, `bnn-ste`, `dorefa`, `fp8-chunk`, `mls`, `afp`, `wageubn`, `octo`, `priot`, `qas`;
//! tests/reference/carrier), three steps of two small networks, and `niti-2020` (tests/reference/niti/make_2020.py), four steps of one; steps of random layers under all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use trainc_data::{Dataset, read_npz, write_safetensors};
use trainc_driver::algorithm_check::check;
use trainc_driver::algorithms::load;
use trainc_driver::config::Config;
use trainc_driver::error::message;
use trainc_driver::model::ModelSource;
use trainc_driver::session::{Entries, Session, TRAIN_STEP};
use trainc_driver::train::Trainer;
use trainc_driver::weights::export;
use trainc_driver::zoo::{ZooSpec, build};
use trainc_ir::interpreter::Interpreter;
use trainc_ir::ops::properties::Property;
use trainc_ir::{Element, RunContext, ScaleData, Tensor, TensorType};
use trainc_opt::algorithm::stages::Choice;
use trainc_tests::arrays::row;

/// Algorithms, as the command line spells them, and what their arrays are called.
const ALGORITHMS: [(&str, &str); 14] = [
    ("ui8", "ui8"),
    ("sbm", "sbm"),
    ("bnn-ste", "bnn-ste"),
    ("dorefa", "dorefa"),
    ("dorefa:w=1,a=2,g=4", "dorefa-1-2-4"),
    ("fp8-chunk", "fp8-chunk"),
    ("mls", "mls"),
    // Errors of 8 and 16 bits, and of 16 and 24.
    ("afp:tolerance=0.001", "afp"),
    ("afp:tolerance=0.000003", "afp-wide"),
    ("wageubn", "wageubn"),
    ("octo", "octo"),
    ("priot", "priot"),
    ("priot:a=3,e=5", "priot-fixed"),
    // Steps of earlier looks, beyond which values saturate.
    ("afp:tolerance=0.001,beta=5,epoch=5", "afp-stale"),
];

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/carrier").join(name)
}

fn config(algorithm: &str, batch: usize) -> Config {
    Config { algorithm: algorithm.into(), batch: Some(batch), ..Config::default() }
}

fn steps_are_numpys(network: &str, (algorithm, arrays): (&str, &str)) {
    let path = file(&format!("{network}.{arrays}.npz"));
    let arrays: BTreeMap<_, _> = read_npz(&path).expect("the arrays").into_iter().collect();
    let of = |key: &str, step: usize| row(&arrays, key, step);
    let batch = arrays["labels"].shape[1];
    let source = ModelSource::File(file(&format!("{network}.onnx")));
    let session = Session::new(&source, &config(algorithm, batch), Entries::TrainAndInfer)
        .unwrap_or_else(|e| panic!("{network}, {algorithm}: {e:#}"));
    let graph = &session.entry(TRAIN_STEP).expect("a step").module;
    let mut interpreter = Interpreter::new(graph);
    let mut host = session.on_this_machine().expect("the host runs it");
    let states = arrays.keys().filter(|key| key.starts_with("state.")).count();
    let steps = arrays["rates"].shape[0];
    for step in 0..=steps {
        let state = host.state().expect("state");
        assert_eq!((state.len(), graph.parameters().len()), (states, states));
        let check = |name: &str, found: &Tensor| {
            let expected = of(&format!("state.{name}"), step);
            assert!(
                found.bits_equal(&expected),
                "{network}, {algorithm}: {name} after {step} steps: {found:?}, {expected:?}"
            );
        };
        for (parameter, found) in graph.parameters().iter().zip(interpreter.parameters()) {
            check(&graph.value(parameter.value).name, found);
        }
        for (name, (_, found)) in session.state_names().iter().zip(&state) {
            check(name, found);
        }
        if step == steps {
            break;
        }
        let inputs = ["images", "labels", "rates"].map(|key| of(key, step));
        let run = RunContext { seed: 0, step: step as u32 };
        let expected = of("losses", step);
        let outputs = interpreter.step(&inputs, &run).expect("a step");
        assert!(
            outputs[0].bits_equal(&expected),
            "{network}, {algorithm}: {outputs:?}, {expected:?}"
        );
        let [images, labels, rate] = &inputs;
        let outputs = host.run(TRAIN_STEP, &[images, labels, rate], &run).expect("a step");
        assert!(
            outputs[0].bits_equal(&expected),
            "{network}, {algorithm}: {outputs:?}, {expected:?}"
        );
    }
}

#[test]
fn steps_are_numpys_bit_for_bit() {
    for algorithm in ALGORITHMS {
        for network in ["lenet", "residual"] {
            steps_are_numpys(network, algorithm);
        }
    }
    // Batch normalization is part of these: between bounds, and by ranges.
    let unbifurcated = "sbm:fw=4,bw=4,bifurcated=0";
    for algorithm in [("wageubn", "wageubn"), ("sbm", "sbm"), (unbifurcated, "sbm-4")] {
        steps_are_numpys("normalized", algorithm);
    }
}

/// Scores that the algorithm's rules add, and weights that they freeze, go into a file of weights and come back from it.
#[test]
fn what_rules_add_and_freeze_is_restored() {
    let arrays: BTreeMap<_, _> =
        read_npz(&file("residual.priot.npz")).expect("the arrays").into_iter().collect();
    let source = ModelSource::File(file("residual.onnx"));
    let weights =
        std::env::temp_dir().join(format!("trainc-scores-{}.safetensors", std::process::id()));
    let kept = |config: &Config, steps: bool| -> Vec<(String, Tensor)> {
        let session = Session::new(&source, config, Entries::TrainAndInfer).expect("compiles");
        let mut host = session.on_this_machine().expect("the host runs it");
        if steps {
            let [images, labels, rate] =
                ["images", "labels", "rates"].map(|key| row(&arrays, key, 0));
            let run = RunContext { seed: 0, step: 0 };
            host.run(TRAIN_STEP, &[&images, &labels, &rate], &run).expect("a step");
        }
        let state = host.state().expect("state").into_iter().map(|(_, tensor)| tensor);
        let state: Vec<_> = session.state_names().into_iter().zip(state).collect();
        [state, session.frozen_tensors()].concat()
    };
    let own = config("priot", 4);
    let (before, after) = (kept(&own, false), kept(&own, true));
    let names: Vec<&str> = after.iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.contains(&"conv1.weight.scores") && names.contains(&"conv1.weight"), "{names:?}");
    let equal = |a: &[(String, Tensor)], b: &[(String, Tensor)]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && a.1.bits_equal(&b.1))
    };
    assert!(!equal(&before, &after));
    write_safetensors(&weights, &export(&after)).expect("written");
    let restored = kept(&Config { weights: Some(weights.clone()), ..own }, false);
    std::fs::remove_file(&weights).expect("removed");
    assert!(equal(&after, &restored));
}

/// Random layers: a step of networks with a layer of odd sizes between two others, a convolution with strides and uneven padding, a
/// depthwise one, one in groups, one by one, and a matrix product (tests/reference/carrier/make_random.py).
#[test]
fn random_layers_are_numpys() {
    for number in 0..5 {
        // Those of one step alone, written for any network.
        let others = ["afp-wide", "afp-stale"];
        for algorithm in ALGORITHMS.into_iter().filter(|(_, arrays)| !others.contains(arrays)) {
            steps_are_numpys(&format!("random-{number}"), algorithm);
        }
        // (tests/reference/carrier/make_random_integer.py)
        for algorithm in ["niti", "niti-2020"] {
            let network = format!("random-{number}");
            integer_steps_are_numpys(&network, (algorithm, &format!("{network}.{algorithm}")));
        }
        steps_are_numpys(&format!("qas-random-{number}"), ("qas", "qas"));
    }
}

/// Deployed int8 networks go on learning in their integers: by ONNX's pair of quantizers, and by those that TensorFlow Lite's become.
#[test]
fn steps_of_qas_are_numpys() {
    for network in ["qas-lenet", "qas-residual"] {
        steps_are_numpys(network, ("qas", "qas"));
    }
    let source = ModelSource::File(file("lenet.onnx"));
    let error = Session::new(&source, &config("qas", 4), Entries::TrainAndInfer).err();
    let error = format!("{:#}", error.expect("nothing is stored as integers"));
    assert!(error.contains("fine-tunes a network that is quantized already"), "{error}");
}

/// Weights alone, int8 with an exponent for each tensor: they are all that NITI keeps.
fn integer_steps_are_numpys(network: &str, (algorithm, arrays): (&str, &str)) {
    let path = file(&format!("{arrays}.npz"));
    let arrays: BTreeMap<_, _> = read_npz(&path).expect("the arrays").into_iter().collect();
    let integers = |key: &str| arrays[key].data.to_integers().expect("integers");
    let batch = arrays["labels"].shape[1];
    let source = ModelSource::File(file(&format!("{network}.onnx")));
    let session = Session::new(&source, &config(algorithm, batch), Entries::TrainAndInfer)
        .unwrap_or_else(|e| panic!("{network}, {algorithm}: {e:#}"));
    let graph = &session.entry(TRAIN_STEP).expect("a step").module;
    let mut interpreter = Interpreter::new(graph);
    let mut host = session.on_this_machine().expect("the host runs it");
    let states = arrays.keys().filter(|key| key.starts_with("state.")).count();
    let steps = arrays["rates"].shape[0];
    for step in 0..=steps {
        let state = host.state().expect("state");
        assert_eq!((state.len(), graph.parameters().len()), (states, states));
        let check = |name: &str, found: &Tensor| {
            let key = format!("state.{name}");
            let shape = arrays[&key].shape[1..].to_vec();
            let size: usize = shape.iter().product();
            let exponent = integers(&format!("exponent.{name}"))[0] as i32;
            let own = &integers(&key)[step * size..(step + 1) * size];
            let ty = TensorType::shared(shape, Element::I8);
            let expected = Tensor::from_i64(&ty, own, ScaleData::Exponent(exponent));
            assert!(
                found.bits_equal(&expected),
                "{network}, {algorithm}: {name} after {step} steps: {found:?}, {expected:?}"
            );
        };
        for (parameter, found) in graph.parameters().iter().zip(interpreter.parameters()) {
            check(&graph.value(parameter.value).name, found);
        }
        for (name, (_, found)) in session.state_names().iter().zip(&state) {
            check(name, found);
        }
        if step == steps {
            break;
        }
        let inputs = ["images", "labels", "rates"].map(|key| row(&arrays, key, step));
        let run = RunContext { seed: 0, step: step as u32 };
        interpreter.step(&inputs, &run).expect("a step");
        let [images, labels, rate] = &inputs;
        host.run(TRAIN_STEP, &[images, labels, rate], &run).expect("a step");
    }
}

#[test]
fn steps_of_niti_2020_are_numpys() {
    integer_steps_are_numpys("niti-2020", ("niti-2020", "niti-2020"));
}

/// How many products a step has of int8 and of FP32 operands.
#[test]
fn products_are_integers_where_the_algorithm_says() {
    for (algorithm, expected) in
        [("ui8", (11, 0)), ("sbm", (28, 4)), ("bnn-ste", (2, 9)), ("dorefa", (12, 7))]
    {
        let source = ModelSource::File(file("lenet.onnx"));
        let session =
            Session::new(&source, &config(algorithm, 4), Entries::TrainAndInfer).expect("compiles");
        let graph = &session.entry(TRAIN_STEP).expect("a step").module;
        let of = |float: bool| {
            let products = graph.nodes().iter().filter(|n| n.op.kind().has(Property::Bilinear));
            let operands = products.map(|n| graph.ty(n.inputs[0]).element);
            operands.filter(|element| (*element == Element::F32) == float).count()
        };
        assert_eq!((of(false), of(true)), expected, "{algorithm}");
    }
}

/// Test accuracy of the quick start's network after some epochs on the digits.
fn accuracy_on_digits(algorithm: &str, epochs: usize) -> f64 {
    let bytes = build(&ZooSpec::new("digits").expect("a model")).expect("a model");
    let source = ModelSource::Bytes { name: "digits".into(), bytes };
    accuracy_of(source, algorithm, epochs)
}

fn accuracy_of(source: ModelSource, algorithm: &str, epochs: usize) -> f64 {
    let data = Dataset::digits();
    let config = Config { epochs, ..config(algorithm, 32) };
    let session = Session::new(&source, &config, Entries::TrainAndInfer).expect("compiles");
    let mut trainer = Trainer::new(session, &data).expect("a trainer");
    while trainer.epoch(&data, &mut |_| {}).expect("an epoch").is_some() {}
    trainer.history().last().expect("an epoch").test_accuracy.expect("classes")
}

/// The step of another stage is that of the algorithm with its parameters, which the trainer takes when the schedule says so.
#[test]
fn stages_are_steps_with_other_parameters() {
    let own = std::env::temp_dir().join(format!("trainc-stages-{}.toml", std::process::id()));
    let staged = load("dorefa").expect("built in").text
        + "\n[stages]\nschedule = [{ from = 0.0, value = 1 }, { from = \"1e\", value = 0 }]\n\
           others = [{ name = \"coarse\", parameters = { w = 3, g = 6 } }]\n";
    std::fs::write(&own, &staged).expect("written");
    let (data, bytes) = (Dataset::digits(), build(&ZooSpec::new("digits").expect("a model")));
    let source = ModelSource::Bytes { name: "digits".into(), bytes: bytes.expect("a model") };
    let session = |algorithm: &str| {
        let config = Config { epochs: 2, ..config(algorithm, 32) };
        Session::new(&source, &config, Entries::TrainAndInfer).expect("compiles")
    };
    // With a width of the user's, which the stage leaves.
    let own_name = format!("{}:a=4", own.display());
    let [both, fine, coarse] = [own_name.as_str(), "dorefa:a=4", "dorefa:w=3,a=4,g=6"].map(session);
    let text = |session: &Session, entry: &str| {
        session.entry(entry).expect("an entry").optimised.to_string()
    };
    assert_eq!(text(&both, TRAIN_STEP), text(&fine, TRAIN_STEP));
    assert_eq!(text(&both, "train_step_coarse"), text(&coarse, TRAIN_STEP));
    assert_ne!(text(&fine, TRAIN_STEP), text(&coarse, TRAIN_STEP));
    let states = [both, fine, coarse].map(|session| {
        let mut trainer = Trainer::new(session, &data).expect("a trainer");
        let mut epoch = || {
            trainer.epoch(&data, &mut |_| {}).expect("an epoch");
            trainer.state().expect("a state")
        };
        [epoch(), epoch()]
    });
    let [both, fine, coarse] = states;
    assert!(both[0] == coarse[0] && both[0] != fine[0]);
    assert!(both[1] != coarse[1]);

    let error = |stages: &str| {
        std::fs::write(&own, staged.split("[stages]").next().expect("text").to_string() + stages)
            .expect("written");
        message(&load(own.to_str().expect("text")).expect_err("refused"))
    };
    let wrong = error(
        "[stages]\nschedule = [{ from = 0.0, value = 2 }]\nothers = [{ name = \"coarse\", parameters = { w = 3 } }]\n",
    );
    assert!(wrong.contains("stages.schedule") && wrong.contains("from 0 to 1"), "{wrong}");
    let wrong = error(
        "[stages]\nschedule = [{ from = 0.0, value = 1 }]\nothers = [{ name = \"c\", parameters = { v = 3 } }]\n",
    );
    assert!(wrong.contains("there is no parameter `v`"), "{wrong}");
    std::fs::remove_file(&own).expect("removed");
}

/// PFQ's indicator gives numpy's stages (tests/reference/carrier/make_indicator.py), and the trainer takes the
/// step that they say.
#[test]
fn stages_follow_the_loss() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/pfq/indicator.json");
    let text = std::fs::read_to_string(path).expect("the traces");
    let traces: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let pfq = load("pfq").expect("built in");
    let Some(Choice::Indicator(indicator)) = pfq.stages.map(|stages| stages.choice) else {
        panic!("pfq's stages follow the loss")
    };
    assert_eq!(indicator.order, [1, 2, 3, 0]);
    for run in traces["runs"].as_array().expect("runs") {
        let numbers = |key: &str| run[key].as_array().expect("numbers").clone();
        let mut state = indicator.start();
        for (loss, stage) in numbers("losses").iter().zip(numbers("stages")) {
            indicator.take(&mut state, loss.as_f64().expect("a number") as f32);
            let expected = indicator.order[stage.as_u64().expect("a stage") as usize];
            assert_eq!(indicator.now(&state), expected, "{run}");
        }
    }
    let data = Dataset::digits();
    let bytes = build(&ZooSpec::new("digits").expect("a model")).expect("a model");
    let source = ModelSource::Bytes { name: "digits".into(), bytes };
    let config = Config { epochs: 24, ..config("pfq", 32) };
    let session = Session::new(&source, &config, Entries::TrainAndInfer).expect("compiles");
    let mut trainer = Trainer::new(session, &data).expect("a trainer");
    let mut stages = Vec::new();
    while let Some(record) = trainer.epoch(&data, &mut |_| {}).expect("an epoch") {
        let before = &trainer.history()[..record.epoch - 1];
        let losses = before.iter().filter_map(|record| record.train_loss);
        let expected = indicator.stage(losses.map(|loss| loss as f32)) as usize;
        assert_eq!(trainer.stage(), Some(expected), "epoch {}", record.epoch);
        stages.push(expected);
    }
    stages.dedup();
    assert!(stages.starts_with(&[1, 2]), "{stages:?}");
}

/// (`bnn-ste` and `dorefa` are made for networks with batch normalization.)
#[test]
fn they_train_the_digits() {
    for algorithm in ["ui8", "sbm"] {
        let accuracy = accuracy_on_digits(algorithm, 4);
        assert!(accuracy > 0.95, "{algorithm}: {accuracy}");
    }
}

/// NITI's rounding matters: gradients that are rounded down, whatever their sign, do not train.
#[test]
fn niti_needs_its_rounding() {
    let niti = load("niti").expect("built in").text;
    let rounding = "quantize_gradient{rounding=pseudo_stochastic}";
    assert!(niti.contains(rounding));
    let own = std::env::temp_dir().join(format!("trainc-floor-{}.toml", std::process::id()));
    std::fs::write(&own, niti.replace(rounding, "quantize_gradient{rounding=floor}"))
        .expect("written");
    let (right, wrong) =
        (accuracy_on_digits("niti", 4), accuracy_on_digits(own.to_str().expect("text"), 4));
    std::fs::remove_file(&own).expect("removed");
    assert!(right > 0.95 && wrong < 0.8, "{right}, {wrong}");
}

/// WAGEUBN's activations have 7 bits behind the point, and more before it: with 8 in all it does not train.
#[test]
fn wageubn_needs_activations_above_one() {
    let right = accuracy_on_digits("wageubn", 20);
    let wrong = accuracy_on_digits("wageubn:range=8", 20);
    assert!(right > 0.9 && wrong < 0.8, "{right}, {wrong}");
}

/// SBM's weight gradients of errors as they are: with 4 bits and range normalization it does not train without them
/// (tests/reference/carrier/nets.py writes the network).
#[test]
fn sbm_needs_its_bifurcation() {
    let with = |parameters: &str| {
        let source = ModelSource::File(file("cnn.onnx"));
        accuracy_of(source, &format!("sbm:fw=4,bw=4{parameters}"), 4)
    };
    let (right, wrong) = (with(""), with(",bifurcated=0"));
    assert!(right > 0.95 && wrong < 0.7, "{right}, {wrong}");
}

/// What `trainc algorithms --check` says of rules in a model.
#[test]
fn what_rules_do_in_a_model() {
    let source = ModelSource::File(file("lenet.onnx"));
    let of = |algorithm: &str| {
        check(&config(algorithm, 4), Some(&source)).expect("it is one").model.expect("a model")
    };
    let found = of("dorefa:w=1");
    let nodes = |rule: &str| {
        let own = found.matching.iter().find(|m| m.rule == rule);
        own.map(|m| m.nodes.join(" ")).unwrap_or_default()
    };
    assert_eq!(nodes("clip"), "act1 act2 act3");
    assert_eq!(nodes("conv2d"), "conv2/product (conv2d)");
    assert_eq!(nodes("matmul-outer"), "fc2/product (matmul)");
    assert!(found.never.contains(&"conv2d-groups".to_string()), "{:?}", found.never);
    assert!(!found.never.iter().any(|rule| rule.starts_with("tanh")), "left out where w = 1");
    let why = |operation: &str| {
        let own = found.float.iter().find(|f| f.operation == operation);
        own.map(|f| f.why.clone()).unwrap_or_default()
    };
    assert_eq!(why("clip"), "no rule; the carrier is FP32");
    assert!(why("formula").contains("updates"));
    assert!(found.float.iter().all(|f| f.operation != "conv2d") && found.error.is_none());

    // A rule whose guard never holds: what there is for the operation, and that the model does not translate.
    let matched = "match = \"(conv2d_gradient_input ?a ?e ?w)\"";
    let text = load("ui8").expect("built in").text;
    assert!(text.contains(matched));
    let guarded = text.replacen(matched, &format!("{matched}\nwhere = [\"?w.rank = 3\"]"), 1);
    let own = std::env::temp_dir().join(format!("trainc-check-{}.toml", std::process::id()));
    std::fs::write(&own, guarded).expect("written");
    let found = of(own.to_str().expect("text"));
    std::fs::remove_file(&own).expect("removed");
    let error = found.error.expect("it does not translate");
    assert!(error.contains("conv2/product/gradient_input"), "{error}");
    assert_eq!(found.never, ["conv2d-error"]);
    let left = found.float.iter().find(|f| f.operation == "conv2d_gradient_input").expect("left");
    assert!(left.why.contains("there are conv2d-error"), "{}", left.why);
}
