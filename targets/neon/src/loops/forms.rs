//! What NEON's vectors can do: the forms of operations, and which bits of their operands these take.
//!
//! Integers are computed in the narrowest lanes that hold their values, as far as the intervals prove it; sums,
//! differences, products and bit operations also in narrower ones where only low bits are asked for.

use trainc_ir::loops::{Binary, Buffer, Comparison, Expr, LoopKernel, Node, Role, Scalar, Unary};
use trainc_loops::{
    Form, Interval, Known, Offers, Reason, Reduction, VectorLoop, Vectors, bits_of, magnitude_of,
};

use crate::level::Level;

/// The vectors of a level, for the loops of a kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine<'k> {
    pub(super) level: Level,
    pub(super) kernel: &'k LoopKernel,
}

/// Rounds that may run at a time, the most first: values take four registers at most, two where there are 16 alone.
pub(super) fn counts(level: Level, plan: &VectorLoop) -> Vec<usize> {
    let most = if level == Level::Armv7 { 256 } else { 512 };
    let all: &[usize] = match plan.element_bits {
        8 => &[64, 32, 16, 8],
        16 => &[16, 8],
        _ => &[8, 4],
    };
    let fits = |count: &usize| *count <= 8 || plan.lane_bits as usize * count <= most;
    all.iter().copied().filter(fits).collect()
}

impl Vectors for Machine<'_> {
    fn offers(&self) -> Offers {
        Offers { pairs: true, nests: true }
    }

    fn counter_bits(&self) -> Option<u32> {
        Some(8)
    }

    fn form<'e>(&self, e: &'e Expr, bits: u32, known: &Known<'_>) -> Result<Form<'e>, Reason> {
        let view = View { known: *known, least: 8 };
        match e.ty {
            Scalar::Bool => self.truth(e, bits, &view),
            Scalar::F32 => self.float(e),
            Scalar::I32 | Scalar::I64 => self.integer(e, bits.min(view.natural(e)), &view),
        }
    }

    fn reduction<'e>(&self, r: &'e Reduction, known: &Known<'_>) -> Result<Form<'e>, Reason> {
        let (view, value) = (View { known: *known, least: 8 }, &r.value);
        let bits = view.reduction(r);
        match r.op {
            _ if value.ty == Scalar::F32 && known.is_magnitude(value) => {
                Ok(Form::of_one(value, 32))
            }
            _ if value.ty == Scalar::F32 => Err(Reason::FloatOrder(r.local)),
            // `sdot` adds four bytes or products of bytes to each lane.
            Binary::Add if self.level.has_dots() && bits == 32 && view.is_byte(value) => {
                Ok(Form::of_one(value, 8))
            }
            Binary::Add
                if self.level.has_dots() && bits == 32 && view.byte_factors(value).is_some() =>
            {
                Ok(Form::of(value, 8))
            }
            // Products of half the width go into the sum as they are.
            Binary::Add if view.is_wide_product(value, bits) => Ok(Form::of(value, bits / 2)),
            // Pairs of neighbours add up in wider lanes.
            Binary::Add if !known.is_uniform(value) => {
                Ok(Form::of_one(value, view.natural(value).min(bits)))
            }
            Binary::Minimum | Binary::Maximum if bits == 64 => Err(Reason::Reduction(r.local)),
            _ => Ok(Form::of_one(value, bits)),
        }
    }

    fn least_rounds(&self, plan: &VectorLoop) -> i64 {
        counts(self.level, plan).last().map_or(0, |&count| count as i64) + plan.reads_beyond()
    }

    fn in_place(&self, a: Buffer, b: Buffer) -> bool {
        let is_input = |b: Buffer| match self.kernel.buffers[b.0 as usize].role {
            Role::Input(_) | Role::InputScale(_) => Some(true),
            Role::Output(_) | Role::OutputScale(_) => Some(false),
            Role::RunContext | Role::Scratch => None,
        };
        is_input(a).zip(is_input(b)).is_some_and(|(a, b)| a != b)
    }
}

