//! The Hexagon targets as the compiler sees them.

use trainc_c::batch_split::Machine;
use trainc_ir::Verified;
use trainc_ir::batch_split::{Holds, LocalMemory, Splitting};
use trainc_ir::harness::{Harness, Toolchain};
use trainc_ir::implementation::{Memory, Selection, Signature, Ways};
use trainc_ir::program::Program;
use trainc_ir::target::{ArtifactFile, EmitError, Target, TargetDescription};

use crate::channel_lines::LinesOfChannels;
use crate::channel_sums::ChannelFloats;
use crate::depthwise::DepthwiseProduct;
use crate::emission;
use crate::glue::{Glue as _, Tuned};
use crate::groups::GroupedWindows;
use crate::lookup::TableLookup;
use crate::loops::Loops;
use crate::machine::Version;
use crate::pools::Pooling;
use crate::products::Product;
use crate::slices::SlicedProduct;

/// Packets that pass while a KiB comes from memory, at 8 bytes a packet. A model.
const REFILL: u64 = 128;

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
        cost_unit: "packets",
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

/// A kernel that reads and writes whole vectors, unless it would be in memory of less alignment.
fn aligned<T>(
    signature: &Signature<'_>,
    of: impl Fn(&Signature<'_>) -> Option<Result<T, String>>,
) -> Option<Result<T, String>> {
    let found = of(signature)?;
    Some(match signature.memory {
        Memory::Program => found,
        Memory::Caller => found.and(Err("it would touch the caller's memory by vectors".into())),
    })
}

impl Target for HvxTarget {
    fn description(&self) -> &TargetDescription {
        &self.description
    }

    fn address_bits(&self) -> u32 {
        32
    }

    fn select(&self, signature: &Signature<'_>) -> Selection {
        let mut ways = Ways::default();
        let version = self.version;
        if let Some(product) = ways.ask(Product::NAME, aligned(signature, Product::of)) {
            return trainc_c::take(ways, Tuned::new(product, version));
        }
        if let Some(grouped) =
            ways.ask(GroupedWindows::NAME, aligned(signature, GroupedWindows::of))
        {
            return trainc_c::take(ways, Tuned::new(grouped, version));
        }
        let depthwise = aligned(signature, DepthwiseProduct::of);
        if let Some(depthwise) = ways.ask(DepthwiseProduct::NAME, depthwise) {
            return trainc_c::take(ways, Tuned::new(depthwise, version));
        }
        if let Some(sliced) = ways.ask(SlicedProduct::NAME, aligned(signature, SlicedProduct::of)) {
            return trainc_c::take(ways, Tuned::new(sliced, version));
        }
        if let Some(pool) = ways.ask(Pooling::NAME, aligned(signature, Pooling::of)) {
            return trainc_c::take(ways, Tuned::new(pool, version));
        }
        let channels = aligned(signature, ChannelFloats::of);
        if let Some(channels) = ways.ask(ChannelFloats::NAME, channels) {
            return trainc_c::take(ways, Tuned::new(channels, version));
        }
        let lines = aligned(signature, LinesOfChannels::of);
        if let Some(lines) = ways.ask(LinesOfChannels::NAME, lines) {
            return trainc_c::take(ways, Tuned::new(lines, version));
        }
        let lookup = aligned(signature, TableLookup::of);
        if let Some(lookup) = ways.ask(TableLookup::NAME, lookup) {
            return trainc_c::take(ways, Tuned::new(lookup, version));
        }
        trainc_c::take(ways, Loops::of(signature, version))
    }

    fn select_split(&self, signature: &Signature<'_>, splitting: &Splitting) -> Selection {
        let machine = Machine {
            description: &self.description,
            local: self.local_memory(),
            select: &|signature| self.select(signature),
            working_memory: emission::working_memory,
        };
        machine.select(signature, splitting)
    }

    fn local_memory(&self) -> Option<LocalMemory> {
        Some(LocalMemory {
            name: "VTCM",
            bytes: 256 << 10,
            holds: Holds::WorkingMemory,
            refill: REFILL,
        })
    }

    fn updates_in_products(&self) -> bool {
        true
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
