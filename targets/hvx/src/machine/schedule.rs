//! List scheduling of straight code into packets, and the making of one packet from its members.

use super::dependence::{Edge, Reason, edges};
use super::function::Instruction;
use super::packets::{Demand, Forward, Packet, Placed, check, goes_alone, resources_fit};
use super::registers::{Class, Register, Version};
use super::table::{Effect, Unit};

/// Which instruction goes first when several could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The one with the longest way to the end.
    Critical,
    /// The first that can go of those within a window that moves along from the first that has not gone.
    Window,
    /// None before those that stand before it: keeps live ranges as short as they were written.
    Source,
}

/// A longer run than this is scheduled within a window that moves along: [`Order::Critical`] over all of it would start
/// everything at once, which registers do not hold.
const LONG: usize = 200;
/// Instructions of the window.
const WINDOW: usize = 12;

/// Members of a packet: indices with their time.
type Row = Vec<(usize, i64)>;

/// A run with its dependences.
#[derive(Debug)]
pub struct Graph<'a> {
    /// Instructions.
    pub run: &'a [Instruction],
    /// Dependences.
    pub edges: Vec<Edge>,
    /// For each instruction the edges that end there.
    pub before: Vec<Vec<usize>>,
    /// For each instruction the edges that start there.
    pub after: Vec<Vec<usize>>,
}

impl<'a> Graph<'a> {
    /// The graph of a run, with edges between rounds if it is a loop's body.
    #[must_use]
    pub fn new(run: &'a [Instruction], carried: bool) -> Self {
        let edges = edges(run, carried);
        let (mut before, mut after) = (vec![Vec::new(); run.len()], vec![Vec::new(); run.len()]);
        for (index, edge) in edges.iter().enumerate() {
            before[edge.to].push(index);
            after[edge.from].push(index);
        }
        Self { run, edges, before, after }
    }

    /// Longest latency from each instruction to the end of its round.
    #[must_use]
    pub fn heights(&self) -> Vec<i64> {
        let mut heights = vec![0; self.run.len()];
        for index in (0..self.run.len()).rev() {
            for edge in self.after[index].iter().map(|e| &self.edges[*e]) {
                if edge.rounds == 0 {
                    heights[index] = heights[index].max(heights[edge.to] + edge.latency);
                }
            }
        }
        heights
    }

    /// How each member reads the values of its packet: members are indices with their time; equal times are the same
    /// round. None if the members cannot share a packet.
    #[must_use]
    pub fn forwards(&self, members: &[(usize, i64)], version: Version) -> Option<Vec<Forward>> {
        if members.len() > 4 {
            return None;
        }
        let mut forwards = vec![Forward::None; members.len()];
        let place = |index: usize| members.iter().position(|(m, _)| *m == index);
        for (slot, (index, time)) in members.iter().enumerate() {
            for edge in self.before[*index].iter().map(|e| &self.edges[*e]) {
                let Some(from) = place(edge.from) else { continue };
                let same_round = edge.rounds == 0 && members[from].1 == *time;
                if !same_round || edge.reason != Reason::Value {
                    continue;
                }
                let producer = &self.run[edge.from];
                if producer.opcode.row().unit == Unit::VectorLoad
                    && self.run[*index].effect() != Effect::Store
                    && producer.writes().next().is_some_and(|r| r.class() == Class::V)
                {
                    forwards[from] = Forward::Current;
                    continue;
                }
                let operand = self.run[*index].registers().find(|(_, role, r)| {
                    role.reads() && producer.writes().any(|w| shares(w, *r))
                })?;
                let new = Forward::New(operand.0);
                if forwards[slot] != Forward::None && forwards[slot] != new {
                    return None;
                }
                forwards[slot] = new;
            }
        }
        for (from, (index, time)) in members.iter().enumerate() {
            if forwards[from] != Forward::Current {
                continue;
            }
            // Whoever reads a `.cur` register in the packet gets the new value.
            let register = self.run[*index].operands.first()?.register()?;
            for (other, when) in members {
                let reads = self.run[*other].reads().any(|r| shares(r, register));
                if reads && (when != time || other < index) {
                    return None;
                }
            }
        }
        let mut words = 0;
        let mut demands: Vec<Demand> = Vec::with_capacity(4);
        let (mut flow, mut alone) = (0, false);
        for ((index, _), forward) in members.iter().zip(&forwards) {
            let instruction = &self.run[*index];
            let unit = instruction.opcode.row().unit;
            // A loop's set-up reaches 256 bytes by itself; the assembler extends it if the loop starts farther on,
            // behind a prologue, and crashes where the packet has no room for that.
            words += 1 + usize::from(instruction.is_extended() || unit == Unit::Loop);
            flow += usize::from(matches!(unit, Unit::Jump | Unit::JumpRegister));
            alone |= goes_alone(instruction.opcode);
            let new_store = matches!(forward, Forward::New(operand) if instruction.effect() == Effect::Store
                    && operand + 1 == instruction.operands.len());
            demands.push(Demand { unit, new_store, temporary: false });
        }
        let fits = words <= 4
            && flow <= 1
            && !(alone && members.len() > 1)
            && resources_fit(&demands, version);
        fits.then_some(forwards)
    }

