//! The Hexagon targets as the compiler sees them.

use trainc_ir::harness::{Harness, Toolchain};
use trainc_ir::program::Program;
use trainc_ir::target::{
    ArtifactFile, Cost, EmitError, Target, TargetDescription, loop_scratch_bytes,
};
use trainc_ir::{Op, TensorType, Verified};

use crate::depthwise::DepthwiseProduct;
use crate::machine::Version;
use crate::pools::Pooling;
use crate::products::Product;
use crate::{cost, emission};

/// A Hexagon target.
#[derive(Clone, Debug)]
pub struct HvxTarget {
    description: TargetDescription,
    version: Version,
}

const fn target(version: Version, name: &'static str, summary: &'static str) -> HvxTarget {
    let description = TargetDescription {
        name,
        summary,
        alignment: 128,
        vector_bytes: 128,
        devices: &["hvx", "scalar"],
    };
    HvxTarget { description, version }
}

/// Hexagon v66.
pub static HVX: HvxTarget =
    target(Version::V66, "hvx", "Hexagon HVX v66: assembly in packets, entries in C");
/// Hexagon v62.
pub static V62: HvxTarget = target(Version::V62, "hvx+v62", "the same for Hexagon v62");
/// Hexagon v68.
pub static V68: HvxTarget = target(Version::V68, "hvx+v68", "the same for Hexagon v68");
/// Hexagon v73.
pub static V73: HvxTarget = target(Version::V73, "hvx+v73", "the same for Hexagon v73");

impl HvxTarget {
    /// The version of the architecture.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }
}

impl Target for HvxTarget {
    fn description(&self) -> &TargetDescription {
        &self.description
    }

    fn address_bits(&self) -> u32 {
        32
    }

    fn cost(&self, op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> Cost {
        Cost::new(cost::packets(op, inputs, outputs))
    }

    fn scratch_bytes(&self, op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> usize {
        let loops = loop_scratch_bytes(op, inputs, outputs);
        // Where a product's kernel does not serve after all, its loops do.
        let product = Product::of(op, inputs, outputs).and_then(|p| p.scratch_bytes().ok());
        let depthwise = || DepthwiseProduct::of(op, inputs, outputs)?.scratch_bytes().ok();
        let pool = || Some(Pooling::of(op, inputs, outputs)?.scratch_bytes());
        product.or_else(depthwise).or_else(pool).map_or(loops, |bytes| bytes.max(loops))
    }

    fn toolchain(&self) -> Option<Toolchain> {
        Some(emission::toolchain(self.version))
    }

    fn harness(&self, program: &Verified<Program>) -> Result<Option<Harness>, EmitError> {
        let target = self.description.name;
        let harness = emission::harness(program, self);
        harness.map(Some).map_err(|message| EmitError { target, message })
    }

    fn emit(&self, program: &Verified<Program>) -> Result<Vec<ArtifactFile>, EmitError> {
        let target = self.description.name;
        emission::emit(program, self).map_err(|message| EmitError { target, message })
    }

    fn example(&self, program: &Verified<Program>) -> Result<Option<ArtifactFile>, EmitError> {
        let target = self.description.name;
        let example = trainc_c::bare_example(program);
        example.map(Some).map_err(|message| EmitError { target, message })
    }
}
