//! Where the axes of a value lie.
//!
//! TensorFlow Lite has channels last, trainc's convolutions and pools have them behind the batch. Each value is kept in
//! the layout that its producer gives, and is brought into another one only where a consumer needs it: elementwise
//! operators, joins and reductions work on any layout, constants are stored in the layout that is asked of them. So
//! transposes remain at the edges of a network, which rewriting could not promise: its rules would have to
//! find the way through every kind of operation in between.

/// Where the axes of a value lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    /// As the file has them.
    Plain,
    /// A file's [N, H, W, C] as [N, C, H, W].
    Channels,
    /// A file's [N, H * W * C] as [N, C * H * W]; the sizes are [C, H, W].
    Flat([usize; 3]),
}

/// From the file's axes to those of [`Layout::Channels`].
pub(crate) const TO_CHANNELS: [usize; 4] = [0, 3, 1, 2];
/// And back.
pub(crate) const FROM_CHANNELS: [usize; 4] = [0, 2, 3, 1];

impl Layout {
    /// Where an axis of the file lies.
    pub(crate) fn axis(self, axis: usize) -> usize {
        match self {
            Layout::Channels => FROM_CHANNELS.get(axis).copied().unwrap_or(axis),
            _ => axis,
        }
    }
}

/// The order of `values` under a permutation; axes that there are not count as absent.
pub(crate) fn permuted<T: Copy>(values: &[T], permutation: &[usize]) -> Vec<T> {
    permutation.iter().filter_map(|&axis| values.get(axis).copied()).collect()
}

/// The permutation that takes a tensor stored under `from` to `to`, both from the same axes.
pub(crate) fn between(from: &[usize], to: &[usize]) -> Vec<usize> {
    to.iter().filter_map(|axis| from.iter().position(|other| other == axis)).collect()
}

/// Whether the axes of a tensor of these sizes keep their order, but for those of size 1, so that no element moves.
pub(crate) fn moves_nothing(dims: &[usize], permutation: &[usize]) -> bool {
    let long = |axis: &&usize| dims.get(**axis).is_none_or(|&size| size != 1);
    permutation.iter().filter(long).is_sorted()
}

/// Elements of `width` bytes in the order of permuted axes.
pub(crate) fn permute_bytes(
    bytes: &[u8],
    width: usize,
    dims: &[usize],
    permutation: &[usize],
) -> Vec<u8> {
    if moves_nothing(dims, permutation) {
        return bytes.to_vec();
    }
    let mut strides = vec![width; dims.len()];
    for i in (0..dims.len().saturating_sub(1)).rev() {
        strides[i] = strides[i + 1] * dims[i + 1];
    }
    let (sizes, strides) = (permuted(dims, permutation), permuted(&strides, permutation));
    let mut moved = Vec::with_capacity(bytes.len());
    let mut index = vec![0usize; sizes.len()];
    while moved.len() + width <= bytes.len() {
        let at: usize = index.iter().zip(&strides).map(|(i, stride)| i * stride).sum();
        moved.extend_from_slice(bytes.get(at..at + width).unwrap_or(&[]));
        for axis in (0..sizes.len()).rev() {
            index[axis] += 1;
            if index[axis] < sizes[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutations() {
        assert_eq!(permuted(&[1, 28, 30, 3], &TO_CHANNELS), [1, 3, 28, 30]);
        assert_eq!(permuted(&[1, 3, 28, 30], &FROM_CHANNELS), [1, 28, 30, 3]);
        assert_eq!(between(&[0, 3, 1, 2], &[0, 1, 2, 3]), FROM_CHANNELS);
        assert!(moves_nothing(&[5, 28, 28, 1], &TO_CHANNELS));
        assert!(moves_nothing(&[5, 1, 1, 7], &TO_CHANNELS));
        assert!(!moves_nothing(&[5, 2, 1, 7], &TO_CHANNELS));
    }

    #[test]
    fn elements_move() {
        // [2, 3] as [3, 2], in elements of two bytes.
        let bytes = [0, 0, 1, 1, 2, 2, 10, 10, 11, 11, 12, 12];
        assert_eq!(
            permute_bytes(&bytes, 2, &[2, 3], &[1, 0]),
            [0, 0, 10, 10, 1, 1, 11, 11, 2, 2, 12, 12]
        );
    }
}
