//! Two machines that train one network: a processor's process and a DSP's under their emulators, on shared memory. Their
//! kernels are proved where their targets are; here is what is between them.

use std::path::{Path, PathBuf};
use std::process::Command;

use trainc_driver::config::Config;
use trainc_driver::emit::{self, EmitKind, Texts};
use trainc_driver::inspect::summary;
use trainc_driver::model::ModelSource;
use trainc_driver::session::{Entries, Session};
use trainc_driver::targets;
use trainc_driver::timeline::Placed;
use trainc_driver::verify::{VerifyOptions, verify};
use trainc_driver::zoo::{ZooSpec, build};
use trainc_ir::harness::{Harness, Runner, Toolchain};
use trainc_ir::program::{DeviceId, Entry, Kernel, Program, Region, Step};
use trainc_ir::program_interpreter::ProgramInterpreter;
use trainc_ir::target::{Cost, Target};
use trainc_ir::tensor_bytes::tensor_bytes;
use trainc_ir::{RunContext, Tensor};
use trainc_opt::plan::devices::assign_program;
use trainc_tests::programs::{self, operand};
use trainc_tests::random::Random;

const SEED: u64 = 5;

fn target() -> &'static dyn Target {
    targets::find("neon+hvx").expect("a target")
}

/// What a launch of a kernel costs on a device: every other kernel is faster on the other one, so that they take turns, more
/// often than costs of machines would have them.
fn drawn(kernel: &str, device: DeviceId) -> u64 {
    let sum: usize = kernel.bytes().map(usize::from).sum();
    1 + ((sum + device.0) % 2) as u64
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pair").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// The segments of an entry: the device of each.
fn segments(entry: &Entry) -> Vec<DeviceId> {
    let launches = entry.steps.iter().filter_map(|step| match step {
        Step::Launch(launch) => Some(launch.device),
        Step::Branch { .. } => None,
    });
    let mut devices: Vec<DeviceId> = launches.collect();
    devices.dedup();
    devices
}

fn operands(program: &Program, entry: &Entry, random: &mut Random) -> Vec<Tensor> {
    let of = entry.inputs.iter();
    of.map(|a| operand(&program.buffer(a.buffer).ty, a.role, 10, random)).collect()
}

/// LeNet-5, divided by a file of latencies that make the devices take turns.
#[test]
fn ten_steps_by_two_processes() {
    let folder = folder("lenet5");
    let bytes = build(&ZooSpec::new("lenet5").expect("in the zoo")).expect("the zoo builds");
    let source = ModelSource::Bytes { name: "lenet5".to_string(), bytes };
    let mut config = Config { target: "neon+hvx".into(), batch: Some(3), ..Config::default() };
    let session = |config: &Config| Session::new(&source, config, Entries::TrainAndInfer);
    let estimated = session(&config).expect("compiles");
    // Launches take less than a switch.
    for entry in &estimated.program().entries {
        assert_eq!(segments(entry), [DeviceId(0)], "{}", entry.name);
    }
    let text = estimated.text(EmitKind::Latencies, false).expect("has devices").expect("planned");
    let mut kernel = "";
    let mut latencies = String::new();
    for line in text.lines() {
        kernel = line.strip_prefix("[kernels.").map_or(kernel, |rest| rest.trim_end_matches(']'));
        latencies.push_str(&match line.split_once(" = ") {
            Some(("switch", _)) => "switch = 0.0".to_string(),
            Some((name @ "cpu", _)) => format!("{name} = {}.0", drawn(kernel, DeviceId(0))),
            Some((name, _)) => format!("{name} = {}.0", drawn(kernel, DeviceId(1))),
            None => line.to_string(),
        });
        latencies.push('\n');
    }
    let path = folder.join("latencies.toml");
    std::fs::write(&path, latencies).expect("written");
    config.latencies = Some(path);
    let session = session(&config).expect("compiles");
    for (entry, least) in session.program().entries.iter().zip([9, 3]) {
        let devices = segments(entry);
        assert!(devices.len() >= least, "{}: {devices:?}", entry.name);
    }
    let picture = session.text(EmitKind::Timeline, false).expect("a picture").expect("planned");
    let launches: usize = session.program().entries.iter().map(|e| e.steps.len()).sum();
    assert_eq!(picture.matches("<title>").count(), launches);

    let artifact = folder.join("artifact");
    let files = emit::artifact(&session, &[]).expect("emits");
    emit::write_folder(&artifact, &files).expect("written");
    let options =
        VerifyOptions { steps: 10, extremes: false, seed: SEED, ..VerifyOptions::default() };
    let report = verify(&artifact, &options, &mut |_| {}).expect("runs");
    assert!(report.finding.is_none() && report.elements > 0, "{:?}", report.finding);

    // Launch by launch on both sides; a wrong one of the DSP is found.
    let options = VerifyOptions { steps: 1, launches: true, ..options };
    let watched = verify(&artifact, &options, &mut |_| {}).expect("runs");
    assert!(watched.finding.is_none(), "{:?}", watched.finding);
    let whole = report.elements / 10;
    assert!(watched.elements > whole, "{} and {whole}", watched.elements);
    let source = artifact.join("lenet5_dsp.c");
    let text = std::fs::read_to_string(&source).expect("written");
    // A bit of each byte that the DSP's first launch wrote.
    let at = text.find("TRAINC_LAUNCHED(").expect("a launch");
    let launch = text[at..].split(", ").nth(2).expect("a number").to_string();
    let Step::Launch(first) =
        &session.program().entries[0].steps[launch.parse::<usize>().expect("a number")]
    else {
        panic!("a launch");
    };
    let result = session.program().buffer(first.outputs[0]);
    assert_eq!(result.region, Region::Arena);
    let (from, count) = (arena(&text) + result.offset, result.ty.count());
    let flip = format!("for (int i = 0; i < {count}; i++) {{ window[{from} + i] ^= 16; }}\n    ");
    std::fs::write(&source, format!("{}{flip}{}", &text[..at], &text[at..])).expect("written");
    let options = VerifyOptions { launches: false, ..options };
    let report = verify(&artifact, &options, &mut |_| {}).expect("runs");
    let found = report.finding.expect("a wrong bit").launch.expect("the launch");
    assert_eq!((found.launch.to_string(), found.node), (launch, first.name.clone()));
}

/// A net with branches, where a switch costs nothing: both devices run at a time where launches share no memory, as the
/// timeline says, and every bit is the interpreter's.
#[test]
fn both_devices_at_a_time() {
    let folder = folder("beside");
    let bytes = build(&ZooSpec::new("residual").expect("in the zoo")).expect("the zoo builds");
    let source = ModelSource::Bytes { name: "residual".to_string(), bytes };
    std::fs::write(folder.join("times.toml"), "switch = 0.0\n").expect("written");
    let config = Config {
        target: "neon+hvx".into(),
        batch: Some(1),
        latencies: Some(folder.join("times.toml")),
        ..Config::default()
    };
    let session = Session::new(&source, &config, Entries::TrainAndInfer).expect("compiles");
    let timeline = summary(&session).timelines.remove(0);
    assert!(timeline.beside >= 10, "{}", timeline.beside);
    // It ends earlier than the launches' times one after the other.
    let own = |launch: &Placed| launch.microseconds[launch.device].expect("it runs there");
    let sum: f64 = timeline.launches.iter().map(own).sum();
    assert!(timeline.microseconds < 0.99 * sum, "{} of {sum}", timeline.microseconds);
    // Launches of one device never overlap in it.
    for device in 0..timeline.devices.len() {
        let mut of = timeline.launches.iter().filter(|launch| launch.device == device);
        let mut last = of.next().expect("both run something");
        for launch in of {
            assert!(launch.start + 1e-9 >= last.start + own(last), "{}", launch.node);
            last = launch;
        }
    }
    let artifact = folder.join("artifact");
    emit::write_folder(&artifact, &emit::artifact(&session, &[]).expect("emits")).expect("written");
    let text = std::fs::read_to_string(artifact.join("residual.c")).expect("written");
    assert!(text.contains("if (residual_join("), "nothing waits later");
    let options =
        VerifyOptions { steps: 6, extremes: true, seed: SEED, ..VerifyOptions::default() };
    let report = verify(&artifact, &options, &mut |_| {}).expect("runs");
    assert!(report.finding.is_none(), "{:?}", report.finding);
}

/// Where the arena begins in the window: what hooks are told.
fn arena(text: &str) -> usize {
    let rest = &text[text.find("TRAINC_ENTERED(window + ").expect("a segment")..];
    let number = rest.trim_start_matches("TRAINC_ENTERED(window + ");
    number[..number.find(',').expect("more")].parse().expect("a number")
}

/// The example trains on both, and says what it says on one machine.
#[test]
fn the_example_runs_on_both() {
    let mut said = Vec::new();
    for name in ["neon+hvx", "neon"] {
        let folder = folder(&format!("example-{}", name.replace('+', "-")));
        let bytes = build(&ZooSpec::new("digits").expect("in the zoo")).expect("the zoo builds");
        let source = ModelSource::Bytes { name: "digits".to_string(), bytes };
        let mut config = Config {
            target: name.into(),
            batch: Some(4),
            infer_batch: Some(2),
            ..Config::default()
        };
        if name != "neon" {
            // All on the DSP.
            std::fs::write(folder.join("times.toml"), "switch = 0.0\n").expect("written");
            config.latencies = Some(folder.join("times.toml"));
        }
        let session = Session::new(&source, &config, Entries::TrainAndInfer).expect("compiles");
        let artifact = folder.join("artifact");
        let files = emit::artifact_with_example(&session, &[]).expect("emits");
        emit::write_folder(&artifact, &files).expect("written");
        let target = session.target;
        let harness = target.harness(session.program()).expect("emits").expect("a harness");
        let own = (target.toolchain().expect("tools"), harness);
        built(&artifact, "example", &own, &["main.c", "-Wall", "-Wextra", "-Werror"]);
        if let Some(partner) = target.partner(session.program()).expect("emits") {
            assert!(session.program().entries.iter().any(|e| segments(e).contains(&DeviceId(1))));
            // With every hook of Hexagon.
            std::fs::write(artifact.join("hooks.h"), include_str!("../src/hvx_hooks/hooks.h"))
                .expect("written");
            built(&artifact, "partner", &partner, &["-include", "hooks.h"]);
        }
        let mut command = emulator(&own.0);
        command.push("./example".into());
        let text = String::from_utf8(run(&artifact, &command)).expect("text");
        // Places of the state are aligned in other ways, so that checkpoints have other sizes.
        let lines = text.lines().filter(|line| !line.starts_with("checkpoint of"));
        said.push(lines.collect::<Vec<_>>().join("\n"));
    }
    assert!(said[0].contains("after training"), "{}", said[0]);
    assert_eq!(said[0], said[1]);
}

/// What a command prints; it must succeed.
fn run(folder: &Path, command: &[String]) -> Vec<u8> {
    let output = Command::new(&command[0]).current_dir(folder).args(&command[1..]).output();
    let output = output.unwrap_or_else(|e| panic!("{}: {e}", command[0]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} in {}:\n{said}", folder.display());
    output.stdout
}

/// Builds an executable of an artifact's sources and others.
fn built(folder: &Path, name: &str, (toolchain, harness): &(Toolchain, Harness), more: &[&str]) {
    let tool = &toolchain.compilers[0];
    let sources = harness.sources.iter().map(String::as_str).chain(more.iter().copied());
    let words = ["-Wno-unused-command-line-argument", "-I.", "-o", name];
    let own = tool.arguments.iter().map(String::as_str);
    let all = std::iter::once(tool.command.as_str()).chain(own).chain(words).chain(sources);
    run(folder, &all.map(String::from).collect::<Vec<_>>());
}

fn emulator(toolchain: &Toolchain) -> Vec<String> {
    let Runner::Emulator(tools) = &toolchain.runner else { panic!("an emulator") };
    std::iter::once(tools[0].command.clone()).chain(tools[0].arguments.clone()).collect()
}

/// The program around the artifact: the operands of its steps as arrays, for they are few.
fn around(
    program: &Program,
    harness: &Harness,
    steps: &[Vec<Tensor>],
    victims: [usize; 2],
) -> String {
    let entry = &program.entries[0];
    let function = harness.functions.iter().find(|f| f.entry == entry.name).expect("exported");
    let mut text = String::new();
    let mut cases = String::new();
    let results = entry.outputs.iter().map(|a| program.buffer(a.buffer).bytes());
    let results: usize = results.map(|bytes| bytes.next_multiple_of(16)).sum();
    for (step, operands) in steps.iter().enumerate() {
        let mut words = vec!["arena".to_string(), "state".into()];
        if function.random {
            words.extend([format!("UINT64_C({SEED})"), step.to_string()]);
        }
        for (i, tensor) in operands.iter().enumerate() {
            let bytes: Vec<String> = tensor_bytes(tensor).iter().map(u8::to_string).collect();
            let (count, bytes) = (bytes.len(), bytes.join(","));
            text.push_str(&format!(
                "static const unsigned char o{step}_{i}[{count}] __attribute__((aligned(16))) = {{{bytes}}};\n"
            ));
            let address = format!("(const void *)o{step}_{i}");
            words.push(match function.by_value[i] {
                true => format!("*(const int32_t *){address}"),
                false => address,
            });
        }
        let mut at = 0;
        for argument in &entry.outputs {
            words.push(format!("(void *)(results + {at})"));
            at += program.buffer(argument.buffer).bytes().next_multiple_of(16);
        }
        cases.push_str(&format!(
            "    case {step}: {}({}); break;\n",
            function.symbol,
            words.join(", ")
        ));
    }
    let template = include_str!("../src/pair/lost.c");
    template
        .replace("@OPERANDS@", &text)
        .replace("@CASES@", &cases)
        .replace("@RESULTS@", &results.max(1).to_string())
        .replace("@STEPS@", &steps.len().to_string())
        .replace("@KILLED@", &victims[0].to_string())
        .replace("@STALLED@", &victims[1].to_string())
}

/// A DSP that is killed in the middle of a step, one that stops, and one of another program: the call fails in time, and
/// leaves weights and results as they were; with another DSP the training goes on as if nothing had been.
#[test]
fn a_lost_partner_changes_nothing() {
    let program = programs::program("digits", "niti", 3, target());
    let cost = |kernel: &Kernel, device| Cost::new(drawn(&kernel.name, device));
    let program = assign_program(program, &cost, Cost::ZERO).expect("a program");
    let folder = folder("lost_partner");
    for file in target().emit(&program).expect("emits") {
        std::fs::write(folder.join(&file.name), &file.contents).expect("written");
    }
    let partner = target().partner(&program).expect("emits").expect("a partner");
    built(&folder, "partner", &partner, &[]);
    let harness = target().harness(&program).expect("emits").expect("a harness");
    let own = (target().toolchain().expect("tools"), harness);

    let mut random = Random(2);
    let steps: Vec<Vec<Tensor>> =
        (0..4).map(|_| operands(&program, &program.entries[0], &mut random)).collect();
    // The last segment of the DSP: weights were updated before it.
    let there = segments(&program.entries[0]).iter().filter(|d| d.0 == 1).count();
    let text = around(&program, &own.1, &steps, [there, there / 2 + 1]);
    std::fs::write(folder.join("lost.c"), text).expect("written");
    built(&folder, "lost", &own, &["lost.c"]);
    let mut command = emulator(&own.0);
    command.push("./lost".into());
    command.extend(emulator(&partner.0));
    command.push("./partner".into());
    let found = run(&folder, &command);

    let mut reference = ProgramInterpreter::new(&program);
    let bytes = program.memory.state_bytes;
    assert_eq!(found.len(), steps.len() * bytes);
    for (step, (operands, state)) in steps.iter().zip(found.chunks(bytes)).enumerate() {
        let context = RunContext { seed: SEED, step: step as u32 };
        reference.run("train_step", operands, &context).expect("runs");
        for buffer in program.state() {
            let place = buffer.offset..buffer.offset + buffer.bytes();
            let expected = &reference.state_memory()[place.clone()];
            assert!(state[place] == *expected, "step {step}: `{}` is another", buffer.name);
        }
    }
}
