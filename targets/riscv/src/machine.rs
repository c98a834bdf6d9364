//! The machine: registers, memory, counters, and the execution of one instruction after the other.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read, Write};

use crate::cycles;
use crate::decode::{Access, Action, Addressing, Instruction};
use crate::elf::{self, ElfError, Program};
use crate::hardware_loop::Loops;
use crate::host::{BAD_DESCRIPTOR, Cluster, Mark, Output, Regions, Streams, call};
use crate::memory::Memory;

/// The end of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exit {
    /// What it exited with.
    pub code: i32,
}

/// Why a program could not go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trap {
    /// Not an instruction of this machine.
    IllegalInstruction {
        /// Its address.
        pc: u32,
        /// It, or it and what follows it if it is compressed.
        word: u32,
    },
    /// An access outside the memory.
    OutOfRange {
        /// The instruction.
        pc: u32,
        /// The first byte.
        address: u32,
        /// Bytes.
        size: u32,
    },
    /// A jump to an odd address.
    Misaligned {
        /// The jump.
        pc: u32,
        /// Where it leads.
        target: u32,
    },
    /// `ebreak`.
    Break {
        /// Its address.
        pc: u32,
    },
    /// A call that the host does not know, or out of order.
    Call {
        /// The instruction.
        pc: u32,
        /// What was in a7.
        number: u32,
    },
    /// The host's streams failed.
    Stream {
        /// Why.
        reason: String,
    },
    /// The instructions that the caller allowed are spent; `run` goes on from here.
    Limit {
        /// The next instruction.
        pc: u32,
    },
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trap::IllegalInstruction { pc, word } => {
                write!(f, "illegal instruction {word:#010x} at {pc:#010x}")
            }
            Trap::OutOfRange { pc, address, size } => {
                write!(f, "access of {size} bytes at {address:#010x} by {pc:#010x}: no memory")
            }
            Trap::Misaligned { pc, target } => {
                write!(f, "jump to {target:#010x} at {pc:#010x}: odd")
            }
            Trap::Break { pc } => write!(f, "ebreak at {pc:#010x}"),
            Trap::Call { pc, number } => {
                write!(f, "ecall {number} at {pc:#010x}: unknown or out of order")
            }
            Trap::Stream { reason } => write!(f, "a stream failed: {reason}"),
            Trap::Limit { pc } => write!(f, "the limit of instructions was reached at {pc:#010x}"),
        }
    }
}

impl std::error::Error for Trap {}

/// Decoded instructions, one for each halfword of a range of addresses.
#[derive(Clone, Debug, Default)]
struct Code {
    start: u32,
    instructions: Vec<Instruction>,
}

/// Code is decoded by pages of this many bytes.
const PAGE: u32 = 4096;

/// A core with its memory and its host. See the crate's documentation for an example.
pub struct Machine {
    /// The memory.
    pub memory: Memory,
    /// The program counter.
    pub pc: u32,
    /// Instructions that were executed.
    pub instructions: u64,
    /// Cycles that they took.
    pub cycles: u64,
    /// The cycle in which the last instruction began, waits included, from 1.
    pub began: u64,
    /// What `mhartid` reads as, outside of shares.
    pub hart: u32,
    /// The cores that share parallel regions.
    pub cluster: Cluster,
    /// What the program marked.
    pub marks: Vec<Mark>,
    registers: [u32; 32],
    loops: Loops,
    code: Code,
    control: BTreeMap<u32, u32>,
    share: Option<u32>,
    regions: Regions,
    streams: Streams,
    /// As `began`, of the instruction before the last.
    before: u64,
    /// The register that the instruction before loads, by bits.
    loading: u32,
    /// The registers that the instruction before computes, by bits.
    computing: u32,
    /// Cycles at which registers that were loaded can be jumped to.
    jumpable: [u64; 32],
    /// After a jump, the first cycle in which an aligned instruction at its target can begin; else 0.
    arrival: u64,
    /// Cycles of a division that stands behind the branch that was taken; else 0.
    abandoned: u64,
}

impl Machine {
    /// A machine at the beginning of its memory, all registers 0, without input, capturing output.
    pub fn new(memory: Memory) -> Machine {
        Machine {
            pc: memory.base(),
            memory,
            instructions: 0,
            cycles: 0,
            began: 0,
            hart: 0,
            cluster: Cluster::default(),
            marks: Vec::new(),
            registers: [0; 32],
            loops: Loops::IDLE,
            code: Code::default(),
            control: BTreeMap::new(),
            share: None,
            regions: Regions::default(),
            streams: Streams {
                input: Box::new(std::io::empty()),
                output: Output::Captured(Vec::new()),
                errors: Output::Captured(Vec::new()),
            },
            before: 0,
            loading: 0,
            computing: 0,
            jumpable: [0; 32],
            arrival: 0,
            abandoned: 0,
        }
    }

