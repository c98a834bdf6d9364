//! IEEE binary32 on the scalar core: one rounding an operation, ties to even.

use trainc_ir::loops::{Binary, Expr, Node, Scalar, Unary};

use super::routines::Routine;
use super::{Selector, emit};
use crate::machine::{Builder, Opcode, Register};

/// 2^23: floats from here on are integral.
const INTEGRAL: f32 = 8_388_608.0;
const SIGN: i32 = i32::MIN;

fn number(b: &mut Builder, value: f32) -> Register {
    b.constant(value.to_bits().cast_signed())
}

impl Selector<'_> {
    pub(super) fn float_binary(
        &mut self,
        b: &mut Builder,
        op: Binary,
        x: &Expr,
        y: &Expr,
        target: Option<Register>,
    ) -> Register {
        if op == Binary::Divide
            && let Some(quotient) = self.guarded_quotient(b, x, y)
        {
            return self.moved(b, quotient, target);
        }
        let (x, y) = (self.value(b, x), self.value(b, y));
        match op {
            Binary::Add => emit(b, target, Opcode::FloatAdd, (x, y)),
            Binary::Subtract => emit(b, target, Opcode::FloatSub, (x, y)),
            Binary::Multiply => emit(b, target, Opcode::FloatMultiply, (x, y)),
            Binary::Divide => {
                let quotient = self.call(b, Routine::FloatDivide, &[x, y]);
                self.moved(b, quotient, target)
            }
            // The second operand where neither is less.
            Binary::Minimum => {
                let less = b.emit(Opcode::FloatCompareGt, (y, x));
                emit(b, target, Opcode::Mux, (less, x, y))
            }
            _ => {
                let more = b.emit(Opcode::FloatCompareGt, (x, y));
                emit(b, target, Opcode::Mux, (more, x, y))
            }
        }
    }

    /// A copy into the target, if there is one.
    pub(super) fn moved(
        &mut self,
        b: &mut Builder,
        value: Register,
        target: Option<Register>,
    ) -> Register {
        match target {
            Some(target) => {
                b.copy_to(target, value);
                target
            }
            None => value,
        }
    }

    pub(super) fn float_unary(
        &mut self,
        b: &mut Builder,
        op: Unary,
        x: &Expr,
        target: Option<Register>,
    ) -> Register {
        debug_assert!(x.ty != Scalar::I64, "a float operation of an I64");
        if let (Unary::ToInteger, Node::Unary(Unary::RoundTiesEven, fraction)) = (op, &*x.node)
            && self.cache.get(x, false).is_none()
        {
            let fraction = self.value(b, fraction);
            return to_integer(b, Opcode::FloatToW, fraction, target);
        }
        let x = self.value(b, x);
        match op {
            Unary::Negate => {
                let sign = b.constant(SIGN);
                emit(b, target, Opcode::Xor, (x, sign))
            }
            Unary::FloatAbs => emit(b, target, Opcode::AndImmediate, (x, i32::MAX)),
            Unary::Sqrt => {
                let root = self.guarded_root(b, x);
                let root = root.unwrap_or_else(|| self.call(b, Routine::SquareRoot, &[x]));
                self.moved(b, root, target)
            }
            Unary::ToFloat => emit(b, target, Opcode::FloatFromW, (x,)),
            Unary::ToInteger => to_integer(b, Opcode::FloatToWChop, x, target),
            Unary::RoundTiesEven => {
                let magnitude = b.emit(Opcode::AndImmediate, (x, i32::MAX));
                let limit = number(b, INTEGRAL);
                // Adding 2^23 leaves no bit for a fraction; the sum is rounded to even.
                let sum = b.emit(Opcode::FloatAdd, (magnitude, limit));
                let rounded = b.emit(Opcode::FloatSub, (sum, limit));
                let rounded = with_sign(b, rounded, x);
                fractional(b, magnitude, limit, rounded, x, target)
            }
            Unary::Floor => floor(b, x, target),
            // -floor(-x)
            _ => {
                let sign = b.constant(SIGN);
                let negated = b.emit(Opcode::Xor, (x, sign));
                let below = floor(b, negated, None);
                emit(b, target, Opcode::Xor, (below, sign))
            }
        }
    }
}

/// The nearest integer that a conversion gives; 0 of what is no number.
fn to_integer(b: &mut Builder, convert: Opcode, x: Register, target: Option<Register>) -> Register {
    let whole = b.emit(convert, (x,));
    let unordered = b.emit(Opcode::FloatCompareUnordered, (x, x));
    emit(b, target, Opcode::MuxImmediateR, (unordered, 0, whole))
}

/// A float that is not below 0 with the sign of another, so that zeros keep theirs.
fn with_sign(b: &mut Builder, magnitude: Register, of: Register) -> Register {
    let sign = b.emit(Opcode::AndImmediate, (of, SIGN));
    b.emit(Opcode::Or, (magnitude, sign))
}

/// The rounded value where there can be a fraction, else `x`: large, infinite, or not a number.
fn fractional(
    b: &mut Builder,
    magnitude: Register,
    limit: Register,
    rounded: Register,
    x: Register,
    target: Option<Register>,
) -> Register {
    let small = b.emit(Opcode::FloatCompareGt, (limit, magnitude));
    emit(b, target, Opcode::Mux, (small, rounded, x))
}

fn floor(b: &mut Builder, x: Register, target: Option<Register>) -> Register {
    let magnitude = b.emit(Opcode::AndImmediate, (x, i32::MAX));
    let limit = number(b, INTEGRAL);
    let whole = b.emit(Opcode::FloatToWChop, (x,));
    let whole = b.emit(Opcode::FloatFromW, (whole,));
    let above = b.emit(Opcode::FloatCompareGt, (whole, x));
    let one = number(b, 1.0);
    let less = b.emit(Opcode::FloatSub, (whole, one));
    let whole = b.emit(Opcode::AndImmediate, (whole, i32::MAX));
    let signed = with_sign(b, whole, x);
    let rounded = b.emit(Opcode::Mux, (above, less, signed));
    fractional(b, magnitude, limit, rounded, x, target)
}
