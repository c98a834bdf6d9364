//! Sums of products whose operands are in block floating point (see [`super::blocks`]): the walk of [`Terms`] with the outermost
//! axis that is summed over cut into blocks, and all taps or pixels of one such block before the next.

use super::blocks::SIDE;
use super::terms::{Kind, Terms};
use crate::loops::Expr;
use crate::loops::builder::{LoopBuilder, flat_index};
use crate::types::Shape;

/// The terms that lie in one block of each operand: up to four along the axis that is summed over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Part<I> {
    /// The first element of each operand.
    pub(crate) first: [I; 2],
    /// From an element to the next.
    pub(crate) strides: [usize; 2],
    /// How many terms: a constant, or what is left of an axis.
    pub(crate) terms: I,
    /// The block of each operand, by its place in the operand's grid.
    pub(crate) blocks: [I; 2],
}

/// What is done with each part, in loops.
pub(crate) type Parts<'a> = &'a mut dyn FnMut(&mut LoopBuilder, Part<Expr>);

/// The block of an element in the grid of blocks over two axes from `axis` on.
fn block(shape: &[usize], axis: usize, at: &[usize]) -> usize {
    shape.iter().zip(at).enumerate().fold(0, |flat, (i, (&dim, &at))| {
        let tiled = i == axis || i == axis + 1;
        let (dim, at) = if tiled { (dim.div_ceil(SIDE), at / SIDE) } else { (dim, at) };
        flat * dim + at
    })
}

/// [`block`] in loops.
fn block_expression(shape: &[usize], axis: usize, at: &[Expr]) -> Expr {
    let tiled = |i: usize| i == axis || i == axis + 1;
    let grid = shape.iter().enumerate();
    let grid: Vec<usize> =
        grid.map(|(i, &dim)| if tiled(i) { dim.div_ceil(SIDE) } else { dim }).collect();
    let at = at.iter().enumerate().map(|(i, at)| match tiled(i) {
        true => at.clone().divide(Expr::index(SIDE)),
        false => at.clone(),
    });
    flat_index(&grid, &at.collect::<Vec<_>>())
}

fn flat(shape: &[usize], at: &[usize]) -> usize {
    shape.iter().zip(at).fold(0, |flat, (dim, i)| flat * dim + i)
}

/// How many neighbours along an axis of `own` of each of several groups are in one block for certain.
fn run(own: usize, groups: usize) -> usize {
    if groups == 1 || own.is_multiple_of(SIDE) { SIDE } else { 1 }
}

impl Terms {
    /// Calls `f` with the parts of one result, in the order of its sum.
    pub(crate) fn each_part(&self, at: &[usize], mut f: impl FnMut(Part<usize>)) {
        let planes = |shape: [usize; 4], at: [usize; 4]| (flat(&shape, &at), block(&shape, 0, &at));
        // Both operands' first elements and blocks, and the steps to the next term.
        let mut part = |own: [(usize, usize); 2], strides: [usize; 2], terms: usize| {
            let (first, blocks) = (own.map(|(first, _)| first), own.map(|(_, block)| block));
            f(Part { first, strides, terms, blocks });
        };
        match &self.kind {
            Kind::Matrix { transposed, inner } => {
                let (batch, matrix) = at.split_at(at.len() - 2);
                for k in (0..*inner).step_by(SIDE) {
                    let left = if transposed[0] { [k, matrix[0]] } else { [matrix[0], k] };
                    let right = if transposed[1] { [matrix[1], k] } else { [k, matrix[1]] };
                    let own = |i: usize, axes: [usize; 2]| {
                        let shape = &self.operands[i];
                        let axes = [batch, &axes].concat();
                        let axes = &axes[axes.len() - shape.rank()..];
                        let axes = axes.iter().zip(shape.iter()).map(|(&i, &dim)| i.min(dim - 1));
                        let axes: Vec<usize> = axes.collect();
                        (flat(shape, &axes), block(shape, shape.rank() - 2, &axes))
                    };
                    let own = [own(0, left), own(1, right)];
                    part(own, self.matrix_strides(*transposed), SIDE.min(inner - k));
                }
            }
            Kind::Forward(c) => {
                let (vertical, horizontal) = (c.windows.vertical, c.windows.horizontal);
                let [image, feature, oh, ow] = [at[0], at[1], at[2], at[3]];
                let (x, w) = (c.x(), c.w());
                let length = run(c.inputs, c.groups);
                for channel in (0..c.inputs).step_by(length) {
                    let source = feature / c.outputs * c.inputs + channel;
                    for kh in vertical.taps(oh) {
                        for kw in horizontal.taps(ow) {
                            let (h, v) = (vertical.position(oh, kh), horizontal.position(ow, kw));
                            let own = [
                                planes(x, [image, source, h, v]),
                                planes(w, [feature, channel, kh, kw]),
                            ];
                            let strides = [x[2] * x[3], w[2] * w[3]];
                            part(own, strides, length.min(c.inputs - channel));
                        }
                    }
                }
            }
            Kind::Input(c) => {
                let (vertical, horizontal) = (c.windows.vertical, c.windows.horizontal);
                let [image, channel, h, v] = [at[0], at[1], at[2], at[3]];
                let (y, w) = (c.y(), c.w());
                let length = run(c.outputs, c.groups);
                for member in (0..c.outputs).step_by(length) {
                    let feature = channel / c.inputs * c.outputs + member;
                    for kh in 0..vertical.kernel {
                        let Some(oh) = vertical.window_at(h, kh) else { continue };
                        for kw in 0..horizontal.kernel {
                            let Some(ow) = horizontal.window_at(v, kw) else { continue };
                            let own = [
                                planes(y, [image, feature, oh, ow]),
                                planes(w, [feature, channel % c.inputs, kh, kw]),
                            ];
                            let strides = [y[2] * y[3], w[1] * w[2] * w[3]];
                            part(own, strides, length.min(c.outputs - member));
                        }
                    }
                }
            }
            Kind::Weight(c) => {
                let (vertical, horizontal) = (c.windows.vertical, c.windows.horizontal);
                let [feature, channel, kh, kw] = [at[0], at[1], at[2], at[3]];
                let source = feature / c.outputs * c.inputs + channel;
                let (x, y) = (c.x(), c.y());
                for image in (0..c.batch).step_by(SIDE) {
                    for oh in vertical.windows(kh) {
                        for ow in horizontal.windows(kw) {
                            let (h, v) = (vertical.position(oh, kh), horizontal.position(ow, kw));
                            let own = [
                                planes(x, [image, source, h, v]),
                                planes(y, [image, feature, oh, ow]),
                            ];
                            let strides = [x[1] * x[2] * x[3], y[1] * y[2] * y[3]];
                            part(own, strides, SIDE.min(c.batch - image));
                        }
                    }
                }
            }
        }
    }

