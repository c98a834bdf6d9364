//! What the tests share.

pub mod hexagon;
pub mod hexagon_clang;
pub mod hexagon_convolution;
