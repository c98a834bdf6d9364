//! Sums in parts: a loop whose rounds combine locals is one in whose rounds the locals are combined of a part of them each, kept
//! side by side, and a short one that combines the parts. Rounds of the first no longer wait for each other.

use std::collections::BTreeMap;

use trainc_ir::Element;
use trainc_ir::loops::{
    Binary, Buffer, BufferParameter, Expr, Local, LoopKernel, Node, Role, Scalar, Stmt, Unary,
    each_expression, each_statement,
};

use crate::collapse::collapsed;
use crate::reductions::Reduction;
use crate::uses::{Changes, count_uses};

/// Fewest and most parts.
const PARTS: [i64; 2] = [4, 4096];
/// Fewest rounds of a part, unless there are loops in it.
const EACH: i64 = 32;

/// The kernel with its sums made in parts where that can be, the same bits: of integers, whose sums have no order, and of the
/// largest magnitude. A condition around loops at the top is one inside of them. Fewer rounds than `fewest` are left as they are:
/// what parts cost is more than what they save. Where there are many parts, those are combined in parts, too.
pub fn in_parts(kernel: &LoopKernel, fewest: i64) -> LoopKernel {
    let mut kernel = collapsed(&guarded(kernel));
    let statements = std::mem::take(&mut kernel.body);
    // What the whole mentions is asked of the whole.
    let uses = count_uses(&kernel, &statements);
    let mut body = Vec::with_capacity(statements.len());
    for statement in statements {
        let mut rest = statement;
        if let Some([first, second]) = divided_within(&mut kernel, &uses, &rest, fewest) {
            body.push(first);
            rest = second;
        }
        while let Some([first, second]) = divided(&mut kernel, &uses, &rest, fewest) {
            body.push(first);
            rest = second;
        }
        body.push(rest);
    }
    kernel.body = body;
    kernel
}

/// The kernel with conditions at the top inside of the loops that they are around, where they stay the same meanwhile.
fn guarded(kernel: &LoopKernel) -> LoopKernel {
    let mut body = Vec::with_capacity(kernel.body.len());
    for statement in &kernel.body {
        let inside = match statement {
            Stmt::If { condition, then, otherwise } => pushed(condition, then, otherwise),
            _ => None,
        };
        match inside {
            Some(loops) => body.extend(loops),
            None => body.push(statement.clone()),
        }
    }
    LoopKernel { body, ..kernel.clone() }
}

/// The loops of both branches, each with its condition in its innermost body.
fn pushed(condition: &Expr, then: &[Stmt], otherwise: &[Stmt]) -> Option<Vec<Stmt>> {
    let mut loads = false;
    condition.each_load(&mut |_, _| loads = true);
    let all: Vec<&Stmt> = then.iter().chain(otherwise).collect();
    let same = all.iter().all(|statement| {
        let changed = Changes::of(std::slice::from_ref(*statement)).locals;
        !condition.mentions(|local| changed.contains(&local))
    });
    if loads || !same {
        return None;
    }
    let not = condition.clone().unary(Unary::Not);
    let of = |block: &[Stmt], condition: &Expr| -> Option<Vec<Stmt>> {
        block.iter().map(|statement| within(statement, condition)).collect()
    };
    Some([of(then, condition)?, of(otherwise, &not)?].concat())
}

/// A loop of many rounds whose innermost body, behind loops alone, runs under a condition.
fn within(statement: &Stmt, condition: &Expr) -> Option<Stmt> {
    let Stmt::For { variable, start, end, body } = statement else { return None };
    if count(start, end)? < 1 {
        return None;
    }
    let body = match &body[..] {
        [inner @ Stmt::For { .. }] => vec![within(inner, condition)?],
        _ => vec![Stmt::If {
            condition: condition.clone(),
            then: body.clone(),
            otherwise: Vec::new(),
        }],
    };
    Some(Stmt::For { variable: *variable, start: start.clone(), end: end.clone(), body })
}

