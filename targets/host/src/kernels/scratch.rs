//! Carving a byte scratch into typed, aligned buffers.

/// Alignment of every buffer, one cache line.
const ALIGNMENT: usize = 64;

/// Bytes that a buffer of `length` four-byte words takes.
pub(crate) const fn words_bytes(length: usize) -> usize {
    (length * 4).next_multiple_of(ALIGNMENT)
}

/// Words that so many items take.
const fn items_words<T>(length: usize) -> usize {
    (length * size_of::<T>()).div_ceil(4)
}

/// Bytes that a buffer of `length` items takes.
pub(crate) const fn items_bytes<T>(length: usize) -> usize {
    words_bytes(items_words::<T>(length))
}

/// What any bits are a value of.
///
/// # Safety
/// The type is `Copy`, has no padding and no invalid bits.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: integers and floats.
unsafe impl Plain for i8 {}
// SAFETY: likewise.
unsafe impl Plain for u8 {}
// SAFETY: likewise.
unsafe impl Plain for f32 {}
// SAFETY: likewise.
unsafe impl Plain for usize {}
// SAFETY: likewise.
unsafe impl Plain for [i64; 2] {}
// SAFETY: three integers of one size.
unsafe impl Plain for super::engine::Run {}

/// Hands out the buffers of one scratch, front to back.
pub(crate) struct Scratch<'a> {
    rest: &'a mut [u8],
}

impl<'a> Scratch<'a> {
    /// Bytes lost at most to alignment of the front.
    pub(crate) const LOSS: usize = ALIGNMENT;

    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        let skip = bytes.as_ptr().align_offset(ALIGNMENT).min(bytes.len());
        Self { rest: &mut bytes[skip..] }
    }

    /// What is left.
    pub(crate) fn rest(self) -> &'a mut [u8] {
        self.rest
    }

    /// The next `length` words. Their contents are whatever the scratch held.
    ///
    /// # Panics
    /// When the scratch is smaller than its `*_scratch_bytes`.
    pub(crate) fn units(&mut self, length: usize) -> &'a mut [u32] {
        let start = self.take(length);
        // SAFETY: `take` gave `length * 4` initialised bytes that start on a 64-byte boundary and
        // that no other reference covers for 'a; any bits are a `u32`.
        unsafe { core::slice::from_raw_parts_mut(start.cast(), length) }
    }

    /// As [`Self::units`], for sums.
    pub(crate) fn sums<S: super::engine::Sum>(&mut self, length: usize) -> &'a mut [S] {
        const { assert!(size_of::<S>() == 4 && align_of::<S>() == 4) };
        let start = self.take(length);
        // SAFETY: as in `units`; `Sum` is implemented for `i32` and `f32` only, for which any bits
        // are a value.
        unsafe { core::slice::from_raw_parts_mut(start.cast(), length) }
    }

    /// The next `length` operands of a product, or runs of lanes, or indices. Their contents are whatever the scratch held.
    pub(crate) fn items<T: Plain>(&mut self, length: usize) -> &'a mut [T] {
        const { assert!(align_of::<T>() <= ALIGNMENT) };
        let start = self.take(items_words::<T>(length));
        // SAFETY: `take` gave as many initialised bytes, which start on a 64-byte boundary and which no other reference covers for
        // 'a; any bits are a `Plain`.
        unsafe { core::slice::from_raw_parts_mut(start.cast(), length) }
    }

    fn take(&mut self, length: usize) -> *mut u8 {
        let bytes = words_bytes(length);
        assert!(bytes <= self.rest.len(), "the scratch is smaller than its stated size");
        let (taken, rest) = core::mem::take(&mut self.rest).split_at_mut(bytes);
        self.rest = rest;
        taken.as_mut_ptr()
    }
}

/// What [`Scratch::units`] and then [`Scratch::sums`] of these lengths gave of the same bytes.
///
/// # Panics
/// When they do not hold as many.
pub(crate) fn packed<S: super::engine::Sum>(
    bytes: &[u8],
    units: usize,
    sums: usize,
) -> (&[u32], &[S]) {
    const { assert!(size_of::<S>() == 4 && align_of::<S>() == 4) };
    let skip = bytes.as_ptr().align_offset(ALIGNMENT).min(bytes.len());
    let (first, second) = bytes[skip..].split_at(words_bytes(units));
    assert!(sums * 4 <= second.len(), "the packed weights are smaller than their stated size");
    // SAFETY: both start on a 64-byte boundary and hold as many initialised words, of which any bits are a value.
    unsafe {
        (
            core::slice::from_raw_parts(first.as_ptr().cast(), units),
            core::slice::from_raw_parts(second.as_ptr().cast(), sums),
        )
    }
}

/// Sums as the words that hold them.
pub(crate) fn words_of<S: super::engine::Sum>(sums: &[S]) -> &[u32] {
    const { assert!(size_of::<S>() == 4 && align_of::<S>() == 4) };
    // SAFETY: `Sum` is implemented for `i32` and `f32` only: same size, same alignment, any bits.
    unsafe { core::slice::from_raw_parts(sums.as_ptr().cast(), sums.len()) }
}

/// As [`words_of`], to write.
pub(crate) fn words_of_mut<S: super::engine::Sum>(sums: &mut [S]) -> &mut [u32] {
    const { assert!(size_of::<S>() == 4 && align_of::<S>() == 4) };
    // SAFETY: as in `words_of`; the borrow is passed on whole.
    unsafe { core::slice::from_raw_parts_mut(sums.as_mut_ptr().cast(), sums.len()) }
}
