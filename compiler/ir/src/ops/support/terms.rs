//! Sums of products term by term, in the order that the FP32 products state: what operations are built on that do more with a
//! term than add it. One walk for matrix products, convolutions and their two gradients.

use super::convolution::Convolution;
use crate::attributes::Attribute;
use crate::loops::builder::{LoopBuilder, broadcast_index, flat_index};
use crate::loops::{Buffer, Expr, Local};
use crate::ops::{Conv2d, Conv2dGradientInput, Conv2dGradientWeight, MatMul, Op, TypeError};
use crate::text::cursor::{Cursor, SyntaxError};
use crate::types::{Shape, TensorType};

/// A matrix product, a convolution, or a gradient of one: whose terms an operation sums in its own way.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum ProductOf {
    /// See [`MatMul`].
    MatMul(MatMul),
    /// See [`Conv2d`].
    Conv2d(Conv2d),
    /// See [`Conv2dGradientInput`].
    Conv2dGradientInput(Conv2dGradientInput),
    /// See [`Conv2dGradientWeight`].
    Conv2dGradientWeight(Conv2dGradientWeight),
}

impl From<ProductOf> for Op {
    fn from(product: ProductOf) -> Op {
        match product {
            ProductOf::MatMul(op) => op.into(),
            ProductOf::Conv2d(op) => op.into(),
            ProductOf::Conv2dGradientInput(op) => op.into(),
            ProductOf::Conv2dGradientWeight(op) => op.into(),
        }
    }
}

impl Attribute for ProductOf {
    fn print(&self, out: &mut String) {
        Attribute::print(&Op::from(self.clone()), out);
    }

    fn parse(cursor: &mut Cursor<'_>) -> Result<ProductOf, SyntaxError> {
        let at = cursor.clone();
        match Op::parse(cursor)? {
            Op::MatMul(op) => Ok(ProductOf::MatMul(op)),
            Op::Conv2d(op) => Ok(ProductOf::Conv2d(op)),
            Op::Conv2dGradientInput(op) => Ok(ProductOf::Conv2dGradientInput(op)),
            Op::Conv2dGradientWeight(op) => Ok(ProductOf::Conv2dGradientWeight(op)),
            other => Err(at.error(format!(
                "`{}` is no product: matmul, conv2d, conv2d_gradient_input, conv2d_gradient_weight",
                other.kind().name()
            ))),
        }
    }
}

/// The terms of a product whose operands fit.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(super) kind: Kind,
    pub(super) operands: [Shape; 2],
    result: Shape,
}

#[derive(Debug)]
pub(super) enum Kind {
    Matrix { transposed: [bool; 2], inner: usize },
    Forward(Convolution),
    Input(Convolution),
    Weight(Convolution),
}

/// What is done with the terms of one result. Axes of operands are indices along each of their axes; those that lie within a
/// part are 0.
pub(crate) trait Sum {
    /// The product of these elements of the operands is the next term.
    fn term(&mut self, a: usize, b: usize);
    /// A part is over: the terms of one index of the outermost axis that is summed over (`k`; the channel of a convolution, the
    /// feature of its error, the example of its weight's gradient).
    fn part(&mut self, a: &[usize], b: &[usize]);
}

/// [`Sum`] as loops.
pub(crate) trait SumLoop {
    /// Before the first term of a result.
    fn start(&mut self, b: &mut LoopBuilder);
    /// See [`Sum::term`].
    fn term(&mut self, b: &mut LoopBuilder, left: Expr, right: Expr);
    /// See [`Sum::part`].
    fn part(&mut self, b: &mut LoopBuilder, left: &[Expr], right: &[Expr]);
    /// The result, after its last part; what is summed over is 0 among the axes.
    fn finish(&mut self, b: &mut LoopBuilder, left: &[Expr], right: &[Expr]) -> Expr;
}

/// The sum of all terms in their order.
pub(crate) struct PlainSum {
    operands: [Buffer; 2],
    zero: Expr,
    sum: Option<Local>,
}

impl PlainSum {
    /// The sum of products of elements of two operands, from `zero`.
    pub(crate) fn new(operands: [Buffer; 2], zero: Expr) -> PlainSum {
        PlainSum { operands, zero, sum: None }
    }

    fn sum(&self) -> Local {
        self.sum.expect("the sum has started")
    }
}

