//! Expressions that lanes compute in fewer instructions than their operations.

use trainc_ir::loops::{Binary, Comparison, Expr, Local, Node, Scalar, Unary};
use trainc_loops::{Known, bits_of};

/// A sum or difference that is brought between two numbers: saturating lanes need hold no more than its operands.
pub(super) struct ClampedSum<'e> {
    pub subtracts: bool,
    pub operands: [&'e Expr; 2],
    /// Least and most, numbers.
    pub limits: [&'e Expr; 2],
}

impl<'e> ClampedSum<'e> {
    pub(super) fn of(e: &'e Expr) -> Option<ClampedSum<'e>> {
        let Node::Binary(Binary::Minimum, bounded, high) = &*e.node else { return None };
        let Node::Binary(Binary::Maximum, sum, low) = &*bounded.node else { return None };
        let Node::Binary(op @ (Binary::Add | Binary::Subtract), x, y) = &*sum.node else {
            return None;
        };
        let ordered = low.as_constant()? <= high.as_constant()?;
        (e.ty == Scalar::I32 && ordered).then_some(ClampedSum {
            subtracts: *op == Binary::Subtract,
            operands: [x, y],
            limits: [low, high],
        })
    }
}

/// What is brought between two numbers of bytes before it is stored as one: narrowing saturates, and bytes are four times as
/// many a vector.
pub(super) struct ClampedByte<'e> {
    pub value: &'e Expr,
    /// Least and most in all bytes of a word, where they are not those of bytes.
    pub limits: [Option<Expr>; 2],
}

impl<'e> ClampedByte<'e> {
    pub(super) fn of(e: &'e Expr) -> Option<ClampedByte<'e>> {
        let Node::Binary(Binary::Minimum, bounded, high) = &*e.node else { return None };
        let Node::Binary(Binary::Maximum, value, low) = &*bounded.node else { return None };
        let limits = [low.as_constant()?, high.as_constant()?].map(i8::try_from);
        let [Ok(low), Ok(high)] = limits else { return None };
        let replicated = |limit: i8| Expr::i32(i32::from_ne_bytes([limit.cast_unsigned(); 4]));
        let limits = [(low, i8::MIN), (high, i8::MAX)]
            .map(|(limit, own)| (limit != own).then(|| replicated(limit)));
        (e.ty == Scalar::I32 && low <= high).then_some(ClampedByte { value, limits })
    }
}

/// `x >> 1 >> k` without sign, as `x` and `k`, which is 0 to 31: lanes shift by amounts of up to 32 of their own.
pub(super) fn shifted_by_one_more<'e>(e: &'e Expr, known: &Known<'_>) -> Option<[&'e Expr; 2]> {
    let Node::Binary(Binary::ShiftRightUnsigned, half, k) = &*e.node else { return None };
    let Node::Binary(Binary::ShiftRightUnsigned, x, one) = &*half.node else { return None };
    let (low, high) = known.interval(k);
    let fits = e.ty == Scalar::I32 && one.as_constant() == Some(1) && low >= 0 && high < 32;
    fits.then_some([x, k])
}

/// `(x + y) >> amount` of words, computed with the sum's 33rd bit, as `x`, `y` and `amount`, which is 1 to 31: lanes halve sums
/// that they do not hold.
pub(super) fn shifted_sum<'e>(e: &'e Expr, known: &Known<'_>) -> Option<([&'e Expr; 2], &'e Expr)> {
    let Node::Unary(Unary::Truncate, shifted) = &*e.node else { return None };
    let Node::Binary(Binary::ShiftRight, sum, amount) = &*shifted.node else { return None };
    let Node::Binary(Binary::Add, x, y) = &*sum.node else { return None };
    let word = |e: &'e Expr| match &*e.node {
        Node::Unary(Unary::Extend, word) => Some(word),
        _ => None,
    };
    let (low, high) = known.interval(amount);
    let fits = low >= 1 && high < 32 && known.is_uniform(amount);
    fits.then_some(([word(x)?, word(y)?], amount))
}

/// Whether `e` is `variable`, whatever its width.
fn is_counter(e: &Expr, variable: Local) -> bool {
    match &*e.node {
        Node::Unary(Unary::Truncate | Unary::Extend, x) => is_counter(x, variable),
        _ => e.as_local() == Some(variable),
    }
}

/// What is added to the loop variable, if that is what `e` is made of and the other part stays: each lane's sum moves on as the
/// variable does.
pub(super) fn counted_from<'e>(e: &'e Expr, known: &Known<'_>) -> Option<&'e Expr> {
    let Node::Binary(Binary::Add, x, y) = &*e.node else { return None };
    let variable = known.plan.variable;
    let other = match (is_counter(x, variable), is_counter(y, variable)) {
        (true, false) => y,
        (false, true) => x,
        _ => return None,
    };
    (e.ty == Scalar::I32 && known.is_uniform(other)).then_some(other)
}

/// Whether all words shift right by half their bits, without sign: halves change places.
pub(super) fn is_upper_half(op: Binary, amount: &Expr, width: i32) -> bool {
    op == Binary::ShiftRightUnsigned && width == 4 && amount.as_constant() == Some(16)
}

/// `x` of an integer's magnitude, as a maximum or as a selection; the least integer is its own.
pub(super) fn magnitude(e: &Expr) -> Option<&Expr> {
    let negates =
        |n: &Expr, x: &Expr| matches!(&*n.node, Node::Unary(Unary::Negate, of) if of == x);
    let x = match &*e.node {
        Node::Binary(Binary::Maximum, x, negated) if negates(negated, x) => x,
        Node::Select(c, negated, x) if negates(negated, x) => match &*c.node {
            Node::Compare(Comparison::Less, compared, zero)
                if compared == x && zero.as_constant() == Some(0) =>
            {
                x
            }
            _ => return None,
        },
        _ => return None,
    };
    (x.ty == Scalar::I32).then_some(x)
}

/// What a sum adds in each round, of bytes: dot products of neighbouring rounds are one instruction.
pub(super) enum Bytes<'e> {
    Product([&'e Expr; 2]),
    One(&'e Expr),
}

impl<'e> Bytes<'e> {
    pub(super) fn of(added: &'e Expr, known: &Known<'_>) -> Option<Bytes<'e>> {
        let is_byte = |e: &Expr| e.ty == Scalar::I32 && bits_of(known.interval(e)) == 8;
        match &*added.node {
            Node::Binary(Binary::Multiply, x, y) if is_byte(x) && is_byte(y) => {
                Some(Bytes::Product([x, y]))
            }
            _ if is_byte(added) => Some(Bytes::One(added)),
            _ => None,
        }
    }

    /// What is computed in lanes.
    pub(super) fn factors(&self) -> &[&'e Expr] {
        match self {
            Bytes::Product(factors) => factors,
            Bytes::One(factor) => std::slice::from_ref(factor),
        }
    }
}

/// Whether an integer product fits lanes of 16 bits.
pub(super) fn is_short_product(e: &Expr, known: &Known<'_>) -> bool {
    bits_of(known.interval(e)) <= 16
}
