//! Products whose groups have FP32 scales of their own: sums of integers inside a group, FP32 across groups.
//!
//! A group of a convolution's operand is a plane, so that its parts are convolutions of one channel, which
//! [`super::depthwise`] has; groups of a matrix are rows or columns.

use super::depthwise;
use super::geometry::{ConvGeometry, MatMulGeometry};
use super::numbers::power_of_two_factors;
use super::own::Own;
use super::path::{KernelPath, active_path, on_features};
use super::products::DIRECT;
use super::scratch::{Scratch, words_bytes};
use super::threads;

/// Which sums of a convolution are wanted, of which operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupedPass {
    /// `y` of `x` and `w`.
    Forward,
    /// `dx` of `dy` and `w`.
    InputGradient,
    /// `dw` of `x` and `dy`.
    WeightGradient,
}

/// Scales of an operand's groups: that at `[first, second]` of the operand's outer axes (a matrix' only two) is
/// `values[first * steps[0] + second * steps[1]]`.
#[derive(Clone, Copy, Debug)]
pub struct GroupScales<'a> {
    /// Scales.
    pub values: &'a [f32],
    /// From an index to the next; 0 where all share one.
    pub steps: [usize; 2],
}

impl GroupScales<'_> {
    #[inline(always)]
    fn at(&self, first: usize, second: usize) -> f32 {
        self.values[first * self.steps[0] + second * self.steps[1]]
    }
}

/// How sums become results.
#[derive(Clone, Copy, Debug)]
pub struct GroupedSums<'a> {
    /// Of each operand.
    pub scales: [GroupScales<'a>; 2],
    /// Whether scales change along what is summed over, so that each index of its outermost axis is a part: `total += f32(sum
    /// of the part) * (scale * scale)`. Else all is one part.
    pub by_part: bool,
    /// What the total is multiplied by, one after the other.
    pub factors: [f32; 2],
}

/// The shape of a product of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupedShape {
    /// A convolution, or a gradient of one.
    Convolution(GroupedPass, ConvGeometry),
    /// Matrices.
    MatMul(MatMulGeometry),
}

/// A product of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupedProduct {
    /// Shape of the operands.
    pub shape: GroupedShape,
    /// [`GroupScales::steps`] of each operand.
    pub steps: [[usize; 2]; 2],
    /// As in [`GroupedSums`].
    pub by_part: bool,
}

impl GroupedProduct {
    /// Multiplications.
    #[must_use]
    pub fn multiplications(&self) -> usize {
        match &self.shape {
            GroupedShape::Convolution(_, g) => g.multiplications(),
            GroupedShape::MatMul(g) => g.multiplications(),
        }
    }

    /// Bytes of working memory.
    #[must_use]
    pub fn scratch_bytes(&self) -> usize {
        match &self.shape {
            GroupedShape::Convolution(_, g) => grouped_convolution_scratch_bytes(g),
            GroupedShape::MatMul(g) => grouped_matmul_scratch_bytes(g),
        }
    }

    /// The product of `a` and `b` by their scales and by 2 to `exponent`.
    pub(super) fn run(
        &self,
        [a, b]: [&[i8]; 2],
        scales: [&[f32]; 2],
        exponent: i32,
        out: &mut [f32],
        scratch: &mut [u8],
    ) {
        let scale = |i: usize| GroupScales { values: scales[i], steps: self.steps[i] };
        let factors = power_of_two_factors(exponent);
        let sums = GroupedSums { scales: [scale(0), scale(1)], by_part: self.by_part, factors };
        match &self.shape {
            GroupedShape::Convolution(pass, g) => {
                grouped_convolution(*pass, g, a, b, &sums, out, scratch);
            }
            GroupedShape::MatMul(g) => grouped_matmul(g, a, b, &sums, out, scratch),
        }
    }
}

/// Words of working memory of a plane of sums, twice: of a part and of all parts.
fn plane_words(g: &ConvGeometry) -> usize {
    g.in_plane().max(g.out_plane()).max(g.taps())
}

