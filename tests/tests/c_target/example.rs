//! The example program: compiled as its README says and stricter, run here and on an emulated AArch64.

use std::path::Path;
use std::process::{Command, Output};

use trainc_driver::config::Config;
use trainc_driver::model::ModelSource;
use trainc_driver::session::{Entries, Session};
use trainc_driver::zoo::{ZooSpec, build as build_model};
use trainc_ir::Verified;
use trainc_ir::program::Program;
use trainc_ir::target::Target;

use crate::support::{Random, STRICT, compile, folder, program, text, write, write_all};

/// An artifact with its example in a folder.
fn emitted(name: &str, program: &Verified<Program>) -> std::path::PathBuf {
    let folder = folder(name);
    write_all(&folder, &trainc_c::C.emit(program).expect("emitted"));
    write_all(&folder, &[trainc_c::C.example(program).expect("an example").expect("C has one")]);
    folder
}

fn build(compiler: &str, folder: &Path, prefix: &str, more: &[&str]) {
    // The example is hosted.
    let mut flags: Vec<&str> = STRICT.iter().copied().filter(|f| *f != "-ffreestanding").collect();
    flags.extend(["-Wpedantic", "-O2", "main.c", "trainc_rt.c"]);
    let (source, data) = (format!("{prefix}.c"), format!("{prefix}_data.c"));
    flags.extend([source.as_str(), &data]);
    flags.extend(more);
    compile(compiler, folder, &flags);
}

fn start(folder: &Path, command: &[&str]) -> Output {
    Command::new(command[0])
        .args(&command[1..])
        .current_dir(folder)
        .output()
        .unwrap_or_else(|e| panic!("`{}` (Debian: qemu-user): {e}", command[0]))
}

/// What it prints; it must succeed.
fn succeeds(folder: &Path, command: &[&str]) -> String {
    let output = start(folder, command);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    text
}

