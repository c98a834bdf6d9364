//! The meaning of machine code: structured code on virtual registers, and scheduled packets on the register file.
//!
//! Written from the public programmer's reference; tests compare it with an emulator.

use std::collections::BTreeMap;

use super::compile::Assembled;
use super::error::MachineError;
use super::function::{Count, Function, Instruction, Node, Operand};
use super::instructions::Opcode;
use super::packets::{Forward, LoopEnd, Packet};
use super::registers::{Class, FRAME_POINTER, LINK, Register, STACK_POINTER};
use super::{evaluate_scalar, evaluate_vector};

/// Bytes of a vector.
pub const VECTOR: usize = 128;

/// A single register's value: scalars in the first bytes, little-endian; a vector predicate as 0 or 1 a byte.
pub type Value = [u8; VECTOR];

/// One piece of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Address of the first byte.
    pub base: u32,
    /// Content.
    pub bytes: Vec<u8>,
}

impl Memory {
    fn range(&self, address: u32, width: usize) -> Result<std::ops::Range<usize>, MachineError> {
        let start = address.wrapping_sub(self.base) as usize;
        match start.checked_add(width) {
            Some(end) if end <= self.bytes.len() => Ok(start..end),
            _ => Err(MachineError::Evaluation(format!("{width} bytes at {address:#x}"))),
        }
    }

    pub(crate) fn read(&self, address: u32, width: usize) -> Result<&[u8], MachineError> {
        Ok(&self.bytes[self.range(address, width)?])
    }
}

/// Registers and memory.
#[derive(Clone, Debug)]
pub struct State {
    registers: BTreeMap<u32, Value>,
    /// Memory; accesses outside are errors.
    pub memory: Memory,
    /// Addresses of symbols.
    pub symbols: BTreeMap<String, u32>,
    /// Packets executed.
    pub packets: u64,
}

/// A byte store that waits for the end of its packet.
pub(crate) type Stores = Vec<(u32, u8)>;

/// What one instruction sees and does.
pub(crate) struct Step<'a> {
    state: &'a State,
    instruction: &'a Instruction,
    /// Values of the packet that are read as new, by unit.
    fresh: &'a BTreeMap<u32, Value>,
    pub(crate) writes: Vec<(u32, Value)>,
    pub(crate) stores: Stores,
}

impl Step<'_> {
    pub(crate) fn opcode(&self) -> Opcode {
        self.instruction.opcode
    }

    fn unit(&self, unit: u32) -> Value {
        let fresh = self.fresh.get(&unit).copied();
        fresh.or_else(|| self.state.registers.get(&unit).copied()).unwrap_or([0; VECTOR])
    }

    fn register(&self, operand: usize) -> Option<Register> {
        self.instruction.operands.get(operand).and_then(Operand::register)
    }

    /// Low single register of an operand, as a value.
    pub(crate) fn value(&self, operand: usize) -> Value {
        let unit = self.register(operand).and_then(|r| r.units().next());
        unit.map_or([0; VECTOR], |u| self.unit(u))
    }

    /// High half of a pair.
    pub(crate) fn high(&self, operand: usize) -> Value {
        let unit = self.register(operand).and_then(|r| r.units().nth(1));
        unit.map_or([0; VECTOR], |u| self.unit(u))
    }

    /// A 32-bit register or number.
    pub(crate) fn word(&self, operand: usize) -> Result<u32, MachineError> {
        match self.instruction.operands.get(operand) {
            Some(Operand::Immediate(n)) => Ok(n.cast_unsigned()),
            Some(Operand::Symbol(name, offset)) => {
                let address = self.state.symbols.get(&**name);
                let unknown = || MachineError::Evaluation(format!("no symbol {name}"));
                Ok(address.copied().ok_or_else(unknown)?.wrapping_add_signed(*offset))
            }
            _ => {
                let value = self.value(operand);
                Ok(u32::from_le_bytes([value[0], value[1], value[2], value[3]]))
            }
        }
    }

    /// A 64-bit pair.
    pub(crate) fn double(&self, operand: usize) -> u64 {
        let word = |v: Value| u64::from(u32::from_le_bytes([v[0], v[1], v[2], v[3]]));
        word(self.value(operand)) | word(self.high(operand)) << 32
    }

    /// A predicate's eight bits.
    pub(crate) fn predicate(&self, operand: usize) -> u8 {
        self.value(operand)[0]
    }

    /// The class of a register operand.
    pub(crate) fn class(&self, operand: usize) -> Option<Class> {
        self.register(operand).map(Register::class)
    }

    pub(crate) fn write(&mut self, operand: usize, value: Value) {
        if let Some(unit) = self.register(operand).and_then(|r| r.units().next()) {
            self.writes.push((unit, value));
        }
    }

    pub(crate) fn write_pair(&mut self, operand: usize, low: Value, high: Value) {
        self.write(operand, low);
        if let Some(unit) = self.register(operand).and_then(|r| r.units().nth(1)) {
            self.writes.push((unit, high));
        }
    }

    pub(crate) fn write_word(&mut self, operand: usize, word: u32) {
        self.write(operand, scalar(word));
    }

    pub(crate) fn write_double(&mut self, operand: usize, double: u64) {
        self.write_pair(operand, scalar(double as u32), scalar((double >> 32) as u32));
    }

    pub(crate) fn load(&self, address: u32, width: usize) -> Result<&[u8], MachineError> {
        self.state.memory.read(address, width)
    }

    /// Stores bytes at the packet's end; fails outside memory.
    pub(crate) fn store(&mut self, address: u32, bytes: &[u8]) -> Result<(), MachineError> {
        self.state.memory.range(address, bytes.len())?;
        self.stores.extend(bytes.iter().zip(address..).map(|(b, a)| (a, *b)));
        Ok(())
    }
}

