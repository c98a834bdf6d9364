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
    /// The best of the three of AArch64 that the processor has, asked for at run time.
    Dispatch,
}

const BASELINE: (&str, &str) =
    ("trainc_neon_baseline.h", include_str!("../support/trainc_neon_baseline.h"));
const IN_PLACE: (&str, &str) =
    ("trainc_neon_in_place.h", include_str!("../support/trainc_neon_in_place.h"));
const MATRIX: (&str, &str) =
    ("trainc_neon_matrix.h", include_str!("../support/trainc_neon_matrix.h"));
const MATRIX_I8MM: (&str, &str) =
    ("trainc_neon_matrix_i8mm.h", include_str!("../support/trainc_neon_matrix_i8mm.h"));
const POOL: (&str, &str) = ("trainc_neon_pool.h", include_str!("../support/trainc_neon_pool.h"));
const NORMALIZATION: (&str, &str) =
    ("trainc_neon_normalization.h", include_str!("../support/trainc_neon_normalization.h"));
const DEPTHWISE: (&str, &str) =
    ("trainc_neon_depthwise.h", include_str!("../support/trainc_neon_depthwise.h"));
const FLOAT: (&str, &str) = ("trainc_neon_float.h", include_str!("../support/trainc_neon_float.h"));
const DOTPROD: (&str, &str) =
    ("trainc_neon_dotprod.h", include_str!("../support/trainc_neon_dotprod.h"));
const I8MM: (&str, &str) = ("trainc_neon_i8mm.h", include_str!("../support/trainc_neon_i8mm.h"));
const OUTER_I8MM: (&str, &str) =
    ("trainc_neon_outer_i8mm.h", include_str!("../support/trainc_neon_outer_i8mm.h"));
const SHIFTED: (&str, &str) =
    ("trainc_neon_shifted.h", include_str!("../support/trainc_neon_shifted.h"));
const DISPATCH: (&str, &str) =
    ("trainc_neon_dispatch.h", include_str!("../support/trainc_neon_dispatch.h"));

const LOOKUP: (&str, &str) =
    ("trainc_neon_lookup.h", include_str!("../support/trainc_neon_lookup.h"));

impl Level {
    /// Instructions that multiply a block of two panels: 8 by 8 sums of 16 products.
    pub(crate) fn block_instructions(self) -> usize {
        match self {
            Level::Armv7 => 300,
            Level::Baseline => 175,
            Level::Dotprod | Level::Dispatch => 66,
            Level::I8mm => 36,
        }
    }

    /// Whether code may count on `sdot`.
    pub(crate) fn has_dots(self) -> bool {
        matches!(self, Level::Dotprod | Level::I8mm)
    }

    /// How a kernel calls a support function that differs between levels.
    pub(crate) fn function(self, name: &str) -> String {
        match self {
            Level::Armv7 | Level::Baseline => format!("trainc_{name}_baseline"),
            Level::Dotprod => format!("trainc_{name}_dotprod"),
            Level::I8mm => format!("trainc_{name}_i8mm"),
            Level::Dispatch => format!("level->{name}"),
        }
    }

    /// Headers of the support functions, in the order of inclusion.
    pub(crate) fn headers(self) -> Vec<(&'static str, &'static str)> {
        let mut headers = vec![
            ("trainc_neon.h", include_str!("../support/trainc_neon.h")),
            ("trainc_neon_packing.h", include_str!("../support/trainc_neon_packing.h")),
            ("trainc_neon_rounding.h", include_str!("../support/trainc_neon_rounding.h")),
            ("trainc_neon_bits.h", include_str!("../support/trainc_neon_bits.h")),
            ("trainc_neon_outer.h", include_str!("../support/trainc_neon_outer.h")),
            NORMALIZATION,
            POOL,
            ("trainc_neon_sum.h", include_str!("../support/trainc_neon_sum.h")),
        ];
        headers.extend((self != Level::Armv7).then_some(LOOKUP));
        headers.extend(match self {
            Level::Armv7 => vec![BASELINE],
            Level::Baseline => vec![BASELINE, FLOAT],
            Level::Dotprod => vec![IN_PLACE, DOTPROD, SHIFTED, MATRIX, DEPTHWISE, FLOAT],
            Level::I8mm => {
                vec![
                    IN_PLACE,
                    DOTPROD,
                    I8MM,
                    OUTER_I8MM,
                    SHIFTED,
                    MATRIX,
                    MATRIX_I8MM,
                    DEPTHWISE,
                    FLOAT,
                ]
            }
            Level::Dispatch => vec![IN_PLACE, BASELINE, DOTPROD, I8MM, DISPATCH, FLOAT],
        });
        headers
    }
}
