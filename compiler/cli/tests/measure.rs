//! `trainc measure`, and what is done with its file: on two emulated machines.

mod common;

use std::fs;

use common::Folder;
use serde_json::Value;

const FLAGS: [&str; 4] = ["--target", "neon+hvx", "--batch", "2"];

/// The devices of the artifact's launches.
fn devices(folder: &Folder, artifact: &str) -> Vec<u64> {
    let text = fs::read_to_string(folder.path(artifact).join("manifest.json")).expect("written");
    let manifest: Value = serde_json::from_str(&text).expect("JSON");
    let of = |entry: &Value| entry["devices"].as_array().expect("devices").clone();
    let entries = manifest["entries"].as_array().expect("entries");
    entries.iter().flat_map(of).map(|device| device.as_u64().expect("a number")).collect()
}

#[test]
fn what_is_measured_divides_the_program() {
    let folder = Folder::new("measure");
    let model = folder.model();
    let lines =
        folder.json(&[&["measure", model, "-o", "times.toml", "-n", "2"][..], &FLAGS].concat());
    let last = lines.last().expect("lines");
    assert_eq!((&last["reason"], &last["missing"]), (&"measured".into(), &0.into()));
    let text = fs::read_to_string(folder.path("times.toml")).expect("written");
    assert!(text.contains("qemu-hexagon") && text.contains("no device's"), "{text}");
    let table: toml::Table = text.parse().expect("TOML");
    let kernels = table["kernels"].as_table().expect("kernels");
    let time = |kernel: &str, device: &str| kernels[kernel][device].as_float().expect("a time");
    assert!(kernels.keys().all(|k| time(k, "cpu") > 0.0 && time(k, "hvx") > 0.0), "{text}");

    // What `inspect` counts with is what the file says.
    let inspect = [&["inspect", model, "--latencies", "times.toml"][..], &FLAGS].concat();
    let emit = [&inspect[..], &["--emit", "latencies=again.toml"]].concat();
    folder.succeed(&emit);
    let again = fs::read_to_string(folder.path("again.toml")).expect("written");
    let again: toml::Table = again.parse().expect("TOML");
    let near = |a: &toml::Value, b: &toml::Value| {
        (a.as_float().expect("a time") - b.as_float().expect("a time")).abs() < 1e-5
    };
    assert!(near(&again["switch"], &table["switch"]));
    for (kernel, devices) in again["kernels"].as_table().expect("kernels") {
        for (device, of) in devices.as_table().expect("devices") {
            assert!(near(of, &kernels[kernel][device]), "{kernel} on {device}: {of}");
        }
    }

    // Other numbers divide the program in another way: one kernel is dear on the processor.
    let dear = kernels.keys().next().expect("a kernel");
    let edited = format!("switch = 0.0\n[kernels.{dear}]\ncpu = 1e9\nhvx = 1.0\n");
    fs::write(folder.path("edited.toml"), edited).expect("written");
    let compile = [&["compile", model, "-o", "out", "--latencies", "edited.toml"][..], &FLAGS];
    folder.succeed(&compile.concat());
    let divided = devices(&folder, "out");
    assert!(divided.contains(&1), "{divided:?}");

    // The artifact is counted on both, and each launch on its own.
    let lines = folder.json(&["bench", "out"]);
    let bench = lines.last().expect("lines");
    let of = |at: usize, field: &str| bench["devices"][at][field].clone();
    assert_eq!([of(0, "unit"), of(1, "unit")], ["instructions", "packets"].map(Value::from));
    let launches = bench["launches"].as_array().expect("launches");
    for device in [0, 1] {
        let name = of(device, "device");
        let own = launches.iter().filter(|l| l["device"] == name);
        let sum: i64 = own.map(|l| l["units"].as_i64().expect("a count")).sum();
        assert!(sum > 0 && of(device, "units").as_i64() > Some(0), "{bench}");
        assert_eq!(
            Value::from(of(device, "units").as_i64().unwrap_or(0) - sum),
            of(device, "outside")
        );
    }
    let there = launches.iter().filter(|l| l["device"] == "hvx").count();
    let steps = divided[..launches.len()].iter().filter(|d| **d == 1).count();
    assert_eq!(there, steps, "each launch of the DSP is counted");
}

#[test]
fn a_device_s_own_log() {
    let folder = Folder::new("measure-log");
    let model = folder.model();
    folder.succeed(&[&["compile", model, "-o", "out"][..], &FLAGS].concat());
    let log = "trainc-time switch 300000\n07-12 adsprpc: trainc-time hvx 0 0 1500\ntrainc-time hvx 0 0 2500\n\
               trainc-time cpu 0 1 70\n";
    fs::write(folder.path("device.log"), log).expect("written");
    let text = folder.succeed(&["measure", "out", "--log", "device.log"]);
    assert!(text.contains("switch = 300.0") && text.contains("hvx = 2.5"), "{text}");
    assert!(text.contains("cpu = 0.07") && !text.contains("mulated"), "{text}");

    folder.succeed(&["compile", model, "--target", "hvx", "-o", "alone"]);
    fs::write(folder.path("other.log"), "trainc-time hvx 0 9999 5\n").expect("written");
    fs::write(folder.path("empty.log"), "nothing\n").expect("written");
    fs::write(folder.path("broken.log"), "trainc-time hvx 0 five 5\n").expect("written");
    for (command, said) in [
        (&["measure", "alone"][..], "measure for `neon+hvx`"),
        (&["measure", "out", "--batch", "3"], "as it was compiled"),
        (&["measure", "out", "--log", "other.log"], "another model, batch or algorithm"),
        (&["measure", "out", "--log", "empty.log"], "docs/pair.md"),
        (&["measure", "out", "--log", "broken.log"], "line 1"),
        (&["measure", "out", "--log", "nowhere.log"], "nowhere.log"),
        (&["measure", "out", "--cc", "no-such-compiler"], "no-such-compiler"),
    ] {
        let stderr = folder.fail(command);
        assert!(stderr.contains(said), "{command:?}: {stderr}");
    }
}
