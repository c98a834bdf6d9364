//! Errors of matrix products of at most four images: rows of weights are added up by their errors, of a single image those whose
//! errors are not 0. `trainc_xpulp_added.h`.

use trainc_c::text::{Scratch, Text, declare};
use trainc_ir::product::{Convolution, Pass};

use super::layout::{CORES, is_matrix};

/// Most images, and fewest lanes; of several images, fewest rows.
const IMAGES: usize = 4;
const LANES: usize = 8;
const ROWS: usize = 4;
/// Cycles of four rows and lanes, of a row that is looked at, of a sum, and, where rows are no fours, of a lane by the last ones.
const TILE: [u64; 2] = [21, 37];
const ROW: u64 = 10;
const SUM: [u64; 2] = [12, 8];
const REST: u64 = 64;
/// Of four rows of a single image, those that are assumed to count: errors behind a `relu` are 0 as often as not.
const COUNT: u64 = 2;

/// See the module documentation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Added {
    images: usize,
    rows: usize,
    lanes: usize,
    /// In the working memory.
    listed: usize,
    factors: usize,
}

impl Added {
    /// The errors of so few images that a product is.
    pub(crate) fn of(c: &Convolution) -> Option<Added> {
        let few = match c.images {
            1 => true,
            images => images <= IMAGES && c.outputs >= ROWS,
        };
        let suits = c.pass == Pass::Error && is_matrix(c) && few && c.channels >= LANES;
        let (rows, lanes) = (c.outputs, c.channels);
        suits.then_some(Added { images: c.images, rows, lanes, listed: 0, factors: 0 })
    }

    /// Each takes what is worked out at a time.
    pub(crate) fn parts(&self) -> usize {
        (self.lanes / if self.images == 1 { LANES } else { 4 }).min(CORES)
    }

    pub(crate) fn cycles(&self) -> u64 {
        let [images, rows, lanes] = [self.images, self.rows, self.lanes].map(|n| n as u64);
        let (kind, counting) = match images {
            1 => (0, (rows * COUNT / 4).div_ceil(4)),
            _ => (1, rows.div_ceil(4)),
        };
        let rest = if images == 1 || rows.is_multiple_of(4) { 0 } else { lanes * REST };
        rest + rows * ROW + lanes * images * SUM[kind] + counting * lanes.div_ceil(4) * TILE[kind]
    }

    /// Takes its working memory.
    pub(crate) fn lay_out(&mut self, scratch: &mut Scratch) {
        let fours = self.rows.div_ceil(4);
        if self.images == 1 {
            self.listed = scratch.take(16 * fours);
            self.factors = scratch.take(4 * fours);
        } else {
            self.factors = scratch.take(16 * fours);
        }
    }

    /// Declares its working memory.
    pub(crate) fn declarations(&self, out: &mut Text) {
        if self.images == 1 {
            let text = "Where the rows begin that count.";
            declare(out, "int32_t", "listed", self.listed, text);
            declare(out, "int8_t", "factors", self.factors, "Their errors.");
        } else {
            declare(out, "int8_t", "factors", self.factors, "Errors of four rows, by images.");
        }
    }

    /// The statements that leave sums, `stride` from an image to the next, and their widths.
    pub(crate) fn emit(&self, stride: usize, out: &mut Text) {
        let single = self.images == 1;
        out.line("struct trainc_xpulp_added work;");
        for (field, value) in [
            ("weights", "x1".to_string()),
            ("errors", "x0".into()),
            ("row_count", self.rows.to_string()),
            ("lane_count", self.lanes.to_string()),
            ("images", self.images.to_string()),
            ("parts", self.parts().to_string()),
            ("listed", if single { "listed" } else { "0" }.into()),
            ("factors", "factors".into()),
            ("sums", "sums".into()),
            ("stride", stride.to_string()),
            ("largest", "widths".into()),
        ] {
            out.line(format!("work.{field} = {value};"));
        }
        let (list, of) = if single { ("rows", "") } else { ("words", "_of_images") };
        out.line(format!("trainc_xpulp_list_{list}(&work);"));
        out.long(format!(
            "TRAINC_PARALLEL_FOR(&work, {}, trainc_xpulp_add_rows{of});",
            self.parts()
        ));
    }
}
