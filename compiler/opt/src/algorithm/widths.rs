//! Widths of blocks that an algorithm chooses anew at each epoch's end, by how much the loss minds their rounding.

use std::collections::BTreeMap;

use trainc_ir::attributes::F32;
use trainc_ir::ops::BlockWidths;

use super::file::WidthsText;
use crate::egraph::forms::Kept;

/// The choice, as a file has it in `[widths]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Widths {
    /// The state of blocks that has the widths.
    pub state: String,
    /// What that state begins as.
    pub kept: Kept,
    /// The operation that chooses, without tensors.
    choice: BlockWidths,
}

impl Widths {
    /// Reads what a file declares; errors are the key and what is wrong with it.
    pub(super) fn read(
        text: &WidthsText,
        states: &BTreeMap<String, Kept>,
    ) -> Result<Widths, (String, String)> {
        let fail = |key: &str, message: String| (format!("widths.{key}"), message);
        let kept = states.get(&text.state).filter(|kept| kept.of_blocks && kept.next.is_none());
        let kept = kept.ok_or_else(|| {
            let message = format!("`{}` is no state of blocks without `next`", text.state);
            fail("state", message)
        })?;
        let budget: f64 = text.budget.trim().parse().map_err(|_| {
            fail("budget", format!("expected a number or $(expression), here `{}`", text.budget))
        })?;
        let within = |key: &str, value: f64, most: f64| match (0.0..=most).contains(&value) {
            true => Ok(F32::new(value as f32)),
            false => Err(fail(key, format!("expected 0 to {most}, here {value}"))),
        };
        if !(1..=64).contains(&text.rounds) {
            return Err(fail("rounds", format!("expected 1 to 64, here {}", text.rounds)));
        }
        let choice = BlockWidths {
            budget: within("budget", budget, 8.0)?,
            largest: within("largest", text.largest, 8.0)?,
            kept: within("kept", text.kept, 1.0)?,
            rounds: text.rounds,
            uses: Vec::new(),
        };
        Ok(Widths { state: text.state.clone(), kept: kept.clone(), choice })
    }

    /// The operation for tensors whose elements are used so often each.
    pub fn choice(&self, uses: &[f32]) -> BlockWidths {
        let uses = uses.iter().map(|&uses| F32::new(uses)).collect();
        BlockWidths { uses, ..self.choice.clone() }
    }
}
