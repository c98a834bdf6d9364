//! Makes the plan of a loop: what a round does, statement by statement.

use std::collections::{BTreeMap, BTreeSet};

use trainc_ir::loops::{Buffer, Comparison, Expr, Local, Node, Scalar, Stmt, each_statement};

use super::{Form, Known, Place, Step, Value, VectorLoop, Vectors};
use crate::dependence::{Access, rounds_are_apart};
use crate::intervals::{Interval, bits_of, in_bounds};
use crate::linear::{Linear, is_linear};
use crate::reasons::Reason;
use crate::reductions::Reduction;
use crate::speculation::may_compute_both;
use crate::uses::{Changes, count_uses};

/// Most nodes of an expression that stands wherever its local is read.
const INLINE_NODES: usize = 48;
/// Most nodes of what is done in each round though it is the same in all of them.
const REPEATED_NODES: usize = 4;
/// Most rounds of an inner loop that is written out.
const UNROLLED_ROUNDS: i64 = 4;

/// A plan in the making.
struct Survey<'a> {
    place: &'a Place<'a>,
    machine: &'a dyn Vectors,
    plan: VectorLoop,
    /// How often the body sets a local.
    times: BTreeMap<Local, usize>,
    /// The values of locals at this statement.
    current: BTreeMap<Local, Expr>,
    /// Variables of the open inner loops.
    inner: Vec<Local>,
    /// Locals that an open inner loop changes, and the values that it does so to.
    changed: BTreeMap<Local, Local>,
    /// Elements that are loaded.
    loaded: Vec<(Buffer, Linear)>,
}

/// The plan of a loop, unless one inside has one.
pub(super) fn plan(place: &Place<'_>, machine: &dyn Vectors) -> Result<VectorLoop, Reason> {
    let mut better = false;
    each_statement(place.body, &mut |statement| match statement {
        Stmt::For { variable, start, end, body } => {
            let inside = Place { variable: *variable, start, end, body, ..*place };
            better |= !machine.offers().nests || plan_alone(&inside, machine).is_ok();
        }
        Stmt::If { .. } | Stmt::Assign(..) | Stmt::Store(..) => {}
    });
    if better { Err(Reason::InnerLoop) } else { plan_alone(place, machine) }
}

fn plan_alone(place: &Place<'_>, machine: &dyn Vectors) -> Result<VectorLoop, Reason> {
    let Place { kernel, uses, variable, body, .. } = *place;
    // The loop itself mentions its variable once.
    if count_uses(kernel, body)[variable.0 as usize] + 1 != uses[variable.0 as usize] {
        return Err(Reason::UsedOutside(variable));
    }
    let reductions = Reduction::all(kernel, body, uses)?;
    let changes = Changes::of(body);
    if [place.start, place.end].iter().any(|e| changes.touch(e, &|a, b| machine.shares(a, b))) {
        return Err(Reason::UnknownRounds);
    }
    let mut times: BTreeMap<Local, usize> = BTreeMap::new();
    each_statement(body, &mut |s| {
        s.sets().into_iter().for_each(|l| *times.entry(l).or_default() += 1)
    });
    let plan = VectorLoop {
        variable,
        steps: Vec::new(),
        values: BTreeMap::new(),
        reductions,
        changes: Changes { locals: [variable].into(), ..changes },
        accesses: Vec::new(),
        element_bits: 64,
        lane_bits: 8,
    };
    let mut survey = Survey {
        place,
        machine,
        plan,
        times,
        current: BTreeMap::new(),
        inner: Vec::new(),
        changed: BTreeMap::new(),
        loaded: Vec::new(),
    };
    survey.block(body)?;
    let plan = survey.plan;
    if plan.accesses.is_empty() {
        return Err(Reason::NoAccess);
    }
    plan.pairs_are_whole()?;
    let in_place = |a, b| machine.in_place(a, b);
    rounds_are_apart(&plan.own_accesses(), variable, place.rounds(), &in_place)?;
    let (rounds, lanes) = (place.most_rounds(), machine.least_rounds(&plan));
    if rounds < lanes { Err(Reason::FewRounds { rounds, lanes }) } else { Ok(plan) }
}

