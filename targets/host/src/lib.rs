//! The host target: training steps as machine code of this machine, by Cranelift.
//!
//! [`HostProgram`] compiles a program into memory and runs it; [`HOST`] is the target as the compiler sees it, which
//! also emits a relocatable object with its C header and Rust bindings. Every operation runs as its loop kernel
//! ([`codegen`]); matrix products and the passes around them use vector kernels where the program runs in this
//! process. Both give the bits of the reference interpreter.

mod bits;
mod check;
pub mod codegen;
mod codes;
mod cost;
pub mod divided;
mod emission;
mod entry;
mod error;
mod geometry;
mod grouped;
mod jit;
mod kernel;
pub mod kernels;
mod memory;
mod microkernels;
mod pools;
mod staging;
mod target;
mod timer;

pub use emission::{Listing, listing};
pub use error::HostError;
pub use jit::{CallBytes, EntryHandle, HostProgram, LoopFunction};
pub use memory::decode_tensor;
pub use target::{HOST, HostTarget};
pub use timer::LaunchTimes;