    /// Loads an executable and stands at its entry.
    ///
    /// # Errors
    /// See [`elf::load`].
    pub fn load(&mut self, file: &[u8]) -> Result<Program, ElfError> {
        let program = elf::load(file, &mut self.memory)?;
        self.code = Code::default();
        self.pc = program.entry;
        Ok(program)
    }

    /// A register's value.
    pub fn register(&self, number: usize) -> u32 {
        self.registers[number]
    }

    /// Sets a register; x0 stays 0.
    pub fn set_register(&mut self, number: usize, value: u32) {
        self.registers[number] = value;
        self.registers[0] = 0;
    }

    /// What the program reads.
    pub fn set_input(&mut self, input: Box<dyn Read>) {
        self.streams.input = input;
    }

    /// Where output and errors go, instead of being captured.
    pub fn set_output(&mut self, output: Box<dyn Write>, errors: Box<dyn Write>) {
        self.streams.output = Output::Stream(output);
        self.streams.errors = Output::Stream(errors);
    }

    /// Captured output.
    pub fn output(&self) -> &[u8] {
        self.streams.output.captured()
    }

    /// Captured errors.
    pub fn errors(&self) -> &[u8] {
        self.streams.errors.captured()
    }

    /// Cycles, parallel regions counted as the cluster executes them.
    pub fn parallel_cycles(&self) -> u64 {
        self.regions.cycles(self.cycles)
    }

    /// Forgets decoded instructions: after the memory was changed from outside.
    pub fn forget_code(&mut self) {
        self.code = Code::default();
    }

    /// Executes until the program exits, at most `limit` instructions.
    ///
    /// # Errors
    /// If the program cannot go on.
    pub fn run(&mut self, limit: u64) -> Result<Exit, Trap> {
        let end = self.instructions.saturating_add(limit);
        while self.instructions < end {
            if let Some(exit) = self.step()? {
                return Ok(exit);
            }
        }
        Err(Trap::Limit { pc: self.pc })
    }

    /// The instruction at an address, from the cache.
    #[inline]
    fn fetch(&mut self, pc: u32) -> Result<Instruction, Trap> {
        let index = (pc.wrapping_sub(self.code.start) >> 1) as usize;
        match self.code.instructions.get(index) {
            Some(instruction) if instruction.length != 0 => Ok(*instruction),
            _ => self.decode(pc),
        }
    }

    #[cold]
    fn decode(&mut self, pc: u32) -> Result<Instruction, Trap> {
        let half = |address| self.memory.load(address, 2);
        let outside = Trap::OutOfRange { pc, address: pc, size: 2 };
        let low = half(pc).ok_or(outside.clone())?;
        let high = if low & 3 == 3 { half(pc.wrapping_add(2)).ok_or(outside)? } else { 0 };
        let word = high << 16 | low;
        let instruction = Instruction::decode(word);
        if matches!(instruction.action, Action::Illegal) {
            return Err(Trap::IllegalInstruction { pc, word });
        }
        self.cover(pc);
        let index = (pc - self.code.start) >> 1;
        self.code.instructions[index as usize] = instruction;
        Ok(instruction)
    }

    /// Extends the cache to an address's page.
    fn cover(&mut self, pc: u32) {
        let page = pc / PAGE * PAGE;
        let code = &mut self.code;
        let halves = |bytes: u32| vec![Instruction::UNKNOWN; (bytes / 2) as usize];
        if code.instructions.is_empty() {
            code.start = page;
        } else if page < code.start {
            code.instructions.splice(0..0, halves(code.start - page));
            code.start = page;
        }
        let needed = ((page - code.start + PAGE) / 2) as usize;
        if code.instructions.len() < needed {
            code.instructions.resize(needed, Instruction::UNKNOWN);
        }
    }

    /// Forgets instructions whose bytes are stored to.
    #[inline]
    fn uncover(&mut self, address: u32, size: u32) {
        let offset = address.wrapping_sub(self.code.start);
        if (offset >> 1) as usize >= self.code.instructions.len() {
            return;
        }
        for offset in (offset.saturating_sub(2)..offset + size).step_by(2) {
            if let Some(instruction) = self.code.instructions.get_mut((offset >> 1) as usize) {
                *instruction = Instruction::UNKNOWN;
            }
        }
    }

