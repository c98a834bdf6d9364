//! `conv2d_gradient_input`. See [`Conv2dGradientInput`].

use crate::graph::{Graph, ValueId};
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::{Property, Work, by_index};
use crate::ops::rule::{self, operands};
use crate::ops::support::convolution::{Convolution, rank4};
use crate::ops::support::product::{self, Product, Term};
use crate::ops::support::terms::{PlainSum, ProductOf, Terms};
use crate::ops::support::{derivation, sample};
use crate::ops::support::window::Geometry;
use crate::ops::{
    Case, Conv2d, Conv2dGradientWeight, Differentiated, GradientError, Operator, TypeError,
};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Shape, TensorType};

operator! {
    /// Error of a convolution's operand, which is a transposed convolution of its own. Operands: `dy` `[B,Cout,OH,OW]`, `w`: FP32, or i8 x i8 (one may be u8) -> i32 with
    /// summed exponents. Result `[B,Cin,H,W]`.
    ///
    /// FP32 order: each result is a sequential sum from +0 over (output channel within the group, kh, kw)
    /// ascending; taps that hit no output are skipped.
    pub struct Conv2dGradientInput = "conv2d_gradient_input" {
        /// Of the convolution.
        pub strides: [usize; 2],
        /// Of the convolution.
        pub pads: [usize; 4],
        /// Of the convolution.
        pub dilations: [usize; 2],
        /// Channel groups.
        pub groups: usize,
        /// H and W of the convolution's operand.
        pub input_size: [usize; 2],
    }
}

impl Conv2dGradientInput {
    pub(in crate::ops) fn convolution(&self, dy: &Shape, w: &Shape) -> Result<Convolution, TypeError> {
        let name = "conv2d_gradient_input";
        let w = rank4(name, "w", w)?;
        let [batch, ..] = rank4(name, "dy", dy)?;
        let [height, width] = self.input_size;
        let geometry = Geometry {
            kernel: [w[2], w[3]],
            strides: self.strides,
            pads: self.pads,
            dilations: self.dilations,
            ceil: false,
        };
        let x = [batch, w[1].saturating_mul(self.groups), height, width];
        let convolution = Convolution::new(name, &geometry, self.groups, x, w)?;
        convolution.fits_error(name, dy)?;
        Ok(convolution)
    }
}

struct Plan(Convolution);

impl Product for Plan {
    fn sums<T: Term>(&self, dy: &[T], w: &[T]) -> Vec<T::Sum> {
        let Convolution { inputs, outputs, windows, .. } = self.0;
        let (vertical, horizontal) = (windows.vertical, windows.horizontal);
        let [_, channels, height, width] = self.0.x();
        let [_, features, rows, columns] = self.0.y();
        let taps = vertical.kernel * horizontal.kernel;
        let mut dx = vec![T::ZERO; self.0.x().iter().product()];
        // Tap by tap over whole planes: each sum still runs over (feature, kh, kw) ascending, for a tap adds to
        // a position at most once.
        for (plane, dx) in dx.chunks_exact_mut(height * width).enumerate() {
            let (image, channel) = (plane / channels, plane % channels);
            let first = channel / inputs * outputs;
            for feature in first..first + outputs {
                let dy = &dy[(image * features + feature) * rows * columns..][..rows * columns];
                let w = &w[(feature * inputs + channel % inputs) * taps..][..taps];
                for (tap, &factor) in w.iter().enumerate() {
                    let (kh, kw) = (tap / horizontal.kernel, tap % horizontal.kernel);
                    let inside = horizontal.windows(kw);
                    if inside.is_empty() {
                        continue;
                    }
                    let first = horizontal.position(inside.start, kw);
                    for oh in vertical.windows(kh) {
                        let dy = &dy[oh * columns..][inside.clone()];
                        let dx = &mut dx[vertical.position(oh, kh) * width..][..width][first..];
                        if horizontal.stride == 1 {
                            product::add_scaled(dx, dy, factor);
                        } else {
                            let dx = dx.iter_mut().step_by(horizontal.stride);
                            dx.zip(dy).for_each(|(dx, dy)| *dx = dy.add_product(factor, *dx));
                        }
                    }
                }
            }
        }
        dx
    }
}

