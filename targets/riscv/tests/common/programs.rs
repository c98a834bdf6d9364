//! Random programs in assembly: straight lines, branches, loops, calls and accesses of memory; what they leave in the
//! registers and in memory is their output.

use std::fmt::Write as _;

use trainc_riscv::decode::{Action, Field, Row, rows};

use super::Random;

/// Which program to write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// RV32IMC alone, starting by itself: a Linux program too.
    Standalone,
    /// With XpulpV2 as words, as the `main` of start-up code.
    Pulp,
}

/// Bytes of memory that a program reads and writes, and then its registers.
const AREA: u32 = 1024;
/// Registers that compute. x2, x8 and x9 point into the area, x4 counts, x3 is left alone, x1 links.
const FREE: [u32; 25] = [
    5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
];
const BASES: [u32; 3] = [2, 8, 9];

struct Writer {
    random: Random,
    kind: Kind,
    text: String,
    labels: u32,
}

/// A program.
pub(crate) fn program(seed: u64, kind: Kind) -> String {
    let mut w = Writer { random: Random(seed), kind, text: String::new(), labels: 0 };
    w.begin();
    let blocks = 12;
    for block in 0..blocks {
        w.line(&format!("block{block}:"));
        w.pointers();
        w.block();
        let target = (block + 1 + w.random.below(3)).min(blocks);
        w.branch(&format!("block{target}"));
    }
    w.line(&format!("block{blocks}:"));
    w.end();
    w.text
}

impl Writer {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn label(&mut self) -> String {
        self.labels += 1;
        format!(".Lrandom{}", self.labels)
    }

    fn free(&mut self) -> u32 {
        self.random.pick(&FREE)
    }

    /// A register to be read.
    fn source(&mut self) -> u32 {
        let any = self.random.below(12);
        match any {
            0 => 0,
            1 => self.random.pick(&BASES),
            _ => self.free(),
        }
    }

    fn begin(&mut self) {
        let start = if self.kind == Kind::Standalone { "_start" } else { "main" };
        self.line(&format!(".text\n.balign 4\n.globl {start}\n{start}:\nla x5, saved"));
        for register in 1..32 {
            self.line(&format!("sw x{register}, {}(x5)", 4 * register));
        }
        for register in FREE {
            let value = self.random.operand() as i32;
            self.line(&format!("li x{register}, {value}"));
        }
    }

    fn pointers(&mut self) {
        for base in BASES {
            let at = AREA / 2 + self.random.below(5) - 2;
            let at = if base == 2 { at & !3 } else { at };
            self.line(&format!("la x{base}, area + {at}"));
        }
    }

    fn block(&mut self) {
        for _ in 0..1 + self.random.below(4) {
            match self.random.below(8) {
                0 => self.counted(),
                1 => self.call(),
                2 => self.jump_through_memory(),
                4 => self.stack_addresses(),
                3 if self.kind == Kind::Pulp => self.hardware_loop(),
                _ => self.straight(),
            }
        }
    }

    /// Addresses from the stack pointer, which no other instruction changes.
    fn stack_addresses(&mut self) {
        let (rd, near) = (8 + 2 + self.random.below(6), 4 * (1 + self.random.below(255)));
        self.line(&format!("c.addi4spn x{rd}, x2, {near}"));
        let far = 16 * (1 + self.random.below(31)) as i32;
        let far = if self.random.below(2) == 0 { far } else { -far };
        self.line(&format!("c.addi16sp x2, {far}\nmv x{rd}, x2\nla x2, area + {}", AREA / 2));
    }

    fn straight(&mut self) {
        for _ in 0..1 + self.random.below(8) {
            self.instruction();
        }
    }

    fn counted(&mut self) {
        let label = self.label();
        let count = 1 + self.random.below(4);
        self.line(&format!("li x4, {count}\n{label}:"));
        self.pointers();
        self.straight();
        self.line(&format!("addi x4, x4, -1\nbnez x4, {label}"));
    }