/// A 32-bit word as a register's value.
#[must_use]
pub fn scalar(word: u32) -> Value {
    let mut value = [0; VECTOR];
    value[..4].copy_from_slice(&word.to_le_bytes());
    value
}

/// What a packet did to the flow of control.
enum Flow {
    Next,
    To(String),
    Return,
}

impl State {
    /// Registers all zero.
    #[must_use]
    pub fn new(memory: Memory) -> Self {
        Self { registers: BTreeMap::new(), memory, symbols: BTreeMap::new(), packets: 0 }
    }

    /// Sets a register's low single register.
    pub fn set(&mut self, register: Register, value: Value) {
        if let Some(unit) = register.units().next() {
            self.registers.insert(unit, value);
        }
    }

    /// The low single register's value.
    #[must_use]
    pub fn get(&self, register: Register) -> Value {
        let unit = register.units().next().unwrap_or(0);
        self.registers.get(&unit).copied().unwrap_or([0; VECTOR])
    }

    fn word(&self, register: Register) -> u32 {
        let v = self.get(register);
        u32::from_le_bytes([v[0], v[1], v[2], v[3]])
    }

    /// Runs a function's structured code with 32-bit arguments; gives r0 if there is a result.
    ///
    /// # Errors
    /// Memory outside; calls; unknown symbols.
    pub fn run(
        &mut self,
        function: &Function,
        arguments: &[u32],
    ) -> Result<Option<u32>, MachineError> {
        for (parameter, argument) in function.parameters.iter().zip(arguments) {
            self.set(*parameter, scalar(*argument));
        }
        self.nodes(&function.body)?;
        Ok(function.result.map(|r| self.word(r)))
    }

    fn nodes(&mut self, nodes: &[Node]) -> Result<(), MachineError> {
        for node in nodes {
            match node {
                Node::Straight(run) => {
                    for instruction in run {
                        self.step(instruction)?;
                    }
                }
                Node::Loop(inner) => {
                    let count = match inner.count {
                        Count::Constant(n) => n,
                        Count::Register(r) => self.word(r),
                    };
                    for _ in 0..count {
                        self.nodes(&inner.body)?;
                    }
                }
                Node::Branch(branch) => {
                    let taken = self.get(branch.condition)[0] & 1 == 1;
                    self.nodes(if taken { &branch.then } else { &branch.otherwise })?;
                }
                Node::Call(call) => {
                    let text = format!("call of {}", call.symbol);
                    return Err(MachineError::Evaluation(text));
                }
            }
        }
        Ok(())
    }

