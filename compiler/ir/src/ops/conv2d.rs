//! `conv2d`. See [`Conv2d`].

use crate::graph::{Graph, ValueId};
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::{Examples, Property, Work, by_index};
use crate::ops::rule::{self, operands};
use crate::ops::support::convolution::{Convolution, rank4};
use crate::ops::support::product::{self, Product, Term};
use crate::ops::support::{derivation, sample};
use crate::ops::support::window::Geometry;
use crate::ops::{Case, Conv2dGradientInput, Conv2dGradientWeight, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Element, Shape, TensorType};

operator! {
    /// 2-D convolution (cross-correlation). Operands: `x` `[B,Cin,H,W]`, `w` `[Cout,Cin/groups,KH,KW]`: FP32,
    /// or i8 x i8 (one may be u8) -> i32 with summed exponents.
    ///
    /// FP32 order: each result is a sequential sum from +0 over (channel within the group, kh, kw)
    /// ascending of rounded products; taps in the padding are skipped.
    pub struct Conv2d = "conv2d" {
        /// Vertical, horizontal.
        pub strides: [usize; 2],
        /// Top, left, bottom, right.
        pub pads: [usize; 4],
        /// Vertical, horizontal.
        pub dilations: [usize; 2],
        /// Channel groups.
        pub groups: usize,
    }
}

impl Conv2d {
    pub(in crate::ops) fn convolution(&self, x: &Shape, w: &Shape) -> Result<Convolution, TypeError> {
        let x = rank4("conv2d", "x", x)?;
        let w = rank4("conv2d", "w", w)?;
        let geometry = Geometry {
            kernel: [w[2], w[3]],
            strides: self.strides,
            pads: self.pads,
            dilations: self.dilations,
            ceil: false,
        };
        Convolution::new("conv2d", &geometry, self.groups, x, w)
    }
}

struct Plan(Convolution);

impl Product for Plan {
    fn sums<T: Term>(&self, x: &[T], w: &[T]) -> Vec<T::Sum> {
        let Convolution { inputs, outputs, windows, .. } = self.0;
        let (vertical, horizontal) = (windows.vertical, windows.horizontal);
        let [_, channels, height, width] = self.0.x();
        let [_, features, rows, columns] = self.0.y();
        let taps = vertical.kernel * horizontal.kernel;
        let mut y = vec![T::ZERO; self.0.y().iter().product()];
        // Tap by tap over whole planes: each sum still runs over (channel, kh, kw) ascending.
        for (plane, y) in y.chunks_exact_mut(rows * columns).enumerate() {
            let (image, feature) = (plane / features, plane % features);
            for channel in 0..inputs {
                let source = image * channels + feature / outputs * inputs + channel;
                let x = &x[source * height * width..][..height * width];
                let w = &w[(feature * inputs + channel) * taps..][..taps];
                for (tap, &factor) in w.iter().enumerate() {
                    let (kh, kw) = (tap / horizontal.kernel, tap % horizontal.kernel);
                    let inside = horizontal.windows(kw);
                    if inside.is_empty() {
                        continue;
                    }
                    let first = horizontal.position(inside.start, kw);
                    for oh in vertical.windows(kh) {
                        let x = &x[vertical.position(oh, kh) * width..][..width][first..];
                        let y = &mut y[oh * columns..][inside.clone()];
                        if horizontal.stride == 1 {
                            product::add_scaled(y, x, factor);
                        } else {
                            let x = x.iter().step_by(horizontal.stride);
                            y.iter_mut().zip(x).for_each(|(y, x)| *y = x.add_product(factor, *y));
                        }
                    }
                }
            }
        }
        y
    }
}

