//! The commands of docs/tutorial.md, with the algorithm that it writes: unknown to the code, trained, equal to numpy, compiled.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::Folder;
use trainc_data::{TensorData, read_npz, read_safetensors};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The block of a language in the tutorial.
fn block(tutorial: &str, language: &str) -> String {
    let (_, rest) = tutorial.split_once(&format!("```{language}\n")).expect("a block");
    rest.split("```").next().expect("its end").to_string()
}

/// The weights after three steps are those of numpy (tests/reference/tutorial/prove.py).
fn proved(folder: &Folder) {
    let expected = read_npz(&root().join("tests/data/tutorial/expected.npz")).expect("arrays");
    let found = read_safetensors(&folder.path("levels.safetensors")).expect("weights");
    assert_eq!(expected.len(), 2);
    for (name, array) in expected {
        let own = found.iter().find(|t| t.name == name).expect("a weight of the name");
        let TensorData::F32(own) = &own.data else { panic!("{name} is FP32") };
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(own), bits(&array.data.to_f32()), "{name}");
    }
}

#[test]
fn the_tutorials_commands() {
    let tutorial = text("docs/tutorial.md");
    let algorithm = block(&tutorial, "toml");
    assert_eq!(algorithm, text("tests/reference/tutorial/levels.toml"));
    assert!(text("tests/reference/tutorial/prove.py").contains(&block(&tutorial, "python")));
    let folder = Folder::new("tutorial");
    fs::write(folder.path("levels.toml"), algorithm).expect("written");
    for name in ["net.onnx", "steps.npz"] {
        let from = root().join("tests/data/tutorial").join(name);
        fs::copy(from, folder.path(name)).expect("copied");
    }
    let commands = tutorial.lines().filter_map(|line| line.strip_prefix("    trainc "));
    let mut count = 0;
    for command in commands {
        count += 1;
        let command = &command.replace("--epochs 10", "--epochs 1");
        let arguments: Vec<&str> = command.split_whitespace().collect();
        if arguments[0] == "verify" {
            // The same program in portable C, which needs no cross compiler.
            fs::remove_dir_all(folder.path("build")).expect("removed");
            let how =
                ["--algorithm", "levels.toml", "--batch", "2", "--target", "c", "-o", "build/"];
            folder.succeed(&[&["compile", "digits.onnx"], &how[..]].concat());
        }
        let said = folder.succeed(&arguments);
        match arguments[0] {
            "algorithms" => {
                for line in block(&tutorial, "text").lines() {
                    assert!(said.contains(line), "{line} is not in\n{said}");
                }
            }
            "train" if command.contains("net.onnx") => proved(&folder),
            "verify" => assert!(said.contains("bit-exact: 3 training steps"), "{said}"),
            _ => {}
        }
    }
    assert_eq!(count, 7);
    // With other bits the weights are others: the proof can fail.
    let (one, other) = ("levels.toml ", "levels.toml:bits=5 ");
    let line = tutorial.lines().find(|l| l.contains("--data steps.npz")).expect("the proof");
    let changed = line.trim().strip_prefix("trainc ").expect("a command").replace(one, other);
    folder.succeed(&changed.split_whitespace().collect::<Vec<_>>());
    assert!(std::panic::catch_unwind(|| proved(&folder)).is_err());
}
