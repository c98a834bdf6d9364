//! Launches as words, which objects hold as data, and back.

use super::bit_groups::BitProduct;
use super::bits::BitGeometry;
use super::finish::{Finish, Rounding, Width};
use super::geometry::{ChannelsLast, ConvGeometry, MatMulGeometry};
use super::grouped::{GroupedPass, GroupedProduct, GroupedShape};
use super::launch::{Launch, Operand, Product, Source};
use super::planes::{ChannelSums, Line, Lines, Planes};
use super::pools::{PoolGeometry, Pooled};

/// Words of a description.
pub const LAUNCH_WORDS: usize = 52;

/// Words of a shape.
const SHAPE: usize = 21;

/// Puts words one after another.
struct Writer {
    words: [i64; LAUNCH_WORDS],
    count: usize,
}

impl Writer {
    fn put(&mut self, word: i64) {
        self.words[self.count] = word;
        self.count += 1;
    }

    fn all(&mut self, words: &[i64]) {
        words.iter().for_each(|&word| self.put(word));
    }
}

/// Takes words in the order in which they were put.
struct Reader<'a> {
    words: core::slice::Iter<'a, i64>,
}

impl Reader<'_> {
    fn word(&mut self) -> i64 {
        self.words.next().copied().unwrap_or(0)
    }

    fn size(&mut self) -> usize {
        self.word() as usize
    }

    fn operand(&mut self) -> Operand {
        Operand { elements: self.size(), exponent: usize::try_from(self.word()).ok() }
    }
}

impl Launch {
    /// The description as words.
    #[must_use]
    pub fn encode(&self) -> [i64; LAUNCH_WORDS] {
        let mut to = Writer { words: [0; LAUNCH_WORDS], count: 0 };
        let (kind, shape) = match &self.source {
            Source::Operand => (0, [0; SHAPE]),
            Source::Product(Product::Forward(g)) => (1, convolution(g)),
            Source::Product(Product::InputGradient(g)) => (2, convolution(g)),
            Source::Product(Product::WeightGradient(g)) => (3, convolution(g)),
            Source::Product(Product::MatMul(g)) => (4, matrices(g)),
            Source::Product(Product::ChannelsLast(g)) => (5, channels_last(g)),
            Source::Product(Product::DepthwiseLast(g)) => (6, channels_last(g)),
            Source::Aligned { low } => (7, filled(&[low.unsigned_abs().into()])),
            Source::Lines(lines) => (8, planes(&lines.planes, line(lines.line))),
            Source::Pool(g, pooled) => (10, pool(g, *pooled)),
            Source::PoolGradient(g, pooled) => (11, pool(g, *pooled)),
            Source::Clip(bounds) => (12, filled(&bounds.map(|bits| bits as usize))),
            Source::ClipGradient(bounds) => (13, filled(&bounds.map(|bits| bits as usize))),
            Source::ChannelSums(sizes, sums) => (9, planes(sizes, *sums as usize)),
            Source::Bits(product) => (14, bits(product)),
            Source::Grouped(product) => match product.shape {
                GroupedShape::Convolution(GroupedPass::Forward, _) => (15, grouped(product)),
                GroupedShape::Convolution(GroupedPass::InputGradient, _) => (16, grouped(product)),
                GroupedShape::Convolution(GroupedPass::WeightGradient, _) => (17, grouped(product)),
                GroupedShape::MatMul(_) => (18, grouped(product)),
            },
        };
        to.put(kind);
        shape.into_iter().for_each(|size| to.put(size as i64));
        to.put(self.float.into());
        let (width, bits) = match self.finish.map(|finish| finish.width) {
            None => (0, 0),
            Some(Width::Sums(bits)) => (1, bits),
            Some(Width::Kept(bits)) => (2, bits),
            Some(Width::Given) => (3, 0),
            Some(Width::Shift(bits)) => (4, bits),
        };
        to.all(&[width, bits.into()]);
        to.all(&match self.finish.map(|finish| finish.rounding) {
            None | Some(Rounding::HalfAway) => [0, 0],
            Some(Rounding::PseudoStochastic) => [1, 0],
            Some(Rounding::Stochastic { stream }) => [2, stream.into()],
        });
        to.put(self.finish.map_or(0, |finish| finish.low).into());
        for operand in self.inputs.iter().chain(&self.outputs) {
            to.put(operand.elements as i64);
            to.put(operand.exponent.map_or(-1, |offset| offset as i64));
        }
        for size in [self.count, self.results, self.sums_bytes, self.scratch_bytes] {
            to.put(size as i64);
        }
        to.words
    }

