//! Whether a loop can run on vectors, and how wide its lanes are: what HVX can do, and what it cannot in any order.

use std::collections::BTreeSet;

use trainc_ir::loops::{Binary, Buffer, Comparison, Expr, Local, Node, Scalar, Stmt, Unary};
use trainc_loops::{Linear, Place, Reason, Reduction, Step, VectorLoop, Vectors, bits_of};

use super::super::Selector;
use super::Plan;
use crate::machine::Object;

impl Selector<'_> {
    /// The plan of a loop on vectors.
    pub(super) fn survey(
        &self,
        variable: Local,
        rounds: i64,
        body: &[Stmt],
    ) -> Result<VectorLoop, Reason> {
        let (kernel, rounds) = (self.kernel, Some(rounds));
        let plan =
            VectorLoop::of(&Place { kernel, uses: &self.uses, variable, rounds, body }, self)?;
        let disjoint = self.disjoint_rounds(variable, body);
        let (mut seen, mut stored): (BTreeSet<Local>, BTreeSet<Object>) = Default::default();
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
        for step in &plan.steps {
            // Values are known by the locals that they read.
            if let Step::Assign(local, _) = step
                && !seen.insert(*local)
            {
                return Err(Reason::Carried(*local));
            }
        }
        if plan.accesses.is_empty() { Err(Reason::NoAccess) } else { Ok(plan) }
    }

    pub(super) fn stays(&self, plan: &Plan, e: &Expr) -> bool {
        !self.touches(&plan.vectors.changes, e)
    }
}

impl Vectors for Selector<'_> {
    fn value_bits(&self, e: &Expr) -> Result<u32, Reason> {
        match e.ty {
            // As bits; operations on them are asked for by form.
            Scalar::F32 => Ok(32),
            _ if !self.is_narrow(e) => Err(Reason::Wide),
            _ => Ok(bits_of(self.intervals.get(e)).min(32)),
        }
    }

    fn form_bits(&self, e: &Expr, is_uniform: &dyn Fn(&Expr) -> bool) -> Result<u32, Reason> {
        let is_float = |e: &Expr| e.ty == Scalar::F32;
        match &*e.node {
            Node::Unary(
                Unary::LeadingZeros | Unary::ToBits | Unary::FromBits | Unary::FloatAbs,
                _,
            ) => Ok(32),
            Node::Select(c, x, y) if self.may_compute_both(c, x, y) => Ok(8),
            Node::Select(..) => Err(Reason::Speculation),
            Node::Unary(Unary::Negate, _) => Ok(8),
            _ if is_float(e) || e.operands().any(is_float) => Err(Reason::Float),
            Node::Unary(Unary::Extend | Unary::Truncate | Unary::Not | Unary::BoolToInteger, _) => {
                Ok(8)
            }
            Node::Unary(Unary::ExtendUnsigned, x) if self.intervals.get(x).0 >= 0 => Ok(8),
            Node::Unary(op, _) => Err(Reason::Unary(*op)),
            Node::Binary(op @ (Binary::Divide | Binary::Remainder), ..) => Err(Reason::Binary(*op)),
            Node::Binary(
                op @ (Binary::ShiftLeft | Binary::ShiftRight | Binary::ShiftRightUnsigned),
                x,
                y,
            ) => {
                let (amount, unsigned) = (self.intervals.get(y), self.intervals.get(x).0 >= 0);
                let logical = *op == Binary::ShiftRightUnsigned;
                if amount.0 < 0 || amount.1 >= 32 || logical && e.ty != Scalar::I32 && !unsigned {
                    return Err(Reason::Binary(*op));
                }
                // Halves shift by one amount for all, and hold negative values' low bits alone.
                let halves = is_uniform(y) && amount.1 < 16 && (!logical || unsigned);
                Ok(if halves { 16 } else { 32 })
            }
            Node::Binary(Binary::Multiply, ..) => Ok(32),
            Node::Compare(op, x, _)
                if x.ty == Scalar::Bool
                    && !matches!(op, Comparison::Equal | Comparison::NotEqual) =>
            {
                Err(Reason::Comparison(*op))
            }
            _ => Ok(8),
        }
    }

    fn reduction_bits(&self, reduction: &Reduction) -> Result<u32, Reason> {
        if reduction.value.ty == Scalar::F32 {
            return Err(Reason::Float);
        }
        let narrow = trainc_loops::is_narrow(self.intervals.local(reduction.local));
        match reduction.op {
            // Sums grow; extremes and bits stay what they are made of.
            Binary::Add if narrow => Ok(32),
            Binary::Or | Binary::Minimum | Binary::Maximum if narrow => Ok(16),
            _ => Err(Reason::Reduction(reduction.local)),
        }
    }

    fn counter_bits(&self) -> Option<u32> {
        Some(32)
    }

    fn index(&self, index: &Expr) -> Linear {
        self.linear(index)
    }

    fn shares(&self, a: Buffer, b: Buffer) -> bool {
        self.object(a.0) == self.object(b.0)
    }
}
