//! Indices as sums: what an index advances a round, and whether two accesses can meet.

use trainc_ir::loops::{Binary, Expr, Local, Node, Scalar};

/// `constant + sum of factor * term`, equal to the index for every value of the locals (in wrapping arithmetic).
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Linear {
    pub(crate) constant: i64,
    /// Distinct terms in the order of their first mention; no factor is 0.
    pub(crate) terms: Vec<(i64, Expr)>,
}

impl Linear {
    /// The sum that an I64 expression is.
    pub(crate) fn of(index: &Expr) -> Linear {
        let mut linear = Linear::default();
        linear.add(1, index);
        linear.terms.retain(|(factor, _)| *factor != 0);
        linear
    }

    fn add(&mut self, factor: i64, e: &Expr) {
        match &*e.node {
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
                _ => self.term(factor, e),
            },
            _ => self.term(factor, e),
        }
    }

    fn term(&mut self, factor: i64, e: &Expr) {
        match self.terms.iter_mut().find(|(_, term)| term == e) {
            Some((known, _)) => *known = known.wrapping_add(factor),
            None => self.terms.push((factor, e.clone())),
        }
    }

    /// Factor of a local.
    pub(crate) fn factor(&self, local: Local) -> i64 {
        let is = |e: &Expr| matches!(*e.node, Node::Local(l) if l == local);
        self.terms.iter().find(|(_, e)| is(e)).map_or(0, |(factor, _)| *factor)
    }

    /// Whether both have the same terms, whatever their constants.
    pub(crate) fn parallel(&self, other: &Linear) -> bool {
        self.terms.len() == other.terms.len() && self.terms.iter().all(|t| other.terms.contains(t))
    }

    /// The sum with another constant, as an expression.
    pub(crate) fn expr(&self, constant: i64) -> Expr {
        let mut sum: Option<Expr> = None;
        for (factor, term) in &self.terms {
            let product = term.clone() * Expr::i64(factor.wrapping_abs());
            sum = Some(match sum {
                None if *factor < 0 => Expr::i64(0) - product,
                None => product,
                Some(sum) if *factor < 0 => sum - product,
                Some(sum) => sum + product,
            });
        }
        match sum {
            None => Expr::i64(constant),
            Some(sum) => sum + Expr::i64(constant),
        }
    }
}

/// Whether [`Linear`] looks into an expression.
pub(crate) fn is_linear(e: &Expr) -> bool {
    e.ty == Scalar::I64
        && match &*e.node {
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

    fn local(n: u32) -> Expr {
        Expr { ty: Scalar::I64, node: Box::new(Node::Local(Local(n))) }
    }

    #[test]
    fn a_nested_index_is_one_term_a_loop() {
        let index = ((local(0) * Expr::i64(3) + local(1)) * Expr::i64(5) + local(2)) - Expr::i64(7)
            + local(2);
        let linear = Linear::of(&index);
        assert_eq!(linear.constant, -7);
        assert_eq!([0, 1, 2, 3].map(|n| linear.factor(Local(n))), [15, 5, 2, 0]);
        let again = Linear::of(&linear.expr(4));
        assert!(again.parallel(&linear) && again.constant == 4);
        assert!(!Linear::of(&(local(0) * Expr::i64(15))).parallel(&linear));
    }
}