    /// Executes an instruction; its exit if it is one.
    ///
    /// # Errors
    /// If it cannot be executed.
    #[inline]
    pub fn step(&mut self) -> Result<Option<Exit>, Trap> {
        let pc = self.pc;
        let at = self.fetch(pc)?;
        let (rd, rs1) = (usize::from(at.rd & 31), usize::from(at.rs1 & 31));
        let (a, b) = (self.registers[rs1], self.registers[usize::from(at.rs2 & 31)]);
        let d = self.registers[rd];
        let immediate = at.immediate;
        let mut slot = self.cycles + 1 + u64::from(at.waits & self.loading != 0);
        // When it reached decoding, where jumps are taken.
        let mut decoded = self.began;
        if self.arrival != 0 {
            let unaligned = u64::from(pc & 2 != 0 && at.length == 4);
            let arrival = self.arrival + unaligned * cycles::UNALIGNED_TARGET;
            decoded = decoded.max(arrival - 1);
            slot = slot.max(arrival);
            if self.abandoned != 0 {
                slot = slot.max(self.arrival - 1 + (1 + unaligned) * self.abandoned);
                self.abandoned = 0;
            }
            self.arrival = 0;
        }
        let mut taken = 1;
        let mut loading = 0;
        let mut next = pc.wrapping_add(u32::from(at.length));
        match at.action {
            Action::Register(compute) => self.registers[rd] = compute(a, b, d, immediate),
            Action::Immediate(compute) => self.registers[rd] = compute(a, immediate, d, immediate),
            Action::ScalarByte(compute) => {
                self.registers[rd] = compute(a, (b & 0xff) * 0x0101_0101, d, immediate);
            }
            Action::ScalarHalf(compute) => {
                self.registers[rd] = compute(a, (b & 0xffff) * 0x0001_0001, d, immediate);
            }
            Action::Load(access) => {
                let (address, updated) = addresses(access, a, b, immediate);
                let Some(value) = self.memory.load(address, access.size) else {
                    return Err(outside(pc, address, access));
                };
                if at.writes != 0 {
                    self.registers[rs1] = updated;
                }
                self.registers[rd] = match (access.size, access.signed) {
                    (1, true) => value as i8 as u32,
                    (2, true) => value as i16 as u32,
                    _ => value,
                };
                taken += crossing(access, address);
                loading = 1 << rd;
                self.jumpable[rd] = slot + taken + cycles::JUMP_AFTER_LOAD;
            }
            Action::Store(access) => {
                let (address, updated) = addresses(access, a, d, immediate);
                if self.memory.store(address, access.size, b).is_none() {
                    return Err(outside(pc, address, access));
                }
                self.uncover(address, u32::from(access.size));
                if at.writes != 0 {
                    self.registers[rs1] = updated;
                }
                taken += crossing(access, address);
            }
            Action::Branch(condition) => {
                if condition(a, b) {
                    self.abandon(next);
                    next = target(pc, pc.wrapping_add(immediate))?;
                    self.arrival = slot + cycles::REFETCH;
                }
            }
            Action::BranchImmediate(condition) => {
                if condition(a, ((u32::from(at.rs2) << 27) as i32 >> 27) as u32) {
                    self.abandon(next);
                    next = target(pc, pc.wrapping_add(immediate))?;
                    self.arrival = slot + cycles::REFETCH;
                }
            }
            Action::Jump => {
                self.registers[rd] = next;
                next = target(pc, pc.wrapping_add(immediate))?;
                self.arrival = decoded + cycles::REFETCH;
            }
            Action::JumpRegister => {
                decoded = decoded.max(self.jumpable[rs1]);
                if self.computing & 1 << rs1 & !1 != 0 {
                    decoded = decoded.max(self.cycles + 1);
                }
                slot = slot.max(decoded + 1);
                self.registers[rd] = next;
                next = target(pc, a.wrapping_add(immediate) & !1)?;
                self.arrival = decoded + cycles::REFETCH;
                if rd == rs1 && rd != 0 && slot == decoded + 1 {
                    taken = cycles::JUMP_TO_LINK;
                }
            }
            Action::Loop(setting) => {
                let operand = (u32::from(at.rs1), a);
                self.loops.set(rd & 1, setting, pc, operand, immediate);
            }
            Action::MultiplyHigh(compute) => {
                self.registers[rd] = compute(a, b, d, immediate);
                taken = cycles::MULTIPLY_HIGH;
            }
            Action::Divide(compute, signed) => {
                self.registers[rd] = compute(a, b, d, immediate);
                taken = cycles::division(b, signed);
            }
            Action::AddToProgramCounter => self.registers[rd] = pc.wrapping_add(immediate),
            Action::ControlRegister(operation) => self.control(operation, rd, immediate, rs1, a),
            Action::ControlRegisterImmediate(operation) => {
                self.control(operation, rd, immediate, rs1, u32::from(at.rs1));
            }
            Action::Fence => {}
            Action::EnvironmentCall => {
                self.instructions += 1;
                self.before = self.began;
                self.began = slot;
                self.cycles = slot + taken - 1;
                self.pc = next;
                self.loading = 0;
                self.computing = 0;
                return self.call(pc);
            }
            Action::Break => return Err(Trap::Break { pc }),
            Action::Illegal => return Err(Trap::IllegalInstruction { pc, word: 0 }),
        }
        self.registers[0] = 0;
        if let Some(start) = self.loops.next(pc) {
            next = start;
            // The body's second fetch hides behind a wait of its last two instructions.
            self.arrival = if slot == self.before + 2 { slot + taken } else { 0 };
        }
        self.loading = loading;
        self.computing = at.writes;
        self.before = self.began;
        self.began = slot;
        self.instructions += 1;
        self.cycles = slot + taken - 1;
        self.pc = next;
        Ok(None)
    }

