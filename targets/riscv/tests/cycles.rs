//! Cycles of small programs: as RI5CY's manual states them and as its RTL was seen to take them (`rtl/run`).

mod common;

use common::{DATA, ECALL, NOP, b, executed, i, jal, r, s};

const X: u32 = 5;
const Y: u32 = 6;
const Z: u32 = 7;
const BASE: u32 = 8;
const TARGET: u32 = 9;
/// Two compressed `nop`s.
const HALVES: u32 = 0x0001_0001;

fn lw(rd: u32, offset: i32) -> u32 {
    i(0x03, 2, rd, BASE, offset)
}

fn add(rd: u32, a: u32, b: u32) -> u32 {
    r(0x33, 0, 0, rd, a, b)
}

/// Cycles of words before an `ecall` of one cycle. x8 is the data's address, x9 the third word's.
fn cycles(words: &[u32]) -> u64 {
    let words: Vec<u32> = words.iter().copied().chain([ECALL]).collect();
    let machine = executed(&words, |machine| {
        machine.set_register(BASE as usize, DATA);
        machine.set_register(TARGET as usize, common::ORIGIN + 8);
        machine.memory.store(DATA, 4, common::ORIGIN + 12).expect("memory");
    });
    machine.cycles - 1
}

#[test]
fn straight_lines_take_a_cycle_each() {
    assert_eq!(cycles(&[NOP; 10]), 10);
    assert_eq!(cycles(&[HALVES; 10]), 20);
    // mul, p.mac, pv.sdotusp.b, p.clip, pv.sra.b, p.extract, division of sums: all one.
    assert_eq!(
        cycles(&[
            r(0x33, 0, 0x01, X, Y, Z),
            r(0x33, 0, 0x21, X, Y, Z),
            r(0x57, 1, 0x54, X, Y, Z),
            r(0x33, 1, 0x0a, X, Y, 8),
            r(0x57, 1, 0x24, X, Y, Z),
            r(0x33, 0, 0x63, X, Y, 8),
            r(0x5b, 6, 0x03, X, Y, Z),
        ]),
        7
    );
}

#[test]
fn loads_are_waited_for() {
    assert_eq!(cycles(&[lw(X, 0), NOP]), 2);
    assert_eq!(cycles(&[lw(X, 0), add(Y, X, Z)]), 3);
    assert_eq!(cycles(&[lw(X, 0), add(Y, Z, X)]), 3);
    assert_eq!(cycles(&[lw(X, 0), NOP, add(Y, X, Z)]), 3);
    // Overwritten, accumulated onto, stored, branched on.
    assert_eq!(cycles(&[lw(X, 0), add(X, Y, Z)]), 3);
    assert_eq!(cycles(&[lw(X, 0), r(0x57, 1, 0x54, X, Y, Z)]), 3);
    assert_eq!(cycles(&[lw(X, 0), s(0x23, 2, BASE, X, 4)]), 3);
    assert_eq!(cycles(&[lw(X, 0), b(0, X, 0, 8), NOP]), 4);
    // Loaded again, and the address that a post-increment leaves, are there at once.
    assert_eq!(cycles(&[lw(X, 0), lw(X, 4)]), 2);
    assert_eq!(cycles(&[i(0x0b, 2, X, BASE, 4), i(0x0b, 2, Y, BASE, 4)]), 2);
    assert_eq!(cycles(&[lw(0, 0), add(X, 0, Y)]), 2);
}

