//! Assembly text.

use super::function::{Instruction, Operand};
use super::table::Kind;

/// One instruction's text; `suffix` is appended to the operand of that index (`.new`, `.cur`).
pub(crate) fn instruction(
    instruction: &Instruction,
    suffix: impl Fn(usize) -> &'static str,
) -> String {
    let row = instruction.opcode.row();
    let mut text = String::new();
    let mut rest = row.form;
    while let Some(open) = rest.find('{') {
        text.push_str(&rest[..open]);
        let index: usize =
            rest[open + 1..].split('}').next().and_then(|n| n.parse().ok()).unwrap_or(0);
        rest = rest[open..].split_once('}').map_or("", |(_, after)| after);
        match (instruction.operands.get(index), row.fields.get(index).map(|f| f.kind)) {
            (
                Some(Operand::Immediate(n)),
                Some(Kind::Immediate { signed, bits, scale, extendable }),
            ) if extendable && !super::function::in_field(*n, signed, bits, scale) => {
                text.push_str(&format!("##{n}"));
            }
            (Some(operand), _) => text.push_str(&operand.to_string()),
            (None, _) => {}
        }
        text.push_str(suffix(index));
    }
    text.push_str(rest);
    text
}
