//! The plan of a loop of which several rounds run at a time, for any machine with vectors.
//!
//! A loop qualifies if every access walks its buffer by a step that the machine offers or stays put, and no round depends
//! on another but through reductions, which have the same bits in any order. Machines that offer it also take bodies
//! with branches that only assign, which become selections, and with loops whose bounds are the same in all rounds.

mod survey;

use std::collections::{BTreeMap, BTreeSet};

use trainc_ir::loops::{Buffer, Expr, Local, LoopKernel, Node, Stmt, Unary, each_statement};

use crate::dependence::Access;
use crate::intervals::{Interval, Intervals, Leaves, interval_of};
use crate::linear::Linear;
use crate::reasons::Reason;
use crate::reductions::Reduction;
use crate::uses::{Changes, count_uses};

/// What a machine takes beyond straight lines over neighbouring elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Offers {
    /// Loads of every other element, and stores to all even and all odd ones.
    pub pairs: bool,
    /// Branches, as selections, and loops in a round.
    pub nests: bool,
}

/// How an operation is computed in lanes.
#[derive(Clone, PartialEq, Debug)]
pub struct Form<'e> {
    /// Bits of the widest lanes that it works in.
    pub bits: u32,
    /// What it is made of, and how many low bits of each count.
    pub operands: Vec<(&'e Expr, u32)>,
}

impl<'e> Form<'e> {
    /// An operation on all its operands in lanes of that many bits.
    pub fn of(e: &'e Expr, bits: u32) -> Form<'e> {
        Form { bits, operands: e.operands().map(|x| (x, bits)).collect() }
    }

    /// Of the low bits of one operand.
    pub fn of_one(x: &'e Expr, bits: u32) -> Form<'e> {
        Form { bits, operands: vec![(x, bits)] }
    }
}

/// What a machine's vectors can do, as far as plans depend on it.
pub trait Vectors {
    /// What it takes.
    fn offers(&self) -> Offers {
        Offers::default()
    }

    /// Fewest bits of a lane for the low `bits` of a value, however it comes about.
    ///
    /// # Errors
    /// If there is no such lane.
    fn value_bits(&self, _e: &Expr, bits: u32, _known: &Known<'_>) -> Result<u32, Reason> {
        Ok(bits)
    }

    /// How the low `bits` of an expression that is neither load nor local are computed where its operands vary. Both sides
    /// of a selection may be computed; Bools are compared for equality.
    ///
    /// # Errors
    /// If there is no form.
    fn form<'e>(&self, e: &'e Expr, bits: u32, known: &Known<'_>) -> Result<Form<'e>, Reason>;

    /// How a reduction takes what a round adds.
    ///
    /// # Errors
    /// If it does not combine the local like this.
    fn reduction<'e>(&self, r: &'e Reduction, known: &Known<'_>) -> Result<Form<'e>, Reason>;

    /// Fewest rounds that pay.
    fn least_rounds(&self, plan: &VectorLoop) -> i64;

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

    /// Whether element n of one buffer may be element n of another, in kernels that count on the order of their accesses.
    fn in_place(&self, _a: Buffer, _b: Buffer) -> bool {
        false
    }
}

/// A loop of a kernel and what is known around it.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The kernel.
    pub kernel: &'a LoopKernel,
    /// How often the kernel mentions each local.
    pub uses: &'a [usize],
    /// What is known of the kernel's values.
    pub intervals: &'a Intervals<'a>,
    /// The loop variable.
    pub variable: Local,
    /// First value.
    pub start: &'a Expr,
    /// One past the last value.
    pub end: &'a Expr,
    /// Statements of a round.
    pub body: &'a [Stmt],
}

impl Place<'_> {
    /// The number of rounds, where known.
    pub fn rounds(&self) -> Option<i64> {
        Linear::distance(self.start, self.end)
    }

    /// No more rounds than these.
    pub fn most_rounds(&self) -> i64 {
        let most = self.intervals.get(self.end).1 - self.intervals.get(self.start).0;
        self.rounds().unwrap_or(i64::try_from(most).unwrap_or(i64::MAX))
    }
}

/// What a round does, in order. Expressions read the values of this round: locals that the loop sets are those of
/// [`VectorLoop::values`], of which each is set by one step, or change in a [`Step::Loop`] alone; indices and what is the
/// same in all rounds stand where they are used.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Sets a local that has the same value in all rounds, which may be done ahead of the loop.
    Once(Local, Expr),
    /// Sets a value.
    Assign(Local, Expr),
    /// Stores an element.
    Store(Buffer, Expr, Expr),
    /// Adds to a reduction, by position.
    Reduce(usize, Expr),
    /// Changes a value, in a loop of the round.
    Change(Local, Expr),
    /// A loop in each round, with the same bounds in all of them.
    Loop {
        /// The loop variable, the same in all rounds.
        variable: Local,
        /// First value.
        start: Expr,
        /// One past the last value.
        end: Expr,
        /// What is done in it.
        steps: Vec<Step>,
    },
}

/// A value that varies from round to round.
#[derive(Clone, PartialEq, Debug)]
pub struct Value {
    /// The local of the kernel that has it, or none for a branch's condition.
    pub local: Option<Local>,
    /// What is known of it.
    pub interval: Interval,
    /// What it is, if it never changes.
    pub definition: Option<Expr>,
}