#[test]
fn branches_and_jumps_fetch_anew() {
    assert_eq!(cycles(&[b(1, 0, 0, 8), NOP, NOP]), 3);
    assert_eq!(cycles(&[b(0, 0, 0, 8), NOP, NOP]), 4);
    assert_eq!(cycles(&[jal(0, 8), NOP, NOP]), 3);
    assert_eq!(cycles(&[i(0x67, 0, 0, TARGET, 0), NOP, NOP]), 3);
    // To the second half of a word: a compressed instruction is there, or one of four bytes that goes on in the next word.
    assert_eq!(cycles(&[jal(0, 6), HALVES, NOP]), 4);
    let (low, high) = (add(X, Y, Z) & 0xffff, add(X, Y, Z) >> 16);
    let straddled = [low << 16 | 1, 1 << 16 | high];
    assert_eq!(cycles(&[jal(0, 6), straddled[0], straddled[1]]), 5);
    assert_eq!(cycles(&[b(0, 0, 0, 6), straddled[0], straddled[1]]), 6);
    // p.beqimm, taken.
    assert_eq!(cycles(&[b(2, 0, 0, 8), NOP, NOP]), 4);
}

#[test]
fn jumps_wait_for_their_register() {
    let jump = i(0x67, 0, 0, TARGET, 4);
    assert_eq!(cycles(&[NOP, jump, NOP, NOP]), 4);
    assert_eq!(cycles(&[i(0x13, 0, TARGET, TARGET, 0), jump, NOP, NOP]), 5);
    let fetched = i(0x67, 0, 0, X, 0);
    assert_eq!(cycles(&[lw(X, 0), fetched, NOP, NOP]), 6);
    assert_eq!(cycles(&[lw(X, 0), NOP, fetched, NOP]), 6);
    assert_eq!(cycles(&[lw(X, 0), NOP, NOP, i(0x67, 0, 0, X, 4)]), 5);
    // A jump that links to its own register.
    assert_eq!(cycles(&[NOP, i(0x67, 0, TARGET, TARGET, 4), NOP, NOP]), 5);
    // A jump hides behind a long instruction.
    assert_eq!(cycles(&[r(0x33, 1, 1, X, Y, Z), jal(0, 8), NOP, NOP]), 7);
}

#[test]
fn long_operations() {
    for funct3 in 1..4 {
        assert_eq!(cycles(&[r(0x33, funct3, 1, X, Y, Z)]), 5);
    }
    let divided = |funct3: u32, divisor: u32| {
        let words = [r(0x33, funct3, 1, X, Y, Z), ECALL];
        executed(&words, |machine| machine.set_register(Z as usize, divisor)).cycles - 1
    };
    for signed in [4, 6] {
        for (divisor, taken) in
            [(0, 35), (1, 34), (2, 33), (255, 27), (i32::MAX, 4), (-1, 34), (-2, 33), (i32::MIN, 3)]
        {
            assert_eq!(divided(signed, divisor as u32), taken, "{divisor}");
        }
    }
    for unsigned in [5, 7] {
        for (divisor, taken) in [(0, 35), (1, 34), (255, 27), (1 << 31, 3), (u32::MAX, 3)] {
            assert_eq!(divided(unsigned, divisor), taken, "{divisor}");
        }
    }
}

/// As the RTL was seen to take them: rtl/programs/branches.c.
#[test]
fn divisions_behind_taken_branches_are_computed() {
    let branch = b(0, 0, 0, 8);
    // By 0: 35 cycles.
    for funct3 in 4..8 {
        let divide = r(0x33, funct3, 1, X, Y, Z);
        assert_eq!(cycles(&[branch, divide, NOP]), 4 + 34);
        // p.beqimm.
        assert_eq!(cycles(&[b(2, 0, 0, 8), divide, NOP]), 4 + 34);
        assert_eq!(cycles(&[b(0, 0, 0, 12), NOP, divide, NOP]), 4);
        assert_eq!(cycles(&[jal(0, 8), divide, NOP]), 3);
    }
    assert_eq!(cycles(&[branch, r(0x33, 1, 1, X, Y, Z), NOP]), 4);
    let divide = r(0x33, 4, 1, X, Y, Z);
    let by = |divisor: u32| {
        let set = |machine: &mut trainc_riscv::Machine| machine.set_register(Z as usize, divisor);
        executed(&[branch, divide, NOP, ECALL], set).cycles - 1
    };
    for (divisor, more) in [(1, 33), (7, 31), (100, 27), (0x7fff_ffff, 3), (1 << 31, 2)] {
        assert_eq!(by(divisor), 4 + more, "{divisor}");
    }
    // Twice, if the target is not aligned.
    let (low, high) = (add(X, Y, Z) & 0xffff, add(X, Y, Z) >> 16);
    assert_eq!(cycles(&[b(0, 0, 0, 10), divide, low << 16 | 1, 1 << 16 | high]), 6 + 2 * 34);
    assert_eq!(cycles(&[b(0, 0, 0, 10), divide, HALVES, NOP]), 5 + 34);
    // A jump at the target hides one cycle more; the next branch costs what it does.
    assert_eq!(cycles(&[branch, divide, jal(0, 8), NOP, NOP]), 6 + 33);
    assert_eq!(cycles(&[branch, divide, branch, NOP, NOP]), 7 + 34);
}

