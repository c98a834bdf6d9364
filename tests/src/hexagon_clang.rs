//! What a C compiler makes of the plain loops of an operation, for comparison.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use trainc_ir::loops::Role;
use trainc_ir::target::loop_scratch;
use trainc_ir::{Element, Op, TensorType};

use crate::hexagon::{Call, Value, run};
use crate::hexagon_convolution::Memory;

/// Packets of an operation's loops in C, compiled by `clang-19 -O3 -fvectorize` for HVX. Contents are zero: the loops'
/// run time does not depend on them, but for the shift.
///
/// # Panics
/// If a tool is missing or fails.
#[must_use]
pub fn clang_packets(
    folder: &Path,
    op: &Op,
    inputs: &[&TensorType],
    outputs: &[&TensorType],
) -> u32 {
    std::fs::create_dir_all(folder).expect("a folder");
    let kernel = op.lower(inputs, outputs);
    let mut source = String::from("#include \"trainc_rt.h\"\n");
    source.push_str(&trainc_c::function("plain", &kernel).expect("a function"));
    let mut memory = Memory { bytes: Vec::new() };
    let mut arguments: Vec<Value> = Vec::new();
    let mut parameters = String::new();
    let mut operands: Vec<String> = Vec::new();
    for buffer in kernel.buffers.iter().filter(|b| b.role != Role::Scratch) {
        // Exponents and other single numbers stay in the C code; arguments are few.
        if buffer.count == 1 && buffer.element == Element::I32 {
            let name = format!("number{}", operands.len());
            let _ = writeln!(source, "static int32_t {name}[1];");
            operands.push(name);
            continue;
        }
        let bytes = buffer.element.bytes(buffer.count);
        let at = memory.reserve(bytes);
        memory.bytes[at..].fill(1);
        arguments.push(Value::Memory(at));
        let _ = write!(parameters, "void *a{}, ", operands.len());
        operands.push(format!("a{}", operands.len()));
    }
    let scratch = loop_scratch(&kernel).1;
    if scratch > 0 {
        arguments.push(Value::Memory(memory.reserve(scratch)));
        parameters.push_str("uint8_t *scratch, ");
        operands.push("scratch".into());
    }
    let _ = writeln!(
        source,
        "void run_plain({}) {{ plain({}); }}",
        parameters.trim_end_matches(", "),
        operands.join(", ")
    );
    std::fs::write(folder.join("trainc_rt.h"), trainc_c::RUNTIME_HEADER).expect("the header");
    std::fs::write(folder.join("plain.c"), source).expect("the source");
    let output = Command::new("clang-19")
        .args(["--target=hexagon-unknown-none-elf", "-mv66", "-mhvx", "-mhvx-length=128b", "-O3"])
        .args(["-fvectorize", "-ffreestanding", "-fno-builtin", "-G0", "-S", "plain.c"])
        .current_dir(folder)
        .output()
        .unwrap_or_else(|e| panic!("clang-19 (Debian: clang-19): {e}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let assembly = std::fs::read_to_string(folder.join("plain.s")).expect("the assembly");
    let calls = [Call { symbol: "run_plain".into(), arguments }];
    run(folder, 66, &assembly, &memory.bytes, &calls).packets[0]
}
