//! Rows that run-time indices name: what `gather` and `scatter_add` share.

use crate::loops::builder::LoopBuilder;
use crate::loops::{Buffer, Comparison, Expr};
use crate::ops::TypeError;
use crate::ops::rule::ensure;
use crate::types::Shape;

/// A tensor as `outer` blocks of `size` rows of `inner` elements, and the indices that name rows of each block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rows {
    outer: usize,
    size: usize,
    inner: usize,
    indices: usize,
}

/// The innermost body: row's first element in the indexed tensor, row's first element in the other, position within.
type Body<'a> = &'a mut dyn FnMut(&mut LoopBuilder, Expr, Expr, Expr);

impl Rows {
    /// The rows along `axis` of a tensor of this shape. At least one, and few enough for indices i32.
    pub(crate) fn new(
        name: &str,
        shape: &Shape,
        axis: usize,
        indices: &Shape,
    ) -> Result<Rows, TypeError> {
        ensure(axis < shape.rank(), || format!("{name}: axis {axis} of a tensor {shape}"))?;
        let size = shape[axis];
        ensure((1..=i32::MAX as usize).contains(&size), || {
            format!("{name}: indices cannot name one of {size} rows")
        })?;
        Ok(Rows {
            outer: Shape::from(&shape[..axis]).count(),
            size,
            inner: Shape::from(&shape[axis + 1..]).count(),
            indices: indices.count(),
        })
    }

    /// The row that an index names.
    fn row(&self, index: i32) -> Option<usize> {
        let from_end = if index < 0 { self.size as i64 } else { 0 };
        usize::try_from(i64::from(index) + from_end).ok().filter(|&row| row < self.size)
    }

    /// For each element of the tensor that has a row an index, its element in the indexed one; `None` outside.
    pub(crate) fn sources(&self, indices: &[i32]) -> Vec<Option<usize>> {
        let mut sources = Vec::with_capacity(self.outer * self.indices * self.inner);
        for block in 0..self.outer {
            for &index in indices {
                let first = self.row(index).map(|row| (block * self.size + row) * self.inner);
                sources.extend((0..self.inner).map(|i| first.map(|first| first + i)));
            }
        }
        sources
    }

    /// Loops over blocks, indices and elements of a row, for indices that name a row; `outside` for the others. Both get
    /// the first element of the row that has the index's place.
    pub(crate) fn lower(
        &self,
        b: &mut LoopBuilder,
        indices: Buffer,
        mut inside: impl FnMut(&mut LoopBuilder, Expr, Expr, Expr),
        outside: Option<impl FnMut(&mut LoopBuilder, Expr, Expr)>,
    ) {
        let inside: Body<'_> = &mut inside;
        let Rows { outer, size, inner, indices: count } = *self;
        b.for_("block", outer, |b, block| {
            b.for_("k", count, |b, k| {
                let index = b.let_("index", b.load(indices, k.clone()).extend());
                let negative = index.clone().less(Expr::i64(0));
                let from_end = negative.select(Expr::index(size), Expr::i64(0));
                let row = b.let_("row", index + from_end);
                let named = row.clone().compare(Comparison::LessUnsigned, Expr::index(size));
                let at =
                    b.let_("at", (block.clone() * Expr::index(count) + k) * Expr::index(inner));
                let found = |b: &mut LoopBuilder| {
                    let first = (block * Expr::index(size) + row) * Expr::index(inner);
                    let first = b.let_("first", first);
                    let at = at.clone();
                    b.for_("i", inner, |b, i| inside(b, first, at, i));
                };
                match outside {
                    None => b.if_(named, found),
                    Some(mut outside) => b.if_else(named, found, |b| {
                        b.for_("i", inner, |b, i| outside(b, at.clone(), i));
                    }),
                }
            });
        });
    }
}
