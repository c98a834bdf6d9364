//! Values that are in registers already.

use trainc_ir::loops::{Buffer, Expr};
use trainc_loops::Changes;

use crate::machine::Register;

/// Registers of expressions: the low 32 bits, or a pair.
#[derive(Clone, Debug, Default)]
pub(super) struct Cache {
    entries: Vec<(Expr, bool, Register)>,
}

impl Cache {
    pub(super) fn get(&self, e: &Expr, wide: bool) -> Option<Register> {
        let found = self.entries.iter().find(|(known, pair, _)| *pair == wide && known == e);
        found.map(|(.., register)| *register)
    }

    pub(super) fn insert(&mut self, e: &Expr, wide: bool, register: Register) {
        self.entries.push((e.clone(), wide, register));
    }

    /// Forgets what is no longer so.
    pub(super) fn forget(&mut self, changes: &Changes, shares: &dyn Fn(Buffer, Buffer) -> bool) {
        self.entries.retain(|(e, ..)| !changes.touch(e, shares));
    }
}
