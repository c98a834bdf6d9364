//! Weight gradients: lanes are input channels at a tap, in the weights' order; k are the places of a row of the result, or of
//! its whole plane, which lie together in the operand with its border. Rows are output channels.

use trainc_c::product::suffix;
use trainc_ir::product::{Convolution, Narrowing, Pass};

use super::super::parts::{PARTS, Parts, for_parts, given, own, range};
use super::super::text::{Scratch, Text, declare, times};
use super::super::{argument, emit_finish, of_panel, operands};
use super::{Axis, Border, CALL, Stretches, TILE, TILES, order, store, unit};
use crate::level::Level;

/// A weight gradient whose lanes are channels at taps.
#[derive(Debug)]
pub(crate) struct GradientInPlace<'a> {
    convolution: &'a Convolution,
    level: Level,
    /// The operand with its border, apart by remainders of strides.
    border: Border,
    /// k of a row of the result and of an image's plane, in panels of rows.
    pitch: usize,
    image_k: usize,
    stretches: Stretches,
    /// Instructions of a tile that is stored.
    store: usize,
    layout: Layout,
}

/// Sizes and places in the working memory.
#[derive(Debug, Default)]
struct Layout {
    bytes: usize,
    sums: usize,
    rows: usize,
    operand: usize,
    places: usize,
    stretches: usize,
    temporary: usize,
    /// Of an image of the operand with borders.
    image_bytes: usize,
    rows_bytes: usize,
    temporary_bytes: usize,
}

