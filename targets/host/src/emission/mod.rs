//! Artifacts: a relocatable object, the kernels of products that it calls, its C header, its Rust bindings.

mod header;
mod object;

use trainc_c::interface::{Interface, Passing};
use trainc_c::rust::{self, Services};
use trainc_ir::Verified;
use trainc_ir::harness::{Harness, HarnessFunction};
use trainc_ir::program::Program;
use trainc_ir::target::ArtifactFile;

use crate::kernel::HostKernel;
use crate::memory::ALIGNMENT;
use crate::staging::Work;
use crate::{HostError, check};

/// The file of the kernels, the same of every program.
const KERNELS: &str = "trainc_kernels.o";

/// Whether a program's object calls the kernels.
fn uses_kernels(program: &Program) -> Result<bool, HostError> {
    for kernel in &program.kernels {
        let staging = HostKernel::of(kernel)?.vector();
        if staging.stages.iter().any(|stage| matches!(stage.work, Work::Vector(_))) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The files of a program: `NAME.o`, `NAME.h`, `NAME.rs`, and the kernels if it uses them.
pub(crate) fn emit(program: &Verified<Program>) -> Result<Vec<ArtifactFile>, HostError> {
    check::check(program)?;
    let interface = interface(program)?;
    let object = object::emit(program, &interface, false)?;
    let kernels = object
        .uses_kernels
        .then(|| ArtifactFile { name: KERNELS.to_string(), contents: object::KERNELS.to_vec() });
    let name = &interface.prefix;
    // The object holds its entries and `_init`, not the runtime of emitted C.
    let services = Services { alignment: ALIGNMENT, checkpoints: false, evaluation: false };
    let files = [
        ArtifactFile { name: format!("{name}.o"), contents: object.bytes },
        ArtifactFile {
            name: format!("{name}.h"),
            contents: header::header(program, &interface, object.uses_kernels).into_bytes(),
        },
        ArtifactFile {
            name: format!("{name}.rs"),
            contents: rust::module(program, &interface, &services).into_bytes(),
        },
    ];
    Ok(files.into_iter().chain(kernels).collect())
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
        sources: std::iter::once(format!("{prefix}.o"))
            .chain(uses_kernels(program)?.then(|| KERNELS.to_string()))
            .collect(),
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
