//! What a block costs on RI5CY with ideal memory: one cycle an instruction, one more where an instruction reads what the one before it loads, two
//! more for a branch that is taken; hardware loops cost their set-up alone.

use super::builder::constant;
use super::{Block, Instruction, Item, Register};

/// Cycles of a saved register, or of a parameter in the stack frame.
const FRAME: u64 = 1;

impl Block {
    /// Cycles of a call, without the call itself, where [`Item::Repeat`] runs `repeats` times.
    pub(crate) fn cycles(&self, repeats: u64) -> u64 {
        let (saved, parameters) = (self.saved().len() as u64, self.parameters as u64);
        let frame = 2 * FRAME * saved + FRAME * parameters + 2;
        frame + Count { repeats }.items(&self.items, &mut None)
    }

    /// Instructions and cycles of one round of the innermost loop.
    pub(crate) fn inner_loop(&self) -> Option<(u64, u64)> {
        fn innermost(items: &[Item]) -> Option<&[Item]> {
            items.iter().find_map(|item| match item {
                Item::HardwareLoop { body, .. } => Some(innermost(body).unwrap_or(body)),
                Item::Repeat { body, .. } => innermost(body),
                Item::Comment(..) | Item::One(_) => None,
            })
        }
        let body = innermost(&self.items)?;
        let instructions = body.iter().filter(|item| matches!(item, Item::One(_))).count() as u64;
        let count = Count { repeats: 1 };
        let mut loaded = None;
        count.items(body, &mut loaded);
        // As it follows itself.
        Some((instructions, count.items(body, &mut loaded)))
    }
}

struct Count {
    repeats: u64,
}

impl Count {
    fn items(&self, items: &[Item], loaded: &mut Option<Register>) -> u64 {
        let mut cycles = 0;
        for item in items {
            cycles += match item {
                Item::Comment(..) => 0,
                Item::One(instruction) => one(instruction, loaded),
                Item::HardwareLoop { rounds, body, count, .. } => {
                    *loaded = None;
                    let set_up = 1 + constant(*count, *rounds).len() as u64;
                    let first = self.items(body, loaded);
                    let again = self.items(body, &mut loaded.clone());
                    set_up + first + again * u64::from(rounds.unsigned_abs().saturating_sub(1))
                }
                Item::Repeat { body, .. } => {
                    let first = self.items(body, loaded);
                    // Load, decrement with its stall, store, branch.
                    let turn = 5;
                    *loaded = None;
                    let again = self.items(body, loaded);
                    *loaded = None;
                    let times = self.repeats.max(1);
                    first + again * (times - 1) + turn * times + 2 * (times - 1)
                }
            };
        }
        cycles
    }
}

fn one(instruction: &Instruction, loaded: &mut Option<Register>) -> u64 {
    let stalls = loaded.is_some_and(|register| instruction.reads().contains(&register));
    *loaded = instruction.loads();
    1 + u64::from(stalls)
}
