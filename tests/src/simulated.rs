//! Programs in the simulator of RISC-V.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use trainc_riscv::toolchain::compile;
use trainc_riscv::{Machine, Memory};

/// The folder of C sources of tests and measurements.
pub fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/xpulp")
}

/// The command `riscv-run`, which is built first.
///
/// # Panics
/// If cargo does not build it.
pub fn runner() -> String {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let status = Command::new(cargo)
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
            .args(["build", "--quiet", "--locked", "--release", "-p", "trainc-riscv"])
            .args(["--bin", "riscv-run"])
            .status();
        assert!(status.expect("cargo starts").success(), "riscv-run builds");
        let here = std::env::current_exe().expect("a path");
        let target = here.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
        let target = target.expect("cargo's target folder").join("release/riscv-run");
        target.to_str().expect("text").to_string()
    })
    .clone()
}

/// Compiles sources and runs the program to its end.
///
/// # Panics
/// If it does not compile, traps, or does not exit with 0.
pub fn simulate(sources: &[PathBuf], flags: &[&str], executable: &Path) -> Machine {
    let file = compile(sources, flags, executable).unwrap_or_else(|error| panic!("{error}"));
    let mut machine = Machine::new(Memory::default());
    machine.load(&std::fs::read(file).expect("the executable")).expect("loads");
    let exit = machine.run(u64::MAX).unwrap_or_else(|trap| panic!("{trap}"));
    assert_eq!(exit.code, 0);
    machine
}
