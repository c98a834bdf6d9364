//! From instruction words to what they do: every instruction is a [`Row`] of a table, found by mask and pattern.
//!
//! Sources: the RISC-V unprivileged specification (RV32IMC, Zicsr) and RI5CY's user manual (PULP extensions).

use std::sync::OnceLock;

/// A function of rs1, of the second operand (rs2 or an immediate), of rd's old value and of the immediate.
pub type Compute = fn(u32, u32, u32, u32) -> u32;

/// A condition on two operands.
pub type Condition = fn(u32, u32) -> bool;

/// How an instruction forms its address, and what it leaves in rs1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Addressing {
    /// rs1 + immediate.
    Offset,
    /// rs1 + register.
    Indexed,
    /// rs1, which is then increased by the immediate.
    PostImmediate,
    /// rs1, which is then increased by the register.
    PostRegister,
}

/// A data access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Bytes: 1, 2 or 4.
    pub size: u8,
    /// Whether a load extends the sign.
    pub signed: bool,
    /// Its address.
    pub addressing: Addressing,
}

/// What an instruction on hardware loops sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoopSetting {
    /// First instruction of the body.
    Start,
    /// Last instruction of the body.
    End,
    /// Iterations, from rs1.
    Count,
    /// Iterations, from the immediate.
    CountImmediate,
    /// All three, iterations from rs1.
    Setup,
    /// All three, iterations from the immediate, end from the rs1 field.
    SetupImmediate,
}

/// What an instruction does.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// rd = f(rs1, rs2, rd, immediate).
    Register(Compute),
    /// rd = f(rs1, immediate, rd, immediate).
    Immediate(Compute),
    /// As `Register`, rs2's lowest byte in all lanes.
    ScalarByte(Compute),
    /// As `Register`, rs2's lower half in both lanes.
    ScalarHalf(Compute),
    /// As `Register`, in the cycles of the upper half of a product.
    MultiplyHigh(Compute),
    /// As `Register`, in the cycles of a division; whether it is signed.
    Divide(Compute, bool),
    /// rd = pc + immediate.
    AddToProgramCounter,
    /// Jump by the immediate.
    Jump,
    /// Jump to rs1 + immediate.
    JumpRegister,
    /// Branch on (rs1, rs2).
    Branch(Condition),
    /// Branch on (rs1, the rs2 field as a signed number).
    BranchImmediate(Condition),
    /// Memory to register.
    Load(Access),
    /// Register to memory.
    Store(Access),
    /// Hardware loops.
    Loop(LoopSetting),
    /// A call of the host.
    EnvironmentCall,
    /// Stops the machine.
    Break,
    /// Control registers: 1 write, 2 set, 3 clear.
    ControlRegister(u8),
    /// As `ControlRegister`, the rs1 field being the operand.
    ControlRegisterImmediate(u8),
    /// Nothing: this machine sees its memory in order.
    Fence,
    /// No instruction.
    Illegal,
}

/// Where an instruction's immediate is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// None: 0.
    None,
    /// Bits 31:20, signed.
    I,
    /// Bits 31:20, unsigned.
    UnsignedI,
    /// Bits 31:25 and 11:7, signed.
    S,
    /// Branch offset.
    B,
    /// Bits 31:12.
    U,
    /// Jump offset.
    J,
    /// Bits 24:20.
    Rs2,
    /// Bits 29:25.
    Shift,
    /// Bits 29:20: a field's width less one, and its position, as the register forms take them.
    Bits,
    /// Bits 24:20 = n, as the upper bound 2^(n-1) - 1.
    Bound,
    /// Six bits, signed, in all bytes.
    SignedBytes,
    /// Six bits, unsigned, in all bytes.
    UnsignedBytes,
    /// Six bits, signed, in both halves.
    SignedHalves,
    /// Six bits, unsigned, in both halves.
    UnsignedHalves,
    /// The number of a lane.
    Lane,
    /// Two bits for each byte.
    ByteSelectors,
    /// A bit for each half.
    HalfSelectors,
}

