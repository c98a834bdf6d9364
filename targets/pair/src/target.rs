//! The target as the compiler sees it.

use trainc_c::{Dialect, Facts, Language, SupportFile};
use trainc_ir::Verified;
use trainc_ir::batch_split::Splitting;
use trainc_ir::harness::{Harness, SharedWindow, Timing, Tool, Toolchain};
use trainc_ir::implementation::{Cost, Memory, Selection, Signature};
use trainc_ir::names;
use trainc_ir::program::Program;
use trainc_ir::target::{ArtifactFile, EmitError, Target, TargetDescription};

use crate::documents;
use crate::emission::{self, PROCESS, SERVICES};
use crate::kernel::{Both, SWITCH};
use crate::machines::Machines;
use crate::segments;

const NAME: &str = "neon+hvx";
/// Bytes: of HVX vectors.
const ALIGNMENT: usize = 128;

/// A processor and a DSP.
#[derive(Debug)]
pub struct PairTarget {
    description: TargetDescription,
    machines: Machines,
}

/// AArch64 with NEON, and Hexagon v66 with HVX.
pub static NEON_HVX: PairTarget = PairTarget {
    description: TargetDescription {
        name: NAME,
        summary: "AArch64 with NEON and Hexagon HVX v66 on shared memory: each launch where it costs least",
        alignment: ALIGNMENT,
        vector_bytes: 128,
        cost_unit: "picoseconds",
        devices: &["cpu", "hvx"],
    },
    machines: Machines { cpu: &trainc_neon::NEON, dsp: &trainc_hvx::HVX, alignment: ALIGNMENT },
};

fn refused(message: String) -> EmitError {
    EmitError { target: NAME, message }
}

impl Dialect for PairTarget {
    fn flags(&self) -> &'static [&'static str] {
        self.machines.cpu.flags()
    }

    fn memory(&self, prefix: &str) -> String {
        format!(
            "The state (weights and statistics, set up by {prefix}_init and kept between calls) is the caller's. A call \
             copies it into the memory that {prefix}_connect was given, where both devices work, and back when all has \
             run: a call that fails leaves state and results as they are, and {prefix}_status tells. The arena that a \
             call takes may be NULL. Nothing allocates. One call runs at a time."
        )
    }

    fn services(&self, prefix: &str) -> Vec<(String, String)> {
        let connect = "Names the memory that both devices share, and the function that has the other one run a segment: 0, or a \
                       status of trainc_pair.h, after which calls do nothing until this one names another. Before the \
                       first call of an entry; NULL ends the connection.";
        let status = "TRAINC_PAIR_OK if the last call of an entry ran, else why it did nothing.";
        let bytes = "Bytes of the shared memory, which is aligned to 128 bytes.";
        let declarations = [
            format!(
                "void {prefix}_{}(void *window, int (*run)(void *context, uint32_t segment), void *context)",
                SERVICES[0]
            ),
            format!("int {prefix}_{}(void)", SERVICES[1]),
            format!("size_t {prefix}_{}(void)", SERVICES[2]),
            format!(
                "void {prefix}_{}(int (*start)(void *context, uint32_t segment), int (*join)(void *context, uint32_t segment))",
                SERVICES[3]
            ),
        ];
        let overlap = "After a connection, names functions that have the other device start with a segment, and wait for one that \
                       was started: where launches share no memory both devices then run at a time. Both see what the \
                       other writes meanwhile, in lines of 128 bytes. NULL: one after the other.";
        [connect, status, bytes, overlap].map(String::from).into_iter().zip(declarations).collect()
    }

    fn language(&self) -> Language {
        self.machines.cpu.language()
    }

    fn readme(&self, _facts: &Facts<'_>) -> Option<String> {
        None
    }

    fn support(&self) -> Vec<SupportFile> {
        self.machines.cpu.support()
    }
}

impl Target for PairTarget {
    fn description(&self) -> &TargetDescription {
        &self.description
    }

    fn address_bits(&self) -> u32 {
        self.machines.dsp.address_bits()
    }

