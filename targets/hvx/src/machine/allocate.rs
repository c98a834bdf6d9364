//! Linear scan over scheduled packets: each virtual register gets a place for all of its life, pairs an even one.

use std::collections::{BTreeMap, BTreeSet};

use super::flow::Flow;
use super::function::Operand;
use super::instructions::Opcode;
use super::liveness::{clobbered_by_call, forwarded, live_out, packets, read, written};
use super::packets::Packet;
use super::registers::{Class, FIRST_VIRTUAL_UNIT, Register};
use super::table::Kind;

/// Times from which and to before which a place is taken. A packet reads at twice its number, writes one later.
type Segment = (u32, u32);

/// What the allocation came to.
#[derive(Debug)]
pub(super) enum Outcome {
    /// A place for each virtual register in use.
    Placed(BTreeMap<u32, Register>),
    /// Values that must live in memory.
    Spill(BTreeSet<u32>),
}

/// A virtual register's life.
#[derive(Debug)]
struct Life {
    number: u32,
    class: Class,
    segments: Vec<Segment>,
    /// Only r0..r7.
    low: bool,
    /// Cost of keeping it in memory.
    weight: f64,
    /// Registers that it is copied from or to.
    hints: Vec<Register>,
}

/// Registers that may be used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Of r0..r27.
    pub(super) scalars: u32,
    /// Of v0..v31.
    pub(super) vectors: u32,
}

/// Finds places for the virtual registers of a scheduled flow; `kept` may not go to memory.
#[must_use]
pub(super) fn allocate(flow: &Flow, limits: Limits, kept: &BTreeSet<u32>) -> Outcome {
    let (segments, numbers) = lives(flow);
    let mut taken: BTreeMap<u32, Vec<(Segment, Option<usize>)>> = BTreeMap::new();
    for (unit, list) in segments.range(..FIRST_VIRTUAL_UNIT) {
        taken.entry(*unit).or_default().extend(list.iter().map(|s| (*s, None)));
    }
    let mut lives = describe(flow, &segments, &numbers);
    lives.sort_by_key(|l| (l.segments.first().copied(), l.number));
    let mut placed: BTreeMap<u32, Register> = BTreeMap::new();
    let mut spilled = BTreeSet::new();
    for index in 0..lives.len() {
        loop {
            let life = &lives[index];
            let choice = choices(life, limits, &placed)
                .find(|r| r.units().all(|u| free(&taken, u, &life.segments)));
            if let Some(register) = choice {
                for unit in register.units() {
                    let list = taken.entry(unit).or_default();
                    list.extend(life.segments.iter().map(|s| (*s, Some(index))));
                }
                placed.insert(life.number, register);
                break;
            }
            // The cheapest of those in the way, or this one.
            let in_the_way: BTreeSet<usize> = choices(life, limits, &placed)
                .flat_map(Register::units)
                .flat_map(|u| taken.get(&u).into_iter().flatten())
                .filter(|(s, _)| life.segments.iter().any(|l| meets(*l, *s)))
                .filter_map(|(_, owner)| *owner)
                .collect();
            let victim = in_the_way
                .into_iter()
                .chain([index])
                .filter(|i| !kept.contains(&lives[*i].number))
                .min_by(|a, b| lives[*a].weight.total_cmp(&lives[*b].weight).then(a.cmp(b)));
            let Some(victim) = victim else {
                // Nothing here may go to memory: this value cannot be placed.
                spilled.insert(life.number);
                break;
            };
            spilled.insert(lives[victim].number);
            if victim == index {
                break;
            }
            placed.remove(&lives[victim].number);
            for list in taken.values_mut() {
                list.retain(|(_, owner)| *owner != Some(victim));
            }
        }
    }
    if spilled.is_empty() { Outcome::Placed(placed) } else { Outcome::Spill(spilled) }
}

fn meets(a: Segment, b: Segment) -> bool {
    a.0 < b.1 && b.0 < a.1
}

fn free(
    taken: &BTreeMap<u32, Vec<(Segment, Option<usize>)>>,
    unit: u32,
    segments: &[Segment],
) -> bool {
    let Some(list) = taken.get(&unit) else { return true };
    !list.iter().any(|(s, _)| segments.iter().any(|l| meets(*l, *s)))
}

