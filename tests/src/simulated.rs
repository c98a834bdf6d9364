//! Programs in the simulator of RISC-V.

use std::path::{Path, PathBuf};

use trainc_riscv::toolchain::compile;
use trainc_riscv::{Machine, Memory};

/// The folder of C sources of tests and measurements.
pub fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/xpulp")
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
