//! Every instruction that computes, on random operands, against its meaning in the manuals: stated here lane by lane in
//! 64 bits, on words encoded here. Loads, stores and control are in their own files.

mod common;

use std::collections::BTreeSet;

use common::{Random, i, r};
use trainc_riscv::decode::{self, Action};
use trainc_riscv::{Machine, Memory};

/// Values of an instruction's operands.
#[derive(Clone, Copy)]
struct Values {
    a: u32,
    b: u32,
    d: u32,
    immediate: i64,
}

type Meaning = Box<dyn Fn(Values) -> i64>;
/// A word for (rd, rs1, rs2), and its immediate.
type Encode = Box<dyn Fn(&mut Random, u32, u32, u32) -> (u32, i64)>;

struct Case {
    name: String,
    encode: Encode,
    meaning: Meaning,
}

fn case(
    name: &str,
    encode: impl Fn(&mut Random, u32, u32, u32) -> (u32, i64) + 'static,
    meaning: impl Fn(Values) -> i64 + 'static,
) -> Case {
    Case { name: name.into(), encode: Box::new(encode), meaning: Box::new(meaning) }
}

/// Three registers.
fn registers(
    opcode: u32,
    funct3: u32,
    funct7: u32,
) -> impl Fn(&mut Random, u32, u32, u32) -> (u32, i64) {
    move |_, rd, rs1, rs2| (r(opcode, funct3, funct7, rd, rs1, rs2), 0)
}

/// Two registers, the rs2 field 0.
fn unary(
    opcode: u32,
    funct3: u32,
    funct7: u32,
) -> impl Fn(&mut Random, u32, u32, u32) -> (u32, i64) {
    move |_, rd, rs1, _| (r(opcode, funct3, funct7, rd, rs1, 0), 0)
}

/// A number of `bits` bits in the rs2 field (`low`) or from bit 25 on.
fn number(
    opcode: u32,
    funct3: u32,
    funct7: u32,
    low: bool,
) -> impl Fn(&mut Random, u32, u32, u32) -> (u32, i64) {
    move |random, rd, rs1, rs2| {
        let n = random.below(32);
        let word = match low {
            true => r(opcode, funct3, funct7, rd, rs1, n),
            false => r(opcode, funct3, funct7 | n, rd, rs1, rs2),
        };
        (word, i64::from(n))
    }
}

fn signed(x: u32) -> i64 {
    i64::from(x as i32)
}

fn unsigned(x: u32) -> i64 {
    i64::from(x)
}

/// The lowest `width` bits of a number as a signed one.
fn wrap(x: i64, width: u32) -> i64 {
    x << (64 - width) >> (64 - width)
}

/// The same, unsigned.
fn wrap_unsigned(x: i64, width: u32) -> i64 {
    x & ((1 << width) - 1)
}

/// A lane's value.
fn lane(word: u32, index: u32, width: u32, sign: bool) -> i64 {
    let bits = i64::from(word) >> (index * width);
    if sign { wrap(bits, width) } else { wrap_unsigned(bits, width) }
}

fn join(lanes: impl Iterator<Item = i64>, width: u32) -> i64 {
    lanes
        .enumerate()
        .fold(0, |word, (at, lane)| word | wrap_unsigned(lane, width) << (at as u32 * width))
}

/// Where the second operand's lanes come from.
#[derive(Clone, Copy, PartialEq)]
enum Second {
    Vector,
    Scalar,
    Immediate,
}

const WIDTHS: [(u32, &str); 2] = [(16, "h"), (8, "b")];

