//! Phases in parts: of a kernel that is worth it, C functions that divide the rounds of a phase by `TRAINC_PARALLEL_FOR`, among a
//! processor's hardware threads.

use std::fmt::Write as _;

use crate::kernels::{Kernel, in_parts};
use crate::machine::{Function, MachineError, Rounds};

/// Packets of a launch, as estimated, from which on its phases are divided: handing parts to threads costs microseconds.
pub(crate) const DIVIDED: u64 = 5_000;

/// A kernel's entry, and the C of what divides its phases.
///
/// # Errors
/// Of the machine layer.
pub(crate) fn entry(kernel: &Kernel, packets: u64) -> Result<(Function, String), MachineError> {
    if packets < DIVIDED {
        return Ok((kernel.entry()?, String::new()));
    }
    let phases = kernel.phases.iter().map(|phase| &phase.function);
    let divided = phases.filter_map(|function| Some(divided(function, function.range.as_ref()?)));
    let source = divided.collect();
    Ok((kernel.divided_entry()?, source))
}

/// The C function that an entry calls for a phase: it has the phase's parameters.
fn divided(function: &Function, rounds: &Rounds) -> String {
    let name = &function.name;
    let all = in_parts(name);
    let returns = function.result.is_some();
    let result = if returns { "int32_t" } else { "void" };
    let fields: Vec<String> = rounds.parameters.iter().map(|p| field(p)).collect();
    let parameters = fields.join(", ");
    let mut text = format!("struct {name} {{\n");
    for field in fields.iter().map(String::as_str).chain(returns.then_some("int32_t seen")) {
        let _ = writeln!(text, "    {field};");
    }
    text.push_str("};\n\n");
    let head = format!("{result} {name}({parameters},");
    let _ = writeln!(text, "{head}\n    int32_t first, int32_t rounds);");
    let hidden = "__attribute__((visibility(\"hidden\")))";
    let _ = writeln!(text, "{hidden}\n{result} {all}({parameters});\n");
    let _ =
        writeln!(text, "static void {name}_part(void *context, int32_t begin, int32_t end)\n{{");
    let _ = writeln!(text, "    struct {name} *const work = (struct {name} *)context;");
    let taken: Vec<String> = rounds.parameters.iter().map(|p| format!("work->{p}")).collect();
    let call = format!("{name}({},\n        begin, end - begin);", taken.join(", "));
    match returns {
        true => {
            let _ = writeln!(text, "    const int32_t seen = {call}");
            text.push_str("    (void)__atomic_fetch_or(&work->seen, seen, __ATOMIC_RELAXED);\n");
        }
        false => {
            let _ = writeln!(text, "    {call}");
        }
    }
    let given = rounds.parameters.iter().map(ToString::to_string);
    let given: Vec<String> = given.chain(returns.then(|| "0".to_string())).collect();
    let _ = writeln!(text, "}}\n\n{result} {all}({parameters})\n{{");
    let _ = writeln!(text, "    struct {name} work = {{ {} }};", given.join(", "));
    let _ = writeln!(text, "    TRAINC_PARALLEL_FOR(&work, {}, {name}_part);", rounds.count);
    if returns {
        text.push_str("    return work.seen;\n");
    }
    text.push_str("}\n\n");
    text
}

/// A parameter in C: the bits of magnitudes and a shift are numbers, all others are addresses.
fn field(name: &str) -> String {
    match name {
        "magnitudes" | "shift" => format!("int32_t {name}"),
        _ => format!("uint8_t *{name}"),
    }
}
