//! `trainc verify`.

mod common;

use std::fs;

use common::{Folder, bytes, objects};
use serde_json::Value;

/// A folder with an artifact `out`.
fn artifact(name: &str, target: &str) -> Folder {
    let folder = Folder::new(name);
    let model = folder.model();
    folder.succeed(&["compile", model, "--batch", "2", "--target", target, "-o", "out"]);
    folder
}

/// Makes the loss wrong.
fn damage(folder: &Folder) {
    let path = folder.path("out/digits.c");
    let text = fs::read_to_string(&path).unwrap();
    let start = text.find("\nstatic void softmax_cross_entropy_f32_scalar(").unwrap();
    let end = start + text[start..].find("\n}\n").unwrap();
    fs::write(path, format!("{}\n    y0[0] += 1;{}", &text[..end], &text[end..])).unwrap();
}

#[test]
fn a_right_artifact() {
    let folder = artifact("verify-right", "c");
    let before = folder.names();
    let command = ["verify", "out", "--steps", "2", "--seed", "5"];
    let text = folder.succeed(&command);
    assert!(text.contains("digits for c: cc ") && text.contains("bit-exact: 2 training steps"));
    // Nothing is left behind.
    assert_eq!(folder.names(), before);
    let lines = folder.json(&[&command[..], &["--junit", "report.xml"]].concat());
    assert_eq!(lines[0]["reason"], "build");
    let calls: Vec<&Value> = lines.iter().filter(|l| l["reason"] == "progress").collect();
    assert_eq!(calls.len(), 2 * (2 + 5));
    assert_eq!((&calls[0]["case"], &calls[0]["entry"]), (&"step 0".into(), &"train_step".into()));
    let last = lines.last().unwrap();
    assert_eq!(last["reason"], "verified");
    assert_eq!((&last["bit_exact"], &last["steps"]), (&true.into(), &2.into()));
    assert_eq!((&last["name"], &last["target"]), (&"digits".into(), &"c".into()));
    assert_eq!((&last["seed"], &last["finding"]), (&5.into(), &Value::Null));
    assert!(last["seconds"].as_f64().unwrap() > 0.0 && last["elements"].as_u64().unwrap() > 1000);
    assert!(bytes(&folder.path("report.xml")).starts_with(b"<?xml "));
    let kept = ["verify", "out", "--steps", "0", "--no-extremes", "--keep", "kept"];
    folder.succeed(&kept);
    assert!(bytes(&folder.path("kept/main.c")).starts_with(b"/* "));
}

/// An artifact whose arena has a limit is planned with it again.
#[test]
fn an_artifact_within_a_limit() {
    let folder = Folder::new("verify-limit");
    folder.succeed(&["zoo", "residual", "-o", "residual.onnx"]);
    let compile = ["compile", "residual.onnx", "--target", "c", "--batch", "4", "-o", "out"];
    let arena = |lines: Vec<Value>| lines.last().unwrap()["arena_bytes"].as_u64().unwrap();
    let natural = arena(folder.json(&compile));
    let limit = (natural * 9 / 10).to_string();
    let limited = [&compile[..], &["--arena-limit", &limit]].concat();
    let output = folder.run(&limited);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&format!("({natural} without a limit)")), "{said}");
    assert!(arena(folder.json(&limited)) <= natural * 9 / 10);
    folder.succeed(&["verify", "out", "--steps", "2"]);
    let output = folder.run(&[&compile[..], &["--arena-limit", "1K"]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("the least that was found"), "{said}");
}

#[test]
fn a_wrong_artifact() {
    let folder = artifact("verify-wrong", "c");
    damage(&folder);
    let command = ["verify", "out", "--junit", "report.xml", "--message-format", "json"];
    let output = folder.run(&command);
    assert_eq!(output.status.code(), Some(1));
    let lines = objects(&String::from_utf8(output.stdout).unwrap());
    let last = lines.last().unwrap();
    assert_eq!(
        (&last["reason"], &last["bit_exact"]),
        (&"verified".into(), &false.into()),
        "{last}"
    );
    let finding = &last["finding"];
    assert_eq!((&finding["case"], &finding["entry"]), (&"step 0".into(), &"train_step".into()));
    assert_eq!(finding["differences"][0]["tensor"], "loss");
    assert_eq!(finding["launch"]["kernel"], "softmax_cross_entropy_f32_scalar");
    assert!(lines.iter().any(|l| l["reason"] == "bisect"));
    let report = String::from_utf8(bytes(&folder.path("report.xml"))).unwrap();
    assert!(report.contains("failures=\"1\"") && report.contains("softmax_cross_entropy"));
    let output = folder.run(&["verify", "out"]);
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout.contains("NOT bit-exact after 1 of 17 calls"), "{stdout}");
    assert!(stdout.contains("kernel `softmax_cross_entropy_f32_scalar` for node `loss`"));
    assert!(stderr.contains("`digits.c` is not as trainc wrote it"), "{stderr}");
}

/// Nothing but the compiler is needed: the simulator is in the executable.
#[test]
fn a_simulated_artifact() {
    let folder = artifact("verify-simulated", "xpulpv2");
    let command = ["verify", "out", "--steps", "1", "--no-extremes"];
    let text = folder.succeed(&command);
    for words in ["run by trainc's simulator", "bit-exact", "train_step, step 0", "cycles, 8 cores"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    let lines = folder.json(&command);
    assert!(lines.iter().any(|line| line["reason"] == "count"));
    let launch = &lines.last().unwrap()["launches"][0];
    assert_eq!(
        (&launch["entry"], &launch["costs"][1]["on"]),
        (&"train_step".into(), &"8 cores".into())
    );
    assert!(launch["costs"][0]["cycles"].as_u64().unwrap() > 100);
    let text = folder.succeed(&[&command[..], &["--no-counts"]].concat());
    assert!(!text.contains("cycles"), "{text}");
}

#[test]
fn what_targets_need() {
    let folder = Folder::new("targets");
    let mut command = folder.command(&["targets"]);
    let output = command.env("PATH", "/nowhere").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for words in [
        "verified with cc or gcc: apt-get install gcc\n",
        "qemu-hexagon: apt-get install clang-19 lld-19 qemu-user\n",
        "riscv64-unknown-elf-gcc and trainc's simulator of RI5CY: apt-get install gcc-riscv64-unknown-elf",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let lines = folder.json(&["targets"]);
    let neon = lines.iter().find(|line| line["name"] == "neon").unwrap();
    assert_eq!(neon["verify"]["emulators"][0], "qemu-aarch64");
    assert_eq!(neon["verify"]["installed"], true);
}

#[test]
fn what_is_missing_is_named() {
    let folder = artifact("verify-missing", "neon");
    let refused = |path: &str, arguments: &[&str]| {
        let mut command = folder.command(&[&["verify", "out"], arguments].concat());
        let output = command.env("PATH", path).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    };
    let message = refused("/nowhere", &[]);
    let packages = "apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross";
    for words in ["neon", "aarch64-linux-gnu-gcc", packages, "--cc"] {
        assert!(message.contains(words), "{message}");
    }
    let message = refused("/nowhere", &["--cc", "/bin/sh"]);
    for words in ["qemu-aarch64", "apt-get install qemu-user", "--runner"] {
        assert!(message.contains(words), "{message}");
    }
    assert!(refused("/nowhere", &["--cc", "no-such-cc -m64"]).contains("no-such-cc"));
    assert!(folder.fail(&["verify", "."]).contains("not an artifact"));
    assert!(folder.fail(&["verify", "nothing"]).contains("nothing"));
}
