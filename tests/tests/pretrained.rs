//! Networks that were trained elsewhere keep their meaning under the algorithm for them, and get better by it.
//!
//! The networks of `tests/data/personalise` know MNIST's digits, 28 by 28; here they see the digits that the repository ships,
//! drawn at that size.

use std::path::PathBuf;

use trainc_data::{Dataset, Images, Split};
use trainc_driver::config::{BatchNormHandling, Config};
use trainc_driver::model::ModelSource;
use trainc_driver::session::{Entries, INFER, Session, TRAIN_STEP};
use trainc_driver::trained::{FINE_TUNING, choose_algorithm};
use trainc_host::HostProgram;
use trainc_ir::{Op, RunContext, Tensor};

const SIZE: usize = 28;

fn source(name: &str) -> ModelSource {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/personalise");
    ModelSource::File(folder.join(format!("{name}.onnx")))
}

/// The pixels of digit `i`.
fn pixels(split: &Split, i: usize) -> &[u8] {
    match &split.images {
        Images::U8(all) => &all[i * 64..][..64],
        Images::F32(_) | Images::I32(_) => panic!("digits are bytes"),
    }
}

/// A digit of 8 by 8 in the middle 24 by 24 of an image, bilinearly; as the network wants its pixels.
fn image(pixels: &[u8], normalized: bool) -> Vec<f32> {
    let largest = f32::from(*pixels.iter().max().expect("pixels").max(&1));
    let at = |y: usize, x: usize| f32::from(pixels[y.min(7) * 8 + x.min(7)]) / largest;
    let mut image = vec![0f32; SIZE * SIZE];
    for y in 0..24 {
        for x in 0..24 {
            let (v, u) = (y as f32 * 7.0 / 23.0, x as f32 * 7.0 / 23.0);
            let (i, j) = (v as usize, u as usize);
            let (a, b) = (v - i as f32, u - j as f32);
            let top = at(i, j) * (1.0 - b) + at(i, j + 1) * b;
            let bottom = at(i + 1, j) * (1.0 - b) + at(i + 1, j + 1) * b;
            image[(y + 2) * SIZE + x + 2] = top * (1.0 - a) + bottom * a;
        }
    }
    if normalized {
        image.iter_mut().for_each(|x| *x = (*x - 0.1307) / 0.3081);
    }
    image
}

fn session(name: &str, algorithm: &str, batch: usize) -> Session {
    let config = Config { algorithm: algorithm.into(), batch: Some(batch), ..Config::default() };
    Session::new(&source(name), &config, Entries::TrainAndInfer).expect("compiles")
}

fn scores(host: &mut HostProgram, images: &[Vec<f32>]) -> Vec<Vec<f32>> {
    images
        .iter()
        .map(|image| {
            let x = Tensor::f32([1, 1, SIZE, SIZE], image.clone());
            let run = RunContext::default();
            host.run(INFER, &[&x], &run).expect("infers")[0].as_f32().to_vec()
        })
        .collect()
}

fn largest(scores: &[f32]) -> usize {
    (0..scores.len()).fold(0, |best, i| if scores[i] > scores[best] { i } else { best })
}

fn right(scores: &[Vec<f32>], labels: &[u32]) -> usize {
    scores.iter().zip(labels).filter(|(s, l)| largest(s) == **l as usize).count()
}

const NETWORKS: [&str; 7] = [
    "lenet_torchscript",
    "lenet_torchscript_training",
    "lenet_dynamo",
    "depthwise_torchscript",
    "depthwise_torchscript_training",
    "depthwise_dynamo",
    "depthwise_dynamo_unoptimized",
];

/// Scores in integers beside those in FP32: a small error, and nearly always the same class.
#[test]
fn integers_mean_what_the_network_meant() {
    let data = Dataset::digits();
    for name in NETWORKS {
        let normalized = name.starts_with("depthwise");
        let draw = |i: usize| image(pixels(&data.test, i), normalized);
        let images: Vec<Vec<f32>> = (0..200).map(draw).collect();
        let mut float = session(name, "fp32", 1).on_this_machine().unwrap();
        let mut integer = session(name, FINE_TUNING, 1).on_this_machine().unwrap();
        let (float, integer) = (scores(&mut float, &images), scores(&mut integer, &images));
        let (mut error, mut power, mut same) = (0f64, 0f64, 0);
        for (f, q) in float.iter().zip(&integer) {
            same += usize::from(largest(f) == largest(q));
            for (f, q) in f.iter().zip(q) {
                error += f64::from(f - q).powi(2);
                power += f64::from(*f).powi(2);
            }
        }
        let relative = (error / power).sqrt();
        println!("{name}: {same} of 200 the same, relative error {relative:.4}");
        assert!(same >= 194, "{name}: {same} of 200 classes are the same");
        assert!(relative < 0.06, "{name}: relative error {relative}");
    }
}

