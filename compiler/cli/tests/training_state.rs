//! `trainc train` under algorithms that bring schedules and state of their own.

mod common;

use common::Folder;
use trainc_data::{TensorData, read_safetensors, write_safetensors};

/// 40 samples in batches of 8: five steps an epoch.
const RUN: [&str; 8] =
    ["train", "digits.onnx", "--data", "data.npz", "--batch", "8", "--epochs", "3"];

/// State that writes down what each step was given, one decimal digit a step, so that the order can be read.
const DIARY: &str = r#"
name = "diary"
title = "notes its inputs"

[optimizer]
state = [{ name = "epochs", of = "step" }, { name = "steps", of = "step" }]
schedule = [{ from = 0.0, value = 0.05 }]

[optimizer.inputs.digit]
per = "epoch"
range = [0, 9]
about = "a number for each epoch"
schedule = [{ from = 0.0, value = 1 }, { from = "1e", value = 2 }]

[optimizer.inputs.slope]
about = "a line over the steps"
schedule = [{ from = 0.0, value = 0, shape = "linear" }, { from = "4s", value = 8, shape = "cosine" }, { from = 1.0, value = 0 }]

[optimizer.update]
epochs = "(add (mul ?epochs 2) ?digit)"
steps = "(add ?steps ?slope)"
w = "(sub ?w (mul ?learning_rate (add ?g (mul 1e-30 (add ?epochs' ?steps')))))"
"#;

fn state(folder: &Folder, name: &str) -> f32 {
    let tensors = read_safetensors(&folder.path("w.st")).expect("the weights");
    let tensor = tensors.iter().find(|t| t.name == name).expect("the state");
    let TensorData::F32(values) = &tensor.data else { panic!("{name}") };
    values[0]
}

/// Each epoch's and each step's value arrives in its step, from the file and from the command line.
#[test]
fn scheduled_inputs() {
    let folder = Folder::new("scheduled");
    folder.model();
    folder.data();
    std::fs::write(folder.path("diary.toml"), DIARY).expect("written");
    let run = |more: &[&str]| {
        let common = ["--algorithm", "diary.toml", "--weights-out", "w.st"];
        folder.json(&[&RUN[..], &common, more].concat());
        (state(&folder, "optimizer.epochs"), state(&folder, "optimizer.steps"))
    };
    let expected =
        |digits: [f32; 3]| (0..15).fold(0.0, |sum: f32, step| sum * 2.0 + digits[step / 5]);
    // 0, 2, 4, 6 up to step 4, then half a cosine of 8 over the 11 steps to the end.
    let fall = (0..11).map(|k| 4.0 + 4.0 * (std::f64::consts::PI * f64::from(k) / 11.0).cos());
    let slope = 12.0 + fall.sum::<f64>();
    let (epochs, steps) = run(&[]);
    assert_eq!(epochs, expected([1.0, 2.0, 2.0]));
    assert!((f64::from(steps) - slope).abs() < 1e-4, "{steps}, not {slope}");
    let (epochs, steps) =
        run(&["--scheduled", "digit=0:3,0.5:5", "--scheduled", "slope=0:1,14s:0"]);
    assert_eq!((epochs, steps), (expected([3.0, 3.0, 5.0]), 14.0));
    // One number, and a run that goes on.
    let once = run(&["--scheduled", "slope=2", "--checkpoint", "whole.ckpt"]);
    assert_eq!(once, (expected([1.0, 2.0, 2.0]), 30.0));

    let refused = |given: &str| {
        let more = ["--algorithm", "diary.toml", "--scheduled", given];
        folder.fail(&[&RUN[..], &more].concat())
    };
    assert!(refused("slop=1").contains("did you mean `slope`"), "{}", refused("slop=1"));
    assert!(refused("digit=10").contains("a number from 0 to 9, not 10"));
    assert!(refused("digit=0:1,3s:2").contains("counts epochs (5e)"));
    assert!(refused("slope=0:1,3e:2").contains("counts steps (100s)"));
    let none = folder.fail(&[&RUN[..], &["--scheduled", "slope=1"]].concat());
    assert!(none.contains("niti") && none.contains("beside the step size"), "{none}");
    let other = ["--algorithm", "diary.toml", "--checkpoint", "whole.ckpt", "--resume"];
    let other = folder.fail(&[&RUN[..], &other].concat());
    assert!(other.contains("scheduled: slope=0:2 in the file"), "{other}");
}

