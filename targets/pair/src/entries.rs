//! The C of the processor's side: memory and connection, and entries that run segment after segment.

use trainc_c::interface::{Function, Interface, Passing};
use trainc_c::parts::{Lines, Window, segment_function};
use trainc_ir::names::shown;
use trainc_ir::program::{Entry, Program, Region, Step};

use crate::kernel::CPU;
use crate::segments::Segments;

/// What entries share: the connection, and the functions that set it up and tell of it.
pub(crate) fn connection(prefix: &str, number: u64, window: &Window, out: &mut Lines) {
    out.line("/* The other device, once there is one. */");
    out.open("static struct {");
    for line in [
        "uint8_t *window;",
        "int (*run)(void *context, uint32_t segment);",
        "void *context;",
        "int status;",
        "int (*start)(void *context, uint32_t segment);",
        "int (*join)(void *context, uint32_t segment);",
    ] {
        out.line(line);
    }
    out.close(&format!(
        "}} {prefix}_pair = {{\n    NULL, NULL, NULL, TRAINC_PAIR_UNCONNECTED, NULL, NULL\n}};"
    ));
    out.line("");
    out.open_function(&format!(
        "void {prefix}_connect(void *window, int (*run)(void *context, uint32_t segment), void *context)"
    ));
    out.line(&format!("const uint64_t number = UINT64_C({number:#018x});"));
    for line in [
        format!("{prefix}_pair.window = (uint8_t *)window;"),
        format!("{prefix}_pair.run = run;"),
        format!("{prefix}_pair.context = context;"),
        format!("{prefix}_pair.start = NULL;"),
        format!("{prefix}_pair.join = NULL;"),
        format!(
            "{prefix}_pair.status = window == NULL ? TRAINC_PAIR_UNCONNECTED : TRAINC_PAIR_OK;"
        ),
    ] {
        out.line(&line);
    }
    out.open("if (window != NULL) {");
    out.line("trainc_copy(window, &number, sizeof number);");
    out.close("}");
    out.close("}");
    out.line("");
    let hook = |name: &str| format!("int (*{name})(void *context, uint32_t segment)");
    out.open_function(&format!("void {prefix}_overlap({}, {})", hook("start"), hook("join")));
    out.line(&format!("{prefix}_pair.start = join == NULL ? NULL : start;"));
    out.line(&format!("{prefix}_pair.join = join;"));
    out.close("}");
    out.line("");
    out.open_function(&format!("int {prefix}_status(void)"));
    out.line(&format!("return {prefix}_pair.status;"));
    out.close("}");
    out.line("");
    out.open_function(&format!("size_t {prefix}_window_bytes(void)"));
    out.line(&format!("return {};", window.bytes));
    out.close("}");
}

/// The function that has the other device run a segment: 0, or what went wrong, which stays.
pub(crate) fn elsewhere(prefix: &str, out: &mut Lines) {
    out.line("");
    out.open_function(&format!("static int {prefix}_elsewhere(uint32_t segment)"));
    out.open(&format!("if ({prefix}_pair.run == NULL) {{"));
    out.line(&format!("{prefix}_pair.status = TRAINC_PAIR_UNCONNECTED;"));
    out.close("} else {");
    out.open_quietly();
    out.line(&format!("{prefix}_pair.status = {prefix}_pair.run({prefix}_pair.context, segment);"));
    out.close("}");
    out.line(&format!("return {prefix}_pair.status;"));
    out.close("}");
}

/// The functions that have the other device start with a segment, and wait for it: 0, or what went wrong, which stays. Without
/// hooks for that the first does all.
pub(crate) fn start_and_join(prefix: &str, out: &mut Lines) {
    for (name, done) in [
        ("start", format!("return {prefix}_elsewhere(segment);")),
        ("join", format!("return {prefix}_pair.status;")),
    ] {
        out.line("");
        out.open_function(&format!("static int {prefix}_{name}(uint32_t segment)"));
        out.open(&format!("if ({prefix}_pair.start == NULL) {{"));
        out.line(&done);
        out.close("}");
        out.line(&format!(
            "{prefix}_pair.status = {prefix}_pair.{name}({prefix}_pair.context, segment);"
        ));
        out.line(&format!("return {prefix}_pair.status;"));
        out.close("}");
    }
}

