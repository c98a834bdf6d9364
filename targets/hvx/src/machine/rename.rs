//! Separate names for separate values: a variable that straight code writes several times becomes several registers,
//! so that only real dependences order the code.

use std::collections::BTreeMap;

use super::flow::Flow;
use super::function::{Instruction, Operand};
use super::liveness::live_out;
use super::registers::{Part, Register};
use super::table::Role;

/// Renames within each block. The first value (from outside) and the last one of a variable that lives on keep its
/// name.
pub(super) fn rename(flow: &mut Flow) {
    let live = live_out(flow);
    for (index, live) in live.iter().enumerate() {
        let mut run = std::mem::take(&mut flow.blocks[index].run);
        // Definitions of each whole variable.
        let mut definitions: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (at, instruction) in run.iter().enumerate() {
            for register in defines(instruction) {
                definitions.entry(register.number()).or_default().push(at);
            }
        }
        for (number, places) in definitions {
            let class = flow.classes[number as usize];
            let whole = Register::virtual_of(class, number);
            let lives_on = whole.units().any(|u| live.contains(&u));
            for (which, start) in places.iter().enumerate() {
                let last = which + 1 == places.len();
                if last && lives_on || which == 0 && places.len() == 1 {
                    continue;
                }
                let end = places.get(which + 1).copied().unwrap_or(run.len());
                let fresh = flow.fresh(class);
                // The next definition's instruction still reads the old value.
                for (at, instruction) in run.iter_mut().enumerate().take(end + 1).skip(*start) {
                    let fields = instruction.opcode.row().fields;
                    for (operand, field) in instruction.operands.iter_mut().zip(fields) {
                        let mine = match field.role {
                            Role::Define => at < end,
                            Role::Use => at > *start,
                            Role::Update => at > *start && at < end,
                        };
                        if let Operand::Register(register) = operand
                            && mine
                            && !register.is_fixed()
                            && register.number() == number
                        {
                            *register = Register { number: fresh.number(), ..*register };
                        }
                    }
                }
            }
        }
        flow.blocks[index].run = run;
    }
}

/// Whole virtual registers that an instruction writes without reading.
fn defines(instruction: &Instruction) -> impl Iterator<Item = Register> {
    instruction
        .registers()
        .filter(|(_, role, r)| *role == Role::Define && !r.is_fixed() && r.part == Part::Whole)
        .map(|(_, _, r)| r)
}
