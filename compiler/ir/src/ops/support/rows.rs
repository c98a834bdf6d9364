//! Operations along one axis: the softmax family.

use crate::loops::builder::LoopBuilder;
use crate::loops::{Buffer, Expr};
use crate::numeric;
use crate::ops::{TypeError, rule};
use crate::types::TensorType;

/// A tensor as `outer` x `length` x `inner`, the operation going along `length`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rows {
    /// Product of the dimensions before the axis.
    pub(crate) outer: usize,
    /// Size of the axis.
    pub(crate) length: usize,
    /// Product of the dimensions after the axis.
    pub(crate) inner: usize,
}

impl Rows {
    /// The rows of `x` along `axis`, which must exist and hold at least one element.
    pub(crate) fn of(name: &str, x: &TensorType, axis: usize) -> Result<Rows, TypeError> {
        rule::ensure(axis < x.shape.rank(), || format!("{name}: no axis {axis} in {x}"))?;
        let count = |dims: &[usize]| dims.iter().fold(1usize, |n, &dim| n.saturating_mul(dim));
        let rows = Rows {
            outer: count(&x.shape[..axis]),
            length: x.shape[axis],
            inner: count(&x.shape[axis + 1..]),
        };
        rule::ensure(rows.length > 0, || format!("{name}: axis {axis} of {x} is empty"))?;
        Ok(rows)
    }

    /// Flat index of each row's first element.
    pub(crate) fn starts(self) -> impl Iterator<Item = usize> {
        (0..self.outer)
            .flat_map(move |o| (0..self.inner).map(move |i| o * self.length * self.inner + i))
    }

    /// Flat indices of the row that starts at `start`.
    pub(crate) fn row(self, start: usize) -> impl Iterator<Item = usize> + Clone {
        (0..self.length).map(move |j| start + j * self.inner)
    }

    /// Loops over the starts of the rows.
    pub(crate) fn lower(
        self,
        builder: &mut LoopBuilder,
        body: impl FnOnce(&mut LoopBuilder, Expr),
    ) {
        builder.for_("o", self.outer, |builder, o| {
            builder.for_("i", self.inner, |builder, i| {
                let start = builder.let_("start", o * Expr::index(self.length * self.inner) + i);
                body(builder, start);
            });
        });
    }

    /// Flat index of element `j` of a row.
    pub(crate) fn index(self, start: &Expr, j: Expr) -> Expr {
        start.clone() + j * Expr::index(self.inner)
    }
}

/// The largest element of a row, from -inf by `if x > largest { x } else { largest }`.
pub(crate) fn largest(x: &[f32], row: impl Iterator<Item = usize>) -> f32 {
    row.fold(f32::NEG_INFINITY, |largest, i| if x[i] > largest { x[i] } else { largest })
}

/// `e^(x - largest)` summed along a row from +0; each term goes to `term` as well.
pub(crate) fn sum_exp(
    x: &[f32],
    row: impl Iterator<Item = usize>,
    largest: f32,
    mut term: impl FnMut(usize, f32),
) -> f32 {
    row.fold(0.0, |sum, i| {
        let e = numeric::exp(x[i] - largest);
        term(i, e);
        sum + e
    })
}

/// [`largest`] as loops.
pub(crate) fn lower_largest(
    builder: &mut LoopBuilder,
    rows: Rows,
    x: Buffer,
    start: &Expr,
) -> Expr {
    let largest = builder.local("largest", Expr::f32(f32::NEG_INFINITY));
    builder.for_("j", rows.length, |builder, j| {
        let value = builder.load(x, rows.index(start, j));
        let value = value.maximum(builder.get(largest));
        builder.set(largest, value);
    });
    builder.get(largest)
}

/// [`sum_exp`] as loops; each term is stored to `terms` if there is such a buffer.
pub(crate) fn lower_sum_exp(
    builder: &mut LoopBuilder,
    rows: Rows,
    x: Buffer,
    start: &Expr,
    largest: &Expr,
    terms: Option<Buffer>,
) -> Expr {
    let sum = builder.local("sum", Expr::f32(0.0));
    builder.for_("j", rows.length, |builder, j| {
        let index = builder.let_("index", rows.index(start, j));
        let shifted = builder.load(x, index.clone()) - largest.clone();
        let e = numeric::float::exp_expression(builder, shifted);
        if let Some(terms) = terms {
            builder.store(terms, index, e.clone());
        }
        let value = builder.get(sum) + e;
        builder.set(sum, value);
    });
    builder.get(sum)
}
