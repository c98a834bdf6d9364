//! Compressed instructions against GNU's assembler: each one, with every immediate, expands to the word that the
//! assembler makes of what the specification says that it stands for.

use std::fmt::Write as _;
use std::process::Command;

use trainc_riscv::toolchain::{COMPILER, FLAGS};
use trainc_riscv::{Machine, Memory, compressed};

/// Pairs of a compressed instruction and its long form.
fn pairs() -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut pair = |short: String, long: String| all.push((short, long));
    let short_registers = [(8, 15), (15, 8), (10, 13), (9, 12)];
    let registers = [(1, 31), (31, 1), (5, 16), (10, 2)];
    for (d, s) in short_registers {
        for offset in (0..128).step_by(4) {
            pair(format!("c.lw x{d}, {offset}(x{s})"), format!("lw x{d}, {offset}(x{s})"));
            pair(format!("c.sw x{d}, {offset}(x{s})"), format!("sw x{d}, {offset}(x{s})"));
        }
        for near in (4..1024).step_by(4) {
            pair(format!("c.addi4spn x{d}, x2, {near}"), format!("addi x{d}, x2, {near}"));
        }
        for name in ["sub", "xor", "or", "and"] {
            pair(format!("c.{name} x{d}, x{s}"), format!("{name} x{d}, x{d}, x{s}"));
        }
        for amount in 1..32 {
            pair(format!("c.srli x{d}, {amount}"), format!("srli x{d}, x{d}, {amount}"));
            pair(format!("c.srai x{d}, {amount}"), format!("srai x{d}, x{d}, {amount}"));
        }
        for value in -32..32 {
            pair(format!("c.andi x{d}, {value}"), format!("andi x{d}, x{d}, {value}"));
        }
        for offset in (-256..256).step_by(2) {
            pair(format!("c.beqz x{d}, . + {offset}"), format!("beq x{d}, x0, . + {offset}"));
            pair(format!("c.bnez x{d}, . + {offset}"), format!("bne x{d}, x0, . + {offset}"));
        }
    }
    for (d, s) in registers {
        for offset in (0..256).step_by(4) {
            pair(format!("c.lwsp x{d}, {offset}(x2)"), format!("lw x{d}, {offset}(x2)"));
            pair(format!("c.swsp x{d}, {offset}(x2)"), format!("sw x{d}, {offset}(x2)"));
        }
        for value in (-32..32).filter(|&value| value != 0) {
            pair(format!("c.addi x{d}, {value}"), format!("addi x{d}, x{d}, {value}"));
            pair(format!("c.li x{d}, {value}"), format!("addi x{d}, x0, {value}"));
            let upper = value & 0xfffff;
            pair(format!("c.lui x{d}, {upper}"), format!("lui x{d}, {upper}"));
        }
        for amount in 1..32 {
            pair(format!("c.slli x{d}, {amount}"), format!("slli x{d}, x{d}, {amount}"));
        }
        pair(format!("c.mv x{d}, x{s}"), format!("add x{d}, x0, x{s}"));
        pair(format!("c.add x{d}, x{s}"), format!("add x{d}, x{d}, x{s}"));
        pair(format!("c.jr x{d}"), format!("jalr x0, 0(x{d})"));
        pair(format!("c.jalr x{d}"), format!("jalr x1, 0(x{d})"));
    }
    for far in (-512..512).step_by(16).filter(|&far| far != 0) {
        pair(format!("c.addi16sp x2, {far}"), format!("addi x2, x2, {far}"));
    }
    for offset in (-2048..2048).step_by(2) {
        pair(format!("c.j . + {offset}"), format!("jal x0, . + {offset}"));
        pair(format!("c.jal . + {offset}"), format!("jal x1, . + {offset}"));
    }
    pair("c.nop".into(), "addi x0, x0, 0".into());
    pair("c.ebreak".into(), "ebreak".into());
    all
}

#[test]
fn compressed_instructions_stand_for_what_the_assembler_says() {
    let pairs = pairs();
    // Jumps may lead before the first and behind the last pair.
    let mut text = String::from(".globl _start\n.text\n.option norelax\n_start: .space 4096\n");
    for (short, long) in &pairs {
        _ = writeln!(text, ".option rvc\n{short}\n.option norvc\n{long}");
    }
    text.push_str(".space 4096\n");
    let folder =
        std::env::temp_dir().join(format!("trainc-riscv-compressed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (input, output) = (folder.join("pairs.S"), folder.join("pairs.elf"));
    std::fs::write(&input, text).expect("a file");
    let run = Command::new(COMPILER)
        .args(FLAGS)
        .args(["-Wl,--no-relax", "-Wl,-Ttext=0x80001000", "-o"])
        .args([&output, &input])
        .output()
        .unwrap_or_else(|error| panic!("{COMPILER} (Debian: gcc-riscv64-unknown-elf): {error}"));
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let mut machine = Machine::new(Memory::default());
    let program = machine.load(&std::fs::read(&output).expect("a file")).expect("a program");
    for (index, (short, long)) in pairs.iter().enumerate() {
        let at = program.entry + 4096 + 6 * index as u32;
        let half = machine.memory.load(at, 2).expect("memory") as u16;
        let word = machine.memory.load(at + 2, 4).expect("memory");
        assert_ne!(half & 3, 3, "{short} is compressed");
        assert_eq!(compressed::expand(half), Some(word), "{short} ({half:#06x}) is {long}");
    }
    std::fs::remove_dir_all(folder).expect("the folder goes");
}

/// Of the halfwords that are no long instructions, those are none at all that the specification reserves or leaves to
/// floats and 64 bits.
#[test]
fn reserved_words_are_illegal() {
    let illegal = |half: u16| {
        let of = |high: u32, low: u32| u32::from(half) >> low & ((2 << (high - low)) - 1);
        let rd = of(11, 7);
        match (of(1, 0), of(15, 13)) {
            (0, 0) => of(12, 5) == 0,
            (0, 2 | 6) => false,
            (0, _) => true,
            (1, 3) => of(12, 12) == 0 && of(6, 2) == 0,
            (1, 4) => match of(11, 10) {
                0 | 1 => of(12, 12) == 1,
                2 => false,
                _ => of(12, 12) == 1,
            },
            (1, _) => false,
            (2, 0) => of(12, 12) == 1,
            (2, 2) => rd == 0,
            (2, 4) => of(12, 12) == 0 && rd == 0 && of(6, 2) == 0,
            (2, 6) => false,
            _ => true,
        }
    };
    for half in (0..=u16::MAX).filter(|half| half & 3 != 3) {
        assert_eq!(compressed::expand(half).is_none(), illegal(half), "{half:#06x}");
    }
}
