//! Bounds on what a file may claim, so that a hostile one costs little memory and time.
//!
//! Everything allocated is in proportion to bytes that are really there: element counts are compared with the
//! data before anything is allocated, folded constants are capped, and the number of messages is counted on the
//! wire before the structs (some of which take a hundred times the bytes of an empty message) are built.

/// Largest model file: the wire format's own limit.
pub const MAX_FILE_BYTES: u64 = 1 << 31;
/// Most messages (nodes, attributes, tensors, dimensions, ...) in a model.
pub const MAX_MESSAGES: usize = 1 << 19;
/// Deepest nesting of messages.
pub const MAX_DEPTH: usize = 24;
/// Most nodes of a graph.
pub const MAX_NODES: usize = 1 << 17;
/// Most dimensions of a tensor.
pub const MAX_RANK: usize = 16;
/// Most elements of a tensor.
pub const MAX_ELEMENTS: usize = (1 << 31) - 1;
/// Most elements of a tensor computed while importing (shapes, masks).
pub const MAX_FOLDED: usize = 1 << 22;
/// Most elements computed while importing, all together.
pub const MAX_FOLDED_TOTAL: usize = 1 << 26;
/// Most elements of parameters that an exporter merged and that are made separate.
pub const MAX_COPIED: usize = 1 << 27;
/// Most elements of parameters that the file has no bytes for, or only bits.
pub const MAX_UNSTORED: usize = 1 << 25;
/// Largest window, stride, padding or dilation.
pub const MAX_WINDOW: i64 = 1 << 20;

/// Checks dimensions from a file and gives them with their product.
///
/// # Errors
/// In words, if one is negative, or there are too many dimensions or elements.
pub(crate) fn dimensions(dims: &[i64]) -> Result<(Vec<usize>, usize), String> {
    if dims.len() > MAX_RANK {
        return Err(format!("{} dimensions, at most {MAX_RANK} are supported", dims.len()));
    }
    let sizes: Vec<usize> = dims
        .iter()
        .map(|&d| usize::try_from(d).map_err(|_| format!("dimension of size {d}")))
        .collect::<Result<_, _>>()?;
    match count(&sizes) {
        Some(count) => Ok((sizes, count)),
        None => Err(format!("shape {dims:?} has more than {MAX_ELEMENTS} elements")),
    }
}

/// The product of dimensions, if it is at most [`MAX_ELEMENTS`]. A zero does not hide a huge product.
pub(crate) fn count(dims: &[usize]) -> Option<usize> {
    let nonzero = dims.iter().filter(|&&d| d != 0).try_fold(1usize, |n, &d| n.checked_mul(d))?;
    if nonzero > MAX_ELEMENTS {
        return None;
    }
    Some(if dims.contains(&0) { 0 } else { nonzero })
}
