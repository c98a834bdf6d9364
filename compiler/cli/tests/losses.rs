//! `trainc train --loss`: the first steps are PyTorch's (`tests/reference/export_losses.py`), a regression is learned, data
//! that do not fit are refused.

mod common;

use std::path::{Path, PathBuf};

use common::{Folder, only};
use trainc_data::{NpyArray, TensorData, read_npz, read_safetensors, write_npz};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/losses").join(name)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn first_steps_are_those_of_pytorch() {
    let folder = Folder::new("losses");
    let several = ["--output-loss", "boxes=mse:0.5", "--output-loss", "marks=bce:2"];
    for (name, loss, more) in [
        ("mse", "mse", &[][..]),
        ("bce", "bce", &[]),
        ("bce_sigmoid", "bce", &[]),
        ("cross_entropy", "cross-entropy", &[]),
        ("words", "cross-entropy", &[]),
        ("several", "cross-entropy", &several),
    ] {
        let (model, data) = (fixture(&format!("{name}.onnx")), fixture(&format!("{name}.npz")));
        let lines = folder.json(
            &[
                &[
                    "train",
                    text(&model),
                    "--data",
                    text(&data),
                    "--loss",
                    loss,
                    "--algorithm",
                    "fp32",
                    "--batch",
                    "4",
                    "--steps",
                    "3",
                    "--no-shuffle",
                    "--learning-rate",
                    "0.1",
                    "--weights-out",
                    "w.st",
                ][..],
                more,
            ]
            .concat(),
        );
        let found = read_safetensors(&folder.path("w.st")).unwrap();
        let mut compared = 0;
        for (key, expected) in read_npz(&data).unwrap() {
            let expected = expected.data.to_f32();
            if let Some(parameter) = key.strip_prefix("after/") {
                let tensor = found.iter().find(|t| t.name == parameter);
                let TensorData::F32(values) = &tensor.expect("a parameter").data else {
                    panic!("{parameter}");
                };
                for (a, b) in values.iter().zip(&expected) {
                    assert!((a - b).abs() < 2e-6, "{name}: {parameter}: {a}, expected {b}");
                }
                compared += 1;
            } else if key.starts_with("test_") {
                let judged = only(&lines, "finished")[key.as_str()].as_f64().expect("a number");
                let expected = f64::from(expected[0]);
                assert!((judged - expected).abs() < 2e-6, "{name}: {judged}, expected {expected}");
                compared += 1;
            }
        }
        assert!(compared >= 4, "{name}: {compared}");
    }
}

/// Targets that are a linear function of the inputs: what is left is a hundredth of their variance.
#[test]
fn a_regression_is_learned() {
    let folder = Folder::new("regression");
    let split = |count: usize, offset: usize| {
        // SplitMix's finalizer: columns that have nothing to do with each other.
        let place = |i: usize| {
            let z = ((i + offset) as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z >> 40) as f32 / (1u64 << 24) as f32 - 0.5
        };
        let x: Vec<f32> = (0..count * 5).map(place).collect();
        let y = x.chunks(5).flat_map(|x| [x[0] - x[1], x[2], x[3] + 0.5 * x[4]]).collect();
        (NpyArray::f32(&[count, 5], x), NpyArray::f32(&[count, 3], y))
    };
    let ((x, y), (x_test, y_test)) = (split(256, 0), split(64, 10_000));
    let values = y_test.data.to_f32();
    let square = values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / values.len() as f64;
    let arrays = [("x_train", x), ("y_train", y), ("x_test", x_test), ("y_test", y_test)];
    write_npz(&folder.path("data.npz"), &arrays).unwrap();
    let model = fixture("bce.onnx");
    let common =
        ["train", text(&model), "--data", "data.npz", "--loss", "mse", "--algorithm", "fp32"];
    let rest = ["--batch", "8", "--learning-rate", "0.01", "--optimizer", "adam"];
    let rest = [&rest[..], &["--checkpoint", "run.ckpt"]].concat();
    let lines = folder.json(&[&common[..], &rest[..], &["--epochs", "60"]].concat());
    let finished = only(&lines, "finished");
    assert!(finished["test_accuracy"].is_null());
    let loss = finished["test_loss"].as_f64().unwrap();
    assert!(lines[0]["test_loss"].as_f64().unwrap() > 0.3 * square);
    assert!(loss < 0.01 * square, "{loss} of {square}");
    // A run for another loss does not go on from it.
    let other =
        ["train", text(&model), "--data", "data.npz", "--loss", "bce", "--algorithm", "fp32"];
    let message = folder.fail(&[&other[..], &rest[..], &["--resume"]].concat());
    assert!(message.contains("loss: mse in the file, bce here"), "{message}");
}

#[test]
fn targets_that_do_not_fit() {
    let folder = Folder::new("unfit");
    let (model, data) = (fixture("mse.onnx"), fixture("mse.npz"));
    let train = |more: &[&str]| {
        let common = ["train", text(&model), "--data", text(&data), "--batch", "4"];
        folder.fail(&[&common[..], more].concat())
    };
    let message = train(&[]);
    assert!(message.contains("float targets") && message.contains("--loss mse"), "{message}");
    let (model, data) = (fixture("cross_entropy.onnx"), fixture("cross_entropy.npz"));
    let common = ["train", text(&model), "--data", text(&data), "--batch", "4", "--loss", "mse"];
    let message = folder.fail(&common);
    assert!(message.contains("[4, 5]") && message.contains("[3, 4, 5]"), "{message}");
    let given = |model: &str, data: &str| {
        let (model, data) = (fixture(model), fixture(data));
        let loss = ["--batch", "4", "--loss", "cross-entropy"];
        folder.fail(&[&["train", text(&model), "--data", text(&data)][..], &loss].concat())
    };
    let message = given("words.onnx", "mse.npz");
    assert!(message.contains("i32[4,7], but images of `mse` are 1 x 1 x 5"), "{message}");
    let message = given("mse.onnx", "words.npz");
    assert!(message.contains("f32[4,5], but images of `words` are 1 x 1 x 7"), "{message}");
}

/// Of a model with several results: each needs an array, and a name that there is.
#[test]
fn results_that_do_not_fit() {
    let folder = Folder::new("results");
    let model = fixture("several.onnx");
    let fail = |data: &str, more: &[&str]| {
        let data = fixture(data);
        let common = ["train", text(&model), "--data", text(&data), "--algorithm", "fp32"];
        folder.fail(&[&common[..], &["--batch", "4"], more].concat())
    };
    let message = fail("mse.npz", &["--loss", "mse"]);
    assert!(message.contains("boxes.targets") && message.contains("`y_train.RESULT`"), "{message}");
    let message = fail("several.npz", &["--output-loss", "boxs=mse"]);
    assert!(message.contains("`boxs`") && message.contains("`boxes`"), "{message}");
    let message =
        fail("several.npz", &["--output-loss", "boxes=bce", "--output-loss", "classes=mse"]);
    assert!(message.contains("targets") && message.contains("the loss takes [4]"), "{message}");
    // One result of several, for which a factor is said.
    let data = fixture("several.npz");
    let only = ["train", text(&model), "--data", text(&data), "--algorithm", "fp32"];
    folder.json(
        &[&only[..], &["--batch", "4", "--epochs", "1", "--output-loss", "boxes=mse:2"]].concat(),
    );
}
