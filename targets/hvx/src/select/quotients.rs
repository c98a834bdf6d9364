//! Quotients and roots of floats, some at a time: what a routine does with normal numbers stands in the code, without a branch,
//! for several statements that do not depend on each other; one check of them all decides whether routines do it again. What is the
//! same in all rounds of a loop is divided by through a reciprocal that is made once.

use trainc_ir::loops::{Binary, Expr, Local, Node, Scalar, Stmt, Unary};
use trainc_loops::Changes;

use super::Selector;
use super::routines::{
    FRACTION, LEAST_NORMAL, NORMAL, ONE, SIGN, below_normal, fraction, quotient_by, reciprocal_of,
    root_of_normal,
};
use crate::machine::{Builder, Class, Opcode, Register};

/// Biased exponents of dividends, at least, whose quotients leave a remainder that is exact: 2^-100.
const LEAST_DIVIDEND: i32 = 27;
/// Quotients are normal, and a reciprocal is, if exponents are no farther apart.
const APART: i32 = 124;
/// Biased exponents of divisors, at most, whose reciprocal is normal.
const MOST_DIVISOR: i32 = 252;

/// What is seen of the operands of each statement, which are joined behind all of them: statements do not wait for each other.
pub(super) type Guards = Vec<Seen>;

/// What was seen of operands so far, the largest of each as numbers without sign.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Magnitudes less the least normal number.
    magnitude: Option<Register>,
    /// Exponents of quotients.
    exponent: Option<Register>,
    /// Divisors' fractions.
    fraction: Option<Register>,
    /// Dividends less the least that a divisor takes, and how many it takes.
    dividends: Vec<(Register, Register)>,
}

/// What quotients by a number need that is the same in all rounds of a loop.
#[derive(Clone, Debug)]
pub(super) struct Divisor {
    /// Its bits, and those of its magnitude.
    bits: Register,
    magnitude: Register,
    /// The nearest float to its magnitude's reciprocal.
    reciprocal: Register,
    /// The least magnitude of a dividend, and how many from there on; 0 if none can be divided like this.
    least: Register,
    span: Register,
}

/// The larger of two numbers without sign, or the one that there is.
fn join(b: &mut Builder, largest: &mut Option<Register>, x: Register) {
    *largest = Some(largest.map_or(x, |largest| b.emit(Opcode::MaxU, (largest, x))));
}

/// Whether a value takes a routine of floats.
pub(super) fn calls(e: &Expr) -> bool {
    count(e) > 0
}

/// How many routines of floats a value takes.
pub(super) fn count(e: &Expr) -> usize {
    let own = match &*e.node {
        Node::Unary(Unary::Sqrt, _) => true,
        Node::Binary(Binary::Divide, ..) => e.ty == Scalar::F32,
        _ => false,
    };
    usize::from(own) + e.operands().map(count).sum::<usize>()
}

