//! The statements of a loop's body, done for several rounds at a time.
//!
//! Each assignment of a local names a new value (single assignment), so that an expression keeps its meaning when it is
//! printed later; indices stay symbolic until they address memory.

use std::collections::{BTreeMap, BTreeSet};

use trainc_c::Scope;
use trainc_ir::loops::{Binary, Buffer, Expr, Local, Node, Role, Scalar, Stmt, each_statement};
use trainc_loops::{
    Access, Changes, Interval, Leaves, Linear, bits_of, element_interval, in_bounds, interval_of,
    is_linear, may_compute_both,
};

use super::lanes::{Kind, Lanes, part_name};
use super::memory::{PendingStore, StridedLoad};
use super::reduce::Kept;
use crate::level::Level;

/// Most nodes of an expression that is printed wherever its local is read.
const SYMBOLIC_NODES: usize = 48;
/// Most rounds of an inner loop that is written out.
const UNROLLED_ROUNDS: i64 = 4;

/// A line of the loop's body.
#[derive(Clone, Debug)]
pub(super) enum Line {
    Code(String),
    Open(String),
    Close,
}

/// A value that has a vector.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) lanes: Lanes,
    interval: Interval,
    /// What it is, if it never changes.
    definition: Option<Expr>,
}

/// The rounds that run at a time.
pub(super) struct Round<'a, 'p, 'k> {
    pub(super) scope: &'a mut Scope<'p, 'k>,
    pub(super) level: Level,
    /// How many rounds.
    pub(super) count: usize,
    pub(super) variable: Local,
    /// Locals that the body assigns, and the variables of its loops.
    assigned: BTreeSet<Local>,
    pub(super) stored: BTreeSet<Buffer>,
    /// Locals that one statement assigns, outside of inner loops and branches.
    once: BTreeSet<Local>,
    pub(super) reductions: Vec<Kept>,
    /// Current values of the body's locals.
    values: BTreeMap<Local, Expr>,
    /// Values in vectors; as locals they are numbered after the kernel's.
    named: Vec<Named>,
    /// Locals that an open inner loop changes, and their vectors.
    carried: BTreeMap<Local, usize>,
    /// Variables of the open inner loops.
    pub(super) inner: Vec<Local>,
    pub(super) lines: Vec<Line>,
    /// Lines before the loop.
    pub(super) before: Vec<String>,
    /// Scalars in all lanes that are computed before the loop.
    pub(super) splats: Vec<(Expr, String, String)>,
    /// Elements that are in vectors.
    pub(super) loaded: Vec<(Buffer, Linear, Lanes)>,
    /// Loads of every other element: those of the attempt before, and of this one.
    pub(super) expected: Vec<StridedLoad>,
    pub(super) strided: Vec<StridedLoad>,
    /// Whether a vector reads one element beyond the last one needed.
    pub(super) reads_beyond: bool,
    pub(super) accesses: Vec<Access>,
    pub(super) pending: Vec<PendingStore>,
    /// Rounds of the loop, where known; then there is at least one.
    pub(super) rounds: Option<i64>,
    /// Whether the loop has a round for sure.
    pub(super) certain: bool,
}

/// What a loop's rounds are made of.
pub(super) struct Setting<'b> {
    pub(super) level: Level,
    pub(super) count: usize,
    pub(super) variable: Local,
    pub(super) body: &'b [Stmt],
    pub(super) reductions: Vec<Kept>,
    pub(super) expected: Vec<StridedLoad>,
    pub(super) rounds: Option<i64>,
}

impl<'a, 'p, 'k> Round<'a, 'p, 'k> {
    pub(super) fn new(scope: &'a mut Scope<'p, 'k>, setting: Setting<'_>) -> Self {
        let changes = Changes::of(setting.body);
        let mut settings: BTreeMap<Local, usize> = BTreeMap::new();
        each_statement(setting.body, &mut |s| {
            s.sets().into_iter().for_each(|local| *settings.entry(local).or_default() += 1);
        });
        let once = |l: &Local| settings[l] == 1;
        let plain = setting.body.iter().filter_map(|s| match s {
            Stmt::Assign(local, _) => Some(*local),
            _ => None,
        });
        let once = plain.filter(once).collect();
        Round {
            scope,
            level: setting.level,
            count: setting.count,
            variable: setting.variable,
            assigned: changes.locals,
            stored: changes.buffers,
            once,
            reductions: setting.reductions,
            values: BTreeMap::new(),
            named: Vec::new(),
            carried: BTreeMap::new(),
            inner: Vec::new(),
            lines: Vec::new(),
            before: Vec::new(),
            splats: Vec::new(),
            loaded: Vec::new(),
            expected: setting.expected,
            strided: Vec::new(),
            reads_beyond: false,
            accesses: Vec::new(),
            pending: Vec::new(),
            rounds: setting.rounds,
            certain: setting.rounds.is_some(),
        }
    }