impl Machine<'_> {
    /// A truth value, in lanes of `bits` if there is a choice.
    fn truth<'e>(&self, e: &'e Expr, bits: u32, view: &View<'_>) -> Result<Form<'e>, Reason> {
        let Node::Compare(comparison, a, b) = &*e.node else { return Ok(Form::of(e, bits)) };
        let (op, armv7) = (*comparison, self.level == Level::Armv7);
        match a.ty {
            Scalar::Bool => Ok(Form::of(e, bits)),
            Scalar::F32 if armv7 => Err(Reason::Float),
            Scalar::F32 => Ok(Form::of(e, 32)),
            Scalar::I32 | Scalar::I64 => {
                let (bits, _) = view.comparison(op, a, b);
                // No comparisons of 64 bits: the sign of a difference that fits.
                let (of_a, of_b) = (view.interval(a), view.interval(b));
                let fits = of_a.0 - of_b.1 >= i64::MIN.into() && of_a.1 - of_b.0 <= i64::MAX.into();
                if bits == 64 && armv7 && !(op == Comparison::Less && fits) {
                    return Err(Reason::Comparison(op));
                }
                Ok(Form::of(e, bits))
            }
        }
    }

    /// A float. Vectors of Armv7 flush subnormal numbers, so that there only copies are exact.
    fn float<'e>(&self, e: &'e Expr) -> Result<Form<'e>, Reason> {
        let copies = matches!(&*e.node, Node::Select(..) | Node::Unary(Unary::FromBits, _));
        match self.level {
            Level::Armv7 if !copies => Err(Reason::Float),
            _ => Ok(Form::of(e, 32)),
        }
    }

    /// An integer, in lanes of no more than its natural width.
    fn integer<'e>(&self, e: &'e Expr, bits: u32, view: &View<'_>) -> Result<Form<'e>, Reason> {
        let armv7 = self.level == Level::Armv7;
        let of_one = |x, bits| Ok(Form::of_one(x, bits));
        if let Some(truth) = truth_of(e) {
            return of_one(truth, bits);
        }
        match &*e.node {
            Node::Unary(op, x) => match op {
                Unary::Negate | Unary::Extend | Unary::Truncate => of_one(x, bits),
                Unary::ExtendUnsigned if bits <= 32 || view.interval(x).0 >= 0 => of_one(x, bits),
                Unary::ToInteger if armv7 => Err(Reason::Float),
                Unary::ExtendUnsigned | Unary::LeadingZeros | Unary::ToInteger | Unary::ToBits => {
                    of_one(x, 32)
                }
                _ => Err(Reason::Unary(*op)),
            },
            Node::Binary(op, a, b) => match op {
                Binary::Multiply if view.is_wide_product(e, bits) => Ok(Form::of(e, bits / 2)),
                Binary::Multiply if bits == 64 => match view.is_of_words(a, b) {
                    true => Ok(Form::of(e, 32)),
                    false => Err(Reason::Wide),
                },
                op if is_ring(*op) => Ok(Form::of(e, bits)),
                Binary::Minimum | Binary::Maximum => {
                    if let Some(x) = view.without_limit(*op, a, b) {
                        return of_one(x, bits);
                    }
                    if view.saturates(e, a, b, bits) {
                        let mut form = Form { bits, operands: Vec::new() };
                        saturated_extremum(*op, a, b, view, &mut form);
                        return Ok(form);
                    }
                    let both = view.natural(a).max(view.natural(b));
                    if both == 64 && armv7 { Err(Reason::Wide) } else { Ok(Form::of(e, both)) }
                }
                Binary::ShiftLeft | Binary::ShiftRight | Binary::ShiftRightUnsigned => {
                    let left = *op == Binary::ShiftLeft;
                    let width = if left { bits } else { view.right_shift(e, *op, a).0 };
                    match b.as_constant() {
                        Some(_) => of_one(a, width),
                        None => Ok(Form::of(e, width)),
                    }
                }
                _ => Err(Reason::Binary(*op)),
            },
            Node::Select(c, a, b) => {
                let magnitude = magnitude_of(c, a, b, &view.known);
                match magnitude.map(|x| (x, bits.max(view.natural(x)))) {
                    Some((x, width)) if width < 64 || !armv7 => of_one(x, width),
                    _ => Ok(Form::of(e, bits)),
                }
            }
            _ => Err(Reason::Wide),
        }
    }
}

