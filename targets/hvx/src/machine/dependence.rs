//! What must come before what: registers and memory, within a run of instructions and from one round of a loop to the
//! next.

use std::collections::BTreeMap;

use super::function::{Access, Instruction, Object, Operand};
use super::instructions::Opcode;
use super::packets::{can_feed_new_store, conditional};
use super::registers::{Class, Register};
use super::table::{Effect, Kind, Role, Unit};

/// Why one instruction waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Reads what the other writes.
    Value,
    /// Overwrites what the other reads.
    Anti,
    /// Overwrites what the other writes, or touches memory that it writes.
    Order,
}

/// `to` comes at least `minimum` packets after `from`, better `latency`; `rounds` rounds later.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// Index of the earlier instruction.
    pub from: usize,
    /// Index of the later instruction.
    pub to: usize,
    /// Packets between them that correctness needs; 0: the same packet will do (by forwarding, if it is a value).
    pub minimum: i64,
    /// Packets between them that avoid a stall.
    pub latency: i64,
    /// 0 within a round, 1 from a round to the next.
    pub rounds: i64,
    /// Why.
    pub reason: Reason,
}

/// All edges of a run; with `carried` also those from a round of a loop to the next.
#[must_use]
pub fn edges(run: &[Instruction], carried: bool) -> Vec<Edge> {
    let mut found = Found::default();
    let copies = if carried { 2 } else { 1 };
    let mut last: BTreeMap<u32, State> = BTreeMap::new();
    for copy in 0..copies {
        for (index, instruction) in run.iter().enumerate() {
            let at = (copy, index);
            for (_, role, register) in instruction.registers() {
                if role.reads() {
                    for unit in register.units() {
                        let state = last.entry(unit).or_default();
                        if let Some(writer) = state.writer {
                            found.value(run, writer, at, register);
                        }
                    }
                }
            }
            for register in instruction.writes() {
                for unit in register.units() {
                    let state = last.entry(unit).or_default();
                    for reader in &state.readers {
                        found.add(*reader, at, 0, 0, Reason::Anti);
                    }
                    if let Some(writer) = state.writer {
                        found.add(writer, at, 1, 1, Reason::Order);
                    }
                }
            }
            for register in instruction.reads() {
                for unit in register.units() {
                    last.entry(unit).or_default().readers.push(at);
                }
            }
            for register in instruction.writes() {
                for unit in register.units() {
                    let reads_too = instruction.reads().any(|r| r.units().any(|u| u == unit));
                    let readers = if reads_too { vec![at] } else { Vec::new() };
                    last.insert(unit, State { writer: Some(at), readers });
                }
            }
        }
    }
    memory(run, carried, &mut found);
    let jumps = |i: &Instruction| matches!(i.opcode.row().unit, Unit::Jump | Unit::JumpRegister);
    if let Some(branch) = run.iter().position(jumps) {
        // A callee may overwrite what its packet reads beside it: calls go after everything else.
        let wait = i64::from(run[branch].opcode == Opcode::Call);
        for index in 0..branch {
            found.add((0, index), (0, branch), wait, wait, Reason::Order);
        }
    }
    found.edges.into_values().collect()
}

#[derive(Default)]
struct State {
    writer: Option<(usize, usize)>,
    readers: Vec<(usize, usize)>,
}

/// Edges by ends, the strictest of each kind.
#[derive(Default)]
struct Found {
    edges: BTreeMap<(usize, usize, i64, u8), Edge>,
}

impl Found {
    fn add(
        &mut self,
        from: (usize, usize),
        to: (usize, usize),
        minimum: i64,
        latency: i64,
        reason: Reason,
    ) {
        let rounds = i64::from(to.0 != from.0);
        if from.0 == 1 || (from == to) {
            return;
        }
        let key = (from.1, to.1, rounds, reason as u8);
        let edge = Edge { from: from.1, to: to.1, minimum, latency, rounds, reason };
        let old = self.edges.entry(key).or_insert(edge);
        old.minimum = old.minimum.max(minimum);
        old.latency = old.latency.max(latency);
    }

