//! The firmware of tests/firmware, built by trainc-build: the weights it learns are those of `trainc train`, where it is
//! built and on AArch64 (under an emulator).

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use trainc_driver::config::Config;
use trainc_driver::data::Dataset;
use trainc_driver::model::ModelSource;
use trainc_driver::session::{Entries, Session};
use trainc_driver::train::Trainer;
use trainc_driver::zoo::{ZooSpec, build};
use trainc_ir::names::identifier;

const EPOCHS: usize = 3;
const SEED: u64 = 7;
const DEVICE: &str = "aarch64-unknown-linux-gnu";

/// What `train EPOCHS SEED` must print, from the host's machine code under the driver.
fn expected() -> String {
    let bytes = build(&ZooSpec::new("digits").expect("a model")).expect("a model");
    let source = ModelSource::Bytes { name: "digits".to_string(), bytes };
    let config = Config { batch: Some(32), seed: SEED, epochs: EPOCHS, ..Config::default() };
    let session = Session::new(&source, &config, Entries::TrainAndInfer);
    let data = Dataset::digits();
    let mut trainer = Trainer::new(session.expect("it compiles"), &data).expect("the data fit");
    while trainer.epoch(&data, &mut |_| {}).expect("an epoch").is_some() {}
    let mut text = String::new();
    for (name, tensor) in trainer.state().expect("the state") {
        let _ = write!(text, "{} {}", identifier(&name), tensor.exponent());
        for element in tensor.as_i8() {
            let _ = write!(text, " {element}");
        }
        text.push('\n');
    }
    text
}

/// Cargo on the firmware, in the workspace's own folders.
fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("firmware"));
    command.args(arguments).args(["-p", "trainc-firmware", "--quiet"]);
    command
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

fn trained(command: &mut Command) -> String {
    let (epochs, seed) = (EPOCHS.to_string(), SEED.to_string());
    output(command.args(["--example", "train", "--", &epochs, &seed]))
}

/// Equal texts, told apart by tensor.
fn same(found: &str, expected: &str) {
    assert_eq!(found.lines().count(), expected.lines().count());
    for (found, expected) in found.lines().zip(expected.lines()) {
        let name = expected.split(' ').next().unwrap_or_default();
        let different = found.split(' ').zip(expected.split(' ')).position(|(a, b)| a != b);
        assert!(found == expected, "`{name}` differs from word {different:?}");
    }
}

#[test]
fn the_weights_are_those_of_the_driver() {
    same(&trained(&mut cargo(&["run"])), &expected());
}

#[test]
fn cross_compiled_it_gives_the_same_weights() {
    const LINKER: &str = "aarch64-linux-gnu-gcc";
    const EMULATOR: &str = "qemu-aarch64";
    let runs = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
    for tool in [LINKER, EMULATOR] {
        if !runs(tool) {
            eprintln!("skipped: there is no `{tool}` on this machine");
            return;
        }
    }
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let library =
        output(Command::new(rustc).args(["--print", "target-libdir", "--target", DEVICE]));
    if !Path::new(library.trim()).is_dir() {
        eprintln!("skipped: no standard library for the device; `rustup target add {DEVICE}`");
        return;
    }
    let device = |arguments: &[&str]| {
        let mut command = cargo(arguments);
        command
            .args(["--target", DEVICE])
            .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER)
            .env(
                "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
                format!("{EMULATOR} -L /usr/aarch64-linux-gnu"),
            );
        command
    };
    let expected = expected();
    same(&trained(&mut device(&["run"])), &expected);
    // Every NEON level, and portable C, on the same machine.
    for target in ["c", "neon+dotprod", "neon+i8mm"] {
        same(&trained(device(&["run"]).env("TRAINC_TARGET", target)), &expected);
    }
    // Its own tests pass on the device, too.
    let tests = output(&mut device(&["test"]));
    assert!(tests.contains("test result: ok. 4 passed"), "{tests}");
}
