//! The plan of a loop of which several rounds run at a time, for any machine with vectors.
//!
//! A loop qualifies if its body only assigns and stores, every access walks its buffer one element a round or stays
//! put, and no round depends on another but through reductions, which have the same bits in any order.

use std::collections::BTreeSet;

use trainc_ir::loops::{Buffer, Expr, Local, LoopKernel, Node, Scalar, Stmt};

use crate::dependence::{Access, rounds_are_apart};
use crate::linear::Linear;
use crate::reasons::Reason;
use crate::reductions::{Carried, Reduction};
use crate::uses::{Changes, count_uses};

/// What a machine's vectors can do, as far as plans depend on it.
pub trait Vectors {
    /// Fewest bits of a lane that hold an expression's values.
    ///
    /// # Errors
    /// If no lane does.
    fn value_bits(&self, e: &Expr) -> Result<u32, Reason>;

    /// Fewest bits of a lane in which an operation has a form whose operands vary; `is_uniform` tells which do not.
    /// Loads and locals are not asked for.
    ///
    /// # Errors
    /// If there is none.
    fn form_bits(&self, e: &Expr, is_uniform: &dyn Fn(&Expr) -> bool) -> Result<u32, Reason>;

    /// Fewest bits of the lanes in which a reduction is kept.
    ///
    /// # Errors
    /// If there are none.
    fn reduction_bits(&self, reduction: &Reduction) -> Result<u32, Reason>;

    /// Bits of the lanes that can hold the loop variable, if there are any.
    fn counter_bits(&self) -> Option<u32> {
        None
    }

    /// An index as a sum.
    fn index(&self, index: &Expr) -> Linear {
        Linear::of(index)
    }

    /// Whether two buffers may lie in the same memory, beyond an operation's result in the place of an operand.
    fn shares(&self, a: Buffer, b: Buffer) -> bool {
        a == b
    }
}

/// A loop of a kernel and what is known around it.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The kernel.
    pub kernel: &'a LoopKernel,
    /// How often the kernel mentions each local.
    pub uses: &'a [usize],
    /// The loop variable.
    pub variable: Local,
    /// Rounds, where known.
    pub rounds: Option<i64>,
    /// Statements of a round.
    pub body: &'a [Stmt],
}

/// What a round does, in order.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Sets a private local.
    Assign(Local, Expr),
    /// Stores an element.
    Store(Buffer, Expr, Expr),
    /// Adds to a reduction, by position.
    Reduce(usize),
}

/// A loop that can run as vectors.
#[derive(Clone, PartialEq, Debug)]
pub struct VectorLoop {
    /// The loop variable.
    pub variable: Local,
    /// What a round does; indices stand where they are used.
    pub steps: Vec<Step>,
    /// Locals that rounds combine.
    pub reductions: Vec<Reduction>,
    /// What the body changes, with the loop variable.
    pub changes: Changes,
    /// Elements that vary, each one element after the one of the round before; in the order of the text.
    pub accesses: Vec<Access>,
    /// Bits of the narrowest of those elements, as stored (8 at least).
    pub element_bits: u32,
    /// Bits of lanes that hold all values and in which all operations have forms.
    pub lane_bits: u32,
}

/// A plan in the making.
struct Survey<'a> {
    place: &'a Place<'a>,
    machine: &'a dyn Vectors,
    plan: VectorLoop,
    /// Locals that are set so far.
    set: BTreeSet<Local>,
}

impl VectorLoop {
    /// The plan of a loop, whatever its number of rounds.
    ///
    /// # Errors
    /// Why it stays scalar.
    pub fn of(place: &Place<'_>, machine: &dyn Vectors) -> Result<VectorLoop, Reason> {
        let Place { kernel, uses, variable, body, .. } = *place;
        for statement in body {
            match statement {
                Stmt::For { .. } => return Err(Reason::InnerLoop),
                Stmt::If { .. } => return Err(Reason::Branch),
                Stmt::Assign(..) | Stmt::Store(..) => {}
            }
        }
        // The loop itself mentions its variable once.
        if count_uses(kernel, body)[variable.0 as usize] + 1 != uses[variable.0 as usize] {
            return Err(Reason::UsedOutside(variable));
        }
        let Carried { reductions, .. } = Carried::of(kernel, body, uses)?;
        let body = with_indices_inline(place);
        let mut changes = Changes::of(&body);
        changes.locals.insert(variable);
        let plan = VectorLoop {
            variable,
            steps: Vec::new(),
            reductions,
            changes,
            accesses: Vec::new(),
            element_bits: 64,
            lane_bits: 8,
        };
        let mut survey = Survey { place, machine, plan, set: BTreeSet::new() };
        for statement in body {
            survey.statement(statement)?;
        }
        let plan = survey.plan;
        // A result that takes an operand's place does so element by element.
        rounds_are_apart(&plan.accesses, variable, place.rounds, &|_, _| false)?;
        Ok(plan)
    }