/// A word's operands.
#[derive(Clone, Copy, Debug)]
pub struct Operands {
    /// The immediate.
    pub immediate: Field,
    /// Whether rs1 is read.
    pub rs1: bool,
    /// Whether rs2 is read, as the core's interlocks see it.
    pub rs2: bool,
    /// Whether rd's old value is read.
    pub rd: bool,
    /// Whether rd is written by the arithmetic unit (loads write it later).
    pub result: bool,
    /// Whether rs1 is written (post-increment).
    pub update: bool,
}

const NOTHING: Operands = Operands {
    immediate: Field::None,
    rs1: false,
    rs2: false,
    rd: false,
    result: false,
    update: false,
};

impl Operands {
    /// rd = f(rs1, rs2).
    pub const REGISTERS: Operands = Operands { rs1: true, rs2: true, result: true, ..NOTHING };
    /// rd = f(rd, rs1, rs2).
    pub const ACCUMULATE: Operands = Operands { rd: true, ..Operands::REGISTERS };
    /// rs1 and rs2 are read, nothing is written.
    pub const SOURCES: Operands = Operands { result: false, ..Operands::REGISTERS };
    /// rd = f(immediate).
    pub const RESULT: Operands = Operands { result: true, ..NOTHING };
    /// No register.
    pub const NONE: Operands = NOTHING;
    /// rd = f(rs1).
    pub const UNARY: Operands = Operands { rs1: true, result: true, ..NOTHING };
    /// rs1 is read.
    pub const SOURCE: Operands = Operands { rs1: true, ..NOTHING };

    /// The same with an immediate.
    pub const fn with(self, immediate: Field) -> Operands {
        Operands { immediate, ..self }
    }
}

/// An instruction.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name in assembly.
    pub name: String,
    /// Bits that are fixed.
    pub mask: u32,
    /// Their values.
    pub pattern: u32,
    /// Its operands.
    pub operands: Operands,
    /// Its meaning.
    pub action: Action,
}

/// Mask of an opcode and funct3.
pub(crate) const FUNCT3: u32 = 0x0000_707f;
/// Mask of an opcode, funct3 and funct7.
pub(crate) const FUNCT7: u32 = 0xfe00_707f;
/// As [`FUNCT7`], with rs2.
pub(crate) const FUNCT7_RS2: u32 = 0xfff0_707f;

impl Row {
    /// A row by mask and pattern.
    pub(crate) fn new(
        name: impl Into<String>,
        mask: u32,
        pattern: u32,
        operands: Operands,
        action: Action,
    ) -> Row {
        let name = name.into();
        debug_assert_eq!(pattern & !mask, 0, "{name}");
        Row { name, mask, pattern, operands, action }
    }
}

/// Opcode, funct3 and funct7 as a pattern.
pub(crate) const fn encoding(opcode: u32, funct3: u32, funct7: u32) -> u32 {
    opcode | funct3 << 12 | funct7 << 25
}

/// All instructions of 32 bits.
pub fn rows() -> &'static [Row] {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    ROWS.get_or_init(|| {
        let mut rows = Vec::new();
        crate::scalar::rows(&mut rows);
        crate::bits::rows(&mut rows);
        crate::multiply::rows(&mut rows);
        crate::vector::rows(&mut rows);
        crate::access::rows(&mut rows);
        crate::control::rows(&mut rows);
        crate::hardware_loop::rows(&mut rows);
        rows
    })
}

/// The row of a word of 32 bits.
pub fn find(word: u32) -> Option<&'static Row> {
    static BY_OPCODE: OnceLock<Vec<Vec<usize>>> = OnceLock::new();
    let table = rows();
    let by_opcode = BY_OPCODE.get_or_init(|| {
        let mut lists = vec![Vec::new(); 128];
        for (index, row) in table.iter().enumerate() {
            lists[(row.pattern & 0x7f) as usize].push(index);
        }
        lists
    });
    let matches = |row: &&Row| word & row.mask == row.pattern;
    by_opcode[(word & 0x7f) as usize].iter().map(|&index| &table[index]).find(matches)
}

