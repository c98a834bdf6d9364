//! Blocks of block floating point: tiles of 4 x 4 elements over two axes of a tensor, for each index of its other axes.

use crate::keyword_enum;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, Unary};
use crate::numeric::{self, exponent, integer};
use crate::ops::{TypeError, rule};
use crate::types::Shape;

/// Elements of a block along each of its axes.
pub(crate) const SIDE: usize = 4;

keyword_enum! {
    /// The two axes that blocks tile.
    pub enum BlockAxes {
        /// The first two: outputs and inputs of a convolution's weights at each tap, examples and channels at each pixel.
        First = "first",
        /// The last two: rows and columns of matrices.
        Last = "last",
    }
}

impl BlockAxes {
    /// The shape of a tensor with the number of blocks along the axes: one index a block.
    ///
    /// # Errors
    /// If the tensor has fewer than two axes, or no elements.
    pub fn grid(self, shape: &Shape) -> Result<Shape, TypeError> {
        Ok(Blocks::new("blocks", shape, self)?.grid)
    }
}

/// The blocks of a tensor, which is seen as rows and columns that are tiled, and planes: what its other axes are together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Blocks {
    rows: usize,
    columns: usize,
    planes: usize,
    axes: BlockAxes,
    grid: Shape,
}

impl Blocks {
    /// The blocks of a tensor.
    ///
    /// # Errors
    /// If it has fewer than two axes, or no elements.
    pub(crate) fn new(name: &str, shape: &Shape, axes: BlockAxes) -> Result<Blocks, TypeError> {
        rule::ensure(shape.rank() >= 2 && shape.count() > 0, || {
            format!(
                "{name}: blocks are of tensors with two axes or more and with elements, here {shape}"
            )
        })?;
        let first = match axes {
            BlockAxes::First => 0,
            BlockAxes::Last => shape.rank() - 2,
        };
        let (rows, columns) = (shape[first], shape[first + 1]);
        let mut grid = shape.dims().to_vec();
        grid[first] = rows.div_ceil(SIDE);
        grid[first + 1] = columns.div_ceil(SIDE);
        let planes = shape.count() / (rows * columns);
        Ok(Blocks { rows, columns, planes, axes, grid: grid.into() })
    }

    /// The tensor's shape with the number of blocks along the tiled axes: one index a block.
    pub(crate) fn grid(&self) -> &Shape {
        &self.grid
    }

    /// Distances of elements along rows, columns and planes.
    fn strides(&self) -> [usize; 3] {
        match self.axes {
            BlockAxes::First => [self.columns * self.planes, self.planes, 1],
            BlockAxes::Last => [self.columns, 1, self.rows * self.columns],
        }
    }

    /// Calls `f` with each block, in the grid's row-major order, and the places of its elements, rows before columns.
    pub(crate) fn each(&self, mut f: impl FnMut(usize, &[usize])) {
        let [row, column, plane] = self.strides();
        let sides = [self.rows.div_ceil(SIDE), self.columns.div_ceil(SIDE)];
        let mut places = Vec::with_capacity(SIDE * SIDE);
        for block in 0..sides[0] * sides[1] * self.planes {
            let (first, second, p) = match self.axes {
                BlockAxes::First => {
                    let tile = block / self.planes;
                    (tile / sides[1], tile % sides[1], block % self.planes)
                }
                BlockAxes::Last => {
                    let tile = block % (sides[0] * sides[1]);
                    (tile / sides[1], tile % sides[1], block / (sides[0] * sides[1]))
                }
            };
            places.clear();
            for r in first * SIDE..((first + 1) * SIDE).min(self.rows) {
                for c in second * SIDE..((second + 1) * SIDE).min(self.columns) {
                    places.push(r * row + c * column + p * plane);
                }
            }
            f(block, &places);
        }
    }

