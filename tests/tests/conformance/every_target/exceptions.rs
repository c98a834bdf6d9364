//! What is special about a target: which cases it is spared, and in which ways beside its own it is built and run.

use trainc_driver::verify::VerifyOptions;
use trainc_ir::{Scale, Tensor, TensorType};
use trainc_tests::cases::Case;

use super::folder;

/// Kinds of cases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Suite {
    /// The operations' own.
    Operations,
    /// All sizes around the vectors'.
    Sizes,
    /// Products of 8-bit integers.
    Products,
    /// Products of floats.
    Floats,
    /// Shapes and values at which kernels change their ways.
    Shapes,
    /// Packed integers.
    Quantized,
    /// Packed integers beyond a cluster's memory.
    Large,
    /// Loop kernels.
    Loops,
}

/// A variable of the environment: the command that runs all cases of OpenCL in the place of a few; `env` for this machine's
/// driver.
const OPENCL_RUNNER: &str = "TRAINC_OPENCL_RUNNER";

/// Of two machines: each launch is a kernel of one of their own targets, proved there; what is between them is tested by
/// `tests/tests/pair.rs`.
const PAIR: &str = "neon+hvx";

/// Every how manyth case a target gets; none if it gets none.
pub(crate) fn every(target: &str, suite: Suite) -> Option<usize> {
    Some(match (target, suite) {
        (PAIR, _) => return None,
        // Pieces in a cluster's memory are this target's alone.
        (target, Suite::Large) if target != "xpulpv2" => return None,
        ("opencl", suite) if std::env::var_os(OPENCL_RUNNER).is_none() => match suite {
            Suite::Operations => 7,
            Suite::Loops => 40,
            // Where other targets' kernels change; here all is loops, and the largest take an interpreter minutes.
            Suite::Shapes | Suite::Large => return None,
            _ => 97,
        },
        // Compiled in a moment.
        ("host", Suite::Loops) => 1,
        // Another level's, another version's, and portable C's loops.
        ("neon+dotprod" | "neon+i8mm" | "neon+dispatch", Suite::Loops) => 40,
        ("hvx+v62" | "hvx+v68" | "hvx+v73", Suite::Loops) => 40,
        ("xpulpv2", Suite::Loops) => 12,
        // The same printer as AArch64's, with half as many registers.
        ("armv7-neon", Suite::Loops) => 8,
        // Assembly of large kernels takes a second each.
        ("hvx", Suite::Loops) => 8,
        (_, Suite::Loops) => 4,
        // Most ways are those of Hexagon's kernels; a prime, so that every kind of case comes.
        ("hvx", Suite::Shapes) => 1,
        ("c" | "neon" | "armv7-neon" | "xpulpv2" | "host", Suite::Shapes) => 11,
        (_, Suite::Shapes) => 41,
        // Kernels of their own.
        ("neon" | "host" | "hvx", Suite::Floats) => 1,
        // Loops.
        (_, Suite::Floats) => 13,
        // Loops; of the second, multiplications at run time by one of the three below.
        ("c" | "neon+dispatch", Suite::Products) => 3,
        // Kernels for packed integers are XpulpV2's; elsewhere these are loops.
        (target, Suite::Quantized) if target != "xpulpv2" => 13,
        // Odd, so that operands are in both places.
        ("armv7-neon", _) => 3,
        // Of these, products alone are another level's; loops are NEON's.
        ("neon+dotprod" | "neon+i8mm" | "neon+dispatch", suite) if suite != Suite::Products => 16,
        // Other versions of Hexagon differ in the packets that instructions fit into.
        ("hvx+v62" | "hvx+v68" | "hvx+v73", _) => 12,
        _ => 1,
    })
}

/// Whether a case takes or gives what an entry for a target cannot: tensors with an exponent and no element. C has no
/// arrays of nothing, so in the structs of headers they hold one.
pub(crate) fn has_no_form(target: &str, case: &Case) -> bool {
    let types: Vec<&TensorType> = case.inputs.iter().map(Tensor::ty).collect();
    let results = case.op.infer(&types).unwrap_or_default();
    let empty = |ty: &TensorType| ty.count() == 0 && ty.scale != Scale::None;
    target != "host" && (types.into_iter().any(empty) || results.iter().any(empty))
}

/// Kinds of networks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Network {
    /// Many steps from the beginning.
    Trained,
    /// A few, of a trained network or in FP32.
    Tuned,
    /// Inference in packed integers.
    Packed,
}

