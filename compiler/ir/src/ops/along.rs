//! Loops of normalizations by integers image by image, for targets whose vectors are longer than planes.

use crate::loops::LoopKernel;
use crate::ops::Op;
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
    let sizes = || Channels::of(op.kind().name(), inputs.first()?).ok();
    let fits = |least: usize| {
        sizes().is_some_and(|sizes| {
            let short = sizes.space < vector && sizes.image() >= vector;
            short && sizes.count() <= MOST && sizes.batch >= least
        })
    };
    let walk = ChannelWalk::Images;
    match op {
        Op::IntegerBatchStatistics(op) if fits(2) => Some(op.lower_along(inputs, outputs, walk)),
        Op::IntegerBatchNormSums(op) if fits(2) => Some(op.lower_along(inputs, outputs, walk)),
        Op::IntegerBatchNorm(op) if fits(1) => Some(op.lower_along(inputs, outputs, None, walk)),
        Op::IntegerBatchNormError(op) if fits(1) => {
            Some(op.lower_along(inputs, outputs, None, walk))
        }
        Op::Chain(chain) if fits(1) => chain.lower_along(inputs, outputs, walk),
        _ => None,
    }
}
