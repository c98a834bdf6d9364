//! What stands in for threads in the static library: the caller's own.

use core::ops::Range;

/// One.
pub(crate) fn threads() -> usize {
    1
}

/// One part.
pub(crate) fn parts(_: usize, _: usize) -> usize {
    1
}

/// The whole.
pub(crate) fn piece(units: usize, _: usize, _: usize, index: usize) -> Range<usize> {
    if index == 0 { 0..units } else { units..units }
}

/// Lets `task` fill `out`.
pub(crate) fn fill<T>(out: &mut [T], _: usize, _: usize, task: &dyn Fn(usize, &mut [T])) {
    task(0, out);
}

/// Calls `task` for each number.
pub(crate) fn run(count: usize, task: &dyn Fn(usize)) {
    (0..count).for_each(task);
}

/// No task needs more than the working memory that it is given.
pub(crate) fn with_scratch<T>(_: usize, _: impl FnOnce(&mut [u8]) -> T) -> T {
    panic!("the working memory is smaller than its stated size")
}