/// The six forms of `pv.name`: bits 31:26, the signs of the operands, and what they make of (a's lanes, b's lanes, rd).
fn vector(
    cases: &mut Vec<Case>,
    name: &str,
    top: u32,
    signs: (bool, bool),
    meaning: impl Fn(Vec<i64>, Vec<i64>, u32, u32) -> i64 + Clone + 'static,
) {
    for (width, suffix) in WIDTHS {
        let byte = u32::from(width == 8);
        for (second, infix, funct3) in [
            (Second::Vector, "", byte),
            (Second::Scalar, ".sc", 4 + byte),
            (Second::Immediate, ".sci", 6 + byte),
        ] {
            let encode = move |random: &mut Random, rd, rs1, rs2| {
                if second != Second::Immediate {
                    return (r(0x57, funct3, top << 1, rd, rs1, rs2), 0);
                }
                let six = random.below(64);
                let value = if signs.1 { wrap(i64::from(six), 6) } else { i64::from(six) };
                (r(0x57, funct3, top << 1 | six & 1, rd, rs1, six >> 1), value)
            };
            let meaning = meaning.clone();
            let meaning = move |v: Values| {
                let count = 32 / width;
                let first = (0..count).map(|at| lane(v.a, at, width, signs.0)).collect();
                let second = (0..count).map(|at| match second {
                    Second::Vector => lane(v.b, at, width, signs.1),
                    Second::Scalar => lane(v.b, 0, width, signs.1),
                    Second::Immediate => v.immediate,
                });
                meaning(first, second.collect(), v.d, width)
            };
            cases.push(case(&format!("pv.{name}{infix}.{suffix}"), encode, meaning));
        }
    }
}

/// A vector operation that treats each lane for itself.
fn lanewise(
    cases: &mut Vec<Case>,
    name: &str,
    top: u32,
    sign: bool,
    meaning: impl Fn(i64, i64, u32) -> i64 + Clone + 'static,
) {
    vector(cases, name, top, (sign, sign), move |a, b, _, width| {
        join(a.iter().zip(&b).map(|(&a, &b)| meaning(a, b, width)), width)
    });
}

fn vectors(cases: &mut Vec<Case>) {
    lanewise(cases, "add", 0b000000, true, |a, b, _| a + b);
    lanewise(cases, "sub", 0b000010, true, |a, b, _| a - b);
    lanewise(cases, "avg", 0b000100, true, |a, b, width| wrap(a + b, width) >> 1);
    lanewise(cases, "avgu", 0b000110, false, |a, b, width| wrap_unsigned(a + b, width) >> 1);
    lanewise(cases, "min", 0b001000, true, |a, b, _| a.min(b));
    lanewise(cases, "minu", 0b001010, false, |a, b, _| a.min(b));
    lanewise(cases, "max", 0b001100, true, |a, b, _| a.max(b));
    lanewise(cases, "maxu", 0b001110, false, |a, b, _| a.max(b));
    let amount = |b: i64, width: u32| b.rem_euclid(i64::from(width));
    lanewise(cases, "srl", 0b010000, true, move |a, b, width| {
        wrap_unsigned(a, width) / (1 << amount(b, width))
    });
    lanewise(cases, "sra", 0b010010, true, move |a, b, width| a.div_euclid(1 << amount(b, width)));
    lanewise(cases, "sll", 0b010100, true, move |a, b, width| a * (1 << amount(b, width)));
    lanewise(cases, "or", 0b010110, true, |a, b, _| a | b);
    lanewise(cases, "xor", 0b011000, true, |a, b, _| a ^ b);
    lanewise(cases, "and", 0b011010, true, |a, b, _| a & b);
    let truth = |condition: bool| if condition { -1 } else { 0 };
    lanewise(cases, "cmpeq", 0b000001, true, move |a, b, _| truth(a == b));
    lanewise(cases, "cmpne", 0b000011, true, move |a, b, _| truth(a != b));
    for (sign, suffix, top) in [(true, "", 0b000101), (false, "u", 0b001101)] {
        let name = |name: &str| format!("{name}{suffix}");
        lanewise(cases, &name("cmpgt"), top, sign, move |a, b, _| truth(a > b));
        lanewise(cases, &name("cmpge"), top + 2, sign, move |a, b, _| truth(a >= b));
        lanewise(cases, &name("cmplt"), top + 4, sign, move |a, b, _| truth(a < b));
        lanewise(cases, &name("cmple"), top + 6, sign, move |a, b, _| truth(a <= b));
    }
    let dot = |a: Vec<i64>, b: Vec<i64>| a.iter().zip(&b).map(|(a, b)| a * b).sum::<i64>();
    for (name, top, added, signs) in [
        ("dotup", 0b100000, 0b101000, (false, false)),
        ("dotusp", 0b100010, 0b101010, (false, true)),
        ("dotsp", 0b100110, 0b101110, (true, true)),
    ] {
        vector(cases, name, top, signs, move |a, b, _, _| dot(a, b));
        vector(cases, &format!("s{name}"), added, signs, move |a, b, d, _| signed(d) + dot(a, b));
    }
}

