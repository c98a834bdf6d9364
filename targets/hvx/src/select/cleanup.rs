//! Removes instructions whose results nothing reads: loop variables that pointers replaced, values of both branches.

use std::collections::BTreeSet;

use crate::machine::function::Node;
use crate::machine::table::Effect;
use crate::machine::{Count, Function, Instruction};

/// Removes instructions without effect.
pub(super) fn remove_dead_code(function: &mut Function) {
    let mut live: BTreeSet<u32> = BTreeSet::new();
    live.extend(function.result.iter().flat_map(|r| r.units()));
    loop {
        let before = live.len();
        mark(&function.body, &mut live);
        if live.len() == before {
            break;
        }
    }
    sweep(&mut function.body, &live);
}

fn needed(instruction: &Instruction, live: &BTreeSet<u32>) -> bool {
    instruction.effect() == Effect::Store
        || instruction.writes().next().is_none()
        || instruction.writes().flat_map(|r| r.units()).any(|unit| live.contains(&unit))
}

fn mark(nodes: &[Node], live: &mut BTreeSet<u32>) {
    for node in nodes {
        match node {
            Node::Straight(run) => {
                for instruction in run.iter().rev().filter(|_| true) {
                    if needed(instruction, live) {
                        live.extend(instruction.reads().flat_map(|r| r.units()));
                    }
                }
            }
            Node::Loop(l) => {
                if let Count::Register(count) = l.count {
                    live.extend(count.units());
                }
                mark(&l.body, live);
            }
            Node::Branch(branch) => {
                live.extend(branch.condition.units());
                mark(&branch.then, live);
                mark(&branch.otherwise, live);
            }
            Node::Call(call) => {
                live.extend(call.arguments.iter().flat_map(|r| r.units()));
            }
        }
    }
}

fn sweep(nodes: &mut Vec<Node>, live: &BTreeSet<u32>) {
    for node in nodes.iter_mut() {
        match node {
            Node::Straight(run) => run.retain(|instruction| needed(instruction, live)),
            Node::Loop(l) => sweep(&mut l.body, live),
            Node::Branch(branch) => {
                sweep(&mut branch.then, live);
                sweep(&mut branch.otherwise, live);
            }
            Node::Call(_) => {}
        }
    }
    nodes.retain(|node| !matches!(node, Node::Straight(run) if run.is_empty()));
}
