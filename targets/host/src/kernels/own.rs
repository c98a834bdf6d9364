//! Working memory that the caller of a product lends to one of its tasks.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicBool, Ordering};

use super::threads::with_scratch;

/// Bytes that the first task to ask for them has; others have their threads' own.
pub(crate) struct Own<'a> {
    start: *mut u8,
    length: usize,
    taken: AtomicBool,
    bytes: PhantomData<&'a mut [u8]>,
}

// SAFETY: the bytes are given to one task only.
unsafe impl Sync for Own<'_> {}

impl<'a> Own<'a> {
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        let (start, length) = (bytes.as_mut_ptr(), bytes.len());
        Self { start, length, taken: AtomicBool::new(false), bytes: PhantomData }
    }

    /// Calls `task` with so many bytes at least, whose contents do not matter.
    pub(crate) fn with<T>(&self, bytes: usize, task: impl FnOnce(&mut [u8]) -> T) -> T {
        if self.length >= bytes && !self.taken.swap(true, Ordering::Relaxed) {
            // SAFETY: they are borrowed for 'a, and the flag gives them away once.
            return task(unsafe { core::slice::from_raw_parts_mut(self.start, self.length) });
        }
        with_scratch(bytes, task)
    }
}
