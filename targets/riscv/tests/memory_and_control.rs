//! Loads, stores, branches, jumps, hardware loops, control registers and traps, against their meaning in the manuals.

mod common;

use common::{DATA, ECALL, NOP, ORIGIN, Random, b, executed, i, jal, r, s};
use trainc_riscv::{Machine, Memory, Trap};

/// Executes one word; registers 1 and 2 are given.
fn one(machine: &mut Machine, word: u32) {
    machine.memory.store(ORIGIN, 4, word).expect("memory");
    machine.forget_code();
    machine.pc = ORIGIN;
    machine.step().unwrap_or_else(|trap| panic!("{word:#010x}: {trap}"));
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Offset,
    Indexed,
    PostImmediate,
    PostRegister,
}

const FORMS: [Form; 4] = [Form::Offset, Form::Indexed, Form::PostImmediate, Form::PostRegister];

#[test]
fn loads() {
    let mut random = Random(3);
    let mut machine = Machine::new(Memory::new(ORIGIN, 0x2000));
    for (size, signed, funct3, funct7) in [
        (1, true, 0, 0x00),
        (2, true, 1, 0x08),
        (4, true, 2, 0x10),
        (1, false, 4, 0x20),
        (2, false, 5, 0x28),
    ] {
        for form in FORMS {
            for _ in 0..200 {
                let bytes: [u8; 8] = random.bits().to_le_bytes();
                let at = DATA + 64 + random.below(64);
                machine.memory.slice_mut(at, 8).expect("memory").copy_from_slice(&bytes);
                let step = random.below(128) as i32 - 64;
                // rs1 and rd may be the same; then rd holds what was loaded.
                let (rd, rs1) = (1 + random.below(2), 1);
                let post = matches!(form, Form::PostImmediate | Form::PostRegister);
                let base = if post { at } else { at.wrapping_sub(step as u32) };
                machine.set_register(1, base);
                machine.set_register(2, 77);
                machine.set_register(3, step as u32);
                one(
                    &mut machine,
                    match form {
                        Form::Offset => i(0x03, funct3, rd, rs1, step),
                        Form::PostImmediate => i(0x0b, funct3, rd, rs1, step),
                        Form::Indexed => r(0x03, 7, funct7, rd, rs1, 3),
                        Form::PostRegister => r(0x0b, 7, funct7, rd, rs1, 3),
                    },
                );
                let mut meant: i64 =
                    (0..size).map(|byte| i64::from(bytes[byte]) << (8 * byte)).sum();
                if signed && meant >= 1 << (8 * size - 1) {
                    meant -= 1 << (8 * size);
                }
                assert_eq!(machine.register(rd as usize), meant as u32);
                if rd != rs1 {
                    let left = if post { base.wrapping_add(step as u32) } else { base };
                    assert_eq!(machine.register(1), left);
                }
            }
        }
    }
}

#[test]
fn stores() {
    let mut random = Random(4);
    let mut machine = Machine::new(Memory::new(ORIGIN, 0x2000));
    for (size, funct3) in [(1usize, 0), (2, 1), (4, 2)] {
        for form in FORMS {
            for _ in 0..200 {
                let at = DATA + 64 + random.below(64);
                let before: [u8; 8] = random.bits().to_le_bytes();
                machine.memory.slice_mut(at - 2, 8).expect("memory").copy_from_slice(&before);
                let step = random.below(128) as i32 - 64;
                let post = matches!(form, Form::PostImmediate | Form::PostRegister);
                let base = if post { at } else { at.wrapping_sub(step as u32) };
                machine.set_register(1, base);
                machine.set_register(2, random.bits() as u32);
                machine.set_register(3, step as u32);
                // What is stored may be the address; a post-increment comes after.
                let rs2 = 1 + random.below(2);
                let value = machine.register(rs2 as usize).to_le_bytes();
                one(
                    &mut machine,
                    match form {
                        Form::Offset => s(0x23, funct3, 1, rs2, step),
                        Form::PostImmediate => s(0x2b, funct3, 1, rs2, step),
                        Form::Indexed => r(0x23, funct3 + 4, 0, 3, 1, rs2),
                        Form::PostRegister => r(0x2b, funct3 + 4, 0, 3, 1, rs2),
                    },
                );
                let mut meant = before;
                meant[2..2 + size].copy_from_slice(&value[..size]);
                assert_eq!(machine.memory.slice(at - 2, 8), Some(&meant[..]));
                let left = if post { base.wrapping_add(step as u32) } else { base };
                assert_eq!(machine.register(1), left);
            }
        }
    }
}