impl VectorLoop {
    /// The accesses without loads that come along with the other element of their pair.
    fn own_accesses(&self) -> Vec<Access> {
        let first = |a: &Access| self.pair(a.buffer, &a.index).first;
        let own = |(at, a): &(usize, &Access)| {
            let with = |b: &Access| !b.stored && b.is_beside(a) && first(b) == first(a);
            let pairs = !a.stored && a.index.factor(self.variable) == 2;
            let stays = !self.changes.buffers.contains(&a.buffer);
            !(pairs && stays && self.accesses[..*at].iter().any(with))
        };
        self.accesses.iter().enumerate().filter(own).map(|(_, a)| a.clone()).collect()
    }

    /// Checks that stores to every other element have those between beside them, and that no load meets such stores, which
    /// wait for each other.
    fn pairs_are_whole(&self) -> Result<(), Reason> {
        let mut waiting: Vec<&Access> = Vec::new();
        let pairs = |a: &&Access| a.stored && a.index.factor(self.variable) == 2;
        for store in self.accesses.iter().filter(pairs) {
            let late = self.accesses.iter().any(|a| !a.stored && a.buffer == store.buffer);
            match waiting.iter().position(|other| store.is_beside(other)) {
                Some(at) if !late => _ = waiting.remove(at),
                _ => waiting.push(store),
            }
        }
        waiting.first().map_or(Ok(()), |store| Err(Reason::Strided(store.buffer, 2)))
    }
}