/// An epoch's end: momentum begins anew, a rate halves, an average is kept that no step needs.
const ENDS: &str = r#"
name = "ends"
title = "what happens at an epoch's end"

[optimizer]
state = [
    { name = "m", of = "weight" },
    { name = "rate", of = "step", initial = 1.0 },
    { name = "count", of = "step" },
    { name = "average", of = "weight" },
]
schedule = [{ from = 0.0, value = 0.05 }]

[optimizer.parameters]
momentum = { default = 0.9, min = 0.0, below = 1.0, about = "share of the last step" }

[optimizer.update]
m = "(add (mul ?momentum ?m) ?g)"
w = "(sub ?w (mul (mul ?learning_rate ?rate) ?m'))"

[optimizer.epoch_end]
m = "0"
rate = "(mul 0.5 ?rate)"
count = "(add ?count 1)"
average = "(add ?average (div (sub ?w ?average) ?count'))"
"#;

fn tensors(folder: &Folder) -> Vec<(String, Vec<f32>)> {
    let all = read_safetensors(&folder.path("w.st")).expect("the weights").into_iter();
    let plain = all.filter_map(|tensor| match tensor.data {
        TensorData::F32(values) => Some((tensor.name, values)),
        _ => None,
    });
    plain.collect()
}

/// Three epochs in one run are three runs of one epoch by PyTorch's momentum, each with half the last one's step size.
#[test]
fn the_end_of_an_epoch() {
    let folder = Folder::new("ends");
    folder.model();
    folder.data();
    std::fs::write(folder.path("ends.toml"), ENDS).expect("written");
    let run = |more: &[&str]| {
        let common =
            ["train", "digits.onnx", "--data", "data.npz", "--batch", "8", "--weights-out", "w.st"];
        folder.json(&[&common[..], &["--no-shuffle"], more].concat());
        tensors(&folder)
    };
    let whole = run(&["--algorithm", "ends.toml", "--epochs", "3"]);
    let mut epochs = Vec::new();
    for rate in ["0.05", "0.025", "0.0125"] {
        let from = if epochs.is_empty() { &[][..] } else { &["--weights", "from.st"] };
        let sgd = ["--algorithm", "fp32", "--optimizer", "sgd:momentum=0.9", "--epochs", "1"];
        epochs.push(run(&[&sgd, &["--learning-rate", rate][..], from].concat()));
        // The weights alone: momentum would go on.
        let mut weights = read_safetensors(&folder.path("w.st")).expect("the weights");
        weights.retain(|tensor| !tensor.name.ends_with(".m"));
        write_safetensors(&folder.path("from.st"), &weights).expect("written");
    }
    let named = |all: &[(String, Vec<f32>)], name: &str| {
        all.iter().find(|(n, _)| n == name).map(|(_, values)| values.clone())
    };
    let mut compared = 0;
    for (name, values) in &epochs[2] {
        if name.ends_with(".m") {
            let all_zero = named(&whole, name).expect("momentum").iter().all(|m| *m == 0.0);
            assert!(all_zero, "{name}");
            continue;
        }
        assert_eq!(named(&whole, name).as_ref(), Some(values), "{name}");
        let average = named(&whole, &format!("{name}.average")).expect("an average");
        for (i, average) in average.iter().enumerate() {
            let each = epochs.iter().map(|epoch| named(epoch, name).expect("a weight")[i]);
            let mean = each.map(f64::from).sum::<f64>() / 3.0;
            assert!((f64::from(*average) - mean).abs() < 1e-5, "{name}: {average}, not {mean}");
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared}");
    assert_eq!(named(&whole, "optimizer.rate"), Some(vec![0.125]));
    assert_eq!(named(&whole, "optimizer.count"), Some(vec![3.0]));
    // A limit on steps that cuts an epoch short leaves out its end.
    let cut = run(&["--algorithm", "ends.toml", "--epochs", "3", "--steps", "13"]);
    assert_eq!(named(&cut, "optimizer.count"), Some(vec![2.0]));

    let refused = |formula: &str| {
        std::fs::write(folder.path("bad.toml"), format!("{ENDS}{formula}\n")).expect("written");
        folder.fail(&["train", "digits.onnx", "--data", "data.npz", "--algorithm", "bad.toml"])
    };
    assert!(refused("w = \"(sub ?w ?g)\"").contains("there is no `?g`"));
    assert!(refused("v = \"?learning_rat\"").contains("did you mean `learning_rate`"));
}
