//! What `trainc verify` needs to know of emitted C.

use trainc_ir::harness::{Harness, HarnessFunction, Tool};
use trainc_ir::program::Program;

use crate::dialect::Dialect;
use crate::documents::FLAGS;
use crate::interface::{Interface, Passing};

/// How the artifact of a program in a dialect is built and run: the compilers, to which the flags of artifacts are
/// added, and the emulators (none for this machine).
///
/// # Errors
/// What of the program has no form in C.
pub fn harness(
    program: &Program,
    dialect: &dyn Dialect,
    compilers: Vec<Tool>,
    runners: Vec<Tool>,
) -> Result<Harness, String> {
    let interface = Interface::of(program)?;
    let prefix = &interface.prefix;
    let mut sources = vec![format!("{prefix}.c")];
    if program.memory.constant_bytes + program.memory.state_bytes > 0 {
        sources.push(format!("{prefix}_data.c"));
    }
    sources.push("trainc_rt.c".to_string());
    let support = dialect.support().into_iter().map(|file| file.name);
    sources.extend(support.filter(|name| name.ends_with(".c")));
    let functions = interface
        .functions
        .iter()
        .map(|f| HarnessFunction {
            entry: f.entry.clone(),
            symbol: f.symbol.clone(),
            random: f.random,
            by_value: f.parameters.iter().map(|p| p.passing == Passing::Value).collect(),
        })
        .collect();
    let flags = dialect.flags().iter().copied().chain(FLAGS.split(' '));
    let flags: Vec<String> = flags.map(String::from).collect();
    let with_flags = |mut tool: Tool| {
        tool.arguments.extend(flags.iter().cloned());
        tool
    };
    Ok(Harness {
        header: format!("{prefix}.h"),
        sources,
        support: Vec::new(),
        compilers: compilers.into_iter().map(with_flags).collect(),
        runners,
        init: format!("{prefix}_init"),
        functions,
        hooks: true,
    })
}
