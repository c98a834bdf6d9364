//! Walks over an index space that several tensors share, each with its own strides.

use crate::loops::Expr;
use crate::loops::builder::LoopBuilder;

/// Dimensions in row-major order with, for each of `N` tensors, its element stride in each dimension (0 where the
/// tensor is broadcast or reduced). Dimensions of size 1 are dropped and adjacent ones that every tensor runs
/// through alike are merged; neither changes the order of the walk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Walk<const N: usize> {
    dims: Vec<usize>,
    strides: Vec<[usize; N]>,
}

impl<const N: usize> Walk<N> {
    /// A walk over `dims` with these strides.
    pub(crate) fn new(dims: &[usize], strides: &[[usize; N]]) -> Walk<N> {
        let mut walk = Walk { dims: Vec::new(), strides: Vec::new() };
        for (&dim, &stride) in dims.iter().zip(strides) {
            if dim == 1 {
                continue;
            }
            match (walk.dims.last_mut(), walk.strides.last_mut()) {
                (Some(outer), Some(last))
                    if (0..N).all(|n| last[n] == stride[n].saturating_mul(dim)) =>
                {
                    *outer = outer.saturating_mul(dim);
                    *last = stride;
                }
                _ => {
                    walk.dims.push(dim);
                    walk.strides.push(stride);
                }
            }
        }
        walk
    }

    /// A walk over the row-major elements of a broadcast result of shape `dims`, with operands of these shapes
    /// (aligned right).
    pub(crate) fn broadcast(dims: &[usize], operands: [&[usize]; N]) -> Walk<N> {
        let own = operands.map(|shape| broadcast_strides(dims, shape));
        let strides: Vec<[usize; N]> =
            (0..dims.len()).map(|i| std::array::from_fn(|n| own[n][i])).collect();
        Walk::new(dims, &strides)
    }

    /// Calls `row` with the first element's index in each tensor, for each run of the innermost dimension.
    pub(crate) fn rows(&self, mut row: impl FnMut([usize; N])) {
        if self.dims.contains(&0) {
            return;
        }
        let outer = self.dims.len().saturating_sub(1);
        let mut position = vec![0usize; outer];
        let mut index = [0usize; N];
        loop {
            row(index);
            let mut dim = outer;
            loop {
                if dim == 0 {
                    return;
                }
                dim -= 1;
                position[dim] += 1;
                (0..N).for_each(|n| index[n] += self.strides[dim][n]);
                if position[dim] < self.dims[dim] {
                    break;
                }
                (0..N).for_each(|n| index[n] -= self.strides[dim][n] * self.dims[dim]);
                position[dim] = 0;
            }
        }
    }

    /// Length of the innermost dimension and each tensor's stride in it.
    pub(crate) fn inner(&self) -> (usize, [usize; N]) {
        match (self.dims.last(), self.strides.last()) {
            (Some(&dim), Some(&stride)) => (dim, stride),
            _ => (1, [0; N]),
        }
    }

    /// The same walk as loops; the closure gets each tensor's element index.
    pub(crate) fn lower(
        &self,
        builder: &mut LoopBuilder,
        name: &str,
        body: impl FnOnce(&mut LoopBuilder, [Expr; N]),
    ) {
        builder.for_shape(name, &self.dims, |builder, indices| {
            let index = std::array::from_fn(|n| {
                indices.iter().zip(&self.strides).fold(Expr::i64(0), |sum, (index, stride)| {
                    sum + index.clone() * Expr::index(stride[n])
                })
            });
            body(builder, index);
        });
    }
}

/// Strides of an operand of shape `shape` in a broadcast result of shape `dims`.
fn broadcast_strides(dims: &[usize], shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![0usize; dims.len()];
    let missing = dims.len() - shape.len();
    let mut stride = 1usize;
    for (i, &dim) in shape.iter().enumerate().rev() {
        if dim != 1 {
            strides[missing + i] = stride;
        }
        stride = stride.saturating_mul(dim);
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_what_runs_alike() {
        let walk = Walk::broadcast(&[2, 3, 4, 5], [&[2, 3, 4, 5], &[3, 1, 1]]);
        assert_eq!(walk.dims, [2, 3, 20]);
        assert_eq!(walk.strides, [[60, 0], [20, 1], [1, 0]]);
        let mut starts = Vec::new();
        walk.rows(|start| starts.push(start));
        assert_eq!(starts, [[0, 0], [20, 1], [40, 2], [60, 0], [80, 1], [100, 2]]);
    }

    #[test]
    fn scalars_have_one_row_and_empty_shapes_none() {
        let mut count = 0;
        Walk::broadcast(&[], [&[]]).rows(|_| count += 1);
        assert_eq!(count, 1);
        Walk::broadcast(&[3, 0, 2], [&[3, 1, 1]]).rows(|_| count += 1);
        assert_eq!(count, 1);
    }
}