    /// From one index that is summed over to the next, in each operand of a matrix product.
    fn matrix_strides(&self, transposed: [bool; 2]) -> [usize; 2] {
        let columns = |shape: &Shape| shape[shape.rank() - 1];
        let [a, b] = [0, 1].map(|i| columns(&self.operands[i]));
        [if transposed[0] { a } else { 1 }, if transposed[1] { 1 } else { b }]
    }

    /// [`Terms::each_part`] in loops.
    pub(crate) fn lower_parts(&self, b: &mut LoopBuilder, at: &[Expr], f: Parts<'_>) {
        let planes = |b: &mut LoopBuilder, shape: [usize; 4], at: [Expr; 4]| {
            let place = flat_index(&shape, &at);
            (b.let_("first", place), block_expression(&shape, 0, &at))
        };
        let mut part = |b: &mut LoopBuilder, own: [(Expr, Expr); 2], strides, terms| {
            let [(a, first), (c, second)] = own;
            f(b, Part { first: [a, c], strides, terms, blocks: [first, second] });
        };
        match &self.kind {
            Kind::Matrix { transposed, inner } => {
                let (batch, matrix) = at.split_at(at.len() - 2);
                let strides = self.matrix_strides(*transposed);
                in_runs(b, "k", *inner, SIDE, |b, k, terms| {
                    let left = if transposed[0] { [&k, &matrix[0]] } else { [&matrix[0], &k] };
                    let right = if transposed[1] { [&matrix[1], &k] } else { [&k, &matrix[1]] };
                    let own = [(0, left), (1, right)].map(|(i, axes)| {
                        let shape = &self.operands[i];
                        let axes: Vec<Expr> = batch.iter().chain(axes).cloned().collect();
                        let axes = axes[axes.len() - shape.rank()..].iter().zip(shape.iter());
                        let axes = axes.map(|(at, &dim)| match dim {
                            1 => Expr::i64(0),
                            _ => at.clone(),
                        });
                        let axes: Vec<Expr> = axes.collect();
                        let place = flat_index(shape, &axes);
                        let first = b.let_("first", place);
                        (first, block_expression(shape, shape.rank() - 2, &axes))
                    });
                    part(b, own, strides, terms);
                });
            }
            Kind::Forward(c) => {
                let (vertical, horizontal) = (c.windows.vertical, c.windows.horizontal);
                let (image, feature) = (&at[0], &at[1]);
                let (x, w) = (c.x(), c.w());
                let (kh_start, kh_end) = vertical.tap_range(b, &at[2]);
                let (kw_start, kw_end) = horizontal.tap_range(b, &at[3]);
                let top = b.let_("top", vertical.origin(&at[2]));
                let left = b.let_("left", horizontal.origin(&at[3]));
                let group = feature.clone().divide(Expr::index(c.outputs));
                let first = b.let_("first_channel", group * Expr::index(c.inputs));
                in_runs(b, "channel", c.inputs, run(c.inputs, c.groups), |b, channel, terms| {
                    let source = b.let_("source", first + channel.clone());
                    b.for_range("kh", kh_start, kh_end, |b, kh| {
                        let h = b.let_("h", top + kh.clone() * Expr::index(vertical.dilation));
                        b.for_range("kw", kw_start, kw_end, |b, kw| {
                            let v = left + kw.clone() * Expr::index(horizontal.dilation);
                            let v = b.let_("v", v);
                            let own = [
                                planes(b, x, [image.clone(), source, h, v]),
                                planes(b, w, [feature.clone(), channel, kh, kw]),
                            ];
                            part(b, own, [x[2] * x[3], w[2] * w[3]], terms);
                        });
                    });
                });
            }
            Kind::Input(c) => {
                let (vertical, horizontal) = (c.windows.vertical, c.windows.horizontal);
                let (image, channel) = (&at[0], &at[1]);
                let (y, w) = (c.y(), c.w());
                let group = channel.clone().divide(Expr::index(c.inputs));
                let first = b.let_("first_feature", group * Expr::index(c.outputs));
                let own = b.let_("own", channel.clone().remainder(Expr::index(c.inputs)));
                in_runs(b, "member", c.outputs, run(c.outputs, c.groups), |b, member, terms| {
                    let feature = b.let_("feature", first + member);
                    b.for_("kh", vertical.kernel, |b, kh| {
                        let (inside, oh) = vertical.window_expression(b, &at[2], &kh);
                        b.if_(inside, |b| {
                            b.for_("kw", horizontal.kernel, |b, kw| {
                                let (inside, ow) = horizontal.window_expression(b, &at[3], &kw);
                                b.if_(inside, |b| {
                                    let own = [
                                        planes(b, y, [image.clone(), feature.clone(), oh, ow]),
                                        planes(b, w, [feature, own, kh, kw]),
                                    ];
                                    let strides = [y[2] * y[3], w[1] * w[2] * w[3]];
                                    part(b, own, strides, terms);
                                });
                            });
                        });
                    });
                });
            }
            Kind::Weight(c) => {
                let (vertical, horizontal) = (c.windows.vertical, c.windows.horizontal);
                let feature = &at[0];
                let (x, y) = (c.x(), c.y());
                let group = feature.clone().divide(Expr::index(c.outputs));
                let source = b.let_("source", group * Expr::index(c.inputs) + at[1].clone());
                let (oh_start, oh_end) = vertical.window_range(b, &at[2]);
                let (ow_start, ow_end) = horizontal.window_range(b, &at[3]);
                let offset = |tap: &Expr, dilation, before| {
                    tap.clone() * Expr::index(dilation) - Expr::index(before)
                };
                let top = b.let_("top", offset(&at[2], vertical.dilation, vertical.before));
                let left = b.let_("left", offset(&at[3], horizontal.dilation, horizontal.before));
                in_runs(b, "image", c.batch, SIDE, |b, image, terms| {
                    b.for_range("oh", oh_start, oh_end, |b, oh| {
                        let h = b.let_("h", top + oh.clone() * Expr::index(vertical.stride));
                        b.for_range("ow", ow_start, ow_end, |b, ow| {
                            let v = left + ow.clone() * Expr::index(horizontal.stride);
                            let v = b.let_("v", v);
                            let own = [
                                planes(b, x, [image.clone(), source, h, v]),
                                planes(b, y, [image, feature.clone(), oh, ow]),
                            ];
                            let strides = [x[1] * x[2] * x[3], y[1] * y[2] * y[3]];
                            part(b, own, strides, terms);
                        });
                    });
                });
            }
        }
    }
}

/// An axis in runs of `length`: the first index of each, and how many it has.
fn in_runs(
    b: &mut LoopBuilder,
    name: &str,
    count: usize,
    length: usize,
    f: impl FnOnce(&mut LoopBuilder, Expr, Expr),
) {
    b.for_(name, count.div_ceil(length), |b, run| {
        let first = b.let_("start", run * Expr::index(length));
        let terms = match count {
            count if count.is_multiple_of(length) => Expr::index(length),
            count if count < length => Expr::index(count),
            count => {
                let left = Expr::index(count) - first.clone();
                b.let_("terms", left.minimum(Expr::index(length)))
            }
        };
        f(b, first, terms);
    });
}
