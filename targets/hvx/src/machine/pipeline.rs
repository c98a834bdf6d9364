//! Software pipelining: iterative modulo scheduling of a loop's straight body.
//!
//! Registers are not renamed: the dependence from a value's last reader to the next round's writer bounds its life to
//! one interval, which the read-before-write rule of packets makes enough in practice. The first rounds' beginnings
//! (prologue) and the last rounds' ends (epilogue) come back as straight code for the surrounding blocks, where the
//! list scheduler mixes them with what is there.

use super::dependence::Reason;
use super::function::Instruction;
use super::packets::{Packet, fewest_packets};
use super::registers::{Class, Register, Version};
use super::schedule::Graph;

/// A pipelined loop.
#[derive(Clone, Debug)]
pub struct Pipelined {
    /// Runs before: beginnings of the first `stages - 1` rounds.
    pub prologue: Vec<Instruction>,
    /// The steady state; runs `count - (stages - 1)` times.
    pub kernel: Vec<Packet>,
    /// Runs after: ends of the last `stages - 1` rounds.
    pub epilogue: Vec<Instruction>,
    /// Rounds in flight.
    pub stages: usize,
    /// Packets from a round's beginning to the next one's, those that are empty included.
    pub interval: usize,
}

/// How a loop's rounds may overlap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Overlap {
    /// Most rounds in flight; 0: none.
    pub stages: usize,
    /// Fewest packets from a round to the next.
    pub interval: usize,
    /// Whether instructions move later where that shortens the lives of values.
    pub settled: bool,
}

/// Largest body that is tried.
pub const LARGEST: usize = 200;

/// Pipelines a body if that gives a better steady state than the plain loop's packets and cycles a round.
#[must_use]
pub fn pipeline(
    body: &[Instruction],
    version: Version,
    (packets, cycles): (usize, usize),
    overlap: Overlap,
    lives_on: &dyn Fn(Register) -> bool,
) -> Option<Pipelined> {
    if body.len() > LARGEST || body.is_empty() {
        return None;
    }
    let graph = Graph::new(body, true);
    let units = body.iter().map(|i| i.opcode.row().unit);
    let least = fewest_packets(units, version).max(1);
    for interval in least.max(overlap.interval)..packets.max(cycles) {
        let stages_of = |times: &[i64]| {
            times.iter().max().map_or(1, |last| (last / interval as i64) as usize + 1)
        };
        let packed = |times: &[i64]| {
            let used = |i: &usize| times.iter().any(|t| t % interval as i64 == *i as i64);
            (0..interval).filter(used).count()
        };
        // As early as can be; where that leaves packets half empty, fewer of them, if it can be.
        let mut found = modulo(&graph, version, interval as i64, false);
        if found.as_ref().is_none_or(|times| packed(times) > least) {
            let closer = modulo(&graph, version, interval as i64, true)
                .filter(|times| stages_of(times) <= overlap.stages);
            let fewer = match (&found, &closer) {
                (Some(found), Some(closer)) => packed(closer) < packed(found),
                (None, Some(_)) => true,
                (_, None) => false,
            };
            if fewer {
                found = closer;
            }
        }
        let Some(times) = found else { continue };
        let times = match overlap.settled {
            true => settled(&graph, version, interval as i64, &times),
            false => times,
        };
        let stages = stages_of(&times);
        if stages > overlap.stages {
            continue;
        }
        let rows = rows(&times, interval as i64);
        let kernel: Option<Vec<Packet>> = rows
            .iter()
            .filter(|row| !row.is_empty())
            .map(|row| {
                let forwards = graph.forwards(row, version)?;
                Some(graph.packet(row, &forwards, lives_on))
            })
            .collect();
        let kernel = kernel?;
        if kernel.len() > packets || kernel.len() == packets && interval >= cycles {
            continue;
        }
        let stage = |index: usize| (times[index] / interval as i64) as usize;
        // Of each round what is before the steady state, and what is after it. Where registers are short in the order of the steady
        // state: rounds overlap, and values live no longer than there.
        let begun = |round: usize, index: usize| stage(index) + round < stages - 1;
        let left = |round: usize, index: usize| stage(index) + round >= stages - 1;
        let order = overlap.settled.then_some((&times[..], interval));
        let mut prologue = rounds_of(body, stages - 1, order, &begun);
        let mut epilogue = rounds_of(body, stages - 1, order, &left);
        for instruction in prologue.iter_mut().chain(&mut epilogue) {
            instruction.comment = None;
        }
        return Some(Pipelined { prologue, kernel, epilogue, stages, interval });
    }
    None
}

