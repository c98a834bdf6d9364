//! Packets, and the rules that make one legal.
//!
//! The rules are those that LLVM's assembler enforces for v62 to v73; tests compare the two on random packets.

use std::rc::Rc;

use super::function::Instruction;
use super::instructions::Opcode;
use super::registers::{Class, Register, Version};
use super::table::{Effect, Role, Unit};

/// How a value of the same packet is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// Nothing special.
    None,
    /// This operand is read as `.new`: it is written by another instruction of the packet.
    New(usize),
    /// A vector load that others of the packet read.
    Current,
    /// A vector load that only others of the packet read: the register file does not change.
    Temporary,
}

/// An instruction in a packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// The instruction.
    pub instruction: Instruction,
    /// Its use of values of the same packet.
    pub forward: Forward,
}

impl Placed {
    /// An instruction that reads old values only.
    #[must_use]
    pub fn plain(instruction: Instruction) -> Self {
        Self { instruction, forward: Forward::None }
    }

    /// Whether it is a store of a value of the same packet.
    #[must_use]
    pub fn is_new_store(&self) -> bool {
        matches!(self.forward, Forward::New(operand)
            if self.instruction.effect() == Effect::Store && operand == self.stored_operand())
    }

    /// Index of the stored operand: the last.
    fn stored_operand(&self) -> usize {
        self.instruction.operands.len().saturating_sub(1)
    }

    /// What it takes of the machine.
    #[must_use]
    pub fn demand(&self) -> Demand {
        Demand {
            unit: self.instruction.opcode.row().unit,
            new_store: self.is_new_store(),
            temporary: self.forward == Forward::Temporary,
        }
    }
}

/// What an instruction takes of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Demand {
    /// Where it executes.
    pub unit: Unit,
    /// Store of a value of the same packet.
    pub new_store: bool,
    /// Load whose value is not kept.
    pub temporary: bool,
}

/// Which hardware loops end with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopEnd {
    /// None.
    None,
    /// `:endloop0`.
    Inner,
    /// `:endloop1`.
    Outer,
}

/// Instructions that execute together: all read old values, apart from [`Forward`].
#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    /// At most four, loads before stores.
    pub instructions: Vec<Placed>,
    /// Loop ends.
    pub end: LoopEnd,
    /// Comment beside it.
    pub purpose: Option<Rc<str>>,
}

impl Packet {
    /// A packet without loop end or comment.
    #[must_use]
    pub fn new(instructions: Vec<Placed>) -> Self {
        Self { instructions, end: LoopEnd::None, purpose: None }
    }
}

/// Why a packet is illegal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    /// An instruction younger than the version.
    #[error("{0:?} is not in this version")]
    Version(Opcode),
    /// More than four words, extenders counted.
    #[error("more than four words")]
    Words,
    /// No assignment of slots and HVX lanes.
    #[error("no slots or lanes are left")]
    Resources,
    /// A register is written twice.
    #[error("{0} is written twice")]
    WrittenTwice(String),
    /// An instruction that goes alone has company.
    #[error("{0:?} goes alone")]
    Alone(Opcode),
    /// More than one change of flow.
    #[error("more than one change of flow")]
    Flow,
    /// A forwarded value that no instruction of the packet provides in a form that can be forwarded.
    #[error("{0:?} forwards what it cannot")]
    Forward(Opcode),
}

/// Choices of slots for a demand, each a mask; an unaligned vector access takes both memory slots.
fn slots(demand: Demand) -> &'static [u8] {
    const ANY: &[u8] = &[1, 2, 4, 8];
    const UPPER: &[u8] = &[4, 8];
    const MEMORY: &[u8] = &[1, 2];
    match demand.unit {
        Unit::Alu32
        | Unit::VectorAlu
        | Unit::VectorAluPair
        | Unit::VectorShift
        | Unit::VectorPermute
        | Unit::VectorPermuteShift => ANY,
        Unit::Xtype
        | Unit::Multiply
        | Unit::Float
        | Unit::Predicate
        | Unit::Jump
        | Unit::VectorMultiply
        | Unit::VectorMultiplyPair
        | Unit::VectorMultiplyWide => UPPER,
        Unit::Control | Unit::Loop => &[8],
        Unit::JumpRegister => &[4],
        Unit::Store if demand.new_store => &[1],
        Unit::Load | Unit::Store | Unit::VectorLoad => MEMORY,
        Unit::VectorLoadUnaligned | Unit::VectorStoreUnaligned => &[3],
        Unit::VectorStore | Unit::Frame | Unit::Extract => &[1],
    }
}

