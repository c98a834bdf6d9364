//! The Hexagon target: assembly for v62 to v73 with HVX in 128-byte mode.
//!
//! Kernels are assembly: [`select`] makes code of any loop kernel on the [`machine`] layer, which packs it. Entries,
//! initial state and checkpoints are C on the C target's emission.

mod bands;
mod batch_norm;
mod channel_lines;
mod channel_sums;
mod conversions;
mod cost;
mod depthwise;
mod documents;
mod emission;
mod fastrpc;
mod float_bits;
mod glue;
mod groups;
mod inverse_deviation;
pub mod kernels;
mod line_coefficients;
mod lookup;
mod loops;
mod lowering;
pub mod machine;
mod normalized_update;
mod parts;
mod pools;
mod products;
pub mod select;
mod slices;
mod target;
mod window_pools;

pub use emission::{RESIDENT, assembly_files};
pub use lowering::lower;
pub use target::{HVX, HvxTarget, V62, V68, V73};
