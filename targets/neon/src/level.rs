//! Levels of the architecture.

/// What a processor offers for products of 8-bit integers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Armv7-A with NEON: widening multiplications, 16 registers of 16 bytes.
    Armv7,
    /// AArch64 of Armv8.0: widening multiplications, 32 registers.
    Baseline,
    /// `sdot`: four products of a lane in one sum (FEAT_DotProd).
    Dotprod,
    /// `smmla`: a 2x8 by 8x2 product (FEAT_I8MM).
    I8mm,
}