/// The model's own weights choose the algorithm; fresh ones do not.
#[test]
fn trained_weights_choose_the_algorithm() {
    for name in NETWORKS {
        let mut config = Config::default();
        let note = choose_algorithm(&source(name), &mut config);
        assert_eq!(config.algorithm, FINE_TUNING, "{name}");
        assert!(note.is_some_and(|n| n.contains(FINE_TUNING)), "{name}");
    }
}

/// On digits of another hand the networks learn: more of what they have not seen is right after a few steps.
#[test]
fn fine_tuning_improves() {
    let data = Dataset::digits();
    for name in ["lenet_torchscript", "depthwise_torchscript", "depthwise_torchscript_training"] {
        let normalized = name.starts_with("depthwise");
        let batch = 32;
        let (train, test) = (&data.train, &data.test);
        let tests: Vec<Vec<f32>> = (0..200).map(|i| image(pixels(test, i), normalized)).collect();
        let mut learner = session(name, FINE_TUNING, batch).on_this_machine().unwrap();
        let before = right(&scores(&mut learner, &tests), &test.labels);
        learn(&mut learner, train, batch, 40, normalized);
        let after = right(&scores(&mut learner, &tests), &test.labels);
        println!("{name}: {before} of 200 before, {after} after 40 steps");
        assert!(after > before && after >= 170, "{name}: {before} of 200 before, {after} after");
    }
}

/// Steps of size 2^-7 on the first digits of the training split.
fn learn(host: &mut HostProgram, train: &Split, batch: usize, steps: usize, normalized: bool) {
    let rate = Tensor::f32([], vec![1.0 / 128.0]);
    for step in 0..steps {
        let range = step * batch % (train.labels.len() - batch)..;
        let draw = |i| image(pixels(train, i), normalized);
        let images: Vec<f32> = range.clone().take(batch).flat_map(draw).collect();
        let labels = range.take(batch).map(|i| train.labels[i] as i32).collect();
        let x = Tensor::f32([batch, 1, SIZE, SIZE], images);
        let labels = Tensor::i32([batch], labels);
        let run = RunContext { seed: 1, step: step as u32 };
        host.run(TRAIN_STEP, &[&x, &labels, &rate], &run).unwrap();
    }
}

/// What fills the rest of a batch changes nothing of an image's scores, under either integer algorithm.
#[test]
fn neighbours_do_not_matter() {
    let data = Dataset::digits();
    let alone: Vec<Vec<f32>> = (0..3).map(|i| image(pixels(&data.test, i), false)).collect();
    for algorithm in [FINE_TUNING, "niti"] {
        let name = "lenet_torchscript";
        let mut one = session(name, algorithm, 8).on_this_machine().unwrap();
        let expected = scores(&mut one, &alone);
        let config = Config {
            algorithm: algorithm.into(),
            batch: Some(8),
            infer_batch: Some(4),
            ..Config::default()
        };
        let session = Session::new(&source(name), &config, Entries::TrainAndInfer).unwrap();
        let mut four = session.on_this_machine().unwrap();
        let huge = vec![1e6f32; SIZE * SIZE];
        let batch = [&alone[..], &[huge]].concat().concat();
        let x = Tensor::f32([4, 1, SIZE, SIZE], batch);
        let found = four.run(INFER, &[&x], &RunContext::default()).unwrap();
        assert_eq!(found[0].shape()[..], [4, 10]);
        assert_eq!(found[0].as_f32()[..30], expected.concat()[..], "{algorithm}");
    }
}

