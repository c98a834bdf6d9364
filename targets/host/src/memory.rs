//! Tensors as bytes: packed elements, then (4-byte aligned) the run-time part of the scale, little-endian.

use std::mem::MaybeUninit;

use trainc_ir::program::buffer_bytes;
use trainc_ir::tensor_bytes::tensor_from_bytes;
use trainc_ir::{Tensor, TensorType};

use crate::HostError;

/// Alignment of arena, state and constants: a cache line, and the widest vector.
pub(crate) const ALIGNMENT: usize = 64;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; ALIGNMENT]);

/// Zeroed bytes on a 64-byte boundary.
pub(crate) struct AlignedBytes {
    lines: Vec<Line>,
    length: usize,
}

impl AlignedBytes {
    pub(crate) fn new(length: usize) -> AlignedBytes {
        let count = length.div_ceil(ALIGNMENT);
        let mut lines = Vec::with_capacity(count);
        ask_for_large_pages(lines.spare_capacity_mut());
        lines.resize(count, Line([0; ALIGNMENT]));
        AlignedBytes { lines, length }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.lines.as_flattened_lines()[..self.length]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let length = self.length;
        &mut self.lines.as_flattened_lines_mut()[..length]
    }
}

/// Asks Linux for large pages of memory that nothing has touched yet, of which the processor remembers where they are; without them all
/// works the same.
#[allow(unsafe_code, reason = "a call of the system")]
fn ask_for_large_pages(memory: &mut [MaybeUninit<Line>]) {
    /// Bytes of a large page, and of one that the system takes addresses of.
    const LARGE: usize = 2 << 20;
    const PAGE: usize = 64 << 10;
    let bytes = size_of_val(memory);
    let skip = memory.as_ptr().align_offset(PAGE).saturating_mul(ALIGNMENT);
    if !cfg!(target_os = "linux") || bytes < 2 * LARGE || skip >= bytes {
        return;
    }
    #[cfg(target_os = "linux")]
    // SAFETY: the range lies within the memory, and the advice changes nothing of what it holds.
    unsafe {
        let start = memory.as_mut_ptr().byte_add(skip);
        libc::madvise(start.cast(), bytes - skip, libc::MADV_HUGEPAGE);
    }
}

trait Lines {
    fn as_flattened_lines(&self) -> &[u8];
    fn as_flattened_lines_mut(&mut self) -> &mut [u8];
}

#[allow(unsafe_code, reason = "a slice of lines is a slice of their bytes")]
impl Lines for Vec<Line> {
    fn as_flattened_lines(&self) -> &[u8] {
        // SAFETY: a `Line` is exactly its 64 bytes, without padding.
        unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), self.len() * ALIGNMENT) }
    }

    fn as_flattened_lines_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; any bytes are a `Line`.
        unsafe { std::slice::from_raw_parts_mut(self.as_mut_ptr().cast(), self.len() * ALIGNMENT) }
    }
}

/// The tensor that [`tensor_bytes`](trainc_ir::tensor_bytes::tensor_bytes) gave those bytes for.
///
/// # Errors
/// If the length is not that type's.
pub fn decode_tensor(ty: &TensorType, bytes: &[u8]) -> Result<Tensor, HostError> {
    tensor_from_bytes(ty, bytes).ok_or_else(|| {
        let (takes, has) = (buffer_bytes(ty), bytes.len());
        HostError::Argument(format!("{ty} takes {takes} bytes, here {has}"))
    })
}