    /// The description that words are.
    #[must_use]
    pub fn decode(words: &[i64; LAUNCH_WORDS]) -> Self {
        let mut from = Reader { words: words.iter() };
        let kind = from.word();
        let shape: [usize; SHAPE] = core::array::from_fn(|_| from.size());
        let source = match kind {
            1 => Source::Product(Product::Forward(convolution_of(&shape))),
            2 => Source::Product(Product::InputGradient(convolution_of(&shape))),
            3 => Source::Product(Product::WeightGradient(convolution_of(&shape))),
            4 => Source::Product(Product::MatMul(matrices_of(&shape))),
            5 => Source::Product(Product::ChannelsLast(channels_last_of(&shape))),
            6 => Source::Product(Product::DepthwiseLast(channels_last_of(&shape))),
            7 => Source::Aligned { low: (shape[0] as i8).wrapping_neg() },
            8 => Source::Lines(Lines { planes: planes_of(&shape), line: line_of(shape[3]) }),
            10 => Source::Pool(pool_of(&shape), pooled_of(shape[5])),
            11 => Source::PoolGradient(pool_of(&shape), pooled_of(shape[5])),
            12 => Source::Clip([0, 1].map(|at: usize| shape[at] as u32)),
            13 => Source::ClipGradient([0, 1].map(|at: usize| shape[at] as u32)),
            14 => Source::Bits(bits_of(&shape)),
            15..=18 => {
                let pass = match kind {
                    15 => Some(GroupedPass::Forward),
                    16 => Some(GroupedPass::InputGradient),
                    17 => Some(GroupedPass::WeightGradient),
                    _ => None,
                };
                Source::Grouped(grouped_of(pass, &shape))
            }
            9 => Source::ChannelSums(
                planes_of(&shape),
                match shape[3] {
                    0 => ChannelSums::Statistics,
                    _ => ChannelSums::Gradients,
                },
            ),
            _ => Source::Operand,
        };
        let float = from.word() != 0;
        let (width, bits) = (from.word(), from.word() as u8);
        let width = match width {
            1 => Some(Width::Sums(bits)),
            2 => Some(Width::Kept(bits)),
            3 => Some(Width::Given),
            4 => Some(Width::Shift(bits)),
            _ => None,
        };
        let (rounding, stream) = (from.word(), from.word() as u32);
        let rounding = match rounding {
            0 => Rounding::HalfAway,
            1 => Rounding::PseudoStochastic,
            _ => Rounding::Stochastic { stream },
        };
        let low = from.word() as i8;
        Self {
            source,
            float,
            finish: width.map(|width| Finish { width, rounding, low }),
            inputs: core::array::from_fn(|_| from.operand()),
            outputs: core::array::from_fn(|_| from.operand()),
            count: from.size(),
            results: from.size(),
            sums_bytes: from.size(),
            scratch_bytes: from.size(),
        }
    }
}

/// The first of a shape's words.
fn filled(sizes: &[usize]) -> [usize; SHAPE] {
    core::array::from_fn(|at| sizes.get(at).copied().unwrap_or(0))
}

fn planes(sizes: &Planes, kind: usize) -> [usize; SHAPE] {
    filled(&[sizes.batch, sizes.channels, sizes.space, kind])
}

fn planes_of(&[batch, channels, space, ..]: &[usize; SHAPE]) -> Planes {
    Planes { batch, channels, space }
}

fn pool(g: &PoolGeometry, pooled: Pooled) -> [usize; SHAPE] {
    filled(&[g.planes, g.height, g.width, g.rows, g.columns, pooled as usize])
}

fn pool_of(&[planes, height, width, rows, columns, ..]: &[usize; SHAPE]) -> PoolGeometry {
    PoolGeometry { planes, height, width, rows, columns }
}

fn pooled_of(word: usize) -> Pooled {
    match word {
        0 => Pooled::I8,
        1 => Pooled::U8,
        _ => Pooled::F32,
    }
}

fn line(line: Line) -> usize {
    match line {
        Line::Norm => 0,
        Line::Error { batch: false } => 1,
        Line::Error { batch: true } => 2,
    }
}

fn line_of(word: usize) -> Line {
    match word {
        0 => Line::Norm,
        word => Line::Error { batch: word == 2 },
    }
}

fn bits(BitProduct { geometry: g, groups }: &BitProduct) -> [usize; SHAPE] {
    let ([x, kernel], [y, strides, pads]) = ([g.x, g.kernel], [g.y, g.strides, g.pads]);
    filled(&[
        g.batch, x[0], x[1], g.bytes, g.channels, g.features, kernel[0], kernel[1], y[0], y[1],
        strides[0], strides[1], pads[0], pads[1], *groups,
    ])
}

