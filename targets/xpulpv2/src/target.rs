//! The XpulpV2 target as the compiler sees it.

use trainc_c::batch_split::{Machine, in_place};
use trainc_c::{Dialect, Floats, Language, Loops, SupportFile};
use trainc_ir::Verified;
use trainc_ir::batch_split::{Holds, LocalMemory, Splitting};
use trainc_ir::harness::{Harness, Runner, Tool, Toolchain};
use trainc_ir::implementation::{Selection, Signature, Ways};
use trainc_ir::program::Program;
use trainc_ir::target::{ArtifactFile, EmitError, Target, TargetDescription};

use crate::activations::Activations;
use crate::bits::Bits;
use crate::channels::ChannelKernel;
use crate::elements::Elements;
use crate::losses::Losses;
use crate::mixed::{Mixed, Pool, Sum};
use crate::products::Product;
use crate::simulator;
use crate::updates::Updates;

/// `trainc_xpulp.h`: the instructions as functions.
pub const HEADER: &str = include_str!("support/trainc_xpulp.h");

/// `trainc_xpulp_float.h`: arithmetic of floats, on [`HEADER`].
pub const FLOAT: &str = include_str!("support/trainc_xpulp_float.h");

/// `trainc_xpulp_number.h`: floats taken apart, on [`HEADER`].
pub const NUMBER: &str = include_str!("support/trainc_xpulp_number.h");

/// Products, on [`HEADER`].
const PRODUCTS: &str = include_str!("support/trainc_xpulp_products.h");

/// The rounding of their sums.
const ROUNDING: &str = include_str!("support/trainc_xpulp_rounding.h");

/// Windows that overlap, on the rounding.
const STRIPS: &str = include_str!("support/trainc_xpulp_strips.h");

/// Shifted copies, on the rounding.
const SHIFTED: &str = include_str!("support/trainc_xpulp_shifted.h");

/// Errors of single images, on the rounding.
const ADDED: &str = include_str!("support/trainc_xpulp_added.h");

/// Outer products, on the rounding.
const OUTER: &str = include_str!("support/trainc_xpulp_outer.h");

/// Updates by outer products, on those.
const OUTER_UPDATE: &str = include_str!("support/trainc_xpulp_outer_update.h");

/// Channels by themselves, on the rounding.
const DEPTHWISE: &str = include_str!("support/trainc_xpulp_depthwise.h");

/// Those of larger windows, on those of small ones.
const DEPTHWISE_WIDE: &str = include_str!("support/trainc_xpulp_depthwise_wide.h");

/// Those of taps that lie apart, on those of small windows.
const DEPTHWISE_APART: &str = include_str!("support/trainc_xpulp_depthwise_apart.h");

/// Rounding by chance, on the rounding.
const DITHER: &str = include_str!("support/trainc_xpulp_dither.h");

/// Normalizations of channels, on the elements and the rounding by chance.
const CHANNELS: &str = include_str!("support/trainc_xpulp_channels.h");

/// Element by element, on the floats taken apart.
const ELEMENTS: &str = include_str!("support/trainc_xpulp_elements.h");

/// Losses of classes, on the elements.
const LOSSES: &str = include_str!("support/trainc_xpulp_losses.h");

/// Sums of products on their way to activations, on the rounding by chance.
const ACTIVATIONS: &str = include_str!("support/trainc_xpulp_activations.h");

/// Updates of 16-bit parameters, on the rounding by chance.
const UPDATES: &str = include_str!("support/trainc_xpulp_updates.h");

/// Products of bits, on [`HEADER`].
const BITS: &str = include_str!("support/trainc_xpulp_bits.h");

/// Sums of bytes, on the elements.
const SUM: &str = include_str!("support/trainc_xpulp_sum.h");

const NAME: &str = "xpulpv2";

/// Cycles of a KiB from L2 to L1 by a transfer of 8 bytes a cycle. A model.
const REFILL: u64 = 128;

/// Cores that share a memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cluster {
    /// Cores that run rounds of a loop side by side.
    pub cores: usize,
    /// Bytes of the memory that all cores reach in one cycle.
    pub l1_bytes: usize,
}

/// See [`XPULPV2`].
#[derive(Clone, Debug)]
pub struct XpulpTarget {
    description: TargetDescription,
    cluster: Cluster,
}

/// RV32IMC with XpulpV2; the cluster is GAP8's.
pub static XPULPV2: XpulpTarget = XpulpTarget {
    description: TargetDescription {
        name: NAME,
        summary: "C for RISC-V with XpulpV2 (RI5CY, GAP8, CORE-V): packed SIMD, hardware loops",
        // Of working memory; words need 4.
        alignment: 16,
        vector_bytes: 4,
        cost_unit: "cycles",
        devices: &["cluster"],
    },
    cluster: Cluster { cores: 8, l1_bytes: 64 * 1024 },
};

impl XpulpTarget {
    /// What kernels are divided and tiled for.
    #[must_use]
    pub const fn cluster(&self) -> Cluster {
        self.cluster
    }
}

