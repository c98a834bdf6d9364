//! Vectors of four bytes or two halves in a register: `pv.*`. Each operation has up to six forms: lanes of bytes or
//! halves; the second operand a vector, a register's lowest lane, or an immediate of six bits.

use crate::decode::{Action, Compute, FUNCT7, Field, Operands, Row, encoding};

const VECTOR: u32 = 0x57;

fn byte(word: u32, lane: u32) -> i32 {
    i32::from((word >> (8 * lane)) as i8)
}

fn half(word: u32, lane: u32) -> i32 {
    i32::from((word >> (16 * lane)) as i16)
}

/// A function of each pair of bytes; those of its result that do not fit are lost.
fn bytes(a: u32, b: u32, f: impl Fn(i32, i32) -> i32) -> u32 {
    (0..4)
        .fold(0, |word, lane| word | (f(byte(a, lane), byte(b, lane)) as u32 & 0xff) << (8 * lane))
}

fn halves(a: u32, b: u32, f: impl Fn(i32, i32) -> i32) -> u32 {
    (0..2).fold(0, |word, lane| {
        word | (f(half(a, lane), half(b, lane)) as u32 & 0xffff) << (16 * lane)
    })
}

/// As [`bytes`], without signs.
fn bytes_unsigned(a: u32, b: u32, f: impl Fn(i32, i32) -> i32) -> u32 {
    bytes(a, b, |a, b| f(a & 0xff, b & 0xff))
}

fn halves_unsigned(a: u32, b: u32, f: impl Fn(i32, i32) -> i32) -> u32 {
    halves(a, b, |a, b| f(a & 0xffff, b & 0xffff))
}

/// All bits of a lane, or none.
fn all(condition: bool) -> i32 {
    -i32::from(condition)
}

/// An operation on lanes.
struct Lanes {
    name: &'static str,
    /// Bits 31:26 of the word.
    funct6: u32,
    /// Whether immediates are extended by their signs.
    signed: bool,
    byte: Compute,
    half: Compute,
}

macro_rules! lanes {
    ($name:literal, $funct6:literal, signed $f:expr) => {
        Lanes {
            name: $name,
            funct6: $funct6,
            signed: true,
            byte: |a, b, _, _| bytes(a, b, $f),
            half: |a, b, _, _| halves(a, b, $f),
        }
    };
    ($name:literal, $funct6:literal, unsigned $f:expr) => {
        Lanes {
            name: $name,
            funct6: $funct6,
            signed: false,
            byte: |a, b, _, _| bytes_unsigned(a, b, $f),
            half: |a, b, _, _| halves_unsigned(a, b, $f),
        }
    };
}

/// The sums and averages wrap inside their lanes; an average halves what is left.
fn arithmetic() -> Vec<Lanes> {
    vec![
        lanes!("add", 0x00, signed | a, b | a + b),
        lanes!("sub", 0x02, signed | a, b | a - b),
        Lanes {
            name: "avg",
            funct6: 0x04,
            signed: true,
            byte: |a, b, _, _| bytes(a, b, |a, b| i32::from((a + b) as i8) >> 1),
            half: |a, b, _, _| halves(a, b, |a, b| i32::from((a + b) as i16) >> 1),
        },
        Lanes {
            name: "avgu",
            funct6: 0x06,
            signed: false,
            byte: |a, b, _, _| bytes(a, b, |a, b| ((a + b) & 0xff) >> 1),
            half: |a, b, _, _| halves(a, b, |a, b| ((a + b) & 0xffff) >> 1),
        },
        lanes!("min", 0x08, signed | a, b | a.min(b)),
        lanes!("minu", 0x0a, unsigned | a, b | a.min(b)),
        lanes!("max", 0x0c, signed | a, b | a.max(b)),
        lanes!("maxu", 0x0e, unsigned | a, b | a.max(b)),
        // Shifts take as many bits of the amount as a lane needs.
        Lanes {
            name: "srl",
            funct6: 0x10,
            signed: true,
            byte: |a, b, _, _| bytes_unsigned(a, b, |a, b| a >> (b & 7)),
            half: |a, b, _, _| halves_unsigned(a, b, |a, b| a >> (b & 15)),
        },
        Lanes {
            name: "sra",
            funct6: 0x12,
            signed: true,
            byte: |a, b, _, _| bytes(a, b, |a, b| a >> (b & 7)),
            half: |a, b, _, _| halves(a, b, |a, b| a >> (b & 15)),
        },
        Lanes {
            name: "sll",
            funct6: 0x14,
            signed: true,
            byte: |a, b, _, _| bytes(a, b, |a, b| a << (b & 7)),
            half: |a, b, _, _| halves(a, b, |a, b| a << (b & 15)),
        },
        lanes!("or", 0x16, signed | a, b | a | b),
        lanes!("xor", 0x18, signed | a, b | a ^ b),
        lanes!("and", 0x1a, signed | a, b | a & b),
        lanes!("cmpeq", 0x01, signed | a, b | all(a == b)),
        lanes!("cmpne", 0x03, signed | a, b | all(a != b)),
        lanes!("cmpgt", 0x05, signed | a, b | all(a > b)),
        lanes!("cmpge", 0x07, signed | a, b | all(a >= b)),
        lanes!("cmplt", 0x09, signed | a, b | all(a < b)),
        lanes!("cmple", 0x0b, signed | a, b | all(a <= b)),
        lanes!("cmpgtu", 0x0d, unsigned | a, b | all(a > b)),
        lanes!("cmpgeu", 0x0f, unsigned | a, b | all(a >= b)),
        lanes!("cmpltu", 0x11, unsigned | a, b | all(a < b)),
        lanes!("cmpleu", 0x13, unsigned | a, b | all(a <= b)),
    ]
}