/// An instruction with its operands, ready to be executed many times.
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    /// Its meaning.
    pub action: Action,
    /// Its immediate.
    pub immediate: u32,
    /// Registers that wait for a load under way, by bits: those read, and the one that the arithmetic unit writes.
    pub waits: u32,
    /// The registers that the arithmetic unit writes, by bits.
    pub writes: u32,
    /// Number of the register rd.
    pub rd: u8,
    /// Number of the register rs1.
    pub rs1: u8,
    /// Number of the register rs2.
    pub rs2: u8,
    /// Bytes: 2 or 4; 0 is an instruction that has not been decoded.
    pub length: u8,
}

impl Instruction {
    /// What has not been decoded.
    pub const UNKNOWN: Instruction = Instruction {
        action: Action::Illegal,
        immediate: 0,
        waits: 0,
        writes: 0,
        rd: 0,
        rs1: 0,
        rs2: 0,
        length: 0,
    };

    /// The instruction at the beginning of a word; of a compressed one the upper half is ignored.
    pub fn decode(word: u32) -> Instruction {
        if word & 3 == 3 {
            return Instruction::of(word, 4);
        }
        match crate::compressed::expand(word as u16) {
            Some(expanded) => Instruction::of(expanded, 2),
            None => Instruction { length: 2, ..Instruction::UNKNOWN },
        }
    }

    fn of(word: u32, length: u8) -> Instruction {
        let Some(row) = find(word) else {
            return Instruction { length, ..Instruction::UNKNOWN };
        };
        let register = |at: u32| word >> at & 31;
        let (rd, rs1, rs2) = (register(7), register(15), register(20));
        let operands = row.operands;
        let bit = |register: u32, used: bool| if used { 1u32 << register } else { 0 };
        let reads = bit(rs1, operands.rs1) | bit(rs2, operands.rs2) | bit(rd, operands.rd);
        let writes = bit(rd, operands.result) | bit(rs1, operands.update);
        Instruction {
            action: row.action,
            immediate: immediate(operands.immediate, word),
            // Nothing waits for x0 to be read.
            waits: reads & !1 | writes,
            writes,
            rd: rd as u8,
            rs1: rs1 as u8,
            rs2: rs2 as u8,
            length,
        }
    }
}

/// The value of a word's immediate.
fn immediate(field: Field, word: u32) -> u32 {
    let signed = word as i32;
    let at = |low: u32, count: u32| word >> low & ((1 << count) - 1);
    let six = at(20, 5) << 1 | at(25, 1);
    let six_signed = ((six << 26) as i32 >> 26) as u32;
    match field {
        Field::None => 0,
        Field::I => (signed >> 20) as u32,
        Field::UnsignedI => at(20, 12),
        Field::S => (signed >> 25 << 5) as u32 | at(7, 5),
        Field::B => (signed >> 31 << 12) as u32 | at(7, 1) << 11 | at(25, 6) << 5 | at(8, 4) << 1,
        Field::U => word & 0xffff_f000,
        Field::J => {
            (signed >> 31 << 20) as u32 | at(12, 8) << 12 | at(20, 1) << 11 | at(21, 10) << 1
        }
        Field::Rs2 => at(20, 5),
        Field::Shift => at(25, 5),
        Field::Bits => at(20, 10),
        Field::Bound => (((1u64 << at(20, 5)) - 1) >> 1) as u32,
        Field::SignedBytes => (six_signed & 0xff) * 0x0101_0101,
        Field::UnsignedBytes => six * 0x0101_0101,
        Field::SignedHalves => (six_signed & 0xffff) * 0x0001_0001,
        Field::UnsignedHalves => six * 0x0001_0001,
        Field::Lane => six & 3,
        Field::ByteSelectors => {
            at(27, 2) << 24 | at(23, 2) << 16 | at(21, 2) << 8 | at(20, 1) << 1 | at(25, 1)
        }
        Field::HalfSelectors => at(20, 1) << 16 | at(25, 1),
    }
}