impl Survey<'_> {
    fn known(&self) -> Known<'_> {
        Known { plan: &self.plan, intervals: self.place.intervals, machine: self.machine }
    }

    fn is_uniform(&self, e: &Expr) -> bool {
        self.known().is_uniform(e)
    }

    fn widen(&mut self, bits: u32) {
        self.plan.lane_bits = self.plan.lane_bits.max(bits);
    }

    /// An expression of the values at this statement.
    fn current(&self, e: &Expr) -> Result<Expr, Reason> {
        let mut missing = None;
        self.replaced(e, &mut missing)
            .ok_or_else(|| missing.map_or(Reason::InnerLoop, Reason::Carried))
    }

    fn replaced(&self, e: &Expr, missing: &mut Option<Local>) -> Option<Expr> {
        let Some(local) = e.as_local() else {
            return e.map_operands(&mut |x| self.replaced(x, missing));
        };
        if let Some(value) = self.current.get(&local) {
            return Some(value.clone());
        }
        if self.times.contains_key(&local) && !self.inner.contains(&local) {
            *missing = Some(local);
            return None;
        }
        Some(e.clone())
    }

    /// Whether a value stands wherever its local is read: it is the same in all rounds, or an index.
    fn is_inline(&self, e: &Expr) -> bool {
        let index = || {
            let plain = |term: &Expr| {
                let local = term.as_local().filter(|l| !self.plan.values.contains_key(l));
                local.is_some() || self.is_uniform(term)
            };
            is_linear(e) && Linear::of(e).terms.iter().all(|(_, term)| plain(term))
        };
        nodes(e) <= INLINE_NODES && (self.is_uniform(e) || index())
    }

    /// Whether a value is the same in all rounds, takes some work, and can be had ahead of them.
    fn is_once(&self, local: Local, value: &Expr) -> bool {
        nodes(value) > REPEATED_NODES
            && self.is_uniform(value)
            && (self.place.rounds().is_some() || !value.loads())
            && self.times[&local] == 1
            && self.place.body.iter().any(|s| matches!(s, Stmt::Assign(l, _) if *l == local))
    }

    fn block(&mut self, block: &[Stmt]) -> Result<(), Reason> {
        block.iter().try_for_each(|statement| match statement {
            Stmt::Assign(local, value) => self.assign(*local, value),
            Stmt::Store(buffer, index, value) => self.store(*buffer, index, value),
            Stmt::For { variable, start, end, body } => {
                self.inner_loop(*variable, start, end, body)
            }
            Stmt::If { condition, then, otherwise } => self.branch(condition, then, otherwise),
        })
    }

    fn assign(&mut self, local: Local, value: &Expr) -> Result<(), Reason> {
        if let Some(at) = self.plan.reductions.iter().position(|r| r.local == local) {
            return self.reduce(at);
        }
        let value = self.current(value)?;
        if let Some(&target) = self.changed.get(&local) {
            self.demand(&value, self.bits(value.ty, self.plan.values[&target].interval))?;
            self.plan.steps.push(Step::Change(target, value));
            return Ok(());
        }
        let known = if self.is_once(local, &value) {
            self.plan.steps.push(Step::Once(local, value.clone()));
            Expr { ty: value.ty, node: Box::new(Node::Local(local)) }
        } else if self.is_inline(&value) {
            value
        } else {
            let interval = self.known().interval(&value);
            self.set(Some(local), value, interval, true)?
        };
        self.current.insert(local, known);
        Ok(())
    }

    /// Fewest bits of the lanes of a value.
    fn bits(&self, ty: Scalar, interval: Interval) -> u32 {
        match ty {
            Scalar::F32 => 32,
            Scalar::Bool => 8,
            Scalar::I32 | Scalar::I64 => bits_of(interval),
        }
    }

    /// A new value.
    fn set(
        &mut self,
        local: Option<Local>,
        e: Expr,
        interval: Interval,
        stays: bool,
    ) -> Result<Expr, Reason> {
        self.demand(&e, self.bits(e.ty, interval))?;
        let first = local.filter(|l| !self.plan.values.contains_key(l));
        let further = self.place.kernel.locals.len() + self.plan.values.len();
        let target = first.unwrap_or(Local(further as u32));
        let value = Value { local, interval, definition: stays.then(|| e.clone()) };
        self.plan.values.insert(target, value);
        self.plan.changes.locals.insert(target);
        let name = Expr { ty: e.ty, node: Box::new(Node::Local(target)) };
        self.plan.steps.push(Step::Assign(target, e));
        Ok(name)
    }

    fn reduce(&mut self, at: usize) -> Result<(), Reason> {
        let mut reduction = self.plan.reductions[at].clone();
        reduction.value = self.current(&reduction.value)?;
        let form = self.machine.reduction(&reduction, &self.known())?;
        self.compose(form)?;
        self.plan.steps.push(Step::Reduce(at, reduction.value));
        Ok(())
    }

    fn store(&mut self, buffer: Buffer, index: &Expr, value: &Expr) -> Result<(), Reason> {
        let (index, value) = (self.current(index)?, self.current(value)?);
        let bits = self.place.kernel.buffers[buffer.0 as usize].element.bits().max(8);
        self.widen(bits);
        self.demand(&value, bits)?;
        let sum = self.machine.index(&index);
        self.access(buffer, sum, true)?;
        let Survey { loaded, machine, .. } = self;
        loaded.retain(|(b, _)| !machine.shares(*b, buffer));
        self.plan.steps.push(Step::Store(buffer, index, value));
        Ok(())
    }

    fn access(&mut self, buffer: Buffer, index: Linear, stored: bool) -> Result<(), Reason> {
        let variable = self.plan.variable;
        let stride = index.factor(variable);
        let is_fixed = |e: &Expr| e.as_local() == Some(variable) || self.is_uniform(e);
        if !index.terms.iter().all(|(_, term)| is_fixed(term)) {
            return Err(Reason::Gathered(buffer));
        }
        if !(stride == 1 || stride == 2 && self.machine.offers().pairs) {
            return Err(Reason::Strided(buffer, stride));
        }
        let bits = self.place.kernel.buffers[buffer.0 as usize].element.bits().max(8);
        self.plan.element_bits = self.plan.element_bits.min(bits);
        let moves = self.inner.iter().any(|l| index.factor(*l) != 0);
        self.plan.accesses.push(Access { buffer, index, stored, moves });
        Ok(())
    }

    /// Asks for the low `bits` of a value in a lane of each round.
    fn demand(&mut self, e: &Expr, bits: u32) -> Result<(), Reason> {
        self.widen(self.machine.value_bits(e, bits, &self.known())?);
        if self.is_uniform(e) {
            return Ok(());
        }
        match &*e.node {
            Node::Local(local) if *local == self.plan.variable => {
                self.widen(self.machine.counter_bits().ok_or(Reason::Counter)?);
                Ok(())
            }
            Node::Local(_) => Ok(()),
            Node::Load(buffer, index) => {
                let index = self.machine.index(index);
                if self.loaded.iter().any(|(b, i)| b == buffer && *i == index) {
                    return Ok(());
                }
                self.loaded.push((*buffer, index.clone()));
                self.access(*buffer, index, false)
            }
            node => {
                let fits = |buffer, index: &Expr| self.is_in_bounds(buffer, index);
                match node {
                    Node::Select(c, a, b) if !may_compute_both(&[c], [a, b], &fits) => {
                        return Err(Reason::Speculation);
                    }
                    Node::Compare(op, a, _) if a.ty == Scalar::Bool && is_order(*op) => {
                        return Err(Reason::Comparison(*op));
                    }
                    _ => {}
                }
                let form = self.machine.form(e, bits, &self.known())?;
                self.compose(form)
            }
        }
    }

    fn compose(&mut self, form: Form<'_>) -> Result<(), Reason> {
        self.widen(form.bits);
        form.operands.into_iter().try_for_each(|(x, bits)| self.demand(x, bits))
    }

    fn is_in_bounds(&self, buffer: Buffer, index: &Expr) -> bool {
        in_bounds(self.place.kernel, buffer, self.known().interval(index))
    }

    /// A loop of few rounds is written out; another one, which must not store, is a step.
    fn inner_loop(
        &mut self,
        variable: Local,
        start: &Expr,
        end: &Expr,
        body: &[Stmt],
    ) -> Result<(), Reason> {
        let (start, end) = (self.current(start)?, self.current(end)?);
        if let (Some(first), Some(last)) = (start.as_constant(), end.as_constant())
            && last - first <= UNROLLED_ROUNDS
        {
            for round in first..last {
                self.current.insert(variable, Expr::i64(round));
                self.block(body)?;
            }
            self.current.remove(&variable);
            return Ok(());
        }
        let Changes { locals, buffers } = Changes::of(body);
        if !self.is_uniform(&start) || !self.is_uniform(&end) || !buffers.is_empty() {
            return Err(Reason::InnerLoop);
        }
        for local in locals {
            let value = self.current.get(&local).filter(|_| !self.changed.contains_key(&local));
            let Some(value) = value.cloned() else { continue };
            if value.ty == Scalar::Bool {
                return Err(Reason::Carried(local));
            }
            let interval = self.place.intervals.local(local);
            let value = self.set(Some(local), value, interval, false)?;
            if let Some(target) = value.as_local() {
                self.changed.insert(local, target);
            }
            self.current.insert(local, value);
        }
        let before: BTreeSet<Local> = self.current.keys().copied().collect();
        let outside = std::mem::take(&mut self.plan.steps);
        self.loaded.clear();
        self.inner.push(variable);
        self.block(body)?;
        self.inner.pop();
        self.loaded.clear();
        let steps = std::mem::replace(&mut self.plan.steps, outside);
        self.plan.steps.push(Step::Loop { variable, start, end, steps });
        self.current.retain(|local, _| before.contains(local));
        Ok(())
    }

    /// Branches that only assign become selections.
    fn branch(
        &mut self,
        condition: &Expr,
        then: &[Stmt],
        otherwise: &[Stmt],
    ) -> Result<(), Reason> {
        if !self.machine.offers().nests {
            return Err(Reason::Branch);
        }
        let mut condition = self.current(condition)?;
        if !self.is_uniform(&condition) {
            condition = self.set(None, condition, (0, 1), true)?;
        }
        for (branch, holds) in [(then, true), (otherwise, false)] {
            let mut own = Vec::new();
            for statement in branch {
                let Stmt::Assign(local, value) = statement else { return Err(Reason::Branch) };
                if self.plan.reductions.iter().any(|r| r.local == *local) {
                    return Err(Reason::Branch);
                }
                if self.current.contains_key(local) && !own.contains(local) {
                    let old = Expr { ty: value.ty, node: Box::new(Node::Local(*local)) };
                    let (c, value) = (condition.clone(), value.clone());
                    let chosen = if holds { c.select(value, old) } else { c.select(old, value) };
                    self.assign(*local, &chosen)?;
                } else {
                    own.push(*local);
                    let (now, mut fits) = (self.current(value)?, true);
                    now.each_load(&mut |b, index| fits &= self.is_in_bounds(b, index));
                    if !fits {
                        return Err(Reason::Speculation);
                    }
                    self.assign(*local, value)?;
                }
            }
            // In the rounds of the other branch these have no value.
            own.iter().for_each(|local| _ = self.current.remove(local));
        }
        Ok(())
    }
}

fn is_order(op: Comparison) -> bool {
    !matches!(op, Comparison::Equal | Comparison::NotEqual)
}

fn nodes(e: &Expr) -> usize {
    let mut nodes = 0;
    e.each(&mut |_| nodes += 1);
    nodes
}
