//! How an artifact is built and run on another machine than the user's, so that its results can be compared with the
//! reference: what a target must say of its toolchain and of the functions that it exports.
//!
//! An artifact's functions follow one convention on every target: `void init(void *state)`, and for each entry
//! `void entry(void *arena, void *state[, uint64_t seed, uint32_t step], operands..., results...)`. Operands and results
//! are addresses of bytes as [`crate::tensor_bytes`] lays them out, except those passed by value.

use std::io::{Read, Write};

#[cfg(doc)]
use crate::program::Program;
use crate::program::{Entry, Launch, Step};

/// A command with its first arguments, and the Debian packages that provide it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tool {
    /// Name of the executable, or its path.
    pub command: String,
    /// What always follows it.
    pub arguments: Vec<String>,
    /// Packages, separated by spaces.
    pub packages: &'static str,
}

impl Tool {
    /// A command with its arguments and packages.
    pub fn new(command: &str, arguments: &[&str], packages: &'static str) -> Tool {
        let arguments = arguments.iter().map(ToString::to_string).collect();
        Tool { command: command.to_string(), arguments, packages }
    }
}

/// A library that executables are linked with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Library {
    /// Its name, as `-l` takes it.
    pub name: &'static str,
    /// A header of it, as sources include it.
    pub header: &'static str,
    /// Debian packages with it and what it needs to run, separated by spaces.
    pub packages: &'static str,
    /// Variables of the environment that name folders which it writes: new ones where the user names none.
    pub caches: &'static [&'static str],
}

/// What builds artifacts, and what runs them.
#[derive(Clone, Debug)]
pub struct Toolchain {
    /// Compilers of C that also link; the first that is installed is used.
    pub compilers: Vec<Tool>,
    /// What executables run on.
    pub runner: Runner,
    /// How executed instructions are counted where no [`Simulator`] does, for `trainc bench`.
    pub counting: Option<Counting>,
    /// What executables are linked with beside the C library.
    pub libraries: Vec<Library>,
}

impl Toolchain {
    /// The Debian packages of the first compiler, the first emulator and the libraries.
    pub fn packages(&self) -> Vec<&'static str> {
        let emulators = match &self.runner {
            Runner::Emulator(tools) => &tools[..],
            Runner::Native | Runner::Simulator(_) => &[],
        };
        let mut packages = Vec::new();
        let tools = self.compilers.iter().take(1).chain(emulators.iter().take(1));
        let all = tools.map(|t| t.packages).chain(self.libraries.iter().map(|l| l.packages));
        for package in all.flat_map(str::split_whitespace) {
            if !packages.contains(&package) {
                packages.push(package);
            }
        }
        packages
    }
}

/// What executables run on.
#[derive(Clone, Debug)]
pub enum Runner {
    /// This machine.
    Native,
    /// An emulator, which gets the executable as its last argument; the first that is installed is used.
    Emulator(Vec<Tool>),
    /// A part of trainc.
    Simulator(&'static dyn Simulator),
}

/// A machine that is simulated without another program, and counts what launches cost.
pub trait Simulator: Sync + std::fmt::Debug {
    /// The machine, for people.
    fn name(&self) -> &'static str;

    /// Runs an executable to its end; the counters at each of its marks.
    ///
    /// # Errors
    /// Why it did not end by itself with code 0, in words.
    fn run(&self, executable: &[u8], streams: Streams) -> Result<Vec<Mark>, String>;

    /// What its counts assume, for people.
    fn model(&self) -> &'static str;

    /// The builds whose costs are worth knowing.
    fn counted(&self) -> &'static [Counted] {
        &[]
    }
}

/// What a simulated program reads and writes.
pub struct Streams {
    /// Standard input.
    pub input: Box<dyn Read>,
    /// Standard output.
    pub output: Box<dyn Write>,
    /// Standard error.
    pub errors: Box<dyn Write>,
}

/// A build of an artifact that marks where it is, for the counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counted {
    /// On what it runs: `1 core`.
    pub name: &'static str,
    /// The header that `-DTRAINC_HOOKS` names. When an entry begins it marks [`ENTERED`] and the entry's number, after
    /// a launch the launch's number.
    pub hooks: &'static str,
}

/// How what an emulator executes is counted: the artifact is built with a header of hooks, like [`Counted::hooks`], and the
/// program writes a line `trainc-mark LABEL COUNT` to its standard error at each mark.
#[derive(Clone, Debug)]
pub struct Counting {
    /// What is counted: `packets`.
    pub unit: &'static str,
    /// What the counts mean, for people.
    pub model: &'static str,
    /// The header that `-DTRAINC_HOOKS` names.
    pub hooks: &'static str,
    /// Sources beside the program, by name and contents.
    pub support: &'static [(&'static str, &'static str)],
    /// What makes the emulator count, if the emulated machine has no counter of its own.
    pub plugin: Option<Plugin>,
}