impl SumLoop for PlainSum {
    fn start(&mut self, b: &mut LoopBuilder) {
        self.sum = Some(b.local("sum", self.zero.clone()));
    }

    fn term(&mut self, b: &mut LoopBuilder, left: Expr, right: Expr) {
        let product = b.load(self.operands[0], left) * b.load(self.operands[1], right);
        let sum = b.get(self.sum()) + product;
        b.set(self.sum(), sum);
    }

    fn part(&mut self, _b: &mut LoopBuilder, _left: &[Expr], _right: &[Expr]) {}

    fn finish(&mut self, b: &mut LoopBuilder, _left: &[Expr], _right: &[Expr]) -> Expr {
        b.get(self.sum())
    }
}

impl Terms {
    /// The terms of a product of operands of these shapes.
    ///
    /// # Errors
    /// If the operands do not fit.
    pub(crate) fn new(product: &ProductOf, a: &Shape, b: &Shape) -> Result<Terms, TypeError> {
        let types = [a, b].map(|shape| TensorType::f32(shape.clone()));
        let result = Op::from(product.clone()).infer(&[&types[0], &types[1]])?;
        let result = result.into_iter().next().map(|ty| ty.shape).unwrap_or_else(Shape::scalar);
        let kind = match product {
            ProductOf::MatMul(op) => Kind::Matrix {
                transposed: [op.transpose_a, op.transpose_b],
                inner: a[a.rank() - if op.transpose_a { 2 } else { 1 }],
            },
            ProductOf::Conv2d(op) => Kind::Forward(op.convolution(a, b)?),
            ProductOf::Conv2dGradientInput(op) => Kind::Input(op.convolution(a, b)?),
            ProductOf::Conv2dGradientWeight(op) => Kind::Weight(op.convolution(a, b)?),
        };
        Ok(Terms { kind, operands: [a.clone(), b.clone()], result })
    }

    /// Shape of the result.
    pub(crate) fn result(&self) -> &Shape {
        &self.result
    }

    /// Which axes of an operand may change from part to part or from result to result: those before its planes, all of a
    /// matrix.
    pub(crate) fn outer_axes(&self, operand: usize) -> usize {
        match self.kind {
            Kind::Matrix { .. } => self.operands[operand].rank(),
            _ => 2,
        }
    }

    /// The axis of each operand that is the outermost that is summed over.
    pub(crate) fn summed_axes(&self) -> [usize; 2] {
        match self.kind {
            Kind::Matrix { transposed: [a, b], .. } => [
                self.operands[0].rank() - if a { 2 } else { 1 },
                self.operands[1].rank() - if b { 1 } else { 2 },
            ],
            Kind::Forward(_) => [1, 1],
            Kind::Input(_) => [1, 0],
            Kind::Weight(_) => [0, 0],
        }
    }

