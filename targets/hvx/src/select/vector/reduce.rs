//! Locals that all rounds of a vector loop add to.

use trainc_ir::loops::Binary;
use trainc_loops::Reduction;

use super::super::Selector;
use crate::machine::{Builder, Opcode, Register};

/// A local that all rounds add to, and the lanes that keep it.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) reduction: Reduction,
    /// Bytes of a lane.
    pub(super) width: i32,
    pub(super) lanes: Register,
}

impl Selector<'_> {
    /// Folds the lanes of a reduction into its local.
    pub(super) fn fold(&mut self, b: &mut Builder, kept: &Kept) {
        let Kept { reduction: Reduction { local, op, .. }, width, lanes } = *kept;
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
        let opcode = match op {
            Binary::Add => Opcode::Add,
            Binary::Or => Opcode::Or,
            Binary::Minimum => Opcode::Min,
            _ => Opcode::Max,
        };
        b.emit_to(register, opcode, (register, folded));
    }
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