/// Rounds of a loop from 0 to a constant.
fn count(start: &Expr, end: &Expr) -> Option<i64> {
    if start.as_constant() == Some(0) { end.as_constant() } else { None }
}

/// What a loop combines: each local with its operation; `None` if something else leaves it.
fn combined(kernel: &LoopKernel, uses: &[usize], body: &[Stmt]) -> Option<BTreeMap<Local, Binary>> {
    let own = count_uses(kernel, body);
    let mut found: BTreeMap<Local, (Binary, usize)> = BTreeMap::new();
    let mut fits = true;
    each_statement(body, &mut |statement| {
        let Some(local) = statement.sets() else { return };
        let at = local.0 as usize;
        // Locals that parts brought are used where they were put.
        if uses.get(at).is_none_or(|&all| own[at] == all) {
            return;
        }
        let reduction = match statement {
            Stmt::Assign(_, value) => {
                Reduction::of(local, value).filter(|sum| has_no_order(sum, value.ty, body))
            }
            _ => None,
        };
        match (reduction, found.get_mut(&local)) {
            (Some(reduction), Some((op, times))) if *op == reduction.op => *times += 1,
            (Some(reduction), None) => _ = found.insert(local, (reduction.op, 1)),
            _ => fits = false,
        }
    });
    // Each mention is of a sum: the assignment and its value.
    fits &= found.iter().all(|(local, (_, times))| own[local.0 as usize] == 2 * times);
    (fits && !found.is_empty()).then(|| found.into_iter().map(|(l, (op, _))| (l, op)).collect())
}

/// Whether a sum is the same in any order: of integers, and of the largest of magnitudes, whose zeros have no sign.
fn has_no_order(sum: &Reduction, ty: Scalar, body: &[Stmt]) -> bool {
    let magnitude = |e: &Expr| matches!(&*e.node, Node::Unary(Unary::FloatAbs, _));
    match ty {
        Scalar::I32 | Scalar::I64 => true,
        Scalar::F32 => match sum.value.as_local() {
            Some(local) => {
                let (mut set, mut all) = (0, true);
                each_statement(body, &mut |statement| match statement {
                    Stmt::Assign(to, value) if *to == local => {
                        set += 1;
                        all &= magnitude(value);
                    }
                    _ => {}
                });
                set > 0 && all
            }
            None => magnitude(&sum.value),
        },
        Scalar::Bool => false,
    }
}

/// The loops in which a loop's sums are made in parts.
fn divided(
    kernel: &mut LoopKernel,
    uses: &[usize],
    statement: &Stmt,
    fewest: i64,
) -> Option<[Stmt; 2]> {
    let Stmt::For { body, .. } = statement else { return None };
    let sums = combined(kernel, uses, body)?;
    // Nothing is stored: rounds do nothing but combine.
    if !Changes::of(std::slice::from_ref(statement)).buffers.is_empty() {
        return None;
    }
    let nest = Nest::of(statement, &sums, fewest, PARTS[1])?;
    let parts = nest.parts();
    if parts < PARTS[0] {
        return None;
    }
    let own = Part::of_all(kernel, &sums, parts);
    let first = nest.first(kernel, &own, Expr::i64(0));
    let second = combine(kernel, &own, parts, Expr::i64(0));
    Some([first, second])
}