fn moves(cases: &mut Vec<Case>) {
    for (width, suffix) in WIDTHS {
        let count = 32 / width;
        let byte = u32::from(width == 8);
        let all = move |word: u32| (0..count).map(move |at| lane(word, at, width, false));
        cases.push(case(&format!("pv.abs.{suffix}"), unary(0x57, byte, 0b0111000), move |v| {
            join((0..count).map(|at| lane(v.a, at, width, true).abs()), width)
        }));
        let selected = move |word: u32, selector: i64| {
            lane(word, (selector % i64::from(count)) as u32, width, false)
        };
        cases.push(case(&format!("pv.shuffle.{suffix}"), registers(0x57, byte, 0b1100000), {
            move |v| join(all(v.b).map(|selector| selected(v.a, selector)), width)
        }));
        cases.push(case(&format!("pv.shuffle2.{suffix}"), registers(0x57, byte, 0b1100100), {
            move |v| {
                let from = |s: i64| if s / i64::from(count) % 2 == 1 { v.a } else { v.d };
                join(all(v.b).map(|selector| selected(from(selector), selector)), width)
            }
        }));
        let index = move |top: u32| {
            move |random: &mut Random, rd, rs1, _| {
                let at = random.below(count);
                (r(0x57, 6 + byte, top << 1 | at & 1, rd, rs1, at >> 1), i64::from(at))
            }
        };
        cases.push(case(&format!("pv.extract.{suffix}"), index(0b011110), move |v| {
            lane(v.a, v.immediate as u32, width, true)
        }));
        cases.push(case(&format!("pv.extractu.{suffix}"), index(0b100100), move |v| {
            lane(v.a, v.immediate as u32, width, false)
        }));
        cases.push(case(&format!("pv.insert.{suffix}"), index(0b101100), move |v| {
            let kept = all(v.d).enumerate();
            let first = lane(v.a, 0, width, false);
            join(kept.map(|(at, old)| if at as i64 == v.immediate { first } else { old }), width)
        }));
    }
    // Selectors of lanes 0 to 2 are the immediate's pairs of bits; of lane 3 the number in the name.
    for (name, top, last) in
        [("0", 0b110000, 0), ("1", 0b111010, 1), ("2", 0b111100, 2), ("3", 0b111110, 3)]
    {
        let encode = move |random: &mut Random, rd, rs1, _| {
            let six = random.below(64);
            (r(0x57, 7, top << 1 | six & 1, rd, rs1, six >> 1), i64::from(six))
        };
        cases.push(case(&format!("pv.shufflei{name}.sci.b"), encode, move |v| {
            let six = v.immediate;
            join(
                [six & 3, six >> 2 & 3, six >> 4 & 3, last]
                    .iter()
                    .map(|&s| lane(v.a, s as u32, 8, false)),
                8,
            )
        }));
    }
    let encode = |random: &mut Random, rd, rs1, _| {
        let (low, high) = (random.below(2), random.below(2));
        (r(0x57, 6, 0b1100000 | low, rd, rs1, high), i64::from(high << 1 | low))
    };
    cases.push(case("pv.shuffle.sci.h", encode, |v| {
        join(
            [v.immediate & 1, v.immediate >> 1].iter().map(|&s| lane(v.a, s as u32, 16, false)),
            16,
        )
    }));
    let halves = |word: u32| [lane(word, 0, 16, false), lane(word, 1, 16, false)];
    cases.push(case("pv.pack.h", registers(0x57, 0, 0x68), move |v| {
        join([halves(v.b)[0], halves(v.a)[0]].into_iter(), 16)
    }));
    cases.push(case("pv.pack.h.h", registers(0x57, 0, 0x69), move |v| {
        join([halves(v.b)[1], halves(v.a)[1]].into_iter(), 16)
    }));
    let bytes = |word: u32| [0, 1, 2, 3].map(|at| lane(word, at, 8, false));
    cases.push(case("pv.packlo.b", registers(0x57, 1, 0x70), move |v| {
        join([bytes(v.b)[0], bytes(v.a)[0], bytes(v.d)[2], bytes(v.d)[3]].into_iter(), 8)
    }));
    cases.push(case("pv.packhi.b", registers(0x57, 1, 0x6c), move |v| {
        join([bytes(v.d)[0], bytes(v.d)[1], bytes(v.b)[0], bytes(v.a)[0]].into_iter(), 8)
    }));
}

