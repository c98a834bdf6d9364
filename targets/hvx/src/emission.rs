//! A program as the files of an artifact: entries, data and checkpoints in C, kernels in assembly.

use trainc_c::{Dialect, Facts, Piece, SupportFile};
use trainc_ir::Verified;
use trainc_ir::harness::{Counting, Harness, Runner, Tool, Toolchain};
use trainc_ir::names;
use trainc_ir::program::{Kernel, Program};
use trainc_ir::target::ArtifactFile;

use crate::glue::{KERNELS, ROUTINES, assembly};
use crate::machine::Version;
use crate::select::Routine;
use crate::target::HvxTarget;
use crate::{bands, documents, fastrpc, groups, slices};

/// Name of the file with the routines that kernels call.
pub(crate) const RUNTIME: &str = "trainc_hvx_rt.S";

/// What devices may do.
const HOOKS: &str = include_str!("support/trainc_hvx_hooks.h");
/// Marks; with `-DTHREADS=4`, ranges on so many hardware threads, as a model.
const HOOKS_OF_COUNTING: &str = concat!(
    include_str!("../../c/src/counting/hooks.h"),
    "\n",
    include_str!("emulation/threads.h")
);
/// What keeps packed constants.
pub const RESIDENT: &str = "trainc_hvx_resident.c";
/// Bytes of a row that is fetched, and the fewest that are.
const ROW: usize = 128;
const FETCHED: usize = 1024;

/// Working memory that a hook may place elsewhere.
pub(crate) fn working_memory(place: &str, bytes: usize) -> String {
    format!("TRAINC_HVX_WORKING({place}, {bytes})")
}

/// The files of a program.
pub(crate) fn emit(
    program: &Verified<Program>,
    target: &HvxTarget,
) -> Result<Vec<ArtifactFile>, String> {
    let (mut files, pieces) = trainc_c::emit_with_pieces(program, target)?;
    let prefix = names::prefix(&program.name);
    let version = target.version();
    let has_data = files.iter().any(|file| file.name == format!("{prefix}_data.c"));
    let mut add = |name: String, text: String| {
        files.retain(|file| file.name != name);
        files.push(ArtifactFile { name, contents: text.into_bytes() });
    };
    for (name, text) in assembly_files(&prefix, &pieces, version)? {
        add(name, text);
    }
    for (name, text) in fastrpc::files(program, &harness(program, target)?, &prefix, version) {
        add(name, text);
    }
    add("CMakeLists.txt".into(), documents::cmake(&prefix, has_data, version));
    Ok(files)
}

/// The files of assembly of a program's C: names and contents. The second has the routines that the kernels call.
///
/// # Errors
/// Of the machine layer.
pub fn assembly_files(
    prefix: &str,
    pieces: &[Piece],
    version: Version,
) -> Result<[(String, String); 2], String> {
    let mut kernels = documents::head(&format!("{prefix}: kernels"), version);
    pieces.iter().filter(|p| p.file == KERNELS).for_each(|p| kernels.push_str(&p.text));
    let mut runtime = documents::head("routines that kernels call", version);
    let called = |r: &Routine| pieces.iter().any(|p| p.file == ROUTINES && p.name == r.symbol());
    for routine in Routine::ALL.into_iter().filter(called) {
        let function = routine.function().map_err(|e| e.to_string())?;
        runtime.push_str(&assembly(&function, version)?);
    }
    Ok([(format!("{prefix}_kernels.S"), kernels), (RUNTIME.into(), runtime)])
}

/// What builds an artifact, and the emulator that runs it.
pub(crate) fn toolchain(version: Version) -> Toolchain {
    let machine = documents::machine(version);
    let arguments: Vec<&str> = machine
        .split(' ')
        .chain(["-nostdlib", "-fuse-ld=lld", "-Wno-incompatible-library-redeclaration"])
        .chain(documents::FLAGS.split(' '))
        .collect();
    let packages = "clang-19 lld-19";
    let compilers = ["clang-19", "clang"].map(|c| Tool::new(c, &arguments, packages));
    // An emulator that knows the version by its number, and one that knows v67 alone.
    let emulators = vec![Tool::new("qemu-hexagon", &["-cpu", "v67"], "qemu-user")];
    let counting = Counting {
        unit: "packets",
        model: "executed packets, by the emulator's own counter: a lower bound of cycles, as it models neither caches nor \
                stalls",
        hooks: HOOKS_OF_COUNTING,
        support: &[("counting.c", include_str!("emulation/counting.c"))],
        plugin: None,
    };
    let runner = Runner::Emulator(emulators);
    let (compilers, counting) = (compilers.into(), Some(counting));
    Toolchain { compilers, runner, counting, libraries: Vec::new() }
}

/// What of the artifact of a program is built.
pub(crate) fn harness(program: &Program, target: &HvxTarget) -> Result<Harness, String> {
    let mut harness = trainc_c::harness(program, target)?;
    let prefix = names::prefix(&program.name);
    harness.sources.extend([format!("{prefix}_kernels.S"), RUNTIME.to_string()]);
    harness.support = trainc_c::support(&[EMULATION]);
    Ok(harness)
}

/// The functions of a C library that a program under the emulator calls.
const EMULATION: (&str, &str) = ("emulation.c", include_str!("emulation/emulation.c"));

impl Dialect for HvxTarget {
    fn kernel_name(&self, prefix: &str, kernel: &Kernel) -> String {
        format!("{prefix}_{}", kernel.name)
    }

    fn constants_attribute(&self) -> &'static str {
        "__attribute__((aligned(128)))"
    }

    fn support(&self) -> Vec<SupportFile> {
        [
            ("trainc_hvx_hooks.h", HOOKS),
            ("trainc_hvx_bands.h", bands::HEADER),
            ("trainc_hvx_groups.h", groups::HEADER),
            ("trainc_hvx_slices.h", slices::HEADER),
            (RESIDENT, include_str!("support/trainc_hvx_resident.c")),
        ]
        .map(|(name, contents)| SupportFile { name: name.into(), contents: contents.into() })
        .into()
    }

    fn declarations(&self, program: &Program, constants: Option<&str>) -> Vec<String> {
        let packs = |kernel: &Kernel| trainc_c::in_c(kernel).is_ok_and(|k| k.packed().is_some());
        if !program.kernels.iter().any(packs) {
            return Vec::new();
        }
        let within = constants.map_or("0".into(), |array| {
            format!("trainc_hvx_within(operand, {array}, sizeof {array})")
        });
        vec![String::new(), format!("#define TRAINC_HVX_CONSTANT(operand) {within}")]
    }

    fn around(&self) -> Option<[&'static str; 2]> {
        Some(["TRAINC_HVX_ACQUIRE();", "TRAINC_HVX_RELEASE();"])
    }

    /// In rows of a cache line, as many as the instruction takes.
    fn fetch(&self, address: &str, bytes: usize) -> Option<String> {
        let rows = bytes.div_ceil(ROW).min(usize::from(u16::MAX));
        (bytes >= FETCHED).then(|| format!("TRAINC_L2FETCH({address}, {ROW}, {rows}, {ROW});"))
    }

    fn working_memory(&self, place: String, bytes: usize) -> String {
        working_memory(&place, bytes)
    }

    fn readme(&self, facts: &Facts<'_>) -> Option<String> {
        Some(documents::readme(facts, self.version()))
    }
}
