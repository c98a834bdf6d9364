//! The last step: places for registers, the stack frame, the return.

use std::collections::BTreeMap;

use super::compile::{Assembled, Block, LoopReport};
use super::flow::Flow;
use super::function::{Access, Function, Instruction, Object, Operand};
use super::instructions::Opcode;
use super::packets::{Forward, Packet, Placed, check, goes_alone};
use super::registers::{
    Class, FIRST_CALLEE_SAVED, FRAME_POINTER, LAST_CALLEE_SAVED, LINK, Part, Register,
    STACK_POINTER, Version,
};
use super::spill::{Frame, SAVED_BYTES};

/// Replaces virtual registers and adds entry and exit.
pub(crate) fn finish(
    function: &Function,
    version: Version,
    flow: Flow,
    places: &BTreeMap<u32, Register>,
    frame: &Frame,
    loops: Vec<LoopReport>,
) -> Assembled {
    let mut blocks: Vec<Block> = Vec::with_capacity(flow.blocks.len());
    for block in flow.blocks {
        let mut packets: Vec<Packet> = Vec::new();
        for mut packet in block.packets.unwrap_or_default() {
            for placed in &mut packet.instructions {
                for operand in &mut placed.instruction.operands {
                    if let Operand::Register(register) = operand {
                        *register = place(*register, places);
                    }
                }
            }
            packet.instructions.retain(|p| !is_idle(&p.instruction));
            plain_where_old(&mut packet);
            if !packet.instructions.is_empty() {
                packets.push(packet);
            }
        }
        if let Some((end, _)) = block.end {
            // The assembler pads a loop's last packet, which what goes alone does not bear.
            let lonely =
                |p: &Packet| p.instructions.iter().any(|p| goes_alone(p.instruction.opcode));
            if packets.last().is_none_or(lonely) {
                packets.push(alone(Opcode::Nop, Vec::new()));
            }
            if let Some(last) = packets.last_mut() {
                last.end = end;
            }
        }
        blocks.push(Block {
            label: block.label.map(|l| l.to_string()),
            purpose: block.purpose.map(|p| p.to_string()),
            packets,
            back: block.end.map(|(_, start)| start),
        });
    }
    let saved = saved_pairs(&blocks);
    let framed = flow.needs_frame || !saved.is_empty() || frame.spills > 0;
    if let Some(first) = blocks.first_mut()
        && framed
    {
        first.packets.splice(0..0, entry(frame, &saved));
    }
    if let Some(last) = blocks.last_mut() {
        leave(&mut last.packets, framed, &saved, version);
    }
    Assembled {
        name: function.name.to_string(),
        purpose: function.purpose.to_string(),
        version,
        blocks,
        spills: frame.spills,
        loops,
    }
}

fn place(register: Register, places: &BTreeMap<u32, Register>) -> Register {
    if register.is_fixed() {
        return register;
    }
    let Some(whole) = places.get(&register.number()) else { return register };
    match register.part {
        Part::Whole => *whole,
        Part::Low => whole.low(),
        Part::High => whole.high(),
    }
}

/// Whether an instruction does nothing: a copy of a register to itself.
fn is_idle(instruction: &Instruction) -> bool {
    match (instruction.opcode, instruction.operands.as_slice()) {
        (Opcode::Move | Opcode::Vassign, [a, b]) => a == b,
        (Opcode::Combine | Opcode::Vcombine, [pair, high, low]) => pair
            .register()
            .is_some_and(|p| high.register() == Some(p.high()) && low.register() == Some(p.low())),
        _ => false,
    }
}

/// A value whose copy went away is no longer new.
fn plain_where_old(packet: &mut Packet) {
    let written: Vec<Register> =
        packet.instructions.iter().flat_map(|p| p.instruction.writes()).collect();
    for placed in &mut packet.instructions {
        if let Forward::New(operand) = placed.forward
            && let Some(register) = placed.instruction.operands[operand].register()
            && !written.contains(&register)
        {
            placed.forward = Forward::None;
        }
    }
}

fn alone(opcode: Opcode, operands: Vec<Operand>) -> Packet {
    let mut instruction = Instruction::new(opcode, operands);
    if instruction.effect() != super::table::Effect::None {
        instruction.access = Some(Access { object: Object::ANY, rounds_disjoint: false });
    }
    Packet::new(vec![Placed::plain(instruction)])
}

/// Pairs of callee-saved registers that the code writes.
fn saved_pairs(blocks: &[Block]) -> Vec<Register> {
    let written = |number: u32| {
        let instructions = blocks.iter().flat_map(|b| &b.packets).flat_map(|p| &p.instructions);
        instructions
            .flat_map(|p| p.instruction.writes())
            .flat_map(Register::units)
            .any(|u| u == number)
    };
    (FIRST_CALLEE_SAVED..LAST_CALLEE_SAVED)
        .step_by(2)
        .filter(|n| written(*n) || written(n + 1))
        .map(|n| Register::fixed(Class::RR, n))
        .collect()
}

fn saved_offset(pair: Register) -> i32 {
    -8 * (1 + (pair.number() - FIRST_CALLEE_SAVED).cast_signed() / 2)
}

fn entry(frame: &Frame, saved: &[Register]) -> Vec<Packet> {
    // Vectors start at the next multiple of 128 below.
    let scalars = frame.scalar_bytes.max(SAVED_BYTES).next_multiple_of(8).cast_signed();
    let vectors = 128 * frame.vectors.cast_signed();
    let mut packets = vec![alone(Opcode::AllocateFrame, vec![scalars.min(2040).into()])];
    if scalars > 2040 || vectors > 0 {
        let rest = -(scalars - scalars.min(2040)) - vectors;
        let stack = Operand::from(STACK_POINTER);
        packets.push(alone(Opcode::AddImmediate, vec![stack.clone(), stack.clone(), rest.into()]));
        if vectors > 0 {
            packets.push(alone(Opcode::AndImmediate, vec![stack.clone(), stack, (-128).into()]));
        }
    }
    for pair in saved {
        let operands = vec![FRAME_POINTER.into(), saved_offset(*pair).into(), (*pair).into()];
        packets.push(alone(Opcode::StoreD, operands));
    }
    packets
}

fn leave(packets: &mut Vec<Packet>, framed: bool, saved: &[Register], version: Version) {
    for pair in saved {
        let operands = vec![(*pair).into(), FRAME_POINTER.into(), saved_offset(*pair).into()];
        packets.push(alone(Opcode::LoadD, operands));
    }
    if framed {
        packets.push(alone(Opcode::DeallocateFrame, Vec::new()));
    }
    let jump = Placed::plain(Instruction::new(Opcode::JumpRegister, vec![LINK.into()]));
    if let Some(last) = packets.last_mut()
        && !framed
    {
        let mut joined = last.clone();
        joined.instructions.push(jump.clone());
        if check(&joined, version).is_ok() {
            *last = joined;
            return;
        }
    }
    packets.push(Packet::new(vec![jump]));
}
