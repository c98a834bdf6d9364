//! The C program around an artifact's functions: it reads requests from its standard input, calls, and writes results
//! and state to its standard output.
//!
//! A request is a command (u32), a step (u32) and a seed (u64), little-endian as all else. Command [`INIT`] sets the
//! state to its initial value and answers with a [`CALLED`] record without results; [`LOAD`] is followed by the state;
//! [`SAVE`] saves the state with the seed as the number of steps, sees whether damaged checkpoints are refused, loads it
//! again, and answers with a [`SAVED`] record: the damage, which checks failed (u32, see [`CHECKS`]), the checkpoint, the
//! number of steps (u64), the state. `CALL + 2 n` calls entry `n`, whose operands follow, and `CALL + 2 n + 1` also writes the results of each launch.
//!
//! The answer to a call is a [`LAUNCHED`] record for each launch, if asked for: its number (u32), the damage, its
//! results; then [`CALLED`]: the damage, the results, the state. The damage (u32) is a set of places that were written
//! beyond an end: arena, state, operands and results from bit 0 on, bit 31 for all further ones.
//!
//! Memory that a call may not rely on is filled with a pattern, and no place is aligned better than promised. What lies
//! before arena, state and arguments, and behind them, must stay; on Linux the page behind an argument cannot be touched.

use std::fmt::Write;

use trainc_ir::Element;
use trainc_ir::harness::{
    CHECKPOINT_HEADER, CheckpointFunctions, Harness, HarnessFunction, SharedWindow, WINDOW,
    launches,
};
use trainc_ir::names;
use trainc_ir::program::{BufferId, Entry, Program, Region};

use super::tools::Hooks;

/// Command: the initial state.
pub(super) const INIT: u32 = 1;
/// Command: another state.
pub(super) const LOAD: u32 = 2;
/// Command: a checkpoint of the state.
pub(super) const SAVE: u32 = 3;
/// Commands from here on: calls.
pub(super) const CALL: u32 = 4;
/// Record: results of a launch.
pub(super) const LAUNCHED: u8 = b'L';
/// Record: end of a call.
pub(super) const CALLED: u8 = b'C';
/// Record: a checkpoint.
pub(super) const SAVED: u8 = b'S';
/// What a checkpoint's bits of failed checks mean.
pub(super) const CHECKS: [&str; 3] = [
    "a damaged checkpoint was not refused",
    "a checkpoint that was refused changed the state or the number of steps",
    "a checkpoint that was just saved was refused",
];

/// Hooks that ask for the results of each launch.
pub(super) const WATCHED: Hooks<'_> = Hooks { name: "watched", text: WATCHED_HEADER };
const WATCHED_HEADER: &str = "\
#ifndef TRAINC_VERIFY_HOOKS_H
#define TRAINC_VERIFY_HOOKS_H
#ifdef __cplusplus
extern \"C\"
#endif
void trainc_verify_launched(unsigned int launch);
#define TRAINC_LAUNCHED(arena, state, launch, node) trainc_verify_launched(launch)
#endif
";

const PROLOGUE: &str = r#"
/* Much code, little work. */
#if defined(__clang__)
#pragma clang optimize off
#elif defined(__GNUC__)
#pragma GCC optimize("O0")
#endif

enum { GUARD = 32, PATTERN = 0xa5 };

/* Around calls, for counters; of the header of hooks. */
#ifdef TRAINC_COUNTED
#define MARK(label) TRAINC_COUNTED(label)
#else
#define MARK(label) ((void)0)
#endif

/* Memory of exactly that alignment and no better, with guards on both sides. */
#define MEMORY(name, bytes, alignment) \
    static unsigned char name##_memory[2 * GUARD + 3 * (alignment) + (bytes)] \
        __attribute__((aligned(2 * (alignment)))); \
    static unsigned char *const name = name##_memory + (alignment) \
        + (GUARD + 2 * (alignment) - 1) / (2 * (alignment)) * (2 * (alignment))

static void in(void *p, size_t n)
{
    if (fread(p, 1, n, stdin) != n) {
        fprintf(stderr, "the requests end early\n");
        exit(3);
    }
}

static void out(const void *p, size_t n)
{
    if (fwrite(p, 1, n, stdout) != n) {
        exit(4);
    }
}

