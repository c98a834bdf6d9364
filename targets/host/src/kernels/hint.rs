//! What one step tells the next of a launch's sums: the width of their largest magnitude, by which the next one's shift is guessed. Guesses
//! are checked, so that results do not depend on them.

use core::sync::atomic::{AtomicU32, Ordering};

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