    fn call(&mut self) {
        let (function, after) = (self.label(), self.label());
        let how = self.random.below(5);
        match how {
            3 => self.line(&format!("c.jal {function}")),
            4 => self.line(&format!("la x1, {function}\nc.jalr x1")),
            0 => self.line(&format!("jal x1, {function}")),
            1 => self.line(&format!("la x1, {function}\njalr x1, x1, 0")),
            _ => {
                self.line(&format!("la x1, {function}"));
                self.instruction();
                self.line("jalr x1, 0(x1)");
            }
        }
        self.line(&format!("j {after}\n{function}:"));
        self.straight();
        self.line(&format!("ret\n{after}:"));
    }

    fn jump_through_memory(&mut self) {
        let (place, target) = (self.label(), self.label());
        self.line(&format!(".section .rodata\n.balign 4\n{place}: .word {target}\n.text"));
        self.line(&format!("la x1, {place}\nlw x1, 0(x1)"));
        for _ in 0..self.random.below(3) {
            self.instruction();
        }
        self.line("jr x1");
        self.straight();
        self.line(&format!("{target}:"));
    }

    /// A loop of instructions of four bytes, which may begin anywhere.
    fn hardware_loop(&mut self) {
        let number = self.random.below(2);
        let count = 1 + self.random.below(5);
        self.line(".option push\n.option norvc\n.option norelax");
        let (last, length) = (self.label(), 3 + self.random.below(6));
        if self.random.below(2) == 0 {
            self.line(&format!(".4byte 0x507b|{number}<<7|{count}<<20|((({last}-.)/2)<<15)"));
        } else {
            let register = self.free();
            self.line(&format!("li x{register}, {count}"));
            self.line(&format!(".4byte 0x407b|{number}<<7|{register}<<15|((({last}-.)/2)<<20)"));
        }
        for at in 0..length {
            if at + 1 == length {
                self.line(&format!("{last}:"));
            }
            self.simple();
        }
        self.line(".option pop");
    }

    fn branch(&mut self, target: &str) {
        let name = self.random.pick(&["beq", "bne", "blt", "bge", "bltu", "bgeu"]);
        let (a, b) = (self.source(), self.source());
        if self.kind == Kind::Pulp && self.random.below(4) == 0 {
            let skip = self.label();
            let funct3 = 2 + self.random.below(2);
            let number = self.random.below(32);
            self.line(&format!(
                ".4byte 0x63|{funct3}<<12|{a}<<15|{number}<<20|((({skip}-.)/2&15)<<8)"
            ));
            self.instruction();
            self.line(&format!("{skip}:"));
        }
        self.line(&format!("{name} x{a}, x{b}, {target}"));
        self.instruction();
    }

    fn instruction(&mut self) {
        if self.kind == Kind::Pulp && self.random.below(3) > 0 {
            return self.pulp();
        }
        self.simple();
    }

    /// An instruction that stays in order, without aliases that take two.
    fn simple(&mut self) {
        let (rd, a, b) = (self.free(), self.source(), self.source());
        match self.random.below(10) {
            0 | 1 => self.access(),
            2 | 3 if self.kind == Kind::Pulp => self.pulp(),
            2 => {
                let name = self
                    .random
                    .pick(&["mul", "mulh", "mulhsu", "mulhu", "div", "divu", "rem", "remu"]);
                self.line(&format!("{name} x{rd}, x{a}, x{b}"));
            }
            3 => {
                let upper = self.random.below(1 << 20);
                let name = self.random.pick(&["lui", "lui", "auipc"]);
                self.line(&format!("{name} x{rd}, {upper}"));
            }
            4 | 5 => {
                let name = self.random.pick(&["addi", "slti", "sltiu", "xori", "ori", "andi"]);
                let small = self.random.below(2) == 0;
                let value = if small { self.random.below(64) } else { self.random.below(4096) };
                let value = value as i32 - if small { 32 } else { 2048 };
                let a = if self.random.below(2) == 0 { rd } else { a };
                self.line(&format!("{name} x{rd}, x{a}, {value}"));
            }
            6 => {
                let name = self.random.pick(&["slli", "srli", "srai"]);
                let amount = self.random.below(32);
                let a = if self.random.below(2) == 0 { rd } else { a };
                self.line(&format!("{name} x{rd}, x{a}, {amount}"));
            }
            _ => {
                let name = self
                    .random
                    .pick(&["add", "sub", "sll", "slt", "sltu", "xor", "srl", "sra", "or", "and"]);
                let a = if self.random.below(2) == 0 { rd } else { a };
                self.line(&format!("{name} x{rd}, x{a}, x{b}"));
            }
        }
    }

