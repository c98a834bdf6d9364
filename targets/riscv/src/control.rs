//! Jumps, branches and the system.

use crate::decode::{Action, Condition, FUNCT3, Field, Operands, Row, encoding};

const BRANCH: u32 = 0x63;
const SYSTEM: u32 = 0x73;

pub(crate) fn rows(rows: &mut Vec<Row>) {
    rows.push(Row::new("jal", 0x7f, 0x6f, Operands::RESULT.with(Field::J), Action::Jump));
    rows.push(Row::new("jalr", FUNCT3, 0x67, Operands::UNARY.with(Field::I), Action::JumpRegister));
    let table: [(&str, u32, Condition); 6] = [
        ("beq", 0, |a, b| a == b),
        ("bne", 1, |a, b| a != b),
        ("blt", 4, |a, b| (a as i32) < b as i32),
        ("bge", 5, |a, b| a as i32 >= b as i32),
        ("bltu", 6, |a, b| a < b),
        ("bgeu", 7, |a, b| a >= b),
    ];
    let to = |operands: Operands| operands.with(Field::B);
    for (name, funct3, taken) in table {
        let pattern = encoding(BRANCH, funct3, 0);
        rows.push(Row::new(name, FUNCT3, pattern, to(Operands::SOURCES), Action::Branch(taken)));
    }
    let table: [(&str, u32, Condition); 2] =
        [("p.beqimm", 2, |a, b| a == b), ("p.bneimm", 3, |a, b| a != b)];
    for (name, funct3, taken) in table {
        let pattern = encoding(BRANCH, funct3, 0);
        let action = Action::BranchImmediate(taken);
        rows.push(Row::new(name, FUNCT3, pattern, to(Operands::SOURCE), action));
    }
    rows.push(Row::new("fence", 0x0000_607f, 0x0f, Operands::NONE, Action::Fence));
    rows.push(Row::new("ecall", u32::MAX, SYSTEM, Operands::NONE, Action::EnvironmentCall));
    rows.push(Row::new("ebreak", u32::MAX, 1 << 20 | SYSTEM, Operands::NONE, Action::Break));
    for (name, operation) in [("csrrw", 1), ("csrrs", 2), ("csrrc", 3)] {
        let operands = Operands::UNARY.with(Field::UnsignedI);
        let pattern = encoding(SYSTEM, u32::from(operation), 0);
        let action = Action::ControlRegister(operation);
        rows.push(Row::new(name, FUNCT3, pattern, operands, action));
        let operands = Operands::RESULT.with(Field::UnsignedI);
        let pattern = encoding(SYSTEM, u32::from(operation) + 4, 0);
        let action = Action::ControlRegisterImmediate(operation);
        rows.push(Row::new(format!("{name}i"), FUNCT3, pattern, operands, action));
    }
}
