//! A loop kernel as the kernels that make it up, one after another, to be divided among work items or threads: each outer loop
//! whose rounds are independent is a phase, with the independent loops in it as further dimensions; what stands between is a
//! phase of one item, or, if asked for and no item depends on it, the first item's of the loop beside it.
//!
//! A local that more than one of them needs is kept in working memory between them.

use std::collections::{BTreeMap, BTreeSet};

use trainc_ir::Element;
use trainc_ir::loops::{
    Buffer, BufferParameter, Comparison, Expr, Local, LoopKernel, Node, Role, Scalar, Stmt, Unary,
    each_expression, height,
};

use crate::independent::free_rounds;
use crate::intervals::{Intervals, is_narrow};
use crate::locals::{Locals, count};
use crate::simplify::simplified;
use crate::uses::Changes;

/// A part of a loop kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct Phase {
    /// What it runs: all buffers of the whole, then what is kept between phases.
    pub kernel: LoopKernel,
    /// Rounds of its outer loops, whose product is the number of work items; none for one item.
    pub rounds: Vec<i32>,
}

/// Who runs what stands between loops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Between {
    /// Phases of their own.
    Alone,
    /// The first item of a loop beside it, where that changes nothing.
    FirstItem,
}

/// The phases of a kernel in order; `overwrites` says of which operands the first result may take the place.
///
/// # Errors
/// If the kernel is not well formed.
pub fn phases(
    kernel: &LoopKernel,
    between: Between,
    overwrites: &dyn Fn(usize) -> bool,
) -> Result<Vec<Phase>, String> {
    let kernel = simplified(kernel)?;
    let locals = Locals::of_kernel(&kernel)?;
    let intervals = Intervals::of_kernel(&kernel, &locals);
    let mut parts: Vec<Part> = Vec::new();
    let mut number = 0;
    for statement in &kernel.body {
        let rounds = nest((&kernel, &locals, &intervals), statement, number, overwrites);
        number += count(std::slice::from_ref(statement));
        let items: i64 = rounds.iter().map(|&n| i64::from(n)).product();
        let rounds = if items > 1 { rounds } else { Vec::new() };
        match parts.last_mut() {
            Some(last) if last.rounds.is_empty() && rounds.is_empty() => {
                last.body.push(statement.clone());
            }
            _ => parts.push(Part { body: vec![statement.clone()], rounds }),
        }
    }
    if between == Between::FirstItem {
        parts = folded(&kernel, parts);
    }
    let kept = Kept::between(&kernel, &intervals, &parts);
    let mut buffers = kernel.buffers.clone();
    buffers.extend(kept.buffer());
    let phase = |(at, part): (usize, &Part)| {
        let body = kept.around(at, &part.body);
        let (buffers, locals) = (buffers.clone(), kernel.locals.clone());
        let draws = kernel.draws.clone();
        Phase { kernel: LoopKernel { buffers, locals, body, draws }, rounds: part.rounds.clone() }
    };
    Ok(parts.iter().enumerate().map(phase).collect())
}

/// Statements of a phase, and the rounds of its work items.
struct Part {
    body: Vec<Stmt>,
    rounds: Vec<i32>,
}

/// The parts, where statements without loops are the first work item's of a loop beside them if they can be: no other part
/// mentions a local that they set, and neither they nor the loop touch what the other writes.
fn folded(kernel: &LoopKernel, parts: Vec<Part>) -> Vec<Part> {
    let mut parts: Vec<Option<Part>> = parts.into_iter().map(Some).collect();
    for at in 0..parts.len() {
        let Some(part) = &parts[at] else { continue };
        if !part.rounds.is_empty() || height(&part.body) > 0 {
            continue;
        }
        let sets = Changes::of(&part.body).locals;
        let others = parts.iter().enumerate().filter(|(other, _)| *other != at);
        let bodies = others.filter_map(|(_, other)| other.as_ref().map(|other| &other.body[..]));
        if bodies.into_iter().any(|body| mentioned(body).iter().any(|l| sets.contains(l))) {
            continue;
        }
        let near = [at + 1, at.wrapping_sub(1)].into_iter().find(|&near| {
            let beside = parts.get(near).and_then(Option::as_ref);
            beside.is_some_and(|beside| {
                !beside.rounds.is_empty()
                    && !touches(kernel, &part.body, &beside.body)
                    && !touches(kernel, &beside.body, &part.body)
            })
        });
        let Some(near) = near else { continue };
        // A loop that is left where a part was folded away has another neighbour, which does not matter: order is kept.
        if let Some(Part { body, .. }) = parts[at].take()
            && let Some(loops) = &mut parts[near]
        {
            let depth = loops.rounds.len();
            first_item(&mut loops.body, depth, None, body);
        }
    }
    parts.into_iter().flatten().collect()
}

