//! Integers as sums of multiples: what an index advances a round, whether two accesses can meet, and which terms leave a
//! loop.

use trainc_ir::loops::{Binary, Expr, Local, Node, Scalar, Unary};

/// `constant + sum of factor * term`, in wrapping arithmetic of 64 bits.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Linear {
    /// What is added to the terms.
    pub constant: i64,
    /// Distinct terms in the order of their first mention; no factor is 0.
    pub terms: Vec<(i64, Expr)>,
}

/// What a form sees through.
struct Reading<'a> {
    /// Only the low 32 bits count: conversions between widths change nothing.
    low: bool,
    stands_for: &'a dyn Fn(Local) -> Option<Linear>,
}

impl Linear {
    /// A number.
    pub fn number(constant: i64) -> Linear {
        Linear { constant, terms: Vec::new() }
    }

    /// The sum that an I64 is, whatever the locals are: all 64 bits agree.
    pub fn of(index: &Expr) -> Linear {
        Reading { low: false, stands_for: &|_| None }.of(index)
    }

    /// By how much an I64 exceeds another, if that is the same number whatever the locals are.
    pub fn distance(from: &Expr, to: &Expr) -> Option<i64> {
        let [from, to] = [from, to].map(Linear::of);
        from.is_parallel(&to).then(|| to.constant.wrapping_sub(from.constant))
    }

    /// A sum with the same low 32 bits as an integer; `stands_for` says what a local always is, where that is known.
    pub fn of_low_bits(e: &Expr, stands_for: &dyn Fn(Local) -> Option<Linear>) -> Linear {
        let mut sum = Reading { low: true, stands_for }.of(e);
        sum.constant = i64::from(sum.constant as i32);
        sum.terms.iter_mut().for_each(|(factor, _)| *factor = i64::from(*factor as i32));
        sum.terms.retain(|(factor, _)| *factor != 0);
        sum
    }

    /// Adds `factor * other`.
    fn add(&mut self, factor: i64, other: Linear) {
        self.constant = self.constant.wrapping_add(factor.wrapping_mul(other.constant));
        for (own, term) in other.terms {
            let more = factor.wrapping_mul(own);
            match self.terms.iter_mut().find(|(_, known)| *known == term) {
                Some((sum, _)) => *sum = sum.wrapping_add(more),
                None => self.terms.push((more, term)),
            }
        }
        self.terms.retain(|(factor, _)| *factor != 0);
    }

    /// `factor * self`.
    #[must_use]
    pub fn scaled(self, factor: i64) -> Linear {
        let mut product = Linear::default();
        product.add(factor, self);
        product
    }

    /// Factor of a local.
    pub fn factor(&self, local: Local) -> i64 {
        let is = |e: &Expr| e.as_local() == Some(local);
        self.terms.iter().find(|(_, e)| is(e)).map_or(0, |(factor, _)| *factor)
    }

    /// Whether both have the same terms, whatever their constants.
    pub fn is_parallel(&self, other: &Linear) -> bool {
        self.terms.len() == other.terms.len() && self.terms.iter().all(|t| other.terms.contains(t))
    }

    /// With another form in the place of a local.
    #[must_use]
    pub fn with(&self, local: Local, value: &Linear) -> Linear {
        let mut out = self.clone();
        out.terms.retain(|(_, e)| e.as_local() != Some(local));
        out.add(self.factor(local), value.clone());
        out
    }

    /// The sum with another constant, as an I64.
    pub fn expr(&self, constant: i64) -> Expr {
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

impl Reading<'_> {
    fn of(&self, e: &Expr) -> Linear {
        self.split(e).unwrap_or_else(|| Linear { constant: 0, terms: vec![(1, e.clone())] })
    }

    /// `None` of what is a term.
    fn split(&self, e: &Expr) -> Option<Linear> {
        Some(match &*e.node {
            Node::Integer(value) => Linear::number(*value),
            Node::Local(local) => return (self.stands_for)(*local),
            Node::Unary(Unary::Negate, x) => self.of(x).scaled(-1),
            Node::Unary(Unary::Extend | Unary::ExtendUnsigned | Unary::Truncate, x) if self.low => {
                self.of(x)
            }
            Node::Binary(op @ (Binary::Add | Binary::Subtract), a, b) => {
                let mut sum = self.of(a);
                sum.add(if *op == Binary::Add { 1 } else { -1 }, self.of(b));
                sum
            }
            Node::Binary(Binary::Multiply, a, b) => {
                let (a, b) = (self.of(a), self.of(b));
                match (a.terms.is_empty(), b.terms.is_empty()) {
                    (_, true) => a.scaled(b.constant),
                    (true, _) => b.scaled(a.constant),
                    _ => return None,
                }
            }
            Node::Binary(Binary::ShiftLeft, a, b) => match b.as_constant() {
                Some(amount @ 0..32) => self.of(a).scaled(1 << amount),
                _ => return None,
            },
            _ => return None,
        })
    }
}

/// Whether [`Linear::of`] looks into an expression, or it is a local.
pub fn is_linear(e: &Expr) -> bool {
    let reading = Reading { low: false, stands_for: &|_| None };
    e.ty == Scalar::I64 && (e.as_local().is_some() || reading.split(e).is_some())
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
        assert!(again.is_parallel(&linear) && again.constant == 4);
        assert!(!Linear::of(&(local(0) * Expr::i64(15))).is_parallel(&linear));
        assert!(is_linear(&index) && !is_linear(&(local(0) * local(1))));
    }

    #[test]
    fn a_form_takes_the_place_of_a_local() {
        let index = local(0).shift_left(Expr::i64(2)) - local(1).unary(Unary::Negate);
        let linear = Linear::of(&index);
        let start = Linear::of(&(local(1) * Expr::i64(-1) + Expr::i64(3)));
        assert_eq!(linear.with(Local(1), &start).constant, 3);
        // 4 * l0 + l1 with l1 = 3 - l1.
        assert_eq!(linear.with(Local(1), &start).factor(Local(1)), -1);
        assert_eq!(linear.scaled(3).factor(Local(0)), 12);
    }

    #[test]
    fn conversions_change_no_low_bits() {
        let narrow = local(0).truncate() + Expr::i32(5);
        let index = narrow.extend() * Expr::i64(2) + local(1);
        assert_eq!(Linear::of(&index).constant, 0);
        let of_one = |l: Local| (l == Local(1)).then(|| Linear::of(&(local(2) + Expr::i64(1))));
        let low = Linear::of_low_bits(&index, &of_one);
        assert_eq!((low.constant, low.factor(Local(0)), low.factor(Local(2))), (11, 2, 1));
    }
}