/// Places in the order of preference: hints, then scratch registers, then those to be saved.
fn choices<'a>(
    life: &'a Life,
    limits: Limits,
    placed: &'a BTreeMap<u32, Register>,
) -> impl Iterator<Item = Register> + 'a {
    let (class, low) = (life.class, life.low);
    let file: Vec<u32> = match class.half() {
        Class::R if low => (0..8).rev().filter(|n| *n < limits.scalars).collect(),
        Class::R => {
            (8..16).chain((0..8).rev()).chain(16..28).filter(|n| *n < limits.scalars).collect()
        }
        Class::V => (0..limits.vectors.min(32)).collect(),
        other => (0..other.file()).collect(),
    };
    let hints = life.hints.iter().filter_map(move |hint| {
        let place = if hint.is_fixed() {
            Some(*hint)
        } else {
            placed.get(&hint.number()).map(|r| Register { part: hint.part, ..*r })
        };
        place.filter(|p| p.class() == class && p.part == super::registers::Part::Whole)
    });
    let hints: Vec<Register> = hints.filter(|h| file.contains(&h.number())).collect();
    let step =
        move |n: &u32| !class.is_pair() || n.is_multiple_of(2) && file_has(class, n + 1, limits);
    hints.into_iter().chain(file.into_iter().filter(step).map(move |n| Register::fixed(class, n)))
}

fn file_has(class: Class, number: u32, limits: Limits) -> bool {
    match class.half() {
        Class::R => number < limits.scalars,
        _ => number < limits.vectors,
    }
}

/// Segments of each unit, and the first packet's number of each block.
pub(super) fn lives(flow: &Flow) -> (BTreeMap<u32, Vec<Segment>>, Vec<u32>) {
    let live = live_out(flow);
    let mut segments: BTreeMap<u32, Vec<Segment>> = BTreeMap::new();
    let mut numbers = Vec::new();
    let mut number = 0u32;
    for (block, live) in flow.blocks.iter().zip(live) {
        let packets = packets(block);
        numbers.push(number);
        let first = number;
        number += u32::try_from(packets.len()).unwrap_or(u32::MAX / 4);
        // An empty block still passes values on, which the neighbours' segments cover.
        let mut open: BTreeMap<u32, u32> = live.iter().map(|u| (*u, 2 * number)).collect();
        for (packet, at) in packets.iter().zip(first..number).rev() {
            let new = forwarded(packet);
            let mut ends = written(packet);
            if packet.instructions.iter().any(|p| p.instruction.opcode == Opcode::Call) {
                ends.extend(clobbered_by_call().flat_map(Register::units));
            }
            for unit in ends {
                let start = 2 * at + u32::from(!new.contains(&unit));
                let end = open.remove(&unit).unwrap_or(2 * at + 2);
                segments.entry(unit).or_default().push((start, end));
            }
            for unit in read(packet, block.call_arguments) {
                open.entry(unit).or_insert(2 * at + 1);
            }
        }
        for (unit, end) in open {
            segments.entry(unit).or_default().push((2 * first, end.max(2 * first)));
        }
    }
    (segments, numbers)
}

fn describe(flow: &Flow, segments: &BTreeMap<u32, Vec<Segment>>, numbers: &[u32]) -> Vec<Life> {
    let mut lives: BTreeMap<u32, Life> = BTreeMap::new();
    for (unit, list) in segments.range(FIRST_VIRTUAL_UNIT..) {
        let number = (unit - FIRST_VIRTUAL_UNIT) / 2;
        let life = lives.entry(number).or_insert_with(|| Life {
            number,
            class: flow.classes[number as usize],
            segments: Vec::new(),
            low: false,
            weight: 0.0,
            hints: Vec::new(),
        });
        life.segments.extend(list.iter().filter(|(start, end)| start < end));
    }
    for (block, _) in flow.blocks.iter().zip(numbers) {
        let cost = 10f64.powi(block.depth.min(8).cast_signed());
        for packet in &packets(block) {
            uses(packet, cost, &mut lives);
        }
    }
    for life in lives.values_mut() {
        life.segments.sort_unstable();
        let mut merged: Vec<Segment> = Vec::new();
        for (start, end) in life.segments.drain(..) {
            match merged.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        let length: u32 = merged.iter().map(|(start, end)| end - start).sum();
        life.weight /= f64::from(length.max(1));
        life.segments = merged;
    }
    lives.into_values().collect()
}

fn uses(packet: &Packet, cost: f64, lives: &mut BTreeMap<u32, Life>) {
    for placed in &packet.instructions {
        let instruction = &placed.instruction;
        for (operand, field) in instruction.operands.iter().zip(instruction.opcode.row().fields) {
            if let Operand::Register(register) = operand
                && !register.is_fixed()
                && let Some(life) = lives.get_mut(&register.number())
            {
                life.weight += cost;
                life.low |= matches!(field.kind, Kind::Register { low: true, .. });
            }
        }
        if let (Opcode::Move | Opcode::Vassign, [a, b]) =
            (instruction.opcode, instruction.operands.as_slice())
            && let (Some(a), Some(b)) = (a.register(), b.register())
        {
            for (one, other) in [(a, b), (b, a)] {
                if !one.is_fixed()
                    && one.class == one.class()
                    && let Some(life) = lives.get_mut(&one.number())
                {
                    life.hints.push(other);
                }
            }
        }
    }
}
