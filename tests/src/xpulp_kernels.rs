//! Runs single kernels of the XpulpV2 target in the simulator, in programs that need no input: see the example of this name.
//! A kernel's results are compared byte by byte with the interpreter's, between guards that nothing may change.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use trainc_c::{C, Dialect};
use trainc_ir::loops::Role;
use trainc_ir::program::Kernel;
use trainc_ir::target::{Signature, Target};
use trainc_ir::tensor_bytes::tensor_bytes;
use trainc_ir::{RunContext, Tensor, TensorType};
use trainc_riscv::{Machine, Memory, toolchain};
use trainc_xpulpv2::XPULPV2;

use crate::kernels;

use crate::cases::Case;

/// Cycles of a case in the simulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measured {
    /// Instructions of one core.
    pub instructions: u64,
    /// Cycles of one core.
    pub cycles: u64,
    /// Cycles where the cores share the parallel regions.
    pub parallel_cycles: u64,
}

/// Bytes before and after each buffer.
const GUARD: usize = 64;

const RUNNER: &str = r#"
#include <stddef.h>
#include <stdint.h>
#ifdef __riscv
#include "host.h"
/* What is read lies in the program, so that it runs where there are no files. */
__asm__(".pushsection .rodata\n.balign 4\nembedded: .incbin \"kernels.input\"\n.popsection");
extern const uint8_t embedded[];
static void fetch(uint8_t *place, size_t bytes)
{
    static size_t done;
    for (size_t i = 0; i < bytes; i++) {
        place[i] = embedded[done + i];
    }
    done += bytes;
}
static void say(const char *text, size_t bytes) { host_write(text, bytes); }
#define MARK(n) host_mark(n)
#else
#include <stdio.h>
#include <stdlib.h>
static void fetch(uint8_t *place, size_t bytes)
{
    if (fread(place, 1, bytes, stdin) != bytes) {
        exit(99);
    }
}
static void say(const char *text, size_t bytes) { fwrite(text, 1, bytes, stdout); }
#define MARK(n) (void)(n)
#endif

#ifdef SHARES
/* Shares of eight cores, the last first: their order does not matter. */
#ifdef __riscv
#define SHARE_BEGIN(core) host_share_begin(core)
#define SHARE_END host_share_end()
#define REGION_END host_region_end()
#else
#define SHARE_BEGIN(core) (void)(core)
#define SHARE_END (void)0
#define REGION_END (void)0
#endif
static void shared(void *context, int32_t count, void (*body)(void *, int32_t, int32_t))
{
    for (int32_t core = 7; core >= 0; core--) {
        const int32_t begin = count * core / 8, end = count * (core + 1) / 8;
        SHARE_BEGIN(core);
        if (begin < end) {
            body(context, begin, end);
        }
        SHARE_END;
    }
    REGION_END;
}
#define TRAINC_PARALLEL_FOR(context, count, body) shared(context, count, body)
#endif

/* Copies into the cluster's memory: natively as early as they may happen, simulated as late. */
static struct {
    uint8_t *to;
    const uint8_t *from;
    size_t bytes;
} copies[8];
static int copy_count;
static void copy_all(void)
{
    for (int i = 0; i < copy_count; i++) {
        for (size_t j = 0; j < copies[i].bytes; j++) {
            copies[i].to[j] = copies[i].from[j];
        }
    }
    copy_count = 0;
}
static void copy(void *to, const void *from, size_t bytes)
{
    copies[copy_count].to = to;
    copies[copy_count].from = from;
    copies[copy_count++].bytes = bytes;
#ifndef __riscv
    copy_all();
#endif
}
#define TRAINC_DMA_COPY(to, from, bytes) copy(to, from, bytes)
#define TRAINC_DMA_WAIT() copy_all()

static int failures;
static uint32_t sum;

