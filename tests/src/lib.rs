//! What the tests share.

pub mod arrays;
pub mod brevitas;
pub mod cases;
pub mod hexagon;
pub mod hexagon_clang;
pub mod hexagon_convolution;
pub mod kernels;
pub mod programs;
pub mod random;
pub mod random_loops;
pub mod simulated;
pub mod xpulp_convolutions;
pub mod xpulp_kernels;