/// Whether one block writes what the other reads or writes.
fn touches(kernel: &LoopKernel, writer: &[Stmt], other: &[Stmt]) -> bool {
    let mut used = Changes::of(other).buffers;
    each_expression(other, &mut |e| e.each_load(&mut |buffer, _| _ = used.insert(buffer)));
    let written = Changes::of(writer).buffers;
    written.iter().any(|&a| used.iter().any(|&b| may_share(kernel, a, b)))
}

/// Whether two buffers may lie in the same memory: results may take the place of operands.
fn may_share(kernel: &LoopKernel, a: Buffer, b: Buffer) -> bool {
    let role = |buffer: Buffer| &kernel.buffers[buffer.0 as usize].role;
    let kind = |role: &Role| match role {
        Role::Input(_) | Role::Output(_) => 0,
        Role::InputScale(_) | Role::OutputScale(_) => 1,
        Role::RunContext => 2,
        Role::Scratch => 3,
    };
    a == b || (kind(role(a)) < 2 && kind(role(a)) == kind(role(b)))
}

/// Puts statements in front of the innermost of some loops, one in the other, for the first round of all.
fn first_item(body: &mut Vec<Stmt>, depth: usize, first: Option<Expr>, statements: Vec<Stmt>) {
    let Some(Stmt::For { variable, body: inner, .. }) = body.last_mut().filter(|_| depth > 0)
    else {
        let condition = first.unwrap_or_else(|| Expr::i32(0).equal(Expr::i32(0)));
        return body.insert(0, Stmt::If { condition, then: statements, otherwise: Vec::new() });
    };
    let at = Expr { ty: Scalar::I64, node: Box::new(Node::Local(*variable)) };
    let zero = at.equal(Expr::i64(0));
    let first = Some(match first {
        Some(before) => before.and(zero),
        None => zero,
    });
    first_item(inner, depth - 1, first, statements);
}

/// Locals that a block reads or sets.
fn mentioned(block: &[Stmt]) -> BTreeSet<Local> {
    let mut all = Changes::of(block).locals;
    each_expression(block, &mut |e| e.each_local(&mut |local| _ = all.insert(local)));
    all
}

/// Rounds of a loop and of those in it, one in the other, that are all independent. In front of an inner one nothing may
/// stand but assignments, which each work item repeats; behind it nothing.
fn nest(
    (kernel, locals, intervals): (&LoopKernel, &Locals, &Intervals<'_>),
    statement: &Stmt,
    number: usize,
    overwrites: &dyn Fn(usize) -> bool,
) -> Vec<i32> {
    let (mut rounds, mut around) = (Vec::new(), Vec::new());
    let (mut statement, mut number) = (statement, number);
    while let Stmt::For { variable, body, .. } = statement {
        let known = (kernel, locals, intervals);
        let free = free_rounds(known, statement, number + 1, &around, overwrites);
        let Some(free) = free else { break };
        rounds.push(free.rounds);
        around.push(*variable);
        let Some((inner, before)) = body.split_last() else { break };
        if !before.iter().all(|s| matches!(s, Stmt::Assign(..))) {
            break;
        }
        number += 1 + before.len();
        statement = inner;
    }
    rounds
}

/// Locals that are set in one phase and mentioned in another, and their places in working memory.
struct Kept<'k> {
    kernel: &'k LoopKernel,
    intervals: &'k Intervals<'k>,
    /// Position among the buffers.
    place: Buffer,
    /// The first word of each, and whether it takes two.
    words: BTreeMap<Local, (i64, bool)>,
    count: usize,
    /// Locals that each phase sets and mentions.
    sets: Vec<BTreeSet<Local>>,
    mentions: Vec<BTreeSet<Local>>,
}

