//! Loads and stores: RV32I, register offsets, and post-increment.

use crate::decode::{Access, Action, Addressing, FUNCT3, FUNCT7, Field, Operands, Row, encoding};

const LOAD: u32 = 0x03;
const LOAD_POST: u32 = 0x0b;
const STORE: u32 = 0x23;
const STORE_POST: u32 = 0x2b;

pub(crate) fn rows(rows: &mut Vec<Row>) {
    loads(rows);
    stores(rows);
}

fn loads(rows: &mut Vec<Row>) {
    let table = [
        ("lb", 1, true, 0, 0x00),
        ("lh", 2, true, 1, 0x08),
        ("lw", 4, true, 2, 0x10),
        ("lbu", 1, false, 4, 0x20),
        ("lhu", 2, false, 5, 0x28),
    ];
    for (name, size, signed, funct3, funct7) in table {
        let load = |addressing| Action::Load(Access { size, signed, addressing });
        let immediate = Operands::SOURCE.with(Field::I);
        let registers = Operands::SOURCES;
        let post = |operands| Operands { update: true, ..operands };
        rows.extend([
            Row::new(name, FUNCT3, encoding(LOAD, funct3, 0), immediate, load(Addressing::Offset)),
            Row::new(
                format!("p.{name} rd, rs2(rs1)"),
                FUNCT7,
                encoding(LOAD, 7, funct7),
                registers,
                load(Addressing::Indexed),
            ),
            Row::new(
                format!("p.{name} rd, imm(rs1!)"),
                FUNCT3,
                encoding(LOAD_POST, funct3, 0),
                post(immediate),
                load(Addressing::PostImmediate),
            ),
            Row::new(
                format!("p.{name} rd, rs2(rs1!)"),
                FUNCT7,
                encoding(LOAD_POST, 7, funct7),
                post(registers),
                load(Addressing::PostRegister),
            ),
        ]);
    }
}

/// The register offset of a store is in the rd field.
fn stores(rows: &mut Vec<Row>) {
    for (name, size, funct3) in [("sb", 1, 0), ("sh", 2, 1), ("sw", 4, 2)] {
        let store = |addressing| Action::Store(Access { size, signed: false, addressing });
        let immediate = Operands::SOURCES.with(Field::S);
        let registers = Operands { rd: true, ..Operands::SOURCES };
        let post = |operands| Operands { update: true, ..operands };
        rows.extend([
            Row::new(name, FUNCT3, encoding(STORE, funct3, 0), immediate, {
                store(Addressing::Offset)
            }),
            Row::new(
                format!("p.{name} rs2, rd(rs1)"),
                FUNCT7,
                encoding(STORE, funct3 + 4, 0),
                registers,
                store(Addressing::Indexed),
            ),
            Row::new(
                format!("p.{name} rs2, imm(rs1!)"),
                FUNCT3,
                encoding(STORE_POST, funct3, 0),
                post(immediate),
                store(Addressing::PostImmediate),
            ),
            Row::new(
                format!("p.{name} rs2, rd(rs1!)"),
                FUNCT7,
                encoding(STORE_POST, funct3 + 4, 0),
                post(registers),
                store(Addressing::PostRegister),
            ),
        ]);
    }
}
