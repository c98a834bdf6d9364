//! The XpulpV2 target: C for RISC-V processors of the PULP family (RI5CY, GAP8) and their heirs (CORE-V), on the C
//! target's program emission.
//!
//! Emitted C names the instructions as functions of `trainc_xpulp.h` ([`HEADER`]), which has four forms of each: builtins
//! of the PULP compiler, builtins of CORE-V compilers, encodings for any assembler, and portable C. `target` says which
//! kernels are of the target's own; everything else is loops.

mod activations;
mod bits;
mod channels;
mod elements;
mod instructions;
mod losses;
pub mod mixed;
mod products;
mod simulator;
mod target;
mod updates;

pub use target::{Cluster, FLOAT, HEADER, NUMBER, XPULPV2, XpulpTarget};