/// Instructions of some rounds, one after the other, or by their times and the interval between rounds.
fn rounds_of(
    body: &[Instruction],
    rounds: usize,
    order: Option<(&[i64], usize)>,
    belongs: &dyn Fn(usize, usize) -> bool,
) -> Vec<Instruction> {
    let all = (0..rounds).flat_map(|round| (0..body.len()).map(move |index| (round, index)));
    let mut own: Vec<(usize, usize)> =
        all.filter(|&(round, index)| belongs(round, index)).collect();
    if let Some((times, interval)) = order {
        own.sort_by_key(|&(round, index)| (times[index] + (round * interval) as i64, round, index));
    }
    own.into_iter().map(|(_, index)| body[index].clone()).collect()
}

/// Members of each packet of the steady state.
fn rows(times: &[i64], interval: i64) -> Vec<Vec<(usize, i64)>> {
    let mut rows = vec![Vec::new(); interval as usize];
    for (index, time) in times.iter().enumerate() {
        rows[(time % interval) as usize].push((index, *time));
    }
    rows
}

/// A time for each instruction such that packets a multiple of the interval apart can be one packet: the earliest, or
/// `close` together, the earliest of those with others in their packet.
fn modulo(graph: &Graph<'_>, version: Version, interval: i64, close: bool) -> Option<Vec<i64>> {
    let count = graph.run.len();
    let heights = modulo_heights(graph, interval)?;
    let mut placed = Placed::new(count, interval);
    let mut never_before = vec![0i64; count];
    let mut budget = 12 * count + 50;
    loop {
        // The highest first, then source order.
        let next = (0..count)
            .filter(|i| placed.times[*i].is_none())
            .max_by_key(|i| (heights[*i], std::cmp::Reverse(*i)));
        let Some(next) = next else { break };
        if budget == 0 {
            return None;
        }
        budget -= 1;
        let mut earliest = 0;
        for edge in graph.before[next].iter().map(|e| &graph.edges[*e]) {
            if edge.from != next
                && let Some(from) = placed.times[edge.from]
            {
                earliest = earliest.max(from + edge.latency - edge.rounds * interval);
            }
        }
        let can = |time: &i64| placed.fits(graph, version, next, *time, &[]);
        let joins = |time: &i64| !placed.row(*time).is_empty();
        let joined = (earliest..earliest + interval).filter(|_| close).filter(joins).find(can);
        let fit = joined.or_else(|| (earliest..earliest + interval).find(can));
        let time = fit.unwrap_or_else(|| earliest.max(never_before[next]));
        never_before[next] = time + 1;
        // Make room: members of the packet in its way, then neighbours whose distance is broken.
        if fit.is_none() {
            let mut evicted = Vec::new();
            while !placed.fits(graph, version, next, time, &evicted) {
                let members = placed.row(time).iter().copied();
                let victim =
                    members.filter(|i| !evicted.contains(i)).min_by_key(|i| (heights[*i], *i))?;
                evicted.push(victim);
            }
            for victim in evicted {
                placed.remove(victim);
            }
        }
        placed.insert(next, time);
        for edge in graph.after[next].iter().map(|e| &graph.edges[*e]) {
            if let Some(to) = placed.times[edge.to]
                && edge.to != next
                && to < time + edge.latency - edge.rounds * interval
            {
                placed.remove(edge.to);
            }
        }
        for edge in graph.before[next].iter().map(|e| &graph.edges[*e]) {
            if let Some(from) = placed.times[edge.from]
                && edge.from != next
                && time < from + edge.latency - edge.rounds * interval
            {
                placed.remove(edge.from);
            }
        }
    }
    let times: Vec<i64> = placed.times.into_iter().collect::<Option<_>>()?;
    let first = times.iter().min().copied().unwrap_or(0);
    let shift = first.div_euclid(interval) * interval;
    Some(times.into_iter().map(|t| t - shift).collect())
}

/// Most passes over a loop's instructions that settle them.
const SETTLING: usize = 4;

