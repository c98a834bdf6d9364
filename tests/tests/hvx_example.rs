//! The example of the Hexagon targets: it needs no library, and what it finds under the emulator is what training on this
//! machine finds.

use std::path::{Path, PathBuf};
use std::process::Command;

use trainc_driver::config::Config;
use trainc_driver::model::ModelSource;
use trainc_driver::session::{Entries, INFER, Session, TRAIN_STEP};
use trainc_driver::zoo::{ZooSpec, build};
use trainc_driver::{emit, targets};
use trainc_host::HostProgram;
use trainc_ir::harness::Runner;
use trainc_ir::{RunContext, Tensor};
use trainc_tests::brevitas;

const BATCH: usize = 4;
const CLASSES: usize = 4;
const ELEMENTS: usize = 64;
/// Training steps of an epoch; what is left over of the examples is half a batch.
const STEPS: usize = 12;
const EPOCHS: usize = 6;

fn session(source: &ModelSource, algorithm: &str, batch: usize, target: &str) -> Session {
    let config = Config {
        algorithm: algorithm.into(),
        target: target.into(),
        batch: Some(batch),
        // Of both targets the same program.
        infer_batch: Some(1),
        ..Config::default()
    };
    Session::new(source, &config, Entries::TrainAndInfer).expect("compiles")
}

/// What a session's example leaves in `variable`, after it returned 0 under the emulator.
fn found(name: &str, session: &Session, variable: &str) -> Vec<u8> {
    let target = session.target.description().name;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hvx_example");
    let folder = folder.join(format!("{name}-{target}"));
    let _ = std::fs::remove_dir_all(&folder);
    let files = emit::artifact_with_example(session, &[]).expect("emits");
    emit::write_folder(&folder, &files).expect("written");
    let write = |file: &str, text: &str| std::fs::write(folder.join(file), text).expect("written");
    let read = |file: &str| std::fs::read_to_string(folder.join(file)).expect("a file");
    let example = read("main.c");
    assert!(!example.contains('@') && !example.contains("#include <"), "{example}");

    // The README's command compiles the example, too. (Kernels leave exponents alone that they do not need.)
    let readme = read("README.md");
    let command = readme.lines().find_map(|l| l.strip_prefix("    clang ")).expect("a command");
    let strict = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Wconversion", "-Werror", "main.c"];
    tool(&folder, "clang-19", &command.split(' ').chain(strict).collect::<Vec<_>>());
    shared(&folder, command);

    let target = targets::find(target).expect("a target");
    let harness = target.harness(session.program());
    let harness = harness.expect("a harness").expect("it is run here");
    write(
        "after.c",
        &format!(
            "#include <stdio.h>\n#define main example_main\n#include \"main.c\"\n#undef main\n\n\
             int main(void)\n{{\n    int code = example_main();\n    \
             fwrite(&{variable}, 1, sizeof {variable}, stdout);\n    return code;\n}}\n"
        ),
    );
    harness.support.iter().for_each(|(file, text)| write(file, text));
    let support = harness.support.iter().map(|(file, _)| file).filter(|file| file.ends_with(".c"));
    let sources = harness.sources.iter().chain(support).map(String::as_str);
    let toolchain = target.toolchain().expect("it is built here");
    let arguments = toolchain.compilers[0].arguments.iter().map(String::as_str);
    let arguments = arguments.chain(["-I", ".", "-o", "program", "after.c"]).chain(sources);
    tool(&folder, "clang-19", &arguments.collect::<Vec<_>>());
    let Runner::Emulator(emulators) = &toolchain.runner else { panic!("an emulator") };
    let runner = &emulators[0];
    let arguments = runner.arguments.iter().map(String::as_str).chain(["./program"]);
    tool(&folder, &runner.command, &arguments.collect::<Vec<_>>())
}

/// Links what the README's command makes, position-independent, into a shared object as devices take it (DEVICE.md).
fn shared(folder: &Path, command: &str) {
    tool(folder, "clang-19", &command.split(' ').chain(["-fPIC"]).collect::<Vec<_>>());
    let sources = command.split(' ').filter(|word| word.ends_with(".c") || word.ends_with(".S"));
    let objects = sources.map(|source| format!("{}o", &source[..source.len() - 1]));
    let arguments = ["-shared", "-z", "text", "-o", "shared.so"].map(String::from);
    let arguments: Vec<String> = arguments.into_iter().chain(objects).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    tool(folder, "ld.lld-19", &arguments);
}