/// The convolution of one plane by one plane.
fn of_one_plane(g: &ConvGeometry) -> ConvGeometry {
    ConvGeometry { batch: 1, in_channels: 1, out_channels: 1, groups: 1, ..*g }
}

/// Bytes of the scratch of [`grouped_convolution`].
#[must_use]
pub fn grouped_convolution_scratch_bytes(g: &ConvGeometry) -> usize {
    let own = of_one_plane(g);
    let product = depthwise::padded_bytes(&own).max(depthwise::spaced_bytes(&own));
    2 * words_bytes(plane_words(g)) + Scratch::LOSS + product
}

/// A convolution or a gradient of one, as FP32.
///
/// # Panics
/// When an operand does not have the size of the shape.
pub fn grouped_convolution(
    pass: GroupedPass,
    g: &ConvGeometry,
    a: &[i8],
    b: &[i8],
    sums: &GroupedSums<'_>,
    out: &mut [f32],
    scratch: &mut [u8],
) {
    grouped_convolution_on(active_path(), pass, g, a, b, sums, out, scratch);
}

/// [`grouped_convolution`] on a given path.
///
/// # Panics
/// Likewise, and when the machine lacks the path.
#[allow(clippy::too_many_arguments, reason = "the operands of one product")]
pub fn grouped_convolution_on(
    path: KernelPath,
    pass: GroupedPass,
    g: &ConvGeometry,
    a: &[i8],
    b: &[i8],
    sums: &GroupedSums<'_>,
    out: &mut [f32],
    scratch: &mut [u8],
) {
    g.check();
    let (first, second, result, plane) = match pass {
        GroupedPass::Forward => (g.input_len(), g.weight_len(), g.output_len(), g.out_plane()),
        GroupedPass::InputGradient => (g.output_len(), g.weight_len(), g.input_len(), g.in_plane()),
        GroupedPass::WeightGradient => (g.input_len(), g.output_len(), g.weight_len(), g.taps()),
    };
    assert!(
        a.len() == first && b.len() == second && out.len() == result,
        "elements of a product of groups"
    );
    if result == 0 {
        return;
    }
    let work = DIRECT * g.multiplications();
    let own = Own::new(scratch);
    threads::fill(out, plane, work, &|start, out| {
        let words = plane_words(g);
        own.with(grouped_convolution_scratch_bytes(g), |scratch| {
            let mut scratch = Scratch::new(scratch);
            let part = scratch.sums::<i32>(words);
            let all = scratch.sums::<i32>(words);
            let scratch = scratch.rest();
            on_features!(
                path,
                convolution_planes(
                    pass: GroupedPass,
                    g: &ConvGeometry,
                    a: &[i8],
                    b: &[i8],
                    sums: &GroupedSums<'_>,
                    start: usize,
                    part: &mut [i32],
                    all: &mut [i32],
                    out: &mut [f32],
                    scratch: &mut [u8],
                )
            );
        });
    });
}

