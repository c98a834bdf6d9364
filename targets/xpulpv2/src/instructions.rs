//! Lists of instructions that the compiler owns: inner loops whose every cycle matters.
//!
//! A [`Block`] is written once, over registers without number, and printed twice: as one assembler block with fixed
//! registers ([`Block::assembly`]), and as portable C of the same meaning ([`Block::portable`]). Addresses are pointers in C, so
//! that the portable form also runs on 64-bit machines. [`Block::cycles`] counts by RI5CY's rules.

mod assembly;
mod builder;
mod cycles;
mod portable;

pub(crate) use builder::Builder;

/// A register of a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Register(usize);

/// A place in the block's stack frame; parameters of the block start there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Slot(usize);

/// What a register or slot holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// 32 bits.
    Word,
    /// An address to read at.
    Source,
    /// An address to write at.
    Target,
}

impl Kind {
    /// Its type in C, to stand before a name.
    fn c_type(self) -> &'static str {
        match self {
            Kind::Word => "uint32_t ",
            Kind::Source => "const uint8_t *",
            Kind::Target => "uint8_t *",
        }
    }
}

/// Width of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Width {
    Byte,
    Half,
    Word,
}

/// Operations of two registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Binary {
    /// `a + b`; one of them may be an address.
    Add,
    /// `a - b`; of two addresses, their distance.
    Subtract,
    /// The lower half of the product.
    Multiply,
    /// 1 if `a < b` with signs, else 0.
    SetLess,
    /// Bit by bit.
    Xor,
    /// Bit by bit.
    And,
    /// The smaller, with signs.
    Minimum,
    /// The larger, with signs.
    Maximum,
}

/// Operations of a register that is read and written, `d`, and two others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ternary {
    /// `d` plus four products of bytes; those of `a` have no sign.
    DotUnsigned,
    /// `d` plus four products of bytes with signs.
    DotSigned,
    /// `d - a * b`; `d` may be an address.
    MultiplySubtract,
    /// The lower half of `d` becomes the lowest bytes of `a` and, below it, `b`.
    PackLow,
    /// The upper half of `d`.
    PackHigh,
}

/// Operations of a register and a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Immediate {
    /// Plus a number of 12 bits with sign; the register may hold an address.
    Add,
    /// Bit by bit with a number of 12 bits with sign.
    Xor,
    /// Of the word.
    ShiftLeft,
    /// Of the word, without sign.
    ShiftRight,
    /// Each byte.
    ShiftBytesLeft,
    /// Each byte, with sign.
    ShiftBytesRight,
    /// Each byte, without sign.
    ShiftBytesRightUnsigned,
    /// Into `-2^(n-1)..2^(n-1)`.
    Clip,
    /// Into `0..2^(n-1)`.
    ClipUnsigned,
}

/// One instruction of the machine; the first register is the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Instruction {
    /// A number of 12 bits with sign.
    Constant(Register, i32),
    /// A number of which the lowest 12 bits are 0.
    UpperConstant(Register, u32),
    Binary(Binary, Register, Register, Register),
    Ternary(Ternary, Register, Register, Register),
    Immediate(Immediate, Register, Register, i32),
    /// `(a + b) >> shift` with sign; the sum wraps.
    AddShift(Register, Register, Register, u32),
    /// The lowest `width` bits of the second register at bit `offset` of the first.
    Insert(Register, Register, u32, u32),
    /// The word at an address plus an offset of 12 bits.
    Load(Register, Register, i32),
    /// The word at an address, which then moves by a step of 12 bits.
    LoadStep(Register, Register, i32),
    /// Stores the first register at the second plus an offset of 12 bits.
    Store(Width, Register, Register, i32),
    /// Stores the first register at the second, which then moves by a step of 12 bits.
    StoreStep(Width, Register, Register, i32),
    /// From the stack frame.
    LoadSlot(Register, Slot),
    /// Into the stack frame.
    StoreSlot(Register, Slot),
}