impl<'a> GradientInPlace<'a> {
    /// Plans one, where it is one.
    pub(crate) fn of(
        level: Level,
        c: &'a Convolution,
        finish: Option<Narrowing>,
    ) -> Option<GradientInPlace<'a>> {
        let unit = unit(level)?;
        let adaptive = matches!(finish, Some(Narrowing::Adaptive { .. }));
        let small = c.channels * c.tap_count() < 8 || c.places() < 8 || c.images == 0;
        if adaptive || c.pass != Pass::Gradient || c.groups > 1 || small {
            return None;
        }
        let [rows, columns] = [c.rows, c.columns];
        let reach = |axis: usize| (c.taps[axis] - 1) * c.dilations[axis];
        let parts = [0, 1].map(|axis| {
            let apart = |tap: usize| tap * c.dilations[axis] % c.strides[axis];
            (0..c.taps[axis]).map(apart).max().unwrap_or(0) + 1
        });
        let size = [0, 1].map(|axis| {
            let windows = [rows, columns][axis];
            windows + reach(axis) / c.strides[axis]
        });
        let border = Border {
            plane: [c.height, c.width],
            start: [c.pads[0], c.pads[1]],
            step: c.strides,
            parts,
            size,
        };
        let image_bytes = c.channels * border.bytes();
        let plan = |pitch: usize, whole: bool| {
            let image_k = (rows * pitch).next_multiple_of(16);
            let outer = Axis { count: c.images, rows: 8 * image_k, lanes: image_bytes as i64 };
            let stretches = if whole {
                // Behind the last row there is nothing to sum.
                let bytes = ((rows - 1) * pitch + columns).next_multiple_of(unit);
                Stretches { outer, inner: Axis::ONE, bytes, paired: false }
            } else {
                let inner = Axis { count: rows, rows: 8 * pitch, lanes: size[1] as i64 };
                Stretches { outer, inner, bytes: pitch, paired: false }
            };
            (pitch, image_k, stretches)
        };
        let by_rows = plan(columns.next_multiple_of(unit), false);
        let by_planes = plan(size[1], true);
        let cost = |stretches: &Stretches| stretches.instructions(level);
        let (pitch, image_k, stretches) =
            if cost(&by_planes.2) <= cost(&by_rows.2) { by_planes } else { by_rows };
        let mut product = GradientInPlace {
            convolution: c,
            level,
            border,
            pitch,
            image_k,
            stretches,
            store: store(finish),
            layout: Layout::default(),
        };
        product.layout = product.lay_out();
        Some(product)
    }

    fn row_panels(&self) -> usize {
        self.convolution.outputs.div_ceil(8)
    }

    /// Channels at taps.
    fn lanes(&self) -> usize {
        self.convolution.channels * self.convolution.tap_count()
    }

    /// Whether rows are packed from where they lie.
    fn rows_in_place(&self) -> bool {
        let c = self.convolution;
        self.pitch == c.columns && self.image_k == c.places() && c.outputs.is_multiple_of(8)
    }

    fn lay_out(&self) -> Layout {
        let c = self.convolution;
        let mut scratch = Scratch::default();
        let mut layout = Layout::default();
        let panels = self.lanes().div_ceil(8);
        layout.sums = scratch.take(panels * self.row_panels() * 256);
        layout.rows_bytes = c.images * self.image_k * 8;
        layout.rows = scratch.take(self.row_panels() * layout.rows_bytes);
        layout.image_bytes = c.channels * self.border.bytes();
        // Stretches are whole units, of which the last reads past its channel's end.
        layout.operand = scratch.take(c.images * layout.image_bytes + 32);
        layout.places = scratch.take(4 * self.lanes());
        layout.stretches = scratch.take(self.stretches.table_bytes());
        if !self.rows_in_place() {
            layout.temporary_bytes = 8 * self.image_k;
            layout.temporary = scratch.take(self.row_panels().min(PARTS) * layout.temporary_bytes);
        }
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
        let pairs = self.lanes().div_ceil(8) * self.row_panels();
        let tile = TILE + self.store + self.stretches.instructions(self.level);
        let tiles = pairs * tile + self.lanes().div_ceil(8) * TILES;
        let pack = if self.rows_in_place() { 40 } else { 65 };
        let rows = c.images * self.row_panels() * self.image_k.div_ceil(16) * pack;
        let row = 12 + self.border.size[1] / 16 * 4 + self.border.size[1] % 8 * 4;
        let operand = c.images * c.channels * (40 + self.border.bytes() / 16 * 2)
            + c.images
                * c.channels
                * self.border.parts[0]
                * self.border.parts[1]
                * self.border.size[0]
                * row;
        CALL + tiles + rows + operand + 6 * self.lanes()
    }

    /// The kernel's body.
    pub(crate) fn emit(&self, finish: Option<Narrowing>, parts: &mut Parts<'_>, out: &mut Text) {
        let c = self.convolution;
        let (layout, row_panels) = (&self.layout, self.row_panels());
        let [x, dy] = operands(c);
        let panels = self.lanes().div_ceil(8);
        declare(
            out,
            "int32_t",
            "sums",
            layout.sums,
            &format!(
                "[{panels} panels of channels at taps][{row_panels} panels][8 lanes by 8 rows]"
            ),
        );
        let text = "Panels of 8 output channels: [images][places][8].";
        declare(out, "int8_t", "rows", layout.rows, text);
        declare(out, "int8_t", "operand", layout.operand, "The operand's planes with borders.");
        declare(out, "int32_t", "places", layout.places, "Of channels at taps.");
        let text = "Where k go on from there.";
        declare(out, "struct trainc_stretch", "stretches", layout.stretches, text);
        if !self.rows_in_place() {
            declare(
                out,
                "int8_t",
                "temporary",
                layout.temporary,
                "Planes of 8 channels, by parts.",
            );
        }
        out.line(format!("int32_t bits = 0, part_bits[{PARTS}];"));
        out.line("");
        self.emit_rows(dy, parts, out);
        self.emit_operand(x, parts, out);
        self.stretches.emit("stretches", out);
        let shares = panels.min(PARTS);
        let taken = [
            own("const int8_t *", "rows"),
            own("const int8_t *", "operand"),
            own("const int32_t *", "places"),
            own("const struct trainc_stretch *", "stretches"),
            own("int32_t *", "sums"),
            own("int32_t *", "part_bits"),
        ];
        parts.run(out, shares, &taken, |out| {
            for_parts(out);
            let [begin, end] = range(panels, shares);
            out.line("uint32x4_t bits = vdupq_n_u32(0);");
            out.open(format!("for (int32_t panel = {begin}; panel < {end}; panel++) {{"));
            out.long(format!("const int32_t *const from = places + {};", self.first_lane()));
            out.long(format!(
                "bits = vorrq_u32(bits, {}(rows, {row_panels}, {}, operand, from, {}, sums + panel * {}));",
                self.level.function(&self.stretches.tiles(8)),
                layout.rows_bytes,
                self.stretches.arguments("stretches"),
                64 * row_panels
            ));
            out.close();
            out.line("part_bits[part] = trainc_magnitude_bits(bits);");
            out.close();
        });
        out.line(format!("bits |= trainc_all_bits(part_bits, {shares});"));
        out.line("");
        if !finish.is_some_and(Narrowing::asks_magnitude) {
            out.line("(void)bits;");
        }
        emit_finish(finish, out);
        let mut taken = vec![own("const int32_t *", "sums")];
        taken.extend(match finish {
            Some(_) => vec![
                own("int8_t *", "y0"),
                given("const struct trainc_rounding *", "rounding", "&rounding"),
            ],
            None => vec![own("int32_t *", "y0")],
        });
        // Panels that overlap are of one part.
        let overlaps = !self.lanes().is_multiple_of(8);
        let units = if overlaps { panels - 1 } else { panels };
        parts.run(out, units.max(1), &taken, |out| {
            match overlaps && units > 0 {
                true => {
                    out.line(format!("const int32_t last = end == {units} ? {panels} : end;"));
                    out.open("for (int32_t panel = begin; panel < last; panel++) {");
                }
                false => out.open("for (int32_t panel = begin; panel < end; panel++) {"),
            }
            out.long(format!(
                "{}(sums + panel * {}, 1, {}, {}, y0 + {}{});",
                self.level.function(&format!("store_places_{}", suffix(finish))),
                64 * row_panels,
                c.outputs,
                self.lanes(),
                self.first_lane(),
                argument(finish)
            ));
            out.close();
        });
    }

    /// The C of the first lane of a panel.
    fn first_lane(&self) -> String {
        match self.lanes().is_multiple_of(8) {
            true => "8 * panel".into(),
            false => format!("trainc_first_place(panel, {})", self.lanes()),
        }
    }

    /// Prints the packing of the result's errors.
    fn emit_rows(&self, dy: &'static str, parts: &mut Parts<'_>, out: &mut Text) {
        let c = self.convolution;
        let (layout, row_panels, places) = (&self.layout, self.row_panels(), c.places());
        let shares = row_panels.min(PARTS);
        let mut taken = vec![own("const int8_t *", dy), own("int8_t *", "rows")];
        if !self.rows_in_place() {
            taken.push(own("int8_t *", "temporary"));
        }
        parts.run(out, shares, &taken, |out| {
            let rows = Border {
                plane: [c.rows, c.columns],
                start: [0, 0],
                step: [1, 1],
                parts: [1, 1],
                size: [c.rows, self.pitch],
            };
            if !self.rows_in_place() {
                rows.emit("plane", out);
            }
            for_parts(out);
            if !self.rows_in_place() {
                out.line(format!(
                    "int8_t *const planes = temporary + {};",
                    times("part", layout.temporary_bytes)
                ));
                out.line(format!("trainc_zero(planes, {});", layout.temporary_bytes));
            }
            let [begin, end] = range(row_panels, shares);
            out.open(format!("for (int32_t row = {begin}; row < {end}; row++) {{"));
            if !self.rows_in_place() {
                out.line(format!("const int32_t count = {};", of_panel(c.outputs, "row")));
                if !c.outputs.is_multiple_of(8) {
                    out.open("if (count < 8) {");
                    out.line(format!("trainc_zero(planes, {});", layout.temporary_bytes));
                    out.close();
                }
            }
            out.for_("image", c.images);
            out.long(format!(
                "const int8_t *const from = {dy} + {} + {};",
                times("image", c.outputs * places),
                times("row", 8 * places)
            ));
            let (base, step) = match self.rows_in_place() {
                true => ("from", places),
                false => ("planes", self.image_k),
            };
            if !self.rows_in_place() {
                out.for_("i", "count");
                out.line(format!(
                    "trainc_bordered(&plane, from + {}, planes + {});",
                    times("i", places),
                    times("i", self.image_k)
                ));
                out.close();
            }
            let sources: Vec<String> = (0..8)
                .map(|i| if i == 0 { base.to_string() } else { format!("{base} + {}", i * step) })
                .collect();
            out.long(format!("const int8_t *const sources[8] = {{ {} }};", sources.join(", ")));
            out.long(format!(
                "trainc_pack_{}(sources, {}, rows + {} + {});",
                order(self.level),
                self.image_k / 16,
                times("row", layout.rows_bytes),
                times("image", 8 * self.image_k)
            ));
            out.close();
            out.close();
            out.close();
        });
    }

    /// Prints the copies of the operand's planes, and where channels at taps are in them.
    fn emit_operand(&self, x: &'static str, parts: &mut Parts<'_>, out: &mut Text) {
        let c = self.convolution;
        let layout = &self.layout;
        let border = &self.border;
        let taken = [own("const int8_t *", x), own("int8_t *", "operand")];
        parts.run(out, c.images, &taken, |out| {
            border.emit("border", out);
            out.open("for (int32_t image = begin; image < end; image++) {");
            out.line(format!(
                "int8_t *const to = operand + {};",
                times("image", layout.image_bytes)
            ));
            out.line(format!("trainc_zero(to, {});", layout.image_bytes));
            out.for_("c", c.channels);
            out.long(format!(
                "trainc_bordered(&border, {x} + {} + {}, to + {});",
                times("image", c.channels * c.plane()),
                times("c", c.plane()),
                times("c", border.bytes())
            ));
            out.close();
            out.close();
        });
        out.line("int32_t *place = places;");
        out.for_("c", c.channels);
        let part = border.size[0] * border.size[1];
        for i in 0..c.taps[0] {
            for j in 0..c.taps[1] {
                let [down, right] = [i * c.dilations[0], j * c.dilations[1]];
                let of = down % c.strides[0] * border.parts[1] + right % c.strides[1];
                let at = of * part + down / c.strides[0] * border.size[1] + right / c.strides[1];
                let plane = times("c", border.bytes());
                out.line(match at {
                    0 => format!("*place++ = {plane};"),
                    _ => format!("*place++ = {plane} + {at};"),
                });
            }
        }
        out.close();
    }
}
