//! 32-bit quotients and remainders toward zero.

use trainc_ir::loops::Expr;

use super::integers::{constant, multiply};
use super::routines::Routine;
use super::{Selector, emit};
use crate::machine::{Builder, Opcode, Register};

impl Selector<'_> {
    pub(super) fn quotient(
        &mut self,
        b: &mut Builder,
        x: &Expr,
        y: &Expr,
        target: Option<Register>,
    ) -> Register {
        let Some(divisor) = constant(y).filter(|d| *d != 0) else {
            let (x, y) = (self.value(b, x), self.value(b, y));
            let quotient = self.call(b, Routine::Quotient32, &[x, y]);
            return self.moved(b, quotient, target);
        };
        let natural = self.intervals.get(x).0 >= 0;
        let x = self.value(b, x);
        by_constant(b, x, divisor, natural, target)
    }

    pub(super) fn rest(
        &mut self,
        b: &mut Builder,
        x: &Expr,
        y: &Expr,
        target: Option<Register>,
    ) -> Register {
        let Some(divisor) = constant(y).filter(|d| *d != 0) else {
            let (x, y) = (self.value(b, x), self.value(b, y));
            let rest = self.call(b, Routine::Remainder32, &[x, y]);
            return self.moved(b, rest, target);
        };
        let natural = self.intervals.get(x).0 >= 0;
        let x = self.value(b, x);
        if natural && divisor > 0 && divisor.count_ones() == 1 {
            return emit(b, target, Opcode::AndImmediate, (x, divisor - 1));
        }
        let quotient = by_constant(b, x, divisor, natural, None);
        let product = multiply(b, quotient, divisor, None);
        emit(b, target, Opcode::Sub, (x, product))
    }
}

fn by_constant(
    b: &mut Builder,
    x: Register,
    divisor: i32,
    natural: bool,
    target: Option<Register>,
) -> Register {
    let size = divisor.unsigned_abs();
    if divisor == 1 {
        return emit(b, target, Opcode::Move, (x,));
    }
    if divisor == -1 {
        return emit(b, target, Opcode::SubFromImmediate, (0, x));
    }
    if size.count_ones() == 1 {
        let shift = size.trailing_zeros().cast_signed();
        if natural && divisor > 0 {
            return emit(b, target, Opcode::LogicalRightImmediate, (x, shift));
        }
        // Negative dividends round up.
        let sign = b.emit(Opcode::ArithmeticRightImmediate, (x, 31));
        let bias = b.emit(Opcode::LogicalRightImmediate, (sign, 32 - shift));
        let biased = b.emit(Opcode::Add, (x, bias));
        if divisor > 0 {
            return emit(b, target, Opcode::ArithmeticRightImmediate, (biased, shift));
        }
        let quotient = b.emit(Opcode::ArithmeticRightImmediate, (biased, shift));
        return emit(b, target, Opcode::SubFromImmediate, (0, quotient));
    }
    // x / d is the high word of x * m, shifted right, plus 1 if negative.
    let (factor, shift) = reciprocal(divisor);
    let m = b.constant(factor);
    let mut high = b.emit(Opcode::MultiplyHigh, (x, m));
    if divisor > 0 && factor < 0 {
        high = b.emit(Opcode::Add, (high, x));
    }
    if divisor < 0 && factor > 0 {
        high = b.emit(Opcode::Sub, (high, x));
    }
    if shift > 0 {
        high = b.emit(Opcode::ArithmeticRightImmediate, (high, shift));
    }
    let sign = b.emit(Opcode::LogicalRightImmediate, (high, 31));
    emit(b, target, Opcode::Add, (high, sign))
}

/// A factor and a shift that divide every 32-bit integer by `divisor`, |divisor| >= 2 (Warren, Hacker's Delight, 10-1:
/// the smallest power 2^p above n (d - 2^p mod d), n being the largest dividend that leaves d - 1).
fn reciprocal(divisor: i32) -> (i32, i32) {
    let d = u128::from(divisor.unsigned_abs());
    let t = (1u128 << 31) + u128::from(divisor < 0);
    let n = t - 1 - t % d;
    let mut power = 32u32;
    while (1u128 << power) <= n * (d - (1u128 << power) % d) {
        power += 1;
    }
    let factor = ((1u128 << power) + d - (1u128 << power) % d) / d;
    let factor = factor as u32 as i32;
    let factor = if divisor < 0 { factor.wrapping_neg() } else { factor };
    (factor, (power - 32).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::reciprocal;

    #[test]
    fn divides() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 32) as i32
        };
        for i in 0..20_000i32 {
            let divisor = if i < 300 { i - 150 } else { next() >> (i % 31) };
            if divisor.unsigned_abs() < 2 || divisor.unsigned_abs().count_ones() == 1 {
                continue;
            }
            let (factor, shift) = reciprocal(divisor);
            let edges = [0, 1, -1, divisor, i32::MAX, i32::MIN, i32::MAX - 1, i32::MIN + 1];
            for x in edges.into_iter().chain([next(), next() >> 8, divisor.wrapping_mul(next())]) {
                let mut high = ((i64::from(x) * i64::from(factor)) >> 32) as i32;
                if divisor > 0 && factor < 0 {
                    high = high.wrapping_add(x);
                }
                if divisor < 0 && factor > 0 {
                    high = high.wrapping_sub(x);
                }
                let high = high >> shift;
                let found = high.wrapping_add(((high as u32) >> 31) as i32);
                assert_eq!(found, x / divisor, "{x} / {divisor}");
            }
        }
    }
}