impl Dialect for XpulpTarget {
    fn flags(&self) -> &'static [&'static str] {
        &["-O3", "-march=rv32imc", "-mabi=ilp32", "-DTRAINC_XPULP_INSN"]
    }

    fn hosted(&self) -> bool {
        false
    }

    fn language(&self) -> Language {
        Language {
            name: "C99 with XpulpV2 instructions (`trainc_xpulp.h`)",
            built_with: "GCC or Clang for RV32 (here a stock cross compiler; the PULP compiler needs `-march=rv32imcxpulpv2` \
                 and no `-D`, GCC 14 for CORE-V `-march=rv32imc_xcvsimd_xcvalu_xcvmac` and no `-D`; without \
                 `-DTRAINC_XPULP_INSN` any compiler for a little-endian machine makes portable code)",
            compiler: GCC,
        }
    }

    fn support(&self) -> Vec<SupportFile> {
        [
            ("trainc_xpulp.h", HEADER),
            ("trainc_xpulp_number.h", NUMBER),
            ("trainc_xpulp_products.h", PRODUCTS),
            ("trainc_xpulp_rounding.h", ROUNDING),
            ("trainc_xpulp_strips.h", STRIPS),
            ("trainc_xpulp_shifted.h", SHIFTED),
            ("trainc_xpulp_added.h", ADDED),
            ("trainc_xpulp_outer.h", OUTER),
            ("trainc_xpulp_outer_update.h", OUTER_UPDATE),
            ("trainc_xpulp_depthwise.h", DEPTHWISE),
            ("trainc_xpulp_depthwise_wide.h", DEPTHWISE_WIDE),
            ("trainc_xpulp_depthwise_apart.h", DEPTHWISE_APART),
            ("trainc_xpulp_dither.h", DITHER),
            ("trainc_xpulp_channels.h", CHANNELS),
            ("trainc_xpulp_elements.h", ELEMENTS),
            ("trainc_xpulp_sum.h", SUM),
            ("trainc_xpulp_losses.h", LOSSES),
            ("trainc_xpulp_activations.h", ACTIVATIONS),
            ("trainc_xpulp_updates.h", UPDATES),
            ("trainc_xpulp_bits.h", BITS),
            ("trainc_mixed.h", crate::mixed::HEADER),
        ]
        .map(|(name, text)| SupportFile { name: name.into(), contents: text.into() })
        .into()
    }

    fn floats(&self) -> Option<SupportFile> {
        Some(SupportFile { name: "trainc_xpulp_float.h".into(), contents: FLOAT.into() })
    }
}

impl Target for XpulpTarget {
    fn description(&self) -> &TargetDescription {
        &self.description
    }

    fn address_bits(&self) -> u32 {
        32
    }

    fn select(&self, signature: &Signature<'_>) -> Selection {
        let mut ways = Ways::default();
        if let Some(product) = ways.ask(Product::NAME, Product::of(signature)) {
            return trainc_c::take(ways, product);
        }
        if let Some(mixed) = ways.ask(Mixed::NAME, Mixed::of(signature)) {
            return trainc_c::take(ways, mixed);
        }
        if let Some(pool) = ways.ask(Pool::NAME, Pool::of(signature)) {
            return trainc_c::take(ways, pool);
        }
        if let Some(sum) = ways.ask(Sum::NAME, Sum::of(signature)) {
            return trainc_c::take(ways, sum);
        }
        if let Some(bits) = ways.ask(Bits::NAME, Bits::of(signature)) {
            return trainc_c::take(ways, bits);
        }
        if let Some(channels) = ways.ask(ChannelKernel::NAME, ChannelKernel::of(signature)) {
            return trainc_c::take(ways, channels);
        }
        if let Some(activations) = ways.ask(Activations::NAME, Activations::of(signature)) {
            return trainc_c::take(ways, activations);
        }
        if let Some(updates) = ways.ask(Updates::NAME, Updates::of(signature)) {
            return trainc_c::take(ways, updates);
        }
        if let Some(elements) = ways.ask(Elements::NAME, Elements::of(signature)) {
            return trainc_c::take(ways, elements);
        }
        if let Some(losses) = ways.ask(Losses::NAME, Losses::of(signature)) {
            return trainc_c::take(ways, losses);
        }
        trainc_c::take(ways, Loops::with(signature, Floats::Software))
    }

    fn select_split(&self, signature: &Signature<'_>, splitting: &Splitting) -> Selection {
        let machine = Machine {
            description: &self.description,
            local: self.local_memory(),
            select: &|signature| self.select(signature),
            working_memory: in_place,
        };
        machine.select(signature, splitting)
    }

    fn updates_in_products(&self) -> bool {
        true
    }

    fn local_memory(&self) -> Option<LocalMemory> {
        Some(LocalMemory {
            name: "L1",
            bytes: self.cluster.l1_bytes,
            holds: Holds::Everything,
            refill: REFILL,
        })
    }

    fn emit(&self, program: &Verified<Program>) -> Result<Vec<ArtifactFile>, EmitError> {
        trainc_c::emit(program, self).map_err(|message| EmitError { target: NAME, message })
    }

    fn compiler_flags(&self) -> Option<Vec<&'static str>> {
        Some(trainc_c::flags(self))
    }

    fn toolchain(&self) -> Option<Toolchain> {
        let gcc = Tool::new(GCC, simulator::LINKING, "gcc-riscv64-unknown-elf");
        let runner = Runner::Simulator(&simulator::RI5CY);
        let compilers = trainc_c::compilers(self, [gcc]);
        Some(Toolchain { compilers, runner, counting: None, libraries: Vec::new() })
    }

    fn harness(&self, program: &Verified<Program>) -> Result<Option<Harness>, EmitError> {
        let mut harness = trainc_c::harness(program, self)
            .map_err(|message| EmitError { target: NAME, message })?;
        harness.support = simulator::support();
        Ok(Some(harness))
    }

    fn example(&self, program: &Verified<Program>) -> Result<Option<ArtifactFile>, EmitError> {
        let refused = |message| EmitError { target: NAME, message };
        trainc_c::bare_example(program).map(Some).map_err(refused)
    }
}

const GCC: &str = "riscv64-unknown-elf-gcc";