impl Operator for Conv2d {
    const WORK: Work = Work::Products(|inputs| by_index(inputs[1], 0));
    const PROPERTIES: &'static [Property] = &[Property::Bilinear, Property::BeginsChain];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x, w] = operands("conv2d", inputs)?;
        let (element, scale) = rule::product("conv2d", x, w)?;
        let shape = self.convolution(&x.shape, &w.shape)?.y().into();
        Ok(vec![TensorType { shape, element, scale }])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (x, w) = (inputs[0], inputs[1]);
        let convolution =
            self.convolution(x.shape(), w.shape()).expect("the type rule has checked the operands");
        vec![product::evaluate(&Plan(convolution), x, w, convolution.y().into())]
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        let (x, w, error) = (node.inputs[0], node.inputs[1], node.output_gradient());
        let Conv2d { strides, pads, dilations, groups } = self.clone();
        let size = |graph: &Graph, value| {
            let shape = &graph.ty(value).shape;
            [shape[2], shape[3]]
        };
        let mut gradients = vec![None; 2];
        if node.wanted[0] {
            let input_size = size(graph, x);
            let op = Conv2dGradientInput { strides, pads, dilations, groups, input_size };
            let name = derivation::name(graph, node, "gradient_input");
            gradients[0] = Some(graph.add1(op, &[error, w], name)?);
        }
        if node.wanted[1] {
            let kernel_size = size(graph, w);
            let op = Conv2dGradientWeight { strides, pads, dilations, groups, kernel_size };
            let name = derivation::name(graph, node, "gradient_weight");
            gradients[1] = Some(graph.add1(op, &[x, error], name)?);
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
        let (x, w, y) = (b.input(0), b.input(1), b.output(0));
        b.for_("image", batch, |b, image| {
            b.for_("group", convolution.groups, |b, group| {
                b.for_("member", convolution.outputs, |b, member| {
                    let feature = group.clone() * Expr::index(convolution.outputs) + member;
                    let feature = b.let_("feature", feature);
                    let first =
                        image.clone() * Expr::index(channels) + group * Expr::index(convolution.inputs);
                    let first = b.let_("first_channel", first);
                    let plane = image * Expr::index(features) + feature.clone();
                    let plane = b.let_("plane", plane * Expr::index(rows));
                    b.for_("oh", rows, |b, oh| {
                        let (kh_start, kh_end) = vertical.tap_range(b, &oh);
                        let top = b.let_("top", vertical.origin(&oh));
                        let row = b.let_("row", (plane + oh) * Expr::index(columns));
                        b.for_("ow", columns, |b, ow| {
                            let (kw_start, kw_end) = horizontal.tap_range(b, &ow);
                            let left = b.let_("left", horizontal.origin(&ow));
                            let sum = b.local("sum", product::zero(outputs[0]));
                            b.for_("channel", convolution.inputs, |b, channel| {
                                let x_plane =
                                    (first + channel.clone()) * Expr::index(height) + top;
                                let x_plane = b.let_("x_plane", x_plane);
                                let w_plane = feature * Expr::index(convolution.inputs) + channel;
                                let w_plane = w_plane * Expr::index(vertical.kernel);
                                let w_plane = b.let_("w_plane", w_plane);
                                b.for_range("kh", kh_start, kh_end, |b, kh| {
                                    let x_row = x_plane
                                        + kh.clone() * Expr::index(vertical.dilation);
                                    let x_row =
                                        b.let_("x_row", x_row * Expr::index(width) + left);
                                    let w_row = (w_plane + kh) * Expr::index(horizontal.kernel);
                                    let w_row = b.let_("w_row", w_row);
                                    b.for_range("kw", kw_start, kw_end, |b, kw| {
                                        let offset =
                                            kw.clone() * Expr::index(horizontal.dilation);
                                        let value = b.load(x, x_row + offset);
                                        let weight = b.load(w, w_row + kw);
                                        b.set(sum, b.get(sum) + value * weight);
                                    });
                                });
                            });
                            b.store(y, row + ow, b.get(sum));
                        });
                    });
                });
            });
        });
        b.finish()
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.only_first()
    }

