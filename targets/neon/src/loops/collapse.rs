//! Nested loops as one: `for a in 0..A { for b in 0..B { .. a*B + b .. } }` is a loop over `A*B` where nothing asks for
//! `a` or `b` alone (a loop's variable is never used after it). Elementwise nests become long loops, which fill vectors
//! whatever their innermost size.

use trainc_ir::loops::{Expr, Local, LoopKernel, Node, Scalar, Stmt};

use super::linear::{Linear, is_linear};
use super::walk::mentions;

/// The kernel with its nests collapsed: same stores, same order.
pub(super) fn collapsed(kernel: &LoopKernel) -> LoopKernel {
    LoopKernel { body: block(&kernel.body), ..kernel.clone() }
}

fn block(statements: &[Stmt]) -> Vec<Stmt> {
    let of = |s: &Stmt| match s {
        Stmt::For { variable, start, end, body } => {
            let body = block(body);
            let whole =
                Stmt::For { variable: *variable, start: start.clone(), end: end.clone(), body };
            joined(&whole).unwrap_or(whole)
        }
        Stmt::If { condition, then, otherwise } => Stmt::If {
            condition: condition.clone(),
            then: block(then),
            otherwise: block(otherwise),
        },
        other => other.clone(),
    };
    statements.iter().map(of).collect()
}

/// Rounds of a loop from 0 to a constant.
fn rounds(start: &Expr, end: &Expr) -> Option<i64> {
    let (Some(0), Some(count)) = (start.as_constant(), end.as_constant()) else { return None };
    (count > 0).then_some(count)
}

/// The loop that stands for one whose body is one loop, if there is one.
fn joined(whole: &Stmt) -> Option<Stmt> {
    let Stmt::For { variable: outer, start, end, body } = whole else { return None };
    let [Stmt::For { variable: inner, start: first, end: last, body: statements }] = &body[..]
    else {
        return None;
    };
    let (all, each) = (rounds(start, end)?, rounds(first, last)?);
    let total = all.checked_mul(each)?;
    let pair = Pair { outer: *outer, inner: *inner, each };
    let body = pair.block(statements)?;
    Some(Stmt::For { variable: *inner, start: Expr::i64(0), end: Expr::i64(total), body })
}

/// Two loop variables of which the second is to stand for `outer * each + inner`.
struct Pair {
    outer: Local,
    inner: Local,
    each: i64,
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
        mentions(e, &|local| local == self.outer || local == self.inner)
    }

    /// The expression in terms of the joined variable; `None` if it asks for one of the two alone.
    fn expr(&self, e: &Expr) -> Option<Expr> {
        if !self.mentioned(e) {
            return Some(e.clone());
        }
        if is_linear(e) {
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
        let factor = linear.factor(self.inner);
        if linear.factor(self.outer) != factor.wrapping_mul(self.each) {
            return None;
        }
        let local = |local| Expr { ty: Scalar::I64, node: Box::new(Node::Local(local)) };
        let (outer, inner) = (local(self.outer), local(self.inner));
        let mut sum = Linear { constant: linear.constant, terms: Vec::new() };
        for (factor, term) in linear.terms {
            if term != outer {
                let term = if term == inner { term } else { self.expr(&term)? };
                sum.terms.push((factor, term));
            }
        }
        Some(sum.expr(sum.constant))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_ir::TensorType;
    use trainc_ir::loops::builder::LoopBuilder;

    fn loops(body: &[Stmt]) -> Vec<(i64, Vec<Stmt>)> {
        let of = |s: &Stmt| match s {
            Stmt::For { end, body, .. } => end.as_constant().map(|end| (end, body.clone())),
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
        assert_eq!((all.len(), all[0].0, loops(&all[0].1).len()), (1, 24, 0));
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
