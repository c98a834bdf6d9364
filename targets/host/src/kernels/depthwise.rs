//! Convolutions whose groups read a single input channel. There is nothing to reuse across
//! channels, so these run along the rows of the planes themselves. Each function computes the
//! planes of its result from number `first` on, as many as it is given.

use super::geometry::ConvGeometry;

/// Operand of a direct kernel.
pub(crate) trait Scalar: Copy + Default + 'static {
    /// Accumulator.
    type Sum: super::engine::Sum;
    /// Whether the order of the terms of a sum matters.
    const ORDERED: bool;
    /// The product of two operands.
    fn times(self, other: Self) -> Self::Sum;
}

impl Scalar for i8 {
    type Sum = i32;
    const ORDERED: bool = false;
    #[inline(always)]
    fn times(self, other: Self) -> i32 {
        i32::from(self) * i32::from(other)
    }
}

impl Scalar for f32 {
    type Sum = f32;
    const ORDERED: bool = true;
    #[inline(always)]
    fn times(self, other: Self) -> f32 {
        self * other
    }
}

/// The outputs `p` in `0..count` whose input `p * stride + offset` lies in `0..length`.
#[inline(always)]
fn reached(offset: isize, stride: usize, count: usize, length: usize) -> std::ops::Range<usize> {
    let low = if offset >= 0 { 0 } else { offset.unsigned_abs().div_ceil(stride) };
    let left = length as isize - offset;
    let high = if left <= 0 { 0 } else { (left as usize).div_ceil(stride) };
    let high = high.min(count);
    low.min(high)..high
}

/// `target[i * target_step] += factor * source[i * source_step]` for `i < count`.
#[inline(always)]
fn accumulate<T: Scalar>(
    target: &mut [T::Sum],
    target_step: usize,
    factor: T,
    source: &[T],
    source_step: usize,
    count: usize,
) {
    use super::engine::Sum;
    if count == 0 {
        return;
    }
    if target_step == 1 && source_step == 1 {
        for (sum, &value) in target[..count].iter_mut().zip(&source[..count]) {
            *sum = sum.plus(factor.times(value));
        }
    } else {
        for i in 0..count {
            let sum = &mut target[i * target_step];
            *sum = sum.plus(factor.times(source[i * source_step]));
        }
    }
}

/// `y = conv(x, w)`, one input channel for each group.
#[inline(always)]
pub(crate) fn forward<T: Scalar>(
    g: &ConvGeometry,
    x: &[T],
    w: &[T],
    first: usize,
    y: &mut [T::Sum],
) {
    let multiplier = g.group_out_channels();
    let taps = g.taps();
    for (index, y) in (first..).zip(y.chunks_exact_mut(g.out_plane().max(1))) {
        let (image, channel) = (index / g.out_channels, index % g.out_channels);
        let w = &w[channel * taps..][..taps];
        let x = &x[(image * g.in_channels + channel / multiplier) * g.in_plane()..][..g.in_plane()];
        for (row, y) in y.chunks_exact_mut(g.out_width).enumerate() {
            y.fill(T::Sum::default());
            for tap_row in 0..g.kernel_height {
                let at =
                    (row * g.stride_height + tap_row * g.dilation_height).wrapping_sub(g.pad_top);
                if at >= g.in_height {
                    continue;
                }
                let x = &x[at * g.in_width..][..g.in_width];
                for tap_column in 0..g.kernel_width {
                    let offset = (tap_column * g.dilation_width) as isize - g.pad_left as isize;
                    let range = reached(offset, g.stride_width, g.out_width, g.in_width);
                    if range.is_empty() {
                        continue;
                    }
                    let from = ((range.start * g.stride_width) as isize + offset) as usize;
                    let factor = w[tap_row * g.kernel_width + tap_column];
                    let (start, count) = (range.start, range.len());
                    accumulate(&mut y[start..], 1, factor, &x[from..], g.stride_width, count);
                }
            }
        }
    }
}

