//! Placeholder.

pub mod programs;
pub mod random;
pub mod random_kernels;
