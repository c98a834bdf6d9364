//! Training steps in build scripts: compiles an ONNX model's training step to C, builds and links it, and writes a typed
//! Rust module over it.
//!
//! In `build.rs`:
//!
//! ```no_run
//! fn main() -> Result<(), trainc_build::Error> {
//!     trainc_build::Builder::new().model("digits.onnx").algorithm("niti").batch(32).compile()?;
//!     Ok(())
//! }
//! ```
//!
//! In the program, which needs neither this crate nor the standard library:
//!
//! ```ignore
//! mod digits {
//!     include!(concat!(env!("OUT_DIR"), "/digits.rs"));
//! }
//! ```
//!
//! The module has the sizes and shapes as constants, `Arena` and `State`, and the functions `init`, `train_step`,
//! `infer`, `save`, `load` and `learning_rate`.
#![forbid(unsafe_code)]

mod builder;
mod cargo;
mod error;
mod files;
mod native;
#[cfg(test)]
mod tests;

pub use builder::{Builder, Output};
pub use error::Error;
pub use trainc_driver::config::{
    BatchNormHandling, InputNormalization, LossFunction, OptimiserStrategy, WeightSource,
};
pub use trainc_ir::batch_split::MicroBatch;
