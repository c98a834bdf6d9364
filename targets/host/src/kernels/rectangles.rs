//! The rectangles of a matrix that tasks fill.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering};

use super::parts::MOST_PARTS;

/// A matrix whose rows and whose columns are cut into pieces, each rectangle to be taken by the one
/// task that fills it.
pub(crate) struct Rectangles<'a, T, Row: Fn(usize) -> usize, Column: Fn(usize) -> usize> {
    start: *mut T,
    rows: usize,
    columns: usize,
    /// Where piece `index` of the rows begins, and the one before it ends.
    row: Row,
    /// Likewise of the columns.
    column: Column,
    /// Pieces of the columns.
    across: usize,
    /// A bit for each rectangle that was taken.
    taken: [AtomicU64; MOST_PARTS / 64],
    matrix: PhantomData<&'a mut [T]>,
}

// SAFETY: a rectangle is given to one task only.
unsafe impl<T: Send, Row, Column> Sync for Rectangles<'_, T, Row, Column>
where
    Row: Fn(usize) -> usize + Sync,
    Column: Fn(usize) -> usize + Sync,
{
}

impl<'a, T, Row: Fn(usize) -> usize, Column: Fn(usize) -> usize> Rectangles<'a, T, Row, Column> {
    /// Cuts `matrix`, whose rows hold `columns` elements, where `row` and `column` say, which ascend; the columns into `across` pieces.
    pub(crate) fn new(
        matrix: &'a mut [T],
        columns: usize,
        across: usize,
        row: Row,
        column: Column,
    ) -> Self {
        let (start, rows) = (matrix.as_mut_ptr(), matrix.len() / columns.max(1));
        let taken = [const { AtomicU64::new(0) }; MOST_PARTS / 64];
        Self { start, rows, columns, row, column, across, taken, matrix: PhantomData }
    }

    /// Rectangle `index`, counted along the columns first; without rows the second time.
    ///
    /// # Panics
    /// When its ends do not ascend, lie beyond the matrix, or there are not so many rectangles.
    pub(crate) fn take(&self, index: usize) -> Rectangle<'a, T> {
        let (down, along) = (index / self.across, index % self.across);
        let (top, bottom) = ((self.row)(down), (self.row)(down + 1));
        let (left, right) = ((self.column)(along), (self.column)(along + 1));
        assert!(top <= bottom && bottom <= self.rows, "the rows of a matrix ascend");
        assert!(left <= right && right <= self.columns, "the columns of a matrix ascend");
        let bit = 1 << (index % 64);
        let is_taken = self.taken[index / 64].fetch_or(bit, Ordering::Relaxed) & bit != 0;
        Rectangle {
            // SAFETY: at most at the end of the matrix.
            start: unsafe {
                self.start.add(if top < bottom { top * self.columns + left } else { 0 })
            },
            rows: if is_taken { 0 } else { bottom - top },
            columns: right - left,
            stride: self.columns,
            matrix: PhantomData,
        }
    }
}

/// One rectangle.
pub(crate) struct Rectangle<'a, T> {
    start: *mut T,
    rows: usize,
    columns: usize,
    /// Elements from one row to the next.
    stride: usize,
    matrix: PhantomData<&'a mut [T]>,
}

impl<T> Rectangle<'_, T> {
    /// What it holds of its row `row`.
    ///
    /// # Panics
    /// When it has not so many rows.
    pub(crate) fn row(&mut self, row: usize) -> &mut [T] {
        assert!(row < self.rows, "a row of the rectangle");
        // SAFETY: the row lies within the matrix, which is borrowed for longer. As cuts ascend no other rectangle holds any of it, and this
        // one is lent as long as the row.
        unsafe { core::slice::from_raw_parts_mut(self.start.add(row * self.stride), self.columns) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rectangles_cover_the_matrix_once() {
        let mut matrix = vec![0_u8; 7 * 5];
        let (row, column) = (|index: usize| [0, 3, 7][index], |index: usize| [0, 2, 2, 5][index]);
        let rectangles = Rectangles::new(&mut matrix, 5, 3, row, column);
        for index in 0..6 {
            let (mut taken, mut again) = (rectangles.take(index), rectangles.take(index));
            for row in 0..taken.rows {
                taken.row(row).iter_mut().for_each(|element| *element += 1 + index as u8);
            }
            assert!(
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| again.row(0).len()))
                    .is_err()
            );
        }
        let expected = |row: usize, column: usize| match (row < 3, column < 2) {
            (true, true) => 1,
            (true, false) => 3,
            (false, true) => 4,
            (false, false) => 6,
        };
        for (index, &element) in matrix.iter().enumerate() {
            assert_eq!(element, expected(index / 5, index % 5), "element {index}");
        }
    }
}
