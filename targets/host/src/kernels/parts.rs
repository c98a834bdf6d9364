//! The parts of an output that tasks fill.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering};

/// Most parts of an output.
pub(crate) const MOST_PARTS: usize = 256;

/// The parts of an output, each to be taken by the one task that fills it.
pub(crate) struct Parts<'a, T, Cut: Fn(usize) -> usize> {
    start: *mut T,
    length: usize,
    /// Where part `index` begins, and the one before it ends.
    cut: Cut,
    /// A bit for each part that was taken.
    taken: [AtomicU64; MOST_PARTS / 64],
    output: PhantomData<&'a mut [T]>,
}

// SAFETY: a part is given to one task only.
unsafe impl<T: Send, Cut: Fn(usize) -> usize + Sync> Sync for Parts<'_, T, Cut> {}

impl<'a, T, Cut: Fn(usize) -> usize> Parts<'a, T, Cut> {
    /// Cuts `out` where `cut` says, which ascends.
    pub(crate) fn new(out: &'a mut [T], cut: Cut) -> Self {
        let (start, length) = (out.as_mut_ptr(), out.len());
        let taken = [const { AtomicU64::new(0) }; MOST_PARTS / 64];
        Self { start, length, cut, taken, output: PhantomData }
    }

    /// Part `index`; empty the second time.
    ///
    /// # Panics
    /// When its ends do not ascend, lie beyond the output, or there are not so many parts.
    pub(crate) fn take(&self, index: usize) -> &'a mut [T] {
        let (from, to) = ((self.cut)(index), (self.cut)(index + 1));
        assert!(from <= to && to <= self.length, "the parts of an output ascend");
        let bit = 1 << (index % 64);
        if self.taken[index / 64].fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            return &mut [];
        }
        // SAFETY: it lies within the output, which is borrowed for 'a; the bit gives it away once, and as cuts ascend no other part
        // holds any of it.
        unsafe { core::slice::from_raw_parts_mut(self.start.add(from), to - from) }
    }
}
