//! The OpenCL target: kernels in OpenCL C 1.2, and the C that launches them behind the interface of the C target.
//!
//! Each loop kernel becomes a few OpenCL kernels (`trainc_loops::phases`): loops whose rounds are independent are ranges of work items,
//! the rest runs on one. Float arithmetic that OpenCL leaves inexact is defined by the emitted code itself (`helpers`).

mod apart;
mod artifact;
mod bits;
mod bytes;
mod documents;
mod driver;
mod emission;
mod helpers;
mod kernel;
mod loops;
mod printed;
mod syntax;
mod target;
mod tiled;
mod tuning;
mod window;

pub use helpers::floats;
pub use target::{OPENCL, OpenClTarget};
