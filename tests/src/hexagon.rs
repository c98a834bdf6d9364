//! Runs Hexagon functions under the emulator: assembles them with `llvm-mc-19`, links with `ld.lld-19`, executes with
//! `qemu-hexagon`, and reads its packet counter around each call.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// An argument of a call.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    /// The address of this byte of the memory.
    Memory(usize),
    /// A number.
    Number(i32),
    /// What an earlier call returned.
    Result(usize),
}

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    /// Symbol.
    pub symbol: String,
    /// At most six arguments.
    pub arguments: Vec<Value>,
}

/// What a run left.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The memory.
    pub memory: Vec<u8>,
    /// r0 of each call.
    pub results: Vec<i32>,
    /// Packets of each call, the call itself included.
    pub packets: Vec<u32>,
}

/// The driver: reads the memory from standard input, makes the calls, writes memory and calls to standard output.
const DRIVER: &str = "
        .text
        .globl  _start
        .p2align 4
_start: { r16 = ##memory; r17 = ##memory_bytes }
read:   { p0 = cmp.gt(r17,#0); if (!p0.new) jump:nt begin }
        { r0 = #0; r1 = r16 }
        { r2 = r17; r6 = #63 }
        trap0(#1)
        { p0 = cmp.gt(r0,#0); if (!p0.new) jump:nt fail }
        { r16 = add(r16,r0); r17 = sub(r17,r0); jump read }
begin:  { r16 = ##calls; r17 = ##call_count }
next:   { r28 = memw(r16+#0); r0 = memw(r16+#4) }
        { r1 = memw(r16+#8); r2 = memw(r16+#12) }
        { r3 = memw(r16+#16); r4 = memw(r16+#20) }
        { r5 = memw(r16+#24) }
        .word   0x6a14c000|18
        { callr r28 }
        .word   0x6a14c000|1
        { r1 = sub(r1,r18); memw(r16+#28) = r0 }
        { memw(r16+#32) = r1 }
        { r2 = memw(r16+#36) }
        { memw(r2+#0) = r0 }
        { r2 = memw(r16+#40) }
        { memw(r2+#0) = r0 }
        { r16 = add(r16,#44); r17 = add(r17,#-1) }
        { p0 = cmp.gt(r17,#0); if (p0.new) jump:t next }
        { r16 = ##memory; r17 = ##memory_bytes+call_bytes }
write:  { p0 = cmp.gt(r17,#0); if (!p0.new) jump:nt done }
        { r0 = #1; r1 = r16 }
        { r2 = r17; r6 = #64 }
        trap0(#1)
        { p0 = cmp.gt(r0,#0); if (!p0.new) jump:nt fail }
        { r16 = add(r16,r0); r17 = sub(r17,r0); jump write }
done:   { r0 = #0; r6 = #94 }
        trap0(#1)
fail:   { r0 = #111; r6 = #94 }
        trap0(#1)
";

/// Bytes of a call's record.
const RECORD: usize = 44;

/// Runs calls on some memory (aligned to 128 bytes) in a folder that it may fill.
///
/// # Panics
/// If a tool is missing or anything fails; `version` is a number such as 66.
#[must_use]
pub fn run(folder: &Path, version: u32, assembly: &str, memory: &[u8], calls: &[Call]) -> Outcome {
    std::fs::create_dir_all(folder).expect("a folder");
    let padded = memory.len().next_multiple_of(128);
    let mut text = String::from(DRIVER);
    let bytes = calls.len() * RECORD;
    let _ = writeln!(text, "\t.set memory_bytes, {padded}\n\t.set call_count, {}", calls.len());
    let _ = writeln!(text, "\t.set call_bytes, {bytes}");
    let _ = writeln!(text, "\t.data\n\t.balign 128\nmemory:\t.space {padded}\ncalls:");
    for (index, call) in calls.iter().enumerate() {
        let _ = writeln!(text, "\t.word {}", call.symbol);
        for position in 0..6 {
            let _ = match call.arguments.get(position) {
                Some(Value::Memory(offset)) => writeln!(text, "\t.word memory+{offset}"),
                Some(Value::Number(number)) => writeln!(text, "\t.word {number}"),
                _ => writeln!(text, "\t.word 0"),
            };
        }
        let _ = writeln!(text, "\t.word 0, 0");
        // Up to two later arguments take the result.
        let mut uses: Vec<String> = Vec::new();
        for (later, call) in calls.iter().enumerate() {
            for (position, value) in call.arguments.iter().enumerate() {
                if matches!(value, Value::Result(from) if *from == index) {
                    uses.push(format!("calls+{}", later * RECORD + 4 * (position + 1)));
                }
            }
        }
        assert!(uses.len() <= 2, "a result with more than two uses");
        uses.resize(2, "dropped".into());
        let _ = writeln!(text, "\t.word {}, {}", uses[0], uses[1]);
    }
    // Kernels may read a little beyond a buffer.
    let _ = writeln!(text, "\t.space 256\ndropped: .word 0");
    text.push_str(assembly);
    std::fs::write(folder.join("program.S"), text).expect("the source is written");
    let cpu = format!("-mcpu=hexagonv{version}");
    let attributes = format!("-mattr=+hvxv{version},+hvx-length128b");
    tool(
        folder,
        "llvm-mc-19",
        &["-triple=hexagon", &cpu, &attributes, "-filetype=obj", "program.S", "-o", "program.o"],
    );
    tool(folder, "ld.lld-19", &["program.o", "-o", "program"]);
    let mut input = memory.to_vec();
    input.resize(padded, 0);
    let mut child = Command::new("qemu-hexagon")
        .args(["-cpu", "v67", "./program"])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("qemu-hexagon (Debian: qemu-user): {e}"));
    let mut stdin = child.stdin.take().expect("piped");
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("the program ends");
    let _ = writer.join();
    assert!(
        output.status.success() && output.stdout.len() == padded + bytes,
        "{}: {} after {} bytes\n{}",
        folder.display(),
        output.status,
        output.stdout.len(),
        String::from_utf8_lossy(&output.stderr)
    );
    let (left, records) = output.stdout.split_at(padded);
    let word = |call: usize, offset: usize| {
        let bytes = &records[call * RECORD + offset..][..4];
        i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    };
    Outcome {
        memory: left[..memory.len()].to_vec(),
        results: (0..calls.len()).map(|call| word(call, 28)).collect(),
        packets: (0..calls.len()).map(|call| word(call, 32).cast_unsigned()).collect(),
    }
}

fn tool(folder: &Path, program: &str, arguments: &[&str]) {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap_or_else(|e| panic!("{program} (Debian: llvm-19, lld-19): {e}"));
    assert!(
        output.status.success(),
        "{program} in {}:\n{}",
        folder.display(),
        String::from_utf8_lossy(&output.stderr[..output.stderr.len().min(4000)])
    );
}
