//! 64-bit integers in register pairs.

use trainc_ir::loops::{Binary, Expr, Node, Unary};

use super::routines::Routine;
use super::{Selector, emit};
use crate::machine::{Builder, Class, Opcode, Register};

/// A word of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    Low,
    High,
}

impl Selector<'_> {
    /// An I64 as a pair.
    pub(super) fn pair(&mut self, b: &mut Builder, e: &Expr) -> Register {
        if let Node::Local(local) = &*e.node
            && self.register(*local).class() == Class::RR
        {
            return self.register(*local);
        }
        if let Some(pair) = self.cache.get(e, true) {
            return pair;
        }
        let pair = self.compute_pair(b, e, None);
        self.cache.insert(e, true, pair);
        pair
    }

    /// As [`Self::pair`], into a pair that the expression's operands may be read from until the end.
    pub(super) fn pair_into(&mut self, b: &mut Builder, target: Register, e: &Expr) {
        let known = match &*e.node {
            Node::Local(local) if self.register(*local).class() == Class::RR => {
                Some(self.register(*local))
            }
            _ => self.cache.get(e, true),
        };
        match known {
            Some(pair) => b.copy_to(target, pair),
            None => _ = self.compute_pair(b, e, Some(target)),
        }
    }

    fn compute_pair(&mut self, b: &mut Builder, e: &Expr, target: Option<Register>) -> Register {
        if let Node::Integer(value) = &*e.node {
            return match i8::try_from(*value) {
                Ok(value) => {
                    let sign = if value < 0 { -1 } else { 0 };
                    emit(b, target, Opcode::CombineImmediate, (sign, i32::from(value)))
                }
                Err(_) => {
                    let high = b.constant((value >> 32) as i32);
                    let low = b.constant(*value as i32);
                    emit(b, target, Opcode::Combine, (high, low))
                }
            };
        }
        if self.fits(e) {
            let low = self.value(b, e);
            return emit(b, target, Opcode::SignExtendW, (low,));
        }
        self.pair_of_parts(b, e, target)
    }

    /// Computed as a pair even if every value fits 32 bits.
    pub(super) fn pair_of_parts(
        &mut self,
        b: &mut Builder,
        e: &Expr,
        target: Option<Register>,
    ) -> Register {
        match &*e.node {
            Node::Unary(Unary::Negate, x) => {
                let x = self.pair(b, x);
                emit(b, target, Opcode::NegD, (x,))
            }
            Node::Unary(Unary::ExtendUnsigned, x) => {
                let low = self.value(b, x);
                let zero = b.zero();
                emit(b, target, Opcode::Combine, (zero, low))
            }
            Node::Binary(op, x, y) => self.pair_binary(b, *op, x, y, target),
            Node::Select(condition, x, y) => {
                self.demand_both(condition, x, y);
                let (predicate, inverted) = self.condition(b, condition);
                let (x, y) = if inverted { (y, x) } else { (x, y) };
                let (x, y) = (self.pair(b, x), self.pair(b, y));
                let high = b.emit(Opcode::Mux, (predicate, x.high(), y.high()));
                let low = b.emit(Opcode::Mux, (predicate, x.low(), y.low()));
                emit(b, target, Opcode::Combine, (high, low))
            }
            // Extensions of 32-bit values fit; nothing else is an I64.
            _ => {
                let low = self.value(b, e);
                emit(b, target, Opcode::SignExtendW, (low,))
            }
        }
    }

    /// Words of a quotient or a remainder of 64 bits; each is a call.
    pub(super) fn divided<const N: usize>(
        &mut self,
        b: &mut Builder,
        op: Binary,
        operands: [&Expr; 2],
        halves: [Half; N],
    ) -> [Register; N] {
        let [x, y] = operands.map(|e| self.pair(b, e));
        let words = [x.low(), x.high(), y.low(), y.high()];
        halves.map(|half| {
            let routine = match (op, half) {
                (Binary::Divide, Half::Low) => Routine::Quotient64Low,
                (Binary::Divide, Half::High) => Routine::Quotient64High,
                (_, Half::Low) => Routine::Remainder64Low,
                (_, Half::High) => Routine::Remainder64High,
            };
            self.call(b, routine, &words)
        })
    }

    fn pair_binary(
        &mut self,
        b: &mut Builder,
        op: Binary,
        x: &Expr,
        y: &Expr,
        target: Option<Register>,
    ) -> Register {
        let opcode = match op {
            Binary::Add => Opcode::AddD,
            Binary::Subtract => Opcode::SubD,
            Binary::And => Opcode::AndD,
            Binary::Or => Opcode::OrD,
            Binary::Xor => Opcode::XorD,
            Binary::Minimum => Opcode::MinD,
            Binary::Maximum => Opcode::MaxD,
            Binary::Multiply => return self.product(b, x, y, target),
            Binary::Divide | Binary::Remainder => {
                let [low, high] = self.divided(b, op, [x, y], [Half::Low, Half::High]);
                return emit(b, target, Opcode::Combine, (high, low));
            }
            Binary::ShiftLeft | Binary::ShiftRight | Binary::ShiftRightUnsigned => {
                let (by_register, by_number) = match op {
                    Binary::ShiftLeft => (Opcode::ShiftLeftD, Opcode::ShiftLeftDImmediate),
                    Binary::ShiftRight => {
                        (Opcode::ArithmeticRightD, Opcode::ArithmeticRightDImmediate)
                    }
                    _ => (Opcode::LogicalRightD, Opcode::LogicalRightDImmediate),
                };
                let x = self.pair(b, x);
                return match y.as_constant() {
                    Some(amount) => emit(b, target, by_number, (x, amount as i32 & 63)),
                    None => {
                        let amount = self.value(b, y);
                        emit(b, target, by_register, (x, amount))
                    }
                };
            }
        };
        let (x, y) = (self.pair(b, x), self.pair(b, y));
        emit(b, target, opcode, (x, y))
    }

    fn product(
        &mut self,
        b: &mut Builder,
        x: &Expr,
        y: &Expr,
        target: Option<Register>,
    ) -> Register {
        if self.fits(x) && self.fits(y) {
            let (x, y) = (self.value(b, x), self.value(b, y));
            return emit(b, target, Opcode::MultiplyD, (x, y));
        }
        let unsigned = |e: &Expr| {
            let (low, high) = self.intervals.get(e);
            low >= 0 && high <= i128::from(u32::MAX)
        };
        if unsigned(x) && unsigned(y) {
            let (x, y) = (self.value(b, x), self.value(b, y));
            return emit(b, target, Opcode::MultiplyDU, (x, y));
        }
        let (x, y) = (self.pair(b, x), self.pair(b, y));
        let low = b.emit(Opcode::MultiplyDU, (x.low(), y.low()));
        let cross = b.emit(Opcode::Multiply, (x.high(), y.low()));
        b.update(Opcode::MultiplyAccumulate, (cross, x.low(), y.high()));
        let high = b.emit(Opcode::Add, (low.high(), cross));
        emit(b, target, Opcode::Combine, (high, low.low()))
    }

    /// Calls a routine.
    pub(super) fn call(
        &mut self,
        b: &mut Builder,
        routine: Routine,
        arguments: &[Register],
    ) -> Register {
        self.routines.insert(routine);
        b.call(routine.symbol(), arguments)
    }
}
