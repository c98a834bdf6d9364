//! Weight gradients of matrix products of few images: outer products, whose sums are rounded as they arise.
//! `support/trainc_neon_outer.h`.

use trainc_c::product::suffix;
use trainc_ir::product::{Convolution, Narrowing, Pass};

use super::emit_finish;
use super::text::Text;

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

/// An estimate of its instructions.
pub(super) fn instructions(c: &Convolution) -> u64 {
    let images = c.images as u64;
    let each = if images == 1 { SINGLE } else { RESULTS + IMAGE * images };
    c.outputs as u64 * (ROW + c.channels.div_ceil(LANES) as u64 * each)
}

/// The kernel's body.
pub(super) fn emit(c: &Convolution, finish: Option<Narrowing>, out: &mut Text) {
    let (x, dy) = if c.swapped { ("x1", "x0") } else { ("x0", "x1") };
    let sizes = format!("{}, {}, {}", c.images, c.outputs, c.channels);
    out.line("(void)scratch;");
    if finish.is_some_and(Narrowing::asks_magnitude) {
        out.long(format!(
            "const int32_t bits = trainc_magnitude_bits(trainc_outer_bits({dy}, {x}, {sizes}));"
        ));
    }
    emit_finish(finish, out);
    out.long(format!("trainc_outer_{}({dy}, {x}, {sizes}, y0, &rounding);", suffix(finish)));
}