    /// [`Blocks::each`] in loops: `f` gets the block's place in the grid and what makes loops over its elements' places.
    pub(crate) fn lower(
        &self,
        b: &mut LoopBuilder,
        f: impl FnOnce(&mut LoopBuilder, Expr, &dyn Fn(&mut LoopBuilder, Elements<'_>)),
    ) {
        let [row, column, plane] = self.strides();
        let sides = [self.rows.div_ceil(SIDE), self.columns.div_ceil(SIDE)];
        let shape = match self.axes {
            BlockAxes::First => [sides[0], sides[1], self.planes],
            BlockAxes::Last => [self.planes, sides[0], sides[1]],
        };
        b.for_shape("block", &shape, |b, at| {
            let [first, second, p] = match self.axes {
                BlockAxes::First => [&at[0], &at[1], &at[2]],
                BlockAxes::Last => [&at[1], &at[2], &at[0]],
            };
            let [last, middle, inner] = [shape[1] * shape[2], shape[2], 1].map(Expr::index);
            let place = at[0].clone() * last + at[1].clone() * middle + at[2].clone() * inner;
            let place = b.let_("place", place);
            let base = first.clone() * Expr::index(SIDE * row)
                + second.clone() * Expr::index(SIDE * column)
                + p.clone() * Expr::index(plane);
            let base = b.let_("base", base);
            let rows = side_length(b, "rows", self.rows, first);
            let columns = side_length(b, "columns", self.columns, second);
            let elements = |b: &mut LoopBuilder, body: Elements<'_>| {
                b.for_range("row", Expr::i64(0), rows.clone(), |b, r| {
                    b.for_range("column", Expr::i64(0), columns.clone(), |b, c| {
                        let offset = r * Expr::index(row) + c * Expr::index(column);
                        let place = b.let_("i", base.clone() + offset);
                        body(b, place);
                    });
                });
            };
            f(b, place, &elements);
        });
    }
}

/// What is done with the place of each element of a block.
pub(crate) type Elements<'a> = &'a mut dyn FnMut(&mut LoopBuilder, Expr);

/// The elements of a tile along an axis.
fn side_length(b: &mut LoopBuilder, name: &str, whole: usize, tile: &Expr) -> Expr {
    match whole.is_multiple_of(SIDE) {
        true => Expr::index(SIDE),
        false => {
            let left = Expr::index(whole) - tile.clone() * Expr::index(SIDE);
            b.let_(name, left.minimum(Expr::index(SIDE)))
        }
    }
}

/// The exponent of a block whose largest finite magnitude is `m`: `floor(log2 m) + 1`, so that all of it is below `2^e`; 0 of zeros.
pub(crate) fn block_exponent(m: f32) -> i32 {
    if m > 0.0 { numeric::floor_log2(m) + 1 } else { 0 }
}

/// [`block_exponent`] of magnitudes in loops: the largest of them, from 0.
pub(crate) fn block_exponent_expression(b: &mut LoopBuilder, m: &Expr) -> Expr {
    let e = exponent::floor_log2(b, m.clone()) + Expr::i32(1);
    let some = Expr::f32(0.0).less(m.clone());
    b.let_("e", some.select(e, Expr::i32(0)))
}

/// The width in bits that a real one stands for: the nearest even number (ties to a multiple of 4) from 0 to `most`; 0 of NaN.
pub(crate) fn used_width(width: f32, most: u32) -> u32 {
    let pairs = (width * 0.5).round_ties_even() as i32;
    (pairs.clamp(0, 4) * 2).min(most as i32) as u32
}

/// [`used_width`] in loops.
pub(crate) fn used_width_expression(b: &mut LoopBuilder, width: Expr, most: u32) -> Expr {
    let pairs = (width * Expr::f32(0.5)).unary(Unary::RoundTiesEven).unary(Unary::ToInteger);
    let width = integer::clamp(pairs, 0, 4) * Expr::i32(2);
    b.let_("bits", width.minimum(Expr::i32(most as i32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each element is in one block, and a block's elements are within 4 of each other along the tiled axes.
    #[test]
    fn blocks_tile_the_tensor() {
        for (shape, axes, grid) in [
            (vec![5, 7, 3, 2], BlockAxes::First, vec![2, 2, 3, 2]),
            (vec![3, 2, 9, 4], BlockAxes::Last, vec![3, 2, 3, 1]),
            (vec![1, 1], BlockAxes::Last, vec![1, 1]),
        ] {
            let shape = Shape::from(shape);
            let blocks = Blocks::new("test", &shape, axes).expect("two axes");
            assert_eq!(blocks.grid().dims(), grid);
            let strides = shape.strides();
            let mut seen = vec![None; shape.count()];
            blocks.each(|block, places| {
                for &place in places {
                    assert_eq!(seen[place].replace(block), None);
                }
            });
            let first = if axes == BlockAxes::First { 0 } else { shape.rank() - 2 };
            for (place, block) in seen.iter().enumerate() {
                let at = strides.iter().zip(shape.iter()).map(|(s, d)| place / s % d);
                let at: Vec<usize> = at.collect();
                let own = grid.iter().enumerate().fold(0, |flat, (axis, dim)| {
                    let tiled = axis == first || axis == first + 1;
                    flat * dim + if tiled { at[axis] / SIDE } else { at[axis] }
                });
                assert_eq!(*block, Some(own), "{shape} at {at:?}");
            }
        }
        assert!(Blocks::new("test", &Shape::from([4]), BlockAxes::First).is_err());
    }

    #[test]
    fn widths_are_even() {
        let cases = [(0.99, 0), (1.0, 0), (1.01, 2), (3.0, 4), (5.0, 4), (7.1, 8), (99.0, 8)];
        for (width, bits) in cases {
            assert_eq!(used_width(width, 8), bits, "{width}");
        }
        assert_eq!((used_width(7.1, 4), used_width(f32::NAN, 8), used_width(-3.0, 8)), (4, 0, 0));
    }
}
