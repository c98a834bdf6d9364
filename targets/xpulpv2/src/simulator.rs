//! How artifacts run: in this project's simulator of RI5CY, without an operating system.

use trainc_ir::harness::{Counted, Mark, Simulator, Streams};
use trainc_riscv::{Machine, Memory, support};

/// See [`RI5CY`].
#[derive(Debug)]
pub(crate) struct Ri5cy;

/// A core with memory that answers at once, or eight that share each parallel loop, as GAP8's cluster has them.
pub(crate) static RI5CY: Ri5cy = Ri5cy;

impl Simulator for Ri5cy {
    fn name(&self) -> &'static str {
        "trainc's simulator of RI5CY"
    }

    fn model(&self) -> &'static str {
        "one core as RI5CY's RTL times it, with memory that never waits; 8 cores are modelled: a loop takes as long as its \
         slowest core, and 100 cycles for the barrier"
    }

    fn run(&self, executable: &[u8], streams: Streams) -> Result<Vec<Mark>, String> {
        let mut machine = Machine::new(Memory::default());
        machine.set_input(streams.input);
        machine.set_output(streams.output, streams.errors);
        machine.load(executable).map_err(|error| error.to_string())?;
        let exit = machine.run(u64::MAX).map_err(|trap| trap.to_string())?;
        if exit.code != 0 {
            return Err(format!("exit code {}", exit.code));
        }
        let mark = |mark: &trainc_riscv::Mark| Mark {
            label: mark.label,
            instructions: mark.instructions,
            cycles: mark.parallel_cycles,
        };
        Ok(machine.marks.iter().map(mark).collect())
    }

    fn counted(&self) -> &'static [Counted] {
        &[
            Counted { name: "1 core", hooks: HOOKS },
            Counted { name: "8 cores", hooks: CLUSTER_HOOKS },
        ]
    }
}

const HOOKS: &str = include_str!("simulator/hooks.h");
const CLUSTER_HOOKS: &str = concat!("#define CORES 8\n", include_str!("simulator/hooks.h"));

/// A program without an operating system, in the simulator's memory; see the start-up code.
pub(crate) const LINKING: &[&str] = &[
    "-misa-spec=2.2",
    "-nostartfiles",
    "-nolibc",
    "-static",
    "-fno-builtin",
    "-Wl,-Ttext-segment=0x80000000",
    "-Wl,--defsym=__bss_end=_end",
    "-Wl,--defsym=__stack_top=0x84000000",
    "-Wl,--build-id=none",
];

/// Start-up code and a C library of a few functions.
pub(crate) fn support() -> Vec<(String, String)> {
    trainc_c::support(&[
        ("start.S", support::START),
        ("host.h", support::HOST_HEADER),
        ("memory.c", support::MEMORY),
        ("streams.c", include_str!("simulator/streams.c")),
    ])
}
