//! A block as one assembler block for RI5CY.
//!
//! All registers are fixed, and nothing but parameters goes in or out, so that no limit of operands applies. Registers that a
//! function must save are saved here, in the block's own stack frame, which also holds the slots. No instruction is compressed:
//! hardware loops start at multiples of 4 and their ends are known distances.

use super::builder::constant;
use super::{Binary, Block, Immediate, Instruction, Item, Register, Slot, Ternary, Width};

/// Names of the machine's registers.
const NAMES: [&str; 32] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4",
    "a5", "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4",
    "t5", "t6",
];

/// Registers that a function leaves as they were; `ra` is one for us.
fn is_saved(number: u32) -> bool {
    matches!(number, 1 | 8 | 9 | 18..=27)
}

impl Block {
    /// Numbers of the registers that the block saves.
    pub(super) fn saved(&self) -> Vec<u32> {
        let mut saved: Vec<u32> = self.fixed.iter().copied().filter(|&n| is_saved(n)).collect();
        saved.sort_unstable();
        saved.dedup();
        saved
    }

    /// The assembler block with the parameters' variables before it, indented for a function's body.
    pub(crate) fn assembly(&self) -> String {
        let parameters = &self.slots[..self.parameters];
        let mut out = String::new();
        for (i, slot) in parameters.iter().enumerate() {
            let (ty, name) = (slot.kind.c_type(), &slot.name);
            out.push_str(&format!("    register {ty}a{i} __asm__(\"a{i}\") = {name};\n"));
        }
        out.push_str("    __asm__ volatile(\n");
        let mut lines = Lines { block: self, out: Vec::new(), label: 1 };
        lines.comment("Ends of hardware loops are known distances: no instruction is compressed.");
        lines.directive(".balign 4");
        lines.directive(".option push");
        lines.directive(".option norvc");
        lines.directive(".option norelax");
        let saved = self.saved();
        let frame = (4 * (self.slots.len() + saved.len())).next_multiple_of(16);
        let places = self.slots.iter().enumerate();
        let places: Vec<String> =
            places.map(|(i, slot)| format!("{} at {}(sp)", slot.name, 4 * i)).collect();
        lines.comment(&format!("The frame: {}", places.join(", ")));
        lines.directive(&format!("addi sp, sp, -{frame}"));
        for (i, &number) in saved.iter().enumerate() {
            let offset = 4 * (self.slots.len() + i);
            lines.directive(&format!("sw {}, {offset}(sp)", NAMES[number as usize]));
        }
        for i in 0..parameters.len() {
            lines.directive(&format!("sw a{i}, {}(sp)", 4 * i));
        }
        lines.items(&self.items);
        lines.comment("The caller's registers again.");
        for (i, &number) in saved.iter().enumerate() {
            let offset = 4 * (self.slots.len() + i);
            lines.directive(&format!("lw {}, {offset}(sp)", NAMES[number as usize]));
        }
        lines.directive(&format!("addi sp, sp, {frame}"));
        lines.directive(".option pop");
        out.push_str(&lines.out.concat());
        let operands: Vec<String> =
            (0..parameters.len()).map(|i| format!("\"+r\"(a{i})")).collect();
        let mut clobbers: Vec<u32> = self.fixed.clone();
        clobbers.retain(|&n| !is_saved(n) && !(10..10 + parameters.len() as u32).contains(&n));
        clobbers.sort_unstable();
        clobbers.dedup();
        let clobbers = clobbers.iter().map(|&n| format!("\"{}\"", NAMES[n as usize]));
        let clobbers: Vec<String> = clobbers.chain(["\"memory\"".to_string()]).collect();
        out.push_str(&format!("        : {}\n        :\n", operands.join(", ")));
        let clobbers = super::wrapped(&clobbers.join(", "));
        for (i, line) in clobbers.lines().enumerate() {
            let open = if i == 0 { "        : " } else { "          " };
            let close = if i + 1 == clobbers.lines().count() { ");" } else { "" };
            out.push_str(&format!("{open}{}{close}\n", line.trim()));
        }
        out
    }
}

/// Instructions of a list, each 4 bytes.
fn length(items: &[Item]) -> u32 {
    items
        .iter()
        .map(|item| match item {
            Item::Comment(..) => 0,
            Item::One(_) => 1,
            Item::HardwareLoop { count, rounds, body, .. } => {
                constant(*count, *rounds).len() as u32 + 1 + length(body)
            }
            Item::Repeat { body, .. } => 4 + length(body),
        })
        .sum()
}

