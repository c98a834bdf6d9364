//! Whether a loop can run on vectors, and how wide its lanes are: what HVX can do, and what it cannot in any order.

use std::collections::BTreeSet;

use trainc_ir::loops::{Binary, Buffer, Expr, Local, Node, Scalar, Stmt, Unary};
use trainc_loops::{Form, Known, Linear, Place, Reason, Reduction, VectorLoop, Vectors, bits_of};

use super::super::Selector;
use super::forms::{Bytes, ClampedSum, is_short_product, shifted_by_one_more, shifted_sum};
use super::{Plan, lanes};
use crate::machine::Object;

impl Selector<'_> {
    /// The plan of a loop on vectors.
    pub(super) fn survey(
        &self,
        variable: Local,
        (start, end): (&Expr, &Expr),
        body: &[Stmt],
    ) -> Result<VectorLoop, Reason> {
        let (kernel, uses, intervals) = (self.kernel, &self.uses, &self.intervals);
        let place = Place { kernel, uses, intervals, variable, start, end, body };
        let plan = VectorLoop::of(&place, self)?;
        let disjoint = self.disjoint_rounds(variable, body);
        let mut stored: BTreeSet<Object> = BTreeSet::new();
        for access in &plan.accesses {
            let object = self.object(access.buffer.0);
            // Stores wait for the end of a round.
            let late = !access.stored && stored.contains(&object);
            if late || access.stored && !disjoint.contains(&object) {
                return Err(Reason::RoundsMeet(access.buffer));
            }
            if access.stored {
                stored.insert(object);
            }
        }
        Ok(plan)
    }

    /// What is known of a plan's expressions.
    pub(super) fn of_plan<'a>(&'a self, plan: &'a Plan) -> Known<'a> {
        Known { plan: &plan.vectors, intervals: &self.intervals, machine: self }
    }

    /// Of two shifts to the right in lanes of words, what is shifted, and the sum of the amounts, which stays.
    pub(super) fn one_more<'e>(&self, plan: &Plan, e: &'e Expr) -> Option<(&'e Expr, Expr)> {
        let [x, amount] = shifted_by_one_more(e, &self.of_plan(plan))?;
        let fits = plan.width == 4 && self.stays(plan, amount);
        fits.then(|| (x, amount.clone() + Expr::i32(1)))
    }

    /// Of a sum of words that is shifted right, its parts, and the amount less 1, which stays.
    pub(super) fn half_sum<'e>(&self, plan: &Plan, e: &'e Expr) -> Option<([&'e Expr; 2], Expr)> {
        let (parts, amount) = shifted_sum(e, &self.of_plan(plan))?;
        Some((parts, amount.clone() - Expr::i64(1)))
    }

    /// Of a product in lanes of words, its factors, if one of them is not negative and has 16 bits: the second.
    pub(super) fn product_by_half<'e>(
        &self,
        plan: &Plan,
        e: &'e Expr,
    ) -> Option<(&'e Expr, &'e Expr)> {
        let Node::Binary(Binary::Multiply, x, y) = &*e.node else { return None };
        let is_half = |x: &Expr| {
            let (low, high) = self.of_plan(plan).interval(x);
            low >= 0 && high <= u16::MAX.into()
        };
        let halves = [(x, y), (y, x)].into_iter().find(|(_, half)| is_half(half));
        halves.filter(|_| plan.width == 4)
    }

    pub(super) fn stays(&self, plan: &Plan, e: &Expr) -> bool {
        !self.touches(&plan.vectors.changes, e)
    }
}