/// What a command prints; it must succeed.
fn tool(folder: &Path, command: &str, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(command).current_dir(folder).args(arguments).output();
    let output = output.unwrap_or_else(|e| panic!("{command}: {e}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command} in {}: {}\n{said}",
        folder.display(),
        output.status
    );
    output.stdout
}

/// The examples that the C makes up: stripes, and noise.
fn made_up() -> Vec<(Vec<f32>, usize)> {
    let mut noise = 1u32;
    let example = |position: usize| {
        let label = position % CLASSES;
        let element = |i: usize| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (i * (2 * label + 2) / ELEMENTS % 2) as f32 + (noise >> 16) as f32 / 131_072.0
        };
        ((0..ELEMENTS).map(element).collect(), label)
    };
    (0..STEPS * BATCH + BATCH.div_ceil(2)).map(example).collect()
}

fn right(host: &mut HostProgram, examples: &[(Vec<f32>, usize)]) -> u32 {
    let is_right = |(x, label): &&(Vec<f32>, usize)| {
        let x = Tensor::f32([1, 1, 8, 8], x.clone());
        let scores = &host.run(INFER, &[&x], &RunContext::default()).expect("infers")[0];
        let scores = scores.as_f32();
        (0..CLASSES).fold(0, |best, i| if scores[i] > scores[best] { i } else { best }) == *label
    };
    examples.iter().filter(is_right).count() as u32
}

#[test]
fn it_learns_what_it_made_up() {
    let spec = ZooSpec { classes: CLASSES, ..ZooSpec::new("digits").expect("in the zoo") };
    let bytes = build(&spec).expect("the zoo builds");
    let source = ModelSource::Bytes { name: "digits".into(), bytes };
    for algorithm in ["niti", "niti-finetune"] {
        let here = session(&source, algorithm, BATCH, "host");
        let mut host = here.on_this_machine().expect("runs");
        let examples = made_up();
        let mut expected: Vec<u32> = Vec::new();
        let mut losses: Vec<f32> = Vec::new();
        for step in 0..STEPS * EPOCHS {
            let batch = &examples[step % STEPS * BATCH..][..BATCH];
            let x = batch.iter().flat_map(|(x, _)| x.clone()).collect();
            let x = Tensor::f32([BATCH, 1, 8, 8], x);
            let labels = batch.iter().map(|(_, label)| *label as i32).collect();
            let size = here.algorithm.step_size(step as u64, (STEPS * EPOCHS) as u64);
            let size = match algorithm {
                "niti" => Tensor::i32([], vec![size as i32]),
                _ => Tensor::f32([], vec![size as f32]),
            };
            let run = RunContext { seed: 1, step: step as u32 };
            let operands = [&x, &Tensor::i32([BATCH], labels), &size];
            let results = host.run(TRAIN_STEP, &operands, &run).expect("trains");
            let loss = results.iter().find(|r| r.as_f32().len() == 1).expect("a loss").as_f32()[0];
            if step % STEPS == 0 {
                losses.push(0.0);
            }
            *losses.last_mut().expect("an epoch") += loss;
        }
        let right = right(&mut host, &examples);
        if algorithm == "niti" {
            assert!(losses[EPOCHS - 1] < losses[0] / 2.0, "{losses:?}");
            assert!(10 * right as usize > 8 * examples.len(), "{right}");
        }
        expected.extend(losses.iter().map(|loss| loss.to_bits()));
        // The checkpoint gave the state that was saved; a damaged one was refused.
        expected.extend([(STEPS * EPOCHS) as u32, examples.len() as u32, right, 1, 1]);
        for target in ["hvx", "hvx+v62"] {
            if algorithm != "niti" && target != "hvx" {
                continue;
            }
            let session = session(&source, algorithm, BATCH, target);
            let bytes = found(algorithm, &session, "example_results");
            let words: Vec<u32> =
                bytes.chunks(4).map(|b| u32::from_le_bytes(b.try_into().expect("words"))).collect();
            assert_eq!(words, expected, "{algorithm} on {target}");
        }
    }
}

#[test]
fn it_infers() {
    let file: PathBuf = std::fs::read_dir(brevitas::folder())
        .expect("the networks")
        .map(|e| e.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "onnx"))
        .min()
        .expect("a network");
    let source = ModelSource::File(file);
    let [here, session] = ["host", "hvx"].map(|target| session(&source, "quantized", 1, target));
    let program = session.program();
    let [entry] = &program.entries[..] else { panic!("one entry") };
    let [input, output] = [&entry.inputs[0], &entry.outputs[0]];
    let ty = &program.buffer(input.buffer).ty;
    let x = (0..ty.count()).map(|i| (i * 7 % 256) as f32 * (1.0 / 255.0)).collect();
    let x = Tensor::f32(ty.shape.iter().copied().collect::<Vec<_>>(), x);
    let mut host = here.on_this_machine().expect("runs");
    let expected = host.run(INFER, &[&x], &RunContext::default()).expect("infers");
    let bytes = found("inference", &session, &format!("result_{}", output.name));
    let floats: Vec<f32> =
        bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().expect("floats"))).collect();
    assert_eq!(floats, expected[0].as_f32());
}