/// The last layer alone: it learns, in a fraction of the memory, and nothing else changes.
#[test]
fn the_last_layer_alone() {
    let data = Dataset::digits();
    let tests: Vec<Vec<f32>> = (0..200).map(|i| image(pixels(&data.test, i), false)).collect();
    let planned = |target: &str, train: &[&str]| {
        let config = Config {
            algorithm: FINE_TUNING.into(),
            target: target.into(),
            batch: Some(32),
            train: train.iter().map(|name| name.to_string()).collect(),
            ..Config::default()
        };
        let source = source("lenet_torchscript");
        Session::new(&source, &config, Entries::TrainAndInfer).expect("compiles")
    };
    for target in ["host", "c", "neon+dotprod", "hvx", "xpulpv2"] {
        let arena = |train: &[&str]| planned(target, train).program().memory.arena_bytes;
        let (last, whole) = (arena(&["fc3"]), arena(&[]));
        println!("{target}: {last} of {whole} bytes of arena");
        assert!(5 * last < 3 * whole, "{target}: {last} of {whole} bytes of arena");
    }
    let session = planned("host", &["fc3"]);
    assert!(session.notes.iter().any(|n| n.contains("as in inference")), "{:?}", session.notes);
    let mut learner = session.on_this_machine().unwrap();
    let before = right(&scores(&mut learner, &tests), &data.test.labels);
    learn(&mut learner, &data.train, 32, 40, false);
    let after = right(&scores(&mut learner, &tests), &data.test.labels);
    println!("last layer: {before} of 200 before, {after} after 40 steps");
    assert!(after > before && after >= 170, "{before} of 200 before, {after} after");
    let state: Vec<String> = learner.state().unwrap().into_iter().map(|(name, _)| name).collect();
    assert!(state.iter().all(|name| name.contains("fc3")), "{state:?}");
}

/// The flag and the algorithm file decide what becomes of batch normalization, whatever the export's form.
#[test]
fn batch_normalization_as_asked() {
    let folder = std::env::temp_dir().join(format!("trainc-fold-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("folding.toml");
    let text = trainc_opt::algorithm::BUILT_IN.iter().find(|(name, _)| *name == FINE_TUNING);
    let text = text.expect("built in").1.replacen(
        "[translation]\n",
        "[translation]\nbatch_norm = \"fold\"\n",
        1,
    );
    std::fs::write(&file, text).expect("written");
    let folding = file.to_string_lossy().into_owned();
    let of = |name: &str, algorithm: &str, batch_norm: BatchNormHandling| {
        let config =
            Config { algorithm: algorithm.into(), batch: Some(4), batch_norm, ..Config::default() };
        let source = source(name);
        let session = Session::new(&source, &config, Entries::TrainAndInfer);
        let session = session.expect("compiles");
        let module = &session.entry(TRAIN_STEP).unwrap().module;
        let training = |op: &Op| matches!(op, Op::BatchNorm(norm) if norm.batch);
        let count = module.nodes().iter().filter(|n| training(&n.op)).count();
        (session, count)
    };
    use BatchNormHandling::{AsExported, Frozen, Training};
    let trained = "depthwise_torchscript_training";
    let all = of(trained, FINE_TUNING, AsExported).1;
    assert!(all > 10);
    assert_eq!(of(trained, FINE_TUNING, Frozen).1, 0);
    assert_eq!(of(trained, &folding, AsExported).1, 0);
    // Asked for by the flag, it trains even so.
    assert_eq!(of(trained, &folding, Training).1, all);
    assert_eq!(of("depthwise_dynamo_unoptimized", FINE_TUNING, AsExported).1, 0);
    assert_eq!(of("depthwise_dynamo_unoptimized", FINE_TUNING, Training).1, all);
    // Folded, the network computes what it did with frozen statistics.
    let data = Dataset::digits();
    let images: Vec<Vec<f32>> = (0..50).map(|i| image(pixels(&data.test, i), true)).collect();
    let classes = |session: Session| -> Vec<usize> {
        let mut host = session.on_this_machine().unwrap();
        if session.algorithm.name == "fp32" {
            let x: Vec<f32> = images.iter().take(4).flatten().copied().collect();
            let x = Tensor::f32([4, 1, SIZE, SIZE], x);
            let scores = host.run(INFER, &[&x], &RunContext::default()).unwrap();
            return scores[0].as_f32().chunks(10).map(largest).collect();
        }
        scores(&mut host, &images).iter().map(|s| largest(s)).collect()
    };
    let folded = classes(of(trained, &folding, AsExported).0);
    assert_eq!(folded, classes(of(trained, FINE_TUNING, Frozen).0));
    let float = classes(of(trained, "fp32", Frozen).0);
    assert_eq!(float[..], folded[..4]);
    std::fs::remove_dir_all(folder).expect("removed");
}
