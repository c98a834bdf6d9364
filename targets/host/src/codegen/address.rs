//! Addresses as sums: an index `((b*C + c)*H + h)*W + w` becomes one term a loop, so that the terms of the outer
//! loops leave the inner ones and the innermost fits the processor's addressing mode.

use trainc_ir::loops::{Binary, Expr, Node};

/// `constant + sum of factor * expression`, in wrapping 64-bit arithmetic: equal to the index for every value of the
/// locals.
#[derive(Default, Debug)]
pub(super) struct Linear<'a> {
    pub(super) constant: i64,
    pub(super) terms: Vec<(i64, &'a Expr)>,
}

impl<'a> Linear<'a> {
    pub(super) fn of(index: &'a Expr) -> Linear<'a> {
        let mut linear = Linear::default();
        linear.add(1, index);
        linear
    }

    fn add(&mut self, factor: i64, expr: &'a Expr) {
        match &*expr.node {
            Node::Integer(value) => {
                self.constant = self.constant.wrapping_add(factor.wrapping_mul(*value));
            }
            Node::Binary(Binary::Add, a, b) => {
                self.add(factor, a);
                self.add(factor, b);
            }
            Node::Binary(Binary::Subtract, a, b) => {
                self.add(factor, a);
                self.add(factor.wrapping_neg(), b);
            }
            Node::Binary(Binary::Multiply, a, b) => match (a.as_constant(), b.as_constant()) {
                (_, Some(c)) => self.add(factor.wrapping_mul(c), a),
                (Some(c), _) => self.add(factor.wrapping_mul(c), b),
                _ => self.term(factor, expr),
            },
            _ => self.term(factor, expr),
        }
    }

    fn term(&mut self, factor: i64, expr: &'a Expr) {
        match self.terms.iter_mut().find(|(_, e)| *e == expr) {
            Some((f, _)) => *f = f.wrapping_add(factor),
            None => self.terms.push((factor, expr)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_ir::loops::{Local, Scalar};

    fn local(n: u32) -> Expr {
        Expr { ty: Scalar::I64, node: Box::new(Node::Local(Local(n))) }
    }

    #[test]
    fn a_nested_index_is_one_term_a_loop() {
        let (b, c, w) = (local(0), local(1), local(2));
        let index = ((b.clone() * Expr::i64(3) + c.clone()) * Expr::i64(5) + w.clone())
            - Expr::i64(7)
            + w.clone();
        let linear = Linear::of(&index);
        assert_eq!(linear.constant, -7);
        assert_eq!(linear.terms, vec![(15, &b), (5, &c), (2, &w)]);
    }
}
