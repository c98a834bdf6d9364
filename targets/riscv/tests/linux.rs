//! RV32IMC against QEMU: random programs, which both execute, leave the same registers and memory.

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use common::programs::{Kind, program};
use trainc_riscv::toolchain::{COMPILER, FLAGS};
use trainc_riscv::{Machine, Memory};

const PROGRAMS: u64 = 48;

/// A program that stands alone, at the simulator's memory.
fn build(source: &str, folder: &Path, seed: u64) -> Vec<u8> {
    let (input, output) = (folder.join(format!("{seed}.S")), folder.join(format!("{seed}.elf")));
    std::fs::write(&input, source).expect("a file");
    let run = Command::new(COMPILER)
        .args(FLAGS)
        // Nothing sets the global pointer.
        .args(["-Wl,--no-relax", "-Wl,-Ttext=0x80001000", "-Wl,-e,_start", "-o"])
        .args([&output, &input])
        .output()
        .unwrap_or_else(|error| panic!("{COMPILER} (Debian: gcc-riscv64-unknown-elf): {error}"));
    assert!(run.status.success(), "{seed}: {}", String::from_utf8_lossy(&run.stderr));
    std::fs::read(output).expect("the program")
}

/// Which compressed instruction a halfword is: quadrant and funct3, and what tells apart those that share them.
fn compressed(half: u32) -> Option<(u32, u32, u32)> {
    let (quadrant, funct3) = (half & 3, half >> 13);
    let more = match (quadrant, funct3) {
        (3, _) => return None,
        (1, 3) => u32::from(half >> 7 & 31 == 2),
        (1, 4) if half >> 10 & 3 == 3 => 4 + (half >> 5 & 3),
        (1, 4) => half >> 10 & 3,
        (2, 4) => half >> 12 & 1 | u32::from(half >> 2 & 31 == 0) << 1,
        _ => 0,
    };
    Some((quadrant, funct3, more))
}

#[test]
fn random_programs_end_as_in_qemu() {
    let folder = std::env::temp_dir().join(format!("trainc-riscv-linux-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut instructions = 0;
    let mut kinds = BTreeSet::new();
    for seed in 0..PROGRAMS {
        let file = build(&program(seed, Kind::Standalone), &folder, seed);
        let qemu = Command::new("qemu-riscv32")
            .arg(folder.join(format!("{seed}.elf")))
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| panic!("qemu-riscv32 (Debian: qemu-user): {error}"));
        assert!(qemu.status.success(), "seed {seed}: qemu {}", qemu.status);
        let mut machine = Machine::new(Memory::default());
        machine.load(&file).expect("a program");
        let exit = loop {
            kinds.extend(machine.memory.load(machine.pc, 2).and_then(compressed));
            match machine.step() {
                Ok(None) => assert!(machine.instructions < 1_000_000, "seed {seed}: no end"),
                Ok(Some(exit)) => break exit,
                Err(trap) => panic!("seed {seed}: {trap}"),
            }
        };
        assert_eq!(exit.code, 0);
        // 256 words of memory, then the registers from x4 on.
        assert_eq!(qemu.stdout.len(), 1152);
        let word = |bytes: &[u8], at: usize| bytes[4 * at..4 * at + 4].to_vec();
        for at in 0..288 {
            let (found, meant) = (word(machine.output(), at), word(&qemu.stdout, at));
            assert_eq!(found, meant, "seed {seed}: word {at}, x{}", at as i32 - 256);
        }
        instructions += machine.instructions;
    }
    assert!(instructions > 200 * PROGRAMS, "{instructions} instructions");
    // RV32C without floats and `c.ebreak`, `c.nop` being a `c.addi`.
    assert!(kinds.len() == 25, "{} kinds of compressed instructions: {kinds:?}", kinds.len());
    std::fs::remove_dir_all(folder).expect("the folder goes");
}