/// A loop that can run as vectors.
#[derive(Clone, PartialEq, Debug)]
pub struct VectorLoop {
    /// The loop variable.
    pub variable: Local,
    /// What a round does.
    pub steps: Vec<Step>,
    /// Values of a round: the first of a local stands for it, further ones are numbered after the kernel's locals.
    pub values: BTreeMap<Local, Value>,
    /// Locals that rounds combine.
    pub reductions: Vec<Reduction>,
    /// What varies: the loop variable, the values, and buffers that are stored to.
    pub changes: Changes,
    /// Elements that vary, in the order of the text. A load of what is loaded already is none.
    pub accesses: Vec<Access>,
    /// Bits of the narrowest of those elements, as stored (8 at least).
    pub element_bits: u32,
    /// Bits of lanes in which all operations have forms.
    pub lane_bits: u32,
}

/// Two neighbouring elements of a round, every other one of which is loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair {
    /// The constant of the first one's index.
    pub first: i64,
    /// Whether both are asked for; otherwise the second of the last round may be out of bounds.
    pub both: bool,
}

/// What is known of a plan's expressions.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// The plan, as far as it is made.
    pub plan: &'a VectorLoop,
    /// Of the kernel.
    pub intervals: &'a Intervals<'a>,
    /// What it is for.
    pub machine: &'a dyn Vectors,
}

impl Known<'_> {
    /// Whether an expression is the same in each round.
    pub fn is_uniform(&self, e: &Expr) -> bool {
        !self.plan.changes.touch(e, &|a, b| self.machine.shares(a, b))
    }

    /// Whether it is a float without its sign: maxima of such have one order of zeros.
    pub fn is_magnitude(&self, e: &Expr) -> bool {
        let meaning = e.as_local().and_then(|local| self.definition(local)).unwrap_or(e);
        matches!(*meaning.node, Node::Unary(Unary::FloatAbs, _))
    }

    /// The values of an expression.
    pub fn interval(&self, e: &Expr) -> Interval {
        interval_of(e, self).unwrap_or(crate::intervals::all(e.ty))
    }
}

impl Leaves for Known<'_> {
    fn local(&self, local: Local) -> Option<Interval> {
        let value = self.plan.values.get(&local);
        Some(value.map_or_else(|| self.intervals.local(local), |value| value.interval))
    }

    fn element(&self, buffer: Buffer) -> Interval {
        self.intervals.element(buffer)
    }

    fn definition(&self, local: Local) -> Option<&Expr> {
        self.plan.values.get(&local)?.definition.as_ref()
    }
}

/// The plans of a kernel's loops that run as vectors on a machine, by their variables.
pub fn vector_loops(kernel: &LoopKernel, machine: &dyn Vectors) -> BTreeMap<Local, VectorLoop> {
    let (uses, intervals) = (count_uses(kernel, &kernel.body), Intervals::of_any_kernel(kernel));
    let mut plans = BTreeMap::new();
    each_statement(&kernel.body, &mut |statement| {
        let Stmt::For { variable, start, end, body } = statement else { return };
        let (uses, intervals, variable) = (&uses[..], &intervals, *variable);
        let place = Place { kernel, uses, intervals, variable, start, end, body };
        if let Ok(plan) = VectorLoop::of(&place, machine) {
            plans.insert(variable, plan);
        }
    });
    plans
}

/// Loops of a kernel of which a round runs at a time on a machine, each by its variable with the reason; not those around
/// loops that run as vectors, nor those inside.
pub fn scalar_loops(kernel: &LoopKernel, machine: &dyn Vectors) -> Vec<String> {
    let (uses, intervals) = (count_uses(kernel, &kernel.body), Intervals::of_any_kernel(kernel));
    let (mut notes, mut inside) = (Vec::new(), BTreeSet::new());
    each_statement(&kernel.body, &mut |statement| {
        let Stmt::For { variable, start, end, body } = statement else { return };
        let (uses, intervals, variable) = (&uses[..], &intervals, *variable);
        match VectorLoop::of(
            &Place { kernel, uses, intervals, variable, start, end, body },
            machine,
        ) {
            Ok(_) => inside.extend(Changes::of(body).locals),
            Err(Reason::InnerLoop) => {}
            Err(_) if inside.contains(&variable) => {}
            Err(reason) => {
                let note = reason.of_loop(kernel, variable);
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
    });
    notes
}

impl VectorLoop {
    /// The plan of a loop.
    ///
    /// # Errors
    /// Why it stays scalar.
    pub fn of(place: &Place<'_>, machine: &dyn Vectors) -> Result<VectorLoop, Reason> {
        survey::plan(place, machine)
    }

    /// Where a load of every other element finds it.
    pub fn pair(&self, buffer: Buffer, index: &Linear) -> Pair {
        let loads = self.accesses.iter().filter(|a| !a.stored && a.buffer == buffer);
        let like = loads.filter(|a| a.index.is_parallel(index)).map(|a| a.index.constant);
        let mut constants: Vec<i64> = like.collect();
        constants.sort_unstable();
        constants.dedup();
        // Neighbours pair up from the first on.
        let (mut at, mut found) = (0, Pair { first: index.constant, both: false });
        while at < constants.len() && found.first <= index.constant {
            let first = constants[at];
            let both = constants.get(at + 1) == Some(&(first + 1));
            found = Pair { first, both };
            if first == index.constant || both && first + 1 == index.constant {
                break;
            }
            at += 1 + usize::from(both);
        }
        found
    }

    /// Rounds at the end that vectors must leave, since pairs read an element beyond those asked for.
    pub fn reads_beyond(&self) -> i64 {
        let every_other = |a: &&Access| !a.stored && a.index.factor(self.variable) == 2;
        let mut loads = self.accesses.iter().filter(every_other);
        i64::from(loads.any(|a| !self.pair(a.buffer, &a.index).both))
    }
}
