//! `--freeze` and `--train`: what does not train is constant, costs nothing in training, and stays as it is.

mod common;

use common::{Folder, bytes};
use trainc_data::{NamedTensor, TensorData, read_safetensors};

const DATA: [&str; 4] = ["--data", "data.npz", "--batch", "8"];

/// The weights after some steps of training in the order of the file.
fn trained(folder: &Folder, model: &str, more: &[&str]) -> Vec<NamedTensor> {
    let weights = ["--weights-out", "w.st", "--no-shuffle", "--epochs", "1"];
    folder.json(&[&["train", model], &DATA[..], &weights[..], more].concat());
    read_safetensors(&folder.path("w.st")).unwrap()
}

fn named<'t>(tensors: &'t [NamedTensor], name: &str) -> &'t TensorData {
    &tensors.iter().find(|t| t.name == name).unwrap_or_else(|| panic!("{name}")).data
}

fn training_graph(folder: &Folder, model: &str, more: &[&str]) -> String {
    folder
        .succeed(&[&["inspect", model, "--algorithm", "fp32", "--emit=training=-"], more].concat())
}

/// Names of all weights of a model, in the file's order.
fn names(folder: &Folder, model: &str) -> Vec<String> {
    let all = trained(folder, model, &["--algorithm", "fp32", "--steps", "0"]);
    all.into_iter().map(|t| t.name).collect()
}

#[test]
fn one_step_of_the_last_layer() {
    let folder = Folder::new("last");
    let (model, _) = (folder.model(), folder.data());
    let names = names(&folder, model);
    let last = names.last().unwrap().as_str();
    let layer = last.strip_suffix(".weight").unwrap();
    let fp32 = ["--algorithm", "fp32", "--learning-rate", "0.1", "--steps"];
    let before = trained(&folder, model, &[&fp32[..], &["0"]].concat());
    let all = trained(&folder, model, &[&fp32[..], &["1"]].concat());
    for pattern in [last, layer, "*.weight"] {
        let kept: Vec<&str> = match pattern {
            "*.weight" => Vec::new(),
            _ => names.iter().map(String::as_str).filter(|n| *n != last).collect(),
        };
        let flags = [&fp32[..], &["1", "--train", pattern]].concat();
        let some = trained(&folder, model, &flags);
        for name in &names {
            // The first step's gradient is the same whatever else trains.
            let expected = if kept.contains(&name.as_str()) { &before } else { &all };
            assert!(named(&some, name) == named(expected, name), "{pattern}: {name}");
        }
    }
    // The other way round.
    let flags = [&fp32[..], &["1", "--freeze", last]].concat();
    let some = trained(&folder, model, &flags);
    assert!(named(&some, last) == named(&before, last));
    assert!(names.iter().any(|n| named(&some, n) != named(&before, n)));
    // `freeze` takes out of what `train` leaves.
    let first = names[0].as_str();
    let flags = [&fp32[..], &["1", "--train", first, "--train", last, "--freeze", last]].concat();
    let some = trained(&folder, model, &flags);
    assert!(named(&some, last) == named(&before, last));
    assert!(named(&some, first) != named(&before, first));
    // No gradient of a frozen layer, nor of anything before the first one that trains.
    let whole = training_graph(&folder, model, &[]);
    let frozen = training_graph(&folder, model, &["--train", last]);
    assert!(whole.contains("conv2d_gradient_weight") && whole.contains("relu_gradient"), "{whole}");
    assert!(!frozen.contains("conv2d_gradient") && !frozen.contains("relu_gradient"), "{frozen}");
    assert_eq!(frozen.matches("sgd_update").count(), 1);
}

#[test]
fn patterns_that_match_nothing() {
    let folder = Folder::new("nothing");
    let model = folder.model();
    let message = folder.fail(&["inspect", model, "--freeze", "convolution*"]);
    let names = names_of_state(&folder, model);
    assert!(message.contains("`convolution*`") && message.contains(&names[0]), "{message}");
    folder.data();
    let message = folder.fail(&[&["train", model, "--freeze", "*"], &DATA[..]].concat());
    assert!(message.contains("no trainable parameter"), "{message}");
}

/// A network of constants infers, and has no state.
#[test]
fn all_frozen() {
    let folder = Folder::new("frozen");
    let model = folder.model();
    folder.succeed(&[
        "compile",
        model,
        "--algorithm",
        "bnn-ste",
        "--freeze",
        "*",
        "--target",
        "c",
        "-o",
        "c",
    ]);
    let manifest = String::from_utf8(bytes(&folder.path("c/manifest.json"))).unwrap();
    assert!(!manifest.contains("train_step") && manifest.contains("\"infer\""), "{manifest}");
    let text = folder.succeed(&[
        "inspect",
        model,
        "--algorithm",
        "bnn-ste",
        "--freeze",
        "*",
        "--target",
        "c",
        "--emit=optimised=-",
    ]);
    assert!(text.contains("binary_conv2d") && !text.contains("parameter"), "{text}");
}

fn names_of_state(folder: &Folder, model: &str) -> Vec<String> {
    folder.succeed(&["compile", model, "-o", "whole"]);
    let tensors = read_safetensors(&folder.path("whole/weights.safetensors")).unwrap();
    tensors.into_iter().map(|t| t.name).collect()
}

