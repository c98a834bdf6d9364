//! The NEON targets as the compiler sees them.

use trainc_c::batch_split::{Machine, in_place};
use trainc_c::{Dialect, Language, SupportFile};
use trainc_ir::Verified;
use trainc_ir::batch_split::{Holds, LocalMemory, Splitting};
use trainc_ir::harness::{Harness, Runner, Tool, Toolchain};
use trainc_ir::implementation::{Selection, Signature, Ways};
use trainc_ir::program::Program;
use trainc_ir::target::{ArtifactFile, EmitError, Target, TargetDescription};

use crate::bits::Bits;
use crate::depthwise::Depthwise;
use crate::level::Level;
use crate::lookup::Lookup;
use crate::loops::Loops;
use crate::normalization::Normalization;
use crate::pool::Pool;
use crate::products::{DepthwiseProduct, FloatProduct, Product};
use crate::sum::AlignedSum;

/// A NEON target.
#[derive(Clone, Debug)]
pub struct NeonTarget {
    description: TargetDescription,
    level: Level,
}

const fn target(level: Level, name: &'static str, summary: &'static str) -> NeonTarget {
    let description = TargetDescription {
        name,
        summary,
        alignment: 16,
        vector_bytes: 16,
        cost_unit: "instructions",
        devices: &["cpu"],
    };
    NeonTarget { description, level }
}

/// Any AArch64 processor.
pub static NEON: NeonTarget =
    target(Level::Baseline, "neon", "C with NEON intrinsics for any AArch64 processor");
/// AArch64 with `sdot`.
pub static DOTPROD: NeonTarget =
    target(Level::Dotprod, "neon+dotprod", "the same with sdot: Armv8.2-A with FEAT_DotProd");
/// AArch64 with `smmla`.
pub static I8MM: NeonTarget = target(
    Level::I8mm,
    "neon+i8mm",
    "the same with smmla: Armv8.2-A with FEAT_I8MM and FEAT_DotProd",
);
/// AArch64, by what the processor has.
pub static DISPATCH: NeonTarget = target(
    Level::Dispatch,
    "neon+dispatch",
    "the same with dotprod and i8mm picked at run time (GCC, or Clang from 16 on; Linux)",
);
/// Armv7-A.
pub static ARMV7: NeonTarget =
    target(Level::Armv7, "armv7-neon", "C with NEON intrinsics for Armv7-A");

impl NeonTarget {
    /// What it may use.
    pub fn level(&self) -> Level {
        self.level
    }
}

impl Dialect for NeonTarget {
    fn flags(&self) -> &'static [&'static str] {
        match self.level {
            Level::Armv7 => &["-O3", "-march=armv7-a", "-mfpu=neon", "-mfloat-abi=hard"],
            Level::Baseline | Level::Dispatch => &["-O3"],
            Level::Dotprod => &["-O3", "-march=armv8.2-a+dotprod"],
            Level::I8mm => &["-O3", "-march=armv8.2-a+dotprod+i8mm"],
        }
    }

    fn language(&self) -> Language {
        let (built_with, compiler) = match self.level {
            Level::Armv7 => {
                ("GCC or Clang for Armv7-A (here a cross compiler)", "arm-linux-gnueabihf-gcc")
            }
            Level::Dispatch => {
                ("GCC, or Clang from 16 on, for AArch64 Linux (here a cross compiler)", AARCH64_GCC)
            }
            _ => ("GCC or Clang for AArch64 (here a cross compiler)", AARCH64_GCC),
        };
        Language { name: "C99 with NEON intrinsics", built_with, compiler }
    }

    fn support(&self) -> Vec<SupportFile> {
        let file = |(name, contents): (&str, &str)| SupportFile {
            name: name.into(),
            contents: contents.into(),
        };
        self.level.headers().into_iter().map(file).collect()
    }
}

impl Target for NeonTarget {
    fn description(&self) -> &TargetDescription {
        &self.description
    }

    fn address_bits(&self) -> u32 {
        if self.level == Level::Armv7 { 32 } else { 64 }
    }

