//! Arithmetic of whole registers: RV32I, and the PULP extension's extrema, clips, extensions and normalised sums.

use crate::decode::{Action, Compute, FUNCT3, FUNCT7, FUNCT7_RS2, Field, Operands, Row, encoding};

const IMMEDIATES: u32 = 0x13;
const REGISTERS: u32 = 0x33;
const NORMALISED: u32 = 0x5b;

pub(crate) fn rows(rows: &mut Vec<Row>) {
    immediates(rows);
    registers(rows);
    extensions(rows);
    clips(rows);
    normalised(rows);
}

fn immediates(rows: &mut Vec<Row>) {
    let upper = Operands::RESULT.with(Field::U);
    rows.push(Row::new("lui", 0x7f, 0x37, upper, Action::Immediate(|_, b, _, _| b)));
    rows.push(Row::new("auipc", 0x7f, 0x17, upper, Action::AddToProgramCounter));
    let table: [(&str, u32, Compute); 6] = [
        ("addi", 0, |a, b, _, _| a.wrapping_add(b)),
        ("slti", 2, |a, b, _, _| u32::from((a as i32) < b as i32)),
        ("sltiu", 3, |a, b, _, _| u32::from(a < b)),
        ("xori", 4, |a, b, _, _| a ^ b),
        ("ori", 6, |a, b, _, _| a | b),
        ("andi", 7, |a, b, _, _| a & b),
    ];
    for (name, funct3, compute) in table {
        let operands = Operands::UNARY.with(Field::I);
        let pattern = encoding(IMMEDIATES, funct3, 0);
        rows.push(Row::new(name, FUNCT3, pattern, operands, Action::Immediate(compute)));
    }
    let table: [(&str, u32, u32, Compute); 3] = [
        ("slli", 1, 0, |a, b, _, _| a << b),
        ("srli", 5, 0, |a, b, _, _| a >> b),
        ("srai", 5, 0x20, |a, b, _, _| (a as i32 >> b) as u32),
    ];
    for (name, funct3, funct7, compute) in table {
        let operands = Operands::UNARY.with(Field::Rs2);
        let pattern = encoding(IMMEDIATES, funct3, funct7);
        rows.push(Row::new(name, FUNCT7, pattern, operands, Action::Immediate(compute)));
    }
}

fn registers(rows: &mut Vec<Row>) {
    let table: [(&str, u32, u32, Compute); 18] = [
        ("add", 0, 0x00, |a, b, _, _| a.wrapping_add(b)),
        ("sub", 0, 0x20, |a, b, _, _| a.wrapping_sub(b)),
        ("sll", 1, 0x00, |a, b, _, _| a << (b & 31)),
        ("slt", 2, 0x00, |a, b, _, _| u32::from((a as i32) < b as i32)),
        ("sltu", 3, 0x00, |a, b, _, _| u32::from(a < b)),
        ("xor", 4, 0x00, |a, b, _, _| a ^ b),
        ("srl", 5, 0x00, |a, b, _, _| a >> (b & 31)),
        ("sra", 5, 0x20, |a, b, _, _| (a as i32 >> (b & 31)) as u32),
        ("or", 6, 0x00, |a, b, _, _| a | b),
        ("and", 7, 0x00, |a, b, _, _| a & b),
        ("p.slet", 2, 0x02, |a, b, _, _| u32::from(a as i32 <= b as i32)),
        ("p.sletu", 3, 0x02, |a, b, _, _| u32::from(a <= b)),
        ("p.min", 4, 0x02, |a, b, _, _| (a as i32).min(b as i32) as u32),
        ("p.minu", 5, 0x02, |a, b, _, _| a.min(b)),
        ("p.max", 6, 0x02, |a, b, _, _| (a as i32).max(b as i32) as u32),
        ("p.maxu", 7, 0x02, |a, b, _, _| a.max(b)),
        ("p.ror", 5, 0x04, |a, b, _, _| a.rotate_right(b & 31)),
        // Encoded with rs2 = x0.
        ("p.abs", 0, 0x02, |a, _, _, _| (a as i32).wrapping_abs() as u32),
    ];
    for (name, funct3, funct7, compute) in table {
        let mask = if name == "p.abs" { FUNCT7_RS2 } else { FUNCT7 };
        let pattern = encoding(REGISTERS, funct3, funct7);
        rows.push(Row::new(name, mask, pattern, Operands::REGISTERS, Action::Register(compute)));
    }
}