impl Selector<'_> {
    /// How many statements from the first on are quotients or roots that do not depend on each other.
    pub(super) fn independent_quotients(&self, block: &[Stmt]) -> usize {
        let mut set: Vec<Local> = Vec::new();
        for statement in block {
            let Stmt::Assign(local, value) = statement else { break };
            let plain = self.register(*local).class() == Class::R && value.ty == Scalar::F32;
            if !plain || !calls(value) || value.mentions(|l| set.contains(&l)) {
                break;
            }
            set.push(*local);
        }
        set.len()
    }

    /// Assigns such statements' values.
    pub(super) fn quotients(&mut self, b: &mut Builder, statements: &[Stmt]) {
        let known = self.cache.clone();
        self.guards = Some(Guards::new());
        let assign = |this: &mut Self, b: &mut Builder| {
            let mut starts = Vec::new();
            for statement in statements {
                starts.push(b.place());
                this.guards.iter_mut().for_each(|guards| guards.push(Seen::default()));
                if let Stmt::Assign(local, value) = statement {
                    let register = this.register(*local);
                    this.value_into(b, register, value);
                }
            }
            starts
        };
        let starts = assign(self, b);
        b.interleave(&starts);
        let guards = self.guards.take().unwrap_or_default();
        self.cache = known.clone();
        if let Some(special) = special(b, &guards) {
            b.when_rarely(special, |b| _ = assign(self, b));
        }
        self.cache = known;
        let locals = statements.iter().filter_map(Stmt::sets).collect();
        self.forget(&Changes { locals, ..Changes::default() });
    }

    /// A quotient without a branch, where its operands' check is noted.
    pub(super) fn guarded_quotient(
        &mut self,
        b: &mut Builder,
        of: &Expr,
        by: &Expr,
    ) -> Option<Register> {
        self.guards.as_ref()?;
        if matches!(&*of.node, Node::Float(one) if one.get().to_bits() == ONE.cast_unsigned()) {
            let y = self.value(b, by);
            let root = matches!(&*by.node, Node::Unary(Unary::Sqrt, _));
            return self.guarded_reciprocal(b, y, root);
        }
        let x = self.value(b, of);
        if let Some((_, divisor)) = self.divisors.iter().find(|(e, _)| e == by) {
            let divisor = divisor.clone();
            return Some(self.quotient_of(b, x, &divisor));
        }
        let y = self.value(b, by);
        let guards = self.guards.as_mut()?.last_mut()?;
        let signs = b.emit(Opcode::Xor, (x, y));
        let sign = b.emit(Opcode::AndImmediate, (signs, SIGN));
        let of_x = b.emit(Opcode::AndImmediate, (x, i32::MAX));
        let of_y = b.emit(Opcode::AndImmediate, (y, i32::MAX));
        let (below_x, below_y) = (below_normal(b, of_x), below_normal(b, of_y));
        join(b, &mut guards.magnitude, below_x);
        join(b, &mut guards.magnitude, below_y);
        let exponent_x = b.emit(Opcode::LogicalRightImmediate, (of_x, 23));
        let exponent_y = b.emit(Opcode::LogicalRightImmediate, (of_y, 23));
        let apart = b.emit(Opcode::Sub, (exponent_x, exponent_y));
        let above = b.emit(Opcode::AddImmediate, (apart, 125));
        join(b, &mut guards.exponent, above);
        let divisor = fraction(b, of_y);
        join(b, &mut guards.fraction, divisor);
        let dividend = fraction(b, of_x);
        let reciprocal = reciprocal_of(b, divisor);
        let quotient = quotient_by(b, dividend, divisor, reciprocal);
        let power = b.emit(Opcode::ShiftLeftImmediate, (apart, 23));
        let bits = b.emit(Opcode::Add, (quotient, power));
        Some(b.emit(Opcode::Or, (bits, sign)))
    }

    /// A reciprocal without a branch, where its operand's check is noted: a root's exponent is far from the range's ends.
    fn guarded_reciprocal(&mut self, b: &mut Builder, y: Register, root: bool) -> Option<Register> {
        let guards = self.guards.as_mut()?.last_mut()?;
        let sign = b.emit(Opcode::AndImmediate, (y, SIGN));
        let magnitude = b.emit(Opcode::AndImmediate, (y, i32::MAX));
        let exponent = b.emit(Opcode::LogicalRightImmediate, (magnitude, 23));
        if !root {
            let below = below_normal(b, magnitude);
            join(b, &mut guards.magnitude, below);
            // Up to `MOST_DIVISOR`, of which the reciprocal is normal.
            let above = b.emit(Opcode::AddImmediate, (exponent, 251 - MOST_DIVISOR));
            join(b, &mut guards.exponent, above);
        }
        let divisor = fraction(b, magnitude);
        join(b, &mut guards.fraction, divisor);
        let reciprocal = reciprocal_of(b, divisor);
        let power = b.emit(Opcode::AddImmediate, (exponent, -127));
        let power = b.emit(Opcode::ShiftLeftImmediate, (power, 23));
        let bits = b.emit(Opcode::Sub, (reciprocal, power));
        Some(b.emit(Opcode::Or, (bits, sign)))
    }

    /// A root without a branch, where its operand's check is noted.
    pub(super) fn guarded_root(&mut self, b: &mut Builder, x: Register) -> Option<Register> {
        let guards = self.guards.as_mut()?.last_mut()?;
        let below = below_normal(b, x);
        join(b, &mut guards.magnitude, below);
        Some(root_of_normal(b, x))
    }

    /// A quotient by what is prepared. Zeros are divided like others.
    fn quotient_of(&mut self, b: &mut Builder, x: Register, divisor: &Divisor) -> Register {
        let signs = b.emit(Opcode::Xor, (x, divisor.bits));
        let sign = b.emit(Opcode::AndImmediate, (signs, SIGN));
        let magnitude = b.emit(Opcode::AndImmediate, (x, i32::MAX));
        let zero = b.emit(Opcode::CompareEqImmediate, (magnitude, 0));
        let seen = b.emit(Opcode::Mux, (zero, divisor.least, magnitude));
        let above = b.emit(Opcode::Sub, (seen, divisor.least));
        if let Some(guards) = self.guards.as_mut().and_then(|guards| guards.last_mut()) {
            match guards.dividends.iter_mut().find(|(_, span)| *span == divisor.span) {
                Some((largest, _)) => *largest = b.emit(Opcode::MaxU, (*largest, above)),
                None => guards.dividends.push((above, divisor.span)),
            }
        }
        let quotient = quotient_by(b, magnitude, divisor.magnitude, divisor.reciprocal);
        b.emit(Opcode::Or, (quotient, sign))
    }

    /// Prepares the divisors of a loop's quotients that stay the same in all rounds.
    pub(super) fn prepare_divisors(&mut self, b: &mut Builder, body: &[Stmt], changes: &Changes) {
        for at in 0..body.len() {
            if self.independent_quotients(&body[at..]) < 2 {
                continue;
            }
            let Stmt::Assign(_, value) = &body[at] else { continue };
            let mut divisors = Vec::new();
            value.each(&mut |e| {
                if let Node::Binary(Binary::Divide, _, by) = &*e.node
                    && e.ty == Scalar::F32
                {
                    divisors.push(by);
                }
            });
            for by in divisors {
                let stays = !by.loads() && !calls(by) && !self.touches(changes, by);
                if stays && self.divisors.iter().all(|(e, _)| e != by) {
                    let bits = self.value(b, by);
                    self.divisors.push((by.clone(), prepared(b, bits)));
                }
            }
        }
    }
}