#[test]
fn branches() {
    let mut random = Random(5);
    let mut machine = Machine::new(Memory::new(ORIGIN, 0x2000));
    for _ in 0..2000 {
        let (x, y) = (random.operand(), random.operand());
        let y = if random.below(4) == 0 { x } else { y };
        let offset = (random.below(2048) as i32 - 1024) * 2;
        let (xs, ys) = (x as i32, y as i32);
        for (funct3, taken) in
            [(0, x == y), (1, x != y), (4, xs < ys), (5, xs >= ys), (6, x < y), (7, x >= y)]
        {
            machine.set_register(1, x);
            machine.set_register(2, y);
            one(&mut machine, b(funct3, 1, 2, offset));
            assert_eq!(machine.pc, ORIGIN.wrapping_add_signed(if taken { offset } else { 4 }));
        }
        // p.beqimm and p.bneimm: a signed number of five bits.
        let number = random.below(32);
        let value = if number >= 16 { number as i32 - 32 } else { number as i32 };
        let x = if random.below(2) == 0 { value as u32 } else { x };
        for (funct3, taken) in [(2, x as i32 == value), (3, x as i32 != value)] {
            machine.set_register(1, x);
            one(&mut machine, b(funct3, 1, number, offset));
            assert_eq!(machine.pc, ORIGIN.wrapping_add_signed(if taken { offset } else { 4 }));
        }
    }
}

#[test]
fn jumps() {
    let mut machine = Machine::new(Memory::new(ORIGIN, 0x2000));
    for offset in [4, 8, 1048574, -1048576, 2048, -2] {
        one(&mut machine, jal(1, offset));
        assert_eq!(
            (machine.pc, machine.register(1)),
            (ORIGIN.wrapping_add_signed(offset), ORIGIN + 4)
        );
    }
    for (base, offset) in [(ORIGIN, 100), (ORIGIN + 101, -100), (5, -2048)] {
        machine.set_register(1, base);
        one(&mut machine, i(0x67, 0, 1, 1, offset));
        let target = base.wrapping_add_signed(offset) & !1;
        assert_eq!((machine.pc, machine.register(1)), (target, ORIGIN + 4));
    }
}

/// x5 counts in the inner loop, x6 in the outer one; lp.starti, lp.endi and lp.count of loop 1 around lp.setup of loop 0.
#[test]
fn nested_hardware_loops() {
    let count = |register: u32| i(0x13, 0, register, register, 1);
    let setting = |funct3: u32, number: u32, rs1: u32, immediate: u32| {
        0x7b | funct3 << 12 | number << 7 | rs1 << 15 | immediate << 20
    };
    for (inner, outer) in [(5, 7), (1, 3), (3, 1), (0, 2), (2, 0)] {
        for registers in [false, true] {
            let words = [
                setting(0, 1, 0, 6),  // start: 3 words on
                setting(1, 1, 0, 14), // end: 7 words on from here
                if registers { setting(2, 1, 11, 0) } else { setting(3, 1, 0, outer) },
                // The outer body.
                if registers { setting(4, 0, 10, 6) } else { setting(5, 0, 6, inner) },
                count(5),
                NOP,
                NOP,
                count(6),
                NOP,
                ECALL,
            ];
            let machine = executed(&words, |machine| {
                machine.set_register(10, inner);
                machine.set_register(11, outer);
            });
            let (inner, outer) = (inner.max(1), outer.max(1));
            assert_eq!((machine.register(5), machine.register(6)), (inner * outer, outer));
        }
    }
}

