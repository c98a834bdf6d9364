//! What an artifact says of its input, its classes and its frozen parts.

mod common;

use std::process::Command;

use common::{Folder, bytes};
use trainc_data::{Dataset, Normalization, Normalizer};

/// The header's numbers turn pixels into the values that training here sees, bit for bit.
#[test]
fn pixels_become_inputs() {
    let folder = Folder::new("pixels");
    let (model, data) = (folder.model(), folder.data());
    let split = Dataset::open(&folder.path(data)).unwrap().train;
    for (how, normalization) in [
        ("none", Normalization::None),
        ("unit", Normalization::UnitInterval),
        ("standardize", Normalization::Standardize),
    ] {
        let flags = ["--target", "c", "--normalization", how, "--data", data, "-o", "out"];
        folder.succeed(&[&["compile", model], &flags[..]].concat());
        let main = "#include <stdio.h>\n#include \"digits.h\"\n\
            static const double mean[DIGITS_INPUT_CHANNELS] = DIGITS_INPUT_MEAN;\n\
            static const double deviation[DIGITS_INPUT_CHANNELS] = DIGITS_INPUT_DEVIATION;\n\
            static const char *const names[] = DIGITS_CLASS_NAMES;\n\
            int main(void)\n{\n    for (int p = 0; p < 256; p++) {\n        \
            float x = (float)((p / DIGITS_INPUT_DIVISOR - mean[0]) / deviation[0]);\n        \
            printf(\"%ld\\n\", (long)trainc_bits(x));\n    }\n    \
            printf(\"%s %s %d %d\\n\", names[0], names[1], DIGITS_INPUT_HEIGHT, DIGITS_INPUT_WIDTH);\n    \
            return 0;\n}\n";
        let out = folder.path("out");
        std::fs::write(out.join("show.c"), main).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-o", "show", "show.c"]);
        assert!(cc.current_dir(&out).status().unwrap().success());
        let shown = Command::new(out.join("show")).output().unwrap().stdout;
        let shown = String::from_utf8(shown).unwrap();
        let mut lines = shown.lines();
        // Every pixel value once, by the normalizer that training uses.
        let normalizer = Normalizer::fit(normalization, &split);
        let all = trainc_data::Split {
            shape: [1, 16, 16],
            images: trainc_data::Images::U8((0..=255).collect()),
            labels: vec![0],
            targets: None,
            named: Vec::new(),
        };
        for value in normalizer.to_f32(&all) {
            assert_eq!(lines.next().unwrap().parse::<i32>().unwrap(), value.to_bits() as i32);
        }
        assert_eq!(lines.next().unwrap(), "0 1 8 8", "{how}");
        let manifest: serde_json::Value =
            serde_json::from_slice(&bytes(&out.join("manifest.json"))).unwrap();
        let input = &manifest["input"];
        assert_eq!((&input["layout"], &input["element"]), (&"NCHW".into(), &"f32".into()));
        assert_eq!(input["shape"].as_array().unwrap().len(), 4);
        let found = &input["normalization"]["mean"][0];
        assert_eq!(found.as_f64(), Some(normalizer.mean_and_deviation()[0].0));
        assert_eq!(manifest["classes"]["count"], 2);
        assert_eq!(manifest["classes"]["names"][1], "1");
        std::fs::remove_dir_all(&out).unwrap();
    }
}

#[test]
fn what_the_data_must_be() {
    let folder = Folder::new("must");
    let (model, data) = (folder.model(), folder.data());
    let compile = ["compile", model, "-o", "out", "--normalization", "standardize"];
    assert!(folder.fail(&compile).contains("--data"));
    folder.succeed(&["zoo", "lenet5", "-o", "lenet5.onnx"]);
    let other = ["compile", "lenet5.onnx", "-o", "out", "--data", data];
    assert!(folder.fail(&other).contains("1 x 8 x 8"));
    folder.succeed(&["compile", model, "-o", "out", "--algorithm", "fp32", "--freeze", "*conv*"]);
    let header = String::from_utf8(bytes(&folder.path("out/digits.h"))).unwrap();
    assert!(header.contains("Constants, which do not train: "), "{header}");
    assert!(header.contains("_INPUT_DIVISOR 255.0") && !header.contains("CLASS_NAMES"), "{header}");
}

/// Numbers that the user states are those of training, of the header and of the manifest.
#[test]
fn stated_mean_and_deviation() {
    let folder = Folder::new("stated");
    let (model, data) = (folder.model(), folder.data());
    let stated = ["--mean", "0.25", "--deviation", "0.5"];
    folder.succeed(&[&["compile", model, "--target", "c", "-o", "out"], &stated[..]].concat());
    let header = String::from_utf8(bytes(&folder.path("out/digits.h"))).unwrap();
    for line in ["_INPUT_DIVISOR 255.0", "_INPUT_MEAN { 0.25 }", "_INPUT_DEVIATION { 0.5 }"] {
        assert!(header.contains(line), "{line}: {header}");
    }
    let manifest: serde_json::Value =
        serde_json::from_slice(&bytes(&folder.path("out/manifest.json"))).unwrap();
    assert_eq!(manifest["input"]["normalization"]["deviation"][0], 0.5);
    let train = |name: &str, flags: &[&str]| {
        let fixed =
            ["train", model, "--data", data, "--epochs", "1", "-b", "8", "--weights-out", name];
        folder.succeed(&[&fixed[..], flags].concat());
        bytes(&folder.path(name))
    };
    // With 0 and 1 it is what it is without; otherwise not.
    let plain = train("plain.st", &[]);
    assert_eq!(plain, train("same.st", &["--mean", "0", "--deviation", "1"]));
    assert_ne!(plain, train("stated.st", &stated));
    let message = folder.fail(&["train", model, "--data", data, "--mean", "0.1,0.2,0.3"]);
    assert!(message.contains("3 channels, and images of 1"), "{message}");
    let both = ["compile", model, "-o", "no", "--mean", "0.1", "--normalization", "none"];
    assert!(folder.fail(&both).contains("unit"));
}

/// Step sizes of the command line, in place of the algorithm's.
#[test]
fn a_schedule_on_the_command_line() {
    let folder = Folder::new("schedule");
    let model = folder.model();
    let compile =
        ["compile", model, "-o", "out", "--algorithm", "fp32", "--schedule", "0:0.5,0.25:0.125"];
    folder.succeed(&compile);
    let manifest: serde_json::Value =
        serde_json::from_slice(&bytes(&folder.path("out/manifest.json"))).unwrap();
    let point = |from: f64, size: f64| serde_json::json!({ "from": from, "step_size": size });
    assert_eq!(manifest["schedule"], serde_json::json!([point(0.0, 0.5), point(0.25, 0.125)]));
    // What the algorithm cannot take is refused before the model is read.
    let rate = ["train", "no/such.onnx", "--algorithm", "niti", "--learning-rate", "0.1"];
    assert!(folder.fail(&rate).contains("a whole number from 0 to 7"));
}