/// A part of a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Item {
    /// A remark for readers, and registers whose names it tells.
    Comment(String, Vec<Register>),
    One(Instruction),
    /// A hardware loop of at least one round; `count` holds their number as it starts, and is free in it. Level 0 may stand in
    /// level 1. The body has at least three instructions, and does not end with another loop.
    HardwareLoop {
        level: u32,
        count: Register,
        rounds: i32,
        body: Vec<Item>,
    },
    /// Runs the body, subtracts 1 from the slot, and repeats until it is 0. The register is free at the end of the body.
    Repeat {
        counter: Slot,
        temporary: Register,
        body: Vec<Item>,
    },
}

/// What is known of a register or slot.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Named {
    name: String,
    kind: Kind,
}

/// A finished list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    items: Vec<Item>,
    registers: Vec<Named>,
    /// Number of the machine's register for each.
    fixed: Vec<u32>,
    slots: Vec<Named>,
    /// How many of the slots are parameters; they come first.
    parameters: usize,
}

impl Instruction {
    /// Registers that are read.
    fn reads(&self) -> Vec<Register> {
        match *self {
            Instruction::Constant(..)
            | Instruction::UpperConstant(..)
            | Instruction::LoadSlot(..) => vec![],
            Instruction::Immediate(_, _, a, _)
            | Instruction::Load(_, a, _)
            | Instruction::LoadStep(_, a, _)
            | Instruction::StoreSlot(a, _) => vec![a],
            Instruction::Binary(_, _, a, b)
            | Instruction::AddShift(_, a, b, _)
            | Instruction::Insert(a, b, ..)
            | Instruction::Store(_, a, b, _)
            | Instruction::StoreStep(_, a, b, _) => vec![a, b],
            Instruction::Ternary(_, d, a, b) => vec![d, a, b],
        }
    }

    /// The register that is the result.
    fn writes(&self) -> Option<Register> {
        match *self {
            Instruction::Constant(d, _)
            | Instruction::UpperConstant(d, _)
            | Instruction::Binary(_, d, ..)
            | Instruction::Ternary(_, d, ..)
            | Instruction::Immediate(_, d, ..)
            | Instruction::AddShift(d, ..)
            | Instruction::Insert(d, ..)
            | Instruction::Load(d, ..)
            | Instruction::LoadStep(d, ..)
            | Instruction::LoadSlot(d, _) => Some(d),
            Instruction::Store(..) | Instruction::StoreStep(..) | Instruction::StoreSlot(..) => {
                None
            }
        }
    }

    /// The register that a load fills.
    fn loads(&self) -> Option<Register> {
        match *self {
            Instruction::Load(d, ..)
            | Instruction::LoadStep(d, ..)
            | Instruction::LoadSlot(d, _) => Some(d),
            _ => None,
        }
    }
}

impl Block {
    /// The C function of the block, both forms. `comment` says what it computes; its parameters are the block's.
    pub(crate) fn function(&self, name: &str, comment: &[String]) -> String {
        let mut out = String::new();
        for (i, line) in comment.iter().enumerate() {
            let open = if i == 0 { "/*" } else { " *" };
            let close = if i + 1 == comment.len() { " */" } else { "" };
            out.push_str(&format!("{open} {line}{close}\n"));
        }
        let parameters: Vec<String> = self.slots[..self.parameters]
            .iter()
            .map(|slot| format!("{}{}", slot.kind.c_type(), slot.name))
            .collect();
        out.push_str(&crate::instructions::wrapped(&format!(
            "static void {name}({})",
            parameters.join(", ")
        )));
        out.push_str("{\n#if defined(TRAINC_XPULP_INSN)\n");
        out.push_str(&self.assembly());
        out.push_str("#else\n");
        out.push_str(&self.portable());
        out.push_str("#endif\n}\n");
        out
    }
}

/// A line that breaks at commas where it is longer than 100 columns.
fn wrapped(line: &str) -> String {
    let (mut rest, mut indent, mut out) = (line, 0, String::new());
    while !rest.is_empty() {
        let room = 100 - indent;
        let at = rest.get(..room.min(rest.len())).and_then(|part| part.rfind(", "));
        let (now, later) = match at {
            Some(at) if rest.len() > room => rest.split_at(at + 1),
            _ => (rest, ""),
        };
        out.push_str(&" ".repeat(indent));
        out.push_str(now);
        out.push('\n');
        rest = later.trim_start();
        indent = 4;
    }
    out
}
