//! From the desk to the device and back: weights start a run or an artifact, a device's state comes back, trained weights
//! return into the model's file.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Folder, bytes, only};
use trainc_data::{NamedTensor, TensorData, read_safetensors, write_safetensors};

const DATA: [&str; 4] = ["--data", "data.npz", "--batch", "8"];

fn json(folder: &Folder, more: &[&[&str]]) -> Vec<serde_json::Value> {
    folder.json(&more.concat())
}

/// The accuracy of a model before any step.
fn accuracy(folder: &Folder, model: &str, more: &[&str]) -> serde_json::Value {
    let lines = json(folder, &[&["train", model, "--epochs", "0"], &DATA, more]);
    only(&lines, "epoch")["test_accuracy"].clone()
}

/// The weights of an artifact.
fn artifact(folder: &Folder, model: &str, more: &[&str]) -> Vec<u8> {
    folder.succeed(&[&["compile", model, "-o", "artifact", "--target", "c"], more].concat());
    bytes(&folder.path("artifact/weights.safetensors"))
}

#[test]
fn weights_and_checkpoints_start_runs_and_artifacts() {
    let folder = Folder::new("start");
    let (model, _) = (folder.model(), folder.data());
    for algorithm in ["niti", "fp32"] {
        let by = ["--algorithm", algorithm];
        let out = ["--weights-out", "w.st", "--checkpoint", "c", "--epochs", "3"];
        let lines = json(&folder, &[&["train", model], &DATA, &by, &out]);
        let reached = only(&lines, "finished")["test_accuracy"].clone();
        let trained = bytes(&folder.path("w.st"));
        assert_ne!(artifact(&folder, model, &by), trained);
        for file in ["w.st", "c"] {
            let more = [&by[..], &["--weights", file]].concat();
            assert_eq!(accuracy(&folder, model, &more), reached, "{algorithm} {file}");
            assert!(artifact(&folder, model, &more) == trained, "{algorithm} {file}");
        }
        // The FP32 values alone make the algorithm's form anew.
        let all = read_safetensors(&folder.path("w.st")).unwrap();
        let plain: Vec<NamedTensor> =
            all.into_iter().filter(|t| matches!(t.data, TensorData::F32(_))).collect();
        write_safetensors(&folder.path("plain.st"), &plain).unwrap();
        artifact(&folder, model, &[&by[..], &["--weights", "plain.st"]].concat());
        std::fs::remove_file(folder.path("c")).unwrap();
    }
}

