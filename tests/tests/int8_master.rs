//! An algorithm that is one TOML file and no Rust (tests/data/int8_master/int8_master.toml): int8 products, FP32 master
//! weights with momentum. Its steps bit for bit against numpy (tests/reference/int8_master), by the interpreter and by the
//! host's code; and it trains.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use trainc_data::{Dataset, NpyArray, NpyData, read_npz};
use trainc_driver::config::Config;
use trainc_driver::model::ModelSource;
use trainc_driver::session::{Entries, Session, TRAIN_STEP};
use trainc_driver::train::Trainer;
use trainc_driver::zoo::{ZooSpec, build};
use trainc_ir::interpreter::Interpreter;
use trainc_ir::{Element, RunContext, ScaleData, Tensor, TensorType};
use trainc_tests::arrays;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/int8_master").join(name)
}

fn config(batch: usize) -> Config {
    config_of(&file("int8_master.toml"), batch)
}

fn config_of(algorithm: &Path, batch: usize) -> Config {
    let algorithm = algorithm.display().to_string();
    Config { algorithm, batch: Some(batch), ..Config::default() }
}

/// Row `row` of an array, with its exponent if it is of int8.
fn row(arrays: &BTreeMap<String, NpyArray>, facts: &Value, key: &str, row: usize) -> Tensor {
    let array = &arrays[key];
    let NpyData::I8(all) = &array.data else { return arrays::row(arrays, key, row) };
    let shape = array.shape[1..].to_vec();
    let size: usize = shape.iter().product();
    let name = key.strip_prefix("state.").expect("state");
    let exponent = facts["exponents"][name][row].as_i64().expect("an exponent") as i32;
    let values: Vec<i64> = all[row * size..(row + 1) * size].iter().map(|&q| q.into()).collect();
    let ty = TensorType::shared(shape, Element::I8);
    Tensor::from_i64(&ty, &values, ScaleData::Exponent(exponent))
}

#[test]
fn steps_are_numpys_bit_for_bit() {
    let arrays: BTreeMap<_, _> =
        read_npz(&file("steps.npz")).expect("the arrays").into_iter().collect();
    let text = std::fs::read_to_string(file("steps.json")).expect("the facts");
    let facts: Value = serde_json::from_str(&text).expect("JSON");
    let of = |key: &str, step: usize| row(&arrays, &facts, key, step);
    let batch = arrays["labels"].shape[1];
    let source = ModelSource::File(file("net.onnx"));
    let session = Session::new(&source, &config(batch), Entries::TrainAndInfer).expect("compiles");
    let graph = &session.entry(TRAIN_STEP).expect("a step").module;
    let mut interpreter = Interpreter::new(graph);
    let mut host = session.on_this_machine().expect("the host runs it");
    let states = arrays.keys().filter(|key| key.starts_with("state.")).count();
    for step in 0..=arrays["rates"].shape[0] {
        let state = host.state().expect("state");
        assert_eq!((state.len(), graph.parameters().len()), (states, states));
        for (name, (_, found)) in session.state_names().iter().zip(&state) {
            let expected = of(&format!("state.{name}"), step);
            assert!(
                found.bits_equal(&expected),
                "{name} after {step} steps: {found:?}, {expected:?}"
            );
        }
        for (parameter, found) in graph.parameters().iter().zip(interpreter.parameters()) {
            let name = &graph.value(parameter.value).name;
            let expected = of(&format!("state.{name}"), step);
            assert!(
                found.bits_equal(&expected),
                "{name} after {step} steps: {found:?}, {expected:?}"
            );
        }
        if step == arrays["rates"].shape[0] {
            break;
        }
        let inputs = ["images", "labels", "rates"].map(|key| of(key, step));
        let run = RunContext { seed: 0, step: step as u32 };
        let expected = of("losses", step);
        let outputs = interpreter.step(&inputs, &run).expect("a step");
        assert!(outputs[0].bits_equal(&expected), "{:?}, {expected:?}", outputs[0]);
        let [images, labels, rate] = &inputs;
        let outputs = host.run(TRAIN_STEP, &[images, labels, rate], &run).expect("a step");
        assert!(outputs[0].bits_equal(&expected), "{:?}, {expected:?}", outputs[0]);
    }
}

#[test]
fn files_train_the_digits() {
    let carrier = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/carrier/int8_products.toml");
    for algorithm in [file("int8_master.toml"), carrier] {
        trains_the_digits(&algorithm);
    }
}

fn trains_the_digits(algorithm: &Path) {
    let data = Dataset::digits();
    let bytes = build(&ZooSpec::new("digits").expect("a model")).expect("a model");
    let source = ModelSource::Bytes { name: "digits".into(), bytes };
    let config = Config { epochs: 5, ..config_of(algorithm, 32) };
    let session = Session::new(&source, &config, Entries::TrainAndInfer).expect("compiles");
    let mut trainer = Trainer::new(session, &data).expect("a trainer");
    while trainer.epoch(&data, &mut |_| {}).expect("an epoch").is_some() {}
    let accuracy = trainer.history().last().expect("an epoch").test_accuracy.expect("classes");
    assert!(accuracy > 0.95, "{}: {accuracy}", algorithm.display());
}