    /// Calls `sum` with the terms of one result, given its index along each axis.
    pub(crate) fn each(&self, at: &[usize], sum: &mut impl Sum) {
        let flat = |shape: &[usize], index: &[usize]| {
            shape.iter().zip(index).fold(0, |flat, (dim, i)| flat * dim + i)
        };
        match &self.kind {
            Kind::Matrix { transposed, inner } => {
                let (batch, matrix) = at.split_at(at.len() - 2);
                for k in 0..*inner {
                    let left = if transposed[0] { [k, matrix[0]] } else { [matrix[0], k] };
                    let right = if transposed[1] { [matrix[1], k] } else { [k, matrix[1]] };
                    let [left, right] = [left, right].map(|axes| [batch, &axes].concat());
                    let own = |i: usize, axes: &[usize]| {
                        let shape = &self.operands[i];
                        let axes = &axes[axes.len() - shape.rank()..];
                        let axes = axes.iter().zip(shape.iter()).map(|(&i, &dim)| i.min(dim - 1));
                        axes.collect::<Vec<_>>()
                    };
                    let (left, right) = (own(0, &left), own(1, &right));
                    sum.term(flat(&self.operands[0], &left), flat(&self.operands[1], &right));
                    sum.part(&left, &right);
                }
            }
            Kind::Forward(c) => {
                let (vertical, horizontal) = (c.windows.vertical, c.windows.horizontal);
                let [image, feature, oh, ow] = [at[0], at[1], at[2], at[3]];
                for channel in 0..c.inputs {
                    let source = feature / c.outputs * c.inputs + channel;
                    for kh in vertical.taps(oh) {
                        for kw in horizontal.taps(ow) {
                            let (h, w) = (vertical.position(oh, kh), horizontal.position(ow, kw));
                            let left = flat(&c.x(), &[image, source, h, w]);
                            sum.term(left, flat(&c.w(), &[feature, channel, kh, kw]));
                        }
                    }
                    sum.part(&[image, source, 0, 0], &[feature, channel, 0, 0]);
                }
            }
            Kind::Input(c) => {
                let (vertical, horizontal) = (c.windows.vertical, c.windows.horizontal);
                let [image, channel, h, w] = [at[0], at[1], at[2], at[3]];
                for member in 0..c.outputs {
                    let feature = channel / c.inputs * c.outputs + member;
                    let own = channel % c.inputs;
                    for kh in 0..vertical.kernel {
                        let Some(oh) = vertical.window_at(h, kh) else { continue };
                        for kw in 0..horizontal.kernel {
                            let Some(ow) = horizontal.window_at(w, kw) else { continue };
                            let left = flat(&c.y(), &[image, feature, oh, ow]);
                            sum.term(left, flat(&c.w(), &[feature, own, kh, kw]));
                        }
                    }
                    sum.part(&[image, feature, 0, 0], &[feature, own, 0, 0]);
                }
            }
            Kind::Weight(c) => {
                let (vertical, horizontal) = (c.windows.vertical, c.windows.horizontal);
                let [feature, channel, kh, kw] = [at[0], at[1], at[2], at[3]];
                let source = feature / c.outputs * c.inputs + channel;
                for image in 0..c.batch {
                    for oh in vertical.windows(kh) {
                        for ow in horizontal.windows(kw) {
                            let (h, w) = (vertical.position(oh, kh), horizontal.position(ow, kw));
                            let left = flat(&c.x(), &[image, source, h, w]);
                            sum.term(left, flat(&c.y(), &[image, feature, oh, ow]));
                        }
                    }
                    sum.part(&[image, source, 0, 0], &[image, feature, 0, 0]);
                }
            }
        }
    }

    /// The loops over all results, each stored in `y`.
    pub(crate) fn lower(&self, b: &mut LoopBuilder, y: Buffer, sum: &mut impl SumLoop) {
        b.for_shape("at", &self.result, |b, at| {
            let place = flat_index(&self.result, at);
            let place = b.let_("place", place);
            sum.start(b);
            let (left, right) = self.lower_sum(b, at, sum);
            let value = sum.finish(b, &left, &right);
            b.store(y, place, value);
        });
    }

