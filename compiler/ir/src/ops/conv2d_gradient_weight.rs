//! `conv2d_gradient_weight`. See [`Conv2dGradientWeight`].

use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::{Property, Work, by_index};
use crate::ops::rule::{self, operands};
use crate::ops::support::convolution::{Convolution, per_group, rank4};
use crate::ops::support::product::{self, Product, Term};
use crate::ops::support::sample;
use crate::ops::support::window::Geometry;
use crate::ops::{Case, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Element, Shape, TensorType};

operator! {
    /// Gradient of a convolution's weight. Operands: `x` `[B,Cin,H,W]`, `dy` `[B,Cout,OH,OW]`: FP32, or i8 x i8 (one may be u8)
    /// -> i32 with summed exponents. Result `[Cout,Cin/groups,KH,KW]`.
    ///
    /// FP32 order: each result is a sequential sum from +0 over (batch, oh, ow) ascending; taps outside the
    /// operand are skipped.
    pub struct Conv2dGradientWeight = "conv2d_gradient_weight" {
        /// Of the convolution.
        pub strides: [usize; 2],
        /// Of the convolution.
        pub pads: [usize; 4],
        /// Of the convolution.
        pub dilations: [usize; 2],
        /// Channel groups.
        pub groups: usize,
        /// KH and KW.
        pub kernel_size: [usize; 2],
    }
}

impl Conv2dGradientWeight {
    pub(in crate::ops) fn convolution(&self, x: &Shape, dy: &Shape) -> Result<Convolution, TypeError> {
        let name = "conv2d_gradient_weight";
        let x = rank4(name, "x", x)?;
        let [_, features, ..] = rank4(name, "dy", dy)?;
        let [kh, kw] = self.kernel_size;
        let geometry = Geometry {
            kernel: self.kernel_size,
            strides: self.strides,
            pads: self.pads,
            dilations: self.dilations,
            ceil: false,
        };
        let w = [features, per_group(name, x[1], self.groups)?, kh, kw];
        let convolution = Convolution::new(name, &geometry, self.groups, x, w)?;
        convolution.fits_error(name, dy)?;
        Ok(convolution)
    }
}

struct Plan(Convolution);

impl Product for Plan {
    fn sums<T: Term>(&self, x: &[T], dy: &[T]) -> Vec<T::Sum> {
        let Convolution { batch, inputs, outputs, windows, .. } = self.0;
        let (vertical, horizontal) = (windows.vertical, windows.horizontal);
        let [_, channels, height, width] = self.0.x();
        let [_, features, rows, columns] = self.0.y();
        let taps = vertical.kernel * horizontal.kernel;
        let mut dw = vec![T::ZERO; self.0.w().iter().product()];
        for image in 0..batch {
            for (plane, dw) in dw.chunks_exact_mut(taps).enumerate() {
                let (feature, channel) = (plane / inputs, plane % inputs);
                let source = image * channels + feature / outputs * inputs + channel;
                let x = &x[source * height * width..][..height * width];
                let dy = &dy[(image * features + feature) * rows * columns..][..rows * columns];
                for (tap, dw) in dw.iter_mut().enumerate() {
                    let (kh, kw) = (tap / horizontal.kernel, tap % horizontal.kernel);
                    let inside = horizontal.windows(kw);
                    if inside.is_empty() {
                        continue;
                    }
                    let first = horizontal.position(inside.start, kw);
                    let mut sum = *dw;
                    for oh in vertical.windows(kh) {
                        let x = &x[vertical.position(oh, kh) * width..][..width][first..];
                        let dy = &dy[oh * columns..][inside.clone()];
                        if horizontal.stride == 1 {
                            sum = x.iter().zip(dy).fold(sum, |sum, (x, &dy)| x.add_product(dy, sum));
                        } else {
                            let x = x.iter().step_by(horizontal.stride);
                            sum = x.zip(dy).fold(sum, |sum, (x, &dy)| x.add_product(dy, sum));
                        }
                    }
                    *dw = sum;
                }
            }
        }
        dw
    }
}

