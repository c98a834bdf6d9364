//! Whether a loop can run on vectors, and how wide its lanes are.

use trainc_ir::Element;
use trainc_ir::loops::{Binary, Expr, Local, Node, Scalar, Stmt, Unary};

use super::super::Selector;
use super::super::addresses::element_bytes;
use super::Plan;
use super::reduce::reduction;
use crate::machine::Object;

impl Selector<'_> {
    /// Whether a loop can run on vectors: bytes of its narrowest element.
    pub(super) fn survey(&self, plan: &mut Plan<'_>) -> Option<i32> {
        let mut narrowest = None;
        let mut seen: Vec<(Local, bool)> = Vec::new();
        let mut stored = Vec::new();
        let disjoint = self.disjoint_rounds(plan.variable, plan.body);
        for statement in plan.body {
            match statement {
                Stmt::Assign(local, value) => {
                    if seen.iter().any(|(l, _)| l == local) {
                        return None;
                    }
                    if self.locals.value(*local).is_some() {
                        self.supported(plan, value, &seen, &stored, &mut narrowest)?;
                        seen.push((*local, true));
                    } else {
                        let (op, added) = reduction(*local, value)?;
                        let elsewhere = plan.body.iter().any(|s| match s {
                            Stmt::Assign(l, v) => l != local && v.mentions(|l| l == *local),
                            Stmt::Store(..) => s.expressions().any(|e| e.mentions(|l| l == *local)),
                            _ => true,
                        });
                        if elsewhere || !self.is_narrow(value) {
                            return None;
                        }
                        self.supported(plan, added, &seen, &stored, &mut narrowest)?;
                        // Sums grow; extremes and bits stay what they are made of.
                        let least = if op == Binary::Add { 4 } else { 2 };
                        plan.width = plan.width.max(least);
                        seen.push((*local, false));
                    }
                }
                Stmt::Store(buffer, index, value) => {
                    if !disjoint.contains(&self.object(buffer.0)) {
                        return None;
                    }
                    self.stream(plan, buffer.0, index, &mut narrowest)?;
                    self.supported(plan, value, &seen, &stored, &mut narrowest)?;
                    stored.push(self.object(buffer.0));
                }
                _ => return None,
            }
        }
        narrowest
    }

    /// Whether an access is to neighbouring elements.
    pub(super) fn stream(
        &self,
        plan: &mut Plan<'_>,
        buffer: u32,
        index: &Expr,
        narrowest: &mut Option<i32>,
    ) -> Option<()> {
        let element = self.kernel.buffers[buffer as usize].element;
        let size = element_bytes(element);
        let bytes = self.linear(index).scaled(size.into());
        let neighbours = bytes.factor(plan.variable) == i64::from(size)
            && element != Element::F32
            && self.steps(&bytes, plan.variable, &plan.changes);
        plan.width = plan.width.max(size);
        neighbours.then(|| *narrowest = Some(narrowest.map_or(size, |n| n.min(size))))
    }

    pub(super) fn stays(&self, plan: &Plan<'_>, e: &Expr) -> bool {
        !self.touches(&plan.changes, e)
    }

    pub(super) fn supported(
        &self,
        plan: &mut Plan<'_>,
        e: &Expr,
        seen: &[(Local, bool)],
        stored: &[Object],
        narrowest: &mut Option<i32>,
    ) -> Option<()> {
        if e.ty == Scalar::F32 || !self.is_narrow(e) {
            return None;
        }
        let (low, high) = self.intervals.get(e);
        plan.width = plan.width.max(match () {
            () if low >= i8::MIN.into() && high <= i8::MAX.into() => 1,
            () if low >= i16::MIN.into() && high <= i16::MAX.into() => 2,
            () => 4,
        });
        if self.stays(plan, e) {
            return Some(());
        }
        plan.width = plan.width.max(self.least_width(plan, e));
        let mut all = |operands: &[&Expr]| {
            operands.iter().try_for_each(|x| self.supported(plan, x, seen, stored, narrowest))
        };
        match &*e.node {
            Node::Integer(_) => Some(()),
            Node::Float(_) => None,
            Node::Local(local) => seen.contains(&(*local, true)).then_some(()),
            Node::Load(buffer, index) => {
                let after = stored.contains(&self.object(buffer.0));
                if after { None } else { self.stream(plan, buffer.0, index, narrowest) }
            }
            Node::Unary(op, x) => match op {
                Unary::Negate
                | Unary::LeadingZeros
                | Unary::Extend
                | Unary::Truncate
                | Unary::Not
                | Unary::BoolToInteger => all(&[x]),
                Unary::ExtendUnsigned if self.intervals.get(x).0 >= 0 => all(&[x]),
                _ => None,
            },
            Node::Binary(op, x, y) => {
                let amount = self.intervals.get(y);
                let in_word = amount.0 >= 0 && amount.1 < 32;
                match op {
                    Binary::Divide | Binary::Remainder => None,
                    Binary::ShiftLeft | Binary::ShiftRight if in_word => all(&[x, y]),
                    Binary::ShiftRightUnsigned
                        if in_word && (e.ty == Scalar::I32 || self.intervals.get(x).0 >= 0) =>
                    {
                        all(&[x, y])
                    }
                    Binary::ShiftLeft | Binary::ShiftRight | Binary::ShiftRightUnsigned => None,
                    _ => all(&[x, y]),
                }
            }
            Node::Compare(_, x, y) => all(&[x, y]),
            Node::Select(c, x, y) => all(&[c, x, y]),
        }
    }

    /// Bytes of the narrowest lanes that an operation has a form for.
    fn least_width(&self, plan: &Plan<'_>, e: &Expr) -> i32 {
        match &*e.node {
            Node::Binary(
                op @ (Binary::ShiftLeft | Binary::ShiftRight | Binary::ShiftRightUnsigned),
                x,
                y,
            ) => {
                // Halves shift by one amount for all, and hold negative values' low bits alone.
                let plain = *op != Binary::ShiftRightUnsigned || self.intervals.get(x).0 >= 0;
                if self.stays(plan, y) && self.intervals.get(y).1 < 16 && plain { 2 } else { 4 }
            }
            Node::Binary(Binary::Multiply, ..) | Node::Unary(Unary::LeadingZeros, _) => 4,
            _ => 1,
        }
    }
}
