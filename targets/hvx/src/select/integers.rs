//! 32-bit values: integers, or the low 32 bits of wide ones.

use trainc_ir::loops::{Binary, Expr, Node, Scalar, Unary};
use trainc_loops::is_narrow;

use super::wide::Half;
use super::{Selector, emit};
use crate::machine::{Builder, Opcode, Register};

/// The low 32 bits of a constant.
pub(super) fn constant(e: &Expr) -> Option<i32> {
    match &*e.node {
        Node::Integer(value) => Some(*value as i32),
        Node::Float(value) => Some(value.get().to_bits().cast_signed()),
        _ => None,
    }
}

impl Selector<'_> {
    /// The low 32 bits of an integer, a float, or a Bool as 0 or 1.
    pub(super) fn value(&mut self, b: &mut Builder, e: &Expr) -> Register {
        if let Node::Local(local) = &*e.node
            && !self.predicates.contains_key(local)
        {
            return self.register(*local).low();
        }
        if let Some(register) = self.cache.get(e, false) {
            return register;
        }
        let register = self.compute(b, e, None);
        self.cache.insert(e, false, register);
        register
    }

    /// As [`Self::value`], into a register that the expression's operands may be read from until the end.
    pub(super) fn value_into(&mut self, b: &mut Builder, target: Register, e: &Expr) {
        let known = match &*e.node {
            Node::Local(local) if !self.predicates.contains_key(local) => {
                Some(self.register(*local).low())
            }
            _ => self.cache.get(e, false),
        };
        match known {
            Some(register) => b.copy_to(target, register),
            None => _ = self.compute(b, e, Some(target)),
        }
    }

    fn compute(&mut self, b: &mut Builder, e: &Expr, target: Option<Register>) -> Register {
        if let Some(number) = constant(e) {
            return emit(b, target, Opcode::Constant, (number,));
        }
        match &*e.node {
            Node::Local(local) if !self.predicates.contains_key(local) => self.value(b, e),
            Node::Load(buffer, index) => self.load(b, *buffer, index, target),
            _ if e.ty == Scalar::Bool => {
                let (predicate, inverted) = self.condition(b, e);
                let (yes, no) = if inverted { (0, 1) } else { (1, 0) };
                emit(b, target, Opcode::MuxImmediate, (predicate, yes, no))
            }
            Node::Unary(op, x) => self.unary(b, *op, x, target),
            Node::Binary(op, x, y) if e.ty == Scalar::F32 => {
                self.float_binary(b, *op, x, y, target)
            }
            Node::Binary(op, x, y) => self.binary(b, *op, e, x, y, target),
            // Above: constants, and comparisons, which are Bools.
            Node::Integer(_) | Node::Float(_) | Node::Local(_) | Node::Compare(..) => {
                self.value(b, e)
            }
            Node::Select(condition, x, y) => {
                self.demand_both(condition, x, y);
                let (predicate, inverted) = self.condition(b, condition);
                let (x, y) = if inverted { (y, x) } else { (x, y) };
                self.choose(b, predicate, x, y, target)
            }
        }
    }

    fn choose(
        &mut self,
        b: &mut Builder,
        predicate: Register,
        x: &Expr,
        y: &Expr,
        target: Option<Register>,
    ) -> Register {
        match (constant(x), constant(y)) {
            (Some(x), Some(y)) if i8::try_from(y).is_ok() => {
                emit(b, target, Opcode::MuxImmediate, (predicate, x, y))
            }
            (_, Some(y)) => {
                let x = self.value(b, x);
                emit(b, target, Opcode::MuxRImmediate, (predicate, x, y))
            }
            _ => {
                let (x, y) = (self.value(b, x), self.value(b, y));
                emit(b, target, Opcode::Mux, (predicate, x, y))
            }
        }
    }

    fn unary(
        &mut self,
        b: &mut Builder,
        op: Unary,
        x: &Expr,
        target: Option<Register>,
    ) -> Register {
        match op {
            Unary::Negate if x.ty != Scalar::F32 => {
                let x = self.value(b, x);
                emit(b, target, Opcode::SubFromImmediate, (0, x))
            }
            Unary::LeadingZeros => {
                let x = self.value(b, x);
                emit(b, target, Opcode::CountLeadingZeros, (x,))
            }
            Unary::Extend
            | Unary::ExtendUnsigned
            | Unary::Truncate
            | Unary::ToBits
            | Unary::FromBits
            | Unary::BoolToInteger => match target {
                Some(target) => {
                    self.value_into(b, target, x);
                    target
                }
                None => self.value(b, x),
            },
            _ => self.float_unary(b, op, x, target),
        }
    }

    /// Integers.
    fn binary(
        &mut self,
        b: &mut Builder,
        op: Binary,
        e: &Expr,
        x: &Expr,
        y: &Expr,
        target: Option<Register>,
    ) -> Register {
        let wide = e.ty == Scalar::I64;
        let narrow = self.is_narrow(x) && self.is_narrow(y);
        match op {
            Binary::Add => self.sum(b, x, y, target),
            Binary::Subtract => match (constant(x), constant(y)) {
                (_, Some(y)) => {
                    let x = self.value(b, x);
                    emit(b, target, Opcode::AddImmediate, (x, y.wrapping_neg()))
                }
                (Some(x), _) => {
                    let y = self.value(b, y);
                    emit(b, target, Opcode::SubFromImmediate, (x, y))
                }
                _ => self.two(b, Opcode::Sub, x, y, target),
            },
            Binary::Multiply => match (constant(x), constant(y)) {
                (_, Some(y)) => self.scaled(b, x, y, target),
                (Some(x), _) => self.scaled(b, y, x, target),
                _ => self.two(b, Opcode::Multiply, x, y, target),
            },
            Binary::And => match (constant(x), constant(y)) {
                (_, Some(y)) => self.masked(b, x, y, target),
                (Some(x), _) => self.masked(b, y, x, target),
                _ => self.two(b, Opcode::And, x, y, target),
            },
            Binary::Or => match (constant(x), constant(y)) {
                (_, Some(mask)) => {
                    let x = self.value(b, x);
                    emit(b, target, Opcode::OrImmediate, (x, mask))
                }
                (Some(mask), _) => {
                    let y = self.value(b, y);
                    emit(b, target, Opcode::OrImmediate, (y, mask))
                }
                _ => self.two(b, Opcode::Or, x, y, target),
            },
            Binary::Xor => self.two(b, Opcode::Xor, x, y, target),
            // Amounts of registers have seven bits and a sign: those above 31 shift everything out.
            Binary::ShiftLeft => match constant(y) {
                Some(amount) if (0..32).contains(&amount) => {
                    let x = self.value(b, x);
                    emit(b, target, Opcode::ShiftLeftImmediate, (x, amount))
                }
                Some(_) => emit(b, target, Opcode::Constant, (0,)),
                None => self.two(b, Opcode::ShiftLeft, x, y, target),
            },
            Binary::ShiftRight if !wide || self.is_narrow(x) => match constant(y) {
                Some(amount) => {
                    let x = self.value(b, x);
                    emit(b, target, Opcode::ArithmeticRightImmediate, (x, amount.min(31)))
                }
                None => self.two(b, Opcode::ArithmeticRight, x, y, target),
            },
            Binary::ShiftRightUnsigned if !wide || self.is_unsigned(x) => match constant(y) {
                Some(amount) if (0..32).contains(&amount) => {
                    let x = self.value(b, x);
                    emit(b, target, Opcode::LogicalRightImmediate, (x, amount))
                }
                Some(_) => emit(b, target, Opcode::Constant, (0,)),
                None => self.two(b, Opcode::LogicalRight, x, y, target),
            },
            Binary::ShiftRight | Binary::ShiftRightUnsigned => match constant(y) {
                Some(amount) if amount >= 32 => {
                    let high = self.pair(b, x).high();
                    let opcode = match op {
                        Binary::ShiftRight => Opcode::ArithmeticRightImmediate,
                        _ => Opcode::LogicalRightImmediate,
                    };
                    match amount {
                        32 if target.is_none() => high,
                        _ => emit(b, target, opcode, (high, amount - 32)),
                    }
                }
                _ => self.low_of_pair(b, e, target),
            },
            Binary::Minimum if narrow => self.two(b, Opcode::Min, x, y, target),
            Binary::Maximum if narrow => self.two(b, Opcode::Max, x, y, target),
            Binary::Divide if narrow => self.quotient(b, x, y, target),
            Binary::Remainder if narrow => self.rest(b, x, y, target),
            Binary::Minimum | Binary::Maximum => self.low_of_pair(b, e, target),
            Binary::Divide | Binary::Remainder => {
                let [low] = self.divided(b, op, [x, y], [Half::Low]);
                into(b, low, target)
            }
        }
    }

    /// Whether an I64 is of 32 bits without sign.
    fn is_unsigned(&self, e: &Expr) -> bool {
        let (low, high) = self.intervals.get(e);
        low >= 0 && high <= i128::from(u32::MAX)
    }

    fn low_of_pair(&mut self, b: &mut Builder, e: &Expr, target: Option<Register>) -> Register {
        let low = self.pair_of_parts(b, e, None).low();
        into(b, low, target)
    }

    fn two(
        &mut self,
        b: &mut Builder,
        opcode: Opcode,
        x: &Expr,
        y: &Expr,
        target: Option<Register>,
    ) -> Register {
        let (x, y) = (self.value(b, x), self.value(b, y));
        emit(b, target, opcode, (x, y))
    }

    fn sum(&mut self, b: &mut Builder, x: &Expr, y: &Expr, target: Option<Register>) -> Register {
        if let Some(number) = constant(y) {
            let x = self.value(b, x);
            return emit(b, target, Opcode::AddImmediate, (x, number));
        }
        if let Some(number) = constant(x) {
            let y = self.value(b, y);
            return emit(b, target, Opcode::AddImmediate, (y, number));
        }
        for (x, y) in [(x, y), (y, x)] {
            if let Some((z, amount)) = shifted(y)
                && self.cache.get(y, false).is_none()
            {
                let (x, z) = (self.value(b, x), self.value(b, z));
                return emit(b, target, Opcode::AddShifted, (x, z, amount));
            }
            // A sum that grows in place: target += x * y.
            if let (Node::Local(local), Node::Binary(Binary::Multiply, p, q)) = (&*x.node, &*y.node)
                && target == Some(self.register(*local))
                && self.cache.get(y, false).is_none()
                && constant(p).is_none()
                && constant(q).is_none()
            {
                let (p, q) = (self.value(b, p), self.value(b, q));
                let target = self.register(*local);
                b.update(Opcode::MultiplyAccumulate, (target, p, q));
                return target;
            }
        }
        self.two(b, Opcode::Add, x, y, target)
    }

    /// `x * factor`.
    pub(super) fn scaled(
        &mut self,
        b: &mut Builder,
        x: &Expr,
        factor: i32,
        target: Option<Register>,
    ) -> Register {
        let x = self.value(b, x);
        multiply(b, x, factor, target)
    }

    fn masked(
        &mut self,
        b: &mut Builder,
        x: &Expr,
        mask: i32,
        target: Option<Register>,
    ) -> Register {
        let x = self.value(b, x);
        match mask {
            0xff => emit(b, target, Opcode::ZeroExtendB, (x,)),
            0xffff => emit(b, target, Opcode::ZeroExtendH, (x,)),
            _ => emit(b, target, Opcode::AndImmediate, (x, mask)),
        }
    }

    /// Whether a wide value's sign is that of its low 32 bits.
    pub(super) fn fits(&self, e: &Expr) -> bool {
        is_narrow(self.intervals.get(e))
    }
}