    fn value(
        &mut self,
        run: &[Instruction],
        from: (usize, usize),
        to: (usize, usize),
        register: Register,
    ) {
        let (producer, consumer) = (&run[from.1], &run[to.1]);
        let forwards = from.0 == to.0 && forwardable(producer, consumer, register);
        let latency = latency(producer, consumer, register);
        let latency = if forwards { 0 } else { latency };
        self.add(from, to, i64::from(!forwards), latency, Reason::Value);
    }
}

/// Whether the consumer can read the value in the producer's packet.
fn forwardable(producer: &Instruction, consumer: &Instruction, register: Register) -> bool {
    let written_whole = producer.writes().any(|w| w == register);
    let reads: Vec<(usize, Role)> = consumer
        .registers()
        .filter(|(_, role, r)| role.reads() && overlap(*r, register))
        .map(|(index, role, _)| (index, role))
        .collect();
    if !written_whole || reads.iter().any(|(_, role)| *role == Role::Update) {
        return false;
    }
    match (register.class(), reads.as_slice()) {
        (Class::P, [(index, _)]) => {
            conditional(consumer.opcode) && consumer.operands[*index].register() == Some(register)
        }
        (Class::R | Class::V, [(index, _)])
            if consumer.effect() == Effect::Store && *index + 1 == consumer.operands.len() =>
        {
            // A scalar load could feed a store too, but would stall it.
            can_feed_new_store(producer, register)
                && allows_new(consumer)
                && producer.effect() == Effect::None
        }
        (Class::V, _) => {
            producer.opcode.row().unit == Unit::VectorLoad
                && consumer.opcode.row().unit.is_vector()
                && consumer.opcode.row().unit != Unit::Extract
                && consumer.effect() != Effect::Store
        }
        _ => false,
    }
}

/// Stores that have a `.new` form.
pub(crate) fn allows_new(store: &Instruction) -> bool {
    matches!(store.opcode.row().unit, Unit::Store | Unit::VectorStore)
        && !store.opcode.row().form.starts_with("if (")
}

fn overlap(a: Register, b: Register) -> bool {
    a.units().any(|x| b.units().any(|y| x == y))
}

/// Packets from an instruction to a reader of its result without a stall: a model, since cores differ. Scalar figures
/// follow the usual pipeline of v60 and later; HVX results reach arithmetic and accumulators in the next packet,
/// multipliers, shifter and permuter one later.
#[must_use]
pub fn latency(producer: &Instruction, consumer: &Instruction, register: Register) -> i64 {
    let address = |fields: &Instruction| {
        fields.registers().any(|(_, role, r)| role == Role::Update && overlap(r, register))
    };
    match producer.opcode.row().unit {
        // A moved-on address is ready in the next packet.
        _ if producer.effect() != Effect::None && address(producer) => 1,
        Unit::Load => 3,
        Unit::Multiply | Unit::Float | Unit::Control => 3,
        Unit::Xtype | Unit::Predicate => 2,
        Unit::VectorMultiply
        | Unit::VectorMultiplyPair
        | Unit::VectorMultiplyWide
        | Unit::VectorShift
        | Unit::VectorPermute
        | Unit::VectorPermuteShift
        | Unit::VectorAlu
        | Unit::VectorAluPair => 1 + i64::from(reads_early(consumer, register)),
        _ => 1,
    }
}

/// Whether the consumer needs the value a packet earlier than vector arithmetic does.
fn reads_early(consumer: &Instruction, register: Register) -> bool {
    let early = matches!(
        consumer.opcode.row().unit,
        Unit::VectorMultiply
            | Unit::VectorMultiplyPair
            | Unit::VectorMultiplyWide
            | Unit::VectorShift
            | Unit::VectorPermute
            | Unit::VectorPermuteShift
    );
    early && consumer.registers().any(|(_, role, r)| role == Role::Use && overlap(r, register))
}

