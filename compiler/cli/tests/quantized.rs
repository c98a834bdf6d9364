//! `--algorithm quantized`: inference of quantized networks.

mod common;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use common::{Folder, only};
use trainc_data::{read_npz, write_npz};

fn brevitas(file: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/brevitas");
    folder.join(file).to_string_lossy().into_owned()
}

const ALGORITHM: [&str; 2] = ["--algorithm", "quantized"];

fn with<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [arguments, &ALGORITHM].concat()
}

/// Programs of `infer` alone run bit for bit on the host and in portable C.
#[test]
fn artifacts_verify() {
    let folder = Folder::new("quantized-verify");
    for name in ["mixed", "bipolar_trunc", "affine"] {
        for target in ["host", "c"] {
            let model = brevitas(&format!("{name}.onnx"));
            let command = ["compile", &model, "--batch", "2", "--target", target, "-o", "out"];
            folder.succeed(&with(&command));
            let text = folder.succeed(&["verify", "out", "--steps", "2"]);
            assert!(text.contains("bit-exact: 2 steps"), "{name} for {target}: {text}");
        }
    }
    let manifest = fs::read_to_string(folder.path("out/manifest.json")).unwrap();
    assert!(!manifest.contains("train_step") && manifest.contains("\"schedule\": []"));
    assert!(!folder.path("out/train_step.module.txt").exists());
}

/// The host's results are the classes that qonnx gives.
#[test]
fn run_agrees_with_qonnx() {
    let folder = Folder::new("quantized-run");
    let recorded = read_npz(&PathBuf::from(brevitas("mixed.npz"))).unwrap();
    let array = |name: &str| recorded.iter().find(|(n, _)| n == name).unwrap().1.clone();
    write_npz(&folder.path("in.npz"), &[("global_in", array("input/global_in"))]).unwrap();
    let model = brevitas("mixed.onnx");
    let command = ["run", &model, "--input", "in.npz", "--output", "out.npz", "--batch", "3"];
    folder.succeed(&with(&command));
    let found = read_npz(&folder.path("out.npz")).unwrap();
    let (found, expected) = (found[0].1.data.to_f32(), array("output/global_out").data.to_f32());
    assert_eq!(found.len(), expected.len());
    let class = |scores: &[f32]| (0..10).max_by(|&a, &b| scores[a].total_cmp(&scores[b]));
    for (a, b) in found.chunks(10).zip(expected.chunks(10)) {
        assert_eq!(class(a), class(b));
    }
}

#[test]
fn what_does_not_train_says_so() {
    let folder = Folder::new("quantized-train");
    let error = folder.fail(&with(&["train", "--epochs", "1"]));
    assert!(error.contains("`quantized` only infers"), "{error}");
    let model = brevitas("mixed.onnx");
    let error = folder.fail(&with(&["inspect", &model, "--emit", "training"]));
    assert!(error.contains("only infers"), "{error}");
}

/// The example builds without warnings and prints a row an input.
#[test]
fn the_example_infers() {
    let folder = Folder::new("quantized-example");
    let model = brevitas("mixed.onnx");
    let command = ["compile", &model, "--batch", "2", "--target", "c", "--example", "-o", "out"];
    folder.succeed(&with(&command));
    let sources = ["main.c", "mixed.c", "mixed_data.c", "trainc_rt.c"];
    let flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-o", "example"];
    let built = Command::new("cc")
        .args(flags)
        .args(sources)
        .current_dir(folder.path("out"))
        .output()
        .expect("a C compiler");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let recorded = read_npz(&PathBuf::from(brevitas("mixed.npz"))).unwrap();
    let array = |name: &str| recorded.iter().find(|(n, _)| n == name).unwrap().1.data.to_f32();
    let inputs: Vec<u8> =
        array("input/global_in")[..3 * 64].iter().flat_map(|v| v.to_le_bytes()).collect();
    fs::write(folder.path("out/inputs.bin"), inputs).unwrap();
    let run = Command::new(folder.path("out/example"))
        .arg("inputs.bin")
        .current_dir(folder.path("out"))
        .output()
        .unwrap();
    let text = String::from_utf8(run.stdout).unwrap();
    let rows: Vec<Vec<f32>> = text
        .lines()
        .map(|l| l.split_whitespace().skip(2).map(|v| v.parse().unwrap()).collect())
        .collect();
    assert_eq!(rows.len(), 3, "{text}");
    for (row, expected) in rows.iter().zip(array("output/global_out").chunks(10)) {
        let class = |s: &[f32]| (0..10).max_by(|&a, &b| s[a].total_cmp(&s[b]));
        assert_eq!(class(row), class(expected));
    }
}

