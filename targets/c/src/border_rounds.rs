//! How many rounds loops have whose bounds depend on the round of a loop around them, as windows at a border have fewer taps.

use std::collections::BTreeMap;

use trainc_ir::loops::{Binary, Expr, Local, Node, Unary};

/// Definitions that bounds are followed through.
const DEPTH: u32 = 8;
/// Rounds of the loop around that are looked at.
const ROUNDS: i64 = 4096;

/// What is known of the locals at a place in a kernel.
#[derive(Default)]
pub(crate) struct BorderRounds {
    definitions: BTreeMap<Local, Expr>,
    /// Loops around whose bounds are numbers.
    loops: BTreeMap<Local, (i64, i64)>,
}

impl BorderRounds {
    pub(crate) fn assign(&mut self, local: Local, value: &Expr) {
        self.definitions.insert(local, value.clone());
    }

    pub(crate) fn open(&mut self, variable: Local, start: &Expr, end: &Expr) {
        if let (Some(start), Some(end)) = (start.as_constant(), end.as_constant()) {
            self.loops.insert(variable, (start, end));
        }
    }

    pub(crate) fn close(&mut self, variable: Local) {
        self.loops.remove(&variable);
    }

    /// All rounds of a loop in all rounds of the one that its bounds depend on, and how many these are; `None` where bounds depend on
    /// several loops, or on anything else.
    pub(crate) fn mean(&self, start: &Expr, end: &Expr) -> Option<(u64, u64)> {
        let mut outer = None;
        let known = [start, end].iter().all(|e| self.depends(e, &mut outer, DEPTH));
        let (variable, (first, after)) = match outer {
            _ if !known => return None,
            None => (None, (0, 1)),
            Some(variable) => (Some(variable), *self.loops.get(&variable)?),
        };
        let count = after.checked_sub(first).filter(|n| (1..=ROUNDS).contains(n))?;
        let mut all = 0u64;
        for at in first..after {
            let [start, end] = [start, end].map(|e| self.value(e, variable.map(|v| (v, at))));
            all = all.saturating_add(end?.saturating_sub(start?).max(0) as u64);
        }
        Some((all, count as u64))
    }

    /// Whether a value depends on one loop at most, `outer`.
    fn depends(&self, e: &Expr, outer: &mut Option<Local>, depth: u32) -> bool {
        match &*e.node {
            Node::Integer(_) => true,
            Node::Local(local) if self.loops.contains_key(local) => {
                *outer.get_or_insert(*local) == *local
            }
            Node::Local(local) => {
                let definition = self.definitions.get(local).filter(|_| depth > 0);
                definition.is_some_and(|e| self.depends(e, outer, depth - 1))
            }
            Node::Unary(Unary::Extend | Unary::Truncate, x) => self.depends(x, outer, depth),
            Node::Binary(_, a, b) => self.depends(a, outer, depth) && self.depends(b, outer, depth),
            _ => false,
        }
    }

    /// A value that [`Self::depends`] accepts.
    fn value(&self, e: &Expr, at: Option<(Local, i64)>) -> Option<i64> {
        match &*e.node {
            Node::Integer(value) => Some(*value),
            Node::Local(local) => match at {
                Some((variable, round)) if variable == *local => Some(round),
                _ => self.value(self.definitions.get(local)?, at),
            },
            Node::Unary(_, x) => self.value(x, at),
            Node::Binary(op, a, b) => {
                let (a, b) = (self.value(a, at)?, self.value(b, at)?);
                match op {
                    Binary::Add => a.checked_add(b),
                    Binary::Subtract => a.checked_sub(b),
                    Binary::Multiply => a.checked_mul(b),
                    Binary::Divide => a.checked_div(b),
                    Binary::Remainder => a.checked_rem(b),
                    Binary::Minimum => Some(a.min(b)),
                    Binary::Maximum => Some(a.max(b)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_ir::loops::Scalar;

    fn local(number: u32) -> Expr {
        Expr { ty: Scalar::I64, node: Box::new(Node::Local(Local(number))) }
    }

    /// Windows of 3 taps at 8 places with a border of 1: two of them have 2 taps.
    #[test]
    fn windows_at_a_border() {
        let number = Expr::i64;
        let mut rounds = BorderRounds::default();
        rounds.open(Local(0), &number(0), &number(8));
        rounds.assign(Local(2), &(number(9) - local(0)));
        let start = (number(1) - local(0)).maximum(number(0));
        let end = local(2).minimum(number(3));
        assert_eq!(rounds.mean(&start, &end), Some((22, 8)));
        assert_eq!(rounds.mean(&number(2), &number(5)), Some((3, 1)));
        // Of two loops nothing is known, nor of a loop that has ended.
        rounds.open(Local(1), &number(0), &number(4));
        assert_eq!(rounds.mean(&local(1), &end), None);
        rounds.close(Local(0));
        assert_eq!(rounds.mean(&start, &end), None);
        // Nor of what depends on itself.
        rounds.assign(Local(3), &(local(3) + number(1)));
        assert_eq!(rounds.mean(&number(0), &local(3)), None);
    }
}