static void number(const char *label, uint32_t value)
{
    char text[12];
    int at = 12;
    do {
        text[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    size_t length = 0;
    while (label[length] != 0) {
        length++;
    }
    say(label, length);
    say(text + at, (size_t)(12 - at));
}

static void guards(const uint8_t *place, size_t bytes, uint32_t number_of_case)
{
    for (size_t i = 0; i < GUARD; i++) {
        if (place[-1 - (ptrdiff_t)i] != 0xa5 || place[bytes + i] != 0xa5) {
            number("\ncase ", number_of_case);
            number(": written beyond its ends, at ", (uint32_t)i);
            failures++;
            return;
        }
    }
}

/* The expected bytes follow on the input. The sum is of all results. */
static void check(const uint8_t *place, size_t bytes, uint32_t number_of_case)
{
    static uint8_t block[4096];
    int found = 0;
    for (size_t done = 0; done < bytes; done += sizeof block) {
        const size_t count = bytes - done < sizeof block ? bytes - done : sizeof block;
        fetch(block, count);
        for (size_t i = 0; i < count; i++) {
            sum = sum * 31 + place[done + i];
            if (!found && place[done + i] != block[i]) {
                number("\ncase ", number_of_case);
                number(": byte ", (uint32_t)(done + i));
                number(" of ", (uint32_t)bytes);
                number(" is ", place[done + i]);
                number(", expected ", block[i]);
                found = 1;
            }
        }
    }
    failures += found;
    guards(place, bytes, number_of_case);
}

static uint8_t *next;
static uint8_t *place(size_t bytes)
{
    for (size_t i = 0; i < GUARD; i++) {
        next[i] = 0xa5;
    }
    uint8_t *const start = next + GUARD;
    for (size_t i = 0; i < bytes + GUARD; i++) {
        start[i] = 0xa5;
    }
    next = start + (bytes + GUARD + 15) / 16 * 16;
    return start;
}
"#;

/// The kernel of a case, and its results.
fn kernel(case: &Case, number: usize) -> (Kernel, Vec<Tensor>) {
    let types: Vec<&TensorType> = case.inputs.iter().map(Tensor::ty).collect();
    let kernel = kernels::kernel(&XPULPV2, &format!("kernel_{number}"), &case.op, &types);
    let operands: Vec<&Tensor> = case.inputs.iter().collect();
    let results = case.op.evaluate(&operands, &RunContext { seed: 7, step: 3 });
    (kernel, results)
}

/// The C source that runs cases in turn, and its input.
///
/// # Panics
/// If a kernel cannot be printed.
fn source(cases: &[Case]) -> (String, Vec<u8>) {
    source_of(cases, false)
}

/// [`source`], in loops alone if asked for.
fn source_of(cases: &[Case], loops_alone: bool) -> (String, Vec<u8>) {
    let mut text = format!("enum {{ GUARD = {GUARD} }};\n{RUNNER}");
    for file in Dialect::support(&XPULPV2).iter().filter(|file| file.name.ends_with(".h")) {
        let _ = writeln!(text, "#include \"{}\"", file.name);
    }
    let (mut main, mut input, mut most) = (String::new(), Vec::new(), 0);
    for (n, case) in cases.iter().enumerate() {
        let (mut kernel, results) = kernel(case, n);
        if loops_alone {
            let (inputs, outputs) = (kernel.input_types(), kernel.output_types());
            kernel.selection = C.select(&Signature::new(&kernel.op, &inputs, &outputs));
        }
        let own = trainc_c::in_c(&kernel).expect("the target emits C");
        let arranged = |i: usize| {
            let constant = case.constant && !loops_alone;
            constant.then(|| own.arranged(i, &case.inputs[i])).flatten()
        };
        let emitted = match case.constant && !loops_alone {
            true => own.emit_arranged(&kernel.name, &kernel),
            false => own.emit(&kernel.name, &kernel),
        };
        text.push_str(&emitted.unwrap_or_else(|e| panic!("{}: {e}", case.what)).text);
        let loops = kernel.op.lower(&kernel.input_types(), &kernel.output_types());
        let (mut arguments, mut checks, mut total) = (Vec::new(), String::new(), 0);
        let _ = writeln!(main, "    next = memory;");
        for buffer in loops.buffers.iter().filter(|buffer| buffer.role != Role::Scratch) {
            let ty = trainc_c::element_type(buffer.element);
            let (name, bytes) = match buffer.role {
                Role::Input(i) => {
                    let bytes = arranged(i).unwrap_or_else(|| tensor_bytes(&case.inputs[i]));
                    let _ = writeln!(
                        main,
                        "    uint8_t *const case{n}_x{i} = place({0});\n    fetch(case{n}_x{i}, {0});",
                        bytes.len()
                    );
                    let count = bytes.len();
                    input.extend(bytes);
                    (format!("case{n}_x{i}"), count)
                }
                Role::Output(i) => {
                    let count = tensor_bytes(&results[i]).len();
                    let _ = writeln!(main, "    uint8_t *const case{n}_y{i} = place({count});");
                    let _ = writeln!(checks, "    check(case{n}_y{i}, {count}, {n});");
                    (format!("case{n}_y{i}"), count)
                }
                _ => panic!("{}: no plain integers", case.what),
            };
            arguments.push(format!("({ty} *)(void *){name}"));
            total += bytes.next_multiple_of(16) + 3 * GUARD;
        }
        results.iter().for_each(|result| input.extend(tensor_bytes(result)));
        if kernel.scratch_bytes() > 0 {
            let count = kernel.scratch_bytes();
            let _ = writeln!(main, "    uint8_t *const case{n}_scratch = place({count});");
            arguments.push(format!("case{n}_scratch"));
            total += count.next_multiple_of(16) + 3 * GUARD;
            let _ = writeln!(checks, "    guards(case{n}_scratch, {count}, {n});");
        }
        most = most.max(total);
        let _ = writeln!(main, "    MARK({});", 2 * n);
        let _ = writeln!(main, "    {}({});", kernel.name, arguments.join(", "));
        let _ = writeln!(main, "    MARK({});\n{checks}", 2 * n + 1);
    }
    let _ = write!(
        text,
        "static TRAINC_ALIGNED(16) uint8_t memory[{most}];\nint main(void)\n{{\n    (void)copy;\n#ifdef SHARES\n    (void)shared;\n#endif\n    (void)copy_all;\n{main}    number(\"\\nsum of results: \", sum);\n    number(\"\\nfailures: \", (uint32_t)failures);\n    say(\"\\n\", 1);\n    return failures != 0;\n}}\n"
    );
    (text, input)
}

/// Writes a source and what it includes.
fn write(folder: &Path, text: &str) -> PathBuf {
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder).expect("a folder for the test");
    for file in Dialect::support(&XPULPV2) {
        std::fs::write(folder.join(&file.name), &file.contents).expect("a header is written");
    }
    std::fs::write(folder.join("trainc_rt.h"), trainc_c::RUNTIME_HEADER).expect("a header");
    let source = folder.join("kernels.c");
    std::fs::write(&source, text).expect("the source is written");
    source
}

fn failed(cases: &[Case], said: &str) -> String {
    let first = said.split("case ").nth(1).and_then(|rest| rest.split(':').next());
    let case = first.and_then(|number| cases.get(number.trim().parse::<usize>().ok()?));
    format!("{}\n{}", case.map_or("", |case| &case.what), &said[..said.len().min(4000)])
}

/// Runs cases in the simulator as RI5CY's instructions, optionally with the parallel regions of eight cores. The program,
/// `kernels.elf` in the folder, holds its input, marks the beginning and end of case `n` by `2 n` and `2 n + 1`, and exits with 0
/// where all results are the interpreter's.
///
/// # Panics
/// If one differs from the interpreter.
pub fn simulate(folder: &Path, cases: &[Case], shares: bool) -> Vec<Measured> {
    simulate_source(folder, cases, source(cases), shares)
}

/// The same in the loops that any operation has, which take all operands as they are.
///
/// # Panics
/// As [`simulate`].
pub fn simulate_loops(folder: &Path, cases: &[Case]) -> Vec<Measured> {
    simulate_source(folder, cases, source_of(cases, true), false)
}

fn simulate_source(
    folder: &Path,
    cases: &[Case],
    (text, input): (String, Vec<u8>),
    shares: bool,
) -> Vec<Measured> {
    let source = write(folder, &text);
    std::fs::write(folder.join("kernels.input"), &input).expect("the input is written");
    let program = folder.join("kernels.elf");
    let include = folder.to_string_lossy().into_owned();
    let embedded = format!("-Wa,-I,{include}");
    let mut flags = vec!["-O3", "-DTRAINC_XPULP_INSN", "-Wall", "-Wextra", "-Werror", "-I"];
    flags.extend([include.as_str(), &embedded]);
    if shares {
        flags.push("-DSHARES");
    }
    toolchain::compile(&[source], &flags, &program).unwrap_or_else(|e| panic!("{e}"));
    let file = std::fs::read(&program).expect("the program was written");
    let mut machine = Machine::new(Memory::default());
    machine.load(&file).expect("the program loads");
    let exit = machine.run(20_000_000_000);
    let said = String::from_utf8_lossy(machine.output()).into_owned();
    let exit = exit.unwrap_or_else(|trap| panic!("{trap}: {}", failed(cases, &said)));
    assert_eq!(exit.code, 0, "{}", failed(cases, &said));
    let marks = &machine.marks;
    assert_eq!(marks.len(), 2 * cases.len(), "two marks a case");
    let between = |pair: &[trainc_riscv::Mark]| Measured {
        instructions: pair[1].instructions - pair[0].instructions,
        cycles: pair[1].cycles - pair[0].cycles,
        parallel_cycles: pair[1].parallel_cycles - pair[0].parallel_cycles,
    };
    marks.chunks_exact(2).map(between).collect()
}
