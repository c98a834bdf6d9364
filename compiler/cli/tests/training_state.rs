//! `trainc train` under algorithms that bring schedules and state of their own.

mod common;

use common::Folder;
use trainc_data::{TensorData, read_safetensors};

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