    /// The packet of members that fit; loads whose value nobody else reads become `.tmp`.
    #[must_use]
    pub fn packet(
        &self,
        members: &[(usize, i64)],
        forwards: &[Forward],
        lives_on: &dyn Fn(Register) -> bool,
    ) -> Packet {
        let mut order: Vec<usize> = (0..members.len()).collect();
        order.sort_by_key(|m| rank(&self.run[members[*m].0], members[*m].0));
        let mut packet = Packet::new(Vec::new());
        for member in order {
            let (index, time) = members[member];
            let instruction = self.run[index].clone();
            let mut forward = forwards[member];
            if forward == Forward::Current {
                let loaded = instruction.operands.first().and_then(|o| o.register());
                let only_here = self.after[index].iter().map(|e| &self.edges[*e]).all(|edge| {
                    // An edge may also be for the moved-on address.
                    let reads = |r: Register| loaded.is_some_and(|loaded| shares(r, loaded));
                    edge.reason != Reason::Value
                        || edge.rounds == 0 && members.contains(&(edge.to, time))
                        || !self.run[edge.to].reads().any(reads)
                });
                if only_here && !loaded.is_none_or(lives_on) {
                    forward = Forward::Temporary;
                }
            }
            if packet.purpose.is_none() {
                packet.purpose.clone_from(&instruction.comment);
            }
            packet.instructions.push(Placed { instruction, forward });
        }
        packet
    }

    /// Cycles of packets given each instruction's packet: in order, waiting for operands.
    #[must_use]
    pub fn cycles(&self, packet_of: &[usize], packets: usize) -> i64 {
        let mut start = vec![0i64; packets];
        for packet in 0..packets {
            let mut at = if packet == 0 { 0 } else { start[packet - 1] + 1 };
            for edge in &self.edges {
                if edge.rounds == 0 && packet_of[edge.to] == packet && packet_of[edge.from] < packet
                {
                    at = at.max(start[packet_of[edge.from]] + edge.latency);
                }
            }
            start[packet] = at;
        }
        start.last().map_or(0, |last| last + 1)
    }
}

/// Order within a packet as printed: loads, arithmetic, stores, flow.
fn rank(instruction: &Instruction, index: usize) -> (u8, usize) {
    let row = instruction.opcode.row();
    let class = match row.unit {
        Unit::Jump | Unit::JumpRegister => 4,
        _ => match row.effect() {
            Effect::Store => 3,
            Effect::Load => 2,
            Effect::None => 1,
        },
    };
    (class, index)
}

fn shares(a: Register, b: Register) -> bool {
    a.units().any(|x| b.units().any(|y| x == y))
}

/// Packets of a straight run and the cycles they take: of two list schedules, with and without waiting for operands, the one of fewer cycles.
/// `lives_on` tells whether a register's value is read after the run.
#[must_use]
pub fn schedule(
    run: &[Instruction],
    version: Version,
    order: Order,
    lives_on: &dyn Fn(Register) -> bool,
) -> (Vec<Packet>, usize) {
    if run.is_empty() {
        return (Vec::new(), 0);
    }
    let graph = Graph::new(run, false);
    let mut best: Option<((i64, usize), Vec<Row>)> = None;
    for waits in [true, false] {
        let rows = list(&graph, version, order, waits);
        let mut packet_of = vec![0; run.len()];
        for (packet, row) in rows.iter().enumerate() {
            for (index, _) in row {
                packet_of[*index] = packet;
            }
        }
        let cost = (graph.cycles(&packet_of, rows.len()), rows.len());
        if best.as_ref().is_none_or(|(old, _)| cost < *old) {
            best = Some((cost, rows));
        }
    }
    let ((cycles, _), rows) = best.unwrap_or_default();
    let packets: Vec<Packet> = rows
        .iter()
        .map(|row| {
            let forwards =
                graph.forwards(row, version).unwrap_or_else(|| vec![Forward::None; row.len()]);
            graph.packet(row, &forwards, lives_on)
        })
        .collect();
    debug_assert!(packets.iter().all(|p| check(p, version).is_ok()));
    (packets, usize::try_from(cycles).unwrap_or(usize::MAX))
}

/// List scheduling; `waits`: an instruction is placed only where it need not stall.
fn list(graph: &Graph<'_>, version: Version, order: Order, waits: bool) -> Vec<Row> {
    let count = graph.run.len();
    let heights = graph.heights();
    let mut by_priority: Vec<usize> = (0..count).collect();
    let order = if order == Order::Critical && count > LONG { Order::Window } else { order };
    if order == Order::Critical {
        by_priority.sort_by_key(|i| (-heights[*i], *i));
    }
    let mut first = 0;
    let mut time: Vec<Option<i64>> = vec![None; count];
    let mut rows: Vec<Row> = Vec::new();
    let mut left = count;
    let mut cycle = 0i64;
    while left > 0 {
        let mut row: Row = Vec::new();
        let mut placed = true;
        while placed && row.len() < 4 {
            placed = false;
            while first < count && time[first].is_some() {
                first += 1;
            }
            let candidates = match order {
                Order::Window => &by_priority[first..count.min(first + WINDOW)],
                Order::Critical | Order::Source => &by_priority[..],
            };
            for index in candidates {
                if time[*index].is_some() {
                    continue;
                }
                let ready = graph.before[*index].iter().map(|e| &graph.edges[*e]).all(|edge| {
                    let wait = if waits { edge.latency } else { edge.minimum };
                    time[edge.from].is_some_and(|t| t + wait <= cycle)
                });
                if !ready && order == Order::Source {
                    break;
                }
                if !ready {
                    continue;
                }
                row.push((*index, cycle));
                if graph.forwards(&row, version).is_some() {
                    time[*index] = Some(cycle);
                    left -= 1;
                    placed = true;
                    break;
                }
                row.pop();
                if order == Order::Source {
                    break;
                }
            }
        }
        if !row.is_empty() {
            rows.push(row);
        }
        cycle += 1;
    }
    rows
}
