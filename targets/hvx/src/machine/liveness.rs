//! Which registers' values are still needed where.

use std::collections::BTreeSet;

use super::flow::{Flow, FlowBlock};
use super::function::Instruction;
use super::instructions::Opcode;
use super::packets::{Forward, Packet, Placed};
use super::registers::{Class, FIRST_CALLEE_SAVED, Register};

/// A set of units; see [`Register::units`].
pub(super) type Units = BTreeSet<u32>;

/// Registers that a callee may overwrite: all but r16..r27 and r29, r30.
pub(super) fn clobbered_by_call() -> impl Iterator<Item = Register> {
    let scalars = (0..FIRST_CALLEE_SAVED).chain([28, 31]).map(|n| Register::fixed(Class::R, n));
    let rest = [(Class::V, 32), (Class::P, 4), (Class::Q, 4), (Class::M, 2)];
    scalars.chain(rest.into_iter().flat_map(|(c, n)| (0..n).map(move |i| Register::fixed(c, i))))
}

/// Units that a packet writes.
#[must_use]
pub(super) fn written(packet: &Packet) -> Units {
    packet
        .instructions
        .iter()
        .flat_map(|p| p.instruction.writes())
        .flat_map(Register::units)
        .collect()
}

/// Units of the packet that others of the packet get the new value of.
#[must_use]
pub(super) fn forwarded(packet: &Packet) -> Units {
    let mut units = Units::new();
    for p in &packet.instructions {
        match p.forward {
            Forward::None => {}
            Forward::New(operand) => {
                let register = p.instruction.operands.get(operand).and_then(|o| o.register());
                units.extend(register.into_iter().flat_map(Register::units));
            }
            Forward::Current | Forward::Temporary => {
                units.extend(
                    p.instruction.operands[0].register().into_iter().flat_map(Register::units),
                );
            }
        }
    }
    units
}

/// Units whose value from before the packet is read; `call_arguments` counts those of a call in it.
#[must_use]
pub(super) fn read(packet: &Packet, call_arguments: u32) -> Units {
    let loaded: Units = packet
        .instructions
        .iter()
        .filter(|p| matches!(p.forward, Forward::Current | Forward::Temporary))
        .flat_map(|p| p.instruction.operands[0].register())
        .flat_map(Register::units)
        .collect();
    let mut units = Units::new();
    for p in &packet.instructions {
        for (index, role, register) in p.instruction.registers() {
            if role.reads() && p.forward != Forward::New(index) {
                units.extend(register.units().filter(|u| !loaded.contains(u)));
            }
        }
        if p.instruction.opcode == Opcode::Call {
            let arguments = (0..call_arguments).map(|n| Register::fixed(Class::R, n));
            units.extend(arguments.flat_map(Register::units));
        }
    }
    units
}

/// The packets of a block, each instruction alone before scheduling.
#[must_use]
pub(super) fn packets(block: &FlowBlock) -> Vec<Packet> {
    match &block.packets {
        Some(packets) => packets.clone(),
        None => block
            .run
            .iter()
            .cloned()
            .map(|i: Instruction| Packet::new(vec![Placed::plain(i)]))
            .collect(),
    }
}

/// Units live at the end of each block.
#[must_use]
pub(super) fn live_out(flow: &Flow) -> Vec<Units> {
    let blocks: Vec<Vec<Packet>> = flow.blocks.iter().map(packets).collect();
    let mut used = Vec::new();
    let mut killed = Vec::new();
    for (packets, block) in blocks.iter().zip(&flow.blocks) {
        let (mut use_, mut kill) = (Units::new(), Units::new());
        for packet in packets.iter().rev() {
            for unit in written(packet) {
                use_.remove(&unit);
                kill.insert(unit);
            }
            use_.extend(read(packet, block.call_arguments));
        }
        used.push(use_);
        killed.push(kill);
    }
    let successors: Vec<Vec<usize>> = (0..blocks.len()).map(|i| flow.successors(i)).collect();
    let mut live_in: Vec<Units> = used.clone();
    let mut live_out = vec![Units::new(); blocks.len()];
    loop {
        let mut changed = false;
        for index in (0..blocks.len()).rev() {
            let mut out = Units::new();
            if flow.blocks[index].returns && flow.has_result {
                out.insert(0);
            }
            for next in &successors[index] {
                out.extend(live_in[*next].iter().copied());
            }
            if out != live_out[index] {
                changed = true;
                for unit in &out {
                    if !killed[index].contains(unit) {
                        live_in[index].insert(*unit);
                    }
                }
                live_out[index] = out;
            }
        }
        if !changed {
            return live_out;
        }
    }
}
