//! `binary_conv2d`. See [`BinaryConv2d`].

use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::properties::{Examples, Property, Work, by_index};
use crate::ops::rule::{self, operands};
use crate::ops::support::binary;
use crate::ops::support::convolution::{Convolution, rank4};
use crate::ops::support::sample;
use crate::ops::support::window::Geometry;
use crate::ops::{Case, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::{ScaleData, Tensor};
use crate::types::{Element, Scale, Shape, TensorType};

operator! {
    /// 2-D convolution (cross-correlation) of bits that stand for 1 and -1 (a 0), channels last: each tap gives `channels` less
    /// twice the number of its bits that differ, so sums count by exclusive or. Operands: `x` b1 `[B,H,W,groups*C]`, `w` b1
    /// `[Cout,KH,KW,C]`, C a whole number of bytes: the model's `channels` of a group, filled up by bits that are the same in both
    /// (such as 0). Result: i32 `[B,OH,OW,Cout]`, of which each group makes as many. No gradient.
    ///
    /// Positions outside `x` hold `padding`: with 0 they add nothing; with 1 or -1 all channels of the model have that sign there,
    /// and the bits that fill up are 0.
    pub struct BinaryConv2d = "binary_conv2d" {
        /// Vertical, horizontal.
        pub strides: [usize; 2],
        /// Top, left, bottom, right.
        pub pads: [usize; 4],
        /// Vertical, horizontal.
        pub dilations: [usize; 2],
        /// Channel groups.
        pub groups: usize,
        /// What positions outside `x` hold: 0, 1 or -1.
        pub padding: i32,
        /// The model's channels of a group; those above them fill up bytes.
        pub channels: usize,
    }
}

impl BinaryConv2d {
    /// The convolution's sizes, or why the operands do not fit.
    pub(crate) fn convolution(&self, x: &Shape, w: &Shape) -> Result<Convolution, TypeError> {
        let name = "binary_conv2d";
        let [batch, height, width, channels] = rank4(name, "x", x)?;
        let [features, rows, columns, inputs] = rank4(name, "w", w)?;
        let geometry = Geometry {
            kernel: [rows, columns],
            strides: self.strides,
            pads: self.pads,
            dilations: self.dilations,
            ceil: false,
        };
        let x = [batch, channels, height, width];
        Convolution::new(name, &geometry, self.groups, x, [features, inputs, rows, columns])
    }

    /// The bits of 8 channels from `8 * byte` on at a position that holds 1.
    pub(crate) fn ones(&self, byte: usize) -> u8 {
        let used = self.channels.saturating_sub(8 * byte).min(8);
        ((1u16 << used) - 1) as u8
    }
}

/// Shape of the result.
fn result(convolution: &Convolution) -> Shape {
    let [batch, features, rows, columns] = convolution.y();
    [batch, rows, columns, features].into()
}

impl Operator for BinaryConv2d {
    const WORK: Work = Work::Products(|inputs| by_index(inputs[1], 0).div_ceil(8));
    const PROPERTIES: &'static [Property] = &[Property::BeginsChain];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let name = "binary_conv2d";
        let [x, w] = operands(name, inputs)?;
        for (what, ty) in [("x", x), ("w", w)] {
            rule::ensure(ty.element == Element::B1 && ty.scale == Scale::None, || {
                format!("{name} takes bits (b1), here {what} is {ty}")
            })?;
        }
        rule::ensure((-1..=1).contains(&self.padding), || {
            format!("{name}: the padding is 0, 1 or -1, not {}", self.padding)
        })?;
        let convolution = self.convolution(&x.shape, &w.shape)?;
        let stored = convolution.inputs;
        rule::ensure(stored.is_multiple_of(8), || {
            format!("{name}: {stored} channels are no whole number of bytes")
        })?;
        rule::ensure((1..=stored).contains(&self.channels), || {
            format!("{name}: {} of {stored} channels", self.channels)
        })?;
        let taps = w.count() / convolution.w()[0];
        rule::ensure(taps < 1 << 30, || format!("{name}: sums of {taps} products"))?;
        Ok(vec![TensorType::new(result(&convolution), Element::I32)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (x, w) = (inputs[0], inputs[1]);
        let c = self.convolution(x.shape(), w.shape()).expect("the type rule has checked this");
        let (vertical, horizontal) = (c.windows.vertical, c.windows.horizontal);
        let (x, w) = (x.to_i64(), w.to_i64());
        let (stored, channels) = (c.inputs, self.channels as i32);
        let pixel_bits = c.groups * stored;
        let outside: Vec<i64> =
            (0..stored).map(|at| i64::from(self.padding == 1 && at < self.channels)).collect();
        let mut y = Vec::with_capacity(result(&c).count());
        for image in 0..c.batch {
            for oh in 0..vertical.output {
                for ow in 0..horizontal.output {
                    let (rows, columns) = (vertical.taps(oh), horizontal.taps(ow));
                    for feature in 0..c.groups * c.outputs {
                        let first = feature / c.outputs * stored;
                        let mut sum = 0;
                        for kh in 0..vertical.kernel {
                            for kw in 0..horizontal.kernel {
                                let bits = if rows.contains(&kh) && columns.contains(&kw) {
                                    let row = image * vertical.input + vertical.position(oh, kh);
                                    let pixel = row * horizontal.input;
                                    let pixel = pixel + horizontal.position(ow, kw);
                                    &x[pixel * pixel_bits + first..][..stored]
                                } else if self.padding == 0 {
                                    continue;
                                } else {
                                    &outside[..]
                                };
                                let tap = (feature * vertical.kernel + kh) * horizontal.kernel + kw;
                                let weights = &w[tap * stored..][..stored];
                                let differ = bits.iter().zip(weights).filter(|(a, b)| a != b);
                                sum += channels - 2 * differ.count() as i32;
                            }
                        }
                        y.push(sum);
                    }
                }
            }
        }
        vec![Tensor::i32(result(&c), y)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        binary::lower(self, inputs, outputs)
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.only_first()
    }

    fn cases() -> Vec<Case> {
        let plain = BinaryConv2d {
            strides: [1, 1],
            pads: [0; 4],
            dilations: [1, 1],
            groups: 1,
            padding: 0,
            channels: 8,
        };
        let bits = |shape: [usize; 4], bytes: &[u8]| {
            let values: Vec<i64> =
                bytes.iter().flat_map(|b| (0..8).map(move |i| i64::from(b >> i & 1))).collect();
            Tensor::from_i64(&TensorType::new(shape, Element::B1), &values, ScaleData::None)
        };
        let mut cases = vec![
            // All alike, three that differ, all differ.
            Case::new(
                plain.clone(),
                vec![
                    bits([1, 1, 1, 8], &[0b1011_0010]),
                    bits([3, 1, 1, 8], &[0b1011_0010, 0b1010_0111, 0b0100_1101]),
                ],
                vec![Tensor::i32([1, 1, 1, 3], vec![8, 2, -8])],
            ),
            // Three channels of eight: 1 -1 1 by 1 1 1 and -1 1 -1.
            Case::new(
                BinaryConv2d { channels: 3, ..plain.clone() },
                vec![bits([1, 1, 1, 8], &[0b101]), bits([2, 1, 1, 8], &[0b111, 0b010])],
                vec![Tensor::i32([1, 1, 1, 2], vec![1, -3])],
            ),
        ];
        // Two groups of a channel, 1 and -1, two features of each by 1 and -1.
        cases.push(Case::new(
            BinaryConv2d { groups: 2, channels: 1, ..plain.clone() },
            vec![bits([1, 1, 1, 16], &[1, 0]), bits([4, 1, 1, 8], &[1, 0, 1, 0])],
            vec![Tensor::i32([1, 1, 1, 4], vec![1, -1, -1, 1])],
        ));
        for (groups, channels, features) in [(2, 13, 8), (3, 8, 3), (5, 1, 10)] {
            for padding in [-1, 0, 1] {
                let stored = usize::next_multiple_of(channels, 8);
                let op = BinaryConv2d {
                    strides: [1, 2],
                    pads: [1, 0, 2, 1],
                    dilations: [2, 1],
                    groups,
                    padding,
                    channels,
                };
                let salt = 70 + groups as u32;
                let x = sample::integers([2, 5, 4, groups * stored], Element::B1, salt);
                let w = sample::integers([features, 2, 3, stored], Element::B1, salt + 1);
                if features.is_multiple_of(groups) {
                    cases.push(Case::shape_only(op, vec![x, w]));
                }
            }
        }
        // A pixel of two channels, 1 -1, below a row of padding and between two columns of it; weights are 1 1 throughout but
        // for -1 -1 at the left: 0 for the pixel, and what the padding has.
        for padding in [0, 1, -1] {
            let op = BinaryConv2d { pads: [1, 0, 0, 0], padding, channels: 2, ..plain.clone() };
            cases.push(Case::new(
                op,
                vec![bits([1, 1, 1, 8], &[0b01]), bits([1, 2, 1, 8], &[0b11, 0b11])],
                vec![Tensor::i32([1, 1, 1, 1], vec![2 * padding])],
            ));
            let op = BinaryConv2d { pads: [0, 1, 0, 1], padding, channels: 2, ..plain.clone() };
            cases.push(Case::new(
                op,
                vec![bits([1, 1, 1, 8], &[0b01]), bits([1, 1, 2, 8], &[0b00, 0b01])],
                // The padding by -1 -1 and the pixel by 1 -1; the pixel by -1 -1 and the padding by 1 -1.
                vec![Tensor::i32([1, 1, 2, 1], vec![2 - 2 * padding, 0])],
            ));
        }
        for (salt, (stored, channels)) in
            [(8, 5), (16, 16), (24, 20), (32, 32), (40, 33), (64, 64), (96, 70)].into_iter().enumerate()
        {
            let salt = 10 + 2 * salt as u32;
            for padding in [-1, 0, 1] {
                let op = BinaryConv2d {
                    strides: [2, 1],
                    pads: [1, 2, 0, 1],
                    dilations: [1, 2],
                    groups: 1,
                    padding,
                    channels,
                };
                let x = sample::integers([2, 4, 5, stored], Element::B1, salt);
                let w = sample::integers([3, 3, 2, stored], Element::B1, salt + 1);
                cases.push(Case::shape_only(op, vec![x, w]));
            }
            // A linear layer.
            let op = BinaryConv2d { channels, ..plain.clone() };
            let x = sample::integers([3, 1, 1, stored], Element::B1, salt);
            let w = sample::integers([5, 1, 1, stored], Element::B1, salt + 1);
            cases.push(Case::shape_only(op, vec![x, w]));
        }
        cases
    }
}
