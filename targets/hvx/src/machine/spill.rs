//! Values in memory: code that reloads a spilled value before each use and stores it after each definition.

use std::collections::BTreeSet;

use super::flow::Flow;
use super::function::{Access, Instruction, Object, Operand};
use super::instructions::Opcode;
use super::registers::{Class, FRAME_POINTER, Part, Register, SCRATCH, STACK_POINTER};
use super::table::Role;

/// The stack frame of a function.
#[derive(Clone, Debug, Default)]
pub(super) struct Frame {
    /// Bytes below the frame pointer, the saved registers' place included.
    pub(super) scalar_bytes: u32,
    /// Vectors above the stack pointer.
    pub(super) vectors: u32,
    /// Values that were spilled.
    pub(super) spills: usize,
}

/// Bytes for r16..r27.
pub(super) const SAVED_BYTES: u32 = 48;
/// Objects of spilled values are numbered from here.
const FIRST_SPILL_OBJECT: u32 = 1 << 30;
/// One in every byte: how a vector predicate looks in a vector.
const ONE_IN_EACH_BYTE: i32 = 0x0101_0101;

#[derive(Clone, Copy)]
enum Slot {
    /// Offset from the frame pointer.
    Scalar(i32),
    /// Number of the first vector above the stack pointer.
    Vector(i32),
}

/// Rewrites every use of these virtual registers; the short-lived registers that result are added to `kept`.
pub(super) fn spill(
    flow: &mut Flow,
    values: &BTreeSet<u32>,
    frame: &mut Frame,
    kept: &mut BTreeSet<u32>,
) {
    frame.scalar_bytes = frame.scalar_bytes.max(SAVED_BYTES);
    for number in values {
        let class = flow.classes[*number as usize];
        frame.spills += 1;
        let slot = match class {
            Class::V | Class::VV | Class::Q => {
                let first = frame.vectors;
                frame.vectors += if class == Class::VV { 2 } else { 1 };
                Slot::Vector(first.cast_signed())
            }
            _ => {
                frame.scalar_bytes += 8;
                Slot::Scalar(-frame.scalar_bytes.cast_signed())
            }
        };
        let object = Object(FIRST_SPILL_OBJECT + number);
        let access = Some(Access { object, rounds_disjoint: false });
        for block in 0..flow.blocks.len() {
            let run = std::mem::take(&mut flow.blocks[block].run);
            let mut code = Code { flow, kept, access, run: Vec::with_capacity(run.len()) };
            for instruction in run {
                code.rewrite(instruction, *number, class, slot);
            }
            flow.blocks[block].run = code.run;
        }
    }
}

struct Code<'a> {
    flow: &'a mut Flow,
    kept: &'a mut BTreeSet<u32>,
    access: Option<Access>,
    run: Vec<Instruction>,
}