fn plain(cases: &mut Vec<Case>) {
    let low5 = |x: u32| x % 32;
    cases.push(case("add", registers(0x33, 0, 0), |v| signed(v.a) + signed(v.b)));
    cases.push(case("sub", registers(0x33, 0, 0x20), |v| signed(v.a) - signed(v.b)));
    cases.push(case("sll", registers(0x33, 1, 0), move |v| unsigned(v.a) * (1 << low5(v.b))));
    cases.push(case("slt", registers(0x33, 2, 0), |v| (signed(v.a) < signed(v.b)).into()));
    cases.push(case("sltu", registers(0x33, 3, 0), |v| (unsigned(v.a) < unsigned(v.b)).into()));
    cases.push(case("xor", registers(0x33, 4, 0), |v| unsigned(v.a) ^ unsigned(v.b)));
    cases.push(case("srl", registers(0x33, 5, 0), move |v| unsigned(v.a) / (1 << low5(v.b))));
    cases.push(case("sra", registers(0x33, 5, 0x20), move |v| {
        signed(v.a).div_euclid(1 << low5(v.b))
    }));
    cases.push(case("or", registers(0x33, 6, 0), |v| unsigned(v.a) | unsigned(v.b)));
    cases.push(case("and", registers(0x33, 7, 0), |v| unsigned(v.a) & unsigned(v.b)));
    let immediate = |funct3| {
        move |random: &mut Random, rd, rs1, _| {
            let value = random.pick(&[0, 1, -1, 2047, -2048, random.0 as i32 >> 20]);
            (i(0x13, funct3, rd, rs1, value), i64::from(value))
        }
    };
    cases.push(case("addi", immediate(0), |v| signed(v.a) + v.immediate));
    cases.push(case("slti", immediate(2), |v| (signed(v.a) < v.immediate).into()));
    cases.push(case("sltiu", immediate(3), |v| {
        (unsigned(v.a) < wrap_unsigned(v.immediate, 32)).into()
    }));
    cases.push(case("xori", immediate(4), |v| signed(v.a) ^ v.immediate));
    cases.push(case("ori", immediate(6), |v| signed(v.a) | v.immediate));
    cases.push(case("andi", immediate(7), |v| signed(v.a) & v.immediate));
    cases.push(case("slli", number(0x13, 1, 0, true), |v| unsigned(v.a) << v.immediate));
    cases.push(case("srli", number(0x13, 5, 0, true), |v| unsigned(v.a) >> v.immediate));
    cases.push(case("srai", number(0x13, 5, 0x20, true), |v| signed(v.a) >> v.immediate));
    for (name, opcode, base) in [("lui", 0x37u32, 0), ("auipc", 0x17, i64::from(ORIGIN))] {
        let encode = move |random: &mut Random, rd, _, _| {
            let upper = random.below(1 << 20);
            (opcode | rd << 7 | upper << 12, i64::from(upper) << 12)
        };
        cases.push(case(name, encode, move |v| base + v.immediate));
    }
    let wide = |v: Values| i128::from(v.a as i32) * i128::from(v.b as i32);
    cases.push(case("mul", registers(0x33, 0, 1), move |v| wide(v) as i64));
    cases.push(case("mulh", registers(0x33, 1, 1), move |v| (wide(v) >> 32) as i64));
    cases.push(case("mulhsu", registers(0x33, 2, 1), |v| (signed(v.a) * unsigned(v.b)) >> 32));
    cases.push(case("mulhu", registers(0x33, 3, 1), |v| {
        ((u128::from(v.a) * u128::from(v.b)) >> 32) as i64
    }));
    let quotient = |a: i64, b: i64| if b == 0 { -1 } else { a / b };
    let rest = |a: i64, b: i64| if b == 0 { a } else { a % b };
    cases.push(case("div", registers(0x33, 4, 1), move |v| quotient(signed(v.a), signed(v.b))));
    cases
        .push(case("divu", registers(0x33, 5, 1), move |v| quotient(unsigned(v.a), unsigned(v.b))));
    cases.push(case("rem", registers(0x33, 6, 1), move |v| rest(signed(v.a), signed(v.b))));
    cases.push(case("remu", registers(0x33, 7, 1), move |v| rest(unsigned(v.a), unsigned(v.b))));
}

