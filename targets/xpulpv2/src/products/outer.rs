//! Weight gradients of matrix products of at most four images: outer products, whose sums are rounded as they arise.

use trainc_c::product::suffix;
use trainc_c::text::{Scratch, Text, declare};
use trainc_ir::product::{Convolution, Narrowing, Pass};

use super::layout::{CORES, Kind, Layout, Set, is_matrix};
use super::{emit_rounding, set};

/// Most images, which fill a word.
const IMAGES: usize = 4;
/// Cycles of a product of one image that is rounded, of a sum, of another image's, of a row, and of a vector that is packed.
const SINGLE: u64 = 7;
const ELEMENT: u64 = 9;
const WIDTH: u64 = 4;
/// Of four rows, those that are assumed to count: errors behind a `relu` are often 0.
const COUNT: u64 = 3;
const ROW: u64 = 80;
const VECTOR: u64 = 30;

/// Where words of rows and lanes lie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Outer {
    rows: Set,
    lanes: Set,
    images: usize,
    finish: Narrowing,
    parts: usize,
    packed_rows: usize,
    packed_lanes: usize,
    widths: usize,
    magnitudes: usize,
    signs: usize,
    pub(crate) bytes: usize,
}

impl Outer {
    /// The outer product that a gradient is; `None` if it has more images, or its sums are kept.
    pub(crate) fn of(c: &Convolution, layout: &Layout, finish: Option<Narrowing>) -> Option<Outer> {
        let finish = finish?;
        let signed = !matches!(
            finish,
            Narrowing::Requantize { low, .. } | Narrowing::Adaptive { low, .. } if low != -127
        );
        if c.pass != Pass::Gradient || !is_matrix(c) || c.images > IMAGES || !signed {
            return None;
        }
        let columns = |set: &Set| Set { kind: Kind::Columns, ..*set };
        let (rows, lanes) = (columns(&layout.rows), columns(&layout.lanes));
        let mut scratch = Scratch::default();
        let parts = rows.count.min(CORES);
        let packed_rows = scratch.take(rows.tiles() * 16);
        // A word behind the lanes is read.
        let packed_lanes = scratch.take(lanes.tiles() * 16 + 16);
        let widths = scratch.take(parts * 4);
        let images = c.images;
        let single = if images == 1 { lanes.tiles() * 4 } else { 0 };
        let (magnitudes, signs) = (scratch.take(2 * single), scratch.take(single));
        let bytes = scratch.bytes();
        Some(Outer {
            rows,
            lanes,
            images,
            finish,
            parts,
            packed_rows,
            packed_lanes,
            widths,
            magnitudes,
            signs,
            bytes,
        })
    }

    /// An estimate of its cycles.
    pub(crate) fn cycles(&self) -> u64 {
        let [rows, lanes] = [self.rows.count, self.lanes.count].map(|count| count as u64);
        let each = if self.images == 1 { SINGLE } else { ELEMENT + WIDTH };
        let counting = (rows * COUNT).div_ceil(4);
        counting * lanes * each + rows * ROW + (rows + lanes) * VECTOR
    }

    /// The statements of its function.
    pub(crate) fn emit(&self, out: &mut Text) {
        let text = format!("{} words.", self.rows.tiles() * 4);
        declare(out, "int8_t", "rows", self.packed_rows, &text);
        let text = format!("{} words, and one that is read.", self.lanes.tiles() * 4);
        declare(out, "int8_t", "lanes", self.packed_lanes, &text);
        declare(out, "uint32_t", "widths", self.widths, "Of the sums, by parts of the rows.");
        if self.images == 1 {
            declare(out, "uint16_t", "magnitudes", self.magnitudes, "Of the lanes.");
            declare(out, "int8_t", "signs", self.signs, "Of the lanes.");
        }
        out.line("");
        out.line("struct trainc_xpulp_packing packing;");
        for (name, vectors) in [("rows", &self.rows), ("lanes", &self.lanes)] {
            set(out, "packing.set", vectors, &format!("x{}", vectors.operand), false);
            out.line(format!("packing.to = {name};"));
            out.long(format!(
                "TRAINC_PARALLEL_FOR(&packing, {}, trainc_xpulp_pack_tiles);",
                vectors.tiles()
            ));
        }
        out.line("struct trainc_xpulp_outer work;");
        for (field, value) in
            [("rows", "rows"), ("lanes", "lanes"), ("widths", "widths"), ("y", "y0")]
        {
            out.line(format!("work.{field} = {value};"));
        }
        for (field, value) in [
            ("row_count", self.rows.count),
            ("lane_count", self.lanes.count),
            ("images", self.images),
            ("parts", self.parts),
        ] {
            out.line(format!("work.{field} = {value};"));
        }
        if self.images == 1 {
            out.line("work.magnitudes = magnitudes;");
            out.line("work.signs = signs;");
            out.line("trainc_xpulp_outer_single(&work);");
        } else {
            out.line("work.magnitudes = 0;");
            out.line("work.signs = 0;");
        }
        out.long(format!("TRAINC_PARALLEL_FOR(&work, {}, trainc_xpulp_outer_widths);", self.parts));
        out.line(format!("const uint32_t bits = trainc_xpulp_bits(widths, {});", self.parts));
        out.line("work.bits = bits;");
        emit_rounding(Some(self.finish), "work", out);
        out.long(format!(
            "TRAINC_PARALLEL_FOR(&work, {}, trainc_xpulp_store_outer_{});",
            self.parts,
            suffix(Some(self.finish))
        ));
    }
}