fn writes_state(program: &Program, entry: &Entry) -> bool {
    let state = |id: &_| matches!(program.buffer(*id).region, Region::State { .. });
    entry.steps.iter().any(|step| match step {
        Step::Launch(launch) => launch.outputs.iter().any(state),
        Step::Branch { .. } => true,
    })
}

/// An entry: what it is given into the window, the segments, and what came of it out of the window. Where a segment fails
/// the caller's state and results are as they were.
pub(crate) fn entry(
    program: &Program,
    (number, function): (usize, &Function),
    interface: &Interface,
    window: &Window,
    segments: &Segments<'_>,
    out: &mut Lines,
) {
    let entry = &program.entries[number];
    let (prefix, macros) = (&interface.prefix, interface.macros());
    let Window { run, state, arguments, .. } = window;
    out.line("");
    out.comment(&[format!("Entry `{}`: see the header.", shown(&entry.name))]);
    out.open_function(&function.prototype());
    out.line(&format!("uint8_t *const a = {prefix}_pair.window;"));
    if function.random {
        out.line("const int32_t run[3] = {");
        out.line("    (int32_t)(uint32_t)seed, (int32_t)(uint32_t)(seed >> 32), (int32_t)step,");
        out.line("};");
    }
    out.line("(void)arena;");
    let stateful = program.memory.state_bytes > 0;
    if !stateful {
        out.line("(void)state;");
    }
    out.open(&format!("if ({prefix}_pair.status != TRAINC_PAIR_OK) {{"));
    out.line("return;");
    out.close("}");
    if function.random {
        out.line(&format!("trainc_copy(a + {run}, run, sizeof run);"));
    }
    if stateful {
        out.line(&format!("trainc_copy(a + {state}, state, {macros}_STATE_BYTES);"));
    }
    let places = entry.inputs.iter().chain(&entry.outputs).zip(&function.parameters);
    let places = places.zip(&arguments[number]);
    let mut results = Vec::new();
    for ((argument, parameter), at) in places {
        let (name, bytes) = (&parameter.name, program.buffer(argument.buffer).bytes());
        match parameter.passing {
            _ if bytes == 0 => out.line(&format!("(void){name};")),
            Passing::Value => out.line(&format!("trainc_copy(a + {at}, &{name}, {bytes});")),
            Passing::Read => out.line(&format!("trainc_copy(a + {at}, {name}, {bytes});")),
            Passing::Write => results.push(format!("trainc_copy({name}, a + {at}, {bytes});")),
        }
    }
    out.line("");
    let call = |name: &str, number: usize, out: &mut Lines| {
        out.open(&format!("if ({prefix}_{name}({number}) != TRAINC_PAIR_OK) {{"));
        out.line("return;");
        out.close("}");
    };
    for (device, segment) in segments.all.iter().filter(|(_, s)| s.entry == number) {
        let own = segment.number;
        match (*device == CPU, segments.beside.contains_key(&own)) {
            (true, _) => out.line(&format!("{}(a);", segment_function(interface, own))),
            (false, true) => call("start", own, out),
            (false, false) => call("elsewhere", own, out),
        }
        let done = segments.beside.iter().filter(|(_, last)| **last == own);
        done.for_each(|(&there, _)| call("join", there, out));
    }
    out.line("");
    results.iter().for_each(|line| out.line(line));
    if stateful && writes_state(program, entry) {
        out.line(&format!("trainc_copy(state, a + {state}, {macros}_STATE_BYTES);"));
    }
    out.close("}");
}
