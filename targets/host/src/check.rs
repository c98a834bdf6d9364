//! What generated code takes for granted beyond the promises of every program.

use trainc_ir::Verified;
use trainc_ir::program::{Program, Region};

use crate::HostError;

/// Checks that buffers start at whole words, and those of the caller where their argument does.
///
/// # Errors
/// The first buffer that does not.
pub(crate) fn check(program: &Verified<Program>) -> Result<(), HostError> {
    for buffer in &program.buffers {
        let name = &buffer.name;
        // Shared exponents and 32-bit elements are read as words.
        if !buffer.offset.is_multiple_of(4) {
            return Err(HostError::Program(format!("buffer `{name}` is not 4-byte aligned")));
        }
        if matches!(buffer.region, Region::Input(_) | Region::Output(_)) && buffer.offset != 0 {
            return Err(HostError::Program(format!("`{name}` is not at offset 0")));
        }
    }
    for entry in &program.entries {
        for launch in trainc_ir::harness::launches(entry) {
            if launch.scratch.is_some_and(|offset| !offset.is_multiple_of(4)) {
                let name = &launch.name;
                return Err(HostError::Program(format!("`{name}`: working memory is not aligned")));
            }
        }
    }
    Ok(())
}
