//! What is known about indices: intervals, and loads that are in bounds whether or not a condition asks for them.

use trainc_ir::loops::{Binary, Expr, Local, Node, Scalar, Stmt, Unary};

use super::loop_kernel::Emitter;

/// Smallest and largest value of an I64.
pub(super) type Interval = (i64, i64);

/// How often each local is assigned (a loop counts once).
pub(super) fn count_assignments(statements: &[Stmt], counts: &mut [usize]) {
    for statement in statements {
        match statement {
            Stmt::Assign(local, _) => counts[local.0 as usize] += 1,
            Stmt::Store(..) => {}
            Stmt::For { variable, body, .. } => {
                counts[variable.0 as usize] += 1;
                count_assignments(body, counts);
            }
            Stmt::If { then, otherwise, .. } => {
                count_assignments(then, counts);
                count_assignments(otherwise, counts);
            }
        }
    }
}

impl Emitter<'_, '_> {
    /// Records what is known about a local from here to the end of the block: nothing if it is assigned elsewhere.
    pub(super) fn learn(&mut self, local: Local, interval: Option<Interval>) {
        let once = self.assignments[local.0 as usize] == 1;
        self.intervals[local.0 as usize] = if once { interval } else { None };
    }

    /// An interval that holds every value of an I64 expression where it is computed.
    pub(super) fn interval(&self, e: &Expr) -> Option<Interval> {
        if e.ty != Scalar::I64 {
            return None;
        }
        match &*e.node {
            Node::Integer(value) => Some((*value, *value)),
            Node::Local(local) => self.intervals[local.0 as usize],
            Node::Unary(Unary::ExtendUnsigned, _) => Some((0, u32::MAX.into())),
            Node::Unary(Unary::Extend, _) => Some((i32::MIN.into(), i32::MAX.into())),
            Node::Binary(op, a, b) => {
                let constant = b.as_constant().filter(|&c| c > 0);
                match (op, constant) {
                    (Binary::And, Some(mask)) => return Some((0, mask)),
                    (Binary::Remainder, Some(divisor)) => {
                        let low = match self.interval(a) {
                            Some((low, _)) if low >= 0 => 0,
                            _ => 1 - divisor,
                        };
                        return Some((low, divisor - 1));
                    }
                    _ => {}
                }
                let ((a0, a1), (b0, b1)) = (self.interval(a)?, self.interval(b)?);
                match op {
                    Binary::Add => Some((a0.checked_add(b0)?, a1.checked_add(b1)?)),
                    Binary::Subtract => Some((a0.checked_sub(b1)?, a1.checked_sub(b0)?)),
                    Binary::Multiply => {
                        let products = [
                            a0.checked_mul(b0)?,
                            a0.checked_mul(b1)?,
                            a1.checked_mul(b0)?,
                            a1.checked_mul(b1)?,
                        ];
                        Some((*products.iter().min()?, *products.iter().max()?))
                    }
                    Binary::Minimum => Some((a0.min(b0), a1.min(b1))),
                    Binary::Maximum => Some((a0.max(b0), a1.max(b1))),
                    // Toward zero is monotone.
                    Binary::Divide => constant.map(|c| (a0 / c, a1 / c)),
                    _ => None,
                }
            }
            Node::Select(_, a, b) => {
                let ((a0, a1), (b0, b1)) = (self.interval(a)?, self.interval(b)?);
                Some((a0.min(b0), a1.max(b1)))
            }
            Node::Float(_) | Node::Load(..) | Node::Unary(..) | Node::Compare(..) => None,
        }
    }

    /// Whether a load is in bounds wherever its index can be computed.
    pub(super) fn in_bounds(&self, buffer: trainc_ir::loops::Buffer, index: &Expr) -> bool {
        let count = self.kernel.buffers[buffer.0 as usize].count as i64;
        self.interval(index).is_some_and(|(low, high)| low >= 0 && high < count)
    }

    /// Whether both sides of a select may be computed: each load is in bounds, or happens in any case (by the
    /// condition or the other side).
    pub(super) fn speculable(&self, condition: &Expr, then: &Expr, otherwise: &Expr) -> bool {
        let [mut certain, mut a, mut b] = [const { Vec::new() }; 3];
        loads(condition, &mut certain);
        loads(then, &mut a);
        loads(otherwise, &mut b);
        let covered = |side: &[&Expr], other: &[&Expr]| {
            side.iter().all(|load| {
                let bounded = match &*load.node {
                    Node::Load(buffer, index) => self.in_bounds(*buffer, index),
                    _ => false,
                };
                bounded || certain.contains(load) || other.contains(load)
            })
        };
        covered(&a, &b) && covered(&b, &a)
    }
}

/// The loads of an expression that are not at a constant index (which is in bounds).
pub(super) fn loads<'a>(expr: &'a Expr, out: &mut Vec<&'a Expr>) {
    match &*expr.node {
        Node::Integer(_) | Node::Float(_) | Node::Local(_) => {}
        Node::Load(_, index) => {
            if index.as_constant().is_none() {
                out.push(expr);
            }
            loads(index, out);
        }
        Node::Unary(_, x) => loads(x, out),
        Node::Binary(_, a, b) | Node::Compare(_, a, b) => {
            loads(a, out);
            loads(b, out);
        }
        Node::Select(condition, a, b) => {
            loads(condition, out);
            loads(a, out);
            loads(b, out);
        }
    }
}