/// One of the numbers that are seen of operands.
type Which = fn(&Seen) -> Option<Register>;

/// Whether any operand was special; none if none was seen.
fn special(b: &mut Builder, guards: &Guards) -> Option<Register> {
    let mut found = Vec::new();
    // The greatest fraction is the one whose reciprocal is not the nearest float.
    let limits: [(Which, i32); 3] = [
        (|seen| seen.magnitude, NORMAL - 1),
        (|seen| seen.exponent, 251),
        (|seen| seen.fraction, (ONE | FRACTION) - 1),
    ];
    for (of, limit) in limits {
        let mut largest = None;
        guards.iter().filter_map(of).for_each(|x| join(b, &mut largest, x));
        if let Some(largest) = largest {
            found.push(b.emit(Opcode::CompareGtUImmediate, (largest, limit)));
        }
    }
    let mut spans: Vec<Register> = Vec::new();
    for (_, span) in guards.iter().flat_map(|seen| &seen.dividends) {
        if !spans.contains(span) {
            spans.push(*span);
        }
    }
    for span in spans {
        let mut largest = None;
        let own = guards.iter().flat_map(|seen| &seen.dividends).filter(|(_, of)| *of == span);
        own.for_each(|(x, _)| join(b, &mut largest, *x));
        if let Some(largest) = largest {
            let fits = b.emit(Opcode::CompareGtU, (span, largest));
            found.push(b.emit(Opcode::PredicateNot, (fits,)));
        }
    }
    found.into_iter().reduce(|any, one| b.emit(Opcode::PredicateOr, (any, one)))
}

/// What quotients by a number of these bits need.
fn prepared(b: &mut Builder, bits: Register) -> Divisor {
    let magnitude = b.emit(Opcode::AndImmediate, (bits, i32::MAX));
    let exponent = b.emit(Opcode::LogicalRightImmediate, (magnitude, 23));
    let part = fraction(b, magnitude);
    let reciprocal = reciprocal_of(b, part);
    // By a power of two, exactly.
    let power = b.emit(Opcode::AddImmediate, (exponent, -127));
    let power = b.emit(Opcode::ShiftLeftImmediate, (power, 23));
    let reciprocal = b.emit(Opcode::Sub, (reciprocal, power));
    let least_of_all = b.constant(LEAST_DIVIDEND);
    let least = b.emit(Opcode::AddImmediate, (exponent, -APART));
    let least = b.emit(Opcode::Max, (least, least_of_all));
    let least = b.emit(Opcode::ShiftLeftImmediate, (least, 23));
    let most_of_all = b.constant(254);
    let most = b.emit(Opcode::AddImmediate, (exponent, APART));
    let most = b.emit(Opcode::Min, (most, most_of_all));
    let after = b.emit(Opcode::AddImmediate, (most, 1));
    let after = b.emit(Opcode::ShiftLeftImmediate, (after, 23));
    let span = b.emit(Opcode::Sub, (after, least));
    let below = below_normal(b, magnitude);
    let limit = b.constant(((MOST_DIVISOR + 1) << 23) - LEAST_NORMAL - 1);
    let beyond = b.emit(Opcode::CompareGtU, (below, limit));
    let exception = b.emit(Opcode::CompareGtUImmediate, (part, (ONE | FRACTION) - 1));
    let none = b.emit(Opcode::PredicateOr, (beyond, exception));
    let span = b.emit(Opcode::MuxImmediateR, (none, 0, span));
    Divisor { bits, magnitude, reciprocal, least, span }
}
