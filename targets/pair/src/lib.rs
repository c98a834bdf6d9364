//! A target of two machines that share memory: launches run on the processor, by the kernels of NEON, or on the DSP, by those
//! of Hexagon HVX, as planning assigns them.

mod documents;
mod emission;
mod entries;
mod kernel;
mod machines;
mod segments;
mod target;

pub use kernel::{Both, packed_there};
pub use target::{NEON_HVX, PairTarget};
