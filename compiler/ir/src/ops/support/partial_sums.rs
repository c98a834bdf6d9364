//! Sums of FP32 in 16 partial sums, which vectors can add side by side: evaluation, and loops.

use crate::loops::builder::LoopBuilder;
use crate::loops::{Buffer, Expr};
use crate::types::Element;

/// Partial sums of a sum.
pub(crate) const PARTS: usize = 16;

/// A sum of FP32: element `i` is added to partial sum `i mod 16`, from +0; the total adds the partial sums from the first to
/// the last, from +0.
#[derive(Clone, Copy, Default)]
pub(crate) struct PartialSums([f32; PARTS]);

impl PartialSums {
    /// The total of some elements.
    pub(crate) fn sum(values: impl Iterator<Item = f32>) -> f32 {
        let mut sums = PartialSums::default();
        values.enumerate().for_each(|(i, value)| sums.add(i, value));
        sums.total()
    }

    /// Adds element `i`.
    pub(crate) fn add(&mut self, i: usize, value: f32) {
        self.0[i % PARTS] += value;
    }

    /// The partial sums together.
    pub(crate) fn total(&self) -> f32 {
        self.0.iter().fold(0.0, |sum, part| sum + part)
    }
}

/// [`PartialSums`] of a loop kernel: 16 FP32 elements of working memory.
pub(crate) struct PartialSumLoops {
    buffer: Buffer,
    /// The first of the elements; none if they are the whole buffer.
    first: Option<Expr>,
}

impl PartialSumLoops {
    /// Working memory for one sum.
    pub(crate) fn one(builder: &mut LoopBuilder, name: &str) -> PartialSumLoops {
        PartialSumLoops { buffer: builder.scratch(name, Element::F32, PARTS), first: None }
    }

    /// Working memory for `count` sums, so that these can be made side by side.
    pub(crate) fn many(builder: &mut LoopBuilder, name: &str, count: usize) -> Buffer {
        builder.scratch(name, Element::F32, count.saturating_mul(PARTS))
    }

    /// Sum number `index` of [`PartialSumLoops::many`].
    pub(crate) fn of(builder: &mut LoopBuilder, buffer: Buffer, index: &Expr) -> PartialSumLoops {
        let first = builder.let_("first", index.clone() * Expr::index(PARTS));
        PartialSumLoops { buffer, first: Some(first) }
    }

    fn at(&self, p: Expr) -> Expr {
        match &self.first {
            Some(first) => first.clone() + p,
            None => p,
        }
    }

    /// Adds to partial sum `p`.
    pub(crate) fn add(&self, builder: &mut LoopBuilder, p: Expr, value: Expr) {
        let sum = builder.load(self.buffer, self.at(p.clone())) + value;
        builder.store(self.buffer, self.at(p), sum);
    }

    /// The partial sums together, by a local of that name.
    pub(crate) fn total(&self, builder: &mut LoopBuilder, name: &str) -> Expr {
        let sum = builder.local(name, Expr::f32(0.0));
        builder.for_("p", PARTS, |builder, p| {
            let value = builder.get(sum) + builder.load(self.buffer, self.at(p));
            builder.set(sum, value);
        });
        let value = builder.get(sum);
        builder.let_("total", value)
    }
}

/// Sets sums to +0.
pub(crate) fn clear(builder: &mut LoopBuilder, sums: &[&PartialSumLoops]) {
    builder.for_("p", PARTS, |builder, p| {
        for sums in sums {
            builder.store(sums.buffer, sums.at(p.clone()), Expr::f32(0.0));
        }
    });
}

/// Every element `i` of `count` with its partial sum `p`: `body(builder, p, i)`.
pub(crate) fn each(
    builder: &mut LoopBuilder,
    count: usize,
    body: impl Fn(&mut LoopBuilder, Expr, Expr),
) {
    builder.for_("row", count / PARTS, |builder, row| {
        builder.for_("p", PARTS, |builder, p| {
            let i = row * Expr::index(PARTS) + p.clone();
            body(builder, p, i);
        });
    });
    builder.for_("p", count % PARTS, |builder, p| {
        let i = Expr::index(count / PARTS * PARTS) + p.clone();
        body(builder, p, i);
    });
}

/// The sum of `count` values in the working memory of one.
pub(crate) fn lower(
    builder: &mut LoopBuilder,
    sums: &PartialSumLoops,
    count: usize,
    value: impl Fn(&mut LoopBuilder, Expr) -> Expr,
) -> Expr {
    clear(builder, &[sums]);
    each(builder, count, |builder, p, i| {
        let term = value(builder, i);
        sums.add(builder, p, term);
    });
    sums.total(builder, "sum")
}
