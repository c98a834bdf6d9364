//! Assembly text.

use std::fmt::Write as _;

use super::compile::Assembled;
use super::function::{Instruction, Operand, in_field};
use super::instructions::Opcode;
use super::packets::{Forward, LoopEnd, Packet, Placed};
use super::table::Kind;

/// Widest line of a packet on one line.
const WIDTH: usize = 96;
/// Column of comments.
const COMMENT: usize = 76;

/// One instruction's text; `suffix` is appended to the operand of that index (`.new`, `.cur`).
pub(crate) fn instruction(
    instruction: &Instruction,
    suffix: impl Fn(usize) -> &'static str,
) -> String {
    let row = instruction.opcode.row();
    let mut text = String::new();
    let mut rest = row.form;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let (number, after) = after.split_once('}').unwrap_or((after, ""));
        rest = after;
        let index: usize = number.parse().unwrap_or(0);
        match (instruction.operands.get(index), row.fields.get(index).map(|f| f.kind)) {
            (
                Some(Operand::Immediate(n)),
                Some(Kind::Immediate { signed, bits, scale, extendable }),
            ) if extendable && !in_field(*n, signed, bits, scale) => {
                let _ = write!(text, "##{n}");
            }
            (Some(Operand::Symbol(name, _)), _) if instruction.is_branch() => text.push_str(name),
            (Some(operand @ Operand::Symbol(..)), _) if instruction.opcode == Opcode::AddressOf => {
                let _ = write!(text, "{operand}@PCREL");
            }
            (Some(operand), _) => {
                let _ = write!(text, "{operand}");
            }
            (None, _) => {}
        }
        text.push_str(suffix(index));
    }
    text.push_str(rest);
    text
}

/// The text of an instruction in its packet.
#[must_use]
pub fn placed(placed: &Placed) -> String {
    let forward = placed.forward;
    instruction(&placed.instruction, |index| match forward {
        Forward::New(operand) if operand == index => ".new",
        Forward::Current if index == 0 => ".cur",
        Forward::Temporary if index == 0 => ".tmp",
        _ => "",
    })
}

/// A packet's lines, indented by four.
#[must_use]
pub fn packet(packet: &Packet) -> String {
    let parts: Vec<String> = packet.instructions.iter().map(placed).collect();
    let end = match packet.end {
        LoopEnd::None => "",
        LoopEnd::Inner => ":endloop0",
        LoopEnd::Outer => ":endloop1",
    };
    let line = format!("    {{ {} }}{end}", parts.join("; "));
    let mut text = if line.len() <= WIDTH {
        line
    } else {
        format!("    {{ {} }}{end}", parts.join("\n      "))
    };
    if let Some(purpose) = &packet.purpose {
        let (first, rest) = match text.split_once('\n') {
            Some((first, rest)) => (first.to_string(), format!("\n{rest}")),
            None => (text, String::new()),
        };
        let pad = COMMENT.saturating_sub(first.len()).max(1);
        text = format!("{first}{:pad$}// {purpose}{rest}", "");
    }
    text
}

impl Assembled {
    /// The function's assembly text: symbol, alignment, packets, size.
    #[must_use]
    pub fn assembly(&self) -> String {
        let mut text = String::new();
        let name = &self.name;
        for line in self.purpose.lines() {
            let _ = writeln!(text, "// {line}");
        }
        let _ = writeln!(text, "    .text\n    .globl {name}\n    .type {name},@function");
        let _ = writeln!(text, "    .p2align 4\n{name}:");
        for block in &self.blocks {
            if let Some(purpose) = &block.purpose {
                let _ = writeln!(text, "    // {purpose}");
            }
            if block.back.is_some() && block.label.is_some() {
                // A loop's first packet in one fetch.
                let _ = writeln!(text, "    .falign");
            }
            if let Some(label) = &block.label {
                let _ = writeln!(text, "{label}:");
            }
            for each in &block.packets {
                let _ = writeln!(text, "{}", packet(each));
            }
        }
        let _ = writeln!(text, "    .size {name}, .-{name}");
        text
    }
}