    fn select(&self, signature: &Signature<'_>) -> Selection {
        let mut ways = Ways::default();
        if let Some(product) = ways.ask(Product::NAME, Product::of(self.level, signature)) {
            return trainc_c::take(ways, product);
        }
        let float = FloatProduct::of(self.level, signature);
        if let Some(float) = ways.ask(FloatProduct::NAME, float) {
            return trainc_c::take(ways, float);
        }
        if let Some(bits) = ways.ask(Bits::NAME, Bits::of(self.level, signature)) {
            return trainc_c::take(ways, bits);
        }
        let windows = DepthwiseProduct::of(self.level, signature);
        if let Some(windows) = ways.ask(DepthwiseProduct::NAME, windows) {
            return trainc_c::take(ways, windows);
        }
        if let Some(depthwise) = ways.ask(Depthwise::NAME, Depthwise::of(self.level, signature)) {
            return trainc_c::take(ways, depthwise);
        }
        let normalization = Normalization::of(self.level, signature).map(Ok);
        if let Some(normalization) = ways.ask(Normalization::NAME, normalization) {
            return trainc_c::take(ways, normalization);
        }
        let sum = AlignedSum::of(self.level, signature).map(Ok);
        if let Some(sum) = ways.ask(AlignedSum::NAME, sum) {
            return trainc_c::take(ways, sum);
        }
        let lookup = Lookup::of(self.level, signature).map(Ok);
        if let Some(lookup) = ways.ask(Lookup::NAME, lookup) {
            return trainc_c::take(ways, lookup);
        }
        if let Some(pool) = ways.ask(Pool::NAME, Pool::of(signature).map(Ok)) {
            return trainc_c::take(ways, pool);
        }
        trainc_c::take(ways, Loops::of(self.level, signature))
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

    fn local_memory(&self) -> Option<LocalMemory> {
        Some(LocalMemory {
            name: "L1 cache",
            bytes: if self.level == Level::Armv7 { 32 << 10 } else { 64 << 10 },
            holds: Holds::Everything,
            refill: REFILL,
        })
    }

    fn emit(&self, program: &Verified<Program>) -> Result<Vec<ArtifactFile>, EmitError> {
        let target = self.description.name;
        trainc_c::emit(program, self).map_err(|message| EmitError { target, message })
    }

    fn compiler_flags(&self) -> Option<Vec<&'static str>> {
        Some(trainc_c::flags(self))
    }

    fn toolchain(&self) -> Option<Toolchain> {
        let (compiler, packages, emulator, processor) = match self.level {
            Level::Armv7 => (
                "arm-linux-gnueabihf-gcc",
                "gcc-arm-linux-gnueabihf libc6-dev-armhf-cross",
                "qemu-arm",
                "cortex-a9",
            ),
            Level::Baseline => (AARCH64_GCC, AARCH64_PACKAGES, QEMU_AARCH64, "cortex-a53"),
            Level::Dotprod => (AARCH64_GCC, AARCH64_PACKAGES, QEMU_AARCH64, "cortex-a76"),
            Level::I8mm | Level::Dispatch => (AARCH64_GCC, AARCH64_PACKAGES, QEMU_AARCH64, "max"),
        };
        let compilers = trainc_c::compilers(self, [Tool::new(compiler, &["-static"], packages)]);
        let runner = |command: &str, packages| Tool::new(command, &["-cpu", processor], packages);
        let emulators = vec![
            runner(emulator, "qemu-user"),
            runner(&format!("{emulator}-static"), "qemu-user-static"),
        ];
        let counting = trainc_c::counting(vec![emulators[0].clone()]);
        let (runner, counting) = (Runner::Emulator(emulators), Some(counting));
        Some(Toolchain { compilers, runner, counting, libraries: Vec::new() })
    }

    fn harness(&self, program: &Verified<Program>) -> Result<Option<Harness>, EmitError> {
        let target = self.description.name;
        let harness = trainc_c::harness(program, self);
        harness.map(Some).map_err(|message| EmitError { target, message })
    }

    fn example(&self, program: &Verified<Program>) -> Result<Option<ArtifactFile>, EmitError> {
        let target = self.description.name;
        trainc_c::example(program).map(Some).map_err(|message| EmitError { target, message })
    }
}

/// Instructions that pass while a KiB comes from the second level: 16 bytes a cycle, two instructions. A model.
const REFILL: u64 = 128;

const AARCH64_GCC: &str = "aarch64-linux-gnu-gcc";
const AARCH64_PACKAGES: &str = "gcc-aarch64-linux-gnu libc6-dev-arm64-cross";
const QEMU_AARCH64: &str = "qemu-aarch64";
