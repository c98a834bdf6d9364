//! Sums in parts: a loop whose rounds combine locals is one in whose rounds the locals are combined of a part of them each, kept
//! side by side, and a short one that combines the parts. Rounds of the first no longer wait for each other.

use std::collections::BTreeMap;

use trainc_ir::Element;
use trainc_ir::loops::{
    Binary, Buffer, BufferParameter, Expr, Local, LoopKernel, Node, Role, Scalar, Stmt, Unary,
    each_statement,
};

use crate::collapse::collapsed;
use crate::reductions::Reduction;
use crate::uses::{Changes, count_uses};

/// Fewest and most parts.
const PARTS: [i64; 2] = [4, 4096];
/// Fewest rounds of a part, unless there are loops in it.
const EACH: i64 = 32;

/// The kernel with its sums made in parts where that can be, the same bits: of integers alone, whose sums have no order. A condition
/// around loops at the top is one inside of them. Fewer rounds than `fewest` are left as they are: what parts cost is more than
/// what they save. Where there are many parts, those are combined in parts, too.
pub fn in_parts(kernel: &LoopKernel, fewest: i64) -> LoopKernel {
    let mut kernel = collapsed(&guarded(kernel));
    let statements = std::mem::take(&mut kernel.body);
    // What the whole mentions is asked of the whole.
    let uses = count_uses(&kernel, &statements);
    let mut body = Vec::with_capacity(statements.len());
    for statement in statements {
        let mut rest = statement;
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
        if own[at] == uses[at] {
            return;
        }
        let reduction = match statement {
            Stmt::Assign(_, value) if kernel.locals[at].1 == Scalar::I32 => {
                Reduction::of(local, value)
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
    let nest = Nest::of(statement, &sums, fewest)?;
    let parts = nest.parts();
    if parts < PARTS[0] {
        return None;
    }
    let mut own = BTreeMap::new();
    for (&local, &op) in &sums {
        let name = format!("{}_part", kernel.locals[local.0 as usize].0);
        let part = new_local(kernel, &name, Scalar::I32);
        let buffer = Buffer(kernel.buffers.len() as u32);
        kernel.buffers.push(BufferParameter {
            name: format!("{}_parts", kernel.locals[local.0 as usize].0),
            element: Element::I32,
            count: parts as usize,
            role: Role::Scratch,
        });
        own.insert(local, Part { part, buffer, op });
    }
    let first = nest.first(kernel, &own);
    let at = new_local(kernel, "part", Scalar::I64);
    let combine = own.iter().map(|(&local, part)| {
        let loaded = Expr {
            ty: Scalar::I32,
            node: Box::new(Node::Load(part.buffer, read(at, Scalar::I64))),
        };
        Stmt::Assign(local, loaded.binary(part.op, read(local, Scalar::I32)))
    });
    let second = Stmt::For {
        variable: at,
        start: Expr::i64(0),
        end: Expr::i64(parts),
        body: combine.collect(),
    };
    Some([first, second])
}

/// A local's sum over a part, and where the parts are kept.
struct Part {
    part: Local,
    buffer: Buffer,
    op: Binary,
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
    fn of(statement: &'s Stmt, sums: &BTreeMap<Local, Binary>, fewest: i64) -> Option<Nest<'s>> {
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
                Some((inner, before)) if beyond <= PARTS[1] => {
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
                    let most = if nested { PARTS[1] } else { PARTS[1].min(beyond / EACH) };
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

    /// The loops that make the parts.
    fn first(&self, kernel: &mut LoopKernel, own: &BTreeMap<Local, Part>) -> Stmt {
        let renamed = |e: &Expr| renamed(e, own);
        let rename = |body: &[Stmt]| -> Vec<Stmt> {
            let statement = |s: &Stmt| set_renamed(&mapped(s, &renamed), own);
            body.iter().map(statement).collect()
        };
        let mut place = Expr::i64(0);
        let mut loops = self.loops.clone();
        let mut body = rename(self.body);
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
            own.values().map(|p| Stmt::Assign(p.part, identity(p.op))).collect();
        inner.append(&mut body);
        inner.extend(
            own.values().map(|p| Stmt::Store(p.buffer, place.clone(), read(p.part, Scalar::I32))),
        );
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

/// What changes no value.
fn identity(op: Binary) -> Expr {
    Expr::i32(match op {
        Binary::Minimum => i32::MAX,
        Binary::Maximum => i32::MIN,
        Binary::And => -1,
        _ => 0,
    })
}

/// An expression of parts instead of sums.
fn renamed(e: &Expr, own: &BTreeMap<Local, Part>) -> Expr {
    match e.as_local().and_then(|local| own.get(&local)) {
        Some(part) => read(part.part, e.ty),
        None => e.map_operands(&mut |x| Some(renamed(x, own))).unwrap_or_else(|| e.clone()),
    }
}

/// A statement with its expressions mapped.
fn mapped(statement: &Stmt, f: &dyn Fn(&Expr) -> Expr) -> Stmt {
    statement.map_expressions(&mut |e| Some(f(e))).unwrap_or_else(|| statement.clone())
}

/// A statement that sets parts instead of sums.
fn set_renamed(statement: &Stmt, own: &BTreeMap<Local, Part>) -> Stmt {
    let all = |block: &[Stmt]| block.iter().map(|s| set_renamed(s, own)).collect();
    match statement {
        Stmt::Assign(local, value) => {
            Stmt::Assign(own.get(local).map_or(*local, |part| part.part), value.clone())
        }
        Stmt::For { variable, start, end, body } => Stmt::For {
            variable: *variable,
            start: start.clone(),
            end: end.clone(),
            body: all(body),
        },
        Stmt::If { condition, then, otherwise } => {
            Stmt::If { condition: condition.clone(), then: all(then), otherwise: all(otherwise) }
        }
        Stmt::Store(..) => statement.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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

    #[test]
    fn many_rounds_are_parts_of_parts() {
        let ty = TensorType { element: Element::I32, ..TensorType::f32([131_072]) };
        let kernel = |rounds: i64| {
            let mut b = trainc_ir::loops::builder::LoopBuilder::new(&[&ty], &[&ty], false);
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