/// 2^(n-1), 0 for n = 0.
fn half(n: i64) -> i64 {
    if n == 0 { 0 } else { 1 << (n - 1) }
}

fn scalars(cases: &mut Vec<Case>) {
    cases.push(case("p.slet", registers(0x33, 2, 2), |v| (signed(v.a) <= signed(v.b)).into()));
    cases.push(case("p.sletu", registers(0x33, 3, 2), |v| (v.a <= v.b).into()));
    cases.push(case("p.min", registers(0x33, 4, 2), |v| signed(v.a).min(signed(v.b))));
    cases.push(case("p.minu", registers(0x33, 5, 2), |v| unsigned(v.a).min(unsigned(v.b))));
    cases.push(case("p.max", registers(0x33, 6, 2), |v| signed(v.a).max(signed(v.b))));
    cases.push(case("p.maxu", registers(0x33, 7, 2), |v| unsigned(v.a).max(unsigned(v.b))));
    cases.push(case("p.abs", unary(0x33, 0, 2), |v| signed(v.a).abs()));
    cases.push(case("p.ror", registers(0x33, 5, 4), |v| {
        (unsigned(v.a) << 32 | unsigned(v.a)) >> (v.b % 32)
    }));
    cases.push(case("p.exths", unary(0x33, 4, 8), |v| lane(v.a, 0, 16, true)));
    cases.push(case("p.exthz", unary(0x33, 5, 8), |v| lane(v.a, 0, 16, false)));
    cases.push(case("p.extbs", unary(0x33, 6, 8), |v| lane(v.a, 0, 8, true)));
    cases.push(case("p.extbz", unary(0x33, 7, 8), |v| lane(v.a, 0, 8, false)));
    let bit = |word: u32, at: u32| word >> at & 1;
    let first = move |word: u32, mut order: Box<dyn Iterator<Item = u32>>| {
        order.find(|&at| bit(word, at) == 1).map_or(32, i64::from)
    };
    cases.push(case("p.ff1", unary(0x33, 0, 8), move |v| first(v.a, Box::new(0..32))));
    cases.push(case("p.fl1", unary(0x33, 1, 8), move |v| first(v.a, Box::new((0..32).rev()))));
    cases.push(case("p.cnt", unary(0x33, 3, 8), move |v| {
        (0..32).map(|at| i64::from(bit(v.a, at))).sum()
    }));
    cases.push(case("p.clb", unary(0x33, 2, 8), move |v| {
        let same = (0..31).rev().take_while(|&at| bit(v.a, at) == bit(v.a, 31)).count();
        if v.a == 0 { 0 } else { same as i64 }
    }));
    let clamp = |x: i64, low: i64, high: i64| {
        if x < low {
            low
        } else if x > high {
            high
        } else {
            x
        }
    };
    cases.push(case("p.clip", number(0x33, 1, 0x0a, true), move |v| {
        let bound = half(v.immediate).max(1);
        clamp(signed(v.a), -bound, bound - 1)
    }));
    cases.push(case("p.clipu", number(0x33, 2, 0x0a, true), move |v| {
        clamp(signed(v.a), 0, half(v.immediate).max(1) - 1)
    }));
    // Bounds below 0 are not for use; what the core then does is in `clips_with_negative_bounds`.
    let bound = |v: Values| if signed(v.b) < 0 { None } else { Some(signed(v.b)) };
    cases.push(case("p.clipr", registers(0x33, 5, 0x0a), move |v| {
        bound(v).map_or(i64::MIN, |bound| clamp(signed(v.a), -bound - 1, bound))
    }));
    cases.push(case("p.clipur", registers(0x33, 6, 0x0a), move |v| {
        bound(v).map_or(i64::MIN, |bound| clamp(signed(v.a), 0, bound))
    }));
}