impl Vectors for Selector<'_> {
    fn value_bits(&self, e: &Expr, _: u32, known: &Known<'_>) -> Result<u32, Reason> {
        match (e.ty, bits_of(known.interval(e))) {
            // As bits; operations on them are asked for by form.
            (Scalar::F32, _) => Ok(32),
            (Scalar::I64, 64) => Err(Reason::Wide),
            (_, bits) => Ok(bits.min(32)),
        }
    }

    fn form<'e>(&self, e: &'e Expr, _: u32, known: &Known<'_>) -> Result<Form<'e>, Reason> {
        let in_lanes = |bits| Ok(Form::of(e, bits));
        let is_float = |e: &Expr| e.ty == Scalar::F32;
        if let Some(sum) = ClampedSum::of(e) {
            let bits = sum.operands.map(|x| bits_of(known.interval(x))).into_iter().max();
            if let Some(bits @ (8 | 16)) = bits {
                return Ok(Form { bits, operands: sum.operands.map(|x| (x, bits)).to_vec() });
            }
        }
        if let Some((operands, _)) = shifted_sum(e, known) {
            return Ok(Form { bits: 32, operands: operands.map(|x| (x, 32)).to_vec() });
        }
        match &*e.node {
            Node::Unary(
                Unary::LeadingZeros | Unary::ToBits | Unary::FromBits | Unary::FloatAbs,
                _,
            ) => in_lanes(32),
            Node::Select(..) | Node::Unary(Unary::Negate, _) => in_lanes(8),
            _ if is_float(e) || e.operands().any(is_float) => Err(Reason::Float),
            Node::Unary(Unary::Extend | Unary::Truncate | Unary::Not | Unary::BoolToInteger, _) => {
                in_lanes(8)
            }
            Node::Unary(Unary::ExtendUnsigned, x) if known.interval(x).0 >= 0 => in_lanes(8),
            Node::Unary(op, _) => Err(Reason::Unary(*op)),
            Node::Binary(op @ (Binary::Divide | Binary::Remainder), ..) => Err(Reason::Binary(*op)),
            Node::Binary(
                op @ (Binary::ShiftLeft | Binary::ShiftRight | Binary::ShiftRightUnsigned),
                x,
                y,
            ) => {
                let (amount, unsigned) = (known.interval(y), known.interval(x).0 >= 0);
                let logical = *op == Binary::ShiftRightUnsigned;
                if amount.0 < 0 || amount.1 >= 32 || logical && e.ty != Scalar::I32 && !unsigned {
                    return Err(Reason::Binary(*op));
                }
                // Halves shift by one amount for all, and hold negative values' low bits alone.
                let halves = known.is_uniform(y) && amount.1 < 16 && (!logical || unsigned);
                in_lanes(if halves { 16 } else { 32 })
            }
            Node::Binary(Binary::Multiply, ..) if is_short_product(e, known) => in_lanes(16),
            Node::Binary(Binary::Multiply, ..) => in_lanes(32),
            _ => in_lanes(8),
        }
    }

    fn reduction<'e>(&self, r: &'e Reduction, known: &Known<'_>) -> Result<Form<'e>, Reason> {
        if r.value.ty == Scalar::F32 {
            // Bits of floats without a sign have the floats' order.
            return match known.is_magnitude(&r.value) {
                true => Ok(Form::of_one(&r.value, 32)),
                false => Err(Reason::Float),
            };
        }
        let narrow = trainc_loops::is_narrow(self.intervals.local(r.local));
        match r.op {
            // Sums grow; extremes and bits stay what they are made of.
            Binary::Add if narrow => Ok(match Bytes::of(&r.value, known) {
                Some(bytes) => {
                    let operands = bytes.factors().iter().map(|x| (*x, 8)).collect();
                    Form { bits: 8, operands }
                }
                None => Form::of_one(&r.value, 32),
            }),
            Binary::Or | Binary::Minimum | Binary::Maximum if narrow => {
                Ok(Form::of_one(&r.value, 16))
            }
            _ => Err(Reason::Reduction(r.local)),
        }
    }

    fn counter_bits(&self) -> Option<u32> {
        Some(32)
    }

    fn least_rounds(&self, plan: &VectorLoop) -> i64 {
        lanes(plan)
    }

    fn index(&self, index: &Expr) -> Linear {
        self.linear(index)
    }

    fn shares(&self, a: Buffer, b: Buffer) -> bool {
        self.object(a.0) == self.object(b.0)
    }
}
