//! Builds programs for this machine with Debian's cross compiler.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The compiler, of Debian's package `gcc-riscv64-unknown-elf`.
pub const COMPILER: &str = "riscv64-unknown-elf-gcc";

/// What the compiler always gets. The PULP instructions are written as `.insn` or `.word`, so the plain architecture
/// does. By
/// version 2.2 of the specification it has control registers; with `_zicsr` the compiler does not find its library.
pub const FLAGS: &[&str] = &[
    "-march=rv32imc",
    "-misa-spec=2.2",
    "-mabi=ilp32",
    "-std=c99",
    "-ffreestanding",
    "-fno-builtin-printf",
    "-nostartfiles",
    "-nostdlib",
    "-static",
    "-Wl,--build-id=none",
    "-Wl,--no-warn-rwx-segments",
];

/// Why a program was not built.
#[derive(Debug)]
pub enum CompileError {
    /// The compiler could not be started.
    Start(std::io::Error),
    /// What the compiler said.
    Failed(String),
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileError::Start(error) => write!(
                f,
                "`{COMPILER}` does not start ({error}); Debian's package gcc-riscv64-unknown-elf has it"
            ),
            CompileError::Failed(said) => write!(f, "{COMPILER} failed:\n{said}"),
        }
    }
}

impl std::error::Error for CompileError {}

/// The folder with start-up code, linker script, memory functions and `host.h`.
pub fn support() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("support")
}

/// Compiles C and assembly sources with start-up code and memory functions to the executable `output`, which is returned.
///
/// # Errors
/// If the compiler is missing or fails.
pub fn compile(
    sources: &[PathBuf],
    flags: &[&str],
    output: &Path,
) -> Result<PathBuf, CompileError> {
    let support = support();
    let run = Command::new(COMPILER)
        .args(FLAGS)
        .arg("-I")
        .arg(&support)
        .args(flags)
        .arg("-T")
        .arg(support.join("link.ld"))
        .arg("-o")
        .arg(output)
        .arg(support.join("start.S"))
        .arg(support.join("memory.c"))
        .args(sources)
        .arg("-lgcc")
        .output()
        .map_err(CompileError::Start)?;
    if run.status.success() {
        Ok(output.to_path_buf())
    } else {
        Err(CompileError::Failed(String::from_utf8_lossy(&run.stderr).into_owned()))
    }
}