    fn first_named(&self) -> u32 {
        self.scope.kernel().locals.len() as u32
    }

    /// The vector that a local stands for.
    pub(super) fn named(&self, local: Local) -> Option<&Named> {
        self.named.get(local.0.checked_sub(self.first_named())? as usize)
    }

    /// What a value in a vector is, or the expression itself.
    pub(super) fn definition<'e>(&'e self, e: &'e Expr) -> &'e Expr {
        match &*e.node {
            Node::Local(local) => {
                self.named(*local).and_then(|n| n.definition.as_ref()).unwrap_or(e)
            }
            _ => e,
        }
    }

    pub(super) fn block(&mut self, block: &[Stmt]) -> Option<()> {
        block.iter().try_for_each(|statement| match statement {
            Stmt::Assign(local, value) => self.assign(*local, value),
            Stmt::Store(buffer, index, value) => self.store(*buffer, index, value),
            Stmt::For { variable, start, end, body } => self.for_(*variable, start, end, body),
            Stmt::If { condition, then, otherwise } => self.if_(condition, then, otherwise),
        })
    }

    /// The expression with the current values of the body's locals; `None` if one comes from the round before.
    pub(super) fn current(&self, e: &Expr) -> Option<Expr> {
        if let Some(local) = e.as_local() {
            if let Some(value) = self.values.get(&local) {
                return Some(value.clone());
            }
            let foreign = self.assigned.contains(&local) && !self.inner.contains(&local);
            return (!foreign).then(|| e.clone());
        }
        e.map_operands(&mut |x| self.current(x))
    }

    /// Whether a current expression is the same in all rounds.
    pub(super) fn is_uniform(&self, e: &Expr) -> bool {
        let mut stored = false;
        e.each_load(&mut |buffer, _| stored |= self.stored.contains(&buffer));
        !stored && !e.mentions(|local| local == self.variable || local.0 >= self.first_named())
    }

    /// Whether an expression is a sum of scalars and loop variables, as indices are.
    fn is_symbolic(&self, e: &Expr) -> bool {
        let mut nodes = 0;
        e.each(&mut |_| nodes += 1);
        if nodes > SYMBOLIC_NODES {
            return false;
        }
        let first = self.first_named();
        let is_index = || {
            let terms = Linear::of(e).terms;
            let plain = |t: &Expr| matches!(*t.node, Node::Local(_)) || self.is_uniform(t);
            is_linear(e) && terms.iter().all(|(_, t)| plain(t))
        };
        !e.mentions(|l| l.0 >= first) && (self.is_uniform(e) || is_index())
    }

    /// Whether a value is the same in all rounds, takes some work, and has a name of its own.
    fn is_constant_work(&self, local: Local, value: &Expr) -> bool {
        let mut nodes = 0;
        value.each(&mut |_| nodes += 1);
        nodes > 4
            && self.is_uniform(value)
            && (self.certain || !value.loads())
            && self.once.contains(&local)
            && !value.mentions(|l| self.inner.contains(&l))
    }

