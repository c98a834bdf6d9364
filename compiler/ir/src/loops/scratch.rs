//! Where the scratch buffers of a loop kernel lie in its working memory.

use super::{LoopKernel, Role};

/// Alignment of each scratch buffer of a loop kernel.
pub const SCRATCH_ALIGNMENT: usize = 16;

/// Offsets of a loop kernel's scratch buffers within its working memory (in parameter order), and the total.
pub fn loop_scratch(kernel: &LoopKernel) -> (Vec<usize>, usize) {
    let mut total = 0usize;
    let offsets = kernel
        .buffers
        .iter()
        .filter(|b| b.role == Role::Scratch)
        .map(|b| {
            let offset = total;
            total += b.element.bytes(b.count).next_multiple_of(SCRATCH_ALIGNMENT);
            offset
        })
        .collect();
    (offsets, total)
}
