//! Convolutions whose groups read a single input channel. There is nothing to reuse across
//! channels, so these run along whole planes: each is laid out once with its padding, one plane
//! for each residue of the stride, so that a tap is a shift, and what a tap adds to all outputs one
//! long loop. Each function computes the planes of its result from number `first` on, as many as
//! it is given.

use super::engine::Sum;
use super::geometry::ConvGeometry;
use super::scratch::{Scratch, words_bytes};

/// Operand of a direct kernel.
pub(crate) trait Scalar: Copy + Default + 'static {
    /// Accumulator.
    type Sum: Sum;
    /// As wide as its sums.
    fn wide(self) -> Self::Sum;
    /// `sum + factor * value`.
    fn add(sum: Self::Sum, factor: Self::Sum, value: Self::Sum) -> Self::Sum;
}

impl Scalar for i8 {
    type Sum = i32;
    #[inline(always)]
    fn wide(self) -> i32 {
        i32::from(self)
    }
    #[inline(always)]
    fn add(sum: i32, factor: i32, value: i32) -> i32 {
        sum.wrapping_add(factor.wrapping_mul(value))
    }
}

impl Scalar for f32 {
    type Sum = f32;
    #[inline(always)]
    fn wide(self) -> f32 {
        self
    }
    #[inline(always)]
    fn add(sum: f32, factor: f32, value: f32) -> f32 {
        sum + factor * value
    }
}

/// The outputs `p` in `0..count` whose input `p * stride + offset` lies in `0..length`.
#[inline(always)]
fn reached(offset: isize, stride: usize, count: usize, length: usize) -> core::ops::Range<usize> {
    let low = if offset >= 0 { 0 } else { offset.unsigned_abs().div_ceil(stride) };
    let left = length as isize - offset;
    let high = if left <= 0 { 0 } else { (left as usize).div_ceil(stride) };
    let high = high.min(count);
    low.min(high)..high
}

/// Sums that stay in registers while all taps add to them.
const CHUNK: usize = 64;

/// `sums[j] += factors[t] * source[shifts[t] + j]`, tap after tap.
#[inline(always)]
fn add_taps<T: Scalar>(
    sums: &mut [T::Sum],
    factors: &[T],
    shifts: impl Fn(usize) -> usize,
    source: &[T::Sum],
) {
    let (whole, rest) = sums.as_chunks_mut::<CHUNK>();
    let after = whole.len() * CHUNK;
    for (at, sums) in whole.iter_mut().enumerate() {
        let mut own = *sums;
        for (tap, &factor) in factors.iter().enumerate() {
            let factor = factor.wide();
            let source = &source[shifts(tap) + at * CHUNK..][..CHUNK];
            for (sum, &value) in own.iter_mut().zip(source) {
                *sum = T::add(*sum, factor, value);
            }
        }
        *sums = own;
    }
    for (tap, &factor) in factors.iter().enumerate() {
        let (factor, source) = (factor.wide(), &source[shifts(tap) + after..]);
        for (sum, &value) in rest.iter_mut().zip(source) {
            *sum = T::add(*sum, factor, value);
        }
    }
}

/// A plane of inputs with its padding, rows `pitch` apart, one plane of the same size for each pair
/// of residues of the strides: output `[r, c]` reads with tap `[kh, kw]` what lies at `r * pitch +
/// c + shift(tap)`.
pub(crate) struct Padded {
    pitch: usize,
    rows: usize,
}

impl Padded {
    #[inline(always)]
    pub(crate) fn new(g: &ConvGeometry) -> Self {
        let reach =
            |kernel: usize, dilation: usize, stride: usize| (kernel - 1) * dilation / stride;
        Self {
            pitch: g.out_width + reach(g.kernel_width, g.dilation_width, g.stride_width),
            rows: g.out_height + reach(g.kernel_height, g.dilation_height, g.stride_height),
        }
    }

    /// Elements from one row to the next.
    #[inline(always)]
    pub(crate) const fn pitch(&self) -> usize {
        self.pitch
    }

    /// Elements of all planes.
    #[inline(always)]
    pub(crate) fn elements(&self, g: &ConvGeometry) -> usize {
        g.stride_height * g.stride_width * self.rows * self.pitch
    }

    /// Elements from the first output's to one past the last one's.
    #[inline(always)]
    pub(crate) fn length(&self, g: &ConvGeometry) -> usize {
        (g.out_height - 1) * self.pitch + g.out_width
    }