/// The two loops of a loop in each of whose rounds a sum over many is made, such as a channel's: one makes the parts of all, the
/// other goes on from them. What stands in front of the sum is assignments, which both make; what is behind it changes nothing
/// of what the first reads.
fn divided_within(
    kernel: &mut LoopKernel,
    uses: &[usize],
    statement: &Stmt,
    fewest: i64,
) -> Option<[Stmt; 2]> {
    let Stmt::For { variable, start, end, body } = statement else { return None };
    let rounds = count(start, end).filter(|rounds| (2..=PARTS[1] / PARTS[0]).contains(rounds))?;
    let at = body.iter().position(|s| !matches!(s, Stmt::Assign(..)))?;
    let (before, inner, behind) = (&body[..at], &body[at], &body[at + 1..]);
    let Stmt::For { body: summed, .. } = inner else { return None };
    let sums = combined(kernel, uses, summed)?;
    let (first, rest) = (Changes::of(&body[..=at]), Changes::of(behind));
    // The sums start anew in each round, and nothing of a round is left for the next.
    let set = |local: &Local| before.iter().any(|s| s.sets() == Some(*local));
    let own = count_uses(kernel, body);
    let kept = |local: &Local| own[local.0 as usize] == uses[local.0 as usize];
    if behind.is_empty()
        || !first.buffers.is_empty()
        || !sums.keys().all(set)
        || !first.locals.iter().all(kept)
        || reads(&body[..=at], kernel, &rest)
    {
        return None;
    }
    let nest = Nest::of(inner, &sums, fewest / rounds, PARTS[1] / rounds)?;
    let parts = nest.parts();
    if parts < PARTS[0] {
        return None;
    }
    let own = Part::of_all(kernel, &sums, parts * rounds);
    // What the first assigns has names of its own there: the second assigns it, too.
    let mut names = BTreeMap::new();
    let mut renamed_local = |kernel: &mut LoopKernel, local: Local| {
        let (name, ty) = kernel.locals[local.0 as usize].clone();
        *names.entry(local).or_insert_with(|| new_local(kernel, &name, ty))
    };
    let channel = renamed_local(kernel, *variable);
    for local in before.iter().filter_map(Stmt::sets).filter(|local| !sums.contains_key(local)) {
        renamed_local(kernel, local);
    }
    let made = nest.first(kernel, &own, read(*variable, Scalar::I64));
    let mut all: Vec<Stmt> = before
        .iter()
        .filter(|s| s.sets().is_none_or(|local| !sums.contains_key(&local)))
        .cloned()
        .collect();
    all.push(made);
    let first = Stmt::For {
        variable: channel,
        start: start.clone(),
        end: end.clone(),
        body: renamed_block(&all, &names),
    };
    let from = read(*variable, Scalar::I64) * Expr::i64(parts);
    let mut all = before.to_vec();
    all.push(combine(kernel, &own, parts, from));
    all.extend_from_slice(behind);
    let second =
        Stmt::For { variable: *variable, start: start.clone(), end: end.clone(), body: all };
    Some([first, second])
}

/// Whether a block reads what changes: a local, a buffer, or an operand that lies where a changed result does.
fn reads(block: &[Stmt], kernel: &LoopKernel, changes: &Changes) -> bool {
    let mut found = false;
    let shares = |a: Buffer, b: Buffer| {
        let [one, other] = [a, b].map(|id| &kernel.buffers[id.0 as usize]);
        let place = |role: &Role| matches!(role, Role::Input(_) | Role::Output(_));
        let both = place(&one.role) && place(&other.role);
        a == b || both && one.element == other.element && one.count == other.count
    };
    each_expression(block, &mut |e| found |= changes.touch(e, &shares));
    found
}

/// The loop that combines parts from a place on.
fn combine(kernel: &mut LoopKernel, own: &BTreeMap<Local, Part>, parts: i64, from: Expr) -> Stmt {
    let at = new_local(kernel, "part", Scalar::I64);
    let place = match from.as_constant() {
        Some(0) => read(at, Scalar::I64),
        _ => from + read(at, Scalar::I64),
    };
    let combine = own.iter().map(|(&local, part)| {
        Stmt::Assign(local, part.kept(&place).binary(part.op, read(local, part.ty)))
    });
    let body = combine.collect();
    Stmt::For { variable: at, start: Expr::i64(0), end: Expr::i64(parts), body }
}

/// A local's sum over a part, and where the parts are kept.
struct Part {
    part: Local,
    ty: Scalar,
    /// Words, two for each part of 64 bits: the low one first.
    buffer: Buffer,
    op: Binary,
}