impl Operator for Conv2dGradientInput {
    const WORK: Work = Work::Products(|inputs| by_index(inputs[1], 0));
    const PROPERTIES: &'static [Property] = &[Property::Bilinear, Property::BeginsChain];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [dy, w] = operands("conv2d_gradient_input", inputs)?;
        let (element, scale) = rule::product("conv2d_gradient_input", dy, w)?;
        let shape = self.convolution(&dy.shape, &w.shape)?.x().into();
        Ok(vec![TensorType { shape, element, scale }])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (dy, w) = (inputs[0], inputs[1]);
        let convolution = self
            .convolution(dy.shape(), w.shape())
            .expect("the type rule has checked the operands");
        vec![product::evaluate(&Plan(convolution), dy, w, convolution.x().into())]
    }

    /// Where it stands in a model, as a transposed convolution: the error of `dy` is the convolution of the result's error.
    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        let (y, w, error) = (node.inputs[0], node.inputs[1], node.output_gradient());
        let Conv2dGradientInput { strides, pads, dilations, groups, .. } = self.clone();
        let mut gradients = vec![None; 2];
        if node.wanted[0] {
            let op = Conv2d { strides, pads, dilations, groups };
            let name = derivation::name(graph, node, "gradient_input");
            gradients[0] = Some(graph.add1(op, &[error, w], name)?);
        }
        if node.wanted[1] {
            let shape = &graph.ty(w).shape;
            let kernel_size = [shape[2], shape[3]];
            let op = Conv2dGradientWeight { strides, pads, dilations, groups, kernel_size };
            let name = derivation::name(graph, node, "gradient_weight");
            gradients[1] = Some(graph.add1(op, &[error, y], name)?);
        }
        Ok(gradients)
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let convolution = self
            .convolution(&inputs[0].shape, &inputs[1].shape)
            .expect("the type rule has checked the operands");
        let (vertical, horizontal) = (convolution.windows.vertical, convolution.windows.horizontal);
        let [batch, channels, height, width] = convolution.x();
        let [_, features, rows, columns] = convolution.y();
        let mut b = product::builder(inputs, outputs);
        let (dy, w, dx) = (b.input(0), b.input(1), b.output(0));
        b.for_("image", batch, |b, image| {
            b.for_("group", convolution.groups, |b, group| {
                b.for_("channel", convolution.inputs, |b, channel| {
                    let plane = image.clone() * Expr::index(channels)
                        + group.clone() * Expr::index(convolution.inputs)
                        + channel.clone();
                    let plane = b.let_("plane", plane * Expr::index(height * width));
                    b.for_("i", height * width, |b, i| {
                        b.store(dx, plane.clone() + i, product::zero(outputs[0]));
                    });
                    b.for_("member", convolution.outputs, |b, member| {
                        let feature = group * Expr::index(convolution.outputs) + member;
                        let feature = b.let_("feature", feature);
                        let dy_plane = image * Expr::index(features) + feature.clone();
                        let dy_plane = b.let_("dy_plane", dy_plane * Expr::index(rows));
                        let w_plane = feature * Expr::index(convolution.inputs) + channel;
                        let w_plane =
                            b.let_("w_plane", w_plane * Expr::index(vertical.kernel));
                        b.for_("kh", vertical.kernel, |b, kh| {
                            let (oh_start, oh_end) = vertical.window_range(b, &kh);
                            let top = kh.clone() * Expr::index(vertical.dilation)
                                - Expr::index(vertical.before);
                            let top = b.let_("top", top);
                            b.for_("kw", horizontal.kernel, |b, kw| {
                                let (ow_start, ow_end) = horizontal.window_range(b, &kw);
                                let left = plane
                                    + kw.clone() * Expr::index(horizontal.dilation)
                                    - Expr::index(horizontal.before);
                                let left = b.let_("left", left);
                                let at = (w_plane + kh) * Expr::index(horizontal.kernel) + kw;
                                let weight = b.let_("weight", b.load(w, at));
                                b.for_range("oh", oh_start, oh_end, |b, oh| {
                                    let row = top + oh.clone() * Expr::index(vertical.stride);
                                    let row = b.let_("row", row * Expr::index(width) + left);
                                    let dy_row =
                                        b.let_("dy_row", (dy_plane + oh) * Expr::index(columns));
                                    b.for_range("ow", ow_start, ow_end, |b, ow| {
                                        let at =
                                            row + ow.clone() * Expr::index(horizontal.stride);
                                        let at = b.let_("at", at);
                                        let error = b.load(dy, dy_row + ow);
                                        let sum = b.load(dx, at.clone()) + error * weight;
                                        b.store(dx, at, sum);
                                    });
                                });
                            });
                        });
                    });
                });
            });
        });
        b.finish()
    }

    fn lower_apart(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let terms = Terms::new(&ProductOf::Conv2dGradientInput(self.clone()), &inputs[0].shape, &inputs[1].shape)
            .expect("the type rule has checked the operands");
        let mut b = product::builder(inputs, outputs);
        let (operands, dx) = ([b.input(0), b.input(1)], b.output(0));
        terms.lower(&mut b, dx, &mut PlainSum::new(operands, product::zero(outputs[0])));
        b.finish()
    }

    fn cases() -> Vec<Case> {
        let plain = |input_size| Conv2dGradientInput {
            strides: [1, 1],
            pads: [0; 4],
            dilations: [1, 1],
            groups: 1,
            input_size,
        };
        vec![
            // y0 = x0 + 10 x1, y1 = x1 + 10 x2, so dx = [dy0, 10 dy0 + dy1, 10 dy1].
            Case::new(
                plain([1, 3]),
                vec![
                    Tensor::f32([1, 1, 1, 2], vec![2., 3.]),
                    Tensor::f32([1, 1, 1, 2], vec![1., 10.]),
                ],
                vec![Tensor::f32([1, 1, 1, 3], vec![2., 23., 30.])],
            ),
            // Stride 2, one padding row above: y0 = 10 x0, y1 = x1 + 10 x2; x3 is never read.
            Case::new(
                Conv2dGradientInput { strides: [2, 1], pads: [1, 0, 0, 0], ..plain([4, 1]) },
                vec![
                    Tensor::f32([1, 1, 2, 1], vec![2., 3.]),
                    Tensor::f32([1, 1, 2, 1], vec![1., 10.]),
                ],
                vec![Tensor::f32([1, 1, 4, 1], vec![20., 3., 30., 0.])],
            ),
            // Two features sum; dilation 2: taps at 0 and 2, so x1 is never read.
            Case::new(
                Conv2dGradientInput { dilations: [1, 2], ..plain([1, 3]) },
                vec![
                    Tensor::i8_shared([1, 2, 1, 1], vec![-128, 127], -2),
                    Tensor::i8_shared([2, 1, 1, 2], vec![-128, 1, 127, 2], -3),
                ],
                vec![Tensor::i32_shared([1, 1, 1, 3], vec![16384 + 16129, 0, 126], -5)],
            ),
            // Two groups of one channel and two features.
            Case::new(
                Conv2dGradientInput { groups: 2, ..plain([1, 1]) },
                vec![
                    Tensor::f32([1, 4, 1, 1], vec![1., 2., 3., 4.]),
                    Tensor::f32([4, 1, 1, 1], vec![5., 6., 7., 8.]),
                ],
                vec![Tensor::f32([1, 2, 1, 1], vec![17., 53.])],
            ),
            Case::shape_only(
                Conv2dGradientInput {
                    strides: [2, 3],
                    pads: [0, 2, 3, 1],
                    dilations: [2, 1],
                    groups: 1,
                    input_size: [7, 8],
                },
                vec![sample::f32([2, 4, 3, 4], 1), sample::f32([4, 3, 3, 2], 2)],
            ),
            Case::shape_only(
                Conv2dGradientInput {
                    strides: [1, 2],
                    pads: [3, 0, 0, 4],
                    dilations: [1, 3],
                    groups: 3,
                    input_size: [5, 7],
                },
                vec![
                    sample::i8_shared([2, 3, 6, 3], 3, i32::MIN),
                    sample::i8_shared([3, 2, 3, 3], 4, -1),
                ],
            ),
            Case::shape_only(
                Conv2dGradientInput { pads: [3, 2, 2, 3], ..plain([2, 1]) },
                vec![sample::f32([1, 1, 6, 5], 5), sample::f32([1, 1, 2, 2], 6)],
            ),
        ]
    }
}