impl Operator for Conv2dGradientWeight {
    const WORK: Work = Work::Products(|inputs| by_index(inputs[1], 1));
    const PROPERTIES: &'static [Property] = &[Property::Bilinear, Property::BeginsChain];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x, dy] = operands("conv2d_gradient_weight", inputs)?;
        let (element, scale) = rule::product("conv2d_gradient_weight", x, dy)?;
        let shape = self.convolution(&x.shape, &dy.shape)?.w().into();
        Ok(vec![TensorType { shape, element, scale }])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (x, dy) = (inputs[0], inputs[1]);
        let convolution = self
            .convolution(x.shape(), dy.shape())
            .expect("the type rule has checked the operands");
        vec![product::evaluate(&Plan(convolution), x, dy, convolution.w().into())]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let convolution = self
            .convolution(&inputs[0].shape, &inputs[1].shape)
            .expect("the type rule has checked the operands");
        let (vertical, horizontal) = (convolution.windows.vertical, convolution.windows.horizontal);
        let [batch, channels, height, width] = convolution.x();
        let [_, features, rows, columns] = convolution.y();
        let mut b = product::builder(inputs, outputs);
        let (x, dy, dw) = (b.input(0), b.input(1), b.output(0));
        b.for_("group", convolution.groups, |b, group| {
            b.for_("member", convolution.outputs, |b, member| {
                let feature = group.clone() * Expr::index(convolution.outputs) + member;
                let feature = b.let_("feature", feature);
                b.for_("channel", convolution.inputs, |b, channel| {
                    let source = group * Expr::index(convolution.inputs) + channel.clone();
                    let source = b.let_("source", source);
                    let plane = feature.clone() * Expr::index(convolution.inputs) + channel;
                    let plane = b.let_("plane", plane * Expr::index(vertical.kernel));
                    b.for_("kh", vertical.kernel, |b, kh| {
                        let (oh_start, oh_end) = vertical.window_range(b, &kh);
                        let top = kh.clone() * Expr::index(vertical.dilation)
                            - Expr::index(vertical.before);
                        let top = b.let_("top", top);
                        let row = b.let_("row", (plane + kh) * Expr::index(horizontal.kernel));
                        b.for_("kw", horizontal.kernel, |b, kw| {
                            let (ow_start, ow_end) = horizontal.window_range(b, &kw);
                            let left = kw.clone() * Expr::index(horizontal.dilation)
                                - Expr::index(horizontal.before);
                            let left = b.let_("left", left);
                            let sum = b.local("sum", product::zero(outputs[0]));
                            b.for_("image", batch, |b, image| {
                                let x_plane = image.clone() * Expr::index(channels) + source;
                                let x_plane = x_plane * Expr::index(height) + top;
                                let x_plane = b.let_("x_plane", x_plane);
                                let dy_plane = image * Expr::index(features) + feature;
                                let dy_plane = b.let_("dy_plane", dy_plane * Expr::index(rows));
                                b.for_range("oh", oh_start, oh_end, |b, oh| {
                                    let x_row =
                                        x_plane + oh.clone() * Expr::index(vertical.stride);
                                    let x_row =
                                        b.let_("x_row", x_row * Expr::index(width) + left);
                                    let dy_row =
                                        b.let_("dy_row", (dy_plane + oh) * Expr::index(columns));
                                    b.for_range("ow", ow_start, ow_end, |b, ow| {
                                        let offset =
                                            ow.clone() * Expr::index(horizontal.stride);
                                        let value = b.load(x, x_row + offset);
                                        let error = b.load(dy, dy_row + ow);
                                        b.set(sum, b.get(sum) + value * error);
                                    });
                                });
                            });
                            b.store(dw, row + kw, b.get(sum));
                        });
                    });
                });
            });
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        let plain = |kernel_size| Conv2dGradientWeight {
            strides: [1, 1],
            pads: [0; 4],
            dilations: [1, 1],
            groups: 1,
            kernel_size,
        };
        vec![
            // dw0 = x0 dy0 + x1 dy1, dw1 = x1 dy0 + x2 dy1; both images add up.
            Case::new(
                plain([1, 2]),
                vec![
                    Tensor::f32([2, 1, 1, 3], vec![1., 2., 3., 4., 5., 6.]),
                    Tensor::f32([2, 1, 1, 2], vec![10., 100., 1., 0.]),
                ],
                vec![Tensor::f32([1, 1, 1, 2], vec![214., 325.])],
            ),
            // Stride 2, one padding row above: y0 = w1 x0, y1 = w0 x1 + w1 x2.
            Case::new(
                Conv2dGradientWeight { strides: [2, 1], pads: [1, 0, 0, 0], ..plain([2, 1]) },
                vec![
                    Tensor::f32([1, 1, 4, 1], vec![1., 2., 3., 4.]),
                    Tensor::f32([1, 1, 2, 1], vec![10., 100.]),
                ],
                vec![Tensor::f32([1, 1, 2, 1], vec![200., 310.])],
            ),
            // Dilation 2 reads x0 and x2.
            Case::new(
                Conv2dGradientWeight { dilations: [1, 2], ..plain([1, 2]) },
                vec![
                    Tensor::i8_shared([1, 1, 1, 3], vec![-128, 1, 127], -7),
                    Tensor::i8_shared([1, 2, 1, 1], vec![-128, 127], -20),
                ],
                vec![Tensor::i32_shared([2, 1, 1, 2], vec![16384, -16256, -16256, 16129], -27)],
            ),
            // Two groups of one channel and two features.
            Case::new(
                Conv2dGradientWeight { groups: 2, ..plain([1, 1]) },
                vec![
                    Tensor::f32([1, 2, 1, 1], vec![2., 3.]),
                    Tensor::f32([1, 4, 1, 1], vec![1., 10., 100., 1000.]),
                ],
                vec![Tensor::f32([4, 1, 1, 1], vec![2., 20., 300., 3000.])],
            ),
            Case::shape_only(
                Conv2dGradientWeight {
                    strides: [2, 3],
                    pads: [0, 2, 3, 1],
                    dilations: [2, 1],
                    groups: 1,
                    kernel_size: [3, 2],
                },
                vec![sample::f32([2, 3, 7, 8], 1), sample::f32([2, 4, 3, 4], 2)],
            ),
            Case::shape_only(
                Conv2dGradientWeight {
                    strides: [1, 2],
                    pads: [3, 0, 0, 4],
                    dilations: [1, 3],
                    groups: 3,
                    kernel_size: [3, 3],
                },
                vec![sample::i8_shared([2, 6, 5, 7], 3, -5), sample::i8_shared([2, 3, 6, 3], 4, -6)],
            ),
            Case::shape_only(
                Conv2dGradientWeight { pads: [3, 2, 2, 3], ..plain([2, 2]) },
                vec![sample::f32([1, 1, 2, 1], 5), sample::f32([1, 1, 6, 5], 6)],
            ),
            // u8 by i8: 255 * -128 twice.
            Case::new(
                plain([1, 1]),
                vec![
                    sample::shared_of([1, 1, 1, 2], Element::U8, &[255, 255], -7),
                    Tensor::i8_shared([1, 1, 1, 2], vec![-128, -128], -20),
                ],
                vec![Tensor::i32_shared([1, 1, 1, 1], vec![-65280], -27)],
            ),
            Case::shape_only(
                Conv2dGradientWeight { pads: [1; 4], ..plain([3, 3]) },
                vec![
                    sample::shared([3, 5, 6, 7], Element::U8, 1, -7),
                    sample::shared([3, 9, 6, 7], Element::I8, 2, -9),
                ],
            ),
            Case::shape_only(
                Conv2dGradientWeight { pads: [1; 4], groups: 3, ..plain([3, 3]) },
                vec![
                    sample::shared([2, 3, 6, 7], Element::U8, 1, -7),
                    sample::shared([2, 3, 6, 7], Element::I8, 2, -9),
                ],
            ),
        ]
    }
}
