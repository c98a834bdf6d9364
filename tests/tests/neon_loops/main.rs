//! The NEON targets' loops: random kernels, compiled for AArch64 and Armv7 under strict warnings and run under QEMU, against the reference interpreter, bit for bit.

#[path = "../c_target/random.rs"]
mod random;
mod vectors;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use trainc_ir::loops::{LoopKernel, Role};
use trainc_ir::target::loop_scratch;
use trainc_ir::tensor_bytes::element_bytes;
use trainc_ir::{RunContext, Tensor};
use trainc_neon::Level;

/// A hook that runs the rounds of divided loops one by one, the last first.
const REVERSED: &str = "\
#define TRAINC_PARALLEL_FOR(context, count, body) \\
    for (int32_t backwards = (count); backwards-- > 0;) { body(context, backwards, backwards + 1); }
";

/// A cross compiler and its emulator.
struct Machine {
    level: Level,
    name: &'static str,
    compiler: &'static str,
    flags: &'static [&'static str],
    /// Divided loops run backwards on one machine, forwards on the other.
    hooks: &'static [&'static str],
    emulator: &'static str,
}

const MACHINES: [Machine; 2] = [
    Machine {
        level: Level::Baseline,
        name: "aarch64",
        compiler: "aarch64-linux-gnu-gcc",
        flags: &[],
        hooks: &[],
        emulator: "qemu-aarch64",
    },
    Machine {
        level: Level::Armv7,
        name: "armv7",
        compiler: "arm-linux-gnueabihf-gcc",
        flags: &["-march=armv7-a", "-mfpu=neon", "-mfloat-abi=hard"],
        hooks: &["-DTRAINC_HOOKS=\"reversed.h\""],
        emulator: "qemu-arm",
    },
];

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("neon_loops").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

fn write(folder: &Path, name: &str, contents: impl AsRef<[u8]>) {
    std::fs::write(folder.join(name), contents).expect("the file is written");
}

fn runtime(folder: &Path) {
    write(folder, "trainc_rt.h", trainc_c::RUNTIME_HEADER);
    write(folder, "trainc_rt.c", trainc_c::RUNTIME_SOURCE);
}

/// Runs a program in a folder; it must succeed.
fn run(folder: &Path, program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).current_dir(folder).output();
    let output = output.unwrap_or_else(|e| panic!("these tests need `{program}`: {e}"));
    assert!(
        output.status.success(),
        "{program} {} in {}: {}\n{}{}",
        arguments.join(" "),
        folder.display(),
        output.status,
        String::from_utf8_lossy(&output.stdout[..output.stdout.len().min(3000)]),
        String::from_utf8_lossy(&output.stderr[..output.stderr.len().min(6000)])
    );
}

impl Machine {
    /// Compiles `main.c` with flags and runs it.
    fn check_with(&self, folder: &Path, flags: &[&str]) {
        write(folder, "reversed.h", REVERSED);
        let flags = flags.iter().chain(self.flags).chain(self.hooks);
        let mut flags: Vec<&str> = flags.copied().collect();
        flags.extend(["main.c", "trainc_rt.c", "-o", "main"]);
        run(folder, self.compiler, &flags);
        run(folder, self.emulator, &["./main"]);
    }
}

fn array(bytes: &[u8]) -> String {
    let mut text = String::from("{");
    bytes.iter().for_each(|b| _ = write!(text, "{b},"));
    // An empty initialiser is not C.
    text.push_str(if bytes.is_empty() { "0}" } else { "}" });
    text
}

/// The start of a program of cases. A buffer ends where memory does, so that an access beyond it is a fault, and holds
/// what a kernel must not rely on.
const CASES: &str = r#"
#define _GNU_SOURCE
#include <arm_neon.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "trainc_rt.h"

static void *filled(size_t bytes, const unsigned char *from)
{
    size_t pages = (bytes + 4095) / 4096 * 4096;
    unsigned char *place = mmap(NULL, pages + 4096, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(place + pages, 4096);
    mmap(place + pages, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    place += pages - bytes;
    if (from != NULL) {
        memcpy(place, from, bytes);
    } else {
        memset(place, 0xa5, bytes);
    }
    return place;
}

static void dropped(void *place, size_t bytes)
{
    size_t pages = (bytes + 4095) / 4096 * 4096;
    munmap((unsigned char *)place + bytes - pages, pages + 4096);
}

static int failures;

/* The sign and payload of a NaN are not part of the meaning. */
static int are_nan(const unsigned char *found, const unsigned char *expected)
{
    float a, b;
    memcpy(&a, found, 4);
    memcpy(&b, expected, 4);
    return a != a && b != b;
}

static inline void compare_floats(const char *what, const void *found, const unsigned char *expected,
    size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 4) {
        const unsigned char *at = (const unsigned char *)found + i;
        if (memcmp(at, expected + i, 4) != 0 && !are_nan(at, expected + i)) {
            printf("%s: float %zu of %zu differs\n", what, i / 4, bytes / 4);
            failures++;
            return;
        }
    }
}

static inline void compare(const char *what, const void *found, const unsigned char *expected, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (((const unsigned char *)found)[i] != expected[i]) {
            printf("%s: byte %zu of %zu is %d, expected %d\n", what, i, bytes,
                ((const unsigned char *)found)[i], expected[i]);
            failures++;
            return;
        }
    }
}
"#;

