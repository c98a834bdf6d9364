//! Convolutions of plain bytes, channels last, whose positions outside the input hold a number: windows are laid out in rows, a block at a
//! time, and multiplied as matrices. Where each channel has a filter of its own, a position's channels are lanes.

use super::engine::{Engine, Largest};
use super::geometry::{ChannelsLast, MatMulGeometry};
use super::matmul;
use super::own::Own;
use super::parts::Parts;
use super::scratch::{Scratch, items_bytes, words_bytes};
use super::threads;

/// Windows that are laid out at a time.
const BLOCK: usize = 192;

/// What turns an unsigned byte into the signed one that is 128 less.
const FLIP: u8 = 0x80;

impl ChannelsLast {
    /// Windows.
    const fn windows(&self) -> usize {
        self.batch * self.rows * self.columns
    }

    /// Terms of a sum.
    const fn depth(&self) -> usize {
        self.kernel_height * self.kernel_width * self.channels
    }

    /// Whether windows lie in the input as rows do.
    const fn is_matrix(&self) -> bool {
        self.kernel_height == 1
            && self.kernel_width == 1
            && self.stride_height == 1
            && self.stride_width == 1
            && self.pad_top == 0
            && self.pad_left == 0
            && self.rows == self.height
            && self.columns == self.width
            && !self.unsigned
    }

    const fn matrices(&self, windows: usize) -> MatMulGeometry {
        MatMulGeometry::single(windows, self.features, self.depth(), false, true)
    }

    /// Lays out the windows from number `first` on, as many as `out` has.
    fn lay_out(&self, x: &[i8], first: usize, out: &mut [i8]) {
        let padding = self.padding as i8;
        let depth = self.depth();
        let line = self.kernel_width * self.channels;
        for (window, out) in (first..).zip(out.chunks_exact_mut(depth)) {
            let (row, column) = (window / self.columns, window % self.columns);
            let (image, row) = (row / self.rows, row % self.rows);
            let left = (column * self.stride_width) as isize - self.pad_left as isize;
            for (kh, out) in out.chunks_exact_mut(line).enumerate() {
                let at = (row * self.stride_height + kh * self.dilation_height) as isize
                    - self.pad_top as isize;
                let inside = usize::try_from(at).ok().filter(|&at| at < self.height);
                let Some(at) = inside else {
                    out.fill(padding);
                    continue;
                };
                let x = &x[(image * self.height + at) * self.width * self.channels..]
                    [..self.width * self.channels];
                let whole = left >= 0 && left as usize + self.kernel_width <= self.width;
                if self.dilation_width == 1 && whole {
                    out.copy_from_slice(&x[left as usize * self.channels..][..line]);
                    continue;
                }
                for (kw, out) in out.chunks_exact_mut(self.channels).enumerate() {
                    let at = left + (kw * self.dilation_width) as isize;
                    match usize::try_from(at).ok().filter(|&at| at < self.width) {
                        Some(at) => out.copy_from_slice(&x[at * self.channels..][..self.channels]),
                        None => out.fill(padding),
                    }
                }
            }
        }
        if self.unsigned {
            out.iter_mut().for_each(|byte| *byte = (*byte as u8 ^ FLIP) as i8);
        }
    }
}

/// Scratch of [`convolution`] under `E`.
pub(crate) fn bytes<E: Engine>(g: &ChannelsLast) -> usize {
    let windows = if g.is_matrix() { 0 } else { BLOCK.min(g.windows()) };
    let corrections = if g.unsigned { g.features } else { 0 };
    2 * Scratch::LOSS
        + items_bytes::<i8>(windows * g.depth())
        + words_bytes(corrections)
        + matmul::bytes::<E>(&g.matrices(BLOCK.min(g.windows())))
}

/// Whether `E` suits the convolution.
pub(crate) fn suits<E: Engine>(g: &ChannelsLast) -> bool {
    matmul::suits::<E>(&g.matrices(BLOCK.min(g.windows())))
}

