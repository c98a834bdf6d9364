//! What a target's artifacts need of this machine to be verified.

use std::io::Write;
use std::process::{Command, Stdio};

use serde::Serialize;
use trainc_ir::harness::{Library, Runner, Tool};
use trainc_ir::target::Target;

use super::tools::installed;

/// See the module documentation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Needs {
    /// Compilers, of which one suffices.
    pub compilers: Vec<String>,
    /// Emulators, of which one suffices.
    pub emulators: Vec<String>,
    /// The simulator that is a part of trainc, in the place of an emulator.
    pub simulator: Option<&'static str>,
    /// Debian packages with the first compiler and the first emulator.
    pub packages: Vec<&'static str>,
    /// Whether this machine has what it takes.
    pub installed: bool,
}

/// What `trainc verify` needs for a target; `None` if its artifacts cannot be run.
pub fn needs(target: &dyn Target) -> Option<Needs> {
    let toolchain = target.toolchain()?;
    let (emulators, simulator) = match &toolchain.runner {
        Runner::Native => (&[][..], None),
        Runner::Emulator(tools) => (&tools[..], None),
        Runner::Simulator(simulator) => (&[][..], Some(simulator.name())),
    };
    let any = |tools: &[Tool]| tools.is_empty() || tools.iter().any(|t| installed(&t.command));
    let names = |tools: &[Tool]| tools.iter().map(|t| t.command.clone()).collect();
    Some(Needs {
        compilers: names(&toolchain.compilers),
        emulators: names(emulators),
        simulator,
        packages: toolchain.packages(),
        installed: any(&toolchain.compilers)
            && any(emulators)
            && toolchain.libraries.iter().all(|library| {
                let compilers = toolchain.compilers.iter().filter(|t| installed(&t.command));
                compilers.take(1).any(|compiler| is_linked(&compiler.command, library))
            }),
    })
}

/// Whether a compiler finds a library and its header.
fn is_linked(compiler: &str, library: &Library) -> bool {
    let mut command = Command::new(compiler);
    command.args(["-x", "c", "-", "-o", "/dev/null", &format!("-l{}", library.name)]);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = child else { return false };
    let source = format!("#include <{}>\nint main(void) {{ return 0; }}\n", library.header);
    let written =
        child.stdin.take().is_some_and(|mut input| input.write_all(source.as_bytes()).is_ok());
    written && child.wait().is_ok_and(|status| status.success())
}

impl std::fmt::Display for Needs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "verified with {}", self.compilers.join(" or "))?;
        if !self.emulators.is_empty() {
            write!(f, " and {}", self.emulators.join(" or "))?;
        }
        if let Some(simulator) = self.simulator {
            write!(f, " and {simulator}")?;
        }
        match self.installed {
            true => f.write_str(": installed"),
            false => write!(f, ": apt-get install {}", self.packages.join(" ")),
        }
    }
}
