//! Errors of matrix products of a single image: the rows of weights whose errors are not 0 are added up, by these.
//! `trainc_xpulp_added.h`.

use trainc_c::text::{Scratch, Text, declare};
use trainc_ir::product::{Convolution, Pass};

use super::layout::{CORES, is_matrix};

/// Cycles of four rows and lanes, of four rows, of a row that is looked at, and of a sum whose width is taken.
const TILE: u64 = 27;
const ROWS: u64 = 70;
const ROW: u64 = 10;
const SUM: u64 = 8;
/// Of four rows, those that are assumed to count: errors behind a `relu` are 0 as often as not.
const COUNT: u64 = 2;

/// See the module documentation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Added {
    rows: usize,
    lanes: usize,
    /// In the working memory.
    listed: usize,
    factors: usize,
}

impl Added {
    /// The error of a single image that a product is.
    pub(crate) fn of(c: &Convolution) -> Option<Added> {
        let suits = c.pass == Pass::Error && is_matrix(c) && c.images == 1 && c.channels >= 4;
        suits.then_some(Added { rows: c.outputs, lanes: c.channels, listed: 0, factors: 0 })
    }

    pub(crate) fn parts(&self) -> usize {
        self.lanes.div_ceil(4).min(CORES)
    }

    pub(crate) fn cycles(&self) -> u64 {
        let [rows, lanes] = [self.rows, self.lanes].map(|n| n as u64);
        let groups = (rows * COUNT / 4).div_ceil(4);
        rows * ROW + lanes * SUM + groups * (ROWS + lanes.div_ceil(4) * TILE)
    }

    /// Takes its working memory.
    pub(crate) fn lay_out(&mut self, scratch: &mut Scratch) {
        let rows = self.rows.next_multiple_of(4);
        (self.listed, self.factors) = (scratch.take(4 * rows), scratch.take(rows));
    }

    /// Declares its working memory.
    pub(crate) fn declarations(&self, out: &mut Text) {
        declare(out, "int32_t", "listed", self.listed, "The rows that count.");
        declare(out, "int8_t", "factors", self.factors, "Their errors.");
    }

    /// The statements that leave sums and their widths.
    pub(crate) fn emit(&self, out: &mut Text) {
        out.line("struct trainc_xpulp_added work;");
        for (field, value) in [
            ("weights", "x1".to_string()),
            ("errors", "x0".into()),
            ("row_count", self.rows.to_string()),
            ("lane_count", self.lanes.to_string()),
            ("parts", self.parts().to_string()),
            ("listed", "listed".into()),
            ("factors", "factors".into()),
            ("sums", "sums".into()),
            ("largest", "widths".into()),
        ] {
            out.line(format!("work.{field} = {value};"));
        }
        out.line("trainc_xpulp_list_rows(&work);");
        out.long(format!("TRAINC_PARALLEL_FOR(&work, {}, trainc_xpulp_add_rows);", self.parts()));
    }
}
