//! Loops of normalizations by integers for vectors: image by image where these are longer than planes, and by halves of words.

use crate::loops::LoopKernel;
use crate::ops::Op;
use crate::ops::support::channel_lines::LaneWidths;
use crate::ops::support::channels::{ChannelWalk, Channels};
use crate::types::TensorType;

/// Most elements of a channel whose sums fit 31 bits.
const MOST: usize = 1 << 16;

/// The loops of batch normalization by integers, image by image through all channels, with coefficients beside each element of an
/// image in working memory: the bits of [`Op::lower`]. Sums go image by image where there are several images alone, for one image
/// gains nothing. `None` of other operations, where planes have at least `vector` elements, or where an image does not fill a vector.
#[must_use]
pub fn lower_by_images(
    op: &Op,
    inputs: &[&TensorType],
    outputs: &[&TensorType],
    vector: usize,
) -> Option<LoopKernel> {
    let fits = |least: usize| go_by_images(op, inputs, vector, least);
    let walk = ChannelWalk::Images;
    match op {
        Op::IntegerBatchStatistics(op) if fits(2) => Some(op.lower_along(inputs, outputs, walk)),
        Op::IntegerBatchNormSums(op) if fits(2) => Some(op.lower_along(inputs, outputs, walk)),
        Op::IntegerBatchNorm(op) if fits(1) => Some(op.lower_along(inputs, outputs, None, walk)),
        Op::IntegerBatchNormError(op) if fits(1) => {
            Some(op.lower_along(inputs, outputs, None, walk))
        }
        Op::Chain(chain) if fits(1) => chain.lower_along(inputs, outputs, walk, LaneWidths::Words),
        _ => None,
    }
}

/// As [`lower_by_images`], for vectors whose lanes halve for one instruction a pair: sums of normalizations, and sums that random
/// bits round, are brought to 8 bits by halves of words.
#[must_use]
pub fn lower_in_halves(
    op: &Op,
    inputs: &[&TensorType],
    outputs: &[&TensorType],
    vector: usize,
) -> Option<LoopKernel> {
    let walk = match go_by_images(op, inputs, vector, 1) {
        true => ChannelWalk::Images,
        false => ChannelWalk::Channels,
    };
    match op {
        Op::RequantizeStochastic(op) => op.lower_in_halves(inputs, outputs),
        Op::Chain(chain) => chain.lower_along(inputs, outputs, walk, LaneWidths::Halves),
        _ => lower_by_images(op, inputs, outputs, vector),
    }
}

/// The loops of a normalization by integers whose sums are rounded, up to the rounding, channel by channel: for machines with a
/// function of their own for what remains. The result is not written. Working memory has, by name, the `sums` or, where one code
/// makes a sum and sums are rounded to nearest, the coefficients of channels: `codes0` and `added` (I32); and in `rounding` (I32) the
/// right shift and the key of the uniform bits ([`crate::numeric::dither`]). `None` of other operations.
#[must_use]
pub fn lower_unrounded(
    op: &Op,
    inputs: &[&TensorType],
    outputs: &[&TensorType],
) -> Option<LoopKernel> {
    let Op::Chain(chain) = op else { return None };
    chain.lower_along(inputs, outputs, ChannelWalk::Channels, LaneWidths::Own)
}

/// Whether planes are shorter than a vector, an image is not, and there are so many images.
fn go_by_images(op: &Op, inputs: &[&TensorType], vector: usize, least: usize) -> bool {
    let sizes = || Channels::of(op.kind().name(), inputs.first()?).ok();
    sizes().is_some_and(|sizes| {
        let short = sizes.space < vector && sizes.image() >= vector;
        short && sizes.count() <= MOST && sizes.batch >= least
    })
}
