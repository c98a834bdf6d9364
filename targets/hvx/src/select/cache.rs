//! Values that are in registers already.

use std::collections::BTreeSet;

use trainc_c::analysis::each_local;
use trainc_ir::loops::{Expr, Local, Node, Stmt};

use crate::machine::{Object, Register};

/// What a block changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    pub(super) locals: BTreeSet<Local>,
    pub(super) objects: BTreeSet<Object>,
}

impl Changes {
    /// Adds what a block changes; `object` tells where a buffer lies.
    pub(super) fn add(&mut self, block: &[Stmt], object: &dyn Fn(u32) -> Object) {
        for statement in block {
            match statement {
                Stmt::Assign(local, _) => _ = self.locals.insert(*local),
                Stmt::Store(buffer, ..) => _ = self.objects.insert(object(buffer.0)),
                Stmt::For { variable, body, .. } => {
                    self.locals.insert(*variable);
                    self.add(body, object);
                }
                Stmt::If { then, otherwise, .. } => {
                    self.add(then, object);
                    self.add(otherwise, object);
                }
            }
        }
    }

    /// Whether a value may be another after the changes.
    pub(super) fn touch(&self, e: &Expr, object: &dyn Fn(u32) -> Object) -> bool {
        let mut touched = false;
        each_local(e, &mut |local| touched |= self.locals.contains(&local));
        each_load(e, &mut |buffer| touched |= self.objects.contains(&object(buffer)));
        touched
    }
}

/// Calls `f` with each buffer that an expression loads from.
pub(super) fn each_load(e: &Expr, f: &mut dyn FnMut(u32)) {
    match &*e.node {
        Node::Integer(_) | Node::Float(_) | Node::Local(_) => {}
        Node::Load(buffer, x) => {
            f(buffer.0);
            each_load(x, f);
        }
        Node::Unary(_, x) => each_load(x, f),
        Node::Binary(_, a, b) | Node::Compare(_, a, b) => {
            each_load(a, f);
            each_load(b, f);
        }
        Node::Select(c, a, b) => {
            each_load(c, f);
            each_load(a, f);
            each_load(b, f);
        }
    }
}

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
    pub(super) fn forget(&mut self, changes: &Changes, object: &dyn Fn(u32) -> Object) {
        self.entries.retain(|(e, ..)| !changes.touch(e, object));
    }
}
