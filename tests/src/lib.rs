//! What the tests share.

pub mod hexagon;
pub mod hexagon_convolution;