/// HVX lanes that a demand can take, each choice a mask: permuter 1, shifter 2, multipliers 4 and 8. Empty for no lane.
fn lanes(demand: Demand, version: Version) -> &'static [u8] {
    const ANY: &[u8] = &[2, 1, 4, 8];
    match demand.unit {
        Unit::VectorLoad if demand.temporary => &[],
        Unit::VectorStore if demand.new_store => &[],
        Unit::VectorAlu | Unit::VectorLoad | Unit::VectorStore => ANY,
        Unit::VectorAluPair => &[3, 12],
        Unit::VectorMultiply => &[4, 8],
        Unit::VectorMultiplyPair => &[12],
        Unit::VectorMultiplyWide if version < Version::V69 => &[12],
        Unit::VectorMultiplyWide => &[4, 8],
        Unit::VectorShift => &[2],
        Unit::VectorPermute | Unit::VectorLoadUnaligned | Unit::VectorStoreUnaligned => &[1],
        Unit::VectorPermuteShift => &[3],
        _ => &[],
    }
}

/// Packets that these instructions take at least, whatever their order.
#[must_use]
pub fn fewest_packets(units: impl Iterator<Item = Unit>, version: Version) -> usize {
    let (mut all, mut memory, mut stores) = (0usize, 0, 0);
    let (mut permute, mut shift, mut multiply, mut either) = (0usize, 0, 0, 0);
    for unit in units {
        all += 1;
        let unaligned = matches!(unit, Unit::VectorLoadUnaligned | Unit::VectorStoreUnaligned);
        // An aligned load and a store can share a packet.
        memory += usize::from(unaligned || unit == Unit::VectorLoad);
        stores += usize::from(unaligned || unit == Unit::VectorStore);
        let demand = Demand { unit, new_store: false, temporary: false };
        match lanes(demand, version) {
            [1] => permute += 1,
            [2] => shift += 1,
            [3] => {
                permute += 1;
                shift += 1;
            }
            [4, 8] => multiply += 1,
            [12] => multiply += 2,
            // Arithmetic; loads and stores may do without.
            [3, 12] => either += 2,
            [_, _, _, _] if unit == Unit::VectorAlu => either += 1,
            _ => {}
        }
    }
    let lanes = (permute + shift + multiply + either).div_ceil(4);
    let units = permute.max(shift).max(multiply.div_ceil(2)).max(lanes);
    [all.div_ceil(4), memory, stores, units].into_iter().max().unwrap_or(0)
}

/// Whether these demands (at most four) can share a packet: slots, HVX lanes, memory ports.
#[must_use]
pub fn resources_fit(demands: &[Demand], version: Version) -> bool {
    if demands.len() > 4 {
        return false;
    }
    let count = |test: fn(&Demand) -> bool| demands.iter().filter(|d| test(d)).count();
    let vector_loads = count(|d| matches!(d.unit, Unit::VectorLoad | Unit::VectorLoadUnaligned));
    let vector_stores = count(|d| matches!(d.unit, Unit::VectorStore | Unit::VectorStoreUnaligned));
    let unaligned =
        count(|d| matches!(d.unit, Unit::VectorLoadUnaligned | Unit::VectorStoreUnaligned));
    if vector_loads > 1 || vector_stores > 1 || unaligned > 0 && vector_loads + vector_stores > 1 {
        return false;
    }
    let stores = count(|d| {
        matches!(d.unit, Unit::Store | Unit::VectorStore | Unit::VectorStoreUnaligned | Unit::Frame)
    });
    if stores > 1 && demands.iter().any(|d| d.new_store && d.unit == Unit::Store) {
        return false;
    }
    assign(demands, version, 0, 0)
}

fn assign(demands: &[Demand], version: Version, used_slots: u8, used_lanes: u8) -> bool {
    let Some((first, rest)) = demands.split_first() else {
        return true;
    };
    let lanes = lanes(*first, version);
    for slot in slots(*first) {
        if used_slots & slot != 0 {
            continue;
        }
        if lanes.is_empty() {
            if assign(rest, version, used_slots | slot, used_lanes) {
                return true;
            }
            continue;
        }
        for lane in lanes {
            if used_lanes & lane == 0 && assign(rest, version, used_slots | slot, used_lanes | lane)
            {
                return true;
            }
        }
    }
    false
}

