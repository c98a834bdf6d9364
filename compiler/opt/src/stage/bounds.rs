//! What integers a value can hold, from the operations that give it: per channel for sums of products with known
//! weights.

use trainc_ir::Op;
use trainc_ir::types::{Scale, TensorType};

use super::source::Source;

/// Smallest and largest integer of each channel; one entry if all channels have the same.
pub(crate) type Bounds = Vec<(i64, i64)>;

/// Steps back that are looked through.
const DEPTH: usize = 12;

/// The integers that a value can hold along `axis`. `None` for floats.
pub(crate) fn bounds<S: Source>(source: &S, id: S::Id, axis: usize) -> Option<Bounds> {
    let ty = source.ty(id)?;
    if ty.scale != Scale::None {
        return None;
    }
    let own = ty.element.integer_range()?;
    let found = within(source, id, axis, DEPTH).unwrap_or_else(|| vec![own]);
    // Sums that can wrap can be anything.
    let fits = |&(low, high): &(i64, i64)| own.0 <= low && high <= own.1;
    Some(if found.iter().all(fits) { found } else { vec![own] })
}

/// The integers that any channel can hold.
pub(crate) fn hull(bounds: &[(i64, i64)]) -> (i64, i64) {
    let low = bounds.iter().map(|b| b.0).min().unwrap_or(0);
    let high = bounds.iter().map(|b| b.1).max().unwrap_or(0);
    (low, high)
}

fn any<S: Source>(source: &S, id: S::Id, depth: usize) -> Option<(i64, i64)> {
    let own = source.ty(id)?.element.integer_range()?;
    if let Some(tensor) = source.constant(id) {
        let values = tensor.to_i64();
        return Some((*values.iter().min()?, *values.iter().max()?));
    }
    // Every axis gives a cover; no axis asks for one of all channels.
    let found = within(source, id, usize::MAX, depth)?;
    let (low, high) = hull(&found);
    Some(if own.0 <= low && high <= own.1 { (low, high) } else { own })
}

fn within<S: Source>(source: &S, id: S::Id, axis: usize, depth: usize) -> Option<Bounds> {
    let depth = depth.checked_sub(1)?;
    let of = |id: S::Id| -> Option<(i64, i64)> {
        let own = source.ty(id)?.element.integer_range()?;
        Some(any(source, id, depth).unwrap_or(own))
    };
    source.producers(id).into_iter().find_map(|(op, operands)| match &op {
        Op::Transpose(transpose) => {
            let axis = transpose.permutation.get(axis).copied().unwrap_or(usize::MAX);
            within(source, operands[0], axis, depth)
        }
        Op::Reshape(_) => {
            let (before, after) = (&source.ty(operands[0])?.shape, &source.ty(id)?.shape);
            let last = axis == after.rank().wrapping_sub(1) && before.last() == after.last();
            let found = within(source, operands[0], before.rank().wrapping_sub(1), depth)?;
            Some(if last { found } else { vec![hull(&found)] })
        }
        Op::Slice(_) | Op::Broadcast(_) => Some(vec![of(operands[0])?]),
        Op::IntegerMaxPool2d(_) => Some(vec![of(operands[0])?]),
        Op::ScaleShift(stage) => Some(vec![(stage.low.into(), stage.high.into())]),
        Op::Threshold(stage) => {
            let levels = source.ty(operands[1])?.shape.get(1).copied()?;
            let low = i64::from(stage.low);
            Some(vec![(low, low + i64::try_from(levels).ok()?)])
        }
        Op::IntegerConv2d(conv) => {
            let (low, high) = of(operands[0])?;
            let padding = i64::from(conv.padding);
            let w = source.constant(operands[1])?;
            let found =
                sums_of_products(&w.to_i64(), w.ty(), (low.min(padding), high.max(padding)));
            Some(if axis == 3 { found } else { vec![hull(&found)] })
        }
        Op::BinaryConv2d(conv) => {
            // A tap gives from this to that many; bits that fill up may differ.
            let w = source.ty(operands[1])?;
            let taps = (w.count() / w.shape[0].max(1) / w.shape[3].max(1)) as i64;
            let (channels, stored) = (conv.channels as i64, w.shape[3] as i64);
            Some(vec![(taps * (channels - 2 * stored).min(0), taps * channels)])
        }
        Op::IntegerSumPool2d(pool) => {
            let (low, high) = of(operands[0])?;
            let padding = i64::from(pool.padding);
            let taps = (pool.kernel[0] * pool.kernel[1]) as i64;
            Some(vec![(low.min(padding) * taps, high.max(padding) * taps)])
        }
        Op::IntegerAdd(add) => {
            let mut sum = (0, 0);
            let same = add.factors[1] == 0;
            let terms = if same { &operands[..1] } else { &operands[..] };
            for (&operand, factor) in terms.iter().zip(add.factors) {
                let ((low, high), factor) = (of(operand)?, i64::from(factor));
                let ends = [low * factor, high * factor];
                sum = (sum.0 + ends[0].min(ends[1]), sum.1 + ends[0].max(ends[1]));
            }
            Some(vec![sum])
        }
        _ => None,
    })
}

/// The sums that `[Cout,...]` weights give with operands in a range.
fn sums_of_products(w: &[i64], ty: &TensorType, (low, high): (i64, i64)) -> Bounds {
    let channels = ty.shape.first().copied().unwrap_or(1).max(1);
    let taps = (w.len() / channels).max(1);
    w.chunks(taps)
        .map(|w| {
            let least = w.iter().map(|&w| (w * low).min(w * high)).sum();
            let most = w.iter().map(|&w| (w * low).max(w * high)).sum();
            (least, most)
        })
        .collect()
}