/// The value, in the target if there is one.
fn into(b: &mut Builder, value: Register, target: Option<Register>) -> Register {
    match target {
        Some(target) => {
            b.copy_to(target, value);
            target
        }
        None => value,
    }
}

/// `x * factor`.
pub(super) fn multiply(
    b: &mut Builder,
    x: Register,
    factor: i32,
    target: Option<Register>,
) -> Register {
    if factor > 0 && factor.count_ones() == 1 {
        let amount = factor.trailing_zeros().cast_signed();
        return emit(b, target, Opcode::ShiftLeftImmediate, (x, amount));
    }
    emit(b, target, Opcode::MultiplyImmediate, (x, factor))
}

/// `z << 1`, `z << 2`, `z << 3`, also as products.
fn shifted(e: &Expr) -> Option<(&Expr, i32)> {
    let Node::Binary(op, x, y) = &*e.node else { return None };
    match (op, constant(x), constant(y)) {
        (Binary::ShiftLeft, _, Some(amount @ 1..=3)) => Some((x, amount)),
        (Binary::Multiply, _, Some(factor @ (2 | 4 | 8))) => {
            Some((x, factor.trailing_zeros().cast_signed()))
        }
        (Binary::Multiply, Some(factor @ (2 | 4 | 8)), _) => {
            Some((y, factor.trailing_zeros().cast_signed()))
        }
        _ => None,
    }
}
