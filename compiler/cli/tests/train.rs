//! `trainc train`: messages, checkpoints, resumption, kills.

mod common;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use common::{Folder, bytes, objects, only};
use serde_json::json;
use trainc_data::{NpyArray, TensorData, read_safetensors};

#[test]
fn json_lines_of_an_epoch() {
    let folder = Folder::new("json");
    let (model, data) = (folder.model(), folder.data());
    let lines = folder.json(&[
        "train",
        model,
        "--data",
        data,
        "--epochs",
        "1",
        "--batch",
        "8",
        "--baseline",
        "fp32",
        "--curve",
        "curve.svg",
        "--weights-out",
        "w.safetensors",
    ]);
    assert_eq!(lines.len(), 3, "{lines:?}");
    // The state before the first step has accuracies and no loss.
    let before = &lines[0];
    assert_eq!((&before["reason"], &before["epoch"]), (&json!("epoch"), &json!(0)));
    assert!(before["train_loss"].is_null() && before["baseline_train_loss"].is_null());
    assert!(before["test_accuracy"].is_f64() && before["baseline_test_accuracy"].is_f64());
    let epoch = &lines[1];
    assert_eq!((&epoch["reason"], &epoch["epoch"]), (&json!("epoch"), &json!(1)));
    assert!(epoch["train_loss"].as_f64().unwrap() > 0.0);
    let accuracy = epoch["test_accuracy"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&accuracy));
    assert!(epoch["baseline_train_loss"].is_f64());
    let finished = only(&lines, "finished");
    assert_eq!(finished["test_accuracy"], accuracy);
    assert!(finished["seconds"].as_f64().unwrap() > 0.0);
    let curve = String::from_utf8(bytes(&folder.path("curve.svg"))).unwrap();
    assert!(curve.starts_with("<svg"));
    // Both accuracies have the points 0 and 1, both losses the point 1.
    assert_eq!(curve.matches("<circle").count(), 6, "{curve}");

    // The stored integers and their real values agree.
    let tensors = read_safetensors(&folder.path("w.safetensors")).unwrap();
    let named = |name: &str| &tensors.iter().find(|t| t.name == name).unwrap().data;
    let name = tensors[0].name.clone();
    let stored = (named(&name), named(&format!("{name}.int8")), named(&format!("{name}.exponent")));
    let (TensorData::F32(real), TensorData::I8(elements), TensorData::I32(exponent)) = stored
    else {
        panic!("{name}");
    };
    for (real, &element) in real.iter().zip(elements) {
        assert_eq!(f64::from(*real), f64::from(element) * 2f64.powi(exponent[0]));
    }
}

#[test]
fn a_separable_problem_is_learned() {
    let folder = Folder::new("learn");
    let (model, data) = (folder.model(), folder.data());
    let lines = folder.json(&["train", model, "--data", data, "--epochs", "20", "--batch", "8"]);
    assert_eq!(lines.len(), 22);
    let finished = folder.json(&["train", model, "--data", data, "--epochs", "0", "--batch", "8"]);
    assert_eq!(only(&finished, "finished")["test_accuracy"], lines[0]["test_accuracy"]);
    assert_eq!(only(&finished, "epoch"), &lines[0]);
    assert_eq!(only(&lines, "finished")["test_accuracy"], 1.0);
}

