//! Bools of a vector loop's rounds.

use trainc_ir::loops::{Binary, Comparison, Expr, Node, Scalar};

use super::super::Selector;
use super::{Lanes, Plan};
use crate::machine::{Builder, Opcode, Register};

impl Selector<'_> {
    pub(super) fn truth_words(
        &mut self,
        b: &mut Builder,
        plan: &Plan,
        q: Register,
        inverted: bool,
    ) -> Register {
        let zero = self.known(plan, &Expr::i32(0), false);
        let one = self.known(plan, &Expr::i32(1), false);
        let (x, y) = if inverted { (zero, one) } else { (one, zero) };
        b.emit(Opcode::Vmux, (q, x, y))
    }

    pub(super) fn truth(
        &mut self,
        b: &mut Builder,
        plan: &mut Plan,
        e: &Expr,
        part: usize,
    ) -> (Register, bool) {
        if self.stays(plan, e) {
            if let Some((_, refusal)) = plan.refusals.iter().find(|(known, _)| known == e) {
                return (*refusal, true);
            }
            let words = self.known(plan, e, false);
            return self.not_zero(b, plan, words);
        }
        match &*e.node {
            Node::Local(local) => match plan.locals.get(local) {
                Some(Lanes::Truth(q, inverted)) => (*q, *inverted),
                _ => {
                    let words = self.words(b, plan, e, part);
                    self.not_zero(b, plan, words)
                }
            },
            Node::Unary(_, x) => {
                let (q, inverted) = self.truth(b, plan, x, part);
                (q, !inverted)
            }
            Node::Compare(comparison, x, y) if x.ty == Scalar::Bool => {
                let (x, y) = (self.truth(b, plan, x, part), self.truth(b, plan, y, part));
                let equal = *comparison == Comparison::Equal;
                (b.emit(Opcode::QXor, (x.0, y.0)), (x.1 != y.1) != equal)
            }
            Node::Compare(comparison, x, y) => {
                let (x, y) = (self.words(b, plan, x, part), self.words(b, plan, y, part));
                let equal = plan.equal();
                let more = plan.of(Opcode::VcompareGtW, Opcode::VcompareGtH, Opcode::VcompareGtB);
                let more_unsigned =
                    plan.of(Opcode::VcompareGtUw, Opcode::VcompareGtUh, Opcode::VcompareGtUb);
                match comparison {
                    Comparison::Equal => (b.emit(equal, (x, y)), false),
                    Comparison::NotEqual => (b.emit(equal, (x, y)), true),
                    Comparison::Less => (b.emit(more, (y, x)), false),
                    Comparison::LessEqual => (b.emit(more, (x, y)), true),
                    Comparison::LessUnsigned => (b.emit(more_unsigned, (y, x)), false),
                }
            }
            Node::Binary(op, x, y) => {
                let (x, y) = (self.truth(b, plan, x, part), self.truth(b, plan, y, part));
                match (op, x.1 && y.1) {
                    (Binary::And, true) => (b.emit(Opcode::QOr, (x.0, y.0)), true),
                    (Binary::Or, true) => (b.emit(Opcode::QAnd, (x.0, y.0)), true),
                    (Binary::And | Binary::Or, false) => {
                        let mut plain = |(q, inverted): (Register, bool)| match inverted {
                            true => b.emit(Opcode::QNot, (q,)),
                            false => q,
                        };
                        let (x, y) = (plain(x), plain(y));
                        let and = *op == Binary::And;
                        (b.emit(if and { Opcode::QAnd } else { Opcode::QOr }, (x, y)), false)
                    }
                    _ => (b.emit(Opcode::QXor, (x.0, y.0)), x.1 != y.1),
                }
            }
            Node::Select(c, x, y) => {
                let mut as_words = |e: &Expr| {
                    if self.stays(plan, e) {
                        return self.known(plan, e, false);
                    }
                    let (q, inverted) = self.truth(b, plan, e, part);
                    // Any words that are 0 where it does not hold.
                    let zero = self.known(plan, &Expr::i32(0), false);
                    let ones = b.emit(Opcode::Vnot, (zero,));
                    let (x, y) = if inverted { (zero, ones) } else { (ones, zero) };
                    b.emit(Opcode::Vmux, (q, x, y))
                };
                let (x, y) = (as_words(x), as_words(y));
                let (q, inverted) = self.truth(b, plan, c, part);
                let (x, y) = if inverted { (y, x) } else { (x, y) };
                let words = b.emit(Opcode::Vmux, (q, x, y));
                self.not_zero(b, plan, words)
            }
            _ => {
                let words = self.words(b, plan, e, part);
                self.not_zero(b, plan, words)
            }
        }
    }

    pub(super) fn not_zero(
        &mut self,
        b: &mut Builder,
        plan: &Plan,
        words: Register,
    ) -> (Register, bool) {
        let zero = self.known(plan, &Expr::i32(0), false);
        (b.emit(plan.equal(), (words, zero)), true)
    }
}
