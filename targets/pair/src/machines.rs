//! The two machines, each a target of its own.

use trainc_hvx::HvxTarget;
use trainc_neon::NeonTarget;

/// A processor and a DSP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machines {
    pub(crate) cpu: &'static NeonTarget,
    pub(crate) dsp: &'static HvxTarget,
    /// Of buffers in the memory that they share, in bytes: the larger of both.
    pub(crate) alignment: usize,
}