/// Saves what an artifact starts with, as a device does.
fn saved_by_device(folder: &Folder) -> PathBuf {
    let main = "#include <stdio.h>\n#include \"digits.h\"\n\
        TRAINC_ALIGNED(DIGITS_ALIGNMENT) static unsigned char state[DIGITS_STATE_BYTES];\n\
        static unsigned char saved[DIGITS_CHECKPOINT_BYTES];\n\
        int main(void)\n{\n    digits_init(state);\n    digits_save(state, 7, saved);\n    \
        return fwrite(saved, sizeof saved, 1, stdout) == 1 ? 0 : 1;\n}\n";
    let artifact = folder.path("artifact");
    std::fs::write(artifact.join("save.c"), main).unwrap();
    let sources = ["save.c", "digits.c", "digits_data.c", "trainc_rt.c"];
    let run = |command: &mut Command| {
        let output = command.current_dir(&artifact).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    run(Command::new("cc").args(["-std=c99", "-ffp-contract=off", "-o", "save"]).args(sources));
    let path = folder.path("device.bin");
    std::fs::write(&path, run(&mut Command::new(artifact.join("save")))).unwrap();
    // The folder holds what trainc wrote, and may be replaced.
    for own in ["save", "save.c"] {
        std::fs::remove_file(artifact.join(own)).unwrap();
    }
    path
}

#[test]
fn the_state_of_a_device_comes_back() {
    let folder = Folder::new("device");
    let (model, _) = (folder.model(), folder.data());
    for algorithm in ["niti", "fp32"] {
        let by = ["--algorithm", algorithm];
        let out = ["--weights-out", "w.st", "--epochs", "3"];
        let lines = json(&folder, &[&["train", model], &DATA, &by, &out]);
        let reached = only(&lines, "finished")["test_accuracy"].clone();
        let trained = artifact(&folder, model, &[&by[..], &["--weights", "w.st"]].concat());
        let path = saved_by_device(&folder);
        let back = [&by[..], &["--weights", "device.bin"]].concat();
        assert_eq!(accuracy(&folder, model, &back), reached, "{algorithm}");
        assert!(artifact(&folder, model, &back) == trained, "{algorithm}");
        // Into the model's file.
        folder.succeed(&[&["export", model, "--onnx", "back.onnx"], &back[..]].concat());
        if algorithm == "fp32" {
            assert_eq!(accuracy(&folder, "back.onnx", &by), reached);
        }
        // Whatever is not this device's is refused.
        let other = if algorithm == "niti" { "fp32" } else { "niti" };
        let refuse = |more: &[&str]| {
            let train = ["train", model, "--epochs", "0", "--weights", "device.bin"];
            folder.fail(&[&train[..], &DATA, more].concat())
        };
        assert!(refuse(&["--algorithm", other]).contains("another model"));
        if algorithm == "fp32" {
            let frozen = [&by[..], &["--freeze", "*conv*"]].concat();
            assert!(refuse(&frozen).contains("frozen"));
        }
        let mut content = bytes(&path);
        content[50] ^= 4;
        std::fs::write(&path, content).unwrap();
        assert!(refuse(&by).contains("checksum"));
    }
}

/// A model of the repository's tests.
fn data(name: &str) -> String {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(name);
    data.to_string_lossy().into_owned()
}

/// All values of a model as FP32, each a little larger.
fn moved(folder: &Folder, model: &str, fp32: &[&str]) -> Vec<u8> {
    artifact(folder, model, fp32);
    let mut tensors = read_safetensors(&folder.path("artifact/weights.safetensors")).unwrap();
    for (t, tensor) in tensors.iter_mut().enumerate() {
        let TensorData::F32(values) = &mut tensor.data else { panic!("FP32") };
        values.iter_mut().enumerate().for_each(|(i, v)| *v += ((t + i) % 5) as f32 * 0.01 + 0.001);
    }
    write_safetensors(&folder.path("moved.st"), &tensors).unwrap();
    bytes(&folder.path("moved.st"))
}

#[test]
fn trained_weights_return_into_the_models_file() {
    let folder = Folder::new("export");
    let fp32 = ["--algorithm", "fp32", "--batch", "4"];
    folder.succeed(&["zoo", "residual", "-o", "residual.onnx"]);
    let models = [
        "residual.onnx".to_string(),
        // Weights in a file beside it; and each exporter's batch norm in training form.
        data("pytorch/lenet_eval_dyn_22.onnx"),
        data("personalise/lenet_dynamo.onnx"),
        data("personalise/depthwise_torchscript_training.onnx"),
        data("personalise/depthwise_dynamo_unoptimized.onnx"),
    ];
    for model in &models {
        let expected = moved(&folder, model, &fp32);
        let export = ["export", model, "--weights", "moved.st", "--onnx", "new.onnx"];
        let line = folder.json(&export);
        let exported = only(&line, "exported");
        assert_eq!(exported["same"], 0, "{model}: {exported}");
        assert!(artifact(&folder, "new.onnx", &fp32) == expected, "{model}");
        std::fs::remove_file(folder.path("new.onnx")).unwrap();
    }
}

#[test]
fn what_cannot_be_mapped_is_refused() {
    let folder = Folder::new("misfit");
    let (model, _) = (folder.model(), folder.data());
    folder.succeed(&["zoo", "mlp", "-o", "mlp.onnx"]);
    folder.succeed(&["compile", "mlp.onnx", "-o", "mlp", "--algorithm", "fp32"]);
    let mlp = "mlp/weights.safetensors";
    let export = |weights: &str, more: &[&str]| {
        let line = ["export", model, "--onnx", "out.onnx", "--weights", weights];
        let message = folder.fail(&[&line[..], more].concat());
        assert!(!folder.path("out.onnx").exists());
        message
    };
    let message = export(mlp, &[]);
    assert!(
        message.contains("none of its tensors") || message.contains("the model's"),
        "{message}"
    );
    artifact(&folder, model, &["--algorithm", "fp32"]);
    let good = "artifact/weights.safetensors";
    assert!(export(good, &["--init", "random"]).contains("not both"));
    let mut tensors = read_safetensors(&folder.path(good)).unwrap();
    if let TensorData::F32(values) = &mut tensors[0].data {
        values[0] = f32::NAN;
    }
    write_safetensors(&folder.path("nan.st"), &tensors).unwrap();
    assert!(export("nan.st", &[]).contains("not finite"));
    assert!(export("nowhere.st", &[]).contains("nowhere.st"));
    // A part of the weights is taken with a word about the others.
    write_safetensors(&folder.path("part.st"), &tensors[1..]).unwrap();
    let output = folder.run(&["export", model, "--onnx", "out.onnx", "--weights", "part.st"]);
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && words.contains(&tensors[0].name), "{words}");
}
