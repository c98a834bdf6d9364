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

impl Level {
    /// Suffix of the support functions that differ between levels.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Level::Armv7 | Level::Baseline => "baseline",
            Level::Dotprod => "dotprod",
            Level::I8mm => "i8mm",
        }
    }

    /// Headers of the support functions, in the order of inclusion.
    pub(crate) fn headers(self) -> [(&'static str, &'static str); 4] {
        let tile = match self {
            Level::Armv7 | Level::Baseline => {
                ("trainc_neon_baseline.h", include_str!("../support/trainc_neon_baseline.h"))
            }
            Level::Dotprod => {
                ("trainc_neon_dotprod.h", include_str!("../support/trainc_neon_dotprod.h"))
            }
            Level::I8mm => ("trainc_neon_i8mm.h", include_str!("../support/trainc_neon_i8mm.h")),
        };
        [
            ("trainc_neon.h", include_str!("../support/trainc_neon.h")),
            ("trainc_neon_packing.h", include_str!("../support/trainc_neon_packing.h")),
            ("trainc_neon_rounding.h", include_str!("../support/trainc_neon_rounding.h")),
            tile,
        ]
    }
}
