//! Locals that all rounds of a vector loop add to.

use trainc_ir::loops::{Binary, Expr, Local, Node, Scalar};

use super::super::Selector;
use crate::machine::{Builder, Opcode, Register};

/// A local that all rounds add to.
#[derive(Clone, Debug)]
pub(super) struct Reduction {
    pub(super) local: Local,
    pub(super) op: Binary,
    /// Bytes of a lane.
    pub(super) width: i32,
    pub(super) lanes: Register,
}

/// The reduction that an assignment is: its operation and what it adds.
pub(super) fn reduction(local: Local, value: &Expr) -> Option<(Binary, &Expr)> {
    let Node::Binary(op, a, b) = &*value.node else { return None };
    let known = matches!(op, Binary::Add | Binary::Or | Binary::Minimum | Binary::Maximum);
    let is = |e: &Expr| matches!(*e.node, Node::Local(l) if l == local);
    let other = match (is(a), is(b)) {
        (true, false) => b,
        (false, true) => a,
        _ => return None,
    };
    let integer = matches!(value.ty, Scalar::I32 | Scalar::I64);
    (known && integer && !other.mentions(|l| l == local)).then_some((*op, other))
}

impl Selector<'_> {
    /// Folds the lanes of a reduction into its local.
    pub(super) fn fold(&mut self, b: &mut Builder, reduction: &Reduction) {
        let Reduction { local, op, width, lanes } = *reduction;
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

/// What changes no value of lanes of that many bytes.
pub(super) fn identity(op: Binary, width: i32) -> i32 {
    match (op, width) {
        (Binary::Minimum, 2) => i16::MAX.into(),
        (Binary::Minimum, _) => i32::MAX,
        (Binary::Maximum, 2) => i16::MIN.into(),
        (Binary::Maximum, _) => i32::MIN,
        _ => 0,
    }
}