    /// Executes one instruction.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn step(&mut self, instruction: &Instruction) -> Result<(), MachineError> {
        let none = BTreeMap::new();
        let (writes, stores) = self.effects(instruction, &none)?;
        self.commit(writes, stores);
        Ok(())
    }

    fn effects(
        &self,
        instruction: &Instruction,
        fresh: &BTreeMap<u32, Value>,
    ) -> Result<(Vec<(u32, Value)>, Stores), MachineError> {
        let mut step =
            Step { state: self, instruction, fresh, writes: Vec::new(), stores: Vec::new() };
        if !evaluate_scalar::execute(&mut step)? && !evaluate_vector::execute(&mut step)? {
            frame(&mut step)?;
        }
        Ok((step.writes, step.stores))
    }

    fn commit(&mut self, writes: Vec<(u32, Value)>, stores: Stores) {
        self.registers.extend(writes);
        for (address, byte) in stores {
            let at = address.wrapping_sub(self.memory.base) as usize;
            if let Some(place) = self.memory.bytes.get_mut(at) {
                *place = byte;
            }
        }
    }

    /// Runs packets on the register file: arguments in r0..r5, a stack at r29; gives r0.
    ///
    /// # Errors
    /// As [`Self::run`], and flow that never ends (a hundred million packets).
    pub fn run_packets(
        &mut self,
        code: &Assembled,
        arguments: &[u32],
    ) -> Result<u32, MachineError> {
        for (number, argument) in (0..6).zip(arguments) {
            self.set(Register::fixed(Class::R, number), scalar(*argument));
        }
        // Start blocks and counts of the hardware loops.
        let mut loops = [(0usize, 0u32); 2];
        let (mut block, mut at) = (0, 0);
        let start = self.packets;
        while let Some(here) = code.blocks.get(block) {
            let Some(packet) = here.packets.get(at) else {
                (block, at) = (block + 1, 0);
                continue;
            };
            self.packets += 1;
            if self.packets - start > 100_000_000 {
                return Err(MachineError::Evaluation("does not end".to_string()));
            }
            let find =
                |name: &str| code.blocks.iter().position(|b| b.label.as_deref() == Some(name));
            let mut set = loops;
            for placed in &packet.instructions {
                let which = match placed.instruction.opcode {
                    Opcode::Loop0 | Opcode::Loop0Immediate => 0,
                    Opcode::Loop1 | Opcode::Loop1Immediate => 1,
                    _ => continue,
                };
                let count = match &placed.instruction.operands[1] {
                    Operand::Immediate(n) => n.cast_unsigned(),
                    Operand::Register(r) => self.word(*r),
                    Operand::Symbol(..) => 0,
                };
                let label = placed.instruction.operands[0].to_string();
                let target = find(label.trim_start_matches('#'))
                    .ok_or_else(|| MachineError::Evaluation(format!("no label {label}")))?;
                set[which] = (target, count);
            }
            let flow = self.packet(packet)?;
            loops = set;
            at += 1;
            match flow {
                Flow::Next => {}
                Flow::Return => return Ok(self.word(Register::fixed(Class::R, 0))),
                Flow::To(name) => {
                    let target = find(&name);
                    let missing = || MachineError::Evaluation(format!("no label {name}"));
                    (block, at) = (target.ok_or_else(missing)?, 0);
                }
            }
            let which = match packet.end {
                LoopEnd::None => continue,
                LoopEnd::Inner => 0,
                LoopEnd::Outer => 1,
            };
            if loops[which].1 > 1 {
                loops[which].1 -= 1;
                (block, at) = (loops[which].0, 0);
            }
        }
        Ok(self.word(Register::fixed(Class::R, 0)))
    }

    fn packet(&mut self, packet: &Packet) -> Result<Flow, MachineError> {
        let mut order: Vec<_> = packet.instructions.iter().collect();
        order.sort_by_key(|p| match p.forward {
            Forward::Current | Forward::Temporary => 0,
            Forward::None => 1,
            Forward::New(_) => 2,
        });
        let none = BTreeMap::new();
        let mut loaded: BTreeMap<u32, Value> = BTreeMap::new();
        let mut all: BTreeMap<u32, Value> = BTreeMap::new();
        let (mut writes, mut stores) = (Vec::new(), Vec::new());
        let mut flow = Flow::Next;
        for placed in order {
            let instruction = &placed.instruction;
            let fresh = match placed.forward {
                Forward::Current | Forward::Temporary => &none,
                Forward::None => &loaded,
                Forward::New(operand) => {
                    // Only this operand is new.
                    let units = instruction.operands[operand].register().map(Register::units);
                    let mut only = loaded.clone();
                    for unit in units.into_iter().flatten() {
                        only.extend(all.get(&unit).map(|v| (unit, *v)));
                    }
                    &only.clone()
                }
            };
            match instruction.opcode {
                Opcode::Jump | Opcode::JumpIf | Opcode::JumpIfNot => {
                    let step =
                        Step { state: self, instruction, fresh, writes: vec![], stores: vec![] };
                    let taken = match instruction.opcode {
                        Opcode::JumpIf => step.predicate(0) & 1 == 1,
                        Opcode::JumpIfNot => step.predicate(0) & 1 == 0,
                        _ => true,
                    };
                    if let Some(Operand::Symbol(name, _)) = instruction.operands.last()
                        && taken
                    {
                        flow = Flow::To(name.to_string());
                    }
                    continue;
                }
                Opcode::JumpRegister => {
                    flow = Flow::Return;
                    continue;
                }
                Opcode::Call => {
                    return Err(MachineError::Evaluation("call".to_string()));
                }
                _ => {}
            }
            let (new, stored) = self.effects(instruction, fresh)?;
            all.extend(new.iter().copied());
            if matches!(placed.forward, Forward::Current | Forward::Temporary) {
                let result = instruction.operands[0].register();
                let units: Vec<u32> = result.into_iter().flat_map(Register::units).collect();
                loaded.extend(new.iter().filter(|(u, _)| units.contains(u)).copied());
                let kept = |u: &u32| placed.forward == Forward::Current || !units.contains(u);
                writes.extend(new.into_iter().filter(|(u, _)| kept(u)));
            } else {
                writes.extend(new);
            }
            stores.extend(stored);
        }
        self.commit(writes, stores);
        Ok(flow)
    }
}

