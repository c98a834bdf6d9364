//! Fields of bits, and counts of them.

use crate::decode::{Action, Compute, FUNCT7, FUNCT7_RS2, Field, Operands, Row, encoding};

const REGISTERS: u32 = 0x33;

/// A field from bits 9:5 (width less one) and 4:0 (position): its mask at bit 0, and its position.
fn field(selector: u32) -> (u32, u32) {
    (u32::MAX >> (31 - (selector >> 5 & 31)), selector & 31)
}

fn extract(a: u32, selector: u32, _: u32, _: u32) -> u32 {
    let (mask, position) = field(selector);
    let value = (a as i32 >> position) as u32 & mask;
    let sign = value & (mask ^ mask >> 1);
    if sign != 0 { value | !mask } else { value }
}

fn extract_unsigned(a: u32, selector: u32, _: u32, _: u32) -> u32 {
    let (mask, position) = field(selector);
    a >> position & mask
}

fn insert(a: u32, selector: u32, d: u32, _: u32) -> u32 {
    let (mask, position) = field(selector);
    let mask = mask << position;
    d & !mask | a << position & mask
}

fn clear(a: u32, selector: u32, _: u32, _: u32) -> u32 {
    let (mask, position) = field(selector);
    a & !(mask << position)
}

fn set(a: u32, selector: u32, _: u32, _: u32) -> u32 {
    let (mask, position) = field(selector);
    a | mask << position
}

/// Repetitions of the sign bit below it; 0 for 0.
fn leading(a: u32, _: u32, _: u32, _: u32) -> u32 {
    let same = if (a as i32) < 0 { (!a).leading_zeros() } else { a.leading_zeros() };
    if a == 0 { 0 } else { same - 1 }
}

pub(crate) fn rows(rows: &mut Vec<Row>) {
    let table: [(&str, u32, Compute); 5] = [
        ("p.extract", 0, extract),
        ("p.extractu", 1, extract_unsigned),
        ("p.insert", 2, insert),
        ("p.bclr", 3, clear),
        ("p.bset", 4, set),
    ];
    for (name, funct3, compute) in table {
        let keeps = name == "p.insert";
        let immediate = Operands { rd: keeps, ..Operands::UNARY.with(Field::Bits) };
        let pattern = encoding(REGISTERS, funct3, 0x60);
        rows.push(Row::new(name, 0xc000_707f, pattern, immediate, Action::Immediate(compute)));
        let registers = Operands { rd: keeps, ..Operands::REGISTERS };
        let pattern = encoding(REGISTERS, funct3, 0x40);
        let name = format!("{name}r");
        rows.push(Row::new(name, FUNCT7, pattern, registers, Action::Register(compute)));
    }
    let table: [(&str, u32, Compute); 4] = [
        ("p.ff1", 0, |a, _, _, _| a.trailing_zeros()),
        ("p.fl1", 1, |a, _, _, _| if a == 0 { 32 } else { 31 - a.leading_zeros() }),
        ("p.clb", 2, leading),
        ("p.cnt", 3, |a, _, _, _| a.count_ones()),
    ];
    for (name, funct3, compute) in table {
        let pattern = encoding(REGISTERS, funct3, 0x08);
        rows.push(Row::new(name, FUNCT7_RS2, pattern, Operands::UNARY, Action::Immediate(compute)));
    }
}
