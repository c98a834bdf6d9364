//! The host as the compiler sees it.

use trainc_ir::harness::{Harness, Runner, Tool, Toolchain};
use trainc_ir::program::Program;
use trainc_ir::target::{ArtifactFile, Cost, EmitError, Target, TargetDescription};
use trainc_ir::{Op, TensorType, Verified};

use crate::cost;
use crate::memory::ALIGNMENT;
use crate::staging::Staging;

const NAME: &str = "host";

/// See [`HOST`].
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
        devices: &["cpu"],
    },
};

impl Target for HostTarget {
    fn description(&self) -> &TargetDescription {
        &self.description
    }

    fn cost(&self, op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> Cost {
        cost::cycles(op, inputs, outputs).map_or(Cost::INFEASIBLE, Cost::new)
    }

    fn scratch_bytes(&self, op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> usize {
        // One plan serves the program in memory and the object, which has loops only.
        let vector = Staging::vector(op, inputs, outputs).scratch_bytes;
        vector.max(Staging::generic(op, inputs, outputs).scratch_bytes)
    }

    fn emit(&self, program: &Verified<Program>) -> Result<Vec<ArtifactFile>, EmitError> {
        crate::emission::emit(program)
            .map_err(|e| EmitError { target: NAME, message: e.to_string() })
    }

    fn toolchain(&self) -> Option<Toolchain> {
        let compilers = vec![Tool::new("cc", &[], "gcc"), Tool::new("gcc", &[], "gcc")];
        Some(Toolchain { compilers, runner: Runner::Native })
    }

    fn harness(&self, program: &Verified<Program>) -> Result<Option<Harness>, EmitError> {
        crate::emission::harness(program)
            .map(Some)
            .map_err(|e| EmitError { target: NAME, message: e.to_string() })
    }
}
