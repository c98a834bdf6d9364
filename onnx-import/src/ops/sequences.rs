//! Sequences of tensors, as exporters write the parts of a split: each is taken out by a position known while importing.

use crate::call::axis;
use crate::call::{Bound, Call};
use crate::error::{NodeResult, invalid, unsupported};
use crate::limits;
use crate::ops::movement::{one, parts};

/// SplitToSequence.
pub(crate) fn split(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let dims = call.dims(0)?;
    let at = axis(call.int("axis", 0)?, dims.len())?;
    let keep = call.flag("keepdims", true)?;
    let size = |s: i64| usize::try_from(s).map_err(|_| invalid!("a part of size {s}"));
    let sizes: Vec<usize> = if call.given(1) {
        let known = call.must_know(1, "split")?;
        match (known.ints(), known.dims.len()) {
            (Some([chunk]), 0) => {
                let chunk = size(*chunk)?;
                if chunk == 0 {
                    return Err(invalid!("parts of size 0"));
                }
                let starts = (0..dims[at]).step_by(chunk).take(limits::MAX_NODES + 1);
                starts.map(|i| chunk.min(dims[at] - i)).collect()
            }
            (Some(sizes), 1) => sizes.iter().map(|&s| size(s)).collect::<NodeResult<_>>()?,
            _ => return Err(invalid!("`split` is neither an integer nor a list of them")),
        }
    } else if keep {
        vec![1; dims[at].min(limits::MAX_NODES + 1)]
    } else {
        return Err(unsupported("attribute `keepdims`", "is 0", "1"));
    };
    if sizes.len() > limits::MAX_NODES {
        return Err(invalid!("{} parts", sizes.len()));
    }
    let x = call.bound(0)?;
    one(Bound::Sequence(parts(call, &x, at, &sizes)?))
}

/// SequenceAt.
pub(crate) fn at(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let Bound::Sequence(parts) = call.bound(0)? else {
        return Err(invalid!("the first operand is no sequence"));
    };
    let position = call.must_know_ints(1, "a position")?;
    let [position] = position[..] else { return Err(invalid!("{} positions", position.len())) };
    one(parts[axis(position, parts.len())?].clone())
}