/// How many steps a network runs on a target; none if it does not. One `again` is made of operations that another of its kind
/// has, too.
pub(crate) fn steps(target: &str, network: Network, again: bool) -> Option<u32> {
    Some(match (target, network) {
        (PAIR, _) => return None,
        // A driver compiles the kernels of each network for seconds.
        ("opencl", network) if again || network != Network::Trained => return None,
        ("opencl", _) => 2,
        // What differs from the target's first version or level has been seen in training.
        ("hvx+v62" | "hvx+v68" | "hvx+v73" | "neon+dispatch", network)
            if again || network != Network::Trained =>
        {
            return None;
        }
        ("neon+dotprod" | "neon+i8mm", network) if again || network == Network::Packed => {
            return None;
        }
        // Kernels for packed integers are XpulpV2's; elsewhere these are loops.
        (target, Network::Packed) if again && target != "xpulpv2" => return None,
        (_, Network::Tuned) => 2,
        (_, Network::Packed) => 3,
        // Emulated or simulated instruction by instruction.
        ("hvx" | "xpulpv2", Network::Trained) => 5,
        ("hvx+v62" | "hvx+v68" | "hvx+v73" | "neon+dispatch", Network::Trained) => 2,
        (_, Network::Trained) => 10,
    })
}

/// A way to build and run.
#[derive(Clone, Debug)]
pub(crate) struct Build {
    pub(crate) name: &'static str,
    pub(crate) compiler: Option<String>,
    pub(crate) runner: Option<String>,
    /// Every how manyth of the target's cases it gets.
    pub(crate) every: usize,
    /// Whether it gets all others in their place.
    pub(crate) others: bool,
}

impl Build {
    /// Whether it gets a case of the target's.
    pub(crate) fn takes(&self, case: usize) -> bool {
        case.is_multiple_of(self.every) != self.others
    }

    /// For one case of so many as the first says, for the others as the second says.
    fn divided(every: usize, own: Build, other: Build) -> [Build; 2] {
        [Build { every, ..own }, Build { name: "other", every, others: true, ..other }]
    }

    /// Built and run so, and nothing else.
    pub(crate) fn options(&self) -> VerifyOptions {
        VerifyOptions {
            compiler: self.compiler.clone(),
            runner: self.runner.clone(),
            counts: false,
            ..VerifyOptions::default()
        }
    }
}

/// A header that all sources include, and a compiler that includes it.
fn including(name: &str, text: &str, compiler: &str) -> Option<String> {
    let header = folder("headers").join(name);
    std::fs::write(&header, text).expect("written");
    Some(format!("{compiler} -include {}", header.display()))
}

/// Every how manyth case is for the compiler that users have, where another compiles the rest; odd, so that it gets operands in
/// both places.
const OWN_COMPILER: usize = 5;

/// Clang without optimisation for an Arm machine. It compiles the same sources two to four times as fast as GCC with it, and
/// an emulator runs what it makes of every intrinsic. Its newer selector of instructions falls back for most functions, which
/// it then reads twice.
fn clang_for(machine: &str) -> String {
    format!("clang-19 --target={machine} -w -O0 -fno-global-isel")
}