    fn access(&mut self) {
        let base = self.random.pick(&BASES);
        let register = self.free();
        let offset = match self.random.below(3) {
            0 => 4 * self.random.below(32) as i32,
            1 => 4 * self.random.below(64) as i32 - 128,
            _ => self.random.below(512) as i32 - 256,
        };
        let name =
            self.random.pick(&["lb", "lh", "lw", "lw", "lbu", "lhu", "sb", "sh", "sw", "sw"]);
        self.line(&format!("{name} x{register}, {offset}(x{base})"));
    }

    /// An instruction of the PULP extension, as a word.
    fn pulp(&mut self) {
        let is = |row: &&Row| {
            let name = row.name.as_str();
            let in_order = !matches!(row.action, Action::Loop(_) | Action::BranchImmediate(_));
            in_order && (name.starts_with("p.") || name.starts_with("pv."))
        };
        let pulp: Vec<&Row> = rows().iter().filter(is).collect();
        let row = pulp[self.random.below(pulp.len() as u32) as usize];
        let mut word = row.pattern | self.random.bits() as u32 & !row.mask;
        let mut set = |low: u32, value: u32| {
            if row.mask >> low & 31 == 0 {
                word = word & !(31 << low) | value << low;
            }
        };
        let (rd, a, b) = (self.free(), self.source(), self.source());
        set(7, rd);
        set(15, a);
        if !matches!(row.operands.immediate, Field::Rs2 | Field::Bits | Field::Bound)
            && row.operands.rs2
        {
            set(20, b);
        }
        if let Action::Load(access) | Action::Store(access) = row.action {
            // Addresses stay inside of the area: register offsets are x0 or what a load of a byte gives.
            let base = self.random.pick(&BASES[1..]);
            set(15, base);
            let offset = self.random.below(64) as i32 - 32;
            let load = matches!(row.action, Action::Load(_));
            let offset_register = if self.random.below(3) == 0 { 0 } else { 5 };
            match (access.addressing as u8, load) {
                (0 | 2, true) => word = word & 0xf_ffff | (offset as u32) << 20,
                (0 | 2, false) => {
                    word =
                        word & 0x01ff_f07f | (offset as u32 >> 5) << 25 | (offset as u32 & 31) << 7;
                }
                (_, true) => set(20, offset_register),
                (_, false) => set(7, offset_register),
            }
            // Keeps the pointers where they can be added to: near the middle.
            self.line("andi x5, x5, 31");
            _ = writeln!(self.text, ".4byte {word:#010x} # {}", row.name);
            self.line(&format!("la x{base}, area + {}", AREA / 2));
            return;
        }
        _ = writeln!(self.text, ".4byte {word:#010x} # {}", row.name);
    }

    fn end(&mut self) {
        // Results after the area; the stack pointer is for the program's environment again.
        self.line("la x1, area");
        for register in 4..32 {
            self.line(&format!("sw x{register}, {}(x1)", AREA + 4 * register));
        }
        self.line("la x5, saved\nlw x2, 8(x5)");
        self.line(&format!("li a0, 1\nla a1, area\nli a2, {}\nli a7, 64\necall", AREA + 128));
        self.line("li a0, 0\nli a7, 93\necall");
        self.line(".data\n.balign 16\nsaved: .space 128\n.balign 16\narea:");
        for _ in 0..AREA / 4 {
            let value = self.random.operand();
            self.line(&format!(".word {value:#x}"));
        }
        self.line(".space 128");
    }
}