fn normalised(cases: &mut Vec<Case>) {
    for (name, funct3, sign) in [("add", 2, 1), ("sub", 3, -1)] {
        for (kind, rounds, signs, more3, top) in [
            ("N", false, true, 0, 0),
            ("uN", false, false, 0, 0x40),
            ("RN", true, true, 4, 0),
            ("uRN", true, false, 4, 0x40),
        ] {
            let shifted = move |sum: i64, n: i64| {
                let sum = sum + if rounds { half(n) } else { 0 };
                if signs { wrap(sum, 32) >> n } else { wrap_unsigned(sum, 32) >> n }
            };
            cases.push(case(
                &format!("p.{name}{kind}"),
                number(0x5b, funct3 | more3, top, false),
                move |v| shifted(signed(v.a) + sign * signed(v.b), v.immediate),
            ));
            let encode = registers(0x5b, funct3 | more3, top | 0x20);
            cases.push(case(&format!("p.{name}{kind}r"), encode, move |v| {
                shifted(signed(v.d) + sign * signed(v.a), i64::from(v.b % 32))
            }));
        }
    }
    for (high, signs, kind, top) in
        [(0, false, "u", 0), (1, false, "hhu", 0x20), (0, true, "s", 0x40), (1, true, "hhs", 0x60)]
    {
        for (rounds, more3, n) in [(false, 0, "N"), (true, 4, "RN")] {
            for (adds, base, funct3) in [(false, "mul", 0), (true, "mac", 1)] {
                let name = format!("p.{base}{kind}{n}");
                cases.push(case(&name, number(0x5b, funct3 | more3, top, false), move |v| {
                    let product = lane(v.a, high, 16, signs) * lane(v.b, high, 16, signs);
                    let sum = product + if adds { signed(v.d) } else { 0 };
                    let sum = sum + if rounds { half(v.immediate) } else { 0 };
                    if signs {
                        wrap(sum, 32) >> v.immediate
                    } else {
                        wrap_unsigned(sum, 32) >> v.immediate
                    }
                }));
            }
        }
    }
    cases.push(case("p.mac", registers(0x33, 0, 0x21), |v| {
        (i128::from(signed(v.d)) + i128::from(signed(v.a)) * i128::from(signed(v.b))) as i64
    }));
    cases.push(case("p.msu", registers(0x33, 1, 0x21), |v| {
        (i128::from(signed(v.d)) - i128::from(signed(v.a)) * i128::from(signed(v.b))) as i64
    }));
}

/// Fields: width less one and position, from the immediate or from bits 9:5 and 4:0 of rs2. Where a field sticks out of
/// the register, its lower part is what there is.
fn fields(cases: &mut Vec<Case>) {
    type OfField = fn(Values, i64, i64) -> i64;
    let table: [(&str, u32, OfField); 5] = [
        ("extract", 0, |v, width, at| wrap(signed(v.a) >> at, width as u32)),
        ("extractu", 1, |v, width, at| (unsigned(v.a) >> at) & ((1 << width) - 1)),
        ("insert", 2, |v, width, at| {
            let mask = ((1 << width) - 1) << at;
            unsigned(v.d) & !mask | unsigned(v.a) << at & mask
        }),
        ("bclr", 3, |v, width, at| unsigned(v.a) & !(((1 << width) - 1) << at)),
        ("bset", 4, |v, width, at| unsigned(v.a) | ((1 << width) - 1) << at),
    ];
    for (name, funct3, meaning) in table {
        let encode = move |random: &mut Random, rd, rs1, _| {
            let (less, at) = (random.below(32), random.below(32));
            (r(0x33, funct3, 0x60 | less, rd, rs1, at), i64::from(less << 5 | at))
        };
        let split = |selector: i64| ((selector >> 5 & 31) + 1, selector & 31);
        cases.push(case(&format!("p.{name}"), encode, move |v| {
            let (width, at) = split(v.immediate);
            meaning(v, width, at)
        }));
        cases.push(case(&format!("p.{name}r"), registers(0x33, funct3, 0x40), move |v| {
            let (width, at) = split(i64::from(v.b));
            meaning(v, width, at)
        }));
    }
}

fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    vectors(&mut all);
    moves(&mut all);
    plain(&mut all);
    scalars(&mut all);
    normalised(&mut all);
    fields(&mut all);
    all
}

const ORIGIN: u32 = 0x1000;
const TIMES: usize = 400;

#[test]
fn instructions_mean_what_the_manual_says() {
    let mut random = Random(1);
    let mut machine = Machine::new(Memory::new(ORIGIN, 16));
    for case in cases() {
        let mut compared = 0;
        for _ in 0..TIMES {
            let [rd, rs1, rs2] = [0; 3].map(|_| random.below(32));
            let (word, immediate) = (case.encode)(&mut random, rd, rs1, rs2);
            let row = decode::find(word)
                .unwrap_or_else(|| panic!("{}: {word:#010x} is illegal", case.name));
            assert_eq!(row.name, case.name, "{word:#010x}");
            let mut before = [0u32; 32];
            for value in &mut before[1..] {
                *value = random.operand();
            }
            let of = |register: u32| before[register as usize];
            let values = Values { a: of(rs1), b: of(rs2), d: of(rd), immediate };
            let meant = (case.meaning)(values);
            if meant == i64::MIN {
                continue;
            }
            compared += 1;
            let mut after = before;
            after[rd as usize] = if rd == 0 { 0 } else { meant as u32 };
            for (register, &value) in before.iter().enumerate() {
                machine.set_register(register, value);
            }
            machine.memory.store(ORIGIN, 4, word).expect("memory");
            machine.forget_code();
            machine.pc = ORIGIN;
            machine.step().unwrap_or_else(|trap| panic!("{}: {trap}", case.name));
            let found: [u32; 32] = std::array::from_fn(|at| machine.register(at));
            let (a, b, d) = (values.a, values.b, values.d);
            assert_eq!(
                found, after,
                "{} {word:#010x}: a {a:#x} b {b:#x} d {d:#x} immediate {immediate}",
                case.name
            );
            assert_eq!(machine.pc, ORIGIN + 4);
        }
        assert!(compared > TIMES / 4, "{}: {compared} comparisons", case.name);
    }
}

/// What computes has a case above; nothing is left out.
#[test]
fn every_instruction_that_computes_is_compared() {
    let compared: BTreeSet<String> = cases().into_iter().map(|case| case.name).collect();
    let computes = |action: &Action| {
        !matches!(
            action,
            Action::Jump
                | Action::JumpRegister
                | Action::Branch(_)
                | Action::BranchImmediate(_)
                | Action::Load(_)
                | Action::Store(_)
                | Action::Loop(_)
                | Action::EnvironmentCall
                | Action::Break
                | Action::ControlRegister(_)
                | Action::ControlRegisterImmediate(_)
                | Action::Fence
        )
    };
    let rows = decode::rows().iter().filter(|row| computes(&row.action));
    let rows: BTreeSet<String> = rows.map(|row| row.name.clone()).collect();
    assert_eq!(rows, compared);
}

/// No word is two instructions.
#[test]
fn encodings_are_apart() {
    let rows = decode::rows();
    for (index, one) in rows.iter().enumerate() {
        for other in &rows[index + 1..] {
            let both = one.mask & other.mask;
            assert_ne!(one.pattern & both, other.pattern & both, "{} and {}", one.name, other.name);
        }
    }
}

/// The RTL's results for bounds that the manual leaves open.
#[test]
fn clips_with_negative_bounds() {
    let mut machine = Machine::new(Memory::new(ORIGIN, 16));
    for (funct3, a, bound, meant) in [
        (5, 10, -3, -3),
        (5, -10, -3, 2),
        (5, 2, -3, 2),
        (6, 10, -3, -3),
        (6, -10, -3, 0),
        (5, i32::MIN, i32::MIN, i32::MAX),
    ] {
        machine.memory.store(ORIGIN, 4, r(0x33, funct3, 0x0a, 3, 1, 2)).expect("memory");
        machine.forget_code();
        machine.pc = ORIGIN;
        machine.set_register(1, a as u32);
        machine.set_register(2, bound as u32);
        machine.step().expect("legal");
        assert_eq!(machine.register(3) as i32, meant, "{funct3} {a} {bound}");
    }
}
