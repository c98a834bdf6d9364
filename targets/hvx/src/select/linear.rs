//! Indices as linear forms: a constant, and multiples of values. Everything is of 32 bits and wraps around, as
//! addresses do, so the forms need no proof that an index does not overflow.

use trainc_c::analysis::each_local;
use trainc_ir::loops::{Binary, Expr, Local, Node, Unary};

use super::Selector;
use super::cache::each_load;

/// A constant and multiples of values.
#[derive(Clone, Debug, Default)]
pub(super) struct Linear {
    pub(super) terms: Vec<(Expr, i32)>,
    pub(super) constant: i32,
}

impl Linear {
    pub(super) fn number(constant: i32) -> Linear {
        Linear { terms: Vec::new(), constant }
    }

    fn add(&mut self, other: &Linear, factor: i32) {
        self.constant = self.constant.wrapping_add(other.constant.wrapping_mul(factor));
        for (atom, n) in &other.terms {
            let n = n.wrapping_mul(factor);
            match self.terms.iter_mut().find(|(known, _)| known == atom) {
                Some((_, sum)) => *sum = sum.wrapping_add(n),
                None => self.terms.push((atom.clone(), n)),
            }
        }
        self.terms.retain(|(_, n)| *n != 0);
    }

    pub(super) fn scaled(&self, factor: i32) -> Linear {
        let mut out = Linear::default();
        out.add(self, factor);
        out
    }

    /// Whether two forms differ by a constant only.
    pub(super) fn is_parallel(&self, other: &Linear) -> bool {
        self.terms.len() == other.terms.len()
            && self.terms.iter().all(|term| other.terms.contains(term))
    }

    /// The multiple of a local.
    pub(super) fn factor(&self, local: Local) -> i32 {
        let is = |e: &Expr| matches!(*e.node, Node::Local(l) if l == local);
        self.terms.iter().find(|(atom, _)| is(atom)).map_or(0, |(_, n)| *n)
    }

    /// With another form in the place of a local.
    pub(super) fn with(&self, local: Local, value: &Linear) -> Linear {
        let factor = self.factor(local);
        let is = |e: &Expr| matches!(*e.node, Node::Local(l) if l == local);
        let mut out = self.clone();
        out.terms.retain(|(atom, _)| !is(atom));
        out.add(value, factor);
        out
    }
}

impl Selector<'_> {
    /// An integer as a linear form of locals and of what is not linear.
    pub(super) fn linear(&self, e: &Expr) -> Linear {
        let atom = |e: &Expr| Linear { terms: vec![(e.clone(), 1)], constant: 0 };
        match &*e.node {
            Node::Integer(value) => Linear::number(*value as i32),
            Node::Local(local) => match self.expanded(*local) {
                Some(form) => form,
                None => atom(e),
            },
            Node::Unary(Unary::Extend | Unary::ExtendUnsigned | Unary::Truncate, x) => {
                self.linear(x)
            }
            Node::Unary(Unary::Negate, x) => self.linear(x).scaled(-1),
            Node::Binary(op @ (Binary::Add | Binary::Subtract), x, y) => {
                let mut sum = self.linear(x);
                sum.add(&self.linear(y), if *op == Binary::Add { 1 } else { -1 });
                sum
            }
            Node::Binary(Binary::Multiply, x, y) => {
                let (x, y) = (self.linear(x), self.linear(y));
                match (x.terms.is_empty(), y.terms.is_empty()) {
                    (_, true) => x.scaled(y.constant),
                    (true, _) => y.scaled(x.constant),
                    _ => atom(e),
                }
            }
            Node::Binary(Binary::ShiftLeft, x, y) => match y.as_constant() {
                Some(amount @ 0..32) => self.linear(x).scaled(1i32.wrapping_shl(amount as u32)),
                _ => atom(e),
            },
            _ => atom(e),
        }
    }

    /// What a local always is, if that is linear in locals that stay while it is in sight.
    fn expanded(&self, local: Local) -> Option<Linear> {
        let value = self.locals.value(local)?;
        let (mut fixed, mut loads) = (true, false);
        each_local(value, &mut |l| fixed &= self.locals.is_fixed(l));
        each_load(value, &mut |_| loads = true);
        if !fixed || loads {
            return None;
        }
        let form = self.linear(value);
        form.terms.iter().all(|(atom, _)| matches!(*atom.node, Node::Local(_))).then_some(form)
    }
}