/// What it prints to stderr; it must fail orderly.
fn fails(folder: &Path, command: &[&str]) -> String {
    let output = start(folder, command);
    assert_eq!(output.status.code(), Some(1), "{command:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// It learns what it made up, and says what it did.
fn check(printed: &str) {
    let losses: Vec<f64> = printed
        .lines()
        .filter_map(|l| l.split("mean loss ").nth(1))
        .map(|l| l.parse().expect("a number"))
        .collect();
    assert_eq!(losses.len(), 6, "{printed}");
    assert!(losses[5] < losses[0] / 2.0, "{printed}");
    let counts: Vec<Vec<f64>> = printed
        .lines()
        .filter(|l| l.ends_with("examples right"))
        .map(|l| l.split(' ').filter_map(|w| w.parse().ok()).collect())
        .collect();
    assert_eq!(counts.len(), 3, "{printed}");
    assert_eq!(counts[1], counts[2]);
    assert!(counts[1][0] > 0.8 * counts[1][1] && counts[1][0] > counts[0][0], "{printed}");
    assert!(printed.contains("saved and loaded") && printed.contains("refused"), "{printed}");
}

fn runs_everywhere(model: &str, algorithm: &str, batch: usize) {
    let program = program(model, algorithm, batch);
    let folder = emitted(&format!("example_{model}_{algorithm}"), &program);
    build("cc", &folder, model, &["-o", "native"]);
    let printed = succeeds(&folder, &[&folder.join("native").to_string_lossy()]);
    check(&printed);
    build("clang", &folder, model, &["-o", "clang"]);
    assert_eq!(succeeds(&folder, &[&folder.join("clang").to_string_lossy()]), printed);
    build("aarch64-linux-gnu-gcc", &folder, model, &["-static", "-o", "aarch64"]);
    assert_eq!(succeeds(&folder, &["qemu-aarch64", "aarch64"]), printed);
}

#[test]
fn digits() {
    runs_everywhere("digits", "niti", 4);
}

#[test]
fn lenet() {
    runs_everywhere("lenet5", "niti", 10);
}

#[test]
fn digits_in_floats() {
    runs_everywhere("digits", "fp32", 3);
}

/// The command of the README, and one's own data.
#[test]
fn own_data() {
    let program = program("digits", "niti", 4);
    let folder = emitted("example_data", &program);
    let readme = text(&trainc_c::C.emit(&program).expect("emitted"), "README.md");
    let command = readme.lines().filter_map(|l| l.strip_prefix("    cc ")).nth(1);
    let command: Vec<&str> = command.expect("a second command").split(' ').collect();
    compile("cc", &folder, &command);
    let example = folder.join("digits_example");
    let example = example.to_string_lossy();
    // Bars at the place of the class.
    let mut random = Random(3);
    let mut bytes = Vec::new();
    for i in 0..67usize {
        for pixel in 0..64usize {
            let noise = (random.next() >> 40) as f32 / 16_777_216.0;
            let bar = if pixel % 8 == i % 8 { 2.0 } else { 0.0 };
            bytes.extend((bar + noise / 4.0).to_le_bytes());
        }
        bytes.extend((i as i32 % 8).to_le_bytes());
    }
    write(&folder, "examples.bin", &bytes);
    let printed = succeeds(&folder, &[&example, "examples.bin", "12"]);
    assert_eq!(printed.lines().filter(|l| l.contains("mean loss")).count(), 12);
    let right = |printed: &str, when: &str, all: usize| {
        let (before, after) = (format!("{when} training: "), format!(" of {all} examples right"));
        let mut counts =
            printed.lines().filter_map(|l| l.strip_prefix(&before)?.strip_suffix(&after));
        counts.next().expect("all are read").parse::<u32>().expect("a number")
    };
    assert!(right(&printed, "after", 67) >= 60, "{printed}");
    // 16 full batches an epoch.
    assert!(printed.contains("after 192 steps"), "{printed}");

    // Others to evaluate on than to train on: the first ten, which are not all right before.
    write(&folder, "ten.bin", &bytes[..10 * (64 * 4 + 4)]);
    let printed = succeeds(&folder, &[&example, "examples.bin", "12", "ten.bin"]);
    assert!(right(&printed, "before", 10) < 9, "{printed}");
    assert!(right(&printed, "after", 10) >= 9, "{printed}");
    assert!(fails(&folder, &[&example, "examples.bin", "1", "none.bin"]).contains("none.bin"));

    bytes.truncate(3 * (64 * 4 + 4));
    write(&folder, "few.bin", &bytes);
    assert!(fails(&folder, &[&example, "few.bin"]).contains("fewer examples than a batch"));
    bytes[64 * 4] = 10;
    write(&folder, "bad.bin", &bytes);
    assert!(fails(&folder, &[&example, "bad.bin"]).contains("example 0 has the class 10"));
    assert!(fails(&folder, &[&example, "none.bin"]).contains("none.bin"));
}

/// A clock that counts how often it is read: each launch takes one of its cycles, in each step.
#[test]
fn profile() {
    let program = program("digits", "niti", 4);
    let folder = emitted("example_profile", &program);
    write(&folder, "hooks.h", "uint64_t ticks(void);\n#define TRAINC_CYCLES() ticks()\n");
    write(
        &folder,
        "ticks.c",
        "#include <stdint.h>\nuint64_t ticks(void);\n\
         uint64_t ticks(void)\n{\n    static uint64_t now;\n    return now++;\n}\n",
    );
    let hooks = "-DTRAINC_HOOKS=\"hooks.h\"";
    build("cc", &folder, "digits", &["-DTRAINC_PROFILE", hooks, "-I.", "ticks.c", "-o", "profile"]);
    build(
        "clang",
        &folder,
        "digits",
        &["-DTRAINC_PROFILE", hooks, "-I.", "ticks.c", "-o", "clang"],
    );
    let printed = succeeds(&folder, &[&folder.join("profile").to_string_lossy()]);
    check(&printed);
    let steps =
        printed.split("bytes after ").nth(1).and_then(|t| t.split(' ').next()).expect("steps");
    let table = printed.split("by launch:\n").nth(1).expect("a profile");
    let mut names = Vec::new();
    fn launches(steps: &[trainc_ir::program::Step], names: &mut Vec<String>) {
        for step in steps {
            match step {
                trainc_ir::program::Step::Launch(launch) => names.push(launch.name.clone()),
                trainc_ir::program::Step::Branch { .. } => panic!("no branches here"),
            }
        }
    }
    launches(&program.entries[0].steps, &mut names);
    let expected: Vec<String> = names.iter().map(|n| format!("{steps:>12}  {n}")).collect();
    assert_eq!(table.lines().collect::<Vec<_>>(), expected);
}

/// The header's schedule gives each step the size that training here takes.
#[test]
fn schedule() {
    // Every step of short trainings, then a thousand places of long ones and the steps around them.
    let short = (0..100).flat_map(|steps| (0..=steps).map(move |step| (step, steps)));
    let long = [1_000, 65_537, 1_000_003, 3_000_000_005, u64::from(u32::MAX)];
    let places = long.iter().flat_map(|&steps| (0..1_000).map(move |k| (steps * k / 1_000, steps)));
    let around = places.flat_map(|(step, steps)| (0..3).map(move |more| (step + more, steps)));
    let cases: Vec<(u64, u64)> = short.chain(around).collect();
    let list: Vec<String> = cases.iter().map(|(a, b)| format!("{{ {a}u, {b}u }}")).collect();
    for (name, like) in [("niti", "niti"), ("fp32", "fp32"), ("niti-finetune", "fp32")] {
        let algorithm = trainc_opt::algorithm::Algorithm::built_in(name).expect("built in");
        let mut program = program("digits", like, 4);
        program.notes_mut().schedule = algorithm.schedule.clone();
        let folder = emitted(&format!("schedule_{name}"), &program);
        let integer = algorithm.learning_rate == trainc_ir::Element::I32;
        let (ty, print) = if integer { ("int32_t", "%.0f") } else { ("float", "%.9g") };
        let main = format!(
            "#include <stdio.h>\n#include \"digits.h\"\n\
             static const struct {{ double from; {ty} size; }} table[DIGITS_SCHEDULE_POINTS] = DIGITS_SCHEDULE;\n\
             static const uint32_t cases[{count}][2] = {{\n{list}\n}};\n\
             int main(void)\n{{\n    for (int i = 0; i < {count}; i++) {{\n        \
             printf(\"{print}\\n\", (double)digits_learning_rate(cases[i][0], cases[i][1]));\n    }}\n    \
             for (int i = 0; i < DIGITS_SCHEDULE_POINTS; i++) {{\n        \
             printf(\"%g {print}\\n\", table[i].from, (double)table[i].size);\n    }}\n    return 0;\n}}\n",
            count = cases.len(),
            list = list.join(",\n"),
        );
        write(&folder, "main.c", main);
        build("cc", &folder, "digits", &["-o", "schedule"]);
        let printed = succeeds(&folder, &[&folder.join("schedule").to_string_lossy()]);
        let mut lines = printed.lines();
        for &(step, steps) in &cases {
            let size: f32 = lines.next().expect("a size").parse().expect("a number");
            let expected = algorithm.step_size(step, steps) as f32;
            assert_eq!(size.to_bits(), expected.to_bits(), "{name}: {step} of {steps}");
        }
        for (point, line) in algorithm.schedule.iter().zip(&mut lines) {
            let (from, size) = line.split_once(' ').expect("a point");
            assert_eq!(from.parse::<f64>().ok(), point.plain().map(|p| p.0));
            assert_eq!(size.parse::<f32>(), Ok(point.value as f32));
        }
        assert!(lines.next().is_none());
    }
}

/// Lines and cosines of a schedule, by counts of steps and fractions: the bits of the trainer's.
#[test]
fn schedule_between_points() {
    let points: Vec<_> = ["0:0.02~linear", "50s:0.1~cosine", "0.9:0.001", "1900s:0.0005"]
        .iter()
        .map(|text| trainc_ir::schedule::Point::parse(text).expect("a point"))
        .collect();
    let mut program = program("digits", "fp32", 4);
    program.notes_mut().schedule = points.clone();
    let folder = emitted("schedule_between", &program);
    let main = "#include <stdio.h>\n#include \"digits.h\"\n\
        int main(void)\n{\n    for (uint32_t step = 0; step < 2000; step++) {\n        \
        printf(\"%.9g\\n\", (double)digits_learning_rate(step, 2000));\n    }\n    return 0;\n}\n";
    write(&folder, "main.c", main);
    build("cc", &folder, "digits", &["-o", "schedule"]);
    let printed = succeeds(&folder, &[&folder.join("schedule").to_string_lossy()]);
    assert_eq!(printed.lines().count(), 2000);
    for (step, line) in printed.lines().enumerate() {
        let size: f32 = line.parse().expect("a number");
        let expected = trainc_ir::schedule::value(&points, step as u64, 2000) as f32;
        assert_eq!(size.to_bits(), expected.to_bits(), "step {step}: {size}, not {expected}");
    }
}

/// What emitted code gives for the first 40 places of an input's schedule of 40, under an algorithm file.
fn scheduled(
    name: &str,
    algorithm: &str,
    (input, print): (&str, &str),
) -> (Session, Vec<f64>, String) {
    let own = folder(&format!("scheduled_{name}_file"));
    write(&own, "a.toml", algorithm);
    let bytes = build_model(&ZooSpec::new("digits").expect("a model")).expect("it builds");
    let source = ModelSource::Bytes { name: "digits".to_string(), bytes };
    let config = Config {
        algorithm: own.join("a.toml").to_string_lossy().into_owned(),
        target: "c".to_string(),
        batch: Some(4),
        ..Config::default()
    };
    let session = Session::new(&source, &config, Entries::TrainAndInfer).expect("it compiles");
    let folder = emitted(&format!("scheduled_{name}"), session.program());
    let main = format!(
        "#include <stdio.h>\n#include \"digits.h\"\n\
         int main(void)\n{{\n    for (uint32_t at = 0; at < 40; at++) {{\n        \
         printf(\"{print}\\n\", digits_{input}(at, 40));\n    }}\n    return 0;\n}}\n"
    );
    // The whole example as well, which calls the step with it, and the end of an epoch.
    build("cc", &folder, "digits", &["-o", "example"]);
    succeeds(&folder, &[&folder.join("example").to_string_lossy()]);
    let example = std::fs::read_to_string(folder.join("main.c")).expect("an example");
    write(&folder, "main.c", main);
    build("cc", &folder, "digits", &["-o", "schedule"]);
    let printed = succeeds(&folder, &[&folder.join("schedule").to_string_lossy()]);
    let values: Vec<f64> = printed.lines().map(|line| line.parse().expect("a number")).collect();
    assert_eq!(values.len(), 40);
    (session, values, example)
}

/// Schedules of other inputs: one by steps, whose bits are the trainer's, and whole numbers by epochs; and one of stages, each of
/// which has a step of its own.
#[test]
fn schedules_of_other_inputs() {
    let decay = "name = \"a\"\ntitle = \"b\"\n[optimizer]\nschedule = [{ from = 0.0, value = 0.5 }]\n\
        [optimizer.inputs.decay]\nschedule = [{ from = 0.0, value = 1.0, shape = \"cosine\" }, { from = 1.0, value = 0.125 }]\n\
        [optimizer.update]\nw = \"(sub ?w (mul ?learning_rate (mul ?decay ?g)))\"\n\
        [optimizer.epoch_end]\nw = \"(mul ?w ?decay)\"\n\
        [parameters]\ntop = { default = 6, min = 1, max = 8 }\n\
        [[model.rules]]\nname = \"clip\"\nmatch = \"(relu ?x)\"\ninto = \"(clip{min=0, max=$(top)} ?x)\"\n\
        [stages]\nschedule = [{ from = 0.0, value = 0 }, { from = \"2e\", value = 1 }]\n\
        others = [{ name = \"low\", parameters = { top = 1 } }]\n";
    let (session, values, main) = scheduled("decay", decay, ("decay", "%.9g"));
    let switch = "switch (digits_stage((uint32_t)(epoch - 1), (uint32_t)epochs)) {\n            case 1:\n                \
        digits_train_step_low(arena, state";
    assert!(main.contains(switch), "{main}");
    let input = &session.algorithm.optimizer.inputs["decay"];
    for (at, value) in values.into_iter().enumerate() {
        // By the definition: half a cosine from 1 to 0.125.
        let way = at as f64 / 40.0;
        let cosine = 0.125 + 0.875 * (1.0 + (std::f64::consts::PI * way).cos()) / 2.0;
        assert!((value - cosine).abs() < 3e-7, "{at}: {value}");
        let trained = input.value((at as u64, 40), (0, 1)) as f32;
        assert_eq!((value as f32).to_bits(), trained.to_bits(), "{at}");
    }

    let niti = trainc_opt::algorithm::Algorithm::built_in("niti").expect("built in").text;
    let bits = niti.replace("(sgd_update ?w ?g ?learning_rate)", "(sgd_update ?w ?g ?bits)")
        + "\n[optimizer.inputs.bits]\nelement = \"i32\"\nper = \"epoch\"\nrange = [0, 7]\n\
        schedule = [{ from = 0.0, value = 7 }, { from = \"3e\", value = 2 }, { from = 0.5, value = 4 }]\n";
    assert_ne!(niti.len(), bits.len());
    let (_, values, _) = scheduled("bits", &bits, ("bits", "%d"));
    let expected = |at: usize| [7.0, 2.0, 4.0][usize::from(at >= 3) + usize::from(at >= 20)];
    assert_eq!(values, (0..40).map(expected).collect::<Vec<f64>>());
}

/// Stages that follow the loss: of recorded losses, the emitted C and the emitted Rust are in numpy's stages
/// (tests/reference/carrier/make_indicator.py), and the example takes a step by them.
#[test]
fn stages_that_follow_the_loss() {
    let bytes = build_model(&ZooSpec::new("digits").expect("a model")).expect("it builds");
    let source = ModelSource::Bytes { name: "digits".to_string(), bytes };
    let config = Config {
        algorithm: "pfq".to_string(),
        target: "c".to_string(),
        batch: Some(4),
        ..Config::default()
    };
    let session = Session::new(&source, &config, Entries::TrainAndInfer).expect("it compiles");
    let folder = emitted("indicator", session.program());
    let main = std::fs::read_to_string(folder.join("main.c")).expect("the example");
    assert!(main.contains("switch (digits_stage(&indicator)) {"), "{main}");
    build("cc", &folder, "digits", &["-O1", "-o", "example"]);
    succeeds(&folder, &[&folder.join("example").to_string_lossy()]);

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/pfq/indicator.json");
    let traces = std::fs::read_to_string(path).expect("the traces");
    let traces: serde_json::Value = serde_json::from_str(&traces).expect("JSON");
    let order = [1, 2, 3, 0];
    let (mut in_c, mut in_rust, mut expected) = (String::new(), String::new(), Vec::new());
    for run in traces["runs"].as_array().expect("runs") {
        in_c += "    indicator = (digits_indicator)DIGITS_INDICATOR;\n";
        in_rust += "    indicator = Indicator::START;\n";
        for loss in run["losses"].as_array().expect("losses") {
            let loss = loss.as_f64().expect("a number") as f32;
            in_c += &format!("    show(&indicator, {loss:?}f);\n");
            in_rust += &format!("    show(&mut indicator, {loss:?});\n");
        }
        let stages = run["stages"].as_array().expect("stages").iter();
        expected.extend(stages.map(|stage| order[stage.as_u64().expect("a stage") as usize]));
    }
    let stages = |printed: String| -> Vec<i32> {
        printed.lines().map(|line| line.parse().expect("a number")).collect()
    };
    let main = format!(
        "#include <stdio.h>\n#include \"digits.h\"\n\
         static void show(digits_indicator *indicator, float loss)\n{{\n    \
         digits_indicator_take(indicator, loss);\n    printf(\"%d\\n\", (int)digits_stage(indicator));\n}}\n\
         int main(void)\n{{\n    digits_indicator indicator;\n{in_c}    return 0;\n}}\n"
    );
    write(&folder, "main.c", &main);
    let hosted: Vec<&str> = STRICT.iter().copied().filter(|f| *f != "-ffreestanding").collect();
    compile("cc", &folder, &[&hosted[..], &["main.c", "-o", "stages"]].concat());
    assert_eq!(stages(succeeds(&folder, &[&folder.join("stages").to_string_lossy()])), expected);

    let module = std::fs::read_to_string(folder.join("digits.rs")).expect("the module");
    let (_, own) = module.split_once("pub struct Indicator").expect("the type");
    let (own, _) = own.split_once("/// The linked functions").expect("what follows it");
    let program = format!(
        "pub struct Indicator{own}\nfn show(indicator: &mut Indicator, loss: f32) {{\n    indicator.take(loss);\n    \
         println!(\"{{}}\", indicator.stage());\n}}\nfn main() {{\n    let mut indicator;\n{in_rust}}}\n"
    );
    write(&folder, "stages.rs", &program);
    compile(
        "rustc",
        &folder,
        &["--edition=2024", "-Anonstandard_style", "stages.rs", "-o", "stages_rs"],
    );
    assert_eq!(stages(succeeds(&folder, &[&folder.join("stages_rs").to_string_lossy()])), expected);
}
