//! `dfq` bit for bit against numpy written from the paper (tests/reference/carrier/make_dfq.py), by the interpreter and by the host's code:
//! choices, straight-through gradients and the term of cost in training steps of small networks; and what trainings cost.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use trainc_data::{Dataset, NpyArray, read_npz};
use trainc_driver::compare::{CompareOptions, compare};
use trainc_driver::config::Config;
use trainc_driver::model::ModelSource;
use trainc_driver::session::{Entries, Session, TRAIN_STEP};
use trainc_driver::train::Trainer;
use trainc_ir::interpreter::Interpreter;
use trainc_ir::{RunContext, Tensor};
use trainc_opt::algorithm::BUILT_IN;
use trainc_tests::arrays::row;

type Arrays = BTreeMap<String, NpyArray>;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(name)
}

/// The built-in file with gates as small as numpy's, in a folder of the test's own.
fn small_gates(folder: &Path) -> PathBuf {
    let (_, text) = BUILT_IN.iter().find(|(name, _)| *name == "dfq").expect("the algorithm");
    let small = text.replace("gate = [32, 16]", "gate = [6, 5]");
    assert_ne!(small, *text);
    std::fs::create_dir_all(folder).expect("a folder");
    let path = folder.join("small.toml");
    std::fs::write(&path, small).expect("a file");
    path
}

fn session(model: &Path, algorithm: &str, batch: usize) -> Session {
    let config = Config { algorithm: algorithm.into(), batch: Some(batch), ..Config::default() };
    let source = ModelSource::File(model.to_path_buf());
    Session::new(&source, &config, Entries::TrainAndInfer)
        .unwrap_or_else(|e| panic!("{}, {algorithm}: {e:#}", model.display()))
}

fn steps_are_numpys(network: &str, target: &str) {
    let folder = std::env::temp_dir().join(format!("trainc-dfq-{network}-{target}"));
    let file = small_gates(&folder);
    let path = data(&format!("dfq/{network}.{target}.npz"));
    let arrays: Arrays = read_npz(&path).expect("the arrays").into_iter().collect();
    let batch = arrays["labels"].shape[1];
    let model = data(&format!("carrier/{network}.onnx"));
    let session = session(&model, &format!("{}:target={target}", file.display()), batch);
    std::fs::remove_dir_all(&folder).expect("its own folder");
    let module = &session.entry(TRAIN_STEP).expect("an entry").module;
    let mut interpreter = Interpreter::new(module);
    let mut host = session.on_this_machine().expect("the host runs it");
    let known = arrays.keys().filter(|key| key.starts_with("state.")).count();
    let buffers: Vec<String> =
        host.state().expect("state").into_iter().map(|(name, _)| name).collect();
    assert_eq!(buffers.len(), known, "{network}: {:?}", session.state_names());
    // Gates begin as numpy drew them.
    for (name, buffer) in session.state_names().iter().zip(&buffers) {
        host.set_state(buffer, &row(&arrays, &format!("state.{name}"), 0)).expect("a state");
    }
    let names: Vec<String> =
        module.parameters().iter().map(|p| module.value(p.value).name.clone()).collect();
    for (index, name) in names.iter().enumerate() {
        interpreter.set_parameter(index, row(&arrays, &format!("state.{name}"), 0));
    }
    let steps = arrays["losses"].shape[0];
    for step in 0..steps {
        let run = RunContext { seed: 0, step: step as u32 };
        let [images, labels] = ["images", "labels"].map(|key| row(&arrays, key, step % 3));
        let rate = row(&arrays, "rates", step);
        let expected = row(&arrays, "losses", step);
        let inputs = [images, labels, rate];
        let outputs = interpreter.step(&inputs, &run).expect("a step");
        let by_host = host.run(TRAIN_STEP, &inputs.each_ref(), &run).expect("a step");
        let check = |what: &str, found: &Tensor, expected: &Tensor| {
            assert!(
                found.bits_equal(expected),
                "{network}, target {target}: {what} after step {step}: {found:?}, {expected:?}"
            );
        };
        // State first: what is wrong with a loss shows there.
        for (name, found) in names.iter().zip(interpreter.parameters()) {
            check(name, found, &row(&arrays, &format!("state.{name}"), step + 1));
        }
        let state = host.state().expect("state");
        for (name, (_, found)) in session.state_names().iter().zip(&state) {
            check(name, found, &row(&arrays, &format!("state.{name}"), step + 1));
        }
        check("the loss", &outputs[0], &expected);
        check("the host's loss", &by_host[0], &expected);
    }
}

/// Two blocks: each is a layer, and the recurrent layer goes from one to the other.
#[test]
fn layers_choose_as_numpy_does() {
    ["2.5", "3.9"].into_iter().for_each(|target| steps_are_numpys("lenet", target));
}

/// A residual block with a layer that does not choose.
#[test]
fn residual_blocks_choose_as_numpy_does() {
    ["1.7", "2.0"].into_iter().for_each(|target| steps_are_numpys("residual", target));
}

/// Each example of a step is counted once in each block, choices reach the target's band, and the cost that is counted is that of the choices.
#[test]
fn choices_are_steered_and_counted() {
    let model = data("carrier/cnn.onnx");
    let config = Config {
        algorithm: "dfq:target=2.6".into(),
        batch: Some(32),
        epochs: 8,
        ..Config::default()
    };
    let source = ModelSource::File(model);
    let session = Session::new(&source, &config, Entries::TrainAndInfer).expect("a session");
    let data = Dataset::digits();
    let mut trainer = Trainer::new(session, &data).expect("a trainer");
    let mut choices = vec![trainer.choices().expect("state").expect("gates")];
    while trainer.epoch(&data, &mut |_| {}).expect("an epoch").is_some() {
        choices.push(trainer.choices().expect("state").expect("gates"));
    }
    let [.., before, last] = &choices[..] else { panic!("two epochs") };
    for counts in &last.counts {
        assert_eq!(counts.iter().sum::<u64>(), 32 * trainer.steps());
    }
    let cost = last.cost_since(before, &trainer.session).expect("a step").expect("steps");
    assert!((2.5..2.9).contains(&cost.share), "{cost:?}");
    let all = last.cost_since(&last.none(), &trainer.session).expect("a step").expect("steps");
    let weighted = trainer.weighted_by_choices().expect("a step").expect("steps");
    let options = CompareOptions {
        algorithms: vec!["dfq:target=2.6".into()],
        seeds: 1,
        folder: None,
        targets: Vec::new(),
    };
    let compared = compare(&source, &config, &data, &options, &mut |_| {}).expect("a comparison");
    let counted = compared.algorithms[0].cost.weighted_macs;
    assert_eq!(counted, weighted, "train and compare count alike, {all:?}");
}