/// A sum of products of bytes: which operands have signs.
fn dot_bytes<const A: bool, const B: bool>(a: u32, b: u32) -> u32 {
    let of = |signed: bool, value: i32| if signed { value } else { value & 0xff };
    (0..4).map(|lane| of(A, byte(a, lane)) * of(B, byte(b, lane))).sum::<i32>() as u32
}

/// As [`dot_bytes`], of halves.
fn dot_halves<const A: bool, const B: bool>(a: u32, b: u32) -> u32 {
    let of = |signed: bool, value: i32| i64::from(if signed { value } else { value & 0xffff });
    (0..2).map(|lane| of(A, half(a, lane)) * of(B, half(b, lane))).sum::<i64>() as u32
}

/// The same products, alone and added to rd.
fn dots() -> [(Lanes, Lanes); 3] {
    macro_rules! dot {
        ($name:literal, $funct6:literal, $a:literal, $b:literal) => {
            Lanes {
                name: $name,
                funct6: $funct6,
                signed: $b,
                byte: |a, b, _, _| dot_bytes::<$a, $b>(a, b),
                half: |a, b, _, _| dot_halves::<$a, $b>(a, b),
            }
        };
        (sum $name:literal, $funct6:literal, $a:literal, $b:literal) => {
            Lanes {
                name: $name,
                funct6: $funct6,
                signed: $b,
                byte: |a, b, d, _| d.wrapping_add(dot_bytes::<$a, $b>(a, b)),
                half: |a, b, d, _| d.wrapping_add(dot_halves::<$a, $b>(a, b)),
            }
        };
    }
    [
        (dot!("dotup", 0x20, false, false), dot!(sum "sdotup", 0x28, false, false)),
        (dot!("dotusp", 0x22, false, true), dot!(sum "sdotusp", 0x2a, false, true)),
        (dot!("dotsp", 0x26, true, true), dot!(sum "sdotsp", 0x2e, true, true)),
    ]
}

/// The six forms of an operation.
fn forms(rows: &mut Vec<Row>, lanes: &Lanes, accumulates: bool) {
    let operands = if accumulates { Operands::ACCUMULATE } else { Operands::REGISTERS };
    let pattern = |funct3| encoding(VECTOR, funct3, lanes.funct6 << 1);
    let mut push = |form: &str, funct3, action| {
        rows.push(Row::new(
            format!("pv.{}{form}", lanes.name),
            FUNCT7,
            pattern(funct3),
            operands,
            action,
        ));
    };
    push(".h", 0, Action::Register(lanes.half));
    push(".b", 1, Action::Register(lanes.byte));
    push(".sc.h", 4, Action::ScalarHalf(lanes.half));
    push(".sc.b", 5, Action::ScalarByte(lanes.byte));
    let fields = match lanes.signed {
        true => [Field::SignedHalves, Field::SignedBytes],
        false => [Field::UnsignedHalves, Field::UnsignedBytes],
    };
    let computes = [(".sci.h", 6, lanes.half), (".sci.b", 7, lanes.byte)];
    for ((form, funct3, compute), field) in computes.into_iter().zip(fields) {
        // Bit 25 belongs to the immediate.
        let operands = Operands { rs2: false, ..operands.with(field) };
        let mask = FUNCT7 & !(1 << 25);
        let name = format!("pv.{}{form}", lanes.name);
        rows.push(Row::new(name, mask, pattern(funct3), operands, Action::Immediate(compute)));
    }
}

fn shuffle_bytes(a: u32, selectors: u32, _: u32, _: u32) -> u32 {
    bytes(selectors, 0, |selector, _| byte(a, selector as u32 & 3))
}

fn shuffle_halves(a: u32, selectors: u32, _: u32, _: u32) -> u32 {
    halves(selectors, 0, |selector, _| half(a, selector as u32 & 1))
}

/// Of rs1 where the selector's next bit is set, else of rd.
fn shuffle2_bytes(a: u32, selectors: u32, d: u32, _: u32) -> u32 {
    bytes(selectors, 0, |s, _| byte(if s & 4 != 0 { a } else { d }, s as u32 & 3))
}