/// Planes `start..` of a result, as many as `out` has.
#[allow(clippy::too_many_arguments, reason = "the operands of one product")]
#[inline(always)]
fn convolution_planes(
    pass: GroupedPass,
    g: &ConvGeometry,
    a: &[i8],
    b: &[i8],
    sums: &GroupedSums<'_>,
    start: usize,
    part: &mut [i32],
    all: &mut [i32],
    out: &mut [f32],
    scratch: &mut [u8],
) {
    let own = of_one_plane(g);
    let (inputs, outputs, taps) = (g.group_in_channels(), g.group_out_channels(), g.taps());
    let x = |image: usize, channel: usize| {
        &a[(image * g.in_channels + channel) * g.in_plane()..][..g.in_plane()]
    };
    let w = |feature: usize, channel: usize| &b[(feature * inputs + channel) * taps..][..taps];
    let dy = |operand: &'_ [i8], image: usize, feature: usize| {
        let at = (image * g.out_channels + feature) * g.out_plane();
        at..at + g.out_plane().min(operand.len())
    };
    let plane = match pass {
        GroupedPass::Forward => g.out_plane(),
        GroupedPass::InputGradient => g.in_plane(),
        GroupedPass::WeightGradient => taps,
    };
    let [scale_a, scale_b] = sums.scales;
    for (index, out) in out.chunks_exact_mut(plane).enumerate() {
        let index = start + index;
        let mut total = Total { sums, all: &mut all[..plane], out };
        total.start();
        let part = &mut part[..plane];
        let mut scale = 0.0;
        match pass {
            GroupedPass::Forward => {
                let (image, feature) = (index / g.out_channels, index % g.out_channels);
                for channel in 0..inputs {
                    let source = feature / outputs * inputs + channel;
                    let (x, w) = (x(image, source), w(feature, channel));
                    depthwise::forward(&own, x, w, 0, part, scratch);
                    scale = scale_a.at(image, source) * scale_b.at(feature, channel);
                    total.add(part, scale);
                }
            }
            GroupedPass::InputGradient => {
                let (image, channel) = (index / g.in_channels, index % g.in_channels);
                let channel_of_group = channel % inputs;
                for member in 0..outputs {
                    let feature = channel / inputs * outputs + member;
                    let error = &a[dy(a, image, feature)];
                    let w = w(feature, channel_of_group);
                    depthwise::input_gradient(&own, error, w, 0, part, scratch);
                    scale = scale_a.at(image, feature) * scale_b.at(feature, channel_of_group);
                    total.add(part, scale);
                }
            }
            GroupedPass::WeightGradient => {
                let (feature, channel) = (index / inputs, index % inputs);
                let source = feature / outputs * inputs + channel;
                for image in 0..g.batch {
                    let error = &b[dy(b, image, feature)];
                    depthwise::weight_gradient(&own, x(image, source), error, 0, part, scratch);
                    scale = scale_a.at(image, source) * scale_b.at(image, feature);
                    total.add(part, scale);
                }
            }
        }
        total.finish(scale);
    }
}

/// The results of one plane.
struct Total<'a> {
    sums: &'a GroupedSums<'a>,
    /// Sums of all parts, where they have one scale.
    all: &'a mut [i32],
    out: &'a mut [f32],
}

impl Total<'_> {
    #[inline(always)]
    fn start(&mut self) {
        self.out.fill(0.0);
        if !self.sums.by_part {
            self.all.fill(0);
        }
    }

    #[inline(always)]
    fn add(&mut self, part: &[i32], scale: f32) {
        if self.sums.by_part {
            for (total, &sum) in self.out.iter_mut().zip(part) {
                *total += sum as f32 * scale;
            }
        } else {
            for (all, &sum) in self.all.iter_mut().zip(part) {
                *all = all.wrapping_add(sum);
            }
        }
    }

    /// `scale` is that of any part where parts share it.
    #[inline(always)]
    fn finish(&mut self, scale: f32) {
        if !self.sums.by_part {
            for (total, &sum) in self.out.iter_mut().zip(&*self.all) {
                *total += sum as f32 * scale;
            }
        }
        let [first, second] = self.sums.factors;
        for total in &mut *self.out {
            *total = *total * first * second;
        }
    }
}

/// Bytes of the scratch of [`grouped_matmul`].
#[must_use]
pub fn grouped_matmul_scratch_bytes(g: &MatMulGeometry) -> usize {
    words_bytes(g.n) + Scratch::LOSS
}

/// A product of two matrices, as FP32; a part is one product.
///
/// # Panics
/// When an operand does not have the size of the shape, or the shape is of several products.
pub fn grouped_matmul(
    g: &MatMulGeometry,
    a: &[i8],
    b: &[i8],
    sums: &GroupedSums<'_>,
    out: &mut [f32],
    scratch: &mut [u8],
) {
    grouped_matmul_on(active_path(), g, a, b, sums, out, scratch);
}

