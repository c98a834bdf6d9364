//! Nested loops as one: `for a in 0..A { for b in 0..B { .. a*B + b .. } }` is a loop over `A*B` where nothing asks for
//! `a` or `b` alone. Elementwise nests become long loops, which fill vectors whatever their innermost size.

use trainc_ir::loops::{Expr, Local, LoopKernel, Node, Stmt};

use crate::linear::{Linear, is_linear};
use crate::uses::count_uses;

/// The kernel with its nests collapsed: same stores, same order.
pub fn collapsed(kernel: &LoopKernel) -> LoopKernel {
    let uses = count_uses(kernel, &kernel.body);
    let body = block(kernel, &kernel.body, &uses);
    LoopKernel { body, ..kernel.clone() }
}

fn block(kernel: &LoopKernel, statements: &[Stmt], uses: &[usize]) -> Vec<Stmt> {
    let of = |s: &Stmt| match s {
        Stmt::For { variable, start, end, body } => {
            let (variable, body) = (*variable, block(kernel, body, uses));
            let whole = Stmt::For { variable, start: start.clone(), end: end.clone(), body };
            // After the loop nothing asks for the variables of either.
            let own = count_uses(kernel, std::slice::from_ref(s));
            let is_own = |local: Local| own[local.0 as usize] == uses[local.0 as usize];
            joined(&whole, &is_own).unwrap_or(whole)
        }
        Stmt::If { condition, then, otherwise } => Stmt::If {
            condition: condition.clone(),
            then: block(kernel, then, uses),
            otherwise: block(kernel, otherwise, uses),
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
fn joined(whole: &Stmt, own: &dyn Fn(Local) -> bool) -> Option<Stmt> {
    let Stmt::For { variable: outer, start, end, body } = whole else { return None };
    let [Stmt::For { variable: inner, start: first, end: last, body: statements }] = &body[..]
    else {
        return None;
    };
    let (all, each) = (rounds(start, end)?, rounds(first, last)?);
    let total = all.checked_mul(each)?;
    if !own(*outer) || !own(*inner) {
        return None;
    }
    let pair = Pair { outer: *outer, inner: *inner, each };
    let body: Option<Vec<Stmt>> =
        statements.iter().map(|s| s.map_expressions(&mut |e| pair.expr(e))).collect();
    Some(Stmt::For { variable: *inner, start: Expr::i64(0), end: Expr::i64(total), body: body? })
}

/// Two loop variables of which the second is to stand for `outer * each + inner`.
struct Pair {
    outer: Local,
    inner: Local,
    each: i64,
}

impl Pair {
    /// The expression in terms of the joined variable; `None` if it asks for one of the two alone.
    fn expr(&self, e: &Expr) -> Option<Expr> {
        if !e.mentions(|local| local == self.outer || local == self.inner) {
            return Some(e.clone());
        }
        match &*e.node {
            _ if is_linear(e) => self.linear(e),
            Node::Local(_) => None,
            _ => e.map_operands(&mut |x| self.expr(x)),
        }
    }

    fn linear(&self, e: &Expr) -> Option<Expr> {
        let linear = Linear::of(e);
        let factor = linear.factor(self.inner);
        if linear.factor(self.outer) != factor.wrapping_mul(self.each) {
            return None;
        }
        let mut sum = Linear::number(linear.constant);
        for (factor, term) in linear.terms {
            if term.as_local() != Some(self.outer) {
                let counts = term.as_local() == Some(self.inner);
                let term = if counts { term } else { self.expr(&term)? };
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
