//! `integer_conv2d`. See [`IntegerConv2d`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::{Property, Work, by_index};
use crate::ops::rule::{self, operands};
use crate::ops::support::convolution::{Convolution, rank4};
use crate::ops::support::window::Geometry;
use crate::ops::support::{narrow, sample};
use crate::ops::{Case, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::{ScaleData, Tensor};
use crate::types::{Element, Scale, Shape, TensorType};

operator! {
    /// 2-D convolution (cross-correlation) of plain integers, channels last. Operands: `x` `[B,H,W,Cin]` (i8, i4, i2,
    /// u8, u4 or u2), `w` `[Cout,KH,KW,Cin/groups]` (i8, i4 or i2); result i32 `[B,OH,OW,Cout]`. Sums wrap in 32 bits;
    /// positions outside `x` hold `padding`, the integer that stands for 0. No gradient.
    pub struct IntegerConv2d = "integer_conv2d" {
        /// Vertical, horizontal.
        pub strides: [usize; 2],
        /// Top, left, bottom, right.
        pub pads: [usize; 4],
        /// Vertical, horizontal.
        pub dilations: [usize; 2],
        /// Channel groups.
        pub groups: usize,
        /// What positions outside `x` hold; a number of its element.
        pub padding: i32,
    }
}

impl IntegerConv2d {
    fn convolution(&self, x: &Shape, w: &Shape) -> Result<Convolution, TypeError> {
        let [batch, height, width, channels] = rank4(Self::NAME, "x", x)?;
        let [features, rows, columns, inputs] = rank4(Self::NAME, "w", w)?;
        let geometry = Geometry {
            kernel: [rows, columns],
            strides: self.strides,
            pads: self.pads,
            dilations: self.dilations,
            ceil: false,
        };
        let x = [batch, channels, height, width];
        Convolution::new(Self::NAME, &geometry, self.groups, x, [features, inputs, rows, columns])
    }
}

/// Elements of at most 8 bits as 16-bit numbers, whose products are fast.
fn halves(tensor: &Tensor) -> Vec<i16> {
    tensor.to_i64().into_iter().map(|x| x as i16).collect()
}

/// Shape of the result.
fn result(convolution: &Convolution) -> Shape {
    let [batch, features, rows, columns] = convolution.y();
    [batch, rows, columns, features].into()
}

impl Operator for IntegerConv2d {
    const WORK: Work = Work::Products(|inputs| by_index(inputs[1], 0));
    const PROPERTIES: &'static [Property] = &[Property::BeginsChain];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x, w] = operands(Self::NAME, inputs)?;
        let takes = |ty: &TensorType| narrow::is_narrow(ty.element) && ty.scale == Scale::None;
        rule::ensure(takes(x) && x.element != Element::B1, || {
            format!("{} takes unscaled i8, i4, i2, u8, u4 or u2, here {x}", Self::NAME)
        })?;
        let signed = matches!(w.element, Element::I8 | Element::I4 | Element::I2);
        rule::ensure(takes(w) && signed, || {
            format!("{} takes unscaled weights of i8, i4 or i2, here {w}", Self::NAME)
        })?;
        narrow::padding(Self::NAME, self.padding, x.element)?;
        let convolution = self.convolution(&x.shape, &w.shape)?;
        Ok(vec![TensorType::new(result(&convolution), Element::I32)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (x, w) = (inputs[0], inputs[1]);
        let c = self.convolution(x.shape(), w.shape()).expect("the type rule has checked this");
        let (vertical, horizontal) = (c.windows.vertical, c.windows.horizontal);
        let (x, w) = (halves(x), halves(w));
        let (channels, features) = (c.groups * c.inputs, c.groups * c.outputs);
        let taps = vertical.kernel * horizontal.kernel;
        let mut y = Vec::with_capacity(result(&c).count());
        // A window of all channels, tap by tap for each group, padding included.
        let mut window = vec![0i16; c.groups * taps * c.inputs];
        for image in 0..c.batch {
            for oh in 0..vertical.output {
                for ow in 0..horizontal.output {
                    window.fill(self.padding as i16);
                    for kh in vertical.taps(oh) {
                        for kw in horizontal.taps(ow) {
                            let row = image * vertical.input + vertical.position(oh, kh);
                            let pixel = row * horizontal.input + horizontal.position(ow, kw);
                            let pixel = &x[pixel * channels..][..channels];
                            for (group, from) in pixel.chunks_exact(c.inputs).enumerate() {
                                let tap = group * taps + kh * horizontal.kernel + kw;
                                window[tap * c.inputs..][..c.inputs].copy_from_slice(from);
                            }
                        }
                    }
                    y.extend((0..features).map(|feature| {
                        let (length, group) = (taps * c.inputs, feature / c.outputs);
                        let window = &window[group * length..][..length];
                        let w = &w[feature * length..][..length];
                        window.iter().zip(w).fold(0i32, |sum, (&x, &w)| {
                            sum.wrapping_add(i32::from(x) * i32::from(w))
                        })
                    }));
                }
            }
        }
        vec![Tensor::i32(result(&c), y)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let c = self
            .convolution(&inputs[0].shape, &inputs[1].shape)
            .expect("the type rule has checked the operands");
        let (vertical, horizontal) = (c.windows.vertical, c.windows.horizontal);
        let (channels, features) = (c.groups * c.inputs, c.groups * c.outputs);
        // Padding of zeros adds nothing: its taps are left out.
        let skips = self.padding == 0 || (vertical.all_inside() && horizontal.all_inside());
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, w, y) = (b.input(0), b.input(1), b.output(0));
        b.for_("image", c.batch, |b, image| {
            b.for_("oh", vertical.output, |b, oh| {
                let all = (Expr::i64(0), Expr::index(vertical.kernel));
                let (kh_start, kh_end) = if skips { vertical.tap_range(b, &oh) } else { all };
                let top = b.let_("top", vertical.origin(&oh));
                let line = image.clone() * Expr::index(vertical.output) + oh;
                let line = b.let_("line", line * Expr::index(horizontal.output));
                b.for_("ow", horizontal.output, |b, ow| {
                    let all = (Expr::i64(0), Expr::index(horizontal.kernel));
                    let (kw_start, kw_end) = if skips { horizontal.tap_range(b, &ow) } else { all };
                    let left = b.let_("left", horizontal.origin(&ow));
                    let pixel = b.let_("pixel", (line + ow) * Expr::index(features));
                    b.for_("group", c.groups, |b, group| {
                        let first = b.let_("first", group.clone() * Expr::index(c.inputs));
                        b.for_("member", c.outputs, |b, member| {
                            let feature = group * Expr::index(c.outputs) + member;
                            let feature = b.let_("feature", feature);
                            let sum = b.local("sum", Expr::i32(0));
                            b.for_range("kh", kh_start, kh_end, |b, kh| {
                                let row = top + kh.clone() * Expr::index(vertical.dilation);
                                let row = b.let_("row", row);
                                let x_row = image * Expr::index(vertical.input) + row.clone();
                                let x_row = x_row * Expr::index(horizontal.input);
                                let x_row = b.let_("x_row", x_row);
                                let w_row = feature.clone() * Expr::index(vertical.kernel) + kh;
                                let w_row = w_row * Expr::index(horizontal.kernel);
                                let w_row = b.let_("w_row", w_row);
                                b.for_range("kw", kw_start, kw_end, |b, kw| {
                                    let column =
                                        left + kw.clone() * Expr::index(horizontal.dilation);
                                    let column = b.let_("column", column);
                                    let x_at = (x_row + column.clone()) * Expr::index(channels);
                                    let x_at = x_at + first;
                                    let w_at = b.let_("w_at", (w_row + kw) * Expr::index(c.inputs));
                                    let inside = |b: &mut LoopBuilder| {
                                        let x_at = b.let_("x_at", x_at);
                                        b.for_("channel", c.inputs, |b, channel| {
                                            let value = b.load(x, x_at + channel.clone());
                                            let weight = b.load(w, w_at.clone() + channel);
                                            b.set(sum, b.get(sum) + value * weight);
                                        });
                                    };
                                    if skips {
                                        return inside(b);
                                    }
                                    let within = |position: Expr, size: usize| {
                                        let above = Expr::i64(-1).less(position.clone());
                                        above.and(position.less(Expr::index(size)))
                                    };
                                    let holds = within(row, vertical.input)
                                        .and(within(column, horizontal.input));
                                    b.if_else(holds, inside, |b| {
                                        b.for_("channel", c.inputs, |b, channel| {
                                            let weight = b.load(w, w_at.clone() + channel);
                                            let product = Expr::i32(self.padding) * weight;
                                            b.set(sum, b.get(sum) + product);
                                        });
                                    });
                                });
                            });
                            b.store(y, pixel + feature, b.get(sum));
                        });
                    });
                });
            });
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        let plain = IntegerConv2d {
            strides: [1, 1],
            pads: [0; 4],
            dilations: [1, 1],
            groups: 1,
            padding: 0,
        };
        let integers = |shape: [usize; 4], element, values: &[i64]| {
            Tensor::from_i64(&TensorType::new(shape, element), values, ScaleData::None)
        };
        use Element::{I2, I4, I8, U2, U4, U8};
        let mut cases = vec![
            // One pixel of three channels by two features: 1*4 + 2*5 + 3*6, and -7 - 16 - 27.
            Case::new(
                plain.clone(),
                vec![
                    integers([1, 1, 1, 3], U8, &[1, 2, 3]),
                    integers([2, 1, 1, 3], I8, &[4, 5, 6, -7, -8, -9]),
                ],
                vec![Tensor::i32([1, 1, 1, 2], vec![32, -50])],
            ),
            // Not flipped; channels are fastest: (1,10) (2,20) (3,30) by (1,0) (0,1).
            Case::new(
                plain.clone(),
                vec![
                    integers([1, 1, 3, 2], U8, &[1, 10, 2, 20, 3, 30]),
                    integers([1, 1, 2, 2], I2, &[1, 0, 0, 1]),
                ],
                vec![Tensor::i32([1, 1, 2, 1], vec![21, 32])],
            ),
            // Padding that stands for 0: columns 9 5 9 by 1 -2, one row of 9 above.
            Case::new(
                IntegerConv2d { pads: [1, 1, 0, 1], padding: 9, ..plain.clone() },
                vec![integers([1, 1, 1, 1], U4, &[5]), integers([1, 2, 2, 1], I4, &[1, 1, 1, -2])],
                vec![Tensor::i32([1, 1, 2, 1], vec![17, 5])],
            ),
            // Depthwise, two features a channel: 3, -4 by 1 -2 and 1 -1.
            Case::new(
                IntegerConv2d { groups: 2, ..plain.clone() },
                vec![
                    integers([1, 1, 1, 2], I4, &[3, -4]),
                    integers([4, 1, 1, 1], I2, &[1, -2, 1, -1]),
                ],
                vec![Tensor::i32([1, 1, 1, 4], vec![3, -6, -4, 4])],
            ),
            // Extremes: 2 taps of 255 * -128.
            Case::new(
                plain.clone(),
                vec![
                    integers([1, 1, 2, 1], U8, &[255, 255]),
                    integers([1, 1, 2, 1], I8, &[-128, -128]),
                ],
                vec![Tensor::i32([1, 1, 1, 1], vec![-65280])],
            ),
        ];
        // Every pair of elements on odd sizes, with padding that is and is not 0.
        let mut salt = 0;
        for x in [U8, U4, U2, I8, I4, I2] {
            for w in [I8, I4, I2] {
                salt += 2;
                let (low, high) = x.integer_range().expect("an integer");
                let padding = [0, high as i32, low as i32][salt % 3];
                let op =
                    IntegerConv2d { strides: [2, 1], pads: [1, 1, 0, 2], padding, ..plain.clone() };
                let x = sample::integers([2, 4, 5, 3], x, salt as u32);
                let w = sample::integers([5, 3, 3, 3], w, salt as u32 + 1);
                cases.push(Case::shape_only(op, vec![x, w]));
            }
        }
        for (groups, padding) in [(2, -3), (6, 0), (6, 5)] {
            let op = IntegerConv2d {
                pads: [2, 0, 1, 3],
                dilations: [2, 3],
                groups,
                padding,
                ..plain.clone()
            };
            let x = sample::integers([1, 5, 7, 6], I4, 60 + groups as u32);
            let w = sample::integers([6, 2, 3, 6 / groups], I2, 61 + groups as u32);
            cases.push(Case::shape_only(op, vec![x, w]));
        }
        // Whole bytes in every row.
        let x = sample::integers([1, 3, 3, 8], U4, 70);
        let w = sample::integers([8, 3, 3, 8], I4, 71);
        cases.push(Case::shape_only(IntegerConv2d { pads: [1; 4], ..plain }, vec![x, w]));
        cases
    }
}
