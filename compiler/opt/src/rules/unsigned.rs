//! Products of u8 as products of i8, for targets whose kernels take i8: an unsigned byte is twice its upper seven bits
//! plus its lowest bit, and products are linear.

use trainc_ir::Element;

use super::instance::Instance;
use super::{Exactness, Patterns, Rule, Sides};

/// The product of the two parts of `?u`.
macro_rules! parts {
    ($before:literal, $after:literal) => {
        (
            concat!("(any{bilinear} ?a ", $before, "?u", $after, ")"),
            concat!(
                "(doubled_sum (any{bilinear} ?a ",
                $before,
                "(split_byte{part=upper} ?u)",
                $after,
                ") (any{bilinear} ?a ",
                $before,
                "(split_byte{part=lowest} ?u)",
                $after,
                "))"
            ),
        )
    };
}

pub(super) const RULES: &[Rule] = &[
    // Sums are modulo 2^32 on both sides. Of two operands one at most is unsigned.
    Rule {
        name: "unsigned-product-by-parts",
        summary: "product(u: u8, y) = doubled_sum(product(upper(u), y), product(lowest(u), y)), u either operand",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[parts!("", " ?y"), parts!("?x ", "")],
            conditions: &[("u is u8", |m| Some(m.ty("u")?.element == Element::U8))],
            ..Patterns::NONE
        }),
        instance: Instance::Drawn(&[]),
    },
];
