//! Names of models in emitted files: whatever a model's tensors, nodes and file are called, every target's artifact is
//! what it would be under other names, and its compiler takes it without a word.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use trainc_driver::config::Config;
use trainc_driver::emit;
use trainc_driver::model::ModelSource;
use trainc_driver::session::{Entries, Session};
use trainc_driver::targets::TARGETS;
use trainc_driver::verify::{VerifyOptions, verify};
use trainc_driver::zoo::{ZooSpec, build};
use trainc_ir::names;
use trainc_ir::target::Target;
use trainc_onnx_import::proto::{Message, ModelProto};

/// What is compiled if it is not held back.
const MARK: &str = "int pwned = syntax error here";

/// Texts that mean something in C, assembly, Rust, CMake, Markdown, JSON or a format string.
const HOSTILE: &[&str] = &[
    "*/ @ /*",
    "*\\\n/ @ /\\\n*",
    "// \\\n@",
    "/\\\n/ ??/\n@ //",
    "*??/\n/ @ ??/",
    "\"); @; (\"",
    "\\\"); @; //",
    "\n#include \"@\"\n",
    "\n@\n",
    "\r@\r",
    "\r\n\t@",
    "\u{b}\u{c}\0@\u{7f}\u{1b}[2J",
    "\u{85}\u{2028}\u{2029}@",
    "\u{202e}\u{2066}@\u{feff}",
    "`@`",
    "```\n@\n```",
    "${@} $(@) %s%n%x @",
    "@PREFIX@ @prefix@ {prefix} {} @",
    "]] <!-- @ --> </code> | @ |",
    "; @ #@",
    "{ @ }:endloop0",
    "'@' \"@\"",
    "gr\u{f6}\u{df}e \u{1f600} @",
    "@ \\",
    "@ ??/",
    "@ /",
    "@ *",
];

/// Names that mean something where an identifier stands.
const RESERVED: &[&str] = &[
    "NULL",
    "INT32_MAX",
    "int8_t",
    "class",
    "learning_rate",
    "main",
    "float",
    "labels",
    "loss",
    "arena",
    "state",
    "seed",
    "step",
    "launches",
    "a",
    "s",
    "c",
    "run",
    "R",
    "r0",
    "v0",
    "p0",
    "sp",
    "x0",
    "q0",
    "self",
    "Self",
    "crate",
    "fn",
    "type",
    "match",
    "gen",
    "new",
    "this",
    "template",
    "and",
    "not",
    "xor",
    "public",
    "operator",
    "nullptr",
    "EOF",
    "EXIT_SUCCESS",
    "BUFSIZ",
    "errno",
    "assert",
    "stdin",
    "linux",
    "unix",
    "size_t",
    "uint8_t",
    "int32_t",
    "uint64_t",
    "offsetof",
    "INFINITY",
    "FLT_MAX",
    "trainc_save",
    "trainc_copy",
    "TRAINC_LAUNCHED",
    "TRAINC_PARALLEL_FOR",
    "trainc_body",
    "trainc_started",
    "trainc_status",
    "memcpy",
    "printf",
    "evaluate",
    "examples",
    "right",
    "best",
    "row",
    "init",
    "save",
    "load",
    "train_step",
    "infer",
    "PREFIX_init",
    "PREFIX_infer",
    "PREFIX_train_step",
    "PREFIX_constants",
    "PREFIX_initial_state",
    "PREFIX_evaluate",
    "PREFIX_evaluate_count",
    "text",
    "globl",
    "section",
    "word",
    "X",
    "x",
    "x_2",
    "X_ELEMENTS",
    "arena_bytes",
    "raw",
    "core",
    "Arena",
    "State",
    "SHAPE",
    "_",
    "__",
    "7",
    "conv2d_i8_2x16x8x8",
    "requantize",
    "a/b",
    "a.b",
    "a_b",
    "a b",
    "A_B",
    "usize",
    "u8",
    "f32",
    "interface",
    "sequence",
];

