//! Statements: assignments, branches, counted loops.

use trainc_ir::loops::{Binary, Expr, Local, Node, Scalar, Stmt, Unary, height};
use trainc_loops::{Changes, Linear};

use super::Selector;
use super::integers::constant;
use crate::machine::{Builder, Class, Count, Opcode};

/// Values that are computed ahead of loops, all open loops together.
const MOST_HOISTED: usize = 10;

impl Selector<'_> {
    pub(super) fn block(&mut self, b: &mut Builder, block: &[Stmt]) {
        let mut done = 0;
        for (at, statement) in block.iter().enumerate() {
            if at < done {
                continue;
            }
            let quotients = self.independent_quotients(&block[at..]);
            if quotients > 1 {
                self.quotients(b, &block[at..at + quotients]);
                done = at + quotients;
                continue;
            }
            match statement {
                Stmt::Assign(local, value) => {
                    let register = self.register(*local);
                    let fixed = value.ty == Scalar::Bool && self.locals.value(*local).is_some();
                    match register.class() {
                        _ if fixed => {
                            let condition = self.condition(b, value);
                            self.predicates.insert(*local, condition);
                        }
                        Class::RR => self.pair_into(b, register, value),
                        _ => self.value_into(b, register, value),
                    }
                    let changes = Changes { locals: [*local].into(), ..Changes::default() };
                    self.forget(&changes);
                }
                Stmt::Store(buffer, index, value) => {
                    self.store(b, *buffer, index, value);
                    self.forget(&Changes { buffers: [*buffer].into(), ..Changes::default() });
                }
                Stmt::If { condition, then, otherwise } => {
                    let (predicate, inverted) = self.condition(b, condition);
                    let (then, otherwise) =
                        if inverted { (otherwise, then) } else { (then, otherwise) };
                    let known = self.cache.clone();
                    // Both closures need the selector, one after the other.
                    let this = std::cell::RefCell::new(&mut *self);
                    b.branch(
                        predicate,
                        |b| this.borrow_mut().block(b, then),
                        |b| {
                            let mut this = this.borrow_mut();
                            this.cache = known.clone();
                            this.block(b, otherwise);
                        },
                    );
                    self.cache = known;
                    for branch in [then, otherwise] {
                        let changes = self.changes(branch, None);
                        self.forget(&changes);
                    }
                }
                Stmt::For { variable, start, end, body } => {
                    self.counted(b, *variable, start, end, body);
                }
            }
        }
    }

    pub(super) fn forget(&mut self, changes: &Changes) {
        let mut cache = std::mem::take(&mut self.cache);
        cache.forget(changes, &|a, b| self.object(a.0) == self.object(b.0));
        self.cache = cache;
    }

    fn counted(
        &mut self,
        b: &mut Builder,
        variable: Local,
        start: &Expr,
        end: &Expr,
        body: &[Stmt],
    ) {
        let (first, last) = (self.intervals.get(start), self.intervals.get(end));
        if first.0 >= last.1 {
            return;
        }
        if let Some(rounds) = Linear::distance(start, end)
            && let Ok(rounds) = u32::try_from(rounds)
            && i32::try_from(rounds).is_ok()
        {
            let done = self.vectorise(b, variable, (start, end), rounds, body);
            let rest = rounds - done;
            if rest == 0 || done == 0 && self.fill(b, variable, start, rounds, body) {
                return;
            }
            let start = match (done, start.as_constant()) {
                (0, _) => start.clone(),
                (_, Some(first)) => Expr::i64(first + i64::from(done)),
                _ => start.clone() + Expr::i64(done.into()),
            };
            return self.rounds(b, variable, &start, Count::Constant(rest), body);
        }
        let difference = end.clone() - start.clone();
        if first.1 < last.0 {
            let count = b.fresh(Class::R);
            self.value_into(b, count, &difference);
            return self.rounds(b, variable, start, Count::Register(count), body);
        }
        let some = start.clone().less(end.clone());
        let (predicate, inverted) = self.condition(b, &some);
        let known = self.cache.clone();
        let this = std::cell::RefCell::new(&mut *self);
        let run = |b: &mut Builder| {
            let mut this = this.borrow_mut();
            let count = b.fresh(Class::R);
            this.value_into(b, count, &difference);
            this.rounds(b, variable, start, Count::Register(count), body);
        };
        match inverted {
            false => b.when(predicate, run),
            true => b.branch(predicate, |_| {}, run),
        }
        self.cache = known;
        let changes = self.changes(body, Some(variable));
        self.forget(&changes);
    }

    /// A loop that runs at least once.
    fn rounds(
        &mut self,
        b: &mut Builder,
        variable: Local,
        start: &Expr,
        count: Count,
        body: &[Stmt],
    ) {
        let register = self.register(variable);
        match register.class() {
            Class::RR => self.pair_into(b, register, start),
            _ => self.value_into(b, register, start),
        }
        let changes = self.changes(body, Some(variable));
        self.forget(&changes);
        let (pointers, hoisted) = (self.pointers.len(), self.hoisted);
        self.open_pointers(b, variable, start, body);
        let known = self.cache.clone();
        self.hoist(b, body, &changes, true);
        let divisors = self.divisors.len();
        self.prepare_divisors(b, body, &changes);
        let outside = std::mem::take(&mut self.disjoint);
        self.disjoint.extend(self.disjoint_rounds(variable, body));
        let name = &self.kernel.locals[variable.0 as usize].0;
        let mut round = |b: &mut Builder| {
            self.block(b, body);
            self.step_pointers(b, pointers);
            match register.class() {
                Class::RR => {
                    let one = b.emit(Opcode::CombineImmediate, (0, 1));
                    b.emit_to(register, Opcode::AddD, (register, one));
                }
                _ => b.emit_to(register, Opcode::AddImmediate, (register, 1)),
            }
        };
        match count {
            Count::Constant(1) => round(b),
            _ => b.repeat(count, name, round),
        }
        self.disjoint = outside;
        self.pointers.truncate(pointers);
        self.divisors.truncate(divisors);
        self.hoisted = hoisted;
        self.cache = known;
    }

    /// Computes what stays the same in all rounds ahead of a loop.
    fn hoist(&mut self, b: &mut Builder, body: &[Stmt], changes: &Changes, always: bool) {
        for statement in body {
            match statement {
                Stmt::Assign(_, value) => self.hoist_value(b, value, changes, always),
                Stmt::Store(_, _, value) => {
                    self.hoist_value(b, value, changes, always);
                    if height(body) == 0 && constant(value).is_some() {
                        self.keep(b, value);
                    }
                }
                Stmt::If { condition, then, otherwise } => {
                    self.hoist_value(b, condition, changes, always);
                    self.hoist(b, then, changes, false);
                    self.hoist(b, otherwise, changes, false);
                }
                Stmt::For { start, end, body, .. } => {
                    self.hoist_value(b, start, changes, always);
                    self.hoist_value(b, end, changes, always);
                    let rounds = start.as_constant().zip(end.as_constant());
                    self.hoist(b, body, changes, always && rounds.is_some_and(|(s, e)| s < e));
                }
            }
        }
    }

    fn hoist_value(&mut self, b: &mut Builder, e: &Expr, changes: &Changes, always: bool) {
        match &*e.node {
            Node::Float(_) => return self.keep(b, e),
            Node::Integer(_) | Node::Local(_) => return,
            // Loads whose index is a constant are in bounds whether or not they are reached.
            Node::Load(buffer, index) => {
                let stays = !self.touches(changes, e);
                if stays && index.as_constant().is_some() {
                    let count = self.kernel.buffers[buffer.0 as usize].count;
                    if index.as_constant().is_some_and(|i| (0..count as i64).contains(&i)) {
                        self.keep(b, e);
                    }
                }
                return;
            }
            _ => {}
        }
        let free = matches!(
            &*e.node,
            Node::Unary(Unary::Extend | Unary::ExtendUnsigned | Unary::Truncate, _)
        );
        let stays = !e.loads() && !self.touches(changes, e);
        if stays && e.ty != Scalar::Bool && !free && (always || !slow(e)) {
            return self.keep(b, e);
        }
        e.operands().for_each(|x| self.hoist_value(b, x, changes, always));
    }

    fn keep(&mut self, b: &mut Builder, e: &Expr) {
        let wide = !self.is_narrow(e);
        if self.hoisted < MOST_HOISTED && self.cache.get(e, wide).is_none() {
            self.hoisted += 1;
            match wide {
                true => _ = self.pair(b, e),
                false => _ = self.value(b, e),
            }
        }
    }
}

/// Whether an expression calls a routine.
fn slow(e: &Expr) -> bool {
    let own = matches!(
        &*e.node,
        Node::Unary(Unary::Sqrt, _) | Node::Binary(Binary::Divide | Binary::Remainder, ..)
    );
    own || e.operands().any(slow)
}