impl Part {
    /// Those of all sums, with memory for so many each.
    fn of_all(
        kernel: &mut LoopKernel,
        sums: &BTreeMap<Local, Binary>,
        count: i64,
    ) -> BTreeMap<Local, Part> {
        let part = |(&local, &op): (&Local, &Binary)| {
            let (name, ty) = kernel.locals[local.0 as usize].clone();
            let part = new_local(kernel, &format!("{name}_part"), ty);
            let buffer = Buffer(kernel.buffers.len() as u32);
            kernel.buffers.push(BufferParameter {
                name: format!("{name}_parts"),
                element: Element::I32,
                count: if ty == Scalar::I64 { 2 * count as usize } else { count as usize },
                role: Role::Scratch,
            });
            (local, Part { part, ty, buffer, op })
        };
        sums.iter().map(part).collect()
    }

    /// What changes no value.
    fn identity(&self) -> Expr {
        match (self.op, self.ty) {
            (Binary::Minimum, Scalar::I64) => Expr::i64(i64::MAX),
            (Binary::Maximum, Scalar::I64) => Expr::i64(i64::MIN),
            (Binary::And, Scalar::I64) => Expr::i64(-1),
            (_, Scalar::I64) => Expr::i64(0),
            // Its only sum is the largest.
            (_, Scalar::F32) => Expr::f32(f32::NEG_INFINITY),
            (Binary::Minimum, _) => Expr::i32(i32::MAX),
            (Binary::Maximum, _) => Expr::i32(i32::MIN),
            (Binary::And, _) => Expr::i32(-1),
            _ => Expr::i32(0),
        }
    }

    /// The part that is kept at a place.
    fn kept(&self, place: &Expr) -> Expr {
        let word = |at: Expr| Expr { ty: Scalar::I32, node: Box::new(Node::Load(self.buffer, at)) };
        match self.ty {
            Scalar::I64 => {}
            Scalar::F32 => return word(place.clone()).unary(Unary::FromBits),
            _ => return word(place.clone()),
        }
        let low = place.clone() * Expr::i64(2);
        let high = word(low.clone() + Expr::i64(1)).extend().shift_left(Expr::i64(32));
        high.or(word(low).unary(Unary::ExtendUnsigned))
    }

    /// Keeps the part at a place.
    fn keep(&self, place: &Expr) -> Vec<Stmt> {
        let part = read(self.part, self.ty);
        match self.ty {
            Scalar::I64 => {}
            Scalar::F32 => {
                let bits = part.unary(Unary::ToBits);
                return vec![Stmt::Store(self.buffer, place.clone(), bits)];
            }
            _ => return vec![Stmt::Store(self.buffer, place.clone(), part)],
        }
        let low = place.clone() * Expr::i64(2);
        let high = part.clone().shift_right(Expr::i64(32)).truncate();
        vec![
            Stmt::Store(self.buffer, low.clone(), part.truncate()),
            Stmt::Store(self.buffer, low + Expr::i64(1), high),
        ]
    }
}

fn read(local: Local, ty: Scalar) -> Expr {
    Expr { ty, node: Box::new(Node::Local(local)) }
}

fn new_local(kernel: &mut LoopKernel, name: &str, ty: Scalar) -> Local {
    let local = Local(kernel.locals.len() as u32);
    kernel.locals.push((name.to_string(), ty));
    local
}

/// Loops, one in the other, whose rounds are parts.
struct Nest<'s> {
    /// Variable, rounds, and what stands in front of the next.
    loops: Vec<(Local, i64, &'s [Stmt])>,
    /// What a round of the innermost does.
    body: &'s [Stmt],
    /// Parts of the innermost; `None` if each round is a part.
    split: Option<i64>,
}