/// The digits net for 2 classes, its names replaced by those of `next`; from the old ones to the new.
fn renamed(next: &mut dyn FnMut() -> String) -> (Vec<u8>, BTreeMap<String, String>) {
    let spec = ZooSpec { classes: 2, ..ZooSpec::new("digits").expect("in the zoo") };
    let bytes = build(&spec).expect("the zoo builds");
    let mut model = ModelProto::decode(bytes.as_slice()).expect("a model");
    let graph = model.graph.as_mut().expect("a graph");
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let mut rename = |name: &mut String| {
        let new = names.entry(name.clone()).or_insert_with(&mut *next);
        *name = new.clone();
    };
    graph.input.iter_mut().for_each(|value| rename(&mut value.name));
    graph.output.iter_mut().for_each(|value| rename(&mut value.name));
    graph.initializer.iter_mut().for_each(|tensor| rename(&mut tensor.name));
    graph.value_info.clear();
    for node in &mut graph.node {
        node.input.iter_mut().chain(&mut node.output).for_each(&mut rename);
        node.name.clone_from(&node.output[0]);
    }
    (model.encode_to_vec(), names)
}

fn compiled(target: &str, name: &str, bytes: &[u8], algorithm: &str) -> Session {
    let source = ModelSource::Bytes { name: name.to_string(), bytes: bytes.to_vec() };
    let (target, algorithm) = (target.to_string(), algorithm.to_string());
    let config = Config { target, algorithm, batch: Some(2), ..Config::default() };
    Session::new(&source, &config, Entries::TrainAndInfer)
        .unwrap_or_else(|e| panic!("{name}: {e:#}"))
}

/// Runs a tool in a folder; it must succeed and say nothing.
fn quiet(folder: &Path, command: &[&str]) {
    let output = Command::new(command[0])
        .args(&command[1..])
        .current_dir(folder)
        .output()
        .unwrap_or_else(|e| panic!("{}: {e}", command[0]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && said.is_empty(),
        "{command:?} in {}:\n{said}",
        folder.display()
    );
}

const WARNINGS: &[&str] =
    &["-Wall", "-Wextra", "-Werror", "-Wcomment", "-Wtrigraphs", "-trigraphs"];

/// Has every compiler that reads an artifact read it.
fn check(folder: &Path, prefix: &str, target: &dyn Target, session: &Session) {
    let files: Vec<String> = fs::read_dir(folder)
        .expect("the folder")
        .map(|e| e.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    for name in &files {
        let text = fs::read(folder.join(name)).expect("the file");
        let plain = |b: &u8| b.is_ascii_graphic() || matches!(b, b' ' | b'\t' | b'\n');
        let binary = [".o", ".safetensors"].iter().any(|end| name.ends_with(end));
        // Texts that only trainc reads may hold letters of any script.
        let own = name.ends_with(".txt") && !name.starts_with("CMake");
        assert!(binary || own || text.iter().all(plain), "{}/{name}", folder.display());
        assert!(name.bytes().all(|b| b.is_ascii_graphic()), "{name}");
    }
    let header = format!("{prefix}.h");
    let including = format!("#include \"{header}\"\n#include \"{header}\"\n");
    fs::write(folder.join("included.cc"), &including).expect("written");
    fs::write(folder.join("included.c"), &including).expect("written");
    let module = format!("#![no_std]\npub mod module {{ include!(\"{prefix}.rs\"); }}\n");
    fs::write(folder.join("included.rs"), module).expect("written");
    if !is_level(&&target) {
        quiet(
            folder,
            &[
                "rustc",
                "--edition=2024",
                "--crate-type=lib",
                "--emit=metadata",
                "-Dwarnings",
                "included.rs",
                "-o",
                "included.rmeta",
            ],
        );
        let cxx = ["g++", "-std=c++17", "-fsyntax-only"];
        quiet(folder, &[&cxx, WARNINGS, &["included.cc"]].concat());
    }
    let harness = target.harness(session.program()).expect("a harness");
    let harness = harness.expect("every target is run");
    let toolchain = target.toolchain().expect("it is built here");
    let compiler = &toolchain.compilers[0];
    let is_c = |name: &&str| name.ends_with(".c");
    let sources: Vec<&str> = harness.sources.iter().map(String::as_str).collect();
    let linking =
        |a: &&str| !a.starts_with("-Wl,") && !a.starts_with("-fuse-ld") && **a != *"-static";
    let flags: Vec<&str> = compiler.arguments.iter().map(String::as_str).filter(linking).collect();
    let unused = "-Wno-unused-command-line-argument";
    let hexagon = target.description().name.starts_with("hvx");
    for source in sources.iter().copied().filter(is_c).chain(["included.c"]) {
        let mut command = vec![compiler.command.as_str(), "-fsyntax-only", "-DTRAINC_LAUNCH_NAMES"];
        command.extend(&flags);
        command.extend(WARNINGS);
        command.push("-Wno-unused-variable");
        if hexagon {
            // Kernels in assembly take what their loops take.
            command.extend([unused, "-Wno-unused-parameter"]);
        }
        command.push(source);
        quiet(folder, &command);
    }
    for source in sources.iter().copied().filter(|name| name.ends_with(".S")) {
        let mut command = vec![compiler.command.as_str(), "-c", "-o", "assembled.o", unused];
        command.extend(&flags);
        command.extend(WARNINGS);
        command.push(source);
        quiet(folder, &command);
    }
    if files.iter().any(|name| name == "main.c") {
        let mut command = vec![compiler.command.as_str(), "-fsyntax-only"];
        // Without an operating system there is no library for it.
        let hosted = harness.support.is_empty();
        command.extend(flags.iter().filter(|f| !hosted || **f != "-ffreestanding"));
        command.extend(WARNINGS);
        command.push("main.c");
        quiet(folder, &command);
    }
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.join("manifest.json")).expect("a manifest"))
            .expect("JSON");
    let graph = &session.entries[0].float;
    let first = &graph.value(graph.inputs()[0].value).name;
    assert_eq!(manifest["entries"][0]["inputs"][0]["name"].as_str(), Some(first.as_str()));
}