    /// The loops over the terms of one result; the axes of its operands, 0 where they are summed over.
    fn lower_sum(
        &self,
        b: &mut LoopBuilder,
        at: &[Expr],
        sum: &mut impl SumLoop,
    ) -> (Vec<Expr>, Vec<Expr>) {
        let index = Expr::index;
        let zero = || Expr::i64(0);
        let plane =
            |first: &Expr, second: &Expr| vec![first.clone(), second.clone(), zero(), zero()];
        match &self.kind {
            Kind::Matrix { transposed, inner } => {
                let (batch, matrix) = at.split_at(at.len() - 2);
                let axes = |k: &Expr| {
                    let (row, column) = (&matrix[0], &matrix[1]);
                    let left = if transposed[0] { [k, row] } else { [row, k] };
                    let right = if transposed[1] { [column, k] } else { [k, column] };
                    [left, right].map(|own| batch.iter().chain(own).cloned().collect::<Vec<Expr>>())
                };
                b.for_("k", *inner, |b, k| {
                    let [left, right] = axes(&k);
                    let places = [(&left, 0), (&right, 1)]
                        .map(|(axes, i)| broadcast_index(&self.operands[i], axes));
                    let [first, second] = places;
                    sum.term(b, first, second);
                    sum.part(b, &left, &right);
                });
                let [left, right] = axes(&zero());
                (left, right)
            }
            Kind::Forward(c) => {
                let (vertical, horizontal) = (c.windows.vertical, c.windows.horizontal);
                let (image, feature) = (&at[0], &at[1]);
                let (kh_start, kh_end) = vertical.tap_range(b, &at[2]);
                let (kw_start, kw_end) = horizontal.tap_range(b, &at[3]);
                let top = b.let_("top", vertical.origin(&at[2]));
                let left = b.let_("left", horizontal.origin(&at[3]));
                let first = feature.clone().divide(index(c.outputs)) * index(c.inputs);
                let first = b.let_("first_channel", first);
                b.for_("channel", c.inputs, |b, channel| {
                    let source = b.let_("source", first.clone() + channel.clone());
                    b.for_range("kh", kh_start, kh_end, |b, kh| {
                        let h = b.let_("h", top + kh.clone() * index(vertical.dilation));
                        b.for_range("kw", kw_start, kw_end, |b, kw| {
                            let w = left + kw.clone() * index(horizontal.dilation);
                            let x = flat_index(&c.x(), &[image.clone(), source.clone(), h, w]);
                            let own = [feature.clone(), channel.clone(), kh, kw];
                            sum.term(b, x, flat_index(&c.w(), &own));
                        });
                    });
                    sum.part(b, &plane(image, &source), &plane(feature, &channel));
                });
                (plane(image, &zero()), plane(feature, &zero()))
            }
            Kind::Input(c) => {
                let (vertical, horizontal) = (c.windows.vertical, c.windows.horizontal);
                let (image, channel) = (&at[0], &at[1]);
                let first = channel.clone().divide(index(c.inputs)) * index(c.outputs);
                let first = b.let_("first_feature", first);
                let own = b.let_("own", channel.clone().remainder(index(c.inputs)));
                b.for_("member", c.outputs, |b, member| {
                    let feature = b.let_("feature", first + member);
                    b.for_("kh", vertical.kernel, |b, kh| {
                        let (inside, oh) = vertical.window_expression(b, &at[2], &kh);
                        b.if_(inside, |b| {
                            b.for_("kw", horizontal.kernel, |b, kw| {
                                let (inside, ow) = horizontal.window_expression(b, &at[3], &kw);
                                b.if_(inside, |b| {
                                    let error = [image.clone(), feature.clone(), oh, ow];
                                    let weight = [feature.clone(), own.clone(), kh, kw];
                                    let error = flat_index(&c.y(), &error);
                                    sum.term(b, error, flat_index(&c.w(), &weight));
                                });
                            });
                        });
                    });
                    sum.part(b, &plane(image, &feature), &plane(&feature, &own));
                });
                (plane(image, &zero()), plane(&zero(), &own))
            }
            Kind::Weight(c) => {
                let (vertical, horizontal) = (c.windows.vertical, c.windows.horizontal);
                let feature = &at[0];
                let source = feature.clone().divide(index(c.outputs)) * index(c.inputs);
                let source = b.let_("source", source + at[1].clone());
                let (oh_start, oh_end) = vertical.window_range(b, &at[2]);
                let (ow_start, ow_end) = horizontal.window_range(b, &at[3]);
                let offset =
                    |tap: &Expr, dilation, before| tap.clone() * index(dilation) - index(before);
                let top = b.let_("top", offset(&at[2], vertical.dilation, vertical.before));
                let left = b.let_("left", offset(&at[3], horizontal.dilation, horizontal.before));
                b.for_("image", c.batch, |b, image| {
                    b.for_range("oh", oh_start, oh_end, |b, oh| {
                        let h = b.let_("h", top + oh.clone() * index(vertical.stride));
                        b.for_range("ow", ow_start, ow_end, |b, ow| {
                            let w = left + ow.clone() * index(horizontal.stride);
                            let x = flat_index(&c.x(), &[image.clone(), source.clone(), h, w]);
                            let error = [image.clone(), feature.clone(), oh, ow];
                            sum.term(b, x, flat_index(&c.y(), &error));
                        });
                    });
                    sum.part(b, &plane(&image, &source), &plane(&image, feature));
                });
                (plane(&zero(), &source), plane(&zero(), feature))
            }
        }
    }
}

/// The indices of each result in row-major order.
pub(crate) fn each_index(shape: &[usize], mut f: impl FnMut(&[usize])) {
    if shape.contains(&0) {
        return;
    }
    let mut at = vec![0; shape.len()];
    loop {
        f(&at);
        let Some(axis) = (0..shape.len()).rev().find(|&axis| at[axis] + 1 < shape[axis]) else {
            return;
        };
        at[axis] += 1;
        at[axis + 1..].fill(0);
    }
}
