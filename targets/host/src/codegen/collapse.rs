//! Nested loops as one: `for a in 0..A { for b in 0..B { .. a*B + b .. } }` is a loop over `A*B` where nothing asks
//! for `a` or `b` alone. Elementwise nests become long loops, which run as vectors whatever their innermost size.

use trainc_ir::loops::{Binary, Expr, Local, LoopKernel, Node, Scalar, Stmt};

use super::address::Linear;
use super::vector::count_locals;

/// The kernel with its nests collapsed: same stores, same order.
pub(super) fn collapsed(kernel: &LoopKernel) -> LoopKernel {
    let mut uses = vec![0; kernel.locals.len()];
    count_locals(&kernel.body, &mut uses);
    LoopKernel { body: block(&kernel.body, &uses), ..kernel.clone() }
}

fn block(statements: &[Stmt], uses: &[usize]) -> Vec<Stmt> {
    statements.iter().map(|s| statement(s, uses)).collect()
}

fn statement(s: &Stmt, uses: &[usize]) -> Stmt {
    match s {
        Stmt::For { variable, start, end, body } => {
            let inner = block(body, uses);
            if let Some(joined) = join(*variable, start, end, body, &inner, uses) {
                return joined;
            }
            Stmt::For { variable: *variable, start: start.clone(), end: end.clone(), body: inner }
        }
        Stmt::If { condition, then, otherwise } => Stmt::If {
            condition: condition.clone(),
            then: block(then, uses),
            otherwise: block(otherwise, uses),
        },
        other => other.clone(),
    }
}

/// The loop that stands for an outer loop whose body is one inner loop, if there is one.
fn join(
    outer: Local,
    start: &Expr,
    end: &Expr,
    original: &[Stmt],
    body: &[Stmt],
    uses: &[usize],
) -> Option<Stmt> {
    let [Stmt::For { variable: inner, start: first, end: last, body: statements }] = body else {
        return None;
    };
    let counted = |start: &Expr, end: &Expr| match (start.as_constant()?, end.as_constant()?) {
        (0, count) if count > 0 => Some(count),
        _ => None,
    };
    let (rounds, inner_rounds) = (counted(start, end)?, counted(first, last)?);
    let total = rounds.checked_mul(inner_rounds)?;
    // After the loops nothing asks for their variables.
    let mut own = vec![0; uses.len()];
    count_locals(original, &mut own);
    let outer_at = outer.0 as usize;
    if own[outer_at] + 1 != uses[outer_at] || own[inner.0 as usize] != uses[inner.0 as usize] {
        return None;
    }
    let pair = Pair { outer, inner: *inner, rounds: inner_rounds };
    let body = pair.block(statements)?;
    Some(Stmt::For { variable: *inner, start: Expr::i64(0), end: Expr::i64(total), body })
}

/// Two loop variables of which the second is to stand for `outer * rounds + inner`.
struct Pair {
    outer: Local,
    inner: Local,
    rounds: i64,
}

impl Pair {
    fn block(&self, statements: &[Stmt]) -> Option<Vec<Stmt>> {
        let of = |s: &Stmt| {
            Some(match s {
                Stmt::Assign(local, value) => Stmt::Assign(*local, self.expr(value)?),
                Stmt::Store(buffer, index, value) => {
                    Stmt::Store(*buffer, self.expr(index)?, self.expr(value)?)
                }
                Stmt::For { variable, start, end, body } => Stmt::For {
                    variable: *variable,
                    start: self.expr(start)?,
                    end: self.expr(end)?,
                    body: self.block(body)?,
                },
                Stmt::If { condition, then, otherwise } => Stmt::If {
                    condition: self.expr(condition)?,
                    then: self.block(then)?,
                    otherwise: self.block(otherwise)?,
                },
            })
        };
        statements.iter().map(of).collect()
    }

    fn mentioned(&self, e: &Expr) -> bool {
        match &*e.node {
            Node::Integer(_) | Node::Float(_) => false,
            Node::Local(local) => *local == self.outer || *local == self.inner,
            Node::Load(_, x) | Node::Unary(_, x) => self.mentioned(x),
            Node::Binary(_, a, b) | Node::Compare(_, a, b) => {
                self.mentioned(a) || self.mentioned(b)
            }
            Node::Select(c, a, b) => self.mentioned(c) || self.mentioned(a) || self.mentioned(b),
        }
    }