/// Weights that `train` writes, evaluated by `run`, give the accuracy that `train` reported.
#[test]
fn trained_weights_are_evaluated() {
    let folder = Folder::new("weights");
    let (model, data) = (folder.model(), folder.data());
    let test = trainc_data::Dataset::open(&folder.path(data)).unwrap().test;
    let trainc_data::Images::U8(pixels) = &test.images else { panic!("bytes") };
    let values: Vec<f32> = pixels.iter().map(|&p| f32::from(p) / 255.0).collect();
    let images = NpyArray::f32(&[16, 1, 8, 8], values);
    trainc_data::write_npz(&folder.path("in.npz"), &[("input", images)]).unwrap();
    for algorithm in ["niti", "fp32"] {
        let common = ["--algorithm", algorithm, "--batch", "8"];
        let train = ["train", model, "--data", data, "--epochs", "2", "--weights-out", "w.st"];
        let lines = folder.json(&[&train[..], &common].concat());
        let run = ["run", model, "--input", "in.npz", "--output", "out.npz", "--weights", "w.st"];
        folder.succeed(&[&run[..], &common].concat());
        let logits = trainc_data::read_npz(&folder.path("out.npz")).unwrap()[0].1.data.to_f32();
        let right = logits.chunks(2).zip(&test.labels);
        let right = right.filter(|(row, label)| u32::from(row[1] > row[0]) == **label).count();
        let accuracy = only(&lines, "finished")["test_accuracy"].as_f64().unwrap();
        assert_eq!(right as f64 / 16.0, accuracy, "{algorithm}");
        let untrained = ["run", model, "--input", "in.npz", "--output", "plain.npz"];
        folder.succeed(&[&untrained[..], &common].concat());
        let plain = trainc_data::read_npz(&folder.path("plain.npz")).unwrap();
        assert_ne!(plain[0].1.data.to_f32(), logits, "{algorithm}");
    }
}

#[test]
fn training_for_another_machine_is_refused() {
    let folder = Folder::new("elsewhere");
    let (model, data) = (folder.model(), folder.data());
    let message = folder.fail(&["train", model, "--data", data, "--target", "c"]);
    assert!(message.contains("`c`") && message.contains("`host`"), "{message}");
}

