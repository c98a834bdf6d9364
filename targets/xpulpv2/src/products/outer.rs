//! Weight gradients of matrix products of at most four images: outer products, whose sums are rounded as they arise.

use trainc_c::product::suffix;
use trainc_c::text::{Scratch, Text, declare};
use trainc_ir::product::{Convolution, Narrowing, Pass};

use super::layout::{CORES, Kind, Layout, Set, is_matrix};
use super::{emit_rounding, set};

/// Most images, which fill a word.
const IMAGES: usize = 4;
/// Cycles of a product of one image that is rounded, of a sum, and of its width, for which few rows are worked out; of a row, of a
/// vector that is packed, and of a single image's.
const SINGLE: u64 = 5;
const ELEMENT: u64 = 7;
const WIDTH: u64 = 1;
/// Of eight rows, those that are assumed to count, of a single image and of several: errors behind a `relu` are often 0.
const COUNT: [u64; 2] = [4, 5];
const ROW: u64 = 80;
const VECTOR: u64 = 30;
const BYTE: u64 = 6;
/// Cycles of four weights that are updated in place of being stored, and of four in rows without errors.
const UPDATED: u64 = 2;
const CLAMPED: u64 = 3;

/// Where words of rows and lanes lie; of a single image, what there is of lanes instead.
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
    begins: usize,
    magnitudes: usize,
    signs: usize,
    /// Whether the rounded sums are subtracted from weights.
    updates: bool,
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
        let images = c.images;
        let widths = scratch.take(parts * 8);
        let begins = scratch.take(parts * 4);
        let [mut packed_rows, mut packed_lanes, mut magnitudes, mut signs] = [0; 4];
        if images == 1 {
            magnitudes = scratch.take(lanes.tiles() * 8);
            signs = scratch.take(lanes.tiles() * 4);
        } else {
            packed_rows = scratch.take(rows.tiles() * 16);
            // A word behind the lanes is read.
            packed_lanes = scratch.take(lanes.tiles() * 16 + 16);
        }
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
            begins,
            magnitudes,
            signs,
            updates: false,
            bytes,
        })
    }

    /// The update of weights by it.
    pub(crate) fn update(self) -> Outer {
        Outer { updates: true, ..self }
    }

    /// An estimate of its cycles.
    pub(crate) fn cycles(&self) -> u64 {
        let [rows, lanes] = [self.rows.count, self.lanes.count].map(|count| count as u64);
        let (each, vector, count) = match self.images {
            1 => (SINGLE, BYTE, COUNT[0]),
            _ => (ELEMENT + WIDTH, VECTOR, COUNT[1]),
        };
        let counting = (rows * count).div_ceil(8);
        let words = lanes.div_ceil(4);
        let updated = match self.updates {
            true => counting * words * UPDATED + (rows - counting) * words * CLAMPED,
            false => 0,
        };
        counting * lanes * each + rows * ROW + (rows + lanes) * vector + updated
    }

    /// The statements of its function.
    pub(crate) fn emit(&self, out: &mut Text) {
        declare(out, "int32_t", "begins", self.begins, "Rows, of parts.");
        if self.images == 1 {
            declare(out, "uint32_t", "widths", self.widths, "By parts, of rows and of lanes.");
            declare(out, "uint16_t", "magnitudes", self.magnitudes, "Of the lanes.");
            declare(out, "int8_t", "signs", self.signs, "Of the lanes.");
            out.line("");
        } else {
            let text = "Largest sums, by parts of the rows.";
            declare(out, "uint32_t", "widths", self.widths, text);
            self.emit_packing(out);
        }
        out.line("struct trainc_xpulp_outer work;");
        let [rows, lanes] = [&self.rows, &self.lanes].map(|set| format!("x{}", set.operand));
        let places = match self.images {
            1 => [("rows", rows.as_str()), ("lanes", lanes.as_str())],
            _ => [("rows", "rows"), ("lanes", "lanes")],
        };
        for (field, value) in
            places.into_iter().chain([("widths", "widths"), ("begins", "begins"), ("y", "y0")])
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
        let parts = self.parts;
        out.line(format!("work.weights = {};", if self.updates { "x3" } else { "0" }));
        if self.images == 1 {
            out.line("work.magnitudes = magnitudes;");
            out.line("work.signs = signs;");
            out.long(format!("TRAINC_PARALLEL_FOR(&work, {parts}, trainc_xpulp_outer_single);"));
        } else {
            out.line("work.magnitudes = 0;");
            out.line("work.signs = 0;");
            out.long(format!("TRAINC_PARALLEL_FOR(&work, {parts}, trainc_xpulp_outer_widths);"));
        }
        out.line("const uint32_t bits = trainc_xpulp_outer_most(&work);");
        out.line("work.most = bits;");
        if self.updates {
            // The weights' exponent, which may lie where the result's does.
            out.line("const int32_t exponent = x3_exponent[0];");
        }
        emit_rounding(Some(self.finish), "work", out);
        if self.updates {
            out.line("y0_exponent[0] = exponent;");
        }
        out.long(format!(
            "TRAINC_PARALLEL_FOR(&work, {parts}, trainc_xpulp_{}_outer_{});",
            if self.updates { "update" } else { "store" },
            suffix(Some(self.finish))
        ));
    }

    /// Makes words of vectors of several images.
    fn emit_packing(&self, out: &mut Text) {
        let text = format!("{} words.", self.rows.tiles() * 4);
        declare(out, "int8_t", "rows", self.packed_rows, &text);
        let text = format!("{} words, and one that is read.", self.lanes.tiles() * 4);
        declare(out, "int8_t", "lanes", self.packed_lanes, &text);
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
    }
}
