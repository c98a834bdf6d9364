//! A kernel of OpenCL as text, and what all of them cost.

use trainc_c::syntax::Pointer;

/// What a launch costs beside its work.
pub(crate) const LAUNCH: u64 = 10_000;
/// Work items that run at a time.
pub(crate) const LANES: u64 = 64;

/// A kernel as text, one of those that make up a kernel of the program.
pub(crate) struct PrintedPhase {
    /// The kernel's name.
    pub(crate) name: String,
    /// It, as OpenCL C.
    pub(crate) text: String,
    /// Its buffers.
    pub(crate) pointers: Vec<Pointer>,
    /// Rounds of the loops that are work items.
    pub(crate) rounds: Vec<i32>,
}