/// The ways for a target: its own, and what finds more.
pub(crate) fn builds(target: &str, suite: Option<Suite>) -> Vec<Build> {
    let own = Build { name: "own", compiler: None, runner: None, every: 1, others: false };
    // The target's own level finds what GCC makes of networks, and of some loops and packed kernels; the rest is intrinsics and
    // one loop a function, and compiling is most of a test's time.
    let level = match suite {
        Some(Suite::Loops | Suite::Quantized | Suite::Large) => "",
        // Loops and most kernels are those of NEON's networks.
        None if !target.starts_with("neon+") => "",
        _ => " -O1",
    };
    let divided = |own: Build, other: Build| match suite {
        Some(_) => Build::divided(OWN_COMPILER, own, other).to_vec(),
        None => vec![own],
    };
    match target {
        // Under sanitizers and strict warnings, divided loops backwards.
        "c" => {
            // Of random loops, warnings of comparisons without sense would be right.
            let strict = match suite {
                Some(Suite::Loops) => "-Wconversion",
                _ => "-Wall -Wextra -Wconversion -Wshadow",
            };
            // GCC's warnings and code for some; Clang without optimisation compiles four times as fast, and its sanitizers see
            // the same.
            let build = |compiler: &str| {
                let compiler = format!(
                    "{compiler} -g0 -fsanitize=undefined,address -fno-sanitize-recover=all"
                );
                Build { compiler: including("reversed.h", REVERSED, &compiler), ..own.clone() }
            };
            let gcc = build(&format!("gcc {strict} -Werror -O1"));
            divided(gcc, build("clang -w -O0"))
        }
        "armv7-neon" => {
            let build = |compiler: &str| {
                let compiler = including("reversed.h", REVERSED, compiler);
                Build { compiler, ..own.clone() }
            };
            let gcc = build(&format!("arm-linux-gnueabihf-gcc{level}"));
            divided(gcc, build(&clang_for("arm-linux-gnueabihf")))
        }
        "neon" | "neon+dotprod" | "neon+i8mm" => {
            // Ranges side by side, backwards, and as they are.
            let build = |compiler: String, hook: Option<(&str, &str)>| Build {
                compiler: match hook {
                    Some((name, text)) => including(name, text, &compiler),
                    None => Some(compiler),
                },
                ..own.clone()
            };
            let threads = (target == "neon").then_some(("threads.h", THREADS));
            let reversed = (target != "neon+i8mm").then_some(("reversed.h", REVERSED));
            let gcc = build(format!("aarch64-linux-gnu-gcc{level}"), threads);
            divided(gcc, build(clang_for("aarch64-linux-gnu"), reversed))
        }
        // On the cluster in the simulator; portable, on this machine under sanitizers.
        "xpulpv2" => {
            let build = |level: &str| {
                let gcc = format!("riscv64-unknown-elf-gcc{level}");
                Build {
                    name: "cluster",
                    compiler: including("cluster.h", CLUSTER, &gcc),
                    ..own.clone()
                }
            };
            // The rest without optimisation, where operands of assembly are in memory until it takes them.
            let mut builds = divided(build(level), build(" -O0"));
            let script = folder("headers").join("native.sh");
            std::fs::write(&script, NATIVE).expect("written");
            let native = including("cluster.h", CLUSTER, &format!("sh {}", script.display()));
            let runner = Some("env".to_string());
            // What GCC makes of the other branch of each instruction; the kernels are the same.
            builds.push(Build { name: "portable", compiler: native, runner, every: 5, ..own });
            builds
        }
        // Its kernels are assembly: C passes tensors to them.
        "hvx" | "hvx+v62" | "hvx+v68" | "hvx+v73" => {
            let build =
                |level: &str| Build { compiler: Some(format!("clang-19{level}")), ..own.clone() };
            match suite {
                Some(_) => divided(build(" -O1"), build(" -O0")),
                None => vec![build("")],
            }
        }
        // A driver compiles each kernel, which takes a moment each; an interpreter does not, and sees what leaves its
        // memory. Networks are run by the driver.
        "opencl" => {
            let named = std::env::var(OPENCL_RUNNER).ok();
            let interpreted = suite.map(|_| {
                let script = folder("headers").join("oclgrind.sh");
                std::fs::write(&script, OCLGRIND).expect("written");
                format!("sh {}", script.display())
            });
            vec![Build { runner: named.or(interpreted), ..own }]
        }
        // What the processor has is found when it runs: one executable, three processors.
        "neon+dispatch" => {
            let script = folder("headers").join("processors.sh");
            std::fs::write(&script, PROCESSORS).expect("written");
            let runner = Some(format!("sh {}", script.display()));
            let build = |compiler: String| Build {
                compiler: Some(compiler),
                runner: runner.clone(),
                ..own.clone()
            };
            let gcc = build(format!("aarch64-linux-gnu-gcc{level}"));
            divided(gcc, build(clang_for("aarch64-linux-gnu")))
        }
        _ => vec![own],
    }
}

/// The rounds of divided loops one by one, the last first.
const REVERSED: &str = "\
#define TRAINC_PARALLEL_FOR(context, count, body) \\
    for (int32_t backwards = (count); backwards-- > 0;) { body(context, backwards, backwards + 1); }
";