/// Emits a model for targets into folders of their own, and has them read.
fn everywhere<'t>(
    targets: impl IntoIterator<Item = &'t &'static dyn Target>,
    test: &str,
    name: &str,
    bytes: &[u8],
    algorithm: &str,
) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for target in targets {
        let kind = target.description().name;
        let session = compiled(kind, name, bytes, algorithm);
        let program = session.program();
        let has_example = target.example(program).is_ok_and(|example| example.is_some());
        let files = match has_example {
            true => emit::artifact_with_example(&session, &emit::EmitKind::ALL[..5]),
            false => emit::artifact(&session, &emit::EmitKind::ALL[..5]),
        };
        let files = files.unwrap_or_else(|e| panic!("{kind}: {e:#}"));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("names").join(test).join(kind);
        let _ = fs::remove_dir_all(&folder);
        emit::write_folder(&folder, &files).expect("written");
        check(&folder, &names::prefix(name), *target, &session);
        folders.push(folder);
    }
    folders
}

/// Whether it is a level of another target, which prints names by the same code.
fn is_level(target: &&&dyn Target) -> bool {
    target.description().name.contains('+')
}

/// Names with everything in [`HOSTILE`], two of them at a time, all distinct.
#[test]
fn no_name_is_more_than_text() {
    let mut count = 0;
    for algorithm in ["niti", "fp32"] {
        let (bytes, _) = renamed(&mut || {
            let part = |i: usize| HOSTILE[i % HOSTILE.len()].replace('@', MARK);
            count += 1;
            format!("n{}{}", part(2 * count), part(2 * count + 1))
        });
        let name =
            format!("net{}{}", HOSTILE[0].replace('@', MARK), HOSTILE[count % HOSTILE.len()]);
        let targets = TARGETS.iter().filter(|t| algorithm == "niti" || !is_level(t));
        let folders =
            everywhere(targets, &format!("hostile-{algorithm}"), &name, &bytes, algorithm);
        for folder in folders.iter().filter(|f| f.ends_with("c") || f.ends_with("host")) {
            let options = VerifyOptions { steps: 1, extremes: false, ..VerifyOptions::default() };
            let report = verify(folder, &options, &mut |_| {}).expect("verified");
            assert!(report.bit_exact, "{}", folder.display());
        }
    }
    assert!(2 * count > HOSTILE.len(), "{count} names are too few for all");
}

/// All of [`RESERVED`], in as many models as that takes. Levels of one target print names by the same code: all of them are
/// tried in the first round.
#[test]
fn no_name_means_something() {
    let mut left = RESERVED.iter();
    for round in 0.. {
        if left.len() == 0 {
            break;
        }
        let name =
            ["main", "trainc", "Stdint", "crate", "float", "test", "trainc_rt", "m"][round % 8];
        let mut spare = 0;
        let (bytes, _) = renamed(&mut || match left.next() {
            Some(word) => word.replace("PREFIX", &names::prefix(name)),
            None => {
                spare += 1;
                format!("spare{spare}")
            }
        });
        let targets = TARGETS.iter().filter(|t| round == 0 || !is_level(t));
        everywhere(targets, &format!("reserved-{round}"), name, &bytes, "niti");
    }
}

