//! Products and quotients of registers: RV32M, and the PULP extension's multiply-accumulate and 16-bit products.

use crate::decode::{Action, Compute, FUNCT7, Field, Operands, Row, encoding};
use crate::scalar::half;

const REGISTERS: u32 = 0x33;
const NORMALISED: u32 = 0x5b;

fn divide(a: u32, b: u32, _: u32, _: u32) -> u32 {
    if b == 0 { u32::MAX } else { (a as i32).wrapping_div(b as i32) as u32 }
}

fn remainder(a: u32, b: u32, _: u32, _: u32) -> u32 {
    if b == 0 { a } else { (a as i32).wrapping_rem(b as i32) as u32 }
}

/// Sum, then a shift to the right that rounds: bits above 32 are lost before the shift.
fn normalise<const SIGNED: bool, const ROUND: bool>(sum: u32, shift: u32) -> u32 {
    let sum = sum.wrapping_add(if ROUND { half(shift) } else { 0 });
    if SIGNED { (sum as i32 >> shift) as u32 } else { sum >> shift }
}

/// The product of the lower or upper halves.
fn halves<const SIGNED: bool, const HIGH: bool>(a: u32, b: u32) -> u32 {
    let (a, b) = if HIGH { (a >> 16, b >> 16) } else { (a & 0xffff, b & 0xffff) };
    if SIGNED { (i32::from(a as i16) * i32::from(b as i16)) as u32 } else { a * b }
}

fn product<const SIGNED: bool, const HIGH: bool, const ROUND: bool>(
    a: u32,
    b: u32,
    _: u32,
    shift: u32,
) -> u32 {
    normalise::<SIGNED, ROUND>(halves::<SIGNED, HIGH>(a, b), shift)
}

fn accumulate<const SIGNED: bool, const HIGH: bool, const ROUND: bool>(
    a: u32,
    b: u32,
    d: u32,
    shift: u32,
) -> u32 {
    normalise::<SIGNED, ROUND>(d.wrapping_add(halves::<SIGNED, HIGH>(a, b)), shift)
}

pub(crate) fn rows(rows: &mut Vec<Row>) {
    let table: [(&str, u32, Action); 8] = [
        ("mul", 0, Action::Register(|a, b, _, _| a.wrapping_mul(b))),
        (
            "mulh",
            1,
            Action::MultiplyHigh(|a, b, _, _| {
                ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32
            }),
        ),
        (
            "mulhsu",
            2,
            Action::MultiplyHigh(|a, b, _, _| ((i64::from(a as i32) * i64::from(b)) >> 32) as u32),
        ),
        (
            "mulhu",
            3,
            Action::MultiplyHigh(|a, b, _, _| ((u64::from(a) * u64::from(b)) >> 32) as u32),
        ),
        ("div", 4, Action::Divide(divide, true)),
        ("divu", 5, Action::Divide(|a, b, _, _| a.checked_div(b).unwrap_or(u32::MAX), false)),
        ("rem", 6, Action::Divide(remainder, true)),
        ("remu", 7, Action::Divide(|a, b, _, _| a.checked_rem(b).unwrap_or(a), false)),
    ];
    for (name, funct3, action) in table {
        let pattern = encoding(REGISTERS, funct3, 0x01);
        rows.push(Row::new(name, FUNCT7, pattern, Operands::REGISTERS, action));
    }
    let table: [(&str, u32, Compute); 2] = [
        ("p.mac", 0, |a, b, d, _| d.wrapping_add(a.wrapping_mul(b))),
        ("p.msu", 1, |a, b, d, _| d.wrapping_sub(a.wrapping_mul(b))),
    ];
    for (name, funct3, compute) in table {
        let pattern = encoding(REGISTERS, funct3, 0x21);
        rows.push(Row::new(name, FUNCT7, pattern, Operands::ACCUMULATE, Action::Register(compute)));
    }
    // Bit 31 is the sign, bit 30 the half, bits 29:25 the shift (0 without N in the name).
    let table: [(&str, u32, [Compute; 4]); 4] = [
        (
            "uN",
            0x00,
            [
                product::<false, false, false>,
                accumulate::<false, false, false>,
                product::<false, false, true>,
                accumulate::<false, false, true>,
            ],
        ),
        (
            "hhuN",
            0x20,
            [
                product::<false, true, false>,
                accumulate::<false, true, false>,
                product::<false, true, true>,
                accumulate::<false, true, true>,
            ],
        ),
        (
            "sN",
            0x40,
            [
                product::<true, false, false>,
                accumulate::<true, false, false>,
                product::<true, false, true>,
                accumulate::<true, false, true>,
            ],
        ),
        (
            "hhsN",
            0x60,
            [
                product::<true, true, false>,
                accumulate::<true, true, false>,
                product::<true, true, true>,
                accumulate::<true, true, true>,
            ],
        ),
    ];
    for (name, funct7, computes) in table {
        for (index, compute) in computes.into_iter().enumerate() {
            let (base, funct3) = [("mul", 0), ("mac", 1), ("mul", 4), ("mac", 5)][index];
            let kind = if index < 2 { name.to_string() } else { name.replace('N', "RN") };
            let operands = if base == "mac" { Operands::ACCUMULATE } else { Operands::REGISTERS };
            rows.push(Row::new(
                format!("p.{base}{kind}"),
                0xc000_707f,
                encoding(NORMALISED, funct3, funct7),
                operands.with(Field::Shift),
                Action::Register(compute),
            ));
        }
    }
}
