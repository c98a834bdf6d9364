//! Locals that all rounds of a vector loop add to.

use trainc_ir::loops::{Binary, Expr, Scalar};
use trainc_loops::Reduction;

use super::super::Selector;
use super::Plan;
use super::forms::Bytes;
use crate::machine::{Builder, Opcode, Register};

/// Bits of infinity; above it, as numbers without sign, are those of no number.
pub(super) const INFINITY: i32 = f32::INFINITY.to_bits().cast_signed();
/// Bits of no number, below all magnitudes as an integer with sign.
pub(super) const NO_NUMBER: i32 = -1;

/// A local that all rounds add to, and the lanes that keep it.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) reduction: Reduction,
    /// Bytes of a lane.
    pub(super) width: i32,
    pub(super) lanes: Register,
}

impl Selector<'_> {
    /// What a sum adds, if narrow lanes add it to words.
    pub(super) fn dot<'e>(
        &self,
        plan: &Plan,
        reduction: &Reduction,
        value: &'e Expr,
    ) -> Option<Bytes<'e>> {
        let narrow = reduction.op == Binary::Add && plan.width < 4;
        Bytes::of(value, &self.of_plan(plan)).filter(|_| narrow)
    }

    /// Adds, or folds, what a round has for a reduction.
    pub(super) fn reduce(
        &mut self,
        b: &mut Builder,
        plan: &mut Plan,
        at: usize,
        value: &Expr,
        part: usize,
    ) {
        let Kept { reduction, width, lanes } = plan.reductions[at].clone();
        if reduction.value.ty == Scalar::F32 {
            return self.reduce_magnitudes(b, plan, lanes, value, part);
        }
        let Some(bytes) = self.dot(plan, &reduction, value) else {
            let added = self.words(b, plan, value, part);
            return b.emit_to(lanes, folding(reduction.op, width), (lanes, added));
        };
        let factors: Vec<Register> =
            bytes.factors().iter().map(|x| self.words(b, plan, x, part)).collect();
        if plan.width == 1 {
            let one = self.known(plan, &Expr::i32(1), false);
            let other = factors.get(1).copied().unwrap_or(one);
            return b.update(Opcode::VrmpyBBvAccumulate, (lanes, factors[0], other));
        }
        let halves = match factors[..] {
            [x, y] => b.emit(Opcode::VmpyiH, (x, y)),
            _ => factors[0],
        };
        let ones = self.known(plan, &ones(), true);
        b.update(Opcode::VdmpyHBAccumulate, (lanes, halves, ones));
    }

    /// The greatest of floats' magnitudes by their bits. What is no number counts for less than all.
    fn reduce_magnitudes(
        &mut self,
        b: &mut Builder,
        plan: &mut Plan,
        lanes: Register,
        value: &Expr,
        part: usize,
    ) {
        let bits = self.words(b, plan, value, part);
        let infinity = self.known(plan, &Expr::i32(INFINITY), false);
        let none = self.known(plan, &Expr::i32(NO_NUMBER), false);
        let beyond = b.emit(Opcode::VcompareGtW, (bits, infinity));
        let number = b.emit(Opcode::Vmux, (beyond, none, bits));
        b.emit_to(lanes, Opcode::VmaxW, (lanes, number));
    }

    /// Folds the lanes of a reduction into its local.
    pub(super) fn fold(&mut self, b: &mut Builder, kept: &Kept) {
        let Kept { reduction: Reduction { local, op, ref value }, width, lanes } = *kept;
        for shift in [64, 32, 16, 8, 4, 2].into_iter().filter(|shift| *shift >= width) {
            let shift = b.constant(shift);
            let turned = b.emit(Opcode::Vror, (lanes, shift));
            b.emit_to(lanes, folding(op, width), (lanes, turned));
        }
        let zero = b.zero();
        let mut folded = b.emit(Opcode::VextractW, (lanes, zero));
        if width == 2 {
            folded = b.emit(Opcode::SignExtendH, (folded,));
        }
        let register = self.register(local);
        if value.ty == Scalar::F32 {
            let more = b.emit(Opcode::FloatCompareGt, (folded, register));
            return b.emit_to(register, Opcode::Mux, (more, folded, register));
        }
        let opcode = match op {
            Binary::Add => Opcode::Add,
            Binary::Or => Opcode::Or,
            Binary::Minimum => Opcode::Min,
            _ => Opcode::Max,
        };
        b.emit_to(register, opcode, (register, folded));
    }
}

/// Four bytes of 1.
pub(super) fn ones() -> Expr {
    Expr::i32(0x0101_0101)
}

/// The instruction of an operation that can be folded, in lanes of that many bytes (sums: of 4).
pub(super) fn folding(op: Binary, width: i32) -> Opcode {
    match (op, width) {
        (Binary::Add, _) => Opcode::VaddW,
        (Binary::Or, _) => Opcode::Vor,
        (Binary::Minimum, 2) => Opcode::VminH,
        (Binary::Minimum, _) => Opcode::VminW,
        (_, 2) => Opcode::VmaxH,
        _ => Opcode::VmaxW,
    }
}