/// A plugin of qemu that counts.
#[derive(Clone, Debug)]
pub struct Plugin {
    /// Its source in C, built as a shared object for this machine.
    pub source: &'static str,
    /// Emulators that take plugins; the first that is installed is used.
    pub emulators: Vec<Tool>,
}

/// Defined in front of a header of hooks for a build without marks inside of entries.
pub const UNMARKED: &str = "#define TRAINC_UNMARKED\n";

/// Bit of the labels of marks around a call of an entry, whose number the other bits are: two before the call (what a mark
/// itself costs lies between them), one after it. The header's macro `TRAINC_COUNTED(label)` makes them.
pub const CALL: u32 = 1 << 30;

/// Bit of the labels of marks at the beginning of entries.
pub const ENTERED: u32 = 1 << 31;

/// The counters from a program's start to a mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// What the program said.
    pub label: u32,
    /// Instructions, of all cores.
    pub instructions: u64,
    /// Cycles.
    pub cycles: u64,
}

/// An exported function of an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HarnessFunction {
    /// The entry's name.
    pub entry: String,
    /// The function's.
    pub symbol: String,
    /// Whether it takes `seed` and `step`.
    pub random: bool,
    /// For each operand, then each result: whether it is passed by value (a scalar of 4 bytes) and not by address.
    pub by_value: Vec<bool>,
}

/// `void save(const void *state, uint64_t step, void *checkpoint)` and
/// `enum trainc_status load(void *state, uint64_t *step, const void *checkpoint, size_t bytes)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointFunctions {
    /// Name of the one that writes a checkpoint: [`CHECKPOINT_HEADER`] bytes, then the state.
    pub save: String,
    /// Name of the one that reads it, and refuses another model's or a damaged one.
    pub load: String,
    /// The model's hash in the checkpoint.
    pub model: u64,
}

/// The variable of the environment with the command of an artifact's second executable, a word a line.
pub const PARTNER: &str = "TRAINC_PARTNER";

/// Bytes of a checkpoint before the state.
pub const CHECKPOINT_HEADER: usize = 32;

/// What is built, around an artifact's files: see the module documentation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Harness {
    /// The artifact's file that declares the functions, in C.
    pub header: String,
    /// The artifact's files that the compiler gets: sources, or objects.
    pub sources: Vec<String>,
    /// Files beside the program that calls the functions, by name and contents: headers of a C library where the
    /// compiler has none, and sources (`.c`, `.S`), which the compiler gets too.
    pub support: Vec<(String, String)>,
    /// Name of the function that sets the state to its value before the first step.
    pub init: String,
    /// What saves and loads the state, where the artifact has it.
    pub checkpoints: Option<CheckpointFunctions>,
    /// A function for each entry that is exported.
    pub functions: Vec<HarnessFunction>,
    /// Whether the sources call `TRAINC_LAUNCHED` of a header that `-DTRAINC_HOOKS` names after each launch of an
    /// entry, counted as [`Program`] lists them: both sides of a branch, one after the other.
    pub hooks: bool,
    /// Where launches work, if that is not in the memory that the functions get.
    pub window: Option<SharedWindow>,
}

/// Memory that two machines share, at the address [`WINDOW`]: offsets in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedWindow {
    /// Of the arena.
    pub arena: usize,
    /// Of the state.
    pub state: usize,
    /// Of the arguments of each entry: operands, then results.
    pub arguments: Vec<Vec<usize>>,
}

/// The variable with the address of a [`SharedWindow`], an `unsigned char *` of one of [`Harness::support`].
pub const WINDOW: &str = "trainc_verify_window";

/// How launches tell their times, for `trainc measure`: artifacts are built with `-DTRAINC_PROFILE` and a header of hooks, and
/// each launch writes a line `trainc-time DEVICE ENTRY LAUNCH NANOSECONDS` to standard error. `trainc-time switch NANOSECONDS`
/// is what going to the other device, or back, takes.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// The header that `-DTRAINC_HOOKS` names.
    pub hooks: &'static str,
    /// Sources beside the program on the first device, by name and contents.
    pub support: &'static [(&'static str, &'static str)],
    /// Those on the second.
    pub partner: &'static [(&'static str, &'static str)],
}

/// Number of launches in a schedule, both sides of branches included.
pub fn launch_count(steps: &[Step]) -> usize {
    let count = |step: &Step| match step {
        Step::Launch(_) => 1,
        Step::Branch { then, otherwise, .. } => launch_count(then) + launch_count(otherwise),
    };
    steps.iter().map(count).sum()
}

/// The launches of an entry in the order that hooks count them: as the schedule lists them, of a branch first those
/// of the side that is taken when the condition is not zero.
pub fn launches(entry: &Entry) -> Vec<&Launch> {
    fn walk<'p>(steps: &'p [Step], found: &mut Vec<&'p Launch>) {
        for step in steps {
            match step {
                Step::Launch(launch) => found.push(launch),
                Step::Branch { then, otherwise, .. } => {
                    walk(then, found);
                    walk(otherwise, found);
                }
            }
        }
    }
    let mut found = Vec::new();
    walk(&entry.steps, &mut found);
    found
}
