//! The gradient of the weights of convolutions whose groups read a single input channel, where the order of a sum's terms matters: each
//! sum is one chain of additions, so that the sums of several channels, which lie side by side, are what a vector adds to.

use super::depthwise::{Padded, Scalar};
use super::geometry::ConvGeometry;
use super::pack::transpose;
use super::scratch::{Scratch, words_bytes, words_of, words_of_mut};

/// Channels side by side.
pub(crate) const CHANNELS: usize = 16;

/// Scratch of [`weight_gradient`].
pub(crate) fn bytes(g: &ConvGeometry) -> usize {
    let (elements, length) = match g.output_len() {
        0 => (0, 0),
        _ => (Padded::new(g).elements(g), Padded::new(g).length(g)),
    };
    Scratch::LOSS
        + 2 * words_bytes(elements * CHANNELS)
        + 2 * words_bytes(length * CHANNELS)
        + words_bytes(g.taps() * CHANNELS)
}

/// `dw` of the channels from number `first` on, one input channel for each group.
#[inline(always)]
pub(crate) fn weight_gradient<T: Scalar>(
    g: &ConvGeometry,
    x: &[T],
    dy: &[T],
    first: usize,
    dw: &mut [T::Sum],
    scratch: &mut [u8],
) {
    let (multiplier, taps) = (g.group_out_channels(), g.taps());
    if dw.is_empty() || g.out_plane() == 0 {
        dw.fill(T::Sum::default());
        return;
    }
    let padded = Padded::new(g);
    let (elements, length) = (padded.elements(g), padded.length(g));
    let mut scratch = Scratch::new(scratch);
    let planes = scratch.sums::<T::Sum>(CHANNELS * elements);
    let inputs = scratch.sums::<T::Sum>(elements * CHANNELS);
    let error_planes = scratch.sums::<T::Sum>(CHANNELS * length);
    let errors = scratch.sums::<T::Sum>(length * CHANNELS);
    let totals = scratch.sums::<T::Sum>(taps * CHANNELS);
    for (group, dw) in dw.chunks_mut(CHANNELS * taps).enumerate() {
        let first = first + group * CHANNELS;
        totals.fill(T::Sum::default());
        // What lies between rows, and beside the last channel, stays zero.
        planes.fill(T::Sum::default());
        error_planes.fill(T::Sum::default());
        for image in 0..g.batch {
            for (beside, plane) in
                planes.chunks_exact_mut(elements).take(dw.len() / taps).enumerate()
            {
                let source = image * g.in_channels + (first + beside) / multiplier;
                padded.fill(g, &x[source * g.in_plane()..][..g.in_plane()], T::wide, plane);
                let dy = &dy[(image * g.out_channels + first + beside) * g.out_plane()..];
                let errors = &mut error_planes[beside * length..][..length];
                for (errors, dy) in errors.chunks_mut(padded.pitch()).zip(dy.chunks(g.out_width)) {
                    for (error, &dy) in errors.iter_mut().zip(dy) {
                        *error = dy.wide();
                    }
                }
            }
            let to = words_of_mut(inputs);
            transpose(words_of(planes), elements, CHANNELS, elements, to, CHANNELS);
            let to = words_of_mut(errors);
            transpose(words_of(error_planes), length, CHANNELS, length, to, CHANNELS);
            let mut tap = 0;
            while tap < taps {
                let shift = |n: usize| padded.shift(g, tap + n);
                let totals = &mut totals[tap * CHANNELS..];
                tap += match taps - tap {
                    9.. => add::<9, T>(totals, errors, inputs, shift),
                    5.. => add::<5, T>(totals, errors, inputs, shift),
                    3.. => add::<3, T>(totals, errors, inputs, shift),
                    _ => add::<1, T>(totals, errors, inputs, shift),
                };
            }
        }
        for (beside, dw) in dw.chunks_exact_mut(taps).enumerate() {
            for (tap, dw) in dw.iter_mut().enumerate() {
                *dw = totals[tap * CHANNELS + beside];
            }
        }
    }
}

/// Adds to the totals of `N` taps, place after place; gives `N`.
#[inline(always)]
fn add<const N: usize, T: Scalar>(
    totals: &mut [T::Sum],
    errors: &[T::Sum],
    inputs: &[T::Sum],
    shift: impl Fn(usize) -> usize,
) -> usize {
    let totals = &mut totals.as_chunks_mut::<CHANNELS>().0[..N];
    let errors = errors.as_chunks::<CHANNELS>().0;
    let inputs = inputs.as_chunks::<CHANNELS>().0;
    let mut sums = [[T::Sum::default(); CHANNELS]; N];
    sums.copy_from_slice(totals);
    let inputs: [_; N] = core::array::from_fn(|n| &inputs[shift(n)..][..errors.len()]);
    for (at, error) in errors.iter().enumerate() {
        for (sums, inputs) in sums.iter_mut().zip(&inputs) {
            for ((sum, &error), &input) in sums.iter_mut().zip(error).zip(&inputs[at]) {
                *sum = T::add(*sum, error, input);
            }
        }
    }
    totals.copy_from_slice(&sums);
    N
}
