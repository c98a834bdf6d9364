//! Tables with an entry for each code of 8 bits.

use crate::loops::Expr;
use crate::ops::{TypeError, rule};
use crate::types::{Element, Scale, TensorType};

/// Entries of a table.
pub(crate) const SIZE: usize = 256;

/// Checks a tensor of codes: i8 or u8 with a shared exponent.
pub(crate) fn check_codes(name: &str, x: &TensorType) -> Result<(), TypeError> {
    let byte = matches!(x.element, Element::I8 | Element::U8);
    rule::ensure(byte && x.scale == Scale::Exponent, || {
        format!("{name} takes codes i8<2^e> or u8<2^e>, here {x}")
    })
}

/// Checks a table: a vector of [`SIZE`] entries.
pub(crate) fn check_table(name: &str, table: &TensorType) -> Result<(), TypeError> {
    rule::ensure(table.shape.dims() == [SIZE], || {
        format!("{name} takes a table of {SIZE} entries, here {table}")
    })
}

/// The code of a table's first entry.
pub(crate) fn first_code(x: &TensorType) -> i64 {
    if x.element == Element::I8 { -128 } else { 0 }
}

/// The entry of a code.
pub(crate) fn entry(x: &TensorType, code: i64) -> usize {
    (code - first_code(x)) as usize
}

/// [`entry`] in loops.
pub(crate) fn entry_expression(x: &TensorType, code: Expr) -> Expr {
    code.extend() - Expr::i64(first_code(x))
}