/// The same schedule with instructions as late as the lives of values become shorter by: what is loaded long before it is
/// needed takes a register, which another round lacks.
fn settled(graph: &Graph<'_>, version: Version, interval: i64, times: &[i64]) -> Vec<i64> {
    let mut placed = Placed::new(times.len(), interval);
    times.iter().enumerate().for_each(|(index, time)| placed.insert(index, *time));
    let end = times.iter().max().copied().unwrap_or(0);
    let mut order: Vec<usize> = (0..times.len()).collect();
    for _ in 0..SETTLING {
        let mut moved = false;
        order.sort_by_key(|&index| (std::cmp::Reverse(placed.times[index]), index));
        for &index in &order {
            let Some(time) = placed.times[index] else { continue };
            let after = graph.after[index].iter().map(|e| &graph.edges[*e]);
            let bounds = after.filter(|edge| edge.to != index).filter_map(|edge| {
                Some(placed.times[edge.to]? - edge.latency + edge.rounds * interval)
            });
            let latest = bounds.min().unwrap_or(end).min(end);
            if latest <= time {
                continue;
            }
            placed.remove(index);
            let (mut best, mut least) = (time, lives_around(graph, &placed, index, time));
            let alone = placed.row(time).is_empty();
            for later in time + 1..=latest {
                // Packets that are empty stay so.
                if !alone && placed.row(later).is_empty() {
                    continue;
                }
                let lives = lives_around(graph, &placed, index, later);
                if lives < least && placed.fits(graph, version, index, later, &[]) {
                    (best, least) = (later, lives);
                }
            }
            placed.insert(index, best);
            moved |= best != time;
        }
        if !moved {
            break;
        }
    }
    placed.times.iter().zip(times).map(|(now, before)| now.unwrap_or(*before)).collect()
}

/// Packets that the values which an instruction makes and reads live if its time is that, vectors more important than scalars.
fn lives_around(graph: &Graph<'_>, placed: &Placed, index: usize, time: i64) -> i64 {
    let at = |other: usize| if other == index { Some(time) } else { placed.times[other] };
    let life = |from: usize| {
        let Some(start) = at(from) else { return 0 };
        let weights = graph.run[from].writes().map(|register| match register.class() {
            Class::V | Class::Q => 8,
            Class::VV => 16,
            Class::RR => 2,
            _ => 1,
        });
        let values = graph.after[from].iter().map(|e| &graph.edges[*e]);
        let values = values.filter(|edge| edge.reason == Reason::Value);
        let ends =
            values.filter_map(|edge| Some(at(edge.to)? + edge.rounds * placed.interval - start));
        weights.sum::<i64>() * ends.max().unwrap_or(0)
    };
    let mut read: Vec<usize> = graph.before[index]
        .iter()
        .map(|e| &graph.edges[*e])
        .filter(|edge| edge.reason == Reason::Value && edge.from != index)
        .map(|edge| edge.from)
        .collect();
    read.sort_unstable();
    read.dedup();
    life(index) + read.into_iter().map(life).sum::<i64>()
}

/// Instructions that have their times, and those of each packet of the steady state.
struct Placed {
    times: Vec<Option<i64>>,
    interval: i64,
    /// In source order.
    rows: Vec<Vec<usize>>,
}

impl Placed {
    fn new(count: usize, interval: i64) -> Placed {
        Placed { times: vec![None; count], interval, rows: vec![Vec::new(); interval as usize] }
    }

    fn row_number(&self, time: i64) -> usize {
        time.rem_euclid(self.interval) as usize
    }

    /// Members of the packet of a time.
    fn row(&self, time: i64) -> &[usize] {
        &self.rows[self.row_number(time)]
    }

    fn insert(&mut self, index: usize, time: i64) {
        self.remove(index);
        self.times[index] = Some(time);
        let number = self.row_number(time);
        let row = &mut self.rows[number];
        row.insert(row.partition_point(|other| *other < index), index);
    }

    fn remove(&mut self, index: usize) {
        if let Some(time) = self.times[index].take() {
            let number = self.row_number(time);
            self.rows[number].retain(|other| *other != index);
        }
    }

    /// Whether an instruction without a time can join the packet of one, without the evicted ones.
    fn fits(
        &self,
        graph: &Graph<'_>,
        version: Version,
        next: usize,
        time: i64,
        evicted: &[usize],
    ) -> bool {
        let others = self.row(time).iter().filter(|i| !evicted.contains(i));
        let mut members: Vec<(usize, i64)> =
            others.filter_map(|i| self.times[*i].map(|t| (*i, t))).collect();
        members.push((next, time));
        graph.forwards(&members, version).is_some()
    }
}

/// Longest way from each instruction to any other, rounds counted back; None if a cycle is longer than the interval.
fn modulo_heights(graph: &Graph<'_>, interval: i64) -> Option<Vec<i64>> {
    let mut heights = vec![0i64; graph.run.len()];
    for _ in 0..=graph.run.len() {
        let mut changed = false;
        for edge in graph.edges.iter().rev() {
            let through = heights[edge.to] + edge.latency - edge.rounds * interval;
            if through > heights[edge.from] {
                heights[edge.from] = through;
                changed = true;
            }
        }
        if !changed {
            return Some(heights);
        }
    }
    None
}
