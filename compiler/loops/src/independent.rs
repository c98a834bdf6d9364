//! Which loops of a kernel have rounds that may run in any order, and at the same time.
//!
//! The test is sufficient, not necessary. A round must keep to itself: every local that it sets is declared in it, and
//! in each buffer that the loop writes, what round `v` reads or writes lies in a window `c * v + low..=c * v + high` that
//! is narrower than `c`, so that windows of different rounds do not meet; or in windows that repeat every so many elements
//! (a channel of each image), of which those of all rounds fit in one period.

use std::collections::{BTreeMap, BTreeSet};

use trainc_ir::loops::{
    Binary, Buffer, Expr, Local, LoopKernel, Node, Role, Stmt, Unary, each_expression,
    each_statement,
};

use crate::intervals::{Interval, Intervals, all, exact, within};
use crate::locals::{Locals, count};
use crate::uses::Changes;

/// What a loop with independent rounds takes from outside.
#[derive(Clone, Debug)]
pub struct Independent {
    /// The rounds are `0..rounds`.
    pub rounds: i32,
    /// Locals from outside that are read.
    pub locals: BTreeSet<Local>,
}

/// A loop's rounds if they are independent, and dividing them pays: each has a loop of its own, or there are `many`. `number` is
/// that of the body's first statement.
pub fn independent(
    kernel: &LoopKernel,
    locals: &Locals,
    intervals: &Intervals<'_>,
    statement: &Stmt,
    number: usize,
    many: i32,
) -> Option<Independent> {
    let Stmt::For { body, .. } = statement else { return None };
    let nested = has_loop(body);
    let free = free_rounds((kernel, locals, intervals), statement, number, &[], &|_| true)?;
    (free.rounds >= if nested { 2 } else { many }).then_some(free)
}

/// Whether statements have a loop among them, whatever it depends on.
fn has_loop(body: &[Stmt]) -> bool {
    body.iter().any(|statement| match statement {
        Stmt::For { .. } => true,
        Stmt::If { then, otherwise, .. } => has_loop(then) || has_loop(otherwise),
        Stmt::Assign(..) | Stmt::Store(..) => false,
    })
}

/// A loop's rounds if they are independent in each round of the loops around it, whose variables `around` are. `number` is
/// that of the body's first statement; `overwrites` says of which operands the first result may take the place.
pub fn free_rounds(
    (kernel, locals, intervals): (&LoopKernel, &Locals, &Intervals<'_>),
    statement: &Stmt,
    number: usize,
    around: &[Local],
    overwrites: &dyn Fn(usize) -> bool,
) -> Option<Independent> {
    let Stmt::For { variable, start, end, body } = statement else { return None };
    let rounds = i32::try_from(end.as_constant()?).ok()?;
    if start.as_constant() != Some(0) || rounds < 1 {
        return None;
    }
    let (inside, last) = (Changes::of(body), number + count(body));
    let (mut accesses, mut counters, mut outside) = (Vec::new(), Vec::new(), BTreeSet::new());
    each_statement(body, &mut |statement| match statement {
        Stmt::Store(buffer, index, _) => accesses.push((*buffer, index)),
        Stmt::For { variable, start, end, .. } => {
            counters.push(Counter { variable: *variable, start, end });
        }
        Stmt::Assign(..) | Stmt::If { .. } => {}
    });
    each_expression(body, &mut |e| {
        e.each_local(&mut |local| _ = outside.insert(local));
        e.each_load(&mut |buffer, index| accesses.push((buffer, index)));
    });
    let inside = &inside;
    let windows =
        Windows { variable: *variable, rounds, around, inside, locals, counters, intervals };
    let declared = |local: &Local| {
        windows.counts(*local)
            || locals.declared_at(*local).is_some_and(|n| (number..last).contains(&n))
    };
    if !inside.locals.iter().all(declared) {
        return None;
    }
    // A single round meets no other.
    for &buffer in inside.buffers.iter().filter(|_| rounds > 1) {
        let meets = |other| other == buffer || takes_place(kernel, buffer, other, overwrites);
        let mut window: Option<Window> = None;
        for (_, index) in accesses.iter().filter(|(b, _)| meets(*b)) {
            let one = windows.of(index);
            if window.as_ref().is_some_and(|w| w.factor != one.factor || w.base != one.base) {
                return None;
            }
            window = Some(match window {
                None => one,
                Some(w) => Window {
                    low: w.low.min(one.low),
                    high: w.high.max(one.high),
                    // What does not repeat does so at any distance.
                    period: match (w.period, one.period) {
                        (Some(a), Some(b)) if a != b => return None,
                        (a, b) => a.or(b),
                    },
                    ..one
                },
            });
        }
        let window = window?;
        let width = window.high - window.low;
        let reach = i128::from(rounds - 1) * window.factor + width;
        if width >= window.factor || window.period.is_some_and(|period| reach >= period) {
            return None;
        }
    }
    outside.retain(|local| local != variable && !inside.locals.contains(local));
    Some(Independent { rounds, locals: outside })
}

/// Whether the first result takes the place of an operand of its type, element on element; nothing else shares memory.
fn takes_place(
    kernel: &LoopKernel,
    result: Buffer,
    operand: Buffer,
    overwrites: &dyn Fn(usize) -> bool,
) -> bool {
    let [a, b] = [result, operand].map(|id| &kernel.buffers[id.0 as usize]);
    let roles = match (&a.role, &b.role) {
        (Role::Output(0), Role::Input(operand)) => overwrites(*operand),
        _ => false,
    };
    roles && a.element == b.element && a.count == b.count
}

/// The variable of a loop.
struct Counter<'b> {
    variable: Local,
    start: &'b Expr,
    end: &'b Expr,
}