fn extensions(rows: &mut Vec<Row>) {
    let table: [(&str, u32, Compute); 4] = [
        ("p.exths", 4, |a, _, _, _| a as i16 as u32),
        ("p.exthz", 5, |a, _, _, _| a & 0xffff),
        ("p.extbs", 6, |a, _, _, _| a as i8 as u32),
        ("p.extbz", 7, |a, _, _, _| a & 0xff),
    ];
    for (name, funct3, compute) in table {
        let pattern = encoding(REGISTERS, funct3, 0x08);
        rows.push(Row::new(name, FUNCT7_RS2, pattern, Operands::UNARY, Action::Immediate(compute)));
    }
}

/// The bound's complement where `value` is not above it, else the smaller of `value` and the bound; so for bounds that
/// are not negative [-bound - 1, bound], and for the others what the core gives.
fn clip(value: u32, bound: u32, _: u32, _: u32) -> u32 {
    let (value, bound) = (value as i32, bound as i32);
    let below = i64::from(value) + i64::from(bound) < 0;
    if below { !bound as u32 } else { value.min(bound) as u32 }
}

/// [0, bound].
fn clip_unsigned(value: u32, bound: u32, _: u32, _: u32) -> u32 {
    if value as i32 <= 0 { 0 } else { (value as i32).min(bound as i32) as u32 }
}

fn clips(rows: &mut Vec<Row>) {
    let immediate = Operands::UNARY.with(Field::Bound);
    let table = [
        ("p.clip", 1, immediate, Action::Immediate(clip)),
        ("p.clipu", 2, immediate, Action::Immediate(clip_unsigned)),
        ("p.clipr", 5, Operands::REGISTERS, Action::Register(clip)),
        ("p.clipur", 6, Operands::REGISTERS, Action::Register(clip_unsigned)),
    ];
    for (name, funct3, operands, action) in table {
        rows.push(Row::new(name, FUNCT7, encoding(REGISTERS, funct3, 0x0a), operands, action));
    }
}

/// Half of the last place that a shift to the right by `shift` keeps.
pub(crate) fn half(shift: u32) -> u32 {
    1 << shift >> 1
}

/// Sums and differences, shifted to the right: rd = (rs1 ± rs2) >> n, or rd = (rd ± rs1) >> rs2.
fn normalised(rows: &mut Vec<Row>) {
    fn signed(sum: u32, shift: u32) -> u32 {
        (sum as i32 >> shift) as u32
    }
    let table: [(&str, u32, u32, Compute, Compute); 8] = [
        (
            "addN",
            2,
            0,
            |a, b, _, n| signed(a.wrapping_add(b), n),
            |a, n, d, _| signed(d.wrapping_add(a), n & 31),
        ),
        (
            "adduN",
            2,
            0x40,
            |a, b, _, n| a.wrapping_add(b) >> n,
            |a, n, d, _| d.wrapping_add(a) >> (n & 31),
        ),
        ("addRN", 6, 0, |a, b, _, n| signed(a.wrapping_add(b).wrapping_add(half(n)), n), {
            |a, n, d, _| signed(d.wrapping_add(a).wrapping_add(half(n & 31)), n & 31)
        }),
        ("adduRN", 6, 0x40, |a, b, _, n| a.wrapping_add(b).wrapping_add(half(n)) >> n, {
            |a, n, d, _| d.wrapping_add(a).wrapping_add(half(n & 31)) >> (n & 31)
        }),
        (
            "subN",
            3,
            0,
            |a, b, _, n| signed(a.wrapping_sub(b), n),
            |a, n, d, _| signed(d.wrapping_sub(a), n & 31),
        ),
        (
            "subuN",
            3,
            0x40,
            |a, b, _, n| a.wrapping_sub(b) >> n,
            |a, n, d, _| d.wrapping_sub(a) >> (n & 31),
        ),
        ("subRN", 7, 0, |a, b, _, n| signed(a.wrapping_sub(b).wrapping_add(half(n)), n), {
            |a, n, d, _| signed(d.wrapping_sub(a).wrapping_add(half(n & 31)), n & 31)
        }),
        ("subuRN", 7, 0x40, |a, b, _, n| a.wrapping_sub(b).wrapping_add(half(n)) >> n, {
            |a, n, d, _| d.wrapping_sub(a).wrapping_add(half(n & 31)) >> (n & 31)
        }),
    ];
    for (name, funct3, funct7, immediate, register) in table {
        let operands = Operands::REGISTERS.with(Field::Shift);
        let mask = 0xc000_707f;
        let pattern = encoding(NORMALISED, funct3, funct7);
        rows.push(Row::new(format!("p.{name}"), mask, pattern, operands, {
            Action::Register(immediate)
        }));
        let pattern = encoding(NORMALISED, funct3, funct7 | 0x20);
        let name = format!("p.{name}r");
        let action = Action::Register(register);
        rows.push(Row::new(name, FUNCT7, pattern, Operands::ACCUMULATE, action));
    }
}