fn shuffle2_halves(a: u32, selectors: u32, d: u32, _: u32) -> u32 {
    halves(selectors, 0, |s, _| half(if s & 2 != 0 { a } else { d }, s as u32 & 1))
}

fn moves(rows: &mut Vec<Row>) {
    let two = Operands::REGISTERS;
    let three = Operands::ACCUMULATE;
    let table: [(&str, u32, u32, Operands, Compute); 8] = [
        ("shuffle.h", 0, 0x60, two, shuffle_halves),
        ("shuffle.b", 1, 0x60, two, shuffle_bytes),
        ("shuffle2.h", 0, 0x64, three, shuffle2_halves),
        ("shuffle2.b", 1, 0x64, three, shuffle2_bytes),
        ("pack.h", 0, 0x68, two, |a, b, _, _| a << 16 | b & 0xffff),
        ("pack.h.h", 0, 0x69, two, |a, b, _, _| a & 0xffff_0000 | b >> 16),
        ("packhi.b", 1, 0x6c, three, |a, b, d, _| a << 24 | (b & 0xff) << 16 | d & 0xffff),
        ("packlo.b", 1, 0x70, three, |a, b, d, _| d & 0xffff_0000 | (a & 0xff) << 8 | b & 0xff),
    ];
    for (name, funct3, funct7, operands, compute) in table {
        let pattern = encoding(VECTOR, funct3, funct7);
        let name = format!("pv.{name}");
        rows.push(Row::new(name, FUNCT7, pattern, operands, Action::Register(compute)));
    }
    let immediate = FUNCT7 & !(1 << 25);
    // The core's interlock takes these selectors for a register.
    let selected = Operands::REGISTERS;
    let halves = selected.with(Field::HalfSelectors);
    let pattern = encoding(VECTOR, 6, 0x60);
    let action = Action::Immediate(shuffle_halves);
    rows.push(Row::new("pv.shuffle.sci.h", immediate, pattern, halves, action));
    for (name, funct7) in
        [("shufflei0", 0x60), ("shufflei1", 0x74), ("shufflei2", 0x78), ("shufflei3", 0x7c)]
    {
        let pattern = encoding(VECTOR, 7, funct7);
        let operands = selected.with(Field::ByteSelectors);
        let action = Action::Immediate(shuffle_bytes);
        rows.push(Row::new(format!("pv.{name}.sci.b"), immediate, pattern, operands, action));
    }
    let one = Operands::UNARY.with(Field::Lane);
    let kept = Operands { rd: true, ..one };
    // Halves are counted by the immediate's lowest bit, bytes by its lowest two.
    let table: [(&str, u32, u32, Operands, Compute); 6] = [
        ("extract.h", 6, 0x3c, one, |a, lane, _, _| half(a, lane & 1) as u32),
        ("extract.b", 7, 0x3c, one, |a, lane, _, _| byte(a, lane) as u32),
        ("extractu.h", 6, 0x48, one, |a, lane, _, _| half(a, lane & 1) as u32 & 0xffff),
        ("extractu.b", 7, 0x48, one, |a, lane, _, _| byte(a, lane) as u32 & 0xff),
        ("insert.h", 6, 0x58, kept, |a, lane, d, _| {
            let at = 16 * (lane & 1);
            d & !(0xffff << at) | (a & 0xffff) << at
        }),
        ("insert.b", 7, 0x58, kept, |a, lane, d, _| {
            d & !(0xff << (8 * lane)) | (a & 0xff) << (8 * lane)
        }),
    ];
    for (name, funct3, funct7, operands, compute) in table {
        let pattern = encoding(VECTOR, funct3, funct7);
        let name = format!("pv.{name}");
        rows.push(Row::new(name, immediate, pattern, operands, Action::Immediate(compute)));
    }
    let table: [(&str, u32, Compute); 2] = [
        ("pv.abs.h", 0, |a, _, _, _| halves_of(a, i32::wrapping_abs)),
        ("pv.abs.b", 1, |a, _, _, _| bytes(a, 0, |a, _| a.wrapping_abs())),
    ];
    for (name, funct3, compute) in table {
        let pattern = encoding(VECTOR, funct3, 0x38);
        let mask = crate::decode::FUNCT7_RS2;
        rows.push(Row::new(name, mask, pattern, Operands::UNARY, Action::Immediate(compute)));
    }
}

fn halves_of(a: u32, f: impl Fn(i32) -> i32) -> u32 {
    halves(a, 0, |a, _| f(a))
}

pub(crate) fn rows(rows: &mut Vec<Row>) {
    for lanes in arithmetic() {
        forms(rows, &lanes, false);
    }
    for (alone, added) in dots() {
        forms(rows, &alone, false);
        forms(rows, &added, true);
    }
    moves(rows);
}
