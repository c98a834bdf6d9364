//! Which loops of a kernel have rounds that may run in any order, and at the same time.
//!
//! The test is sufficient, not necessary. A round must keep to itself: every local that it sets is declared in it, and
//! in each buffer that the loop writes, what round `v` reads or writes lies in a window `c * v + low..=c * v + high` that
//! is narrower than `c`, so that windows of different rounds do not meet.

use std::collections::{BTreeMap, BTreeSet};

use trainc_ir::loops::{Binary, Buffer, Expr, Local, LoopKernel, Node, Role, Stmt, Unary};

use crate::interval::{Interval, Intervals, all, exact, within};
use crate::locals::{Locals, each_local};

/// What a loop with independent rounds takes from outside.
#[derive(Clone, Debug)]
pub(crate) struct Independent {
    /// The rounds are `0..rounds`.
    pub(crate) rounds: i32,
    /// Locals from outside that are read.
    pub(crate) locals: BTreeSet<Local>,
}

/// A loop's rounds if they are independent and each has a loop of its own, so that dividing them pays. `number` is that
/// of the body's first statement.
pub(crate) fn independent(
    kernel: &LoopKernel,
    locals: &Locals,
    intervals: &Intervals<'_>,
    statement: &Stmt,
    number: usize,
) -> Option<Independent> {
    let Stmt::For { variable, start, end, body } = statement else { return None };
    let rounds = i32::try_from(end.as_constant()?).ok()?;
    let nested = body.iter().any(|s| matches!(s, Stmt::For { .. }));
    if start.as_constant() != Some(0) || rounds < 2 || !nested {
        return None;
    }
    let mut survey = Survey::new(locals, number);
    survey.block(body);
    if !survey.assigned.keys().all(|local| survey.declared.contains(local)) {
        return None;
    }
    let windows = Windows { variable: *variable, assigned: &survey.assigned, intervals };
    for buffer in survey.accesses.iter().filter(|a| a.stores).map(|a| a.buffer) {
        let mut window: Option<Linear> = None;
        for access in survey.accesses.iter().filter(|a| may_share(kernel, buffer, a.buffer)) {
            let one = windows.of(access.index);
            let (low, high) = window.map_or(one.rest, |w| w.rest);
            if window.is_some_and(|w| w.factor != one.factor) {
                return None;
            }
            let rest = (low.min(one.rest.0), high.max(one.rest.1));
            window = Some(Linear { factor: one.factor, rest });
        }
        let window = window?;
        if window.rest.1 - window.rest.0 >= window.factor {
            return None;
        }
    }
    let mut outside = survey.read;
    outside.retain(|l| !survey.assigned.contains_key(l) && !survey.counters.contains(l));
    outside.remove(variable);
    Some(Independent { rounds, locals: outside })
}

/// Whether an access to `other` may meet what is written. The first result may take the place of an operand of its type,
/// element on element; nothing else meets.
fn may_share(kernel: &LoopKernel, written: Buffer, other: Buffer) -> bool {
    let [a, b] = [written, other].map(|id| &kernel.buffers[id.0 as usize]);
    let takes_place = matches!((&a.role, &b.role), (Role::Output(0), Role::Input(_)));
    written == other || takes_place && a.element == b.element && a.count == b.count
}

struct Access<'b> {
    buffer: Buffer,
    index: &'b Expr,
    stores: bool,
}

/// What a block does.
struct Survey<'b> {
    locals: &'b Locals,
    /// Number of the next statement.
    number: usize,
    accesses: Vec<Access<'b>>,
    /// Locals and their value, if it is set once.
    assigned: BTreeMap<Local, Option<&'b Expr>>,
    declared: BTreeSet<Local>,
    counters: BTreeSet<Local>,
    read: BTreeSet<Local>,
}

