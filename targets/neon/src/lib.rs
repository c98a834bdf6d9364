//! The Arm NEON targets: C with intrinsics for AArch64 and Armv7, on the C target's program emission.
//!
//! One target for each level of the architecture: what a processor offers decides how products of 8-bit integers are
//! laid out and multiplied ([`Level`]). Everything else is shared.

mod bits;
mod depthwise;
mod level;
mod lookup;
pub mod loops;
mod lowering;
mod normalization;
mod pool;
mod products;
mod sum;
mod target;

pub use level::Level;
pub use target::{ARMV7, DISPATCH, DOTPROD, I8MM, NEON, NeonTarget};