/// A frozen batch norm normalizes with its running statistics and leaves them; the others go on.
#[test]
fn batch_norm() {
    let folder = Folder::new("norm");
    folder.data();
    folder.succeed(&["zoo", "residual", "-o", "net.onnx", "--classes", "2"]);
    let names = names(&folder, "net.onnx");
    let means: Vec<&String> = names.iter().filter(|n| n.ends_with("running_mean")).collect();
    let layer = means[0].strip_suffix(".running_mean").unwrap();
    let graph = |more: &[&str]| training_graph(&folder, "net.onnx", more);
    let count = |text: &str| text.matches("= batch_statistics").count();
    let (whole, frozen) = (graph(&[]), graph(&["--freeze", layer]));
    assert_eq!(count(&whole), means.len(), "{whole}");
    assert_eq!(count(&frozen), means.len() - 1, "{frozen}");
    // Scale and shift take the statistics with them; the scale alone does not.
    let both = [format!("{layer}.weight"), format!("{layer}.bias")];
    assert_eq!(count(&graph(&["--freeze", &both[0], "--freeze", &both[1]])), means.len() - 1);
    assert_eq!(count(&graph(&["--freeze", &both[0]])), means.len());
    assert_eq!(count(&graph(&["--train", "*.weight"])), 0);
    let fp32 = ["--algorithm", "fp32", "--freeze", layer];
    let before = trained(&folder, "net.onnx", &[&fp32[..], &["--steps", "0"]].concat());
    let after = trained(&folder, "net.onnx", &fp32);
    for name in &means {
        let same = named(&before, name) == named(&after, name);
        assert_eq!(same, *name == means[0], "{name}");
    }
}

/// Frozen weights are constants of the artifact, which computes what the reference does.
#[test]
fn artifacts() {
    let folder = Folder::new("artifact");
    let model = folder.model();
    let names = names_of_state(&folder, model);
    let last = names.iter().rev().find(|n| n.ends_with(".weight")).unwrap().clone();
    let both = [("fp32", "c"), ("fp32", "host"), ("niti", "c"), ("niti-finetune", "c")];
    for (algorithm, target) in both {
        let common =
            ["compile", model, "--algorithm", algorithm, "--batch", "4", "--target", target];
        folder.succeed(&[&common[..], &["-o", "all"]].concat());
        folder.succeed(&[&common[..], &["-o", "some", "--train", &last]].concat());
        let manifest = |name: &str| -> serde_json::Value {
            serde_json::from_slice(&bytes(&folder.path(name).join("manifest.json"))).unwrap()
        };
        let (all, some) = (manifest("all"), manifest("some"));
        let number = |m: &serde_json::Value, what: &str| m["memory"][what].as_u64().unwrap();
        assert!(number(&some, "state_bytes") < number(&all, "state_bytes"));
        assert!(number(&some, "arena_bytes") < number(&all, "arena_bytes"));
        assert!(number(&some, "constant_bytes") > number(&all, "constant_bytes"));
        let frozen = some["frozen"].as_array().unwrap();
        assert!(!frozen.is_empty() && frozen.iter().all(|n| n.as_str() != Some(&last)));
        if target == "c" {
            folder.succeed(&["verify", "some"]);
        }
    }
}

/// Under integer algorithms, too, the frozen layers stay as they are and the others move; weights that are constants of the
/// model's file are frozen layers.
#[test]
fn under_integers() {
    let folder = Folder::new("integers");
    let (model, _) = (folder.model(), folder.data());
    let names = names(&folder, model);
    for algorithm in ["niti", "niti-finetune"] {
        for (flag, last_moves) in [("--train", true), ("--freeze", false)] {
            let last = names.last().unwrap().as_str();
            let common = ["--algorithm", algorithm, flag, last, "--steps"];
            let before = trained(&folder, model, &[&common[..], &["0"]].concat());
            let after = trained(&folder, model, &[&common[..], &["3"]].concat());
            for name in &names {
                let moved = named(&before, name) != named(&after, name);
                assert_eq!(moved, (name == last) == last_moves, "{algorithm} {flag}: {name}");
            }
        }
    }
}

#[test]
fn a_checkpoint_of_another_choice_is_refused() {
    let folder = Folder::new("choice");
    let (model, _) = (folder.model(), folder.data());
    let run = ["train", model, "--algorithm", "fp32", "--epochs", "1", "--checkpoint", "c"];
    let run = [&run[..], &DATA].concat();
    let names = names(&folder, model);
    folder.json(&[&run[..], &["--freeze", &names[0]]].concat());
    let message = folder.fail(&[&run[..], &["--resume"]].concat());
    assert!(message.contains("frozen parameters"), "{message}");
}

/// Norms behind binary layers are said to be thresholds; the one before the last layer, of FP32, stays.
#[test]
fn norms_that_become_thresholds_are_said() {
    let folder = Folder::new("freeze-thresholds");
    folder.succeed(&["zoo", "lenet-binary", "--bytes", "-o", "net.onnx"]);
    let compile = ["compile", "net.onnx", "--algorithm", "bnn-ste", "--freeze", "*"];
    let output =
        folder.run(&[&compile[..], &["--target", "c", "--batch", "1", "-o", "out"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    for line in [
        "2 of 3 batch normalizations have frozen statistics and are thresholds of integer sums now: `features.2`, `features.6`",
        "1 of 3 batch normalizations keep frozen statistics and stay in FP32 (its operand is used elsewhere, too): `classifier.1`",
    ] {
        assert!(said.contains(line), "{said}");
    }
    let manifest = String::from_utf8(bytes(&folder.path("out/manifest.json"))).unwrap();
    assert_eq!(manifest.matches("frozen statistics, a threshold of integer sums").count(), 2);
}