/* Operands: where pages are protected, they end where a page does, so that reading beyond is a fault. */
#ifdef __linux__
enum { AFTER = 0 };
#define OPERAND(name, bytes) static unsigned char *name
#define PLACE(name, bytes) name = ending(bytes)
static unsigned char *ending(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t all = (bytes + GUARD + page - 1) / page * page;
    unsigned char *const place = mmap(NULL, all + page, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED || mprotect(place + all, page, PROT_NONE) != 0) {
        fprintf(stderr, "no memory for an operand\n");
        exit(6);
    }
    return place + all - bytes;
}
#else
enum { AFTER = GUARD };
#define OPERAND(name, bytes) MEMORY(name, bytes, 4)
#define PLACE(name, bytes)
#endif

/* `after` is how much of a guard lies behind the memory. */
static void guard(unsigned char *p, size_t n, size_t after)
{
    memset(p - GUARD, PATTERN, GUARD);
    memset(p + n, PATTERN, after);
}

static uint32_t damaged(const unsigned char *p, size_t n, unsigned place, size_t after)
{
    uint32_t bad = 0;
    for (size_t i = 0; i < GUARD; i++) {
        bad |= (uint32_t)(*(p - 1 - i) != PATTERN);
    }
    for (size_t i = 0; i < after; i++) {
        bad |= (uint32_t)(p[n + i] != PATTERN);
    }
    return bad << (place < 31 ? place : 31);
}
"#;

/// The source of the program. `seed` and `step` of an entry without random numbers are not passed on.
/// Without `watched` it has nothing to say of launches.
pub(super) fn source(
    program: &Program,
    harness: &Harness,
    alignment: usize,
    watched: bool,
) -> String {
    let mut out = format!(
        "/* Runs `{}` for trainc verify. */\n#define _GNU_SOURCE\n#include <stdint.h>\n#include <stdio.h>\n\
         #include <stdlib.h>\n#include <string.h>\n#ifdef __linux__\n#include <sys/mman.h>\n#include <unistd.h>\n\
         #endif\n\n#include \"{}\"\n{PROLOGUE}\n",
        names::shown(&program.name),
        harness.header,
    );
    let mut line = |text: &str| {
        out.push_str(text);
        out.push('\n');
    };
    let memory = &program.memory;
    line(&format!("MEMORY(arena, {}, {alignment});", memory.arena_bytes));
    line(&format!("MEMORY(state, {}, {alignment});", memory.state_bytes));
    let called: Vec<(usize, &Entry, &HarnessFunction)> = program
        .entries
        .iter()
        .enumerate()
        .filter_map(|(n, entry)| {
            Some((n, entry, harness.functions.iter().find(|f| f.entry == entry.name)?))
        })
        .collect();
    for &(n, entry, _) in &called {
        for (i, argument) in entry.inputs.iter().chain(&entry.outputs).enumerate() {
            let bytes = program.buffer(argument.buffer).bytes();
            match i < entry.inputs.len() {
                true => line(&format!("OPERAND(e{n}_{i}, {bytes});")),
                false => line(&format!("MEMORY(e{n}_{i}, {bytes}, 4);")),
            }
        }
    }
    for &(n, entry, _) in &called {
        line(&guards(program, n, entry));
    }
    if harness.window.is_some() {
        line(&format!("extern unsigned char *{WINDOW};"));
    }
    line("static int entry = -1;\nstatic int watched;\n");
    line("void trainc_verify_launched(unsigned int launch);\n");
    line("void trainc_verify_launched(unsigned int launch)\n{");
    line(
        "    uint32_t number = launch, bad = 0;\n    (void)bad;\n    if (!watched) {\n        return;\n    }",
    );
    line(&format!("    putchar({LAUNCHED});\n    out(&number, 4);\n    switch (entry) {{"));
    for &(n, entry, _) in called.iter().filter(|_| watched) {
        line(&format!("    case {n}:\n        bad = guards_{n}();\n        out(&bad, 4);"));
        line("        switch (launch) {");
        for (k, launch) in launches(entry).into_iter().enumerate() {
            let window = harness.window.as_ref();
            let results = launch.outputs.iter().map(|&id| result(program, (n, entry), window, id));
            line(&format!("        case {k}:{} break;", results.collect::<String>()));
        }
        line("        default: break;\n        }\n        break;");
    }
    line("    default: break;\n    }\n    fflush(stdout);\n}\n");
    for &(n, entry, function) in &called {
        out.push_str(&call(program, n, entry, function));
    }
    let mut commands = String::new();
    if let Some(functions) = checkpoints(program, harness) {
        out.push_str(&save(functions, memory.state_bytes));
        let _ = write!(
            commands,
            "        if (command == {SAVE}) {{\n            save(seed);\n            continue;\n        }}\n"
        );
    }
    let (mut cases, mut placed) = (String::new(), String::new());
    for &(n, entry, _) in &called {
        for (name, bytes) in &places(program, n, entry)[2..2 + entry.inputs.len()] {
            let _ = writeln!(placed, "    PLACE({name}, {bytes});");
        }
        let _ = writeln!(cases, "        case {n}: call_{n}(seed, step); break;");
    }
    let _ = write!(
        out,
        "int main(void)\n{{\n    uint32_t command, step;\n    uint64_t seed;\n{places}    \
         while (fread(&command, 4, 1, stdin) == 1) {{\n        \
         in(&step, 4);\n        in(&seed, 8);\n        \
         if (command == {INIT}) {{\n            \
         memset(state, PATTERN, {state});\n            guard(state, {state}, GUARD);\n            \
         {init}(state);\n            uint32_t bad = damaged(state, {state}, 1, GUARD);\n            \
         putchar({CALLED});\n            out(&bad, 4);\n            out(state, {state});\n            \
         fflush(stdout);\n            continue;\n        }}\n        \
         if (command == {LOAD}) {{\n            in(state, {state});\n            continue;\n        }}\n{commands}        \
         entry = (int)((command - {CALL}) / 2);\n        watched = (int)(command % 2);\n        \
         switch (entry) {{\n{cases}        default: exit(5);\n        }}\n    }}\n    return 0;\n}}\n",
        places = placed,
        state = memory.state_bytes,
        init = harness.init,
    );
    out
}