/// Four threads, each with a share of the rounds.
const THREADS: &str = r#"
#ifndef __ASSEMBLER__
#define _POSIX_C_SOURCE 200809L
#define _DEFAULT_SOURCE 1
#include <pthread.h>
#undef _POSIX_C_SOURCE
#undef _DEFAULT_SOURCE
#include <stdint.h>
#include <stdlib.h>
struct share { void *context; void (*body)(void *, int32_t, int32_t); int32_t begin, end; };
static inline void *of_share(void *of)
{
    const struct share *const share = (const struct share *)of;
    share->body(share->context, share->begin, share->end);
    return NULL;
}
static inline void shared(void *context, int32_t count, void (*body)(void *, int32_t, int32_t))
{
    struct share shares[4];
    pthread_t threads[4];
    int32_t started = 0;
    for (int32_t i = 0; i < 4; i++) {
        const int32_t begin = count * i / 4, end = count * (i + 1) / 4;
        if (begin < end) {
            shares[started] = (struct share){ context, body, begin, end };
            if (pthread_create(&threads[started], NULL, of_share, &shares[started]) != 0) {
                abort();
            }
            started++;
        }
    }
    while (started-- > 0) {
        pthread_join(threads[started], NULL);
    }
}
#define TRAINC_PARALLEL_FOR(context, count, body) shared(context, count, body)
#endif
"#;

/// Shares of eight cores, the last first; copies into the cluster's memory on this machine as early as they may happen,
/// simulated as late.
const CLUSTER: &str = r#"
#ifndef __ASSEMBLER__
#include <stddef.h>
#include <stdint.h>
static inline void shared(void *context, int32_t count, void (*body)(void *, int32_t, int32_t))
{
    for (int32_t core = 7; core >= 0; core--) {
        const int32_t begin = count * core / 8, end = count * (core + 1) / 8;
        if (begin < end) {
            body(context, begin, end);
        }
    }
}
#define TRAINC_PARALLEL_FOR(context, count, body) shared(context, count, body)
#ifdef __riscv
static struct { uint8_t *to; const uint8_t *from; size_t bytes; } copies[8];
static int copy_count;
#define TRAINC_DMA_COPY(a, b, count) \
    (copies[copy_count].to = (uint8_t *)(a), copies[copy_count].from = (const uint8_t *)(b), \
     copies[copy_count++].bytes = (count))
static inline void copy_all(void)
{
    for (int i = 0; i < copy_count; i++) {
        for (size_t j = 0; j < copies[i].bytes; j++) {
            copies[i].to[j] = copies[i].from[j];
        }
    }
    copy_count = 0;
}
#define TRAINC_DMA_WAIT() copy_all()
#endif
#endif
"#;

/// Runs an executable on three processors, as a shell script: what the first writes, if the others write the same.
const PROCESSORS: &str = r#"set -e
requests=$(mktemp) && first=$(mktemp) && other=$(mktemp)
trap 'rm -f "$requests" "$first" "$other"' EXIT
cat > "$requests"
qemu-aarch64 -cpu cortex-a53 "$@" < "$requests" > "$first" || {
    code=$?
    cat "$first"
    exit $code
}
for processor in cortex-a76 max; do
    qemu-aarch64 -cpu $processor "$@" < "$requests" > "$other"
    cmp "$first" "$other" >&2 || {
        echo "cortex-a53 and $processor differ" >&2
        exit 1
    }
done
cat "$first"
"#;

/// Runs an executable in the interpreter of OpenCL, as a shell script: what it writes, if no kernel leaves its memory and no work items race. Without
/// optimisation: the interpreter lacks what Clang makes of some sums.
const OCLGRIND: &str = r#"log=$(mktemp) && out=$(mktemp)
trap 'rm -f "$log" "$out"' EXIT
oclgrind --data-races --build-options -cl-opt-disable --log "$log" "$@" > "$out"
code=$?
if [ -s "$log" ]; then
    head -c 4000 "$log" >&2
    exit 1
fi
cat "$out"
exit $code
"#;

/// A compiler for this machine in the place of RISC-V's, as a shell script: it drops what is for the other one.
const NATIVE: &str = r#"for argument; do
    shift
    case $argument in
    -O3 | -march=* | -mabi=* | -misa-spec=* | -nostartfiles | -nolibc | -static | -fno-builtin) ;;
    -Wl,* | -DTRAINC_XPULP_INSN | */start.S | */memory.c | */streams.c) ;;
    # The folder's own `stdio.h` is for the other machine, too.
    -I) set -- "$@" -iquote ;;
    *) set -- "$@" "$argument" ;;
    esac
done
exec clang -w -O0 -fsanitize=undefined,address -fno-sanitize-recover=all "$@"
"#;