/// `dx`, one input channel for each group.
#[inline(always)]
pub(crate) fn input_gradient<T: Scalar>(
    g: &ConvGeometry,
    dy: &[T],
    w: &[T],
    first: usize,
    dx: &mut [T::Sum],
) {
    let multiplier = g.group_out_channels();
    let taps = g.taps();
    for (index, dx) in (first..).zip(dx.chunks_exact_mut(g.in_plane().max(1))) {
        let (image, group) = (index / g.in_channels, index % g.in_channels);
        dx.fill(T::Sum::default());
        for channel in group * multiplier..(group + 1) * multiplier {
            let w = &w[channel * taps..][..taps];
            let dy = &dy[(image * g.out_channels + channel) * g.out_plane()..][..g.out_plane()];
            for tap_row in 0..g.kernel_height {
                for tap_column in 0..g.kernel_width {
                    let row_offset = (tap_row * g.dilation_height) as isize - g.pad_top as isize;
                    let offset = (tap_column * g.dilation_width) as isize - g.pad_left as isize;
                    let rows = reached(row_offset, g.stride_height, g.out_height, g.in_height);
                    let columns = reached(offset, g.stride_width, g.out_width, g.in_width);
                    if columns.is_empty() {
                        continue;
                    }
                    let factor = w[tap_row * g.kernel_width + tap_column];
                    let to = ((columns.start * g.stride_width) as isize + offset) as usize;
                    for row in rows {
                        let at = ((row * g.stride_height) as isize + row_offset) as usize;
                        let dx = &mut dx[at * g.in_width + to..];
                        let dy = &dy[row * g.out_width + columns.start..];
                        accumulate(dx, g.stride_width, factor, dy, 1, columns.len());
                    }
                }
            }
        }
    }
}

/// `dw`, one input channel for each group.
#[inline(always)]
pub(crate) fn weight_gradient<T: Scalar>(
    g: &ConvGeometry,
    x: &[T],
    dy: &[T],
    first: usize,
    dw: &mut [T::Sum],
) {
    use super::engine::Sum;
    let multiplier = g.group_out_channels();
    for (channel, dw) in (first..).zip(dw.chunks_exact_mut(g.taps().max(1))) {
        dw.fill(T::Sum::default());
        for image in 0..g.batch {
            let x = &x[(image * g.in_channels + channel / multiplier) * g.in_plane()..];
            let dy = &dy[(image * g.out_channels + channel) * g.out_plane()..];
            for row in 0..g.out_height {
                let dy = &dy[row * g.out_width..][..g.out_width];
                for tap_row in 0..g.kernel_height {
                    let at = (row * g.stride_height + tap_row * g.dilation_height)
                        .wrapping_sub(g.pad_top);
                    if at >= g.in_height {
                        continue;
                    }
                    let x = &x[at * g.in_width..][..g.in_width];
                    let dw = &mut dw[tap_row * g.kernel_width..][..g.kernel_width];
                    for (tap_column, sum) in dw.iter_mut().enumerate() {
                        let offset = (tap_column * g.dilation_width) as isize - g.pad_left as isize;
                        let range = reached(offset, g.stride_width, g.out_width, g.in_width);
                        if range.is_empty() {
                            continue;
                        }
                        let from = ((range.start * g.stride_width) as isize + offset) as usize;
                        let (dy, x) = (&dy[range], &x[from..]);
                        if T::ORDERED || g.stride_width > 1 {
                            for (i, &value) in dy.iter().enumerate() {
                                *sum = sum.plus(value.times(x[i * g.stride_width]));
                            }
                        } else {
                            let mut total = T::Sum::default();
                            for (&value, &x) in dy.iter().zip(x) {
                                total = total.plus(value.times(x));
                            }
                            *sum = sum.plus(total);
                        }
                    }
                }
            }
        }
    }
}
