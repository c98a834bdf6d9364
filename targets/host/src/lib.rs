//! The host target: the code that a training step runs on the machine it is compiled for.

pub mod kernels;