#[test]
fn counters_can_be_read() {
    let read = |rd: u32, number: i32| i(0x73, 2, rd, 0, number);
    let words = [NOP, NOP, read(5, 0xb00), read(6, 0xb02), read(7, 0xf14), read(8, 0xc80), ECALL];
    let machine = executed(&words, |machine| machine.hart = 5);
    assert_eq!([5, 6, 7, 8].map(|at| machine.register(at)), [2, 3, 5, 0]);
    // Others hold what is written: write, set, clear, the same with numbers of five bits.
    let csr = |funct3: u32, rd: u32, rs1: u32| i(0x73, funct3, rd, rs1, 0x340);
    let words = [
        csr(1, 0, 5),
        csr(2, 6, 7),
        csr(3, 8, 9),
        csr(5, 10, 3),
        csr(6, 11, 4),
        csr(7, 12, 1),
        csr(2, 13, 0),
        ECALL,
    ];
    let machine = executed(&words, |machine| {
        for (register, value) in [(5, 0b1100), (7, 0b0011), (9, 0b0101)] {
            machine.set_register(register, value);
        }
    });
    let found = [6, 8, 10, 11, 12, 13].map(|at| machine.register(at));
    assert_eq!(found, [0b1100, 0b1111, 0b1010, 0b00011, 0b00111, 0b00110]);
}

#[test]
fn traps_say_where_and_what() {
    let run = |words: &[u32]| {
        let mut machine = Machine::new(Memory::new(ORIGIN, 0x1000));
        for (at, word) in words.iter().enumerate() {
            machine.memory.store(ORIGIN + 4 * at as u32, 4, *word).expect("memory");
        }
        machine.run(10)
    };
    let pc = ORIGIN + 4;
    // No instruction: zeros, an unused funct7 of pv.*, floats, RV64's ld, a reserved compressed word.
    for word in [
        r(0x57, 2, 0, 1, 2, 3),
        r(0x57, 1, 0x7e, 1, 2, 3),
        0x0000_0053,
        i(0x03, 3, 1, 2, 0),
        r(0x33, 0, 0x10, 1, 2, 3),
    ] {
        assert_eq!(run(&[NOP, word]), Err(Trap::IllegalInstruction { pc, word }));
    }
    assert_eq!(run(&[NOP, 0]), Err(Trap::IllegalInstruction { pc, word: 0 }));
    assert_eq!(
        run(&[NOP, i(0x03, 2, 1, 0, 16)]),
        Err(Trap::OutOfRange { pc, address: 16, size: 4 })
    );
    let (last, size) = (ORIGIN + 0xfff, 2);
    let store = [0x37 | 3 << 7 | 0x2000, s(0x23, 1, 3, 0, -1)];
    assert_eq!(run(&store), Err(Trap::OutOfRange { pc, address: last, size }));
    assert_eq!(run(&[NOP, 0x0010_0073]), Err(Trap::Break { pc }));
    assert_eq!(run(&[NOP, ECALL]), Err(Trap::Call { pc, number: 0 }));
    assert_eq!(run(&[jal(0, 0)]), Err(Trap::Limit { pc: ORIGIN }));
    assert_eq!(
        run(&[jal(0, -64)]),
        Err(Trap::OutOfRange { pc: ORIGIN - 64, address: ORIGIN - 64, size: 2 })
    );
}

/// Code that stores into code executes what it stored.
#[test]
fn stored_code_is_executed() {
    // The third word becomes `addi x5, x5, 2` after it ran once as `addi x5, x5, 1`.
    let words = [
        s(0x23, 2, 8, 0, 0),
        NOP,
        i(0x13, 0, 5, 5, 1),
        s(0x23, 2, 8, 6, 8),
        i(0x13, 0, 7, 7, 1),
        b(1, 7, 10, -12),
        ECALL,
    ];
    let machine = executed(&words, |machine| {
        machine.set_register(8, ORIGIN);
        machine.set_register(6, i(0x13, 0, 5, 5, 2));
        machine.set_register(10, 3);
    });
    assert_eq!(machine.register(5), 1 + 2 + 2);
}