    #[inline(always)]
    pub(crate) fn shift(&self, g: &ConvGeometry, tap: usize) -> usize {
        let row = tap / g.kernel_width * g.dilation_height;
        let column = tap % g.kernel_width * g.dilation_width;
        let plane = row % g.stride_height * g.stride_width + column % g.stride_width;
        plane * self.rows * self.pitch
            + row / g.stride_height * self.pitch
            + column / g.stride_width
    }

    /// Lays out a plane; `out` has [`Self::elements`].
    #[inline(always)]
    pub(crate) fn fill<T: Copy, W: Copy + Default>(
        &self,
        g: &ConvGeometry,
        x: &[T],
        wide: impl Fn(T) -> W,
        out: &mut [W],
    ) {
        out.fill(W::default());
        let size = self.rows * self.pitch;
        for (index, plane) in
            out.chunks_exact_mut(size).take(g.stride_height * g.stride_width).enumerate()
        {
            let (above, left) = (index / g.stride_width, index % g.stride_width);
            let row_offset = above as isize - g.pad_top as isize;
            let offset = left as isize - g.pad_left as isize;
            let columns = reached(offset, g.stride_width, self.pitch, g.in_width);
            if columns.is_empty() {
                continue;
            }
            let from = ((columns.start * g.stride_width) as isize + offset) as usize;
            for row in reached(row_offset, g.stride_height, self.rows, g.in_height) {
                let at = ((row * g.stride_height) as isize + row_offset) as usize;
                let x = &x[at * g.in_width + from..(at + 1) * g.in_width];
                let out = &mut plane[row * self.pitch..][columns.clone()];
                if g.stride_width == 1 {
                    for (out, &x) in out.iter_mut().zip(x) {
                        *out = wide(x);
                    }
                } else {
                    for (out, &x) in out.iter_mut().zip(x.iter().step_by(g.stride_width)) {
                        *out = wide(x);
                    }
                }
            }
        }
    }
}

/// Words of the two buffers of a product.
struct Planes {
    /// Of what taps read.
    source: usize,
    /// Of sums, or of errors.
    sums: usize,
}

impl Planes {
    #[inline(always)]
    const fn bytes(&self) -> usize {
        words_bytes(self.source) + words_bytes(self.sums) + Scratch::LOSS
    }

    #[inline(always)]
    fn of<S: Sum>(self, scratch: &mut [u8]) -> [&mut [S]; 2] {
        let mut scratch = Scratch::new(scratch);
        [scratch.sums(self.source), scratch.sums(self.sums)]
    }

    /// Of the forward product and of the gradient of the weights.
    #[inline(always)]
    fn padded(g: &ConvGeometry) -> Self {
        let padded = Padded::new(g);
        match g.output_len() {
            0 => Self { source: 0, sums: 0 },
            _ => Self { source: padded.elements(g), sums: padded.length(g) },
        }
    }
}

/// Scratch of [`forward`] and of [`weight_gradient`].
pub(crate) fn padded_bytes(g: &ConvGeometry) -> usize {
    Planes::padded(g).bytes()
}

/// Scratch of [`input_gradient`].
pub(crate) fn spaced_bytes(g: &ConvGeometry) -> usize {
    Spaced::new(g).planes(g).bytes()
}

/// `y = conv(x, w)`, one input channel for each group.
#[inline(always)]
pub(crate) fn forward<T: Scalar>(
    g: &ConvGeometry,
    x: &[T],
    w: &[T],
    first: usize,
    y: &mut [T::Sum],
    scratch: &mut [u8],
) {
    if y.is_empty() {
        return;
    }
    let (multiplier, taps) = (g.group_out_channels(), g.taps());
    let padded = Padded::new(g);
    let [plane, sums] = Planes::padded(g).of(scratch);
    let mut laid_out = None;
    for (index, y) in (first..).zip(y.chunks_exact_mut(g.out_plane())) {
        let (image, channel) = (index / g.out_channels, index % g.out_channels);
        let source = image * g.in_channels + channel / multiplier;
        if laid_out != Some(source) {
            let x = &x[source * g.in_plane()..][..g.in_plane()];
            padded.fill(g, x, T::wide, plane);
            laid_out = Some(source);
        }
        sums.fill(T::Sum::default());
        let w = &w[channel * taps..][..taps];
        add_taps(sums, w, |tap| padded.shift(g, tap), plane);
        for (y, sums) in y.chunks_exact_mut(g.out_width).zip(sums.chunks(padded.pitch)) {
            y.copy_from_slice(&sums[..g.out_width]);
        }
    }
}

/// Planes of errors that stand as far apart as their windows, with what windows reach beyond them.
struct Spaced {
    reach_height: usize,
    reach_width: usize,
    pitch: usize,
    rows: usize,
}