/// Whether a value can be read as `.new` by a store of the same packet.
#[must_use]
pub fn can_feed_new_store(producer: &Instruction, register: Register) -> bool {
    let row = producer.opcode.row();
    // Exactly the result, of single width.
    let whole = producer
        .registers()
        .any(|(index, role, r)| role != Role::Use && r == register && index == 0);
    whole
        && match register.class() {
            Class::V => row.unit.is_vector(),
            Class::R => row.unit != Unit::Store && !conditional(producer.opcode),
            _ => false,
        }
}

/// Checks a packet against the rules of a version.
///
/// # Errors
/// The first rule that it breaks.
pub fn check(packet: &Packet, version: Version) -> Result<(), Illegal> {
    let placed = &packet.instructions;
    let mut words = 0;
    for p in placed {
        let row = p.instruction.opcode.row();
        if row.since > version {
            return Err(Illegal::Version(p.instruction.opcode));
        }
        words += 1 + usize::from(p.instruction.is_extended());
    }
    if words > 4 {
        return Err(Illegal::Words);
    }
    if let Some(alone) = placed.iter().find(|p| goes_alone(p.instruction.opcode))
        && (placed.len() > 1 || packet.end != LoopEnd::None)
    {
        return Err(Illegal::Alone(alone.instruction.opcode));
    }
    let flow = placed
        .iter()
        .filter(|p| matches!(p.instruction.opcode.row().unit, Unit::Jump | Unit::JumpRegister));
    if flow.count() + usize::from(packet.end != LoopEnd::None) > 1 {
        return Err(Illegal::Flow);
    }
    written_once(placed)?;
    for (index, p) in placed.iter().enumerate() {
        check_forward(placed, index, p)?;
    }
    let demands: Vec<Demand> = placed.iter().map(Placed::demand).collect();
    match resources_fit(&demands, version) {
        true => Ok(()),
        false => Err(Illegal::Resources),
    }
}

/// Whether an instruction must be the only one of its packet.
#[must_use]
pub fn goes_alone(opcode: Opcode) -> bool {
    opcode.row().unit == Unit::Extract
}

fn written_once(placed: &[Placed]) -> Result<(), Illegal> {
    let mut written: Vec<(u32, Register)> = Vec::new();
    for p in placed {
        // A temporary load leaves its register as it is.
        let kept = usize::from(p.forward == Forward::Temporary);
        for register in p.instruction.writes().skip(kept) {
            for unit in register.units() {
                if written.iter().any(|(w, _)| *w == unit) {
                    return Err(Illegal::WrittenTwice(register.to_string()));
                }
                written.push((unit, register));
            }
        }
    }
    Ok(())
}

fn check_forward(placed: &[Placed], index: usize, p: &Placed) -> Result<(), Illegal> {
    let illegal = Err(Illegal::Forward(p.instruction.opcode));
    let others = || placed.iter().enumerate().filter(|(i, _)| *i != index).map(|(_, o)| o);
    match p.forward {
        Forward::None => Ok(()),
        Forward::New(operand) => {
            let Some(register) = p.instruction.operands.get(operand).and_then(|o| o.register())
            else {
                return illegal;
            };
            let fed = others().any(|o| match register.class() {
                Class::P => o.instruction.writes().any(|w| w == register),
                _ => p.is_new_store() && can_feed_new_store(&o.instruction, register),
            });
            let may = match register.class() {
                Class::P => conditional(p.instruction.opcode),
                Class::R | Class::V => p.is_new_store(),
                _ => false,
            };
            if fed && may { Ok(()) } else { illegal }
        }
        Forward::Current | Forward::Temporary => {
            let result = p.instruction.operands.first().and_then(|o| o.register());
            let read = result.is_some_and(|r| {
                others().any(|o| o.instruction.reads().any(|use_| reads_part(use_, r)))
            });
            match p.instruction.opcode.row().unit {
                Unit::VectorLoad if read => Ok(()),
                _ => illegal,
            }
        }
    }
}

/// Whether reading `use_` reads some of `register`.
fn reads_part(use_: Register, register: Register) -> bool {
    use_.units().any(|u| register.units().any(|r| r == u))
}

/// Whether the instruction is scalar with a condition (`if (p)`), which may be `.new`.
#[must_use]
pub fn conditional(opcode: Opcode) -> bool {
    opcode.row().form.starts_with("if (") && !opcode.row().unit.is_vector()
}