struct Lines<'b> {
    block: &'b Block,
    out: Vec<String>,
    /// Next number of a label.
    label: u32,
}

impl Lines<'_> {
    fn directive(&mut self, text: &str) {
        self.out.push(format!("        \"{text}\\n\\t\"\n"));
    }

    /// A remark, broken at commas.
    fn comment(&mut self, text: &str) {
        let text = super::wrapped(&format!("/* {text} */"));
        for (i, line) in text.lines().enumerate() {
            let indent = if i == 0 { 8 } else { 11 };
            self.out.push(format!("{:indent$}{}\n", "", line.trim_start()));
        }
    }

    /// An encoded instruction with its name in the manual.
    fn encoded(&mut self, text: &str, means: &str) {
        let code = format!("        \"{text}\\n\\t\"");
        self.out.push(format!("{code:<62} /* {means} */\n"));
    }

    fn number(&self, register: Register) -> u32 {
        self.block.fixed[register.0]
    }

    fn items(&mut self, items: &[Item]) {
        for item in items {
            match item {
                Item::Comment(text, registers) => {
                    let named = registers.iter().map(|&register| {
                        let machine = NAMES[self.number(register) as usize];
                        format!("{} in {machine}", self.block.registers[register.0].name)
                    });
                    let named: Vec<String> = named.collect();
                    let colon = if named.is_empty() { "" } else { ": " };
                    self.comment(&format!("{text}{colon}{}", named.join(", ")));
                }
                Item::One(instruction) => self.instruction(instruction),
                Item::HardwareLoop { level, count, rounds, body } => {
                    let number = constant(*count, *rounds);
                    number.iter().for_each(|instruction| self.instruction(instruction));
                    let (count, instructions) = (self.number(*count), length(body));
                    assert!(
                        instructions >= 3 && matches!(body.last(), Some(Item::One(_))),
                        "a hardware loop has three instructions and ends with one"
                    );
                    // To the last instruction of the body, in halves.
                    let distance = 2 * instructions;
                    assert!(distance < 1 << 12, "a hardware loop ends near its start");
                    let word = distance << 20 | count << 15 | 4 << 12 | level << 7 | 0x7b;
                    let means =
                        format!("lp.setup x{level}, {}, {instructions}", NAMES[count as usize]);
                    self.encoded(&format!(".4byte {word:#010x}"), &means);
                    self.items(body);
                }
                Item::Repeat { counter, temporary, body } => {
                    let label = self.label;
                    self.label += 1;
                    self.directive(&format!("{label}:"));
                    self.items(body);
                    let (slot, name) =
                        (self.slot(*counter), NAMES[self.number(*temporary) as usize]);
                    self.directive(&format!("lw {name}, {slot}"));
                    self.directive(&format!("addi {name}, {name}, -1"));
                    self.directive(&format!("sw {name}, {slot}"));
                    self.directive(&format!("bnez {name}, {label}b"));
                }
            }
        }
    }

    fn slot(&self, slot: Slot) -> String {
        format!("{}(sp)", 4 * slot.0)
    }

    fn instruction(&mut self, instruction: &Instruction) {
        let n = |register: Register| NAMES[self.number(register) as usize];
        let (text, means) = match *instruction {
            Instruction::Constant(d, value) => (format!("li {}, {value}", n(d)), None),
            Instruction::UpperConstant(d, value) => {
                (format!("lui {}, {:#x}", n(d), value >> 12), None)
            }
            Instruction::Binary(op, d, a, b) => {
                let (d, a, b) = (n(d), n(a), n(b));
                let (name, code) = match op {
                    Binary::Add => ("add", None),
                    Binary::Subtract => ("sub", None),
                    Binary::Multiply => ("mul", None),
                    Binary::SetLess => ("slt", None),
                    Binary::Xor => ("xor", None),
                    Binary::And => ("and", None),
                    Binary::Minimum => ("p.min", Some("0x33, 4, 0x02")),
                    Binary::Maximum => ("p.max", Some("0x33, 6, 0x02")),
                };
                let plain = format!("{name} {d}, {a}, {b}");
                match code {
                    None => (plain, None),
                    Some(code) => (format!(".insn r {code}, {d}, {a}, {b}"), Some(plain)),
                }
            }
            Instruction::Ternary(op, d, a, b) => {
                let (d, a, b) = (n(d), n(a), n(b));
                let (name, code) = match op {
                    Ternary::DotUnsigned => ("pv.sdotusp.b", "0x57, 1, 0x54"),
                    Ternary::DotSigned => ("pv.sdotsp.b", "0x57, 1, 0x5c"),
                    Ternary::MultiplySubtract => ("p.msu", "0x33, 1, 0x21"),
                    Ternary::PackLow => ("pv.packlo.b", "0x57, 1, 0x70"),
                    Ternary::PackHigh => ("pv.packhi.b", "0x57, 1, 0x6c"),
                };
                (format!(".insn r {code}, {d}, {a}, {b}"), Some(format!("{name} {d}, {a}, {b}")))
            }
            Instruction::Immediate(op, d, a, value) => {
                let (d, a) = (n(d), n(a));
                // pv.*.sci.b: the lowest bit of the number is bit 25, the others stand in the place of rs2.
                let bytes = |name: &str, function: u32| {
                    let (high, low) = (value >> 1, value & 1);
                    let code = format!(
                        ".insn r 0x57, 7, {:#04x}, {d}, {a}, x{high}",
                        function + low as u32
                    );
                    (code, Some(format!("pv.{name}.sci.b {d}, {a}, {value}")))
                };
                let clip = |name: &str, function: u32| {
                    let code = format!(".insn r 0x33, {function}, 0x0a, {d}, {a}, x{value}");
                    (code, Some(format!("{name} {d}, {a}, {value}")))
                };
                match op {
                    Immediate::Add => (format!("addi {d}, {a}, {value}"), None),
                    Immediate::Xor => (format!("xori {d}, {a}, {value}"), None),
                    Immediate::ShiftLeft => (format!("slli {d}, {a}, {value}"), None),
                    Immediate::ShiftRight => (format!("srli {d}, {a}, {value}"), None),
                    Immediate::ShiftBytesLeft => bytes("sll", 0x28),
                    Immediate::ShiftBytesRight => bytes("sra", 0x24),
                    Immediate::ShiftBytesRightUnsigned => bytes("srl", 0x20),
                    Immediate::Clip => clip("p.clip", 1),
                    Immediate::ClipUnsigned => clip("p.clipu", 2),
                }
            }
            Instruction::AddShift(d, a, b, shift) => {
                let (d, a, b) = (n(d), n(a), n(b));
                let code = format!(".insn r 0x5b, 2, {shift:#04x}, {d}, {a}, {b}");
                (code, Some(format!("p.addN {d}, {a}, {b}, {shift}")))
            }
            Instruction::Insert(d, a, width, offset) => {
                let (d, a, function) = (n(d), n(a), 0x60 + width - 1);
                let code = format!(".insn r 0x33, 2, {function:#04x}, {d}, {a}, x{offset}");
                (code, Some(format!("p.insert {d}, {a}, {}, {offset}", width - 1)))
            }
            Instruction::Load(d, address, offset) => {
                (format!("lw {}, {offset}({})", n(d), n(address)), None)
            }
            Instruction::LoadStep(d, address, step) => {
                let (d, address) = (n(d), n(address));
                let code = format!(".insn i 0x0b, 2, {d}, {step}({address})");
                (code, Some(format!("p.lw {d}, {step}({address}!)")))
            }
            Instruction::Store(width, value, address, offset) => {
                (format!("{} {}, {offset}({})", store(width).0, n(value), n(address)), None)
            }
            Instruction::StoreStep(width, value, address, step) => {
                let (value, address, (name, function)) = (n(value), n(address), store(width));
                let code = format!(".insn s 0x2b, {function}, {value}, {step}({address})");
                (code, Some(format!("p.{name} {value}, {step}({address}!)")))
            }
            Instruction::LoadSlot(d, slot) => (format!("lw {}, {}", n(d), self.slot(slot)), None),
            Instruction::StoreSlot(a, slot) => (format!("sw {}, {}", n(a), self.slot(slot)), None),
        };
        match means {
            Some(means) => self.encoded(&text, &means),
            None => self.directive(&text),
        }
    }
}

fn store(width: Width) -> (&'static str, u32) {
    match width {
        Width::Byte => ("sb", 0),
        Width::Half => ("sh", 1),
        Width::Word => ("sw", 2),
    }
}