    /// Whether an expression is the same in each round.
    pub fn is_uniform(&self, e: &Expr, machine: &dyn Vectors) -> bool {
        !self.changes.touch(e, &|a, b| machine.shares(a, b))
    }
}

impl Survey<'_> {
    fn statement(&mut self, statement: Stmt) -> Result<(), Reason> {
        match statement {
            Stmt::Assign(local, value) => {
                let found = self.plan.reductions.iter().position(|r| r.local == local);
                let Some(at) = found else {
                    self.value(&value)?;
                    self.set.insert(local);
                    self.plan.steps.push(Step::Assign(local, value));
                    return Ok(());
                };
                let reduction = self.plan.reductions[at].clone();
                self.widen(self.machine.reduction_bits(&reduction)?);
                // What it adds, with indices inline.
                let whole = Reduction::of(local, &value).unwrap_or(reduction);
                self.value(&whole.value)?;
                self.plan.reductions[at] = whole;
                self.plan.steps.push(Step::Reduce(at));
            }
            Stmt::Store(buffer, index, value) => {
                self.value(&value)?;
                self.access(buffer, &index, true)?;
                self.plan.steps.push(Step::Store(buffer, index, value));
            }
            Stmt::For { .. } | Stmt::If { .. } => return Err(Reason::Branch),
        }
        Ok(())
    }

    fn widen(&mut self, bits: u32) {
        self.plan.lane_bits = self.plan.lane_bits.max(bits);
    }

    fn is_uniform(&self, e: &Expr) -> bool {
        self.plan.is_uniform(e, self.machine)
    }

    fn access(&mut self, buffer: Buffer, index: &Expr, stored: bool) -> Result<(), Reason> {
        let index = self.machine.index(index);
        let variable = self.plan.variable;
        let stride = index.factor(variable);
        let is_fixed = |e: &Expr| e.as_local() == Some(variable) || self.is_uniform(e);
        if !index.terms.iter().all(|(_, term)| is_fixed(term)) {
            return Err(Reason::Gathered(buffer));
        }
        if stride != 1 {
            return Err(Reason::Strided(buffer, stride));
        }
        let element = self.place.kernel.buffers[buffer.0 as usize].element;
        let bits = element.bits().max(8);
        self.plan.element_bits = self.plan.element_bits.min(bits);
        self.widen(bits);
        self.plan.accesses.push(Access { buffer, index, stored, moves: false });
        Ok(())
    }

    /// Checks a value that is in a lane of each round.
    fn value(&mut self, e: &Expr) -> Result<(), Reason> {
        self.widen(self.machine.value_bits(e)?);
        if self.is_uniform(e) {
            return Ok(());
        }
        match &*e.node {
            Node::Local(local) if *local == self.plan.variable => {
                self.widen(self.machine.counter_bits().ok_or(Reason::Counter)?);
                Ok(())
            }
            Node::Local(local) if self.set.contains(local) => Ok(()),
            Node::Local(local) => Err(Reason::Carried(*local)),
            Node::Load(buffer, index) => self.access(*buffer, index, false),
            _ => {
                let plan = &self.plan;
                let is_uniform = |e: &Expr| plan.is_uniform(e, self.machine);
                let bits = self.machine.form_bits(e, &is_uniform)?;
                self.widen(bits);
                e.operands().try_for_each(|x| self.value(x))
            }
        }
    }
}

/// A body with the indices that it names put where they are used, so that strides show.
fn with_indices_inline(place: &Place<'_>) -> Vec<Stmt> {
    let Place { kernel, uses, body, .. } = *place;
    let own = count_uses(kernel, body);
    let assigned = |local: Local| body.iter().filter(|s| s.sets() == Some(local)).count();
    let mut named: Vec<(Local, Expr)> = Vec::new();
    let mut statements = Vec::new();
    for statement in body {
        let inline = statement.map_expressions(&mut |e| Some(substituted(e, &named)));
        match inline.unwrap_or_else(|| statement.clone()) {
            Stmt::Assign(local, value)
                if value.ty == Scalar::I64
                    && !value.loads()
                    && assigned(local) == 1
                    && own[local.0 as usize] == uses[local.0 as usize]
                    && !value.mentions(|l| assigned(l) != 0) =>
            {
                named.push((local, value));
            }
            statement => statements.push(statement),
        }
    }
    statements
}

fn substituted(e: &Expr, named: &[(Local, Expr)]) -> Expr {
    let found = e.as_local().and_then(|local| named.iter().find(|(l, _)| *l == local));
    match found {
        Some((_, value)) => value.clone(),
        None => e.map_operands(&mut |x| Some(substituted(x, named))).unwrap_or_else(|| e.clone()),
    }
}