/// Operands of the extremum of two values as the nearest ones that a form's lanes hold.
fn saturated_extremum<'e>(
    op: Binary,
    a: &'e Expr,
    b: &'e Expr,
    view: &View<'_>,
    form: &mut Form<'e>,
) {
    match clamped(op, a, b, form.bits) {
        Some(x) => saturated(x, view, form),
        None => [a, b].into_iter().for_each(|x| saturated(x, view, form)),
    }
}

/// Operands of a value as the nearest one that a form's lanes hold.
fn saturated<'e>(e: &'e Expr, view: &View<'_>, form: &mut Form<'e>) {
    let bits = form.bits;
    match (&*e.node, view.saturation(e, bits)) {
        (Node::Binary(op, a, b), Saturation::Extremum) => {
            saturated_extremum(*op, a, b, view, form);
        }
        (Node::Binary(_, a, b), Saturation::Sum) => form.operands.extend([(a, bits), (b, bits)]),
        (_, Saturation::Rounding) => {
            form.operands.extend(view.rounding_shift(e, bits).map(|(x, _)| (x, 2 * bits)));
        }
        _ => form.operands.push((e, bits.max(view.natural(e)))),
    }
}

/// The truth value that an integer of 0 or 1 is.
pub(super) fn truth_of(e: &Expr) -> Option<&Expr> {
    match &*e.node {
        Node::Unary(Unary::BoolToInteger, truth) => Some(truth),
        Node::Unary(Unary::Extend | Unary::ExtendUnsigned | Unary::Truncate, x) => truth_of(x),
        _ => None,
    }
}

/// Whether an operation on integers needs only as many bits of its operands as of its result.
fn is_ring(op: Binary) -> bool {
    matches!(
        op,
        Binary::Add | Binary::Subtract | Binary::Multiply | Binary::And | Binary::Or | Binary::Xor
    )
}

/// The operand of an extremum of which the other one is the end of a lane's range.
pub(super) fn clamped<'e>(op: Binary, a: &'e Expr, b: &'e Expr, bits: u32) -> Option<&'e Expr> {
    let end = match op {
        Binary::Minimum => (1i64 << (bits - 1)) - 1,
        _ => -1i64 << (bits - 1),
    };
    let limited = |(limit, _): &(&Expr, &Expr)| limit.as_constant() == Some(end);
    [(a, b), (b, a)].into_iter().find(limited).map(|(_, x)| x)
}

/// How the nearest value that lanes hold is computed.
pub(super) enum Saturation {
    /// They hold it anyway.
    None,
    /// A limit that fits is one of the saturated values.
    Extremum,
    /// Instructions saturate.
    Sum,
    /// By narrowing that also shifts and rounds.
    Rounding,
    /// By narrowing.
    Narrowing,
}

/// What is known of a plan's values, in lanes of some width at least.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) known: Known<'a>,
    /// Fewest bits of a lane.
    pub(super) least: u32,
}