impl<'s> Nest<'s> {
    fn of(
        statement: &'s Stmt,
        sums: &BTreeMap<Local, Binary>,
        fewest: i64,
        most: i64,
    ) -> Option<Nest<'s>> {
        let mut loops = Vec::new();
        let (mut statement, mut all) = (statement, 1i64);
        loop {
            let Stmt::For { variable, start, end, body } = statement else { return None };
            let rounds = count(start, end).filter(|&rounds| rounds > 0)?;
            let beyond = all.checked_mul(rounds)?;
            let inner = match body.split_last() {
                Some((inner @ Stmt::For { start, end, .. }, before))
                    if count(start, end).is_some_and(|n| n > 0) && plain(before, sums) =>
                {
                    Some((inner, before))
                }
                _ => None,
            };
            match inner {
                Some((inner, before)) if beyond <= most => {
                    loops.push((*variable, rounds, before));
                    (statement, all) = (inner, beyond);
                }
                _ => {
                    loops.push((*variable, rounds, &[]));
                    // With loops inside, rounds do much; without, there must be many.
                    let nested = body.iter().any(|s| matches!(s, Stmt::For { .. }));
                    if !nested && beyond < fewest {
                        return None;
                    }
                    let most = if nested { most } else { most.min(beyond / EACH) };
                    let parts = part_count(rounds, (most / all).max(1));
                    let split = (parts != rounds).then_some(parts);
                    return Some(Nest { loops, body, split });
                }
            }
        }
    }

    fn parts(&self) -> i64 {
        let (last, outer) = self.loops.split_last().expect("a nest has a loop");
        outer.iter().map(|(_, rounds, _)| rounds).product::<i64>() * self.split.unwrap_or(last.1)
    }

    /// The loops that make the parts and keep them behind those of `before` rounds around.
    fn first(&self, kernel: &mut LoopKernel, own: &BTreeMap<Local, Part>, before: Expr) -> Stmt {
        let names: BTreeMap<Local, Local> =
            own.iter().map(|(&local, part)| (local, part.part)).collect();
        let mut place = before;
        let mut loops = self.loops.clone();
        let mut body = renamed_block(self.body, &names);
        if let (Some(parts), Some(last)) = (self.split, loops.last_mut()) {
            // Rounds of a part are as far from each other as there are parts: neighbours read neighbours.
            let (variable, rounds) = (last.0, last.1);
            let group = new_local(kernel, "group", Scalar::I64);
            let round = new_local(kernel, "round", Scalar::I64);
            let at = read(round, Scalar::I64) * Expr::i64(parts) + read(group, Scalar::I64);
            if rounds % parts != 0 {
                let condition = read(variable, Scalar::I64).less(Expr::i64(rounds));
                body = vec![Stmt::If { condition, then: body, otherwise: Vec::new() }];
            }
            body.insert(0, Stmt::Assign(variable, at));
            body = vec![Stmt::For {
                variable: round,
                start: Expr::i64(0),
                end: Expr::i64((rounds + parts - 1) / parts),
                body,
            }];
            *last = (group, parts, &[]);
        }
        for (variable, rounds, _) in &loops {
            place = place * Expr::i64(*rounds) + read(*variable, Scalar::I64);
        }
        let mut inner: Vec<Stmt> =
            own.values().map(|p| Stmt::Assign(p.part, p.identity())).collect();
        inner.append(&mut body);
        inner.extend(own.values().flat_map(|p| p.keep(&place)));
        let mut statement = None;
        for (variable, rounds, before) in loops.iter().rev() {
            let mut body = before.to_vec();
            match statement.take() {
                Some(statement) => body.push(statement),
                None => body.append(&mut inner),
            }
            statement = Some(Stmt::For {
                variable: *variable,
                start: Expr::i64(0),
                end: Expr::i64(*rounds),
                body,
            });
        }
        statement.expect("a nest has a loop")
    }
}

/// Whether statements are assignments, and none of a sum.
fn plain(before: &[Stmt], sums: &BTreeMap<Local, Binary>) -> bool {
    before.iter().all(|s| matches!(s, Stmt::Assign(local, _) if !sums.contains_key(local)))
}