/// Frame set-up and what has no effect here.
fn frame(step: &mut Step<'_>) -> Result<(), MachineError> {
    let unit = |r: Register| r.units().next().unwrap_or(0);
    let word = |step: &Step<'_>, r: Register| {
        let v = step.unit(unit(r));
        u32::from_le_bytes([v[0], v[1], v[2], v[3]])
    };
    match step.opcode() {
        Opcode::AllocateFrame => {
            let frame = word(step, STACK_POINTER).wrapping_sub(8);
            let (link, old) = (word(step, LINK), word(step, FRAME_POINTER));
            step.store(frame, &old.to_le_bytes())?;
            step.store(frame.wrapping_add(4), &link.to_le_bytes())?;
            let size = step.word(0)?;
            step.writes.push((unit(FRAME_POINTER), scalar(frame)));
            step.writes.push((unit(STACK_POINTER), scalar(frame.wrapping_sub(size))));
        }
        Opcode::DeallocateFrame => {
            let frame = word(step, FRAME_POINTER);
            let read = |at: u32| -> Result<Value, MachineError> {
                let mut value = [0; VECTOR];
                value[..4].copy_from_slice(step.load(at, 4)?);
                Ok(value)
            };
            let (old, link) = (read(frame)?, read(frame.wrapping_add(4))?);
            step.writes.push((unit(FRAME_POINTER), old));
            step.writes.push((unit(LINK), link));
            step.writes.push((unit(STACK_POINTER), scalar(frame.wrapping_add(8))));
        }
        Opcode::Nop
        | Opcode::Loop0
        | Opcode::Loop1
        | Opcode::Loop0Immediate
        | Opcode::Loop1Immediate => {}
        other => return Err(MachineError::Evaluation(format!("{other:?} has no meaning here"))),
    }
    Ok(())
}