impl Code<'_> {
    fn rewrite(&mut self, mut instruction: Instruction, number: u32, class: Class, slot: Slot) {
        let mine = |r: Register| !r.is_fixed() && r.number() == number;
        let (mut reads, mut writes) = (false, false);
        for (_, role, register) in instruction.registers().filter(|(_, _, r)| mine(*r)) {
            // Half a pair is written into the rest of it.
            reads |= role.reads() || register.part != Part::Whole;
            writes |= role != Role::Use;
        }
        if !reads && !writes {
            self.run.push(instruction);
            return;
        }
        let short = self.fresh(class);
        for operand in &mut instruction.operands {
            if let Operand::Register(register) = operand
                && mine(*register)
            {
                register.number = short.number();
            }
        }
        if reads {
            self.reload(short, slot);
        }
        self.run.push(instruction);
        if writes {
            self.keep(short, slot);
        }
    }

    fn fresh(&mut self, class: Class) -> Register {
        let register = self.flow.fresh(class);
        self.kept.insert(register.number());
        register
    }

    fn push(&mut self, opcode: Opcode, operands: Vec<Operand>) {
        let access = match opcode.row().effect() {
            super::table::Effect::None => None,
            _ => self.access,
        };
        self.run.push(Instruction { access, ..Instruction::new(opcode, operands) });
    }

    fn reload(&mut self, to: Register, slot: Slot) {
        match slot {
            Slot::Scalar(offset) => {
                let place = [Operand::from(FRAME_POINTER), offset.into()];
                match to.class() {
                    Class::RR => self.push(Opcode::LoadD, operands([to.into()], place)),
                    Class::R => self.push(Opcode::LoadW, operands([to.into()], place)),
                    other => {
                        let scalar = self.fresh(Class::R);
                        self.push(Opcode::LoadW, operands([scalar.into()], place));
                        let transfer = match other {
                            Class::P => Opcode::PredicateFromR,
                            _ => Opcode::ModifierFromR,
                        };
                        self.push(transfer, vec![to.into(), scalar.into()]);
                    }
                }
            }
            Slot::Vector(index) if to.class() == Class::Q => {
                let (vector, ones) = (self.fresh(Class::V), self.fresh(Class::R));
                let place = self.vector_place(index);
                self.push(Opcode::LoadV, operands([vector.into()], place));
                self.push(Opcode::Constant, vec![ones.into(), ONE_IN_EACH_BYTE.into()]);
                self.push(Opcode::QandVR, vec![to.into(), vector.into(), ones.into()]);
            }
            Slot::Vector(index) => {
                for (half, index) in halves(to).into_iter().zip(index..) {
                    let place = self.vector_place(index);
                    self.push(Opcode::LoadV, operands([half.into()], place));
                }
            }
        }
    }

    fn keep(&mut self, from: Register, slot: Slot) {
        match slot {
            Slot::Scalar(offset) => {
                let place = [Operand::from(FRAME_POINTER), offset.into()];
                match from.class() {
                    Class::RR => self.push(Opcode::StoreD, operands(place, [from.into()])),
                    Class::R => self.push(Opcode::StoreW, operands(place, [from.into()])),
                    other => {
                        let scalar = self.fresh(Class::R);
                        let transfer = match other {
                            Class::P => Opcode::PredicateToR,
                            _ => Opcode::ModifierToR,
                        };
                        self.push(transfer, vec![scalar.into(), from.into()]);
                        self.push(Opcode::StoreW, operands(place, [scalar.into()]));
                    }
                }
            }
            Slot::Vector(index) if from.class() == Class::Q => {
                let (vector, ones) = (self.fresh(Class::V), self.fresh(Class::R));
                self.push(Opcode::Constant, vec![ones.into(), ONE_IN_EACH_BYTE.into()]);
                self.push(Opcode::VandQR, vec![vector.into(), from.into(), ones.into()]);
                let place = self.vector_place(index);
                self.push(Opcode::StoreV, operands(place, [vector.into()]));
            }
            Slot::Vector(index) => {
                for (half, index) in halves(from).into_iter().zip(index..) {
                    let place = self.vector_place(index);
                    self.push(Opcode::StoreV, operands(place, [half.into()]));
                }
            }
        }
    }

    /// Base and offset of a vector slot; far ones through the scratch register.
    fn vector_place(&mut self, index: i32) -> [Operand; 2] {
        if index < 8 {
            return [STACK_POINTER.into(), index.into()];
        }
        let operands = vec![SCRATCH.into(), STACK_POINTER.into(), (128 * index).into()];
        self.push(Opcode::AddImmediate, operands);
        [SCRATCH.into(), 0.into()]
    }
}

fn halves(register: Register) -> Vec<Register> {
    match register.class() {
        Class::VV => vec![register.low(), register.high()],
        _ => vec![register],
    }
}

fn operands<const A: usize, const B: usize>(a: [Operand; A], b: [Operand; B]) -> Vec<Operand> {
    a.into_iter().chain(b).collect()
}