/// What saves and loads a program's state, if it has one.
pub(super) fn checkpoints<'h>(
    program: &Program,
    harness: &'h Harness,
) -> Option<&'h CheckpointFunctions> {
    harness.checkpoints.as_ref().filter(|_| program.memory.state_bytes > 0)
}

/// The function that saves the state and loads it again. A checkpoint may lie anywhere, so it lies at an odd address.
fn save(functions: &CheckpointFunctions, state: usize) -> String {
    let CheckpointFunctions { save, load, .. } = functions;
    let bytes = CHECKPOINT_HEADER + state;
    // In each field of the header, and at both ends of the state.
    let flipped = [0, 4, 8, 16, 24, 28, CHECKPOINT_HEADER, bytes - 1].map(|at| at.to_string());
    format!(
        "MEMORY(checkpoint, {bytes}, 1);

static uint32_t refused(size_t bytes)
{{
    uint64_t steps = 77;
    memset(state, PATTERN, {state});
    uint32_t bad = {load}(state, &steps, checkpoint, bytes) == TRAINC_OK ? 1 : 0;
    int kept = steps == 77;
    for (size_t i = 0; i < {state}; i++) {{
        kept &= state[i] == PATTERN;
    }}
    return bad | (kept ? 0 : 2);
}}

static void save(uint64_t steps)
{{
    static const size_t flipped[] = {{ {flipped} }};
    guard(checkpoint, {bytes}, GUARD);
    memset(checkpoint, PATTERN, {bytes});
    guard(state, {state}, GUARD);
    {save}(state, steps, checkpoint);
    uint32_t damage = damaged(checkpoint, {bytes}, 2, GUARD);
    uint32_t failed = refused({bytes} - 1) | refused({bytes} + 1);
    for (size_t i = 0; i < sizeof flipped / sizeof flipped[0]; i++) {{
        checkpoint[flipped[i]] ^= 0x10;
        failed |= refused({bytes});
        checkpoint[flipped[i]] ^= 0x10;
    }}
    uint64_t loaded = 0;
    failed |= {load}(state, &loaded, checkpoint, {bytes}) == TRAINC_OK ? 0 : 4;
    damage |= damaged(checkpoint, {bytes}, 2, GUARD) | damaged(state, {state}, 1, GUARD);
    putchar({SAVED});
    out(&damage, 4);
    out(&failed, 4);
    out(checkpoint, {bytes});
    out(&loaded, 8);
    out(state, {state});
    fflush(stdout);
}}

",
        flipped = flipped.join(", "),
    )
}

/// Memory of a call with its bytes: arena, state, operands, results.
fn places(program: &Program, n: usize, entry: &Entry) -> Vec<(String, usize)> {
    let memory = &program.memory;
    let mut all =
        vec![("arena".to_string(), memory.arena_bytes), ("state".into(), memory.state_bytes)];
    for (i, argument) in entry.inputs.iter().chain(&entry.outputs).enumerate() {
        all.push((format!("e{n}_{i}"), program.buffer(argument.buffer).bytes()));
    }
    all
}

