//! Weight gradients whose operand is copied once for each column of taps: k are the places of the result, and what a tap meets
//! at them lies as they do. A row of taps is a start some rows further down in a copy. `support/trainc_neon_shifted.h`.
//!
//! With `smmla` the result's errors are packed, too. With `sdot` they are lanes that are read where they lie, and the panels of a
//! copy are the rows of the tile kernel.

use trainc_ir::product::{Convolution, Narrowing, Pass};

use super::super::gradient::emit_store;
use super::super::parts::{PARTS, Parts, for_parts, own, range};
use super::super::text::{Scratch, Text, declare, times};
use super::super::{emit_finish, operands};
use super::{CALL, order};
use crate::level::Level;

/// Bytes that copies may take in all parts, where the rows' panels take no more.
const PART_BYTES: usize = 64 << 10;

/// A weight gradient by shifted copies.
#[derive(Debug)]
pub(crate) struct ShiftedGradient<'a> {
    convolution: &'a Convolution,
    level: Level,
    /// Columns of the result in whole units of 8, and k of an image in whole blocks of 16.
    pitch: usize,
    image_k: usize,
    /// Of a copy: rows of the operand by what remains by the stride.
    residues: Vec<Residue>,
    layout: Layout,
}

/// Rows of a copy that are some stride's remainder apart from the first window's.
#[derive(Debug)]
struct Residue {
    /// The first window's first row of these.
    first: usize,
    /// How many rows, and how many come before in a copy.
    rows: usize,
    before: usize,
}

/// Sizes and places in the working memory.
#[derive(Debug, Default)]
struct Layout {
    bytes: usize,
    sums: usize,
    rows: usize,
    copies: usize,
    runs: usize,
    temporary: usize,
    rows_bytes: usize,
    /// Of an image, and of all with what the last block reads past its end.
    copy_bytes: usize,
    copies_bytes: usize,
    temporary_bytes: usize,
    parts: usize,
    row_parts: usize,
}