/// Values `base + factor * variable + low..=base + factor * variable + high`.
#[derive(Clone, Debug)]
struct Window {
    /// What the variables of the loops around add, each by its factor.
    base: BTreeMap<Local, i128>,
    factor: i128,
    low: i128,
    high: i128,
    /// And those a multiple of this away.
    period: Option<i128>,
}

/// A sum of multiples of loop variables, and of something in an interval.
#[derive(Clone, Debug)]
struct Form {
    factors: BTreeMap<Local, i128>,
    rest: Interval,
}

impl Form {
    fn within(rest: Interval) -> Form {
        Form { factors: BTreeMap::new(), rest }
    }

    /// `self + by * other`, if the numbers stay in bounds.
    fn plus(mut self, by: i128, other: &Form) -> Option<Form> {
        for (&local, &factor) in &other.factors {
            let own = self.factors.entry(local).or_insert(0);
            *own = own.checked_add(factor.checked_mul(by)?)?;
        }
        self.factors.retain(|_, factor| *factor != 0);
        let (a, b) = (other.rest.0.checked_mul(by)?, other.rest.1.checked_mul(by)?);
        self.rest = (self.rest.0.checked_add(a.min(b))?, self.rest.1.checked_add(a.max(b))?);
        Some(self)
    }
}

/// Bounds of indices. That a loop's bounds depend on the variables around it is taken into account: a window at the edge
/// of a padded image ends with the image.
struct Windows<'a> {
    variable: Local,
    /// Of its loop.
    rounds: i32,
    /// Variables of the loops around, which stay while this one runs.
    around: &'a [Local],
    /// What the loop changes.
    inside: &'a Changes,
    locals: &'a Locals,
    /// In the order of the text.
    counters: Vec<Counter<'a>>,
    intervals: &'a Intervals<'a>,
}

