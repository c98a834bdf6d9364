//! An estimate of the packets of loops: of the code that is selected for them, before it is scheduled.

use trainc_ir::implementation::Memory;
use trainc_ir::loops::LoopKernel;

use crate::machine::Count;
use crate::machine::function::Node;
use crate::select::select;

/// Packets of five instructions, about: what schedules reach in loops.
const PACKETS_OF_FIVE: u64 = 2;
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
            LOOP + nodes(&l.body).saturating_mul(rounds)
        }
        Node::Branch(branch) => 1 + nodes(&branch.then).max(nodes(&branch.otherwise)),
        Node::Call(_) => ROUTINE,
    }
}