/// A kernel for a level, and a function that runs it and compares its results.
struct KernelCase<'a> {
    n: usize,
    what: &'a str,
    kernel: &'a LoopKernel,
    operands: &'a [&'a Tensor],
    meaning: &'a [Tensor],
    run: &'a RunContext,
    may_overwrite: bool,
}

impl KernelCase<'_> {
    fn source(&self, level: Level) -> String {
        let name = format!("kernel_{}", self.n);
        let printed = trainc_neon::loops::function(level, &name, self.kernel, self.may_overwrite);
        let printed = printed.expect("the kernel prints");
        let widest = printed.lines().map(str::len).max().unwrap_or(0);
        assert!(self.what == "random" || widest <= 100, "{widest} columns:\n{printed}");
        printed + &self.caller(&name, loop_scratch(self.kernel).1)
    }

    /// A function that runs the kernel of that name, which takes some bytes of working memory.
    fn caller(&self, name: &str, scratch: usize) -> String {
        let KernelCase { n, what, kernel, operands, meaning, run, .. } = *self;
        let mut out = String::new();
        let _ = writeln!(out, "static void case_{n}(void)\n{{");
        let (mut arguments, mut checks, mut frees) = (Vec::new(), String::new(), String::new());
        let words = [run.seed as u32, (run.seed >> 32) as u32, run.step];
        for (i, b) in kernel.buffers.iter().enumerate() {
            let ty = trainc_c::element_type(b.element);
            let size = b.element.bytes(b.count);
            let mut check = |bytes: &[u8]| {
                assert_eq!(bytes.len(), size, "{what} {}", b.name);
                let compare = match b.element {
                    trainc_ir::Element::F32 => "compare_floats",
                    _ => "compare",
                };
                let _ = writeln!(
                    checks,
                    "    static const unsigned char e{i}[] = {};\n    \
                     {compare}(\"{what} case {n}: {}\", b{i}, e{i}, {size});",
                    array(bytes),
                    b.name
                );
            };
            let from = match b.role {
                Role::Input(k) => Some(element_bytes(operands[k])),
                Role::InputScale(k) => Some(operands[k].exponent().to_le_bytes().to_vec()),
                Role::RunContext => Some(words.iter().flat_map(|w| w.to_le_bytes()).collect()),
                Role::Output(k) => {
                    check(&element_bytes(&meaning[k]));
                    None
                }
                Role::OutputScale(k) => {
                    check(&meaning[k].exponent().to_le_bytes());
                    None
                }
                Role::Scratch => continue,
            };
            let from = match from {
                Some(bytes) => {
                    let bytes = array(&bytes);
                    let _ = writeln!(out, "    static const unsigned char d{i}[] = {bytes};");
                    format!("d{i}")
                }
                None => "NULL".into(),
            };
            let _ = writeln!(out, "    {ty} *b{i} = filled({size}, {from});");
            let _ = writeln!(frees, "    dropped(b{i}, {size});");
            arguments.push(format!("b{i}"));
        }
        if scratch > 0 {
            let _ = writeln!(out, "    uint8_t *scratch = filled({scratch}, NULL);");
            let _ = writeln!(frees, "    dropped(scratch, {scratch});");
            arguments.push("scratch".into());
        }
        let _ = writeln!(out, "    {name}({});\n{checks}{frees}}}\n", arguments.join(", "));
        out
    }
}

/// A program of `cases` functions.
fn program(kernels: &str, cases: usize) -> String {
    let calls: String = (0..cases).map(|n| format!("    case_{n}();\n")).collect();
    format!("{CASES}{kernels}int main(void)\n{{\n{calls}    return failures != 0;\n}}\n")
}

/// A random kernel for every machine.
fn kernel_source(
    n: usize,
    what: &str,
    kernel: &LoopKernel,
    operands: &[&Tensor],
    meaning: &[Tensor],
    run: &RunContext,
) -> String {
    let case = |level| {
        let case = KernelCase { n, what, kernel, operands, meaning, run, may_overwrite: true };
        case.source(level)
    };
    let [first, second] = MACHINES.each_ref().map(|machine| case(machine.level));
    format!("#ifdef __aarch64__\n{first}#else\n{second}#endif\n")
}

/// What the random kernels of the C target's tests find there: here they are compiled and run on every machine.
mod operations {
    pub(crate) use crate::{CASES, kernel_source};
}

mod parallel {
    pub(crate) use crate::REVERSED;
}

mod support {
    use std::path::Path;

    use crate::{MACHINES, run};
    pub(crate) use crate::{folder, runtime, write};

    pub(crate) const SANITIZED: &[&str] = &[];

    /// Compiles and runs.
    pub(crate) fn cc(folder: &Path, flags: &[&str]) {
        let program = format!("./{}", flags.last().expect("flags end with the program's name"));
        for machine in &MACHINES {
            let flags: Vec<&str> = flags.iter().chain(machine.flags).copied().collect();
            run(folder, machine.compiler, &[&flags[..], &["-O1", "-static"]].concat());
            run(folder, machine.emulator, &[&program]);
        }
    }

    /// It has run.
    pub(crate) fn execute(_folder: &Path, _program: &str, _input: &[u8]) {}
}