impl View<'_> {
    pub(super) fn interval(&self, e: &Expr) -> Interval {
        self.known.interval(e)
    }

    /// Fewest bits of a lane that hold an expression's values.
    pub(super) fn natural(&self, e: &Expr) -> u32 {
        bits_of(self.interval(e)).max(self.least)
    }

    /// Bits of the lanes in which a reduction of integers is kept.
    pub(super) fn reduction(&self, r: &Reduction) -> u32 {
        let of_local = bits_of(self.known.intervals.local(r.local));
        match r.op {
            Binary::Add => of_local.max(32),
            // The local's own bits join at the end.
            Binary::And | Binary::Or | Binary::Xor => self.natural(&r.value),
            _ => of_local.max(self.natural(&r.value)),
        }
    }

    /// Lanes in which two integers are compared, and whether without signs.
    pub(super) fn comparison(&self, op: Comparison, a: &Expr, b: &Expr) -> (u32, bool) {
        let negative = self.interval(a).0 < 0 || self.interval(b).0 < 0;
        match (op == Comparison::LessUnsigned && negative, a.ty) {
            (true, Scalar::I32) => (32, true),
            (true, _) => (64, true),
            (false, _) => (self.natural(a).max(self.natural(b)), false),
        }
    }

    /// Lanes of a right shift, and whether without signs: otherwise the whole type's bits do not count, and both shifts
    /// are one.
    pub(super) fn right_shift(&self, e: &Expr, op: Binary, a: &Expr) -> (u32, bool) {
        match (op == Binary::ShiftRightUnsigned && self.interval(a).0 < 0, e.ty) {
            (true, Scalar::I32) => (32, true),
            (true, _) => (64, true),
            (false, _) => (self.natural(a), false),
        }
    }

    /// The operand that an extremum always is.
    pub(super) fn without_limit<'e>(
        &self,
        op: Binary,
        a: &'e Expr,
        b: &'e Expr,
    ) -> Option<&'e Expr> {
        let (of_a, of_b) = (self.interval(a), self.interval(b));
        let (smaller, larger) = match () {
            () if of_a.1 <= of_b.0 => (a, b),
            () if of_b.1 <= of_a.0 => (b, a),
            () => return None,
        };
        Some(if op == Binary::Minimum { smaller } else { larger })
    }

    /// Whether an extremum that lanes hold is that of the nearest values that they hold.
    pub(super) fn saturates(&self, e: &Expr, a: &Expr, b: &Expr, bits: u32) -> bool {
        let (a, b) = (self.natural(a), self.natural(b));
        bits >= self.natural(e) && bits < a.max(b) && bits >= a.min(b)
    }

    /// How the nearest value that lanes hold is computed.
    pub(super) fn saturation(&self, e: &Expr, bits: u32) -> Saturation {
        let fits = |e: &Expr| self.natural(e) <= bits;
        match &*e.node {
            _ if fits(e) => Saturation::None,
            Node::Binary(Binary::Minimum | Binary::Maximum, a, b) if fits(a) || fits(b) => {
                Saturation::Extremum
            }
            Node::Binary(Binary::Add | Binary::Subtract, a, b) if fits(a) && fits(b) => {
                Saturation::Sum
            }
            _ if self.rounding_shift(e, bits).is_some() => Saturation::Rounding,
            _ => Saturation::Narrowing,
        }
    }

    /// What is shifted right and rounded, half up, on the way from twice so many bits: `(x + 2^(n - 1)) >> n`, and `n`.
    pub(super) fn rounding_shift<'e>(&self, e: &'e Expr, bits: u32) -> Option<(&'e Expr, i64)> {
        let Node::Binary(Binary::ShiftRight, sum, amount) = &*e.node else { return None };
        let Node::Binary(Binary::Add, x, half) = &*sum.node else { return None };
        let amount = amount.as_constant().filter(|n| (1..=i64::from(bits)).contains(n))?;
        let half = half.as_constant().filter(|half| *half == 1 << (amount - 1))?;
        let limit = if e.ty == Scalar::I32 { i32::MAX.into() } else { i64::MAX };
        let exact = self.interval(x).1 + i128::from(half) <= i128::from(limit);
        let fits = bits <= 16 && self.natural(x) <= 2 * bits && !self.known.is_uniform(x);
        (exact && fits).then_some((x, amount))
    }

    /// Whether an expression is a product of two values of half the width.
    pub(super) fn is_wide_product(&self, e: &Expr, bits: u32) -> bool {
        let Node::Binary(Binary::Multiply, a, b) = &*e.node else { return false };
        let half = bits / 2;
        let fits = |x: &Expr| bits_of(self.interval(x)) <= half;
        half >= self.least && !self.known.is_uniform(e) && fits(a) && fits(b)
    }

    /// Whether a value that differs between rounds is a signed byte.
    pub(super) fn is_byte(&self, e: &Expr) -> bool {
        !self.known.is_uniform(e) && self.natural(e) == 8
    }

    /// The factors of a product that differs between rounds, if they are signed bytes.
    pub(super) fn byte_factors<'e>(&self, e: &'e Expr) -> Option<(&'e Expr, &'e Expr)> {
        let Node::Binary(Binary::Multiply, a, b) = &*e.node else { return None };
        let bytes = self.natural(a) == 8 && self.natural(b) == 8;
        (bytes && !self.known.is_uniform(e)).then_some((a, b))
    }

    /// Whether both factors of a product are unsigned words.
    pub(super) fn is_of_words(&self, a: &Expr, b: &Expr) -> bool {
        let is_word = |(low, high): Interval| low >= 0 && high <= u32::MAX.into();
        is_word(self.interval(a)) && is_word(self.interval(b))
    }
}
