//! What a planned round does, for several rounds at a time.

use std::collections::BTreeMap;

use trainc_c::Scope;
use trainc_ir::loops::{Buffer, Expr, Local, Scalar};
use trainc_loops::{Interval, Known, Linear, Place, Step, VectorLoop, bits_of};

use super::forms::{Machine, View};
use super::lanes::{Kind, Lanes, part_name};
use super::memory::WaitingStore;
use crate::level::Level;

/// A line of the loop's body.
#[derive(Clone, Debug)]
pub(super) enum Line {
    Code(String),
    Open(String),
    Close,
}

/// The rounds that run at a time.
pub(super) struct Round<'a, 'p, 'k> {
    pub(super) scope: &'a mut Scope<'p, 'k>,
    pub(super) machine: &'a Machine<'k>,
    pub(super) plan: &'a VectorLoop,
    pub(super) place: &'a Place<'a>,
    /// How many rounds.
    pub(super) count: usize,
    /// Vectors of the plan's values.
    pub(super) values: BTreeMap<Local, Lanes>,
    /// Sums of the reductions, by position: those of a width each.
    pub(super) sums: Vec<(usize, Lanes)>,
    /// Variables of the open inner loops.
    pub(super) inner: Vec<Local>,
    pub(super) lines: Vec<Line>,
    /// Lines before the loop.
    pub(super) before: Vec<String>,
    /// Scalars in all lanes that are computed before the loop.
    pub(super) splats: Vec<(Expr, String, String)>,
    /// Elements that are in vectors.
    pub(super) loaded: Vec<(Buffer, Linear, Lanes)>,
    pub(super) waiting: Vec<WaitingStore>,
}

impl<'a, 'p, 'k> Round<'a, 'p, 'k> {
    pub(super) fn new(
        scope: &'a mut Scope<'p, 'k>,
        machine: &'a Machine<'k>,
        plan: &'a VectorLoop,
        place: &'a Place<'a>,
        count: usize,
    ) -> Self {
        Round {
            scope,
            machine,
            plan,
            place,
            count,
            values: BTreeMap::new(),
            sums: Vec::new(),
            inner: Vec::new(),
            lines: Vec::new(),
            before: Vec::new(),
            splats: Vec::new(),
            loaded: Vec::new(),
            waiting: Vec::new(),
        }
    }

    pub(super) fn is_armv7(&self) -> bool {
        self.machine.level == Level::Armv7
    }

    pub(super) fn view(&self) -> View<'_> {
        // Lanes of 32 bits at least fill a register of four.
        let least = if self.count == 4 { 32 } else { 8 };
        View {
            known: Known {
                plan: self.plan,
                intervals: self.place.intervals,
                machine: self.machine,
            },
            least,
        }
    }

    pub(super) fn is_uniform(&self, e: &Expr) -> bool {
        self.view().known.is_uniform(e)
    }

    pub(super) fn interval(&self, e: &Expr) -> Interval {
        self.view().interval(e)
    }

    pub(super) fn natural(&self, e: &Expr) -> u32 {
        self.view().natural(e)
    }

    pub(super) fn steps(&mut self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Once(local, value) => self.once(*local, value),
                Step::Assign(local, value) => self.assign(*local, value),
                Step::Store(buffer, index, value) => self.store(*buffer, index, value),
                Step::Reduce(at, value) => self.accumulate(*at, value),
                Step::Change(local, value) => {
                    let target = self.values[local].clone();
                    let lanes = match target.kind {
                        Kind::Float => self.float(value),
                        _ => self.value(value, target.bits),
                    };
                    // A part depends on the same lanes alone, so that one may change after the other.
                    for (to, from) in target.parts.iter().zip(lanes.parts) {
                        self.lines.push(Line::Code(format!("{to} = {from};")));
                    }
                }
                Step::Loop { variable, start, end, steps } => {
                    self.inner_loop(*variable, start, end, steps);
                }
            }
        }
    }

    /// A scalar that is computed before the loop.
    fn once(&mut self, local: Local, value: &Expr) {
        let name = self.scope.kernel().locals[local.0 as usize].0.clone();
        let (name, ty) = (self.scope.fresh(&name), self.scope.local_type(local));
        let scalar = match (ty, value.ty) {
            ("int32_t", Scalar::I64) => format!("(int32_t){}", self.scope.operand(value)),
            _ => self.scope.scalar(value),
        };
        self.before.push(format!("const {ty} {name} = {scalar};"));
        self.scope.set_local_name(local, &name);
    }

    fn assign(&mut self, local: Local, value: &Expr) {
        let known = &self.plan.values[&local];
        let name = known.local.map_or("holds", |l| &self.scope.kernel().locals[l.0 as usize].0);
        let lanes = match value.ty {
            _ if known.definition.is_none() => return self.variable(local, name, value),
            Scalar::F32 => self.whole_float(value),
            Scalar::Bool => self.whole_mask(value, 8),
            Scalar::I32 | Scalar::I64 => self.whole_value(value, self.natural(value)),
        };
        let lanes = self.bind(name, &lanes);
        self.values.insert(local, lanes);
    }

    /// A value that an inner loop changes.
    fn variable(&mut self, local: Local, name: &str, value: &Expr) {
        let view = self.view();
        let bits = bits_of(self.plan.values[&local].interval).max(view.least);
        let lanes =
            if value.ty == Scalar::F32 { self.float(value) } else { self.value(value, bits) };
        let lanes = self.named(&lanes.ty(), name, &lanes);
        self.values.insert(local, lanes);
    }

    /// The vectors as variables.
    pub(super) fn bind(&mut self, name: &str, lanes: &Lanes) -> Lanes {
        if lanes.is_named() {
            return lanes.clone();
        }
        self.named(&format!("const {}", lanes.ty()), name, lanes)
    }

    /// The vectors as variables of a type.
    fn named(&mut self, ty: &str, name: &str, lanes: &Lanes) -> Lanes {
        let names = self.names(name, lanes.parts.len());
        for (name, part) in names.iter().zip(&lanes.parts) {
            self.lines.push(Line::Code(format!("{ty} {name} = {part};")));
        }
        lanes.with(names)
    }

    /// Fresh names for the parts of something.
    pub(super) fn names(&mut self, name: &str, parts: usize) -> Vec<String> {
        let of = |n| if parts > 1 { part_name(name, n) } else { name.to_string() };
        (0..parts).map(|n| self.scope.fresh(&of(n))).collect()
    }

    fn inner_loop(&mut self, variable: Local, start: &Expr, end: &Expr, steps: &[Step]) {
        let narrow = [start, end].iter().all(|e| bits_of(self.interval(e)) <= 32);
        let ty = if narrow { "int32_t" } else { "int64_t" };
        let name = self.scope.kernel().locals[variable.0 as usize].0.clone();
        let name = self.scope.fresh(&name);
        let (first, last) = (self.scope.scalar(start), self.scope.operand(end));
        self.scope.set_local_name(variable, &name);
        self.lines
            .push(Line::Open(format!("for ({ty} {name} = {first}; {name} < {last}; {name}++) {{")));
        self.loaded.clear();
        self.inner.push(variable);
        self.steps(steps);
        self.inner.pop();
        self.loaded.clear();
        self.lines.push(Line::Close);
    }
}