/// `y = conv(x, w)`; `x` `[batch, height, width, channels]` of signed bytes, or of unsigned ones as their bits, `w` `[features, kernel
/// height, kernel width, channels]`, `y` `[batch, rows, columns, features]`.
pub(crate) fn convolution<E: Engine<Element = i8, Sum = i32>>(
    g: &ChannelsLast,
    x: &[i8],
    w: &[i8],
    y: &mut [i32],
    scratch: &mut [u8],
) {
    let (windows, depth) = (g.windows(), g.depth());
    let blocks = windows.div_ceil(BLOCK);
    let count = threads::parts(windows * depth * g.features, blocks);
    let piece = |index| {
        let blocks = threads::piece(blocks, 1, count, index);
        (blocks.start * BLOCK).min(windows)..(blocks.end * BLOCK).min(windows)
    };
    let parts = Parts::new(y, |index| piece(index).start * g.features);
    let own = Own::new(scratch);
    threads::run(count, &|index| {
        let y = parts.take(index);
        own.with(bytes::<E>(g), |scratch| {
            let mut scratch = Scratch::new(scratch);
            let rows = scratch.items::<i8>(match g.is_matrix() {
                true => 0,
                false => BLOCK.min(windows) * depth,
            });
            // 128 times the sum of a feature's weights, which its sums of flipped bytes lack.
            let corrections = scratch.sums::<i32>(if g.unsigned { g.features } else { 0 });
            for (correction, w) in corrections.iter_mut().zip(w.chunks_exact(depth)) {
                let sum = w.iter().fold(0i32, |sum, &w| sum.wrapping_add(w.into()));
                *correction = sum.wrapping_mul(i32::from(FLIP));
            }
            let rest = scratch.rest();
            let mut first = piece(index).start;
            for y in y.chunks_mut(BLOCK * g.features) {
                let count = y.len() / g.features;
                let a = if g.is_matrix() {
                    &x[first * depth..][..count * depth]
                } else {
                    g.lay_out(x, first, &mut rows[..count * depth]);
                    &rows[..count * depth]
                };
                let (matrices, largest) = (g.matrices(count), &mut Largest::default());
                let scratch = &mut Scratch::new(rest);
                matmul::product::<E>(&matrices, 0..count, a, w, y, scratch, largest);
                if g.unsigned {
                    for y in y.chunks_exact_mut(g.features) {
                        for (y, &correction) in y.iter_mut().zip(&*corrections) {
                            *y = y.wrapping_add(correction);
                        }
                    }
                }
                first += count;
            }
        });
    });
}

/// Channels whose sums stay in registers while all taps add to them.
const CHUNK: usize = 64;

/// Scratch of [`depthwise`].
pub(crate) fn depthwise_bytes(g: &ChannelsLast) -> usize {
    Scratch::LOSS + items_bytes::<i8>(g.kernel_height * g.kernel_width * g.channels)
}

/// Puts the weights `[channels, kernel height, kernel width]` into the order that [`depthwise`] takes, taps first.
pub(crate) fn arrange<'s>(g: &ChannelsLast, w: &[i8], scratch: &'s mut [u8]) -> &'s [i8] {
    let taps = g.kernel_height * g.kernel_width;
    let arranged = Scratch::new(scratch).items::<i8>(taps * g.channels);
    for (channel, w) in w.chunks_exact(taps).enumerate() {
        for (tap, &w) in w.iter().enumerate() {
            arranged[tap * g.channels + channel] = w;
        }
    }
    arranged
}

/// Rows of the output from number `first` on, of all images, of a convolution that has a filter for each channel: `w` `[kernel height,
/// kernel width, channels]`, otherwise as [`convolution`].
#[inline(always)]
pub(crate) fn depthwise(g: &ChannelsLast, x: &[i8], w: &[i8], first: usize, y: &mut [i32]) {
    let channels = g.channels;
    let wide = |byte: i8| if g.unsigned { i32::from(byte as u8) } else { i32::from(byte) };
    let padding = wide(g.padding as i8);
    for (row, y) in (first..).zip(y.chunks_exact_mut(g.columns * channels)) {
        let (image, row) = (row / g.rows, row % g.rows);
        for (column, y) in y.chunks_exact_mut(channels).enumerate() {
            for start in (0..channels).step_by(CHUNK) {
                let count = CHUNK.min(channels - start);
                let mut sums = [0i32; CHUNK];
                for kh in 0..g.kernel_height {
                    let at = (row * g.stride_height + kh * g.dilation_height)
                        .checked_sub(g.pad_top)
                        .filter(|&at| at < g.height);
                    for kw in 0..g.kernel_width {
                        let w = &w[(kh * g.kernel_width + kw) * channels + start..][..count];
                        let across = (column * g.stride_width + kw * g.dilation_width)
                            .checked_sub(g.pad_left)
                            .filter(|&at| at < g.width);
                        let (Some(at), Some(across)) = (at, across) else {
                            if padding != 0 {
                                for (sum, &w) in sums.iter_mut().zip(w) {
                                    *sum = sum.wrapping_add(padding * i32::from(w));
                                }
                            }
                            continue;
                        };
                        let pixel = (image * g.height + at) * g.width + across;
                        let x = &x[pixel * channels + start..][..count];
                        for ((sum, &x), &w) in sums.iter_mut().zip(x).zip(w) {
                            *sum = sum.wrapping_add(wide(x) * i32::from(w));
                        }
                    }
                }
                y[start..][..count].copy_from_slice(&sums[..count]);
            }
        }
    }
}
