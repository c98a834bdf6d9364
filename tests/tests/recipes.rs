//! FP32 training recipes against PyTorch: optimizers, schedules, frozen layers and clipped gradients over 20 steps, by
//! the options that a user gives. tests/reference/export_recipes.py made tests/data/recipes.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde_json::Value;
use trainc_data::{NpyData, read_npz};
use trainc_driver::config::Config;
use trainc_driver::model::ModelSource;
use trainc_driver::options::{OPTIONS, Said};
use trainc_driver::session::{Entries, Session, TRAIN_STEP};
use trainc_ir::graph::{Graph, InputRole};
use trainc_ir::interpreter::Interpreter;
use trainc_ir::{RunContext, Tensor};

/// Largest difference of a parameter's element after all steps, and of a loss.
const TOLERANCE: f32 = 1e-4;
/// What an element moves at least, so that a comparison says something.
const MOVED: f32 = 1e-2;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/recipes")
}

fn facts() -> Value {
    let text = std::fs::read_to_string(folder().join("recipes.json")).expect("the facts");
    serde_json::from_str(&text).expect("JSON")
}

/// The configuration that options give, spelled as flags are.
fn config(options: &Value, batch: usize) -> Config {
    let mut said = Said::default();
    for (name, text) in options.as_object().expect("options") {
        let option = OPTIONS.iter().find(|o| o.flag() == name);
        let option = option.unwrap_or_else(|| panic!("there is no option `{name}`"));
        let text = text.as_str().expect("words");
        said.read(option, OsStr::new(text)).unwrap_or_else(|e| panic!("--{name} {text}: {e}"));
    }
    let algorithm = "fp32".to_string();
    said.over(Config { algorithm, batch: Some(batch), ..Config::default() })
}

fn difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn twenty_steps_give_the_weights_of_pytorch() {
    let facts = facts();
    let arrays: BTreeMap<_, _> =
        read_npz(&folder().join("recipes.npz")).expect("the arrays").into_iter().collect();
    let whole = |name: &str| -> Vec<i64> { arrays[name].data.to_integers().expect("integers") };
    let (pixels, labels) = (whole("pixels"), whole("labels"));
    let shape = &arrays["pixels"].shape;
    let (batches, batch) = (shape[0], shape[1]);
    let size = pixels.len() / batches;
    let scale = facts["scale"].as_f64().expect("a number") as f32;
    let steps = facts["steps"].as_u64().expect("a number");
    for (name, recipe) in facts["recipes"].as_object().expect("recipes") {
        let config = config(&recipe["options"], batch);
        let source = ModelSource::File(folder().join("net.onnx"));
        let session = Session::new(&source, &config, Entries::TrainAndInfer)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let graph: &Graph = &session.entry(TRAIN_STEP).expect("a step").module;
        let mut interpreter = Interpreter::new(graph);
        for step in 0..steps {
            let rate = session.algorithm.step_size(step, steps) as f32;
            let expected = recipe["rates"][step as usize].as_f64().expect("a rate") as f32;
            assert!((rate - expected).abs() <= 1e-6, "{name}: step {step}: {rate}, not {expected}");
            let own = step as usize % batches;
            let inputs = graph.inputs().iter().map(|input| match input.role {
                InputRole::Data => {
                    let values = pixels[own * size..][..size].iter();
                    let ty = graph.ty(input.value);
                    Tensor::f32(ty.shape.clone(), values.map(|&p| p as f32 * scale).collect())
                }
                InputRole::Labels => {
                    let values = labels[own * batch..][..batch].iter();
                    Tensor::i32([batch], values.map(|&l| l as i32).collect())
                }
                InputRole::Scheduled | InputRole::LearningRate => Tensor::f32([], vec![rate]),
            });
            let inputs: Vec<Tensor> = inputs.collect();
            let run = RunContext { seed: 0, step: step as u32 };
            let outputs = interpreter.step(&inputs, &run).unwrap_or_else(|e| panic!("{name}: {e}"));
            let loss = outputs[0].as_f32()[0];
            let expected = recipe["losses"][step as usize].as_f64().expect("a loss") as f32;
            let what = format!("{name}: loss of step {step}: {loss}, not {expected}");
            assert!((loss - expected).abs() <= TOLERANCE, "{what}");
        }
        let mut compared = 0;
        for (key, array) in &arrays {
            let Some(parameter) = key.strip_prefix(&format!("{name}/")) else { continue };
            let NpyData::F32(expected) = &array.data else { panic!("{key} is not f32") };
            let Some(position) = graph.parameter_named(parameter) else {
                assert!(session.frozen.iter().any(|f| f == parameter), "{name}: {parameter}");
                continue;
            };
            let initial = graph.parameters()[position].initial.as_f32();
            let worst = difference(interpreter.parameters()[position].as_f32(), expected);
            assert!(worst <= TOLERANCE, "{name}: {parameter} differs by {worst:e}");
            let moved = difference(initial, expected);
            assert!(moved >= MOVED, "{name}: {parameter} moved by {moved:e} alone");
            compared += 1;
        }
        let frozen = session.frozen.len();
        assert_eq!(compared + frozen, 7, "{name}: {compared} parameters compared, {frozen} frozen");
    }
}
