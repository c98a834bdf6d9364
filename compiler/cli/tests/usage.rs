//! Help, usage errors, listings, completions.

mod common;

use common::{Folder, only};

#[test]
fn help_teaches() {
    let folder = Folder::new("help");
    let top = folder.succeed(&["--help"]);
    for command in
        ["train", "compile", "inspect", "run", "algorithms", "targets", "zoo", "completions"]
    {
        assert!(top.contains(command), "{command}: {top}");
        assert!(folder.succeed(&[command, "--help"]).contains("Usage: trainc"), "{command}");
    }
    assert!(top.contains("Examples:") && top.contains("Exit codes:"), "{top}");
    assert!(folder.succeed(&["train", "--help"]).contains("trainc train lenet5.onnx"));
    assert!(folder.succeed(&["--version"]).starts_with("trainc "));
}

#[test]
fn wrong_usage_is_two() {
    let folder = Folder::new("usage");
    let wrong: &[&[&str]] = &[
        &[],
        &["tarin"],
        &["train", "--epoch-count", "3"],
        &["train", "--epochs", "-1"],
        &["train", "--resume"],
        &["compile", "x.onnx"],
        &["zoo", "lenet5"],
        &["run", "x.onnx"],
    ];
    for arguments in wrong {
        let output = folder.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn listings() {
    let folder = Folder::new("listings");
    let algorithms = folder.json(&["algorithms"]);
    assert!(algorithms.iter().any(|a| a["name"] == "niti" && a["title"].is_string()));
    assert!(algorithms.iter().any(|a| a["name"] == "fp32"));
    // A printed algorithm is a file that works.
    std::fs::write(folder.path("mine.toml"), folder.succeed(&["algorithms", "niti"])).unwrap();
    let again = folder.json(&["algorithms", "./mine.toml"]);
    assert_eq!(only(&again, "algorithm")["name"], "niti");
    assert!(folder.json(&["targets"]).iter().any(|t| t["name"] == "host"));
    let models = folder.json(&["zoo"]);
    for name in ["mlp", "lenet5", "vgg11", "vgg16", "vgg19", "resnet18", "resnet34", "resnet8"] {
        assert!(models.iter().any(|m| m["name"] == name), "{name}");
    }
}

#[test]
fn reference_models() {
    let folder = Folder::new("zoo");
    let zoo = ["zoo", "resnet8", "--input", "1x16x16", "--classes", "4", "--seed", "5", "-o"];
    folder.succeed(&[&zoo[..], &["a.onnx"]].concat());
    folder.succeed(&[&zoo[..], &["b.onnx"]].concat());
    assert_eq!(common::bytes(&folder.path("a.onnx")), common::bytes(&folder.path("b.onnx")));
    folder.succeed(&[&zoo[..], &["c.onnx", "--inference"]].concat());
    assert_ne!(common::bytes(&folder.path("a.onnx")), common::bytes(&folder.path("c.onnx")));
    let summary = folder.json(&["inspect", "a.onnx", "--algorithm", "fp32", "--batch", "2"]);
    let summary = only(&summary, "summary");
    assert_eq!(summary["inputs"][0][1], "f32[2,1,16,16]");
    assert!(folder.fail(&["zoo", "resnet9", "-o", "x.onnx"]).contains("resnet9"));
    assert!(!folder.path("x.onnx").exists());
}

#[test]
fn completions_know_the_commands() {
    let folder = Folder::new("completions");
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = folder.succeed(&["completions", shell]);
        assert!(script.contains("inspect") && script.contains("trainc"), "{shell}");
    }
}
