//! What the tests share: random operands and encodings, written from the manuals and apart from the simulator.
#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod programs;

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        (self.bits() % u64::from(bound)) as u32
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u32) as usize]
    }

    /// A register's value: any, or with lanes at the edges of their ranges, or small, or a power of two nearly.
    pub(crate) fn operand(&mut self) -> u32 {
        match self.below(6) {
            0 | 1 => self.bits() as u32,
            2 => (0..4).fold(0, |word, _| word << 8 | self.pick(&[0, 1, 0x7f, 0x80, 0x81, 0xff])),
            3 => (0..2)
                .fold(0, |word, _| word << 16 | self.pick(&[0, 1, 0x7fff, 0x8000, 0x8001, 0xffff])),
            4 => self.below(40).wrapping_sub(8),
            _ => (1u32 << self.below(32)).wrapping_add(self.below(3)).wrapping_sub(1),
        }
    }
}

pub(crate) fn r(opcode: u32, funct3: u32, funct7: u32, rd: u32, rs1: u32, rs2: u32) -> u32 {
    opcode | rd << 7 | funct3 << 12 | rs1 << 15 | rs2 << 20 | funct7 << 25
}

pub(crate) fn i(opcode: u32, funct3: u32, rd: u32, rs1: u32, immediate: i32) -> u32 {
    opcode | rd << 7 | funct3 << 12 | rs1 << 15 | (immediate as u32) << 20
}

pub(crate) fn s(opcode: u32, funct3: u32, rs1: u32, rs2: u32, immediate: i32) -> u32 {
    let immediate = immediate as u32;
    r(opcode, funct3, immediate >> 5 & 0x7f, immediate & 31, rs1, rs2)
}

/// A branch; the offset is even.
pub(crate) fn b(funct3: u32, rs1: u32, rs2: u32, offset: i32) -> u32 {
    let o = offset as u32;
    let high = (o >> 12 & 1) << 6 | o >> 5 & 0x3f;
    r(0x63, funct3, high, o & 0x1e | o >> 11 & 1, rs1, rs2)
}

pub(crate) fn jal(rd: u32, offset: i32) -> u32 {
    let o = offset as u32;
    let field = (o >> 20 & 1) << 19 | (o >> 1 & 0x3ff) << 9 | (o >> 11 & 1) << 8 | o >> 12 & 0xff;
    0x6f | rd << 7 | field << 12
}

/// `ecall` with nothing set up.
pub(crate) const ECALL: u32 = 0x73;
pub(crate) const NOP: u32 = 0x13;

/// A machine that has executed words from [`ORIGIN`] on, until the program exited; a7 asks for that from the beginning.
pub(crate) fn executed(
    words: &[u32],
    set_up: impl Fn(&mut trainc_riscv::Machine),
) -> trainc_riscv::Machine {
    let mut machine = trainc_riscv::Machine::new(trainc_riscv::Memory::new(ORIGIN, 0x2000));
    for (at, word) in words.iter().enumerate() {
        let address = ORIGIN + 4 * at as u32;
        machine.memory.store(address, 4, *word).expect("memory");
    }
    machine.set_register(17, 93);
    set_up(&mut machine);
    machine.run(1_000_000).unwrap_or_else(|trap| panic!("{trap}"));
    machine
}

/// Where [`executed`] places words, and memory that they may use.
pub(crate) const ORIGIN: u32 = 0x1000;
pub(crate) const DATA: u32 = 0x2000;