    fn assign(&mut self, local: Local, value: &Expr) -> Option<()> {
        if let Some(at) = self.reductions.iter().position(|r| r.reduction.local == local) {
            return self.accumulate(at);
        }
        let value = self.current(value)?;
        if let Some(&at) = self.carried.get(&local) {
            let target = self.named[at].lanes.clone();
            let lanes = match target.kind {
                Kind::Float => self.float(&value)?,
                _ => self.value(&value, target.bits)?,
            };
            // A part depends on the same lanes alone, so that one may change after the other.
            for (to, from) in target.parts.iter().zip(lanes.parts) {
                self.lines.push(Line::Code(format!("{to} = {from};")));
            }
            return Some(());
        }
        let value = if self.is_constant_work(local, &value) {
            // Computed once, before the loop.
            let name = self.scope.kernel().locals[local.0 as usize].0.clone();
            let (name, ty) = (self.scope.fresh(&name), self.scope.local_type(local));
            let scalar = match (ty, value.ty) {
                ("int32_t", Scalar::I64) => format!("(int32_t){}", self.scope.operand(&value)),
                _ => self.scope.scalar(&value),
            };
            self.before.push(format!("const {ty} {name} = {scalar};"));
            self.scope.set_local_name(local, &name);
            Expr { ty: value.ty, node: Box::new(Node::Local(local)) }
        } else if self.is_symbolic(&value) {
            value
        } else {
            let lanes = match value.ty {
                Scalar::F32 => self.whole_float(&value)?,
                Scalar::Bool => self.whole_mask(&value, 8)?,
                Scalar::I32 | Scalar::I64 => {
                    let bits = self.natural(&value);
                    self.whole_value(&value, bits)?
                }
            };
            let name = self.scope.kernel().locals[local.0 as usize].0.clone();
            let lanes = self.bind(&name, &lanes);
            let interval = self.interval(&value);
            self.value_of(lanes, value.ty, interval, Some(value))
        };
        self.values.insert(local, value);
        Some(())
    }

    /// A vector as a local.
    fn value_of(
        &mut self,
        lanes: Lanes,
        ty: Scalar,
        interval: Interval,
        definition: Option<Expr>,
    ) -> Expr {
        let local = Local(self.first_named() + self.named.len() as u32);
        self.named.push(Named { lanes, interval, definition });
        Expr { ty, node: Box::new(Node::Local(local)) }
    }

    /// The vectors as variables.
    pub(super) fn bind(&mut self, name: &str, lanes: &Lanes) -> Lanes {
        if lanes.is_named() {
            return lanes.clone();
        }
        let ty = lanes.ty();
        let several = lanes.parts.len() > 1;
        let parts = lanes.parts.iter().enumerate().map(|(n, part)| {
            let name = if several { part_name(name, n) } else { name.to_string() };
            let name = self.scope.fresh(&name);
            self.lines.push(Line::Code(format!("const {ty} {name} = {part};")));
            name
        });
        lanes.with(parts.collect())
    }

    fn for_(&mut self, variable: Local, start: &Expr, end: &Expr, body: &[Stmt]) -> Option<()> {
        let (start, end) = (self.current(start)?, self.current(end)?);
        if let (Some(first), Some(last)) = (start.as_constant(), end.as_constant())
            && last - first <= UNROLLED_ROUNDS
        {
            for round in first..last {
                self.values.insert(variable, Expr::i64(round));
                self.block(body)?;
            }
            self.values.remove(&variable);
            return Some(());
        }
        let Changes { locals: inside, buffers: stores } = Changes::of(body);
        if !self.is_uniform(&start) || !self.is_uniform(&end) || !stores.is_empty() {
            return None;
        }
        for local in &inside {
            if self.values.contains_key(local) && !self.carried.contains_key(local) {
                self.carry(*local)?;
            }
        }
        let before: BTreeSet<Local> = self.values.keys().copied().collect();
        let interval = [self.interval(&start), self.interval(&end)];
        let narrow = interval.iter().all(|i| bits_of(*i) <= 32);
        let ty = if narrow { "int32_t" } else { "int64_t" };
        let name = self.scope.kernel().locals[variable.0 as usize].0.clone();
        let name = self.scope.fresh(&name);
        let (first, last) = (self.scope.scalar(&start), self.scope.operand(&end));
        self.scope.set_local_name(variable, &name);
        self.lines
            .push(Line::Open(format!("for ({ty} {name} = {first}; {name} < {last}; {name}++) {{")));
        self.loaded.clear();
        self.inner.push(variable);
        self.block(body)?;
        self.inner.pop();
        self.loaded.clear();
        self.lines.push(Line::Close);
        self.values.retain(|local, _| before.contains(local));
        Some(())
    }

