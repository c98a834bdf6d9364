//! The host as the compiler sees it.

use trainc_ir::Verified;
use trainc_ir::harness::{Harness, Runner, Tool, Toolchain};
use trainc_ir::implementation::{Selection, Signature};
use trainc_ir::program::Program;
use trainc_ir::target::{ArtifactFile, EmitError, Target, TargetDescription};

use crate::kernel;
use crate::memory::ALIGNMENT;

const NAME: &str = "host";

/// See [`HOST`].
#[derive(Clone, Debug)]
pub struct HostTarget {
    description: TargetDescription,
}

/// The host target.
pub static HOST: HostTarget = HostTarget {
    description: TargetDescription {
        name: NAME,
        summary: "machine code for this machine, by Cranelift; as an object: a relocatable file with a C header",
        alignment: ALIGNMENT,
        vector_bytes: 64,
        cost_unit: "cycles",
        devices: &["cpu"],
    },
};

impl Target for HostTarget {
    fn description(&self) -> &TargetDescription {
        &self.description
    }

    fn select(&self, signature: &Signature<'_>) -> Selection {
        kernel::select(signature)
    }

    fn emit(&self, program: &Verified<Program>) -> Result<Vec<ArtifactFile>, EmitError> {
        crate::emission::emit(program)
            .map_err(|e| EmitError { target: NAME, message: e.to_string() })
    }

    fn toolchain(&self) -> Option<Toolchain> {
        let compilers = vec![Tool::new("cc", &[], "gcc"), Tool::new("gcc", &[], "gcc")];
        let (runner, libraries) = (Runner::Native, Vec::new());
        Some(Toolchain { compilers, runner, counting: None, libraries })
    }

    fn harness(&self, program: &Verified<Program>) -> Result<Option<Harness>, EmitError> {
        crate::emission::harness(program)
            .map(Some)
            .map_err(|e| EmitError { target: NAME, message: e.to_string() })
    }
}
