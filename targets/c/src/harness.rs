//! What `trainc verify` needs to know of emitted C.

use trainc_ir::harness::{CheckpointFunctions, Harness, HarnessFunction, Tool};
use trainc_ir::program::Program;

use crate::dialect::Dialect;
use crate::documents::FLAGS;
use crate::interface::{Interface, Passing};
use crate::program::model_hash;

/// All flags that a dialect's sources need: its own, and those of portable C.
pub fn flags(dialect: &dyn Dialect) -> Vec<&'static str> {
    dialect.flags().iter().copied().chain(FLAGS.split(' ')).collect()
}

/// Compilers with a dialect's flags and those of all artifacts.
pub fn compilers<const N: usize>(dialect: &dyn Dialect, tools: [Tool; N]) -> Vec<Tool> {
    let mut tools = Vec::from(tools);
    for tool in &mut tools {
        tool.arguments.extend(flags(dialect).into_iter().map(String::from));
    }
    tools
}

/// What of the artifact of a program in a dialect is built.
///
/// # Errors
/// What of the program has no form in C.
pub fn harness(program: &Program, dialect: &dyn Dialect) -> Result<Harness, String> {
    let interface = Interface::of(program)?;
    let prefix = &interface.prefix;
    let mut sources = vec![format!("{prefix}.c")];
    if program.memory.constant_bytes + program.memory.state_bytes > 0 {
        sources.push(format!("{prefix}_data.c"));
    }
    sources.push("trainc_rt.c".to_string());
    let support = dialect.support_of(program).into_iter().map(|file| file.name);
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
    Ok(Harness {
        header: format!("{prefix}.h"),
        sources,
        support: Vec::new(),
        init: format!("{prefix}_init"),
        checkpoints: Some(CheckpointFunctions {
            save: format!("{prefix}_save"),
            load: format!("{prefix}_load"),
            model: model_hash(program),
        }),
        functions,
        hooks: true,
        window: None,
    })
}

/// Headers of the few functions of a C library that `trainc verify`'s program calls, for machines without one; their
/// definitions are the target's.
const LIBRARY_HEADERS: [(&str, &str); 3] = [
    ("stdio.h", include_str!("freestanding/stdio.h")),
    ("stdlib.h", include_str!("freestanding/stdlib.h")),
    ("string.h", include_str!("freestanding/string.h")),
];

/// Headers for machines without a C library with files of the target, as [`Harness::support`].
pub fn support(files: &[(&str, &str)]) -> Vec<(String, String)> {
    let all = LIBRARY_HEADERS.iter().chain(files);
    all.map(|(name, text)| (name.to_string(), text.to_string())).collect()
}
