//! An estimate of the packets of loops: of the code that is selected for them, before it is scheduled.

use trainc_ir::implementation::Memory;
use trainc_ir::loops::LoopKernel;

use crate::machine::function::Node;
use crate::machine::packets::fewest_packets;
use crate::machine::pipeline::LARGEST;
use crate::machine::table::Unit;
use crate::machine::{Count, Version};
use crate::select::select;

/// Packets of five instructions, about: what schedules reach in loops.
const PACKETS_OF_FIVE: u64 = 2;
/// Packets of as many that units are busy in, about.
const PACKETS_BUSY: (u64, u64) = (8, 7);
/// Rounds of a loop whose count is known at run time only.
const UNKNOWN_ROUNDS: u64 = 8;
/// Packets of a routine: a division, a root.
const ROUTINE: u64 = 60;
/// Packets of a call, and those before and behind a loop.
const CALL: u64 = 20;
const LOOP: u64 = 4;

/// Packets of a launch, the most if no code can be selected; and whether its operands or results must begin where vectors do.
pub(crate) fn of_loops(kernel: &LoopKernel, memory: Memory) -> (u64, bool) {
    match select("kernel", "", kernel, memory) {
        Ok(selected) => {
            let packets = CALL + nodes(&selected.function.body) * PACKETS_OF_FIVE / 5;
            (packets, selected.aligned)
        }
        Err(_) => (u64::MAX, false),
    }
}

/// Instructions of a piece of code.
fn nodes(nodes: &[Node]) -> u64 {
    nodes.iter().map(node).fold(0, u64::saturating_add)
}

fn node(node: &Node) -> u64 {
    match node {
        Node::Straight(run) => run.len() as u64,
        Node::Loop(l) => {
            let rounds = match l.count {
                Count::Constant(rounds) => rounds.into(),
                Count::Register(_) => UNKNOWN_ROUNDS,
            };
            LOOP + pipelined(&l.body).unwrap_or_else(|| nodes(&l.body)).saturating_mul(rounds)
        }
        Node::Branch(branch) if branch.rare => 1 + nodes(&branch.otherwise),
        Node::Branch(branch) => {
            let [then, otherwise] = [&branch.then, &branch.otherwise];
            // What only vectors do is for what is usual.
            1 + match [then, otherwise].map(|side| has_vectors(side)) {
                [true, false] if !otherwise.is_empty() => nodes(then),
                [false, true] if !then.is_empty() => nodes(otherwise),
                _ => nodes(then).max(nodes(otherwise)),
            }
        }
        Node::Call(_) => ROUTINE,
    }
}

/// Whether a piece of code has instructions of vectors.
fn has_vectors(nodes: &[Node]) -> bool {
    nodes.iter().any(|node| match node {
        Node::Straight(run) => {
            run.iter().any(|instruction| instruction.opcode.row().unit.is_vector())
        }
        Node::Loop(l) => has_vectors(&l.body),
        Node::Branch(branch) => has_vectors(&branch.then) || has_vectors(&branch.otherwise),
        Node::Call(_) => false,
    })
}

/// A round of a loop of vectors that overlaps others, as instructions: what the units take, and a little more.
fn pipelined(body: &[Node]) -> Option<u64> {
    let [Node::Straight(run)] = body else { return None };
    let units = || run.iter().map(|instruction| instruction.opcode.row().unit);
    let overlaps = run.len() <= LARGEST && units().any(Unit::is_vector);
    let fewest = fewest_packets(units(), Version::V66) as u64;
    overlaps.then_some((fewest * PACKETS_BUSY.0).div_ceil(PACKETS_BUSY.1) * 5 / PACKETS_OF_FIVE)
}
