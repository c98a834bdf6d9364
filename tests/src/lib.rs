//! Placeholder.

pub mod random;
pub mod random_kernels;
pub mod programs;