#[test]
fn accesses_across_words() {
    for (offset, more) in [(0, 0), (1, 1), (2, 1), (3, 1)] {
        assert_eq!(cycles(&[lw(X, offset)]), 1 + more);
        assert_eq!(cycles(&[s(0x23, 2, BASE, X, offset)]), 1 + more);
    }
    for (offset, more) in [(0, 0), (1, 0), (2, 0), (3, 1)] {
        assert_eq!(cycles(&[i(0x03, 1, X, BASE, offset)]), 1 + more);
    }
    assert_eq!(cycles(&[lw(X, 1), add(Y, X, Z)]), 4);
}

/// `lp.setupi 0, count` over the next `length` instructions of four bytes.
fn setup(count: u32, length: u32) -> u32 {
    0x507b | count << 20 | (2 * length) << 15
}

#[test]
fn hardware_loops_cost_nothing() {
    assert_eq!(cycles(&[setup(100, 3), NOP, NOP, NOP]), 301);
    assert_eq!(cycles(&[setup(1, 3), NOP, NOP, NOP]), 4);
    assert_eq!(cycles(&[setup(0, 3), NOP, NOP, NOP]), 4);
    // In the second half of words: a cycle more for each of the 99 returns.
    let words = [setup(100, 3), NOP, NOP, NOP];
    let halves: Vec<u32> = words.iter().flat_map(|word| [word & 0xffff, word >> 16]).collect();
    let halves: Vec<u32> = [1].into_iter().chain(halves).chain([1]).collect();
    let shifted: Vec<u32> = halves.chunks(2).map(|pair| pair[0] | pair[1] << 16).collect();
    assert_eq!(cycles(&shifted), 1 + 301 + 99 + 1);
}

/// Four filters by two columns of bytes: 14 instructions and 14 cycles for 32 products, as published for PULP-NN.
#[test]
fn the_inner_loop_of_a_matrix_product() {
    let mut body = Vec::new();
    for register in 0..6 {
        body.push(i(0x0b, 2, 5 + register, 20 + register, 4));
    }
    for (at, filter) in [0, 1, 2, 3, 0, 1, 2, 3].into_iter().enumerate() {
        let column = if at < 4 { 9 } else { 10 };
        body.push(r(0x57, 1, 0x54, 26 - at as u32 % 4, column, 5 + filter));
    }
    let of = |count: u32| {
        let words: Vec<u32> = [setup(count, 14)].into_iter().chain(body.clone()).collect();
        let words: Vec<u32> = words.into_iter().chain([ECALL]).collect();
        let machine = executed(&words, |machine| {
            for register in 20..26 {
                machine.set_register(register, DATA);
            }
        });
        (machine.instructions, machine.cycles)
    };
    let (less, more) = (of(10), of(110));
    assert_eq!((more.0 - less.0, more.1 - less.1), (1400, 1400));
}
