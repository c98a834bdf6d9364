//! Short loops that store the same number over and over: pairs of words, without a loop.

use trainc_ir::loops::{Expr, Local, Node, Role, Stmt};
use trainc_loops::Linear;

use super::Selector;
use super::addresses::element_bytes;
use crate::machine::{Builder, Opcode, Register};

/// Bytes of a pair of words.
const PAIR: i64 = 8;
/// Most pairs of a number.
const MOST_PAIRS: i64 = 16;

impl Selector<'_> {
    /// Runs a loop of so many rounds if all it does is to fill whole pairs of working memory; whether it did.
    pub(super) fn fill(
        &mut self,
        b: &mut Builder,
        variable: Local,
        start: &Expr,
        rounds: u32,
        body: &[Stmt],
    ) -> bool {
        let first = self.linear(start);
        let changes = self.changes(body, Some(variable));
        let mut fills = Vec::new();
        for statement in body {
            let Stmt::Store(buffer, index, value) = statement else { return false };
            let parameter = &self.kernel.buffers[buffer.0 as usize];
            let size = i64::from(element_bytes(parameter.element));
            let bytes = self.linear(index).scaled(size);
            let at = bytes.with(variable, &first);
            let whole = |bytes: i64| bytes % PAIR == 0;
            let pairs = i64::from(rounds) * size / PAIR;
            // Working memory begins at a multiple of 16 bytes.
            let fits = parameter.role == Role::Scratch
                && bytes.factor(variable) == size
                && whole(i64::from(rounds) * size)
                && whole(at.constant)
                && at.terms.iter().all(|(factor, _)| whole(*factor))
                && pairs <= MOST_PAIRS
                && self.steps(&bytes, variable, &changes)
                && matches!(&*value.node, Node::Local(_) | Node::Integer(_) | Node::Float(_))
                && !self.touches(&changes, value);
            if !fits {
                return false;
            }
            fills.push((buffer.0, at, value, size, pairs));
        }
        for (buffer, at, value, size, pairs) in fills {
            let value = self.value(b, value);
            let word = replicated(b, value, size);
            let both = b.emit(Opcode::Combine, (word, word));
            let (base, offset) = self.pointer_to(b, buffer, &at);
            let object = self.object(buffer);
            for pair in 0..pairs {
                let offset = offset + (PAIR * pair) as i32;
                b.store(Opcode::StoreD, (base, offset, both), object);
                self.promise(b, object);
            }
        }
        self.forget(&changes);
        true
    }

    /// An address as an open loop's pointer, or one made here, and a number.
    fn pointer_to(&mut self, b: &mut Builder, buffer: u32, bytes: &Linear) -> (Register, i32) {
        match self.open_pointer(buffer, bytes) {
            Some(found) => found,
            None => {
                let base = self.buffers[buffer as usize].base;
                (self.place(b, base, bytes), bytes.constant as i32)
            }
        }
    }
}

/// A word of elements of so many bytes that are all the same.
fn replicated(b: &mut Builder, value: Register, size: i64) -> Register {
    match size {
        1 => b.emit(Opcode::SplatB, (value,)),
        2 => {
            let low = b.emit(Opcode::ZeroExtendH, (value,));
            let high = b.emit(Opcode::ShiftLeftImmediate, (value, 16));
            b.emit(Opcode::Or, (low, high))
        }
        _ => value,
    }
}