/// Parts of so many rounds, `most` at most: as many as divide them, unless that is less than half of it.
fn part_count(rounds: i64, most: i64) -> i64 {
    let most = most.min(rounds);
    (most / 2..=most).rev().find(|&by| by > 0 && rounds % by == 0).unwrap_or(most)
}

/// An expression of other locals.
fn renamed(e: &Expr, names: &BTreeMap<Local, Local>) -> Expr {
    match e.as_local().and_then(|local| names.get(&local)) {
        Some(&other) => read(other, e.ty),
        None => e.map_operands(&mut |x| Some(renamed(x, names))).unwrap_or_else(|| e.clone()),
    }
}

/// Statements that read and set other locals.
fn renamed_block(block: &[Stmt], names: &BTreeMap<Local, Local>) -> Vec<Stmt> {
    let name = |local: Local| names.get(&local).copied().unwrap_or(local);
    let value = |e: &Expr| renamed(e, names);
    let of = |statement: &Stmt| match statement {
        Stmt::Assign(local, e) => Stmt::Assign(name(*local), value(e)),
        Stmt::Store(buffer, index, e) => Stmt::Store(*buffer, value(index), value(e)),
        Stmt::For { variable, start, end, body } => Stmt::For {
            variable: name(*variable),
            start: value(start),
            end: value(end),
            body: renamed_block(body, names),
        },
        Stmt::If { condition, then, otherwise } => Stmt::If {
            condition: value(condition),
            then: renamed_block(then, names),
            otherwise: renamed_block(otherwise, names),
        },
    };
    block.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_ir::loops::builder::LoopBuilder;
    use trainc_ir::loops::evaluate::run;
    use trainc_ir::{OpKind, RunContext, Tensor, TensorType};

    /// Loops that store parts, and those of each of them.
    fn parts(kernel: &LoopKernel) -> Vec<usize> {
        let parts = kernel.buffers.iter().filter(|b| b.name.ends_with("_parts"));
        parts.map(|b| b.count).collect()
    }

    #[test]
    fn the_same_bits_of_every_operation() {
        let context = RunContext { seed: 0x1234_5678_9abc_def0, step: 3 };
        let mut divided = 0;
        for (kind, case) in
            OpKind::ALL.iter().flat_map(|k| k.cases().into_iter().map(move |c| (k, c)))
        {
            let operands: Vec<&Tensor> = case.inputs.iter().collect();
            let types: Vec<&TensorType> = operands.iter().map(|t| t.ty()).collect();
            let results = case.op.infer(&types).expect("cases fit");
            let outputs: Vec<&TensorType> = results.iter().collect();
            for kernel in [case.op.lower(&types, &outputs), case.op.lower_apart(&types, &outputs)] {
                let other = in_parts(&kernel, 4);
                divided += usize::from(!parts(&other).is_empty());
                let found = run(&other, &operands, &results, &context);
                for (expected, found) in
                    run(&kernel, &operands, &results, &context).iter().zip(&found)
                {
                    assert!(expected.bits_equal(found), "{}: {}", kind.name(), case.op);
                }
            }
        }
        assert!(divided > 40, "{divided}");
    }

    /// The largest of values with signs depends on which zero comes first; of magnitudes it does not.
    #[test]
    fn the_largest_float_keeps_its_order() {
        let ty = TensorType::f32([256]);
        let kernel = |magnitude: bool, named: bool| {
            let mut b = LoopBuilder::new(&[&ty], &[&ty], false);
            let (x, y) = (b.input(0), b.output(0));
            let most = b.local("most", Expr::f32(f32::NEG_INFINITY));
            b.for_("i", 256, |b, i| {
                let x = b.load(x, i);
                let x = if magnitude { x.unary(Unary::FloatAbs) } else { x };
                let x = if named { b.let_("x", x) } else { x };
                let most_so_far = x.maximum(b.get(most));
                b.set(most, most_so_far);
            });
            b.store(y, Expr::i64(0), b.get(most));
            in_parts(&b.finish(), 4)
        };
        for named in [false, true] {
            let found = [false, true].map(|magnitude| parts(&kernel(magnitude, named)));
            assert_eq!(found, [vec![], vec![8]], "{named}");
        }
    }

    /// Channels of 256 elements whose sums are stored. A sum starts anew in each, or goes on; `store`: a channel changes what
    /// the next sums; `after`: the loop leaves a sum for what is behind it.
    fn channels(op: Binary, anew: bool, store: bool, after: bool) -> LoopKernel {
        let ty = TensorType { element: Element::I32, ..TensorType::f32([4, 256]) };
        let mut b = LoopBuilder::new(&[&ty], &[&ty], false);
        let (x, y) = (b.input(0), b.output(0));
        let copy = b.scratch("copy", Element::I32, 1024);
        b.for_("i", 1024, |b, i| {
            let value = b.load(x, i.clone());
            b.store(copy, i.clone(), value.clone());
            b.store(y, i, value);
        });
        let outside = (!anew || after).then(|| b.local("sum", Expr::i32(7)));
        b.for_("c", 4, |b, c| {
            let start = Expr::i32(if op == Binary::Maximum { i32::MIN } else { i32::MAX });
            let sum = outside.unwrap_or_else(|| b.local("sum", start.clone()));
            if anew && after {
                b.set(sum, start);
            }
            let first = b.let_("first", c.clone() * Expr::i64(256));
            b.for_("i", 256, |b, i| {
                let next = b.get(sum).binary(op, b.load(copy, first.clone() + i));
                b.set(sum, next);
            });
            if store {
                b.store(copy, Expr::i64(600), Expr::i32(1));
            }
            b.store(y, c, b.get(sum));
        });
        if let Some(sum) = outside.filter(|_| after) {
            b.store(y, Expr::i64(9), b.get(sum));
        }
        b.finish()
    }

    #[test]
    fn sums_of_channels() {
        let values = (0..1024).map(|i| 1000 + (i * 7919) % 1009).collect();
        let x = Tensor::i32([4, 256], values);
        let context = RunContext { seed: 0, step: 0 };
        for op in [Binary::Minimum, Binary::Maximum, Binary::Add, Binary::And, Binary::Or] {
            for case in 0..8 {
                let [anew, store, after] = [0, 1, 2].map(|bit| case >> bit & 1 == 1);
                let kernel = channels(op, anew, store, after);
                let other = in_parts(&kernel, 4);
                let ty = std::slice::from_ref(x.ty());
                let [one, two] = [&kernel, &other].map(|k| run(k, &[&x], ty, &context));
                assert!(one[0].bits_equal(&two[0]), "{op:?} {anew} {store} {after}");
                let divided = anew && !store && !after;
                assert_eq!(parts(&other), if divided { vec![32] } else { vec![] });
            }
        }
    }

    #[test]
    fn many_rounds_are_parts_of_parts() {
        let ty = TensorType { element: Element::I32, ..TensorType::f32([131_072]) };
        let kernel = |rounds: i64| {
            let mut b = LoopBuilder::new(&[&ty], &[&ty], false);
            let (x, y) = (b.input(0), b.output(0));
            let all = b.local("all", Expr::i32(0));
            b.for_("i", rounds as usize, |b, i| {
                let either = b.get(all).or(b.load(x, i));
                b.set(all, either);
            });
            b.store(y, Expr::i64(0), b.get(all));
            b.finish()
        };
        assert_eq!(parts(&in_parts(&kernel(131_072), 2048)), [4096, 128]);
        assert_eq!(parts(&in_parts(&kernel(2047), 2048)), [0; 0]);
        // 3 * 683 rounds: no divisor of 32 to 64, so that the last round of some is none.
        assert_eq!(parts(&in_parts(&kernel(2049), 2048)), [64]);
        assert_eq!(parts(&in_parts(&kernel(6272), 2048)), [196]);
    }
}