    /// The expression in terms of the joined variable; `None` if it asks for one of the two alone.
    fn expr(&self, e: &Expr) -> Option<Expr> {
        if !self.mentioned(e) {
            return Some(e.clone());
        }
        if e.ty == Scalar::I64 && is_linear(e) {
            return self.linear(e);
        }
        let node = match &*e.node {
            Node::Integer(_) | Node::Float(_) | Node::Local(_) => return None,
            Node::Load(buffer, index) => Node::Load(*buffer, self.expr(index)?),
            Node::Unary(op, x) => Node::Unary(*op, self.expr(x)?),
            Node::Binary(op, a, b) => Node::Binary(*op, self.expr(a)?, self.expr(b)?),
            Node::Compare(comparison, a, b) => {
                Node::Compare(*comparison, self.expr(a)?, self.expr(b)?)
            }
            Node::Select(c, a, b) => Node::Select(self.expr(c)?, self.expr(a)?, self.expr(b)?),
        };
        Some(Expr { ty: e.ty, node: Box::new(node) })
    }

    fn linear(&self, e: &Expr) -> Option<Expr> {
        let linear = Linear::of(e);
        let (mut outer, mut inner) = (0i64, 0i64);
        let mut sum = Expr::i64(linear.constant);
        for (factor, term) in linear.terms {
            match &*term.node {
                Node::Local(local) if *local == self.outer => outer = outer.wrapping_add(factor),
                Node::Local(local) if *local == self.inner => inner = inner.wrapping_add(factor),
                _ => {
                    let term = if is_linear(term) { term.clone() } else { self.expr(term)? };
                    sum = sum + Expr::i64(factor) * term;
                }
            }
        }
        if outer != inner.wrapping_mul(self.rounds) {
            return None;
        }
        let joined = Expr { ty: Scalar::I64, node: Box::new(Node::Local(self.inner)) };
        Some(sum + joined * Expr::i64(inner))
    }
}

/// Whether [`Linear`] looks into an expression.
fn is_linear(e: &Expr) -> bool {
    match &*e.node {
        Node::Integer(_) | Node::Local(_) => true,
        Node::Binary(Binary::Add | Binary::Subtract, ..) => true,
        Node::Binary(Binary::Multiply, a, b) => {
            a.as_constant().is_some() || b.as_constant().is_some()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_ir::TensorType;
    use trainc_ir::loops::builder::LoopBuilder;

    fn loops(body: &[Stmt]) -> Vec<(i64, Vec<Stmt>)> {
        let of = |s: &Stmt| match s {
            Stmt::For { end, body, .. } => {
                Some((end.as_constant().expect("constant"), body.clone()))
            }
            _ => None,
        };
        body.iter().filter_map(of).collect()
    }

    #[test]
    fn an_elementwise_nest_is_one_loop_and_a_transposition_is_not() {
        let ty = TensorType::f32([2, 3, 4]);
        let kernel = |source: fn(&[Expr]) -> Expr| {
            let mut b = LoopBuilder::new(&[&ty], &[&ty], false);
            let (x, y) = (b.input(0), b.output(0));
            b.for_shape("i", &[2, 3, 4], |b, i| {
                let value = b.load(x, source(i));
                let at = (i[0].clone() * Expr::i64(3) + i[1].clone()) * Expr::i64(4) + i[2].clone();
                b.store(y, at, value);
            });
            collapsed(&b.finish())
        };
        let flat =
            |i: &[Expr]| (i[0].clone() * Expr::i64(3) + i[1].clone()) * Expr::i64(4) + i[2].clone();
        let all = loops(&kernel(flat).body);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].0, 24);
        assert!(loops(&all[0].1).is_empty());
        // The channel's element for each of its last dimension: the two outer loops join.
        let channel = |i: &[Expr]| i[0].clone() * Expr::i64(3) + i[1].clone();
        let all = loops(&kernel(channel).body);
        assert_eq!((all[0].0, loops(&all[0].1)[0].0), (6, 4));
        // The last two dimensions exchanged.
        let exchanged =
            |i: &[Expr]| (i[0].clone() * Expr::i64(4) + i[2].clone()) * Expr::i64(3) + i[1].clone();
        let all = loops(&kernel(exchanged).body);
        assert_eq!((all[0].0, loops(&all[0].1)[0].0), (2, 3));
    }
}