impl<'a> ShiftedGradient<'a> {
    /// Plans one, where it is one.
    pub(crate) fn of(
        level: Level,
        c: &'a Convolution,
        finish: Option<Narrowing>,
    ) -> Option<ShiftedGradient<'a>> {
        let adaptive = matches!(finish, Some(Narrowing::Adaptive { .. }));
        let whole = c.outputs.is_multiple_of(8) && c.channels.is_multiple_of(16);
        let levels = matches!(level, Level::Dotprod | Level::I8mm);
        if !levels || adaptive || c.pass != Pass::Gradient || c.groups > 1 || !whole {
            return None;
        }
        let (pitch, [down, right]) = (c.columns.next_multiple_of(8), c.strides);
        let span = right * if pitch >= 16 { 16 } else { 8 };
        if c.images * c.outputs * c.channels == 0 || right > 2 || c.width < span {
            return None;
        }
        let mut residues: Vec<Residue> = Vec::new();
        for tap in 0..c.taps[0] {
            let (first, rows) = (tap * c.dilations[0] % down, c.rows + tap * c.dilations[0] / down);
            match residues.iter_mut().find(|residue| residue.first == first) {
                Some(residue) => residue.rows = residue.rows.max(rows),
                None => residues.push(Residue { first, rows, before: 0 }),
            }
        }
        let mut before = 0;
        for residue in &mut residues {
            residue.before = before;
            before += residue.rows;
        }
        let image_k = (c.rows * pitch).next_multiple_of(16);
        if level == Level::Dotprod && image_k != c.places() {
            return None;
        }
        let mut product = ShiftedGradient {
            convolution: c,
            level,
            pitch,
            image_k,
            residues,
            layout: Layout::default(),
        };
        product.layout = product.lay_out();
        Some(product)
    }

    /// Whether the result's errors are packed.
    fn packed(&self) -> bool {
        self.level == Level::I8mm
    }

    fn row_panels(&self) -> usize {
        self.convolution.outputs.div_ceil(8)
    }

    fn lane_panels(&self) -> usize {
        self.convolution.channels.div_ceil(8)
    }

    /// Bytes of a row of a panel.
    fn row_bytes(&self) -> usize {
        8 * self.pitch
    }

    /// Rows of a copy.
    fn copied_rows(&self) -> usize {
        self.residues.iter().map(|residue| residue.rows).sum()
    }

    /// Where a row of taps starts in a copy.
    fn tap_at(&self, tap: usize) -> usize {
        let c = self.convolution;
        let (first, rows) =
            (tap * c.dilations[0] % c.strides[0], tap * c.dilations[0] / c.strides[0]);
        let residue = self.residues.iter().find(|residue| residue.first == first);
        (residue.map_or(0, |residue| residue.before) + rows) * self.row_bytes()
    }

    fn lay_out(&self) -> Layout {
        let c = self.convolution;
        let (row_panels, lane_panels) = (self.row_panels(), self.lane_panels());
        let mut scratch = Scratch::default();
        let sums = scratch.take(row_panels * lane_panels * c.tap_count() * 256);
        let mut layout = Layout { sums, ..Layout::default() };
        match self.packed() {
            true => {
                layout.rows_bytes = c.images * self.image_k * 8;
                layout.rows = scratch.take(row_panels * layout.rows_bytes);
            }
            false => {
                layout.rows = scratch.take(4 * c.outputs);
                layout.runs = scratch.take(8 * c.images);
            }
        }
        layout.copy_bytes = self.copied_rows() * self.row_bytes();
        layout.copies_bytes = c.images * layout.copy_bytes + 64;
        let most = PART_BYTES.max(row_panels * c.images * self.image_k * 8) / layout.copies_bytes;
        layout.parts = most.clamp(1, PARTS).min(lane_panels * c.taps[1]);
        layout.row_parts = row_panels.min(PARTS);
        layout.copies = scratch.take(layout.parts * layout.copies_bytes);
        layout.temporary_bytes = 16 * c.tap_count();
        layout.temporary = scratch.take(layout.row_parts * layout.temporary_bytes);
        layout.bytes = scratch.bytes();
        layout
    }

    /// Bytes of working memory.
    pub(crate) fn scratch_bytes(&self) -> usize {
        self.layout.bytes
    }

    /// An estimate of the instructions of a call.
    pub(crate) fn instructions(&self) -> usize {
        let c = self.convolution;
        let (row_panels, lane_panels) = (self.row_panels(), self.lane_panels());
        let [around, image, block] = match self.packed() {
            true => [95, 6, 37],
            false => [127, 8, 77],
        };
        let tile = around + c.images * (image + self.image_k / 16 * block);
        let tiles = row_panels * lane_panels * c.tap_count() * tile;
        // Of 8 channels: whole blocks of columns, then half a block.
        let row = match self.packed() {
            true => self.pitch / 16 * 25 + self.pitch % 16 / 8 * 22,
            false => self.pitch / 16 * 34 + self.pitch % 16 / 8 * 26,
        };
        let panel = |rows: usize| 150 * self.pitch.div_ceil(16) + rows * row;
        let rows = match self.packed() {
            true => c.images * row_panels * panel(c.rows),
            false => 4 * c.outputs,
        };
        let copies = c.images * lane_panels * c.taps[1] * panel(self.copied_rows());
        let stored = c.outputs * c.channels * c.tap_count();
        let store = match c.tap_count() {
            1 => stored * 2,
            9 => stored * 5 / 2,
            _ => stored * 6,
        };
        CALL + tiles + rows + copies + store
    }

    /// The kernel's body.
    pub(crate) fn emit(&self, finish: Option<Narrowing>, parts: &mut Parts<'_>, out: &mut Text) {
        let c = self.convolution;
        let layout = &self.layout;
        let (row_panels, lane_panels, taps) =
            (self.row_panels(), self.lane_panels(), c.tap_count());
        let [x, dy] = operands(c);
        let text = format!(
            "[{row_panels} panels of rows][{lane_panels} panels of lanes][{taps} taps][8][8]"
        );
        declare(out, "int32_t", "sums", layout.sums, &text);
        if self.packed() {
            let text = "Panels of 8 output channels: [images][rows][units of 8 columns][8][8]";
            declare(out, "int8_t", "rows", layout.rows, text);
        } else {
            declare(out, "int32_t", "places", layout.rows, "Of output channels.");
            declare(out, "struct trainc_stretch", "stretches", layout.runs, "Of images.");
        }
        let text = "Of 8 input channels and a column of taps: [images][rows][units of columns][8][unit], by parts.";
        declare(out, "int8_t", "copies", layout.copies, text);
        if finish.is_some() {
            let text = "Rows on their way, by parts.";
            declare(out, "int8_t", "temporary", layout.temporary, text);
        }
        out.line(format!("int32_t bits = 0, part_bits[{}];", layout.parts));
        out.line("");
        if self.packed() {
            self.emit_rows(dy, parts, out);
        } else {
            out.long(format!("trainc_places(places, 1, {}, 0, 0, {});", c.outputs, c.places()));
            out.long(format!(
                "trainc_stretches(stretches, {}, {}, {}, 1, 0, 0);",
                c.images,
                layout.copy_bytes,
                c.outputs * c.places()
            ));
        }
        self.emit_tiles([x, dy], parts, out);
        out.line("");
        if !finish.is_some_and(Narrowing::asks_magnitude) {
            out.line("(void)bits;");
        }
        emit_finish(finish, out);
        emit_store(c, finish, [layout.row_parts, layout.temporary_bytes], parts, out);
    }

    /// Prints the packing of the result's errors.
    fn emit_rows(&self, dy: &'static str, parts: &mut Parts<'_>, out: &mut Text) {
        let c = self.convolution;
        let layout = &self.layout;
        let taken = [own("const int8_t *", dy), own("int8_t *", "rows")];
        parts.run(out, layout.row_parts, &taken, |out| {
            out.long(format!(
                "static const struct trainc_shifted places = {{ .height = {}, .width = {}, .top = 0, .down = 1, .right = 1, .rows = {}, .units = {} }};",
                c.rows,
                c.columns,
                c.rows,
                self.pitch / 8
            ));
            for_parts(out);
            let [begin, end] = range(self.row_panels(), layout.row_parts);
            out.open(format!("for (int32_t row = {begin}; row < {end}; row++) {{"));
            out.for_("image", c.images);
            let to = format!(
                "rows + {} + {}",
                times("row", layout.rows_bytes),
                times("image", 8 * self.image_k)
            );
            out.long(format!(
                "trainc_shifted_panel_halves(&places, 0, {dy} + {} + {}, {to});",
                times("image", c.outputs * c.places()),
                times("row", 8 * c.places())
            ));
            let k = c.rows * self.pitch;
            if k < self.image_k {
                out.long(format!("trainc_zero({to} + {}, 64);", 8 * k));
            }
            out.close();
            out.close();
            out.close();
        });
    }

    /// Prints the copies and the products.
    fn emit_tiles(&self, [x, dy]: [&'static str; 2], parts: &mut Parts<'_>, out: &mut Text) {
        let c = self.convolution;
        let layout = &self.layout;
        let (row_panels, lane_panels, taps) =
            (self.row_panels(), self.lane_panels(), c.tap_count());
        let mut taken = vec![own("const int8_t *", x), own("int8_t *", "copies")];
        taken.extend(match self.packed() {
            true => vec![own("const int8_t *", "rows")],
            false => vec![
                own("const int32_t *", "places"),
                own("const struct trainc_stretch *", "stretches"),
                own("const int8_t *", dy),
            ],
        });
        taken.extend([own("int32_t *", "sums"), own("int32_t *", "part_bits")]);
        parts.run(out, layout.parts, &taken, |out| {
            for (at, residue) in self.residues.iter().enumerate() {
                out.long(format!(
                    "static const struct trainc_shifted copy{at} = {{ .height = {}, .width = {}, .top = {}, .down = {}, .right = {}, .rows = {}, .units = {} }};",
                    c.height,
                    c.width,
                    residue.first as i64 - c.pads[0] as i64,
                    c.strides[0],
                    c.strides[1],
                    residue.rows,
                    self.pitch / 8
                ));
            }
            for_parts(out);
            out.line(format!("int8_t *const copy = copies + {};", times("part", layout.copies_bytes)));
            out.line("uint32x4_t bits = vdupq_n_u32(0);");
            let wide = c.taps[1];
            let [begin, end] = range(lane_panels * wide, layout.parts);
            out.open(format!("for (int32_t n = {begin}; n < {end}; n++) {{"));
            out.line(format!("const int32_t lane = n / {wide}, column = n % {wide};"));
            out.line(format!(
                "const int32_t left = {} - {};",
                times("column", c.dilations[1]),
                c.pads[1]
            ));
            out.for_("image", c.images);
            out.long(format!(
                "const int8_t *const planes = {x} + {} + {};",
                times("image", c.channels * c.plane()),
                times("lane", 8 * c.plane())
            ));
            for (at, residue) in self.residues.iter().enumerate() {
                out.long(format!(
                    "trainc_shifted_panel_{}(&copy{at}, left, planes, copy + {} + {});",
                    order(self.level),
                    times("image", layout.copy_bytes),
                    residue.before * self.row_bytes()
                ));
            }
            out.close();
            out.for_("row", row_panels);
            out.long(format!(
                "int32_t *const tile = sums + (({} + lane) * {taps} + column) * 64;",
                times("row", lane_panels)
            ));
            for tap in 0..c.taps[0] {
                let (at, tile) = (self.tap_at(tap), 64 * wide * tap);
                out.long(match self.packed() {
                    true => format!(
                        "bits = vorrq_u32(bits, trainc_images_i8mm(rows + {}, copy + {at}, {}, {}, {}, tile + {tile}));",
                        times("row", layout.rows_bytes),
                        c.images,
                        self.image_k / 16,
                        layout.copy_bytes as i64 - 8 * self.image_k as i64
                    ),
                    false => format!(
                        "bits = vorrq_u32(bits, trainc_tiles_words0_dotprod(copy + {at}, 1, 0, {dy}, places + 8 * row, stretches, {}, {}, tile + {tile}));",
                        c.images,
                        self.image_k / 16
                    ),
                });
            }
            out.close();
            out.close();
            out.line("part_bits[part] = trainc_magnitude_bits(bits);");
            out.close();
        });
        out.line(format!("bits |= trainc_all_bits(part_bits, {});", layout.parts));
    }
}
