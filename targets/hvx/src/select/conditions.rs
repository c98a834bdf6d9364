//! Bools in predicate registers.

use trainc_ir::loops::{Binary, Comparison, Expr, Node, Scalar, Unary};

use super::Selector;
use super::integers::constant;
use crate::machine::{Builder, Opcode, Register};

/// A predicate, and whether its opposite is meant.
type Condition = (Register, bool);

impl Selector<'_> {
    pub(super) fn condition(&mut self, b: &mut Builder, e: &Expr) -> Condition {
        match &*e.node {
            Node::Local(local) if self.predicates.contains_key(local) => self.predicates[local],
            Node::Unary(Unary::Not, x) => {
                let (predicate, inverted) = self.condition(b, x);
                (predicate, !inverted)
            }
            Node::Compare(comparison, x, y) => match x.ty {
                Scalar::F32 => self.compare_floats(b, *comparison, x, y),
                _ if self.is_narrow(x) && self.is_narrow(y) => self.compare(b, *comparison, x, y),
                _ => self.compare_pairs(b, *comparison, x, y),
            },
            Node::Binary(op, x, y) => {
                let (x, y) = (self.condition(b, x), self.condition(b, y));
                match (op, x.1 && y.1) {
                    (Binary::And, true) => (b.emit(Opcode::PredicateOr, (x.0, y.0)), true),
                    (Binary::Or, true) => (b.emit(Opcode::PredicateAnd, (x.0, y.0)), true),
                    (Binary::And | Binary::Or, false) => {
                        let (x, y) = (plain(b, x), plain(b, y));
                        let and = *op == Binary::And;
                        let opcode = if and { Opcode::PredicateAnd } else { Opcode::PredicateOr };
                        (b.emit(opcode, (x, y)), false)
                    }
                    _ => (b.emit(Opcode::PredicateXor, (x.0, y.0)), x.1 != y.1),
                }
            }
            // Kept as 0 or 1.
            Node::Select(condition, x, y) => {
                self.demand_both(condition, x, y);
                let (x, y) = (self.value(b, x), self.value(b, y));
                let (predicate, inverted) = self.condition(b, condition);
                let (x, y) = if inverted { (y, x) } else { (x, y) };
                let chosen = b.emit(Opcode::Mux, (predicate, x, y));
                (b.emit(Opcode::CompareEqImmediate, (chosen, 0)), true)
            }
            _ => {
                let x = self.value(b, e);
                (b.emit(Opcode::CompareEqImmediate, (x, 0)), true)
            }
        }
    }

    /// Of 32 bits; wide ones that fit compare as their low halves do, unsigned too.
    fn compare(
        &mut self,
        b: &mut Builder,
        comparison: Comparison,
        x: &Expr,
        y: &Expr,
    ) -> Condition {
        let (of_x, of_y) = (constant(x), constant(y));
        match comparison {
            Comparison::Equal | Comparison::NotEqual => {
                let inverted = comparison == Comparison::NotEqual;
                let predicate = match (of_x, of_y) {
                    (_, Some(number)) => {
                        let x = self.value(b, x);
                        b.emit(Opcode::CompareEqImmediate, (x, number))
                    }
                    (Some(number), _) => {
                        let y = self.value(b, y);
                        b.emit(Opcode::CompareEqImmediate, (y, number))
                    }
                    _ => {
                        let (x, y) = (self.value(b, x), self.value(b, y));
                        b.emit(Opcode::CompareEq, (x, y))
                    }
                };
                (predicate, inverted)
            }
            // x < y is y > x, and !(x > y - 1).
            Comparison::Less => match (of_x, of_y) {
                (_, Some(number)) if number > i32::MIN => {
                    let x = self.value(b, x);
                    (b.emit(Opcode::CompareGtImmediate, (x, number - 1)), true)
                }
                (Some(number), _) => {
                    let y = self.value(b, y);
                    (b.emit(Opcode::CompareGtImmediate, (y, number)), false)
                }
                _ => {
                    let (x, y) = (self.value(b, x), self.value(b, y));
                    (b.emit(Opcode::CompareGt, (y, x)), false)
                }
            },
            Comparison::LessEqual => match (of_x, of_y) {
                (_, Some(number)) => {
                    let x = self.value(b, x);
                    (b.emit(Opcode::CompareGtImmediate, (x, number)), true)
                }
                (Some(number), _) if number > i32::MIN => {
                    let y = self.value(b, y);
                    (b.emit(Opcode::CompareGtImmediate, (y, number - 1)), false)
                }
                _ => {
                    let (x, y) = (self.value(b, x), self.value(b, y));
                    (b.emit(Opcode::CompareGt, (x, y)), true)
                }
            },
            Comparison::LessUnsigned => match of_x {
                Some(number) => {
                    let y = self.value(b, y);
                    (b.emit(Opcode::CompareGtUImmediate, (y, number)), false)
                }
                None => {
                    let (x, y) = (self.value(b, x), self.value(b, y));
                    (b.emit(Opcode::CompareGtU, (y, x)), false)
                }
            },
        }
    }

    fn compare_pairs(
        &mut self,
        b: &mut Builder,
        comparison: Comparison,
        x: &Expr,
        y: &Expr,
    ) -> Condition {
        let (x, y) = (self.pair(b, x), self.pair(b, y));
        match comparison {
            Comparison::Equal => (b.emit(Opcode::CompareEqD, (x, y)), false),
            Comparison::NotEqual => (b.emit(Opcode::CompareEqD, (x, y)), true),
            Comparison::Less => (b.emit(Opcode::CompareGtD, (y, x)), false),
            Comparison::LessEqual => (b.emit(Opcode::CompareGtD, (x, y)), true),
            Comparison::LessUnsigned => (b.emit(Opcode::CompareGtUD, (y, x)), false),
        }
    }

    /// Not a number is unequal to everything, and neither less nor more.
    fn compare_floats(
        &mut self,
        b: &mut Builder,
        comparison: Comparison,
        x: &Expr,
        y: &Expr,
    ) -> Condition {
        let (x, y) = (self.value(b, x), self.value(b, y));
        match comparison {
            Comparison::Equal => (b.emit(Opcode::FloatCompareEq, (x, y)), false),
            Comparison::NotEqual => (b.emit(Opcode::FloatCompareEq, (x, y)), true),
            Comparison::Less | Comparison::LessUnsigned => {
                (b.emit(Opcode::FloatCompareGt, (y, x)), false)
            }
            Comparison::LessEqual => (b.emit(Opcode::FloatCompareGe, (y, x)), false),
        }
    }
}

/// The predicate as it is meant.
fn plain(b: &mut Builder, (predicate, inverted): Condition) -> Register {
    if inverted { b.emit(Opcode::PredicateNot, (predicate,)) } else { predicate }
}
