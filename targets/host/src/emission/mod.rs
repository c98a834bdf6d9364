//! Artifacts: a relocatable object that needs nothing but itself, its C header, its Rust bindings.

mod header;
mod object;

use trainc_c::interface::{Interface, Passing};
use trainc_c::rust::{self, Services};
use trainc_ir::Verified;
use trainc_ir::harness::{Harness, HarnessFunction};
use trainc_ir::program::Program;
use trainc_ir::target::ArtifactFile;

use crate::memory::ALIGNMENT;
use crate::{HostError, check};

/// The files of a program: `NAME.o`, `NAME.h`, `NAME.rs`.
pub(crate) fn emit(program: &Verified<Program>) -> Result<Vec<ArtifactFile>, HostError> {
    check::check(program)?;
    let interface = interface(program)?;
    let object = object::emit(program, &interface, false)?.bytes;
    let name = &interface.prefix;
    // The object holds its entries and `_init`, not the runtime of emitted C.
    let services = Services { alignment: ALIGNMENT, checkpoints: false, evaluation: false };
    Ok(vec![
        ArtifactFile { name: format!("{name}.o"), contents: object },
        ArtifactFile {
            name: format!("{name}.h"),
            contents: header::header(program, &interface).into_bytes(),
        },
        ArtifactFile {
            name: format!("{name}.rs"),
            contents: rust::module(program, &interface, &services).into_bytes(),
        },
    ])
}

fn interface(program: &Program) -> Result<Interface, HostError> {
    Interface::of(program).map_err(HostError::Unsupported)
}

/// What of the artifact of a program is linked.
pub(crate) fn harness(program: &Program) -> Result<Harness, HostError> {
    let interface = interface(program)?;
    let prefix = &interface.prefix;
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
        sources: vec![format!("{prefix}.o")],
        support: Vec::new(),
        init: format!("{prefix}_init"),
        checkpoints: None,
        functions,
        hooks: false,
        window: None,
    })
}

/// The functions of a program's object, for people to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Listing {
    /// Cranelift's intermediate form.
    Clif,
    /// Machine code as Cranelift selects it.
    Assembly,
}

/// The text of every function of a program's object, in the order of the object.
///
/// # Errors
/// As emission.
pub fn listing(program: &Verified<Program>, form: Listing) -> Result<String, HostError> {
    check::check(program)?;
    let interface = interface(program)?;
    let functions = object::emit(program, &interface, true)?.functions;
    let mut text = String::new();
    for (name, clif, assembly) in functions {
        let body = if form == Listing::Clif { clif } else { assembly };
        text.push_str(&format!("; {name}\n{}\n\n", body.trim_end()));
    }
    Ok(text)
}
