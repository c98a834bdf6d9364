//! What a launch remembers from one call to the next: the width of its sums' largest magnitude, by which the next one's shift is guessed
//! (guesses are checked, so that results do not depend on them), and its weights as they were packed, where who calls says that they stay.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

/// See the module documentation. Launches of several threads may share one.
pub struct Memo {
    width: AtomicU32,
    panels: Panels,
}

impl Memo {
    /// Of a launch whose weights take so many bytes when they are packed; none where they may change between calls.
    #[must_use]
    pub fn new(panel_bytes: usize) -> Self {
        let panels = Panels {
            start: null_mut(),
            length: panel_bytes,
            stay: AtomicU8::new(Stay::NOWHERE),
            are_packed: AtomicBool::new(false),
        };
        Self { width: AtomicU32::new(0), panels }
    }

    /// Bytes that the packed weights take.
    #[must_use]
    pub fn panel_bytes(&self) -> usize {
        self.panels.length
    }

    /// From now on, until [`Self::forget`], the first call leaves the packed weights in these bytes for those that follow.
    ///
    /// # Safety
    /// The bytes are valid for as many as [`Self::panel_bytes`] until `forget` is called, nothing else reads or writes them, the weights do
    /// not change meanwhile, and calls come one after the other until [`Self::share`] is called.
    pub unsafe fn keep(&mut self, bytes: *mut u8) {
        self.panels.start = bytes;
        *self.panels.are_packed.get_mut() = false;
        *self.panels.stay.get_mut() =
            if self.panels.length == 0 { Stay::NOWHERE } else { Stay::PACK };
    }

    /// Calls may run at the same time from now on: where weights are packed they are read, and no longer written.
    pub fn share(&mut self) {
        let stay = self.panels.stay.get_mut();
        let packed = *self.panels.are_packed.get_mut();
        *stay = if *stay == Stay::PACK && packed { Stay::READ } else { Stay::NOWHERE };
    }

    /// Weights may change again.
    pub fn forget(&mut self) {
        *self.panels.stay.get_mut() = Stay::NOWHERE;
        self.panels.start = null_mut();
    }

    pub(super) fn hint(&self) -> Hint<'_> {
        Hint(&self.width)
    }

    pub(super) fn panels(&self) -> &Panels {
        &self.panels
    }
}

/// What becomes of packed weights.
struct Stay;

impl Stay {
    /// They are working memory of each call.
    const NOWHERE: u8 = 0;
    /// The next call packs them, if none has.
    const PACK: u8 = 1;
    /// They are there.
    const READ: u8 = 2;
}

/// Memory for packed weights.
pub(crate) struct Panels {
    start: *mut u8,
    length: usize,
    stay: AtomicU8,
    are_packed: AtomicBool,
}

// SAFETY: the memory is written by calls that come one after the other, which `Memo::keep` asks for, and only read once they are shared.
unsafe impl Sync for Panels {}
// SAFETY: likewise.
unsafe impl Send for Panels {}

/// Packed weights' memory, as a call has it.
pub(crate) enum Packing<'a> {
    /// To be packed.
    Fresh(&'a mut [u8]),
    /// Packed by another call of the same launch.
    Packed(&'a [u8]),
}

impl Panels {
    /// The memory of at least so many bytes, if weights stay: whoever gets it fresh fills it.
    pub(crate) fn packing(&self, bytes: usize) -> Option<Packing<'_>> {
        if bytes > self.length {
            return None;
        }
        match self.stay.load(Ordering::Relaxed) {
            Stay::NOWHERE => None,
            Stay::PACK if !self.are_packed.swap(true, Ordering::Relaxed) => {
                // SAFETY: `Memo::keep`'s caller promises the bytes to the calls, which come one after the other; this is the first.
                Some(Packing::Fresh(unsafe {
                    core::slice::from_raw_parts_mut(self.start, self.length)
                }))
            }
            // SAFETY: they have been filled, and nothing writes them while any call may read.
            _ => Some(Packing::Packed(unsafe {
                core::slice::from_raw_parts(self.start, self.length)
            })),
        }
    }
}

/// The width of the last step's largest magnitude plus one; zero before the first.
#[derive(Clone, Copy)]
pub(super) struct Hint<'a>(pub(super) &'a AtomicU32);

impl Hint<'_> {
    /// A magnitude as wide as the last step's largest.
    pub(super) fn last(self) -> Option<u32> {
        let bits = self.0.load(Ordering::Relaxed).checked_sub(1)?;
        Some(u32::MAX.checked_shr(u32::BITS - bits).unwrap_or(0))
    }

    /// Tells the next step.
    pub(super) fn tell(self, largest: u32) {
        self.0.store(u32::BITS - largest.leading_zeros() + 1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_stay_between_keeping_and_forgetting() {
        let mut memory = [0u8; 8];
        let mut memo = Memo::new(8);
        assert!(memo.panels().packing(8).is_none());
        // SAFETY: the memory outlives the test, and only this thread is at work.
        unsafe { memo.keep(memory.as_mut_ptr()) };
        assert!(memo.panels().packing(9).is_none(), "more than there is");
        match memo.panels().packing(8) {
            Some(Packing::Fresh(bytes)) => bytes.fill(7),
            _ => panic!("the first call packs"),
        }
        assert!(matches!(memo.panels().packing(8), Some(Packing::Packed([7, ..]))));
        memo.share();
        assert!(matches!(memo.panels().packing(4), Some(Packing::Packed([7, ..]))));
        memo.forget();
        assert!(memo.panels().packing(8).is_none());
        // Where none was packed before calls are shared, none is.
        // SAFETY: as above.
        unsafe { memo.keep(memory.as_mut_ptr()) };
        memo.share();
        assert!(memo.panels().packing(8).is_none());
    }

    #[test]
    fn a_hint_is_as_wide() {
        let word = AtomicU32::new(0);
        let hint = Hint(&word);
        assert_eq!(hint.last(), None);
        for (largest, last) in [(0, 0), (1, 1), (2, 3), (3, 3), (4, 7), (1 << 31, u32::MAX)] {
            hint.tell(largest);
            assert_eq!(hint.last(), Some(last));
        }
    }
}
