//! The Hexagon target: assembly for v62 to v73 with HVX in 128-byte mode.

pub mod kernels;
pub mod machine;