/// A network with batch normalization, additions and strides, from random weights and as a trained one, is read without a warning.
#[test]
fn whole_networks_are_read_without_warnings() {
    let spec = ZooSpec::new("resnet8").expect("in the zoo");
    let bytes = build(&spec).expect("the zoo builds");
    for algorithm in ["niti", "niti-finetune"] {
        let targets = TARGETS.iter().filter(|t| algorithm == "niti" || !is_level(t));
        everywhere(targets, &format!("whole-{algorithm}"), "resnet8", &bytes, algorithm);
    }
}

/// Names that differ stay apart as symbols, in small letters and in capitals.
#[test]
fn distinct_names_are_distinct_symbols() {
    let words = [
        "a/b", "a.b", "a_b", "A_B", "a b", "a*b", "a_b_2", "NULL", "NULL/", "\u{e4}", "\u{f6}",
        "7", "v7",
    ];
    let mut i = 0;
    let (bytes, _) = renamed(&mut || {
        i += 1;
        words.get(i - 1).map_or_else(|| format!("w{i}"), ToString::to_string)
    });
    let session = compiled("c", "net", &bytes, "fp32");
    let program = session.program();
    let interface = trainc_c::interface::Interface::of(program).expect("an interface");
    for function in &interface.functions {
        let mut names: Vec<String> =
            function.parameters.iter().map(|p| p.name.to_lowercase()).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count, "{names:?}");
    }
    let mut buffers: Vec<&str> = program.buffers.iter().map(|b| b.name.as_str()).collect();
    let count = buffers.len();
    buffers.sort_unstable();
    buffers.dedup();
    assert_eq!(buffers.len(), count);
}

/// Every macro that stands for something else in what emitted sources and their examples include, by each target's
/// compiler, is a name that `identifier` does not give.
#[test]
fn macros_are_reserved() {
    let program_of = |target: &str| {
        let (bytes, _) = renamed(&mut {
            let mut i = 0;
            move || {
                i += 1;
                format!("w{i}")
            }
        });
        compiled(target, "net", &bytes, "niti")
    };
    for kind in ["c", "neon", "armv7-neon", "hvx", "opencl", "xpulpv2"] {
        let target = trainc_driver::targets::find(kind).expect("a target");
        let session = program_of(kind);
        let program = session.program();
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("names/macros").join(kind);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        let harness = target.harness(program).expect("a harness").expect("it is run");
        let mut text =
            String::from("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n");
        if harness.support.is_empty() {
            text.push_str("#include <math.h>\n#include <limits.h>\n#include <errno.h>\n#include <inttypes.h>\n");
        }
        for file in target.emit(program).expect("emitted") {
            if file.name.ends_with(".h") && file.name != "net.h" {
                text.push_str(&format!("#include \"{}\"\n", file.name));
                fs::write(folder.join(&file.name), &file.contents).expect("written");
            }
        }
        for (name, text) in &harness.support {
            fs::write(folder.join(name), text).expect("written");
        }
        fs::write(folder.join("all.c"), text).expect("written");
        let toolchain = target.toolchain().expect("it is built here");
        let compiler = &toolchain.compilers[0];
        let hosted = harness.support.is_empty();
        let output = Command::new(&compiler.command)
            .current_dir(&folder)
            // As a user's own sources are compiled, with a compiler's extensions.
            .args(
                compiler
                    .arguments
                    .iter()
                    .filter(|a| *a != "-std=c99" && !(hosted && *a == "-ffreestanding")),
            )
            .args(["-std=gnu11", "-I.", "-E", "-dM", "all.c"])
            .output()
            .expect("the compiler starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut seen = 0;
        for line in text.lines() {
            let name =
                line.strip_prefix("#define ").and_then(|l| l.split(' ').next()).unwrap_or("");
            // Those with arguments mean nothing without a parenthesis.
            if name.starts_with('_') || name.contains('(') || name.is_empty() {
                continue;
            }
            seen += 1;
            assert_ne!(names::identifier(name), name, "{kind}: {line}");
        }
        assert!(seen > 50, "{kind}: {seen} macros");
    }
}