#[test]
fn the_table_for_people() {
    let folder = Folder::new("table");
    let data = folder.data();
    let model = folder.model();
    let text = folder.succeed(&["train", model, "--data", data, "--epochs", "2", "--batch", "8"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert!(lines[0].contains("niti loss") && lines[0].contains("seconds"), "{text}");
    assert!(lines[1].trim_start().starts_with("0               -"), "{text}");
    assert!(lines[2].trim_start().starts_with('1') && lines[2].contains('%'), "{text}");
    assert!(lines[4].starts_with("test accuracy: niti"), "{text}");
    assert!(!text.contains('\x1b'), "{text}");
}

/// 40 samples in batches of 8: five steps an epoch.
const RUN: [&str; 8] = ["--epochs", "6", "--batch", "8", "--seed", "3", "--data", "data.npz"];

fn train(folder: &Folder, more: &[&str]) -> Vec<serde_json::Value> {
    let mut arguments = vec!["train", "digits.onnx"];
    arguments.extend(RUN);
    arguments.extend(more);
    folder.json(&arguments)
}

#[test]
fn an_interrupted_run_goes_on_bit_for_bit() {
    let folder = Folder::new("resume");
    folder.model();
    folder.data();
    // A schedule would go by the limit on steps that interrupts here.
    for (algorithm, rate) in [("niti", "4"), ("fp32", "0.03")] {
        let name = |what: &str| format!("{algorithm}-{what}");
        let (whole, parts) = (name("whole.ckpt"), name("parts.ckpt"));
        let common = ["--algorithm", algorithm, "--learning-rate", rate, "--weights-out"];
        let run = |more: &[&str]| train(&folder, &[&common, more].concat());
        let straight = run(&[&name("whole.st"), "--checkpoint", &whole]);
        let first = run(&[&name("parts.st"), "--checkpoint", &parts, "--steps", "15"]);
        let second = run(&[&name("parts.st"), "--checkpoint", &parts, "--resume"]);
        assert_eq!((first.len(), second.len()), (5, 4));
        let epochs = |lines: &[serde_json::Value]| lines[..lines.len() - 1].to_vec();
        assert_eq!(epochs(&straight), [epochs(&first), epochs(&second)].concat());
        let same = |a: &str, b: &str| bytes(&folder.path(a)) == bytes(&folder.path(b));
        assert!(same(&whole, &parts), "{algorithm}: checkpoints differ");
        assert!(same(&name("whole.st"), &name("parts.st")), "{algorithm}: weights differ");
    }
}

/// At any step, with images changed at random: what is left of an epoch is trained as if nothing had happened.
#[test]
fn a_run_goes_on_within_an_epoch() {
    let folder = Folder::new("within");
    folder.model();
    folder.data();
    let common =
        ["--algorithm", "fp32", "--learning-rate", "0.03", "--augment", "crop=1,flip,cutout=2"];
    let run = |more: &[&str]| train(&folder, &[&common, more].concat());
    let straight = run(&["--checkpoint", "whole.ckpt"]);
    let mut last = Vec::new();
    for steps in ["7", "8", "14", "1000"] {
        let more = ["--checkpoint", "parts.ckpt", "--checkpoint-every", "3", "--resume"];
        last = run(&[&more[..], &["--steps", steps]].concat());
    }
    // The third epoch's record is whole, though two runs made it.
    assert_eq!(last[0], straight[3]);
    assert_eq!(last[..last.len() - 1], straight[3..straight.len() - 1]);
    assert!(bytes(&folder.path("whole.ckpt")) == bytes(&folder.path("parts.ckpt")));
}

/// A schedule divides the steps of the whole run, within epochs as well.
#[test]
fn schedules_go_by_the_step() {
    let folder = Folder::new("schedule");
    folder.model();
    folder.data();
    let text = folder.succeed(&["algorithms", "fp32"]);
    let schedule = "schedule = [{ from = 0.0, value = 0.1 }, { from = 0.4, value = 0.0 }]\n";
    std::fs::write(folder.path("stops.toml"), text + schedule).unwrap();
    let weights = |more: &[&str]| {
        let common =
            ["train", "digits.onnx", "--data", "data.npz", "--batch", "8", "--weights-out"];
        folder.json(&[&common[..], &["w.st"], more].concat());
        bytes(&folder.path("w.st"))
    };
    // Of five steps the first two change something.
    let steps = |n: &str| {
        weights(&["--algorithm", "fp32", "--learning-rate", "0.1", "--epochs", "1", "--steps", n])
    };
    let scheduled = |more: &[&str]| weights(&[&["--algorithm", "stops.toml"], more].concat());
    assert!(steps("2") == scheduled(&["--epochs", "1"]));
    assert!(steps("3") != scheduled(&["--epochs", "1"]));
    // The limit on steps is what the schedule divides: 3 steps change something until 0.4 of 3.
    assert!(steps("2") == scheduled(&["--epochs", "1", "--steps", "3"]));
    assert!(steps("4") == scheduled(&["--epochs", "2"]));
    // Going on with another number of steps says so.
    let run = ["train", "digits.onnx", "--data", "data.npz", "--batch", "8", "--checkpoint", "c"];
    folder.json(&[&run[..], &["--epochs", "1"]].concat());
    let output = folder.run(&[&run[..], &["--epochs", "2", "--resume"]].concat());
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(words.contains("was to run 5 steps, now 10"), "{words}");
}

#[test]
fn checkpoints_of_other_runs_and_damaged_ones_are_refused() {
    let folder = Folder::new("refuse");
    folder.model();
    folder.data();
    train(&folder, &["--checkpoint", "run.ckpt", "--steps", "5"]);
    let resume = |more: &[&str]| {
        let mut arguments = vec!["train", "digits.onnx", "--checkpoint", "run.ckpt", "--resume"];
        arguments.extend(RUN);
        arguments.extend(more);
        folder.fail(&arguments)
    };
    let message = resume(&["--algorithm", "fp32"]);
    assert!(message.contains("run.ckpt") && message.contains("niti in the file"), "{message}");
    assert!(resume(&["--no-shuffle"]).contains("shuffle: true in the file"));
    let mut content = bytes(&folder.path("run.ckpt"));
    let middle = content.len() / 2;
    content[middle] ^= 1;
    std::fs::write(folder.path("run.ckpt"), &content).unwrap();
    assert!(resume(&[]).contains("damaged"));
    std::fs::write(folder.path("run.ckpt"), b"hello").unwrap();
    assert!(resume(&[]).contains("not a checkpoint"));
}

/// Whenever the process dies, the checkpoint is one of a finished epoch (or of a step within), and the run goes on from there
/// as if nothing had happened.
#[test]
#[cfg(unix)]
fn a_killed_run_loses_at_most_its_epoch() {
    let folder = Folder::new("kill");
    folder.model();
    folder.data();
    let arguments = [
        "train",
        "digits.onnx",
        "--data",
        "data.npz",
        "--batch",
        "1",
        "--epochs",
        "60",
        "--message-format",
        "json",
        "--checkpoint",
    ];
    folder.succeed(&[&arguments[..], &["whole.ckpt"]].concat());
    let mut resumed = 0;
    for round in 0..3 {
        let name = format!("killed-{round}.ckpt");
        let mut run = [&arguments[..], &[&name]].concat();
        if round > 0 {
            run.extend(["--checkpoint-every", "7"]);
        }
        let mut child =
            folder.command(&run).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for _ in 0..1 + round {
            objects(&lines.next().unwrap().unwrap());
        }
        // SIGKILL.
        child.kill().unwrap();
        let status = child.wait().unwrap();
        resumed += usize::from(!status.success());
        folder.succeed(&[&run[..], &["--resume"]].concat());
        assert!(bytes(&folder.path(&name)) == bytes(&folder.path("whole.ckpt")), "round {round}");
    }
    assert!(resumed > 0, "no run was killed in time");
}

#[test]
fn options_of_comparisons() {
    let folder = Folder::new("options");
    folder.model();
    folder.data();
    let weights = |name: &str, more: &[&str]| {
        train(&folder, &[&["--weights-out", name], more].concat());
        bytes(&folder.path(name))
    };
    let fp32 =
        |name: &str, more: &[&str]| weights(name, &[&["--algorithm", "fp32"], more].concat());
    // No step changes nothing; a step size of 0 neither.
    let none = fp32("none.st", &["--steps", "5", "--learning-rate", "0"]);
    assert_eq!(none, fp32("zero.st", &["--learning-rate", "0", "--no-shuffle"]));
    assert_ne!(none, fp32("some.st", &["--steps", "5", "--learning-rate", "0.1"]));
    let ordered = fp32("ordered.st", &["--steps", "5", "--learning-rate", "0.1", "--no-shuffle"]);
    assert_ne!(ordered, fp32("some.st", &["--steps", "5", "--learning-rate", "0.1"]));
    let random = fp32("random.st", &["--learning-rate", "0", "--init", "random"]);
    assert_ne!(none, random);
    assert_eq!(random, fp32("again.st", &["--learning-rate", "0", "--init", "random"]));
}

/// What the optimiser does changes no bit of training.
#[test]
fn optimised_and_unoptimised_runs_are_equal() {
    let folder = Folder::new("opt");
    folder.data();
    for net in ["digits", "residual", "depthwise"] {
        folder.succeed(&["zoo", net, "-o", "net.onnx", "--classes", "2"]);
        for algorithm in ["niti", "fp32"] {
            let run = |opt: &str| {
                let mut arguments = vec!["train", "net.onnx", "--algorithm", algorithm];
                arguments.extend(RUN);
                arguments.extend(["--opt", opt, "--weights-out", opt]);
                let lines = folder.json(&arguments);
                (lines[..lines.len() - 1].to_vec(), bytes(&folder.path(opt)))
            };
            let off = run("off");
            assert!(off == run("saturate"), "{net} under {algorithm}: saturate");
            assert!(off == run("ordered"), "{net} under {algorithm}: ordered");
        }
    }
}

#[test]
fn data_that_do_not_fit() {
    let folder = Folder::new("misfit");
    folder.model();
    folder.data();
    folder.succeed(&["zoo", "mlp", "-o", "mlp.onnx"]);
    let message = folder.fail(&["train", "mlp.onnx", "--data", "data.npz"]);
    assert!(message.contains("1 x 8 x 8") && message.contains("28"), "{message}");
    let message = folder.fail(&["train", "digits.onnx", "--data", "data.npz", "--batch", "64"]);
    assert!(message.contains("40 training samples"), "{message}");
    for built_in in [&["train", "digits.onnx"][..], &["train", "digits.onnx", "--data", "digits"]] {
        let message = folder.fail(built_in);
        assert!(message.contains("10 classes"), "{message}");
    }
    let rate = ["train", "digits.onnx", "--data", "data.npz", "--learning-rate", "0.1"];
    assert!(folder.fail(&rate).contains("a whole number from 0 to 7"));
    let message = folder.fail(&["train", "digits.onnx", "--data", "nowhere"]);
    assert!(message.contains("nowhere"), "{message}");
    let message = folder.fail(&["train", "--curve", "no/such/folder.svg"]);
    assert!(message.contains("no/such/folder.svg"), "{message}");
}

/// A text is a data set: the zoo's model of the next byte learns one that repeats itself, under FP32, NITI and PFQ.
#[test]
fn a_text_is_learnt() {
    let folder = Folder::new("text-data");
    let text = "the quick brown fox jumps over the lazy dog. ".repeat(80);
    std::fs::write(folder.path("fox.txt"), text).expect("written");
    folder.succeed(&["zoo", "language", "-o", "language.onnx"]);
    let recipe = ["--data", "fox.txt", "--loss", "cross-entropy", "--epochs", "12", "--batch", "8"];
    let adam = &["--optimizer", "adamw", "--learning-rate", "0.005"][..];
    for (algorithm, optimizer) in [("fp32", adam), ("niti", &[]), ("pfq", adam)] {
        let flags = [&["train", "language.onnx", "--algorithm", algorithm], &recipe[..], optimizer];
        let lines = folder.json(&flags.concat());
        let accuracy = only(&lines, "finished")["test_accuracy"].as_f64().expect("bytes");
        assert!(accuracy > 0.9, "{algorithm}: {accuracy}");
    }
    let error = folder.fail(&["train", "--data", "fox.txt"]);
    assert!(error.contains("fox"), "{error}");
}

/// A model that takes bytes trains as its twin of FP32 inputs does on pixels as they are stored, and takes nothing else.
#[test]
fn a_model_of_bytes_is_fed_bytes() {
    let folder = Folder::new("train-bytes");
    folder.succeed(&["zoo", "digits", "-o", "floats.onnx"]);
    folder.succeed(&["zoo", "digits", "--bytes", "-o", "bytes.onnx"]);
    let train = |model: &str, more: &[&str]| {
        let command = ["train", model, "--algorithm", "bnn-ste", "--epochs", "2"];
        let mut epochs = folder.json(&[&command[..], more].concat());
        epochs.retain(|line| line["reason"] == "epoch");
        epochs.iter_mut().for_each(|line| line["seconds"] = serde_json::Value::Null);
        epochs
    };
    let floats = train("floats.onnx", &["--normalization", "none"]);
    assert_eq!((floats.len(), train("bytes.onnx", &[])), (3, floats.clone()));
    let flips = ["--augment", "crop=1,flip"];
    let changed = train("bytes.onnx", &flips);
    assert_ne!(changed, floats);
    let none = [&["--normalization", "none"], &flips[..]].concat();
    assert_eq!(changed, train("floats.onnx", &none));
    let output = folder.run(&["train", "bytes.onnx", "--algorithm", "bnn-ste", "--epochs", "0"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("pixels are fed as they are stored"), "{said}");
    for more in [["--normalization", "standardize"], ["--mean", "0.5"]] {
        let command = ["train", "bytes.onnx", "--algorithm", "bnn-ste", "--epochs", "0"];
        let output = folder.run(&[&command[..], &more].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("leave the normalization out"), "{said}");
    }
}
