//! Why a loop, or some of its rounds, stays scalar.

use trainc_ir::loops::{Binary, Buffer, Comparison, Local, LoopKernel, Unary};

/// Why the rounds of a loop do not run several at a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The body has a loop, which is the one to ask for.
    InnerLoop,
    /// The body has a branch.
    Branch,
    /// The number of rounds is known at run time only.
    UnknownRounds,
    /// The rounds fill no vector.
    FewRounds {
        /// Rounds of the loop.
        rounds: i64,
        /// Rounds that a vector takes.
        lanes: i64,
    },
    /// Something outside of the loop asks for a local that it sets.
    UsedOutside(Local),
    /// A round reads what another one set.
    Carried(Local),
    /// Rounds add floats to a local; the order of float operations is part of their meaning.
    FloatOrder(Local),
    /// The machine has no form for a local that rounds combine like this.
    Reduction(Local),
    /// The loop variable is a value, not only part of indices.
    Counter,
    /// An access advances by other than one element a round.
    Strided(Buffer, i64),
    /// An access advances by a number of elements that varies.
    Gathered(Buffer),
    /// Rounds may touch the same element, one of them storing.
    RoundsMeet(Buffer),
    /// Nothing that varies is loaded or stored.
    NoAccess,
    /// A side of a selection may load out of bounds where the condition does not ask for it.
    Speculation,
    /// A value needs wider lanes than there are.
    Wide,
    /// A float, which the machine's vectors do not compute.
    Float,
    /// An operation that has no form in vectors.
    Unary(Unary),
    /// As [`Reason::Unary`].
    Binary(Binary),
    /// As [`Reason::Unary`].
    Comparison(Comparison),
}

impl Reason {
    /// A loop that stays scalar, by its variable, with the reason.
    pub fn of_loop(&self, kernel: &LoopKernel, variable: Local) -> String {
        format!("`{}`: {}", kernel.locals[variable.0 as usize].0, self.explain(kernel))
    }

    /// The reason in words, with the kernel's names.
    fn explain(&self, kernel: &LoopKernel) -> String {
        let local = |l: &Local| kernel.locals[l.0 as usize].0.clone();
        let buffer = |b: &Buffer| kernel.buffers[b.0 as usize].name.clone();
        match self {
            Reason::InnerLoop => "a loop is inside".into(),
            Reason::Branch => "a branch is inside".into(),
            Reason::UnknownRounds => "the number of rounds is known at run time only".into(),
            Reason::FewRounds { rounds, lanes } => {
                format!("{rounds} rounds fill no vector of {lanes}")
            }
            Reason::UsedOutside(l) => format!("`{}` is used outside", local(l)),
            Reason::Carried(l) => format!("rounds pass `{}` on", local(l)),
            Reason::FloatOrder(l) => format!("the float `{}` is combined in order", local(l)),
            Reason::Reduction(l) => format!("vectors do not combine `{}` like this", local(l)),
            Reason::Counter => "the loop variable is a value".into(),
            Reason::Strided(b, n) => format!("`{}` is accessed every {n} elements", buffer(b)),
            Reason::Gathered(b) => format!("`{}` is accessed in no order", buffer(b)),
            Reason::RoundsMeet(b) => format!("rounds may meet in `{}`", buffer(b)),
            Reason::NoAccess => "nothing that varies is loaded or stored".into(),
            Reason::Speculation => "a load may be out of bounds but for a condition".into(),
            Reason::Wide => "a value needs wider lanes".into(),
            Reason::Float => "vectors compute no floats".into(),
            Reason::Unary(op) => format!("vectors have no {op:?}"),
            Reason::Binary(op) => format!("vectors have no {op:?}"),
            Reason::Comparison(op) => format!("vectors have no comparison {op:?}"),
        }
    }
}