impl<'k> Kept<'k> {
    fn between(kernel: &'k LoopKernel, intervals: &'k Intervals<'k>, parts: &[Part]) -> Kept<'k> {
        let sets: Vec<BTreeSet<Local>> =
            parts.iter().map(|part| Changes::of(&part.body).locals).collect();
        let mentions: Vec<BTreeSet<Local>> =
            parts.iter().map(|part| mentioned(&part.body)).collect();
        let (mut words, mut count) = (BTreeMap::new(), 0);
        for i in 0..kernel.locals.len() {
            let local = Local(i as u32);
            let set = sets.iter().any(|sets| sets.contains(&local));
            if set && mentions.iter().filter(|all| all.contains(&local)).count() > 1 {
                let long = kernel.locals[i].1 == Scalar::I64 && !is_narrow(intervals.local(local));
                words.insert(local, (count as i64, long));
                count += 1 + usize::from(long);
            }
        }
        let place = Buffer(kernel.buffers.len() as u32);
        Kept { kernel, intervals, place, words, count, sets, mentions }
    }

    /// The working memory, if anything is kept.
    fn buffer(&self) -> Option<BufferParameter> {
        (self.count > 0).then(|| BufferParameter {
            name: "kept".into(),
            element: Element::I32,
            count: self.count,
            role: Role::Scratch,
        })
    }

    /// The statements of a phase between those that fetch what is kept and those that keep what it sets.
    fn around(&self, phase: usize, part: &[Stmt]) -> Vec<Stmt> {
        let mut body = Vec::new();
        let before = |local: &Local| self.sets[..phase].iter().any(|sets| sets.contains(local));
        let after = |local: &Local| self.mentions[phase + 1..].iter().any(|m| m.contains(local));
        for local in self.words.keys().filter(|local| self.mentions[phase].contains(local)) {
            if before(local) {
                body.push(Stmt::Assign(*local, self.fetched(*local)));
            }
        }
        body.extend_from_slice(part);
        for local in self.words.keys().filter(|local| self.sets[phase].contains(local)) {
            if after(local) {
                self.keep(*local, &mut body);
            }
        }
        body
    }

    fn scalar(&self, local: Local) -> Scalar {
        self.kernel.locals[local.0 as usize].1
    }

    fn fetched(&self, local: Local) -> Expr {
        let (word, long) = self.words[&local];
        let load = |word: i64| Expr {
            ty: Scalar::I32,
            node: Box::new(Node::Load(self.place, Expr::i64(word))),
        };
        match self.scalar(local) {
            Scalar::I32 => self.within(local, load(word)),
            Scalar::F32 => load(word).unary(Unary::FromBits),
            Scalar::Bool => load(word).compare(Comparison::NotEqual, Expr::i32(0)),
            Scalar::I64 if !long => self.within(local, load(word)).extend(),
            Scalar::I64 => {
                let high = load(word + 1).extend().shift_left(Expr::i64(32));
                high.or(load(word).unary(Unary::ExtendUnsigned))
            }
        }
    }

    /// What is fetched, with the bounds that its setting has: analyses of the phase alone know them then.
    fn within(&self, local: Local, word: Expr) -> Expr {
        let (low, high) = self.intervals.local(local);
        let word = match i32::try_from(low) {
            Ok(low) if low > i32::MIN => word.maximum(Expr::i32(low)),
            _ => word,
        };
        match i32::try_from(high) {
            Ok(high) if high < i32::MAX => word.minimum(Expr::i32(high)),
            _ => word,
        }
    }

    fn keep(&self, local: Local, body: &mut Vec<Stmt>) {
        let (word, long) = self.words[&local];
        let ty = self.scalar(local);
        let value = Expr { ty, node: Box::new(Node::Local(local)) };
        let mut store = |word: i64, value: Expr| {
            body.push(Stmt::Store(self.place, Expr::i64(word), value));
        };
        match ty {
            Scalar::I32 => store(word, value),
            Scalar::F32 => store(word, value.unary(Unary::ToBits)),
            Scalar::Bool => store(word, value.unary(Unary::BoolToInteger)),
            Scalar::I64 => {
                store(word, value.clone().truncate());
                if long {
                    store(word + 1, value.shift_right(Expr::i64(32)).truncate());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_ir::TensorType;
    use trainc_ir::ops::{Op, Transpose};

    /// A round that reads what another writes waits for it only where the result may lie there.
    #[test]
    fn rounds_of_a_transposition() {
        let (x, y) = (TensorType::f32([5, 7]), TensorType::f32([7, 5]));
        let op = Op::from(Transpose { permutation: vec![1, 0] });
        let kernel = op.lower(&[&x], &[&y]);
        let rounds = |overwrites: bool| {
            let all = phases(&kernel, Between::Alone, &|_| overwrites).expect("well formed");
            all.into_iter().map(|phase| phase.rounds).collect::<Vec<_>>()
        };
        assert_eq!(rounds(false), [[7, 5]]);
        assert_eq!(rounds(true), [[0; 0]]);
    }
}