    /// Arguments lie in the window, as aligned as all else.
    fn select(&self, signature: &Signature<'_>) -> Selection {
        let signature = Signature { memory: Memory::Program, ..*signature };
        let (cpu, dsp) =
            (self.machines.cpu.select(&signature), self.machines.dsp.select(&signature));
        Selection::new(Both::new(cpu, dsp))
    }

    fn select_split(&self, signature: &Signature<'_>, splitting: &Splitting) -> Selection {
        let signature = Signature { memory: Memory::Program, ..*signature };
        let cpu = self.machines.cpu.select_split(&signature, splitting);
        let dsp = self.machines.dsp.select_split(&signature, splitting);
        let splits = [&cpu, &dsp].iter().flat_map(|own| own.splits.clone()).collect();
        Selection::new(Both::new(cpu, dsp)).with_splits(splits)
    }

    fn switch_cost(&self) -> Option<Cost> {
        Some(Cost::new(SWITCH))
    }

    fn emit(&self, program: &Verified<Program>) -> Result<Vec<ArtifactFile>, EmitError> {
        emission::emit(program, &self.machines, self).map_err(refused)
    }

    fn compiler_flags(&self) -> Option<Vec<&'static str>> {
        self.machines.cpu.compiler_flags()
    }

    /// The processor's, with the DSP's packages.
    fn toolchain(&self) -> Option<Toolchain> {
        let mut toolchain = self.machines.cpu.toolchain()?;
        for compiler in &mut toolchain.compilers {
            compiler.packages = "gcc-aarch64-linux-gnu libc6-dev-arm64-cross clang-19 lld-19";
        }
        Some(toolchain)
    }

    fn harness(&self, program: &Verified<Program>) -> Result<Option<Harness>, EmitError> {
        let mut harness = trainc_c::harness(program, self).map_err(refused)?;
        let prefix = names::prefix(&program.name);
        harness.sources.push(PROCESS[1].0.to_string());
        harness.support.push(("connect.c".into(), emission::connect(&prefix)));
        let window = segments::window(program, self.machines.alignment);
        harness.window = Some(SharedWindow {
            arena: window.arena,
            state: window.state,
            arguments: window.arguments,
        });
        Ok(Some(harness))
    }

    fn timing(&self) -> Option<Timing> {
        Some(emission::TIMING)
    }

    fn partner(
        &self,
        program: &Verified<Program>,
    ) -> Result<Option<(Toolchain, Harness)>, EmitError> {
        let Some(mut toolchain) = self.machines.dsp.toolchain() else { return Ok(None) };
        let memory = "-DTRAINC_PROVIDE_MEMORY_FUNCTIONS".to_string();
        toolchain
            .compilers
            .iter_mut()
            .for_each(|tool: &mut Tool| tool.arguments.push(memory.clone()));
        // Its own marks, which take no library.
        if let Some(counting) = &mut toolchain.counting {
            counting.support = &emission::PARTNER_MARKS;
        }
        let prefix = names::prefix(&program.name);
        let names = emission::emit(program, &self.machines, self)
            .map_err(refused)?
            .into_iter()
            .map(|f| f.name);
        let own = |name: &String| {
            (name.starts_with(&format!("{prefix}_dsp"))
                && (name.ends_with(".c") || name.ends_with(".S")))
                || name == "trainc_rt.c"
                || name == "trainc_hvx_rt.S"
                || name == trainc_hvx::RESIDENT
        };
        let sources = names.filter(own).filter(|name| !name.ends_with("_imp.c")).collect();
        Ok(Some((
            toolchain,
            Harness {
                header: String::new(),
                sources,
                support: vec![emission::partner_watched()],
                init: String::new(),
                checkpoints: None,
                functions: Vec::new(),
                hooks: true,
                window: None,
            },
        )))
    }

    fn example(&self, program: &Verified<Program>) -> Result<Option<ArtifactFile>, EmitError> {
        let file = trainc_c::example(program).map_err(refused)?;
        let text = String::from_utf8_lossy(&file.contents).into_owned();
        let text = documents::connected(&text, &names::prefix(&program.name)).map_err(refused)?;
        Ok(Some(ArtifactFile { contents: text.into_bytes(), ..file }))
    }
}