/// Orders accesses that may touch the same bytes, one of them a store.
fn memory(run: &[Instruction], carried: bool, found: &mut Found) {
    let accesses: Vec<(usize, Effect)> = run
        .iter()
        .enumerate()
        .map(|(index, i)| (index, i.effect()))
        .filter(|(_, effect)| *effect != Effect::None)
        .collect();
    let versions = base_versions(run);
    for (position, (first, effect)) in accesses.iter().enumerate() {
        for (second, other) in &accesses[position..] {
            if *effect == Effect::Load && *other == Effect::Load {
                continue;
            }
            let (a, b) = (&run[*first], &run[*second]);
            if !may_overlap(a.access, b.access) {
                continue;
            }
            let apart = versions[*first] == versions[*second] && disjoint_offsets(a, b);
            if first != second && !apart {
                let wait = i64::from(*effect == Effect::Store);
                found.add((0, *first), (0, *second), wait, wait, Reason::Order);
            }
            if carried && !rounds_disjoint(a.access, b.access) {
                for (from, to, effect) in [(first, second, effect), (second, first, other)] {
                    let wait = i64::from(*effect == Effect::Store);
                    found.add((0, *from), (1, *to), wait, wait, Reason::Order);
                }
            }
        }
    }
}

fn may_overlap(a: Option<Access>, b: Option<Access>) -> bool {
    let object = |access: Option<Access>| access.map_or(Object::ANY, |a| a.object);
    let (a, b) = (object(a), object(b));
    a == b || a == Object::ANY || b == Object::ANY
}

fn rounds_disjoint(a: Option<Access>, b: Option<Access>) -> bool {
    a.zip(b).is_some_and(|(a, b)| a.rounds_disjoint && b.rounds_disjoint)
}

/// For each access its base register with the number of writes to it so far.
fn base_versions(run: &[Instruction]) -> Vec<Option<(Register, usize)>> {
    let mut writes: BTreeMap<u32, usize> = BTreeMap::new();
    run.iter()
        .map(|instruction| {
            let base = plain_address(instruction).map(|(base, _)| {
                let count = base.units().map(|u| writes.get(&u).copied().unwrap_or(0)).sum();
                (base, count)
            });
            for unit in instruction.writes().flat_map(Register::units) {
                *writes.entry(unit).or_default() += 1;
            }
            base
        })
        .collect()
}

/// Base and offset of an access of the form base + number.
fn plain_address(instruction: &Instruction) -> Option<(Register, i32)> {
    if instruction.effect() == Effect::None {
        return None;
    }
    let fields = instruction.opcode.row().fields;
    let place = fields.iter().position(|f| matches!(f.kind, Kind::Immediate { .. }))?;
    let base = place.checked_sub(1)?;
    if fields[base].role != Role::Use {
        return None;
    }
    match (&instruction.operands[base], &instruction.operands[place]) {
        (Operand::Register(r), Operand::Immediate(n)) if r.class() == Class::R => Some((*r, *n)),
        _ => None,
    }
}

/// Bytes of an access.
fn width(instruction: &Instruction) -> i64 {
    let form = instruction.opcode.row().form;
    if form.contains("vmem") {
        128
    } else if form.contains("memd") {
        8
    } else if form.contains("memw") {
        4
    } else if form.contains("memh") || form.contains("memuh") {
        2
    } else {
        1
    }
}

/// Whether two accesses with the same base cannot meet.
fn disjoint_offsets(a: &Instruction, b: &Instruction) -> bool {
    let range = |i: &Instruction| {
        if i.operands.len() != i.opcode.row().fields.len() || i.opcode.row().form.contains("<<") {
            return None;
        }
        let (_, offset) = plain_address(i)?;
        let unit = if i.opcode.row().unit.is_vector() { 128 } else { 1 };
        let start = i64::from(offset) * unit;
        Some((start, start + width(i)))
    };
    // An aligned vector access drops low bits of its address, so it only compares with its like.
    let kind = |i: &Instruction| match i.opcode.row().unit {
        Unit::VectorLoad | Unit::VectorStore => 2,
        Unit::VectorLoadUnaligned | Unit::VectorStoreUnaligned => 1,
        _ => 0,
    };
    match (range(a), range(b)) {
        (Some((a0, a1)), Some((b0, b1))) if kind(a) == kind(b) => a1 <= b0 || b1 <= a0,
        _ => false,
    }
}