impl Windows<'_> {
    fn of(&self, e: &Expr) -> Window {
        let mut form = self.form(e);
        let factor = form.factors.remove(&self.variable).unwrap_or(0);
        let base: BTreeMap<Local, i128> =
            self.around.iter().filter_map(|local| form.factors.remove_entry(local)).collect();
        let period = self.period(factor, &mut form);
        let negated = Form::within((0, 0)).plus(-1, &form);
        match (self.highest(&form), negated.and_then(|f| self.highest(&f))) {
            (Some(high), Some(negated)) => Window { base, factor, low: -negated, high, period },
            // Never narrow enough.
            _ => Window { base, factor: 0, low: 0, high: 0, period },
        }
    }

    /// Takes from a form the variables whose steps are multiples of a distance that all rounds fit in, and gives that distance.
    fn period(&self, factor: i128, form: &mut Form) -> Option<i128> {
        let all = factor.checked_mul(self.rounds.into()).filter(|&all| all > 0)?;
        let far = |step: &i128| step.checked_abs().is_some_and(|step| step >= all);
        let steps = form.factors.values().filter(|step| far(step)).filter_map(|s| s.checked_abs());
        let period = steps.min()?;
        if form.factors.values().filter(|step| far(step)).any(|step| step % period != 0) {
            return None;
        }
        form.factors.retain(|_, step| !far(step));
        Some(period)
    }

    fn form(&self, e: &Expr) -> Form {
        self.split(e).unwrap_or_else(|| Form::within(self.intervals.get(e)))
    }

    /// An expression as exact arithmetic on loop variables.
    fn split(&self, e: &Expr) -> Option<Form> {
        match &*e.node {
            Node::Local(local) if self.counts(*local) || self.around.contains(local) => {
                Some(Form { factors: [(*local, 1)].into(), rest: (0, 0) })
            }
            Node::Local(local) => self.value(*local).map(|v| self.form(v)),
            Node::Unary(Unary::Extend, x) => Some(self.form(x)),
            Node::Binary(op, a, b) => {
                let (of_a, of_b) = (self.intervals.get(a), self.intervals.get(b));
                if !within(exact(*op, e.ty, of_a, of_b)?, all(e.ty)) {
                    return None;
                }
                let zero = || Form::within((0, 0));
                match op {
                    Binary::Add => self.form(a).plus(1, &self.form(b)),
                    Binary::Subtract => self.form(a).plus(-1, &self.form(b)),
                    Binary::Multiply if of_b.0 == of_b.1 => zero().plus(of_b.0, &self.form(a)),
                    Binary::Multiply if of_a.0 == of_a.1 => zero().plus(of_a.0, &self.form(b)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// What a local of the loop, or of the loops around, is, if it is set once.
    fn value(&self, local: Local) -> Option<&Expr> {
        let near = |_: &&Expr| !self.around.is_empty() || self.inside.locals.contains(&local);
        self.locals.value(local).filter(near)
    }

    fn counts(&self, local: Local) -> bool {
        local == self.variable || self.counters.iter().any(|c| c.variable == local)
    }

    /// No value of a form exceeds this; found by putting bounds in the place of the innermost variable, the least of
    /// what they give.
    fn highest(&self, form: &Form) -> Option<i128> {
        let has = |local: Local| form.factors.get(&local).copied();
        let inner = self.counters.iter().rev().find_map(|c| Some((c, has(c.variable)?)));
        let Some((counter, factor)) = inner else {
            // Bounds may have brought in the variable, and those around.
            return form.factors.iter().try_fold(form.rest.1, |sum, (&local, &factor)| {
                let (low, high) = self.intervals.local(local);
                sum.checked_add(factor.checked_mul(low)?.max(factor.checked_mul(high)?))
            });
        };
        let mut without = form.clone();
        without.factors.remove(&counter.variable);
        let (low, high) = self.intervals.local(counter.variable);
        let mut bounds = vec![Form::within(if factor > 0 { (high, high) } else { (low, low) })];
        if factor > 0 {
            let below = |f: Form| f.plus(-1, &Form::within((1, 1)));
            bounds.extend(self.limits(counter.end, Some(low)).into_iter().filter_map(below));
        } else {
            bounds.extend(self.limits(counter.start, None));
        }
        let values = bounds.iter().filter_map(|b| without.clone().plus(factor, b));
        values.filter_map(|f| self.highest(&f)).min()
    }

    /// What a loop variable is below if it is below the end `e` of its loop and never below `low`; without `low`, what
    /// it is not below if it is not below the start `e`.
    fn limits(&self, e: &Expr, low: Option<i128>) -> Vec<Form> {
        match (&*e.node, low) {
            (Node::Binary(Binary::Minimum, a, b), Some(_))
            | (Node::Binary(Binary::Maximum, a, b), None) => {
                [self.limits(a, low), self.limits(b, low)].concat()
            }
            // Where the one that is not above `low` is the larger, the loop has no rounds.
            (Node::Binary(Binary::Maximum, a, b), Some(least)) => {
                if self.intervals.get(b).1 <= least {
                    self.limits(a, low)
                } else if self.intervals.get(a).1 <= least {
                    self.limits(b, low)
                } else {
                    Vec::new()
                }
            }
            (Node::Local(local), _) => match self.value(*local) {
                Some(value) => self.limits(value, low),
                None => vec![self.form(e)],
            },
            _ => vec![self.form(e)],
        }
    }
}