impl<'b> Survey<'b> {
    fn new(locals: &'b Locals, number: usize) -> Survey<'b> {
        Survey {
            locals,
            number,
            accesses: Vec::new(),
            assigned: BTreeMap::new(),
            declared: BTreeSet::new(),
            counters: BTreeSet::new(),
            read: BTreeSet::new(),
        }
    }

    fn block(&mut self, block: &'b [Stmt]) {
        for statement in block {
            let number = self.number;
            self.number += 1;
            match statement {
                Stmt::Assign(local, value) => {
                    self.expression(value);
                    let first = !self.assigned.contains_key(local);
                    self.assigned.insert(*local, first.then_some(value));
                    if self.locals.declares(*local, number) {
                        self.declared.insert(*local);
                    }
                }
                Stmt::Store(buffer, index, value) => {
                    self.expression(index);
                    self.expression(value);
                    self.accesses.push(Access { buffer: *buffer, index, stores: true });
                }
                Stmt::For { variable, start, end, body } => {
                    self.counters.insert(*variable);
                    self.expression(start);
                    self.expression(end);
                    self.block(body);
                }
                Stmt::If { condition, then, otherwise } => {
                    self.expression(condition);
                    self.block(then);
                    self.block(otherwise);
                }
            }
        }
    }

    fn expression(&mut self, e: &'b Expr) {
        each_local(e, &mut |local| _ = self.read.insert(local));
        self.loads(e);
    }

    fn loads(&mut self, e: &'b Expr) {
        match &*e.node {
            Node::Integer(_) | Node::Float(_) | Node::Local(_) => {}
            Node::Load(buffer, index) => {
                self.accesses.push(Access { buffer: *buffer, index, stores: false });
                self.loads(index);
            }
            Node::Unary(_, x) => self.loads(x),
            Node::Binary(_, a, b) | Node::Compare(_, a, b) => {
                self.loads(a);
                self.loads(b);
            }
            Node::Select(c, a, b) => {
                self.loads(c);
                self.loads(a);
                self.loads(b);
            }
        }
    }
}

/// `factor * variable + rest`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Linear {
    factor: i128,
    rest: Interval,
}

struct Windows<'a> {
    variable: Local,
    assigned: &'a BTreeMap<Local, Option<&'a Expr>>,
    intervals: &'a Intervals<'a>,
}

impl Windows<'_> {
    fn of(&self, e: &Expr) -> Linear {
        self.split(e).unwrap_or(Linear { factor: 0, rest: self.intervals.get(e) })
    }

    /// An expression as exact arithmetic on the loop's variable.
    fn split(&self, e: &Expr) -> Option<Linear> {
        match &*e.node {
            Node::Local(local) if *local == self.variable => {
                Some(Linear { factor: 1, rest: (0, 0) })
            }
            Node::Local(local) => self.assigned.get(local).copied().flatten().map(|v| self.of(v)),
            Node::Unary(Unary::Extend, x) => Some(self.of(x)),
            Node::Binary(op, a, b) => {
                let bounds = (self.intervals.get(a), self.intervals.get(b));
                if !within(exact(*op, e.ty, bounds.0, bounds.1)?, all(e.ty)) {
                    return None;
                }
                let (x, y) = (self.of(a), self.of(b));
                match op {
                    Binary::Add => Some(Linear {
                        factor: x.factor.checked_add(y.factor)?,
                        rest: (x.rest.0.checked_add(y.rest.0)?, x.rest.1.checked_add(y.rest.1)?),
                    }),
                    Binary::Subtract => Some(Linear {
                        factor: x.factor.checked_sub(y.factor)?,
                        rest: (x.rest.0.checked_sub(y.rest.1)?, x.rest.1.checked_sub(y.rest.0)?),
                    }),
                    Binary::Multiply => match (bounds.0, bounds.1) {
                        (_, (k, same)) if k == same => x.scaled(k),
                        ((k, same), _) if k == same => y.scaled(k),
                        _ => None,
                    },
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

impl Linear {
    fn scaled(self, by: i128) -> Option<Linear> {
        let (a, b) = (self.rest.0.checked_mul(by)?, self.rest.1.checked_mul(by)?);
        Some(Linear { factor: self.factor.checked_mul(by)?, rest: (a.min(b), a.max(b)) })
    }
}
