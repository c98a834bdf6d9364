//! Planes of bytes `[image][channel][position]` that fill vectors: a place is a plane of whole vectors, or the vector of an image
//! that holds several planes.

use super::product::VECTOR;

/// Codes of a word.
pub(super) const WORD: usize = 4;

/// Their sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanesOfCodes {
    pub(super) images: usize,
    pub(super) channels: usize,
    pub(super) positions: usize,
}

impl PlanesOfCodes {
    /// Whether planes are whole vectors, or a power of two of them is one, and there are fewer codes than so many.
    pub(super) fn fill_vectors(self, limit: usize) -> bool {
        let whole = match self.positions {
            n if n < VECTOR => n >= WORD && n.is_power_of_two(),
            n => n.is_multiple_of(VECTOR),
        };
        whole
            && self.images > 0
            && self.channels > 0
            && (self.channels * self.positions).is_multiple_of(VECTOR)
            && self.images * self.channels * self.positions < limit
    }

    /// Vectors of a place in an image.
    pub(super) fn vectors(self) -> usize {
        self.positions.div_ceil(VECTOR)
    }

    /// Places of an image.
    pub(super) fn places(self) -> usize {
        self.channels * self.positions / VECTOR / self.vectors()
    }
}
