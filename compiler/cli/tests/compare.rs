//! `trainc compare`.

mod common;

use std::fs;

use common::Folder;
use serde_json::Value;

/// What an object of an epoch says, without whose it is.
fn epochs<'v>(lines: &'v [Value], algorithm: &str, seed: u64) -> Vec<[&'v Value; 3]> {
    let of_run = |line: &&Value| {
        line["reason"] == "epoch"
            && (line["algorithm"].is_null() || line["algorithm"] == algorithm)
            && (line["seed"].is_null() || line["seed"] == seed)
    };
    let fields = ["epoch", "train_loss", "test_accuracy"];
    lines.iter().filter(of_run).map(|line| fields.map(|field| &line[field])).collect()
}

/// Each run is what `train` makes with its algorithm and seed, also behind another one; runs that are there stay.
#[test]
fn runs_are_those_of_train() {
    let folder = Folder::new("compare");
    let (model, data) = (folder.model(), folder.data());
    let recipe = ["--data", data, "--batch", "4", "--epochs", "2"];
    let flags =
        [&["compare", model, "-o", "out", "--algorithms", "niti,fp32"][..], &recipe].concat();
    let two = folder.json(&[&flags[..], &["--seeds", "2", "--seed", "5"]].concat());
    for algorithm in ["niti", "fp32"] {
        for seed in [5, 6] {
            let text = seed.to_string();
            let flags = [&["train", model, "--algorithm", algorithm, "--seed", &text][..], &recipe];
            let alone = folder.json(&flags.concat());
            let expected = epochs(&alone, algorithm, seed);
            assert_eq!(expected.len(), 3);
            assert_eq!(epochs(&two, algorithm, seed), expected, "{algorithm}, seed {seed}");
        }
    }
    assert_ne!(epochs(&two, "niti", 5), epochs(&two, "niti", 6));
    let (compared, last) = (two.last().unwrap(), epochs(&two, "niti", 5)[2]);
    assert_eq!(compared["reason"], "compared");
    assert_eq!(&compared["algorithms"][0]["runs"][0]["history"][2]["test_accuracy"], last[2]);
    let [niti, fp32] = [0, 1].map(|n| &compared["algorithms"][n]["cost"]);
    let macs = niti["macs"].as_f64().unwrap();
    assert!(macs > 0.0);
    assert_eq!(niti["weighted_macs"].as_f64().unwrap(), macs / 16.0);
    assert_eq!(fp32["weighted_macs"], fp32["macs"].as_f64().unwrap());
    // One seed more, and nothing again.
    let three = folder.json(&[&flags[..], &["--seeds", "3", "--seed", "5"]].concat());
    assert!(epochs(&three, "niti", 5).is_empty() && epochs(&three, "fp32", 6).is_empty());
    assert_eq!(epochs(&three, "niti", 7).len(), 3);
    let runs = |line: &Value| line["algorithms"][0]["runs"].as_array().unwrap().clone();
    assert_eq!(runs(three.last().unwrap())[..2], runs(compared)[..]);
    assert_eq!(fs::read_to_string(folder.path("out/runs.jsonl")).unwrap().lines().count(), 6);
    let report = fs::read_to_string(folder.path("out/report.html")).unwrap();
    assert!(report.contains("<svg ") && report.contains("<td>niti</td>"), "{report}");
    assert!(!report.contains("http://") || report.matches("http").count() == 1, "{report}");
    assert!(fs::read_to_string(folder.path("out/comparison.svg")).unwrap().starts_with("<svg "));
}

#[test]
fn each_seed_draws_weights_of_its_own_where_asked() {
    let folder = Folder::new("compare-random");
    let (model, data) = (folder.model(), folder.data());
    let flags = ["--data", data, "--batch", "4", "--epochs", "1", "--init", "random"];
    let lines = folder
        .json(&[&["compare", model, "--algorithms", "fp32", "--seeds", "2"][..], &flags].concat());
    for seed in [0, 1] {
        let text = seed.to_string();
        let train = [&["train", model, "--algorithm", "fp32", "--seed", &text][..], &flags];
        let alone = folder.json(&train.concat());
        assert_eq!(epochs(&lines, "fp32", seed), epochs(&alone, "fp32", seed), "{seed}");
    }
}

#[test]
fn what_cannot_be_compared_is_said() {
    let folder = Folder::new("compare-wrong");
    let model = folder.model();
    for (flags, said) in [
        (&["--algorithms", "niti,nonesuch"][..], "nonesuch"),
        (&["--algorithms", "niti,quantized"], "only infers"),
        (&["--algorithms", "niti", "--algorithm", "niti"], "--algorithms in place of --algorithm"),
        (&["--algorithms", "niti", "--seeds", "0"], "needs a seed"),
    ] {
        let stderr = folder.fail(&[&["compare", model][..], flags].concat());
        assert!(stderr.contains(said), "{flags:?}: {stderr}");
    }
}