    fn cases() -> Vec<Case> {
        let plain = Conv2d { strides: [1, 1], pads: [0; 4], dilations: [1, 1], groups: 1 };
        let counted = |shape: [usize; 4]| {
            Tensor::f32(shape, (0..shape.iter().product()).map(|i: usize| i as f32).collect())
        };
        let ones = |shape: [usize; 4]| Tensor::f32(shape, vec![1.0; shape.iter().product()]);
        vec![
            // The examples of ONNX's Conv.
            Case::new(
                Conv2d { pads: [1; 4], ..plain.clone() },
                vec![counted([1, 1, 5, 5]), ones([1, 1, 3, 3])],
                vec![Tensor::f32(
                    [1, 1, 5, 5],
                    vec![
                        12., 21., 27., 33., 24., 33., 54., 63., 72., 51., 63., 99., 108., 117.,
                        81., 93., 144., 153., 162., 111., 72., 111., 117., 123., 84.,
                    ],
                )],
            ),
            Case::new(
                Conv2d { strides: [2, 2], pads: [1, 0, 1, 0], ..plain.clone() },
                vec![counted([1, 1, 7, 5]), ones([1, 1, 3, 3])],
                vec![Tensor::f32(
                    [1, 1, 4, 2],
                    vec![21., 33., 99., 117., 189., 207., 171., 183.],
                )],
            ),
            // Cross-correlation, not convolution: the kernel is not flipped.
            Case::new(
                plain.clone(),
                vec![Tensor::f32([1, 1, 1, 3], vec![1., 2., 3.]), counted([1, 1, 1, 2])],
                vec![Tensor::f32([1, 1, 1, 2], vec![2., 3.])],
            ),
            // Dilation 2 with one column of padding left and two right: taps at -1, 1 | 0, 2 | 1, 3 | 2, 4.
            Case::new(
                Conv2d { pads: [0, 1, 0, 2], dilations: [1, 2], ..plain.clone() },
                vec![
                    Tensor::f32([1, 1, 1, 3], vec![1., 2., 4.]),
                    Tensor::f32([1, 1, 1, 2], vec![1., 10.]),
                ],
                vec![Tensor::f32([1, 1, 1, 4], vec![20., 41., 2., 4.])],
            ),
            // Depthwise with two features a channel: [1 2] and [3 4] by 5, 6 and 7, 8.
            Case::new(
                Conv2d { groups: 2, ..plain.clone() },
                vec![
                    Tensor::f32([1, 2, 1, 2], vec![1., 2., 3., 4.]),
                    Tensor::f32([4, 1, 1, 1], vec![5., 6., 7., 8.]),
                ],
                vec![Tensor::f32([1, 4, 1, 2], vec![5., 10., 6., 12., 21., 28., 24., 32.])],
            ),
            // 2 channels x 2 taps of 128 * 128, and of -128 * 127.
            Case::new(
                plain.clone(),
                vec![
                    Tensor::i8_shared([1, 2, 1, 2], vec![-128; 4], -7),
                    Tensor::i8_shared(
                        [2, 2, 1, 2],
                        vec![-128, -128, -128, -128, 127, 127, 127, 127],
                        3,
                    ),
                ],
                vec![Tensor::i32_shared([1, 2, 1, 1], vec![65536, -65024], -4)],
            ),
            Case::shape_only(
                Conv2d { strides: [2, 3], pads: [0, 2, 3, 1], dilations: [2, 1], groups: 1 },
                vec![sample::f32([2, 3, 7, 8], 1), sample::f32([4, 3, 3, 2], 2)],
            ),
            Case::shape_only(
                Conv2d { strides: [1, 2], pads: [3, 0, 0, 4], dilations: [1, 3], groups: 3 },
                vec![sample::i8_shared([2, 6, 5, 7], 3, -5), sample::i8_shared([3, 2, 3, 3], 4, -6)],
            ),
            // Padding wider than the kernel: sums without a tap are +0.
            Case::shape_only(
                Conv2d { pads: [3, 2, 2, 3], ..plain.clone() },
                vec![sample::f32([1, 1, 2, 1], 5), sample::f32([1, 1, 2, 2], 6)],
            ),
            Case::shape_only(
                Conv2d { groups: 4, pads: [1; 4], ..plain },
                vec![sample::f32([1, 4, 3, 3], 7), sample::f32([4, 1, 3, 3], 8)],
            ),
            // u8 by i8: 2 taps of 255 * -128, and of 255 * 127.
            Case::new(
                plain.clone(),
                vec![
                    sample::shared_of([1, 1, 1, 2], Element::U8, &[255, 255], -7),
                    Tensor::i8_shared([2, 1, 1, 2], vec![-128, -128, 127, 127], 3),
                ],
                vec![Tensor::i32_shared([1, 2, 1, 1], vec![-65280, 64770], -4)],
            ),
            Case::shape_only(
                Conv2d { strides: [1, 1], pads: [1; 4], dilations: [1, 1], groups: 1 },
                vec![
                    sample::shared([3, 5, 6, 7], Element::U8, 1, -7),
                    sample::shared([9, 5, 3, 3], Element::I8, 2, -9),
                ],
            ),
            Case::shape_only(
                Conv2d { strides: [2, 2], pads: [1, 0, 1, 0], dilations: [1, 1], groups: 3 },
                vec![
                    sample::shared([2, 3, 8, 7], Element::U8, 1, -7),
                    sample::shared([3, 1, 3, 3], Element::I8, 2, -9),
                ],
            ),
        ]
    }
}
