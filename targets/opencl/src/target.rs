//! The OpenCL target as the compiler sees it.

use trainc_c::{Dialect, Language};
use trainc_ir::Verified;
use trainc_ir::harness::{Harness, Library, Runner, Tool, Toolchain};
use trainc_ir::implementation::{Selection, Signature, Ways};
use trainc_ir::program::Program;
use trainc_ir::target::{ArtifactFile, EmitError, Target, TargetDescription};
use trainc_ir::tuning::Tuning;

use crate::apart::Apart;
use crate::bits::Bits;
use crate::bytes::Bytes;
use crate::documents::{FLAGS, LIBRARY, PACKAGES};
use crate::emission::{DEVICE, emit, tunable};
use crate::kernel::Way;
use crate::loops::Loops;

const NAME: &str = "opencl";

/// See [`OPENCL`].
#[derive(Clone, Debug)]
pub struct OpenClTarget {
    description: TargetDescription,
}

/// OpenCL 1.2, full profile.
pub static OPENCL: OpenClTarget = OpenClTarget {
    description: TargetDescription {
        name: NAME,
        summary: "OpenCL C 1.2 kernels and the C that launches them, for GPUs and whatever else has a driver",
        // Of buffers in the device's memory.
        alignment: 16,
        vector_bytes: 16,
        cost_unit: "cycles",
        devices: &["opencl"],
    },
};

fn refused(message: String) -> EmitError {
    EmitError { target: NAME, message }
}

impl Dialect for OpenClTarget {
    fn flags(&self) -> &'static [&'static str] {
        &FLAGS
    }

    fn language(&self) -> Language {
        Language {
            name: "OpenCL C 1.2 with a C99 host",
            built_with: "any C compiler for a little-endian machine, with OpenCL's headers",
            compiler: "cc",
        }
    }

    fn memory(&self, prefix: &str) -> String {
        format!(
            "The state (weights and statistics, set up by {prefix}_init and kept between calls) is the caller's, and \
             aligned; a call copies it to the device and back. Working memory and kernels are the device's: the first \
             call opens one, {prefix}_open does so ahead. The arena that a call takes serves hooks alone and may be \
             NULL. Calls wait for each other."
        )
    }

    fn services(&self, prefix: &str) -> Vec<(String, String)> {
        let open = "Opens the device, compiles the kernels and takes memory, unless that is done: NULL, or why it \
                    cannot. The first call does so, too, but there a failure ends the program.";
        let close = "Gives the device back, if it is open; the next call opens it again.";
        vec![
            (open.into(), format!("const char *{prefix}_open(void)")),
            (close.into(), format!("void {prefix}_close(void)")),
        ]
    }
}

impl Target for OpenClTarget {
    fn description(&self) -> &TargetDescription {
        &self.description
    }

    fn select(&self, signature: &Signature<'_>) -> Selection {
        let mut ways = Ways::default();
        if let Some(mut bits) = ways.ask(Bits::NAME, Bits::of(signature)) {
            Apart::offer(&mut bits);
            return ways.take(Way::Bits(bits));
        }
        match ways.ask(Bytes::NAME, Bytes::of(signature)) {
            Some(bytes) => ways.take(Way::Bytes(bytes)),
            None => ways.take(Way::Loops(Loops::of(signature))),
        }
    }

    fn emit(&self, program: &Verified<Program>) -> Result<Vec<ArtifactFile>, EmitError> {
        emit(program, self).map_err(refused)
    }

    fn compiler_flags(&self) -> Option<Vec<&'static str>> {
        Some(FLAGS.to_vec())
    }

    fn libraries(&self) -> &'static [&'static str] {
        &[LIBRARY]
    }

    fn toolchain(&self) -> Option<Toolchain> {
        Some(Toolchain {
            compilers: vec![Tool::new("cc", &FLAGS, "gcc"), Tool::new("gcc", &FLAGS, "gcc")],
            runner: Runner::Native,
            counting: None,
            libraries: vec![Library {
                name: LIBRARY,
                header: "CL/cl.h",
                packages: PACKAGES,
                // PoCL compiles into it, and finds no device where it cannot.
                caches: &["POCL_CACHE_DIR"],
            }],
        })
    }

    fn harness(&self, program: &Verified<Program>) -> Result<Option<Harness>, EmitError> {
        let mut harness = trainc_c::harness(program, self).map_err(refused)?;
        let prefix = harness.header.trim_end_matches(".h").to_string();
        harness.sources.extend([format!("{prefix}_kernels.c"), DEVICE[1].to_string()]);
        Ok(Some(harness))
    }

    fn tuning(&self, program: &Verified<Program>) -> Result<Option<Tuning>, EmitError> {
        tunable(program, self).map(Some).map_err(refused)
    }

    fn example(&self, program: &Verified<Program>) -> Result<Option<ArtifactFile>, EmitError> {
        trainc_c::example(program).map(Some).map_err(refused)
    }
}