fn bits_of(sizes: &[usize; SHAPE]) -> BitProduct {
    let pair = |at: usize| [sizes[at], sizes[at + 1]];
    let geometry = BitGeometry {
        batch: sizes[0],
        x: pair(1),
        bytes: sizes[3],
        channels: sizes[4],
        features: sizes[5],
        kernel: pair(6),
        y: pair(8),
        strides: pair(10),
        pads: pair(12),
    };
    BitProduct { geometry, groups: sizes[14] }
}

/// Words of the steps of scales, and whether they change within a sum, the last of a shape.
const SCALES: usize = 5;

fn grouped(product: &GroupedProduct) -> [usize; SHAPE] {
    let mut words = match &product.shape {
        GroupedShape::Convolution(_, g) => convolution(g),
        GroupedShape::MatMul(g) => matrices(g),
    };
    let [[a, b], [c, d]] = product.steps;
    words[SHAPE - SCALES..].copy_from_slice(&[a, b, c, d, usize::from(product.by_part)]);
    words
}

fn grouped_of(pass: Option<GroupedPass>, sizes: &[usize; SHAPE]) -> GroupedProduct {
    let shape = match pass {
        Some(pass) => GroupedShape::Convolution(pass, convolution_of(sizes)),
        None => GroupedShape::MatMul(matrices_of(sizes)),
    };
    let &[.., a, b, c, d, by_part] = sizes;
    GroupedProduct { shape, steps: [[a, b], [c, d]], by_part: by_part != 0 }
}

fn convolution(g: &ConvGeometry) -> [usize; SHAPE] {
    filled(&[
        g.batch,
        g.in_channels,
        g.in_height,
        g.in_width,
        g.out_channels,
        g.out_height,
        g.out_width,
        g.kernel_height,
        g.kernel_width,
        g.stride_height,
        g.stride_width,
        g.dilation_height,
        g.dilation_width,
        g.pad_top,
        g.pad_left,
        g.groups,
    ])
}

fn convolution_of(sizes: &[usize; SHAPE]) -> ConvGeometry {
    let &[
        batch,
        in_channels,
        in_height,
        in_width,
        out_channels,
        out_height,
        out_width,
        kernel_height,
        kernel_width,
        stride_height,
        stride_width,
        dilation_height,
        dilation_width,
        pad_top,
        pad_left,
        groups,
        ..,
    ] = sizes;
    ConvGeometry {
        batch,
        in_channels,
        in_height,
        in_width,
        out_channels,
        out_height,
        out_width,
        kernel_height,
        kernel_width,
        stride_height,
        stride_width,
        dilation_height,
        dilation_width,
        pad_top,
        pad_left,
        groups,
    }
}

fn matrices(g: &MatMulGeometry) -> [usize; SHAPE] {
    let [a, b] = [g.transpose_a, g.transpose_b].map(usize::from);
    let sizes = [g.batch, g.batch_stride_a, g.batch_stride_b, g.m, g.n, g.k, a, b];
    filled(&sizes)
}

fn matrices_of(sizes: &[usize; SHAPE]) -> MatMulGeometry {
    let &[batch, batch_stride_a, batch_stride_b, m, n, k, a, b, ..] = sizes;
    let [transpose_a, transpose_b] = [a, b].map(|flag| flag != 0);
    MatMulGeometry { batch, batch_stride_a, batch_stride_b, m, n, k, transpose_a, transpose_b }
}

fn channels_last(g: &ChannelsLast) -> [usize; SHAPE] {
    filled(&[
        g.batch,
        g.height,
        g.width,
        g.channels,
        g.features,
        g.rows,
        g.columns,
        g.kernel_height,
        g.kernel_width,
        g.stride_height,
        g.stride_width,
        g.dilation_height,
        g.dilation_width,
        g.pad_top,
        g.pad_left,
        usize::from(g.padding),
        usize::from(g.unsigned),
    ])
}

fn channels_last_of(sizes: &[usize; SHAPE]) -> ChannelsLast {
    let &[
        batch,
        height,
        width,
        channels,
        features,
        rows,
        columns,
        kernel_height,
        kernel_width,
        stride_height,
        stride_width,
        dilation_height,
        dilation_width,
        pad_top,
        pad_left,
        padding,
        unsigned,
        ..,
    ] = sizes;
    ChannelsLast {
        batch,
        height,
        width,
        channels,
        features,
        rows,
        columns,
        kernel_height,
        kernel_width,
        stride_height,
        stride_width,
        dilation_height,
        dilation_width,
        pad_top,
        pad_left,
        padding: padding as u8,
        unsigned: unsigned != 0,
    }
}
