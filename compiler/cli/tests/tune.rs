//! `trainc tune`.

mod common;

use std::fs;

use common::Folder;
use serde_json::Value;

/// A binary network for OpenCL in `out`.
fn artifact(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.succeed(&["zoo", "lenet-binary", "-o", "lenet.onnx"]);
    let compile = ["compile", "lenet.onnx", "--algorithm", "bnn-ste", "--freeze", "*"];
    folder.succeed(&[&compile[..], &["--target", "opencl", "--batch", "1", "-o", "out"]].concat());
    folder
}

fn manifest(folder: &Folder) -> Value {
    let text = fs::read_to_string(folder.path("out/manifest.json")).expect("a manifest");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn the_best_is_written_and_bits_stay() {
    let folder = artifact("tune");
    let before = manifest(&folder);
    assert_eq!(before["tunables"]["device"], Value::Null);
    let listed = before["tunables"]["kernels"].as_array().expect("kernels");
    assert!(listed.iter().all(|kernel| kernel["chosen"] == "driver"), "{listed:?}");
    let lines = folder.json(&["tune", "out", "-n", "1"]);
    let last = lines.last().expect("lines");
    assert_eq!((&last["reason"], &last["entry"]), (&"tuned".into(), &"infer".into()));
    let kernels = last["kernels"].as_array().expect("kernels");
    assert!(!kernels.is_empty() && last["before"].as_u64() >= last["after"].as_u64(), "{last}");
    // What was written is what was said, and the artifact is whole.
    let after = manifest(&folder);
    assert_eq!(after["tunables"]["device"], last["device"]);
    let table = fs::read_to_string(folder.path("out/lenet_tuning.h")).expect("a table");
    for kernel in kernels {
        let tried = kernel["tried"].as_array().expect("ways");
        assert!(tried.len() > 1 && tried[0]["way"] == "driver", "{kernel}");
        let written = after["tunables"]["kernels"].as_array().expect("kernels").iter();
        let written = written.clone().find(|w| w["kernel"] == kernel["kernel"]).expect("it");
        let chosen = if last["faster"] == true { &kernel["chosen"] } else { &tried[0]["way"] };
        assert_eq!(&written["chosen"], chosen);
        let groups: Vec<&str> = chosen.as_str().expect("words").rsplit(' ').collect();
        let numbers = match groups[0] {
            "driver" => "{ 0, 0, 0 }".to_string(),
            group => format!("{{ {} }}", group.replace('x', ", ")),
        };
        let name = kernel["kernel"].as_str().expect("a name");
        let line = table.lines().find(|line| line.contains(&format!("/* {name} */")));
        assert!(line.expect("a line").contains(&numbers), "{name}: {table}");
    }
    // What was chosen is what `bench` times, launch by launch, on the same device.
    let lines = folder.json(&["bench", "out"]);
    let benched = lines.last().expect("lines");
    assert_eq!((&benched["reason"], &benched["unit"]), (&"benched".into(), &"nanoseconds".into()));
    assert_eq!((&benched["runner"], &benched["machine"]), (&last["device"], &Value::Null));
    let launches = benched["launches"].as_array().expect("launches");
    let numbers: Vec<u64> = launches.iter().filter_map(|l| l["launch"].as_u64()).collect();
    assert_eq!(numbers, (0..launches.len() as u64).collect::<Vec<_>>(), "{benched}");
    let sum: u64 = launches.iter().filter_map(|l| l["units"].as_u64()).sum();
    let outside = benched["outside"].as_i64().expect("a difference");
    assert!(sum > 0 && sum as i64 + outside == benched["units"].as_i64().expect("a time"));
    let output = folder.run(&["verify", "out", "--steps", "1", "--no-extremes", "--launches"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("is not as trainc wrote it"), "{said}");
}

/// Groups that no device has: the driver's choice in their place, with the same bits.
#[test]
fn what_a_device_refuses_runs_as_the_driver_likes() {
    let folder = artifact("tune-refused");
    let path = folder.path("out/lenet_tuning.h");
    let table = fs::read_to_string(&path).expect("a table");
    fs::write(&path, table.replace("{ 0, 0, 0 }", "{ 65521, 1, 1 }")).expect("written");
    let text = folder.succeed(&["verify", "out", "--steps", "1", "--no-extremes"]);
    assert!(text.contains("bit-exact"), "{text}");
}

/// A way whose bits are others ends the trials; nothing is written.
#[test]
fn ways_with_other_bits_are_found() {
    let folder = artifact("tune-wrong");
    let path = folder.path("out/lenet_kernels.c");
    let kernels = fs::read_to_string(&path).expect("the kernels");
    let (before, tiled) = kernels.split_at(kernels.find("_tiled(").expect("a variant"));
    let wrong = tiled.replacen(" - 2 * ", " - 4 * ", 1);
    assert_ne!(wrong, tiled);
    fs::write(&path, format!("{before}{wrong}")).expect("written");
    let table = fs::read(folder.path("out/lenet_tuning.h")).expect("a table");
    let said = folder.fail(&["tune", "out", "-n", "1"]);
    assert!(said.contains("has another result than the first"), "{said}");
    assert_eq!(fs::read(folder.path("out/lenet_tuning.h")).expect("a table"), table);
}

#[test]
fn what_cannot_be_tuned() {
    let folder = Folder::new("tune-not");
    let model = folder.model();
    folder.succeed(&["compile", model, "--batch", "2", "--target", "c", "-o", "out"]);
    let said = folder.fail(&["tune", "out"]);
    assert!(said.contains("artifacts of target `c`") && said.contains("--target opencl"), "{said}");
    folder.succeed(&["compile", model, "--batch", "2", "--target", "opencl", "-o", "cl"]);
    // No driver at all.
    let mut command = folder.command(&["tune", "cl"]);
    let output = command.env("OCL_ICD_VENDORS", "/nowhere").output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("apt-get install pocl-opencl-icd"), "{said}");
}

/// What the driver built is kept where `TRAINC_OPENCL_CACHE` says, and built again where that is damaged.
#[test]
fn built_programs_are_kept() {
    let folder = artifact("tune-cache");
    let cache = folder.path("cache");
    fs::create_dir(&cache).expect("a folder");
    let verify = || {
        let mut command = folder.command(&["verify", "out", "--steps", "1", "--no-extremes"]);
        let output = command.env("TRAINC_OPENCL_CACHE", &cache).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        let files = fs::read_dir(&cache).expect("the folder");
        let files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
        assert_eq!(files.len(), 1, "{files:?}");
        (files[0].clone(), fs::metadata(&files[0]).expect("its size").len())
    };
    let (file, bytes) = verify();
    let modified = || fs::metadata(&file).and_then(|data| data.modified()).expect("a time");
    let written = modified();
    assert_eq!(verify(), (file.clone(), bytes));
    // Taken, not built.
    assert_eq!(modified(), written);
    let whole = fs::read(&file).expect("the file");
    fs::write(&file, &whole[..whole.len() / 2]).expect("written");
    // Built again, for which a driver need not give the same bytes twice, and taken by the next run.
    let (_, again) = verify();
    assert!(again.abs_diff(bytes) < bytes / 100, "{again} instead of {bytes} bytes");
    let written = modified();
    assert_eq!(verify(), (file.clone(), again));
    assert_eq!(modified(), written);
}
