//! Assembles functions, runs them under qemu-hexagon, gives back their memory.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of this module")]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use trainc_hvx::machine::Version;

/// Deterministic random numbers (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Bytes: uniform, small, or extreme words, halves and bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(count + 8);
        while out.len() < count {
            let word: u32 = match self.below(8) {
                0..=3 => self.next() as u32,
                4 => [0, 1, u32::MAX, 0x7fff_ffff, 0x8000_0000, 0x7fff_8000, 0x8000_7fff]
                    [self.below(7)],
                5 => [0x807f_ff01, 0x80ff_7f00, 0x8080_8080, 0x7f7f_7f7f][self.below(4)],
                6 => (self.below(64) as u32).wrapping_sub(32),
                _ => f32::to_bits((self.next() as i32 as f32) / (1u32 << self.below(31)) as f32),
            };
            out.extend(word.to_le_bytes());
        }
        out.truncate(count);
        out
    }
}

/// A folder of its own under the target folder.
pub fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&path).expect("a folder");
    path
}

/// llvm-mc on a text: success and messages.
pub fn assemble(text: &str, version: Version, name: &str) -> (PathBuf, bool, String) {
    let folder = folder("hvx");
    let (source, object) = (folder.join(format!("{name}.S")), folder.join(format!("{name}.o")));
    fs::write(&source, text).expect("written");
    let v = version.number();
    let output = Command::new("llvm-mc-19")
        .arg("-triple=hexagon")
        .arg(format!("-mcpu=hexagonv{v}"))
        .arg(format!("-mattr=+hvxv{v},+hvx-length128b"))
        .arg("-filetype=obj")
        .arg("-o")
        .args([&object, &source])
        .output()
        .expect("llvm-mc-19 runs");
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    (object, output.status.success(), messages)
}

/// Runs functions one after another, each with the address of its memory; gives the memories after, and the packets
/// that each took with the caller's overhead.
pub fn run(
    functions: &[(String, String, Vec<u8>)],
    version: Version,
    name: &str,
) -> Result<Vec<(Vec<u8>, u32)>, String> {
    let folder = folder("hvx");
    let mut text = String::from(
        "    .text\n    .globl _start\n    .p2align 4\n_start:\n    { r29 = and(r29,#-128) }\n",
    );
    let mut data = Vec::new();
    for (index, (symbol, _, memory)) in functions.iter().enumerate() {
        assert!(data.len() % 128 == 0);
        // r17 = packet counter before, r18 after; r19 keeps the place for the count.
        text.push_str(&format!(
            "    {{ r0 = ##memory+{} }}\n    .word 0x6a14c000|17\n    {{ call {symbol} }}\n    .word 0x6a14c000|18\n",
            data.len()
        ));
        text.push_str(&format!(
            "    {{ r1 = ##counts+{}; r18 = sub(r18,r17) }}\n    {{ memw(r1+#0) = r18 }}\n",
            4 * index
        ));
        data.extend_from_slice(memory);
        data.resize(data.len().next_multiple_of(128), 0);
    }
    let input = folder.join(format!("{name}.bin"));
    fs::write(&input, &data).expect("written");
    let counts = 4 * functions.len();
    text.push_str(
        &format!(
            "    {{ r0 = #1; r1 = ##memory; r2 = ##{}; r6 = #64 }}\n    trap0(#1)\n",
            data.len()
        )
        .replace("r0 = #1; r1 = ##memory; r2", "r0 = #1; r1 = ##memory }\n    { r2"),
    );
    text.push_str(&format!(
        "    {{ r0 = #1; r1 = ##counts }}\n    {{ r2 = ##{counts}; r6 = #64 }}\n    trap0(#1)\n"
    ));
    text.push_str("    { r0 = #0; r6 = #94 }\n    trap0(#1)\n");
    for (_, assembly, _) in functions {
        text.push_str(assembly);
    }
    text.push_str(&format!(
        "    .data\n    .balign 128\nmemory: .incbin \"{}\"\n    .bss\n    .balign 4\ncounts: .space {counts}\n",
        input.display()
    ));
    let (object, good, messages) = assemble(&text, version, name);
    if !good {
        return Err(messages);
    }
    let program = folder.join(format!("{name}.elf"));
    let linked = Command::new("ld.lld-19").arg(&object).arg("-o").arg(&program).output();
    let linked = linked.expect("ld.lld-19 runs");
    if !linked.status.success() {
        return Err(String::from_utf8_lossy(&linked.stderr).into_owned());
    }
    let result = folder.join(format!("{name}.out"));
    let mut qemu = Command::new("qemu-hexagon");
    if version >= Version::V68 {
        qemu.args(["-cpu", "v67"]);
    }
    let status = qemu
        .arg(&program)
        .stdin(Stdio::null())
        .stdout(fs::File::create(&result).expect("a file"))
        .status()
        .expect("qemu-hexagon runs");
    if !status.success() {
        return Err(format!("qemu-hexagon: {status}"));
    }
    let bytes = fs::read(&result).expect("results");
    assert_eq!(bytes.len(), data.len() + counts);
    let (mut at, mut out) = (0, Vec::new());
    for (index, (_, _, memory)) in functions.iter().enumerate() {
        let count = &bytes[data.len() + 4 * index..][..4];
        let count = u32::from_le_bytes([count[0], count[1], count[2], count[3]]);
        out.push((bytes[at..at + memory.len()].to_vec(), count));
        at += memory.len().next_multiple_of(128);
    }
    Ok(out)
}