    /// Gives a local a variable that an inner loop changes.
    fn carry(&mut self, local: Local) -> Option<()> {
        let value = self.values.get(&local)?.clone();
        let interval = self.scope.local_interval(local);
        let lanes = match value.ty {
            Scalar::F32 => self.float(&value)?,
            Scalar::Bool => return None,
            Scalar::I32 | Scalar::I64 => {
                let bits = bits_of(interval).max(self.least_bits());
                self.value(&value, bits)?
            }
        };
        let name = self.scope.kernel().locals[local.0 as usize].0.clone();
        let (ty, several) = (lanes.ty(), lanes.parts.len() > 1);
        let parts = lanes.parts.iter().enumerate().map(|(n, part)| {
            let name = if several { part_name(&name, n) } else { name.clone() };
            let name = self.scope.fresh(&name);
            self.lines.push(Line::Code(format!("{ty} {name} = {part};")));
            name
        });
        let lanes = lanes.with(parts.collect());
        self.carried.insert(local, self.named.len());
        let value = self.value_of(lanes, value.ty, interval, None);
        self.values.insert(local, value);
        Some(())
    }

    /// Branches that only assign become selections.
    fn if_(&mut self, condition: &Expr, then: &[Stmt], otherwise: &[Stmt]) -> Option<()> {
        let mut condition = self.current(condition)?;
        if !self.is_uniform(&condition) {
            let mask = self.mask(&condition, 8)?;
            let mask = self.bind("holds", &mask);
            condition = self.value_of(mask, Scalar::Bool, (0, 1), Some(condition));
        }
        for (branch, holds) in [(then, true), (otherwise, false)] {
            let mut own = Vec::new();
            for statement in branch {
                let Stmt::Assign(local, value) = statement else { return None };
                if self.reductions.iter().any(|r| r.reduction.local == *local) {
                    return None;
                }
                if self.values.contains_key(local) && !own.contains(local) {
                    let old = Expr { ty: value.ty, node: Box::new(Node::Local(*local)) };
                    let (c, value) = (condition.clone(), value.clone());
                    let chosen = if holds { c.select(value, old) } else { c.select(old, value) };
                    self.assign(*local, &chosen)?;
                } else {
                    own.push(*local);
                    self.assign(*local, value)?;
                }
            }
            // In the rounds of the other branch these have no value.
            own.iter().for_each(|local| _ = self.values.remove(local));
        }
        Some(())
    }

    /// What is known about a current expression.
    pub(super) fn interval(&self, e: &Expr) -> Interval {
        interval_of(e, self).unwrap_or(trainc_loops::all(e.ty))
    }

    /// Fewest bits of a lane.
    pub(super) fn least_bits(&self) -> u32 {
        64 / self.count as u32 * if self.count == 4 { 2 } else { 1 }
    }

    /// Fewest bits of a lane that hold an expression's values.
    pub(super) fn natural(&self, e: &Expr) -> u32 {
        bits_of(self.interval(e)).max(self.least_bits()).max(8)
    }

    /// Whether both sides of a selection may be loaded: each load is in bounds or happens in any case.
    pub(super) fn may_load(&self, certain: &[&Expr], sides: [&Expr; 2]) -> bool {
        let kernel = self.scope.kernel();
        let fits = |buffer, index: &Expr| in_bounds(kernel, buffer, self.interval(index));
        may_compute_both(certain, sides, &fits)
    }

    /// Whether two different buffers may share memory: a result may take the place of an operand.
    pub(super) fn may_share(&self, a: Buffer, b: Buffer) -> bool {
        let role = |b: Buffer| &self.scope.kernel().buffers[b.0 as usize].role;
        let is = |role: &Role, input: bool| match role {
            Role::Input(_) | Role::InputScale(_) => input,
            Role::Output(_) | Role::OutputScale(_) => !input,
            Role::RunContext | Role::Scratch => false,
        };
        a != b
            && (is(role(a), true) && is(role(b), false) || is(role(a), false) && is(role(b), true))
    }
}

impl Leaves for Round<'_, '_, '_> {
    fn local(&self, local: Local) -> Option<Interval> {
        Some(match self.named(local) {
            Some(named) => named.interval,
            None => self.scope.local_interval(local),
        })
    }

    fn element(&self, buffer: Buffer) -> Interval {
        element_interval(self.scope.kernel().buffers[buffer.0 as usize].element)
    }

    fn definition(&self, local: Local) -> Option<&Expr> {
        self.named(local)?.definition.as_ref()
    }
}

/// Whether an operation on integers needs only as many bits of its operands as of its result.
pub(super) fn is_ring(op: Binary) -> bool {
    matches!(
        op,
        Binary::Add | Binary::Subtract | Binary::Multiply | Binary::And | Binary::Or | Binary::Xor
    )
}