    /// Notes a division behind a branch that is taken.
    #[inline]
    fn abandon(&mut self, pc: u32) {
        if let Ok(Instruction { action: Action::Divide(_, signed), rs2, .. }) = self.fetch(pc) {
            let divisor = self.registers[usize::from(rs2 & 31)];
            self.abandoned = cycles::division(divisor, signed);
        }
    }

    /// Reads a control register into rd; writes it unless it is only to have bits set or cleared and rs1 is x0.
    fn control(&mut self, operation: u8, rd: usize, number: u32, rs1: usize, operand: u32) {
        let held = self.control.get(&number).copied().unwrap_or(0);
        let value = match number {
            0xb00 | 0xc00 => self.cycles as u32,
            0xb80 | 0xc80 => (self.cycles >> 32) as u32,
            0xb02 | 0xc02 => self.instructions as u32,
            0xb82 | 0xc82 => (self.instructions >> 32) as u32,
            0xf14 => self.share.unwrap_or(self.hart),
            _ => held,
        };
        if operation == 1 || rs1 != 0 {
            let written = match operation {
                1 => operand,
                2 => held | operand,
                _ => held & !operand,
            };
            self.control.insert(number, written);
        }
        self.registers[rd] = value;
    }

    /// A call of the host by the instruction at `pc`.
    fn call(&mut self, pc: u32) -> Result<Option<Exit>, Trap> {
        let number = self.registers[17];
        let [a0, a1, a2] = [self.registers[10], self.registers[11], self.registers[12]];
        let outside = Trap::OutOfRange { pc, address: a1, size: a2 };
        let failed = |error: std::io::Error| Trap::Stream { reason: error.to_string() };
        let mut in_order = true;
        match number {
            call::EXIT => return Ok(Some(Exit { code: a0 as i32 })),
            call::READ if a0 == 0 => {
                let place = self.memory.slice_mut(a1, a2).ok_or(outside)?;
                let count = self.streams.input.read(place).map_err(failed)?;
                self.registers[10] = count as u32;
                self.forget_code();
            }
            call::WRITE if a0 == 1 || a0 == 2 => {
                let bytes = self.memory.slice(a1, a2).ok_or(outside)?;
                let streams = &mut self.streams;
                let stream = if a0 == 1 { &mut streams.output } else { &mut streams.errors };
                stream.write(bytes).map_err(failed)?;
                self.registers[10] = a2;
            }
            call::READ | call::WRITE => self.registers[10] = BAD_DESCRIPTOR,
            call::SHARE_BEGIN => {
                in_order = self.regions.begin(a0, self.cycles, self.cluster);
                self.share = Some(a0);
            }
            call::SHARE_END => {
                in_order = self.regions.end(self.cycles);
                self.share = None;
            }
            call::REGION_END => in_order = self.regions.close(self.cycles, self.cluster),
            call::MARK => self.marks.push(Mark {
                label: a0,
                instructions: self.instructions,
                cycles: self.cycles,
                parallel_cycles: self.parallel_cycles(),
            }),
            _ => in_order = false,
        }
        if in_order { Ok(None) } else { Err(Trap::Call { pc, number }) }
    }
}

/// Where a jump leads.
#[inline]
fn target(pc: u32, target: u32) -> Result<u32, Trap> {
    if target & 1 == 0 { Ok(target) } else { Err(Trap::Misaligned { pc, target }) }
}

/// The address of an access, and what a post-increment leaves in rs1.
#[inline]
fn addresses(access: Access, base: u32, register: u32, immediate: u32) -> (u32, u32) {
    match access.addressing {
        Addressing::Offset => (base.wrapping_add(immediate), base),
        Addressing::Indexed => (base.wrapping_add(register), base),
        Addressing::PostImmediate => (base, base.wrapping_add(immediate)),
        Addressing::PostRegister => (base, base.wrapping_add(register)),
    }
}

/// Further cycles of an access that crosses a word.
#[inline]
fn crossing(access: Access, address: u32) -> u64 {
    u64::from((address & 3) + u32::from(access.size) > 4) * cycles::UNALIGNED_ACCESS
}

#[cold]
fn outside(pc: u32, address: u32, access: Access) -> Trap {
    Trap::OutOfRange { pc, address, size: u32::from(access.size) }
}