/// How much of a guard lies behind a place of an entry: arena, state, operands, results.
fn after(entry: &Entry, place: usize) -> &'static str {
    let operands = 2..2 + entry.inputs.len();
    if operands.contains(&place) { "AFTER" } else { "GUARD" }
}

/// The function that says which places of an entry were written beyond their end.
fn guards(program: &Program, n: usize, entry: &Entry) -> String {
    let mut out = format!("\nstatic uint32_t guards_{n}(void)\n{{\n    uint32_t bad = 0;\n");
    for (i, (name, bytes)) in places(program, n, entry).iter().enumerate() {
        let after = after(entry, i);
        let _ = writeln!(out, "    bad |= damaged({name}, {bytes}, {i}, {after});");
    }
    out.push_str("    return bad;\n}\n");
    out
}

/// The statement that writes a result of a launch.
fn result(
    program: &Program,
    (n, entry): (usize, &Entry),
    window: Option<&SharedWindow>,
    id: BufferId,
) -> String {
    let buffer = program.buffer(id);
    if let Some(window) = window {
        let base = match buffer.region {
            Region::Arena => window.arena,
            Region::State { .. } => window.state,
            Region::Output(i) => window.arguments[n][entry.inputs.len() + i],
            Region::Constant(_) | Region::Input(_) => return String::new(),
        };
        return format!(" out({WINDOW} + {}, {});", base + buffer.offset, buffer.bytes());
    }
    let place = match buffer.region {
        Region::Arena => "arena".to_string(),
        Region::State { .. } => "state".to_string(),
        Region::Output(i) => format!("e{n}_{}", entry.inputs.len() + i),
        // A program that was checked writes nothing else.
        Region::Constant(_) | Region::Input(_) => return String::new(),
    };
    format!(" out({place} + {}, {});", buffer.offset, buffer.bytes())
}

/// The function that calls an entry.
fn call(program: &Program, n: usize, entry: &Entry, function: &HarnessFunction) -> String {
    let mut out = format!("static void call_{n}(uint64_t seed, uint32_t step)\n{{\n");
    let mut line = |text: &str| {
        let _ = writeln!(out, "    {text}");
    };
    line("(void)seed;");
    line("(void)step;");
    let memory = &program.memory;
    let mut arguments = vec!["arena".to_string(), "state".to_string()];
    if function.random {
        arguments.extend(["seed".to_string(), "step".to_string()]);
    }
    let places = places(program, n, entry);
    line(&format!("memset(arena, PATTERN, {});", memory.arena_bytes));
    for (i, argument) in entry.inputs.iter().chain(&entry.outputs).enumerate() {
        let buffer = program.buffer(argument.buffer);
        let (name, bytes) = (format!("e{n}_{i}"), buffer.bytes());
        if i < entry.inputs.len() {
            line(&format!("in({name}, {bytes});"));
        } else {
            line(&format!("memset({name}, PATTERN, {bytes});"));
        }
        if function.by_value.get(i).copied().unwrap_or(false) {
            let ty = match buffer.ty.element {
                Element::F32 => "float",
                Element::U32 => "uint32_t",
                _ => "int32_t",
            };
            line(&format!("{ty} v{i};"));
            line(&format!("memcpy(&v{i}, {name}, 4);"));
            arguments.push(format!("v{i}"));
        } else {
            arguments.push(format!("(void *){name}"));
        }
    }
    for (i, (name, bytes)) in places.iter().enumerate() {
        let after = after(entry, i);
        line(&format!("guard({name}, {bytes}, {after});"));
    }
    line(&format!("MARK(UINT32_C({}));", trainc_ir::harness::CALL | n as u32));
    line(&format!("MARK(UINT32_C({}));", trainc_ir::harness::CALL | n as u32));
    line(&format!("{}({});", function.symbol, arguments.join(", ")));
    line(&format!("MARK(UINT32_C({}));", trainc_ir::harness::CALL | n as u32));
    line(&format!("uint32_t bad = guards_{n}();"));
    line(&format!("putchar({CALLED});"));
    line("out(&bad, 4);");
    for (name, bytes) in &places[2 + entry.inputs.len()..] {
        line(&format!("out({name}, {bytes});"));
    }
    line(&format!("out(state, {});", memory.state_bytes));
    line("fflush(stdout);");
    out.push_str("}\n\n");
    out
}
