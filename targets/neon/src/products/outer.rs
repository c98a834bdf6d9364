//! Weight gradients of matrix products of few images: outer products, whose sums are rounded as they arise.
//! `support/trainc_neon_outer.h`, `support/trainc_neon_outer_i8mm.h`.

use trainc_c::product::suffix;
use trainc_ir::product::{Convolution, Narrowing, Pass};

use super::text::{Text, declare};
use super::{emit_finish, operands};
use crate::level::Level;

/// Most images: those of a block of panels cost as much whether they are there or not.
const IMAGES: usize = 8;
/// Least lanes: those of a vector of results.
const LANES: usize = 16;
/// Instructions of 16 results of one image; of more, those of the results and of each image.
const SINGLE: u64 = 38;
const RESULTS: u64 = 48;
const IMAGE: u64 = 8;
/// Instructions of a row.
const ROW: u64 = 20;
/// By `sdot`: instructions of 16 results and of each four images of them.
const DOT_RESULTS: u64 = 50;
const DOT_IMAGES: u64 = 14;
/// By `smmla`: instructions of 16 results.
const MATRIX_RESULTS: u64 = 61;

/// Whether a gradient is one, with its sums narrowed.
pub(super) fn suits(c: &Convolution, finish: Option<Narrowing>) -> bool {
    let signed = match finish {
        None => false,
        Some(Narrowing::Requantize { low, .. } | Narrowing::Adaptive { low, .. }) => low == -127,
        Some(_) => true,
    };
    let matrix = c.groups == 1 && c.tap_count() == 1 && c.plane() == 1 && c.places() == 1;
    signed && matrix && c.pass == Pass::Gradient && c.images <= IMAGES && c.channels >= LANES
}

/// Whether `sdot` sums it.
fn by_dots(c: &Convolution, level: Level) -> bool {
    matches!(level, Level::Dotprod | Level::I8mm) && c.images > 1
}

/// Whether `smmla` sums it: it takes eight images.
fn by_matrices(c: &Convolution, level: Level) -> bool {
    level == Level::I8mm && c.images > 4
}

/// Bytes of working memory: some for a product's function; the operands in the order of `sdot`.
pub(super) fn scratch_bytes(c: &Convolution, level: Level) -> usize {
    if by_dots(c, level) {
        operand_at(c) + c.channels.div_ceil(16) * 64 * c.images.div_ceil(4)
    } else {
        16
    }
}

/// Where the operand is, behind the errors.
fn operand_at(c: &Convolution) -> usize {
    (8 * c.outputs).next_multiple_of(16)
}

/// An estimate of its instructions.
pub(super) fn instructions(c: &Convolution, level: Level) -> u64 {
    let images = c.images as u64;
    let each = match (images, by_dots(c, level)) {
        (1, _) => SINGLE,
        (_, true) if by_matrices(c, level) => MATRIX_RESULTS,
        (_, true) => DOT_RESULTS + DOT_IMAGES * images.div_ceil(4),
        (_, false) => RESULTS + IMAGE * images,
    };
    c.outputs as u64 * (ROW + c.channels.div_ceil(LANES) as u64 * each)
}

/// The kernel's body.
pub(super) fn emit(c: &Convolution, level: Level, finish: Option<Narrowing>, out: &mut Text) {
    let [x, dy] = operands(c);
    let sizes = format!("{}, {}, {}", c.images, c.outputs, c.channels);
    let (bits, results, operands) = if by_dots(c, level) {
        let (level, text) = match by_matrices(c, level) {
            true => ("i8mm", "[input channels][8 images]"),
            false => ("dotprod", "[16 input channels][words of 4 images][16][4]"),
        };
        declare(out, "int8_t", "errors", 0, "[output channels][8 images]");
        declare(out, "int8_t", "operand", operand_at(c), text);
        out.long(format!("trainc_outer_operands_{level}({dy}, {x}, {sizes}, errors, operand);"));
        let of_level = |name: &str| format!("trainc_{name}_{level}");
        (of_level("outer_bits"), of_level("outer"), "errors, operand".to_string())
    } else {
        out.line("(void)scratch;");
        ("trainc_outer_bits".to_string(), "trainc_outer".to_string(), format!("{dy}, {x}"))
    };
    if finish.is_some_and(Narrowing::asks_magnitude) {
        out.long(format!(
            "const int32_t bits = trainc_magnitude_bits({bits}({operands}, {sizes}));"
        ));
    }
    emit_finish(finish, out);
    out.long(format!("{results}_{}({operands}, {sizes}, y0, &rounding);", suffix(finish)));
}
