//! Loops with quotients or roots of floats, some rounds at a time: their operations overlap, and one check serves all.

use trainc_ir::loops::{Buffer, Expr, Local, LoopKernel, Node, Scalar, Stmt};
use trainc_loops::{Linear, count_uses};

use super::quotients::{calls, count};

/// Rounds at a time of one quotient or root, and of more: what they compute must fit the scalar registers, and be so few
/// instructions that all are scheduled together.
const ROUNDS: [i64; 2] = [4, 2];

/// The kernel with such loops unrolled, as far as rounds do not depend on each other.
pub(super) fn unrolled(mut kernel: LoopKernel) -> LoopKernel {
    let body = std::mem::take(&mut kernel.body);
    let mut whole = LoopKernel { body, ..kernel.clone() };
    let uses = count_uses(&whole, &whole.body);
    let body = std::mem::take(&mut whole.body);
    whole.body = block(&mut whole, &uses, body);
    whole
}

fn block(kernel: &mut LoopKernel, uses: &[usize], statements: Vec<Stmt>) -> Vec<Stmt> {
    let mut out = Vec::with_capacity(statements.len());
    for statement in statements {
        match statement {
            Stmt::For { variable, start, end, body } => {
                let parts = Rounds::of(kernel, uses, variable, (&start, &end), &body);
                if let Some(rounds) = parts {
                    out.extend(rounds.unrolled(kernel));
                } else {
                    let body = block(kernel, uses, body);
                    out.push(Stmt::For { variable, start, end, body });
                }
            }
            Stmt::If { condition, then, otherwise } => {
                let then = block(kernel, uses, then);
                let otherwise = block(kernel, uses, otherwise);
                out.push(Stmt::If { condition, then, otherwise });
            }
            other => out.push(other),
        }
    }
    out
}

/// A loop that sets locals and stores one element a round.
struct Rounds<'a> {
    variable: Local,
    start: i64,
    end: i64,
    body: &'a [Stmt],
    set: Vec<(Local, &'a Expr)>,
    store: (Buffer, &'a Expr, &'a Expr),
    /// Rounds at a time.
    together: i64,
}

impl<'a> Rounds<'a> {
    fn of(
        kernel: &LoopKernel,
        uses: &[usize],
        variable: Local,
        (start, end): (&Expr, &Expr),
        body: &'a [Stmt],
    ) -> Option<Rounds<'a>> {
        let (start, end) = (start.as_constant()?, end.as_constant()?);
        let [assignments @ .., Stmt::Store(buffer, index, value)] = body else { return None };
        let own = count_uses(kernel, body);
        let mut set: Vec<(Local, &Expr)> = Vec::new();
        for statement in assignments {
            let Stmt::Assign(local, value) = statement else { return None };
            let inside = own[local.0 as usize] == uses[local.0 as usize];
            let again = set.iter().any(|(known, _)| known == local);
            if !inside || again || value.mentions(|l| l == *local) {
                return None;
            }
            set.push((*local, value));
        }
        let quotients = set.iter().map(|(_, value)| count(value)).sum::<usize>() + count(value);
        let together = ROUNDS[usize::from(quotients > 1)];
        let values = || set.iter().map(|(_, value)| *value).chain([value]);
        let rounds = Rounds {
            variable,
            start,
            end,
            body,
            store: (*buffer, index, value),
            set: set.clone(),
            together,
        };
        // Each round has its own element, which is all that it reads of the memory where results go.
        let apart = Linear::of(index).factor(variable) != 0 && !index.loads();
        let elements = values().all(|value| {
            let mut fits = true;
            value.each_load(&mut |from, at| {
                fits &= at == index || rounds.is_elsewhere(kernel, from)
            });
            fits
        });
        let element = |b: Buffer| kernel.buffers[b.0 as usize].element;
        let alike = values().all(|value| {
            let mut fits = true;
            value.each_load(&mut |from, _| {
                fits &= rounds.is_elsewhere(kernel, from) || element(from) == element(*buffer);
            });
            fits
        });
        let counts = own[variable.0 as usize] + 1 == uses[variable.0 as usize];
        let pays = end - start >= together && values().any(calls);
        (apart && elements && alike && counts && pays).then_some(rounds)
    }

    /// Whether a buffer cannot be where the result goes: an operation works in place of operands of as many bytes.
    fn is_elsewhere(&self, kernel: &LoopKernel, buffer: Buffer) -> bool {
        let bytes = |b: Buffer| {
            let buffer = &kernel.buffers[b.0 as usize];
            buffer.element.bytes(buffer.count)
        };
        buffer != self.store.0 && bytes(buffer) != bytes(self.store.0)
    }

    fn unrolled(&self, kernel: &mut LoopKernel) -> Vec<Stmt> {
        let mut local = |name: String, ty: Scalar| {
            kernel.locals.push((name, ty));
            Local(kernel.locals.len() as u32 - 1)
        };
        let (rounds, together) = (self.end - self.start, self.together);
        let group = local("group".into(), Scalar::I64);
        // The locals of each round.
        let mut own: Vec<Vec<(Local, Local)>> = vec![Vec::new(); together as usize];
        for (at, round) in own.iter_mut().enumerate() {
            for (of, value) in &self.set {
                round.push((*of, local(format!("value{at}"), value.ty)));
            }
        }
        let name = |of: Local, ty: Scalar| Expr { ty, node: Box::new(Node::Local(of)) };
        let first = name(group, Scalar::I64) * Expr::i64(together);
        let of_round = |e: &Expr, at: usize| {
            let place = first.clone() + Expr::i64(self.start + at as i64);
            replaced(e, &|of, ty| match own[at].iter().find(|(known, _)| *known == of) {
                Some((_, own)) => Some(name(*own, ty)),
                None => (of == self.variable).then(|| place.clone()),
            })
        };
        let mut body = Vec::new();
        for (number, (_, value)) in self.set.iter().enumerate() {
            for (at, round) in own.iter().enumerate() {
                body.push(Stmt::Assign(round[number].1, of_round(value, at)));
            }
        }
        let (buffer, index, value) = self.store;
        let results: Vec<Local> =
            (0..own.len()).map(|at| local(format!("result{at}"), value.ty)).collect();
        for (at, result) in results.iter().enumerate() {
            body.push(Stmt::Assign(*result, of_round(value, at)));
        }
        for (at, result) in results.iter().enumerate() {
            body.push(Stmt::Store(buffer, of_round(index, at), name(*result, value.ty)));
        }
        let (start, end) = (Expr::i64(0), Expr::i64(rounds / together));
        let mut out = vec![Stmt::For { variable: group, start, end, body }];
        if rounds % together > 0 {
            out.push(Stmt::For {
                variable: self.variable,
                start: Expr::i64(self.end - rounds % together),
                end: Expr::i64(self.end),
                body: self.body.to_vec(),
            });
        }
        out
    }
}

/// An expression with something in the place of locals.
fn replaced(e: &Expr, of: &dyn Fn(Local, Scalar) -> Option<Expr>) -> Expr {
    if let Some(found) = e.as_local().and_then(|local| of(local, e.ty)) {
        return found;
    }
    e.map_operands(&mut |x| Some(replaced(x, of))).unwrap_or_else(|| e.clone())
}