#[test]
fn precisions_are_assigned() {
    let folder = Folder::new("quantized-precision");
    let model = folder.model().to_string();
    let compile = |extra: &[&'static str]| {
        let command = ["compile", &model, "--batch", "2", "--target", "c", "-o", "out"];
        let all: Vec<String> =
            [&command[..], &ALGORITHM, extra].concat().into_iter().map(String::from).collect();
        all
    };
    let run = |extra: &[&'static str]| {
        let all = compile(extra);
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        folder.run(&all)
    };
    fs::write(folder.path("layers.toml"), "[default]\ninput = 8\nweight = 4\noutput = 4\n")
        .unwrap();
    // Ranges must come from somewhere.
    let output = run(&["--precision", "layers.toml"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("--calibrate"), "{error}");
    folder.data();
    let output = run(&["--precision", "layers.toml", "--calibrate", "data.npz"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let module = fs::read_to_string(folder.path("out/infer.module.txt")).unwrap();
    assert!(module.contains("integer_conv2d") && module.contains("element=u4"), "{module}");
    assert!(!module.contains(" = conv2d ") && !module.contains(" = matmul "));
    let text = folder.succeed(&["verify", "out", "--steps", "2"]);
    assert!(text.contains("bit-exact"), "{text}");
    let manifest = fs::read_to_string(folder.path("out/manifest.json")).unwrap();
    assert!(manifest.contains("\"precision\": \""));
    // A layer that is not there: the message lists those that are.
    fs::write(folder.path("layers.toml"), "[layers.nowhere]\ninput = 8\n").unwrap();
    let output = run(&["--precision", "layers.toml"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{error}");
    assert!(error.contains("no layer `nowhere`") && error.contains("its layers are `"), "{error}");
    fs::write(folder.path("layers.toml"), "[default]\ninput = 3\n").unwrap();
    let output = run(&["--precision", "layers.toml"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("3 bits, not 8, 4 or 2"));
    // Other algorithms take no such file.
    let command = ["compile", &model, "-o", "out", "--precision", "layers.toml"];
    assert!(folder.fail(&command).contains("does not take one"));
}

/// The summary says how close the 8-bit stages come.
#[test]
fn inspect_reports_stages() {
    let folder = Folder::new("quantized-inspect");
    let model = brevitas("mixed.onnx");
    let lines = folder.json(&with(&["inspect", &model, "--batch", "1"]));
    let stages = &only(&lines, "summary")["output_stages"];
    assert_eq!(stages.as_array().unwrap().len(), 1);
    assert!(stages[0]["shift"].as_u64().unwrap() > 15);
    assert!(stages[0]["off_by_one"].as_f64().unwrap() < 0.01);
    // A copy of the algorithm's file with exact stages.
    let text = folder.succeed(&["algorithms", "quantized"]);
    let exact = text.replace("eight_bit = \"scale_shift\"", "eight_bit = \"threshold\"");
    assert_ne!(text, exact);
    fs::write(folder.path("exact.toml"), &exact).unwrap();
    let lines = folder.json(&["inspect", &model, "--batch", "1", "--algorithm", "exact.toml"]);
    assert!(only(&lines, "summary")["output_stages"].is_null());
    // It has no parts for training.
    fs::write(folder.path("both.toml"), exact + "[weight]\nquantizer = \"quantize_weight\"\n")
        .unwrap();
    let error = folder.fail(&["inspect", &model, "--algorithm", "both.toml"]);
    assert!(error.contains("only infers has no rules"), "{error}");
}