impl Spaced {
    #[inline(always)]
    fn new(g: &ConvGeometry) -> Self {
        let reach_height = (g.kernel_height - 1) * g.dilation_height;
        let reach_width = (g.kernel_width - 1) * g.dilation_width;
        Self {
            reach_height,
            reach_width,
            pitch: g.in_width + g.pad_left + reach_width,
            rows: g.in_height + g.pad_top + reach_height,
        }
    }

    #[inline(always)]
    fn planes(&self, g: &ConvGeometry) -> Planes {
        match g.input_len() {
            0 => Planes { source: 0, sums: 0 },
            _ => Planes {
                source: self.rows * self.pitch,
                sums: (g.in_height - 1) * self.pitch + g.in_width,
            },
        }
    }
}

/// `dx`, one input channel for each group: errors stand as far apart as their windows, with zeros
/// between them.
#[inline(always)]
pub(crate) fn input_gradient<T: Scalar>(
    g: &ConvGeometry,
    dy: &[T],
    w: &[T],
    first: usize,
    dx: &mut [T::Sum],
    scratch: &mut [u8],
) {
    if dx.is_empty() {
        return;
    }
    let (multiplier, taps) = (g.group_out_channels(), g.taps());
    let spaced = Spaced::new(g);
    let Spaced { reach_height, reach_width, pitch, .. } = spaced;
    // Windows that lie in the padding below or to the right have no errors to give.
    let seen = |count: usize, stride: usize, size: usize| count.min(size.div_ceil(stride));
    let seen_rows = seen(g.out_height, g.stride_height, g.in_height + g.pad_top);
    let seen_columns = seen(g.out_width, g.stride_width, g.in_width + g.pad_left);
    let shift = |tap: usize| {
        let row = g.pad_top + reach_height - tap / g.kernel_width * g.dilation_height;
        let column = g.pad_left + reach_width - tap % g.kernel_width * g.dilation_width;
        row * pitch + column
    };
    let [plane, sums] = spaced.planes(g).of::<T::Sum>(scratch);
    plane.fill(T::Sum::default());
    for (index, dx) in (first..).zip(dx.chunks_exact_mut(g.in_plane())) {
        let (image, group) = (index / g.in_channels, index % g.in_channels);
        sums.fill(T::Sum::default());
        for channel in group * multiplier..(group + 1) * multiplier {
            let dy = &dy[(image * g.out_channels + channel) * g.out_plane()..];
            // The same places each time: what is between them stays zero.
            for row in 0..seen_rows {
                let at = (row * g.stride_height + reach_height) * pitch + reach_width;
                let dy = &dy[row * g.out_width..][..seen_columns];
                let places = plane[at..].iter_mut().step_by(g.stride_width);
                for (place, &value) in places.zip(dy) {
                    *place = value.wide();
                }
            }
            add_taps(sums, &w[channel * taps..][..taps], shift, plane);
        }
        for (dx, sums) in dx.chunks_exact_mut(g.in_width).zip(sums.chunks(pitch)) {
            dx.copy_from_slice(&sums[..g.in_width]);
        }
    }
}

/// `dw`, one input channel for each group, of sums whose terms may come in any order.
#[inline(always)]
pub(crate) fn weight_gradient<T: Scalar>(
    g: &ConvGeometry,
    x: &[T],
    dy: &[T],
    first: usize,
    dw: &mut [T::Sum],
    scratch: &mut [u8],
) {
    let multiplier = g.group_out_channels();
    dw.fill(T::Sum::default());
    if dw.is_empty() || g.out_plane() == 0 {
        return;
    }
    let padded = Padded::new(g);
    let [plane, errors] = Planes::padded(g).of::<T::Sum>(scratch);
    errors.fill(T::Sum::default());
    for (channel, dw) in (first..).zip(dw.chunks_exact_mut(g.taps())) {
        for image in 0..g.batch {
            let source = image * g.in_channels + channel / multiplier;
            let x = &x[source * g.in_plane()..][..g.in_plane()];
            padded.fill(g, x, T::wide, plane);
            let dy = &dy[(image * g.out_channels + channel) * g.out_plane()..];
            // The same places each time: what is between rows stays zero.
            for (errors, dy) in errors.chunks_mut(padded.pitch).zip(dy.chunks(g.out_width)) {
                for (error, &dy) in errors.iter_mut().zip(dy) {
                    *error = dy.wide();
                }
            }
            for (tap, sum) in dw.iter_mut().enumerate() {
                let source = &plane[padded.shift(g, tap)..][..errors.len()];
                let terms = errors.iter().zip(source);
                *sum = terms.fold(*sum, |sum, (&error, &x)| T::add(sum, error, x));
            }
        }
    }
}