/// [`grouped_matmul`] on a given path.
///
/// # Panics
/// Likewise, and when the machine lacks the path.
pub fn grouped_matmul_on(
    path: KernelPath,
    g: &MatMulGeometry,
    a: &[i8],
    b: &[i8],
    sums: &GroupedSums<'_>,
    out: &mut [f32],
    scratch: &mut [u8],
) {
    assert_eq!(g.batch, 1, "one product");
    assert!(
        a.len() == g.a_len() && b.len() == g.b_len() && out.len() == g.c_len(),
        "elements of a product of groups"
    );
    if out.is_empty() {
        return;
    }
    let own = Own::new(scratch);
    threads::fill(out, g.n, DIRECT * g.multiplications(), &|start, out| {
        own.with(grouped_matmul_scratch_bytes(g), |scratch| {
            let all = Scratch::new(scratch).sums::<i32>(g.n);
            on_features!(
                path,
                matrix_rows(
                    g: &MatMulGeometry,
                    a: &[i8],
                    b: &[i8],
                    sums: &GroupedSums<'_>,
                    start: usize,
                    all: &mut [i32],
                    out: &mut [f32],
                )
            );
        });
    });
}

/// Rows `start..` of a result, as many as `out` has.
#[inline(always)]
fn matrix_rows(
    g: &MatMulGeometry,
    a: &[i8],
    b: &[i8],
    sums: &GroupedSums<'_>,
    start: usize,
    all: &mut [i32],
    out: &mut [f32],
) {
    let [scale_a, scale_b] = sums.scales;
    let left = |row: usize, k: usize| if g.transpose_a { (k, row) } else { (row, k) };
    let value_a =
        |row: usize, k: usize| a[if g.transpose_a { k * g.m + row } else { row * g.k + k }];
    let scale_left = |row: usize, k: usize| {
        let (first, second) = left(row, k);
        scale_a.at(first, second)
    };
    let scale_right = |k: usize, column: usize| {
        if g.transpose_b { scale_b.at(column, k) } else { scale_b.at(k, column) }
    };
    // Whether a row of `b` has one scale.
    let even = scale_b.steps[usize::from(!g.transpose_b)] == 0;
    let [first, second] = sums.factors;
    for (index, out) in out.chunks_exact_mut(g.n).enumerate() {
        let row = start + index;
        out.fill(0.0);
        all.fill(0);
        if g.transpose_b {
            for (column, (out, all)) in out.iter_mut().zip(&mut *all).enumerate() {
                let b = &b[column * g.k..][..g.k];
                if sums.by_part {
                    for (k, &b) in b.iter().enumerate() {
                        let sum = i32::from(value_a(row, k)) * i32::from(b);
                        *out += sum as f32 * (scale_left(row, k) * scale_right(k, column));
                    }
                } else if g.transpose_a {
                    for (k, &b) in b.iter().enumerate() {
                        *all = all.wrapping_add(i32::from(value_a(row, k)) * i32::from(b));
                    }
                } else {
                    let terms = a[row * g.k..][..g.k].iter().zip(b);
                    let term = |(&a, &b): (&i8, &i8)| i32::from(a) * i32::from(b);
                    *all = terms.map(term).fold(0, i32::wrapping_add);
                }
            }
        } else {
            for k in 0..g.k {
                let (factor, b) = (i32::from(value_a(row, k)), &b[k * g.n..][..g.n]);
                if !sums.by_part {
                    for (all, &b) in all.iter_mut().zip(b) {
                        *all = all.wrapping_add(factor * i32::from(b));
                    }
                    continue;
                }
                let own = scale_left(row, k);
                if even {
                    let scale = own * scale_right(k, 0);
                    for (out, &b) in out.iter_mut().zip(b) {
                        *out += (factor * i32::from(b)) as f32 * scale;
                    }
                } else {
                    for (column, (out, &b)) in out.iter_mut().zip(b).enumerate() {
                        *out += (factor * i32::from(b)) as f32 * (own * scale_right(k, column));
                    }
                }
            }
        }
        for (column, (out, &sum)) in out.iter_mut().zip(&*all).enumerate() {
            if !sums.by_part {
                *out += sum as f32 * (scale_left(row, 0) * scale_right(0, column));
            }
            *out = *out * first * second;
        }
    }
}
