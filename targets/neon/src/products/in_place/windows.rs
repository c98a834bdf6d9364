//! Forward products, and operands' errors: lanes are places of the result, and what a window has of a row of the operand lies
//! together, for channels come last there and a border of zeros is around.
//!
//! An error is a product of the result's error by the weights whose taps run backwards: its operand is mirrored, so that taps
//! that follow each other in the weights do so in memory.

mod cost;

use trainc_c::product::suffix;
use trainc_ir::product::{Convolution, Narrowing, Pass};

use super::super::parts::{PARTS, Parts, for_parts, given, own, range};
use super::super::phases::{Phase, phases};
use super::super::text::{Scratch, Text, declare, times};
use super::super::{argument, emit_finish, of_panel};
use super::met::Met;
use super::{Axis, Border, Stretches, store, unit};
use crate::level::Level;

/// Panels of lanes that stay in the cache while all rows pass, and bytes of panels of rows that do while lanes pass.
const BLOCK: usize = 16;
const BLOCK_BYTES: usize = 16 << 10;

/// A product whose lanes are places of windows.
#[derive(Debug)]
pub(crate) struct WindowsInPlace<'a> {
    convolution: &'a Convolution,
    level: Level,
    /// Bytes of k that lie together in panels of rows.
    unit: usize,
    /// Channels that are summed, and those of the result.
    inner: usize,
    outer: usize,
    /// Of the operand and of the result.
    plane: [usize; 2],
    result_plane: usize,
    phases: Vec<Reading>,
    /// Rows and columns before the operand, and of it with its border.
    margin: [usize; 2],
    size: [usize; 2],
    pixel_bytes: usize,
    /// Of what lies together for a lane in pairs: a pixel, or all that the taps of a row meet of few channels.
    lane_bytes: usize,
    /// Of the taps of a row of the weights, in a row of a panel.
    tap_row_bytes: usize,
    /// Pixels from a lane to the next, where each pixel lies beside that of the lane behind.
    apart: Option<i64>,
    /// Instructions of a tile that is stored.
    store: usize,
    /// Whether results of neighbouring phases are stored together.
    stores_between: bool,
    layout: Layout,
}

/// A phase, and how its lanes read.
#[derive(Debug)]
struct Reading {
    phase: Phase,
    /// Where the first lane reads, and bytes to the next row and column of lanes.
    first: i64,
    down: i64,
    right: i64,
    /// Where its taps start in a panel of rows.
    rows: usize,
    stretches: Stretches,
}

/// The phase of the results beside a phase's, of which both are stored together.
#[derive(Clone, Copy, Debug)]
enum Neighbour {
    /// It has the places before.
    Before,
    /// It has the places behind, with so many panels of lanes before it.
    Behind { before: usize },
    /// There is none: no tap meets the places behind.
    Zeros,
}

impl Reading {
    fn places(&self) -> usize {
        self.phase.windows.size[0] * self.phase.windows.size[1]
    }

    fn panels(&self) -> usize {
        self.places().div_ceil(8)
    }

    /// Whether no tap meets its lanes: results are zero.
    fn is_empty(&self) -> bool {
        self.stretches.outer.count * self.stretches.inner.count == 0
    }

    /// Whether the results of eight lanes lie together.
    fn dense(&self) -> bool {
        let Phase { windows, row_stride, column_stride, .. } = &self.phase;
        *column_stride == 1 && *row_stride == windows.size[1]
    }
}

/// Sizes and places in the working memory.
#[derive(Debug, Default)]
struct Layout {
    bytes: usize,
    sums: usize,
    weights: usize,
    pixels: usize,
    /// Of the operand's places, of lanes, and of results that are apart.
    places: usize,
    lanes: usize,
    results: usize,
    stretches: usize,
    temporary: usize,
    /// Of an image, of a rows' panel, of a part's temporary.
    image_bytes: usize,
    rows_bytes: usize,
    temporary_bytes: usize,
    weight_parts: usize,
}

impl<'a> WindowsInPlace<'a> {
    /// Plans one, where it is one.
    pub(crate) fn of(
        level: Level,
        c: &'a Convolution,
        finish: Option<Narrowing>,
    ) -> Option<WindowsInPlace<'a>> {
        let alone = WindowsInPlace::plan(level, c, finish, false);
        let paired = match level {
            Level::I8mm => WindowsInPlace::plan(level, c, finish, true),
            _ => None,
        };
        [alone, paired].into_iter().flatten().min_by_key(WindowsInPlace::instructions)
    }

    /// Plans one whose pixels lie alone, or two by two, where it is one.
    fn plan(
        level: Level,
        c: &'a Convolution,
        finish: Option<Narrowing>,
        paired: bool,
    ) -> Option<WindowsInPlace<'a>> {
        let unit = unit(level)?;
        let (inner, outer, plane, result_plane) = match c.pass {
            Pass::Forward => (c.channels, c.outputs, [c.height, c.width], c.places()),
            Pass::Error => (c.outputs, c.channels, [c.rows, c.columns], c.plane()),
            Pass::Gradient => return None,
        };
        let adaptive = matches!(finish, Some(Narrowing::Adaptive { .. }));
        if adaptive || c.groups > 1 || c.images == 0 {
            return None;
        }
        let together = match c.pass {
            Pass::Error => c.strides[1] == 1 && c.dilations[1] == 1,
            _ => c.dilations[1] == 1,
        };
        let forward = together && c.pass == Pass::Forward;
        let least = if inner == 1 { 1 } else { inner.next_multiple_of(4) };
        let of_taps = (c.taps[1] * least).next_multiple_of(unit);
        let (pixel_bytes, lane_bytes) = match (forward, paired) {
            (true, false) => (least, least),
            (true, true) if inner <= 4 && of_taps <= 16 => (least, of_taps),
            (_, _) => (inner.next_multiple_of(unit), inner.next_multiple_of(unit)),
        };
        let phases: Vec<Phase> = phases(c)
            .into_iter()
            .filter(|phase| phase.windows.size[0] * phase.windows.size[1] > 0)
            .collect();
        let least = phases.iter().map(|p| p.windows.size[0] * p.windows.size[1]).min()?;
        if least < 8 {
            return None;
        }
        // Of all phases, the first and the last place that taps meet.
        let mut margin = [0i64; 2];
        let mut end = [0i64; 2];
        for phase in &phases {
            let w = &phase.windows;
            for axis in 0..2 {
                if w.taps[0] * w.taps[1] == 0 {
                    continue;
                }
                let last_tap = (w.taps[axis] as i64 - 1) * w.tap_step[axis];
                let first = w.start[axis] + last_tap.min(0);
                let last =
                    w.start[axis] + last_tap.max(0) + (w.size[axis] as i64 - 1) * w.step[axis];
                margin[axis] = margin[axis].max(-first);
                end[axis] = end[axis].max(last + 1);
            }
        }
        let margin = margin.map(|n| n as usize);
        let size = [0, 1].map(|axis| {
            margin[axis] + plane[axis].max(usize::try_from(end[axis]).unwrap_or_default())
        });
        let kernel = c.taps;
        let tap_row_bytes = (kernel[1] * pixel_bytes).next_multiple_of(unit);
        let mut product = WindowsInPlace {
            convolution: c,
            level,
            unit,
            inner,
            outer,
            plane,
            result_plane,
            phases: Vec::new(),
            margin,
            size,
            pixel_bytes,
            lane_bytes,
            tap_row_bytes,
            apart: None,
            store: store(finish),
            stores_between: finish.is_some(),
            layout: Layout::default(),
        };
        if paired {
            product.apart = Some(product.lanes_apart(&phases)?);
        }
        let readings = phases.into_iter().map(|phase| product.reading(phase));
        product.phases = readings.filter(|reading| !reading.is_empty()).collect();
        if product.phases.is_empty() {
            return None;
        }
        product.layout = product.lay_out();
        Some(product)
    }

    /// Whether rows and columns run backwards.
    fn mirrored(&self) -> bool {
        self.convolution.pass == Pass::Error
    }

    /// What has the results beside those of a phase, if these are every other place of whole rows, with those of eight lanes in one.
    fn neighbour(&self, reading: &Reading) -> Option<Neighbour> {
        let Phase { windows, first, column_stride, .. } = &reading.phase;
        let width = self.convolution.width;
        let columns = windows.size[1];
        if reading.dense() || *column_stride != 2 || columns % 8 != 0 || 2 * columns != width {
            return None;
        }
        let has = |first: usize| self.phases.iter().position(|other| other.phase.first == first);
        match first % width {
            0 => Some(has(first + 1).map_or(Neighbour::Zeros, |at| {
                let panels: usize = self.phases[..at].iter().map(Reading::panels).sum();
                Neighbour::Behind { before: self.convolution.images * panels }
            })),
            _ => has(first - 1).map(|_| Neighbour::Before),
        }
    }

    /// Pixels from each even lane to the next one, where that is the same for all.
    fn lanes_apart(&self, phases: &[Phase]) -> Option<i64> {
        let sign = if self.mirrored() { -1 } else { 1 };
        let mut all = phases.iter().map(|phase| {
            let w = &phase.windows;
            let [down, right] = [sign * w.step[0] * self.size[1] as i64, sign * w.step[1]];
            // A panel's first lane is even, or lanes follow each other from row to row.
            let follow = w.size[1] % 2 == 0 || down == w.size[1] as i64 * right;
            (follow && right != 0 && right >= -1).then_some(right)
        });
        let apart = all.next()??;
        all.all(|other| other == Some(apart)).then_some(apart)
    }

    /// Bytes from a pixel to the next, where lanes read them.
    fn pixel_step(&self) -> usize {
        if self.apart.is_some() { 2 * self.lane_bytes } else { self.pixel_bytes }
    }

    /// Where a place of the operand with its border is.
    fn place(&self, [row, column]: [i64; 2]) -> i64 {
        let [rows, columns] = self.size.map(|n| n as i64);
        let at = row * columns + column;
        let at = if self.mirrored() { rows * columns - 1 - at } else { at };
        at * self.pixel_step() as i64
    }

    fn reading(&self, phase: Phase) -> Reading {
        let w = &phase.windows;
        let pixel = self.pixel_step() as i64;
        let row = self.size[1] as i64 * pixel;
        let sign = if self.mirrored() { -1 } else { 1 };
        let first = self.place([0, 1].map(|axis| self.margin[axis] as i64 + w.start[axis]));
        let [high, wide] = w.taps;
        let kernel = self.convolution.taps[1];
        let tap_right = sign * w.tap_step[1] * pixel;
        let tap = |bytes: usize| 8 * bytes;
        let rows = tap(phase.first_tap / kernel * self.tap_row_bytes
            + phase.first_tap % kernel * self.pixel_bytes);
        let together = wide > 0 && phase.tap_column == 1 && (tap_right == pixel || wide == 1);
        let outer = Axis {
            count: if wide == 0 { 0 } else { high },
            rows: tap(phase.tap_row / kernel * self.tap_row_bytes),
            lanes: sign * w.tap_step[0] * row,
        };
        let paired = self.apart.is_some();
        let stretches = if together {
            let bytes = (wide * self.pixel_bytes).next_multiple_of(self.unit);
            Stretches { outer, inner: Axis::ONE, bytes, paired }
        } else {
            let inner = Axis {
                count: wide,
                rows: tap(phase.tap_column * self.pixel_bytes),
                lanes: tap_right,
            };
            Stretches { outer, inner, bytes: self.pixel_bytes, paired }
        };
        let (down, right) = (sign * w.step[0] * row, sign * w.step[1] * pixel);
        Reading { first, down, right, rows, stretches, phase }
    }

    /// How panels of lanes leave out rows of taps that read the border alone, where that is worth it.
    fn met(&self, reading: &Reading) -> Option<Met> {
        let row = reading.stretches.row_instructions(self.level) * self.row_panels();
        Met::worth(&reading.phase.windows, row)
    }

    /// Stretches of the phases before one.
    fn stretches_before(&self, reading: &Reading) -> usize {
        let before = self.phases.iter().take_while(|other| !std::ptr::eq(*other, reading));
        before.map(|other| other.stretches.rows_of_table()).sum()
    }

    fn row_panels(&self) -> usize {
        self.outer.div_ceil(8)
    }

    /// Pixels of an image with its border.
    fn pixels(&self) -> usize {
        self.size[0] * self.size[1]
    }

    /// Where in an image's memory pixels lie alone, until they lie in pairs.
    fn plain_at(&self) -> usize {
        match self.narrow() {
            true => self.pixels() * self.pixel_step(),
            false => (self.pixels() + 1) * self.pixel_bytes,
        }
    }

    /// Where in an image's memory the first row of the operand is, while its pixels lie alone.
    fn first_row(&self) -> usize {
        let corner =
            |places: [usize; 2]| self.place([0, 1].map(|n| (self.margin[n] + places[n]) as i64));
        let last = self.plane.map(|n| n - 1);
        let first = corner([0, 0]).min(corner(last)) as usize;
        first / self.pixel_step() * self.pixel_bytes
    }

    /// Of narrow windows in pairs, the first pixel from which lanes read, and pixels from there to the next: two where all even lanes
    /// start in columns of one parity.
    fn pairs_read(&self) -> [usize; 2] {
        match self.phases.as_slice() {
            [Reading { phase, first, .. }]
                if phase.windows.step == [1, 1]
                    && phase.windows.size[1].is_multiple_of(2)
                    && self.size[1].is_multiple_of(2) =>
            {
                [*first as usize / self.pixel_step() % 2, 2]
            }
            _ => [0, 1],
        }
    }

    /// Whether panels of lanes are multiplied one behind the other by a call of the tile kernel.
    fn together(&self, reading: &Reading) -> bool {
        self.apart.is_some()
            && reading.places().is_multiple_of(8)
            && self.panels_together() == self.row_panels()
            && self.met(reading).is_none()
    }

    /// Whether lanes have the taps of a row beside each other.
    fn narrow(&self) -> bool {
        self.lane_bytes > self.pixel_bytes
    }

    /// Whether up to four channels are interleaved, rows of the operand as they are.
    fn interleaved(&self) -> bool {
        self.pixel_bytes == 4 && !self.mirrored() && self.plane[1] >= 16
    }

    /// Whether pixels are written to places of a table.
    fn has_places(&self) -> bool {
        self.pixel_bytes > 1 && !self.interleaved()
    }

    /// Panels of rows that stay in the cache.
    fn panels_together(&self) -> usize {
        (BLOCK_BYTES / self.layout.rows_bytes.max(1)).clamp(1, self.row_panels())
    }

    /// Whether the panels of other products have the order of these: taps of whole blocks.
    fn whole_blocks(&self) -> bool {
        self.inner.is_multiple_of(16) && self.tap_row_bytes == self.convolution.taps[1] * self.inner
    }

    fn lay_out(&self) -> Layout {
        let c = self.convolution;
        let mut scratch = Scratch::default();
        let mut layout = Layout::default();
        let panels: usize = self.phases.iter().map(Reading::panels).sum();
        layout.sums = scratch.take(c.images * panels * self.row_panels() * 256);
        layout.rows_bytes = 8 * c.taps[0] * self.tap_row_bytes;
        layout.weights = scratch.take(self.row_panels() * layout.rows_bytes);
        let image = match self.apart {
            Some(_) => self.plain_at() + self.pixels() * self.pixel_bytes,
            None => self.pixels() * self.pixel_bytes,
        };
        // The last pixel is written, and the last stretch read, past its end.
        layout.image_bytes = (image + 16).next_multiple_of(16);
        layout.pixels = scratch.take(c.images * layout.image_bytes);
        if self.has_places() {
            layout.places = scratch.take(4 * self.plane[0] * self.plane[1]);
        }
        let lanes: usize = self.phases.iter().map(Reading::places).sum();
        layout.lanes = scratch.take(4 * lanes);
        if self.phases.iter().any(|phase| !phase.dense()) {
            layout.results = scratch.take(4 * lanes);
        }
        let tables = self.phases.iter().map(|phase| phase.stretches.table_bytes());
        layout.stretches = scratch.take(tables.sum());
        layout.weight_parts = match (c.pass, self.whole_blocks()) {
            (Pass::Error, true) => self.outer.div_ceil(16),
            (_, true) => self.outer,
            (_, false) => self.row_panels(),
        }
        .clamp(1, PARTS);
        if self.whole_blocks() {
            layout.temporary_bytes = c.tap_count() * if c.pass == Pass::Error { 256 } else { 16 };
            layout.temporary = scratch.take(layout.weight_parts * layout.temporary_bytes);
        }
        layout.bytes = scratch.bytes();
        layout
    }

    /// Bytes of working memory.
    pub(crate) fn scratch_bytes(&self) -> usize {
        self.layout.bytes
    }

    /// The kernel's body.
    pub(crate) fn emit(&self, finish: Option<Narrowing>, parts: &mut Parts<'_>, out: &mut Text) {
        let (c, layout, row_panels) = (self.convolution, &self.layout, self.row_panels());
        let what = if self.mirrored() { "input" } else { "output" };
        declare(
            out,
            "int32_t",
            "sums",
            layout.sums,
            &format!("[panels of 8 places][{row_panels} panels][8 places by 8 {what} channels]"),
        );
        let text = format!("Panels of 8 {what} channels: [{} taps][channels][8]", c.tap_count());
        declare(out, "int8_t", "weights", layout.weights, &text);
        let mut text = match self.mirrored() {
            true => "The operand, mirrored, channels last, with a border".to_string(),
            false => "The operand, channels last, with a border".to_string(),
        };
        text +=
            if self.apart.is_some() { "; each pixel beside its lane's neighbour's." } else { "." };
        declare(out, "int8_t", "pixels", layout.pixels, &text);
        if self.has_places() {
            declare(out, "int32_t", "places", layout.places, "Of the operand's pixels.");
        }
        declare(out, "int32_t", "lanes", layout.lanes, "Where lanes start to read.");
        if self.phases.iter().any(|phase| phase.stretches.rows_of_table() > 0) {
            let text = "Where they go on from there.";
            declare(out, "struct trainc_stretch", "stretches", layout.stretches, text);
        }
        if self.phases.iter().any(|phase| !phase.dense()) {
            declare(out, "int32_t", "results", layout.results, "Of the lanes.");
        }
        if self.whole_blocks() {
            declare(out, "int8_t", "temporary", layout.temporary, "Of a block of taps, by parts.");
        }
        out.line(format!("int32_t bits = 0, part_bits[{PARTS}];"));
        out.line("");
        self.emit_weights(parts, out);
        self.emit_pixels(parts, out);
        let (mut before, mut lanes) = (0, 0);
        for reading in &self.phases {
            self.emit_tiles(reading, [before, lanes], parts, out);
            before += c.images * reading.panels();
            lanes += reading.places();
        }
        out.line("");
        if !finish.is_some_and(Narrowing::asks_magnitude) {
            out.line("(void)bits;");
        }
        emit_finish(finish, out);
        let results = c.images * self.outer * self.result_plane;
        let places: usize = self.phases.iter().map(Reading::places).sum();
        if places < self.result_plane {
            out.line("/* Where no tap meets the operand. */");
            match finish {
                Some(_) => out.line(format!("trainc_zero(y0, {results});")),
                None => out.line(format!("trainc_zero((int8_t *)(void *)y0, {});", 4 * results)),
            }
        }
        (before, lanes) = (0, 0);
        for reading in &self.phases {
            match self.neighbour(reading).filter(|_| self.stores_between) {
                Some(Neighbour::Before) => {}
                between => self.emit_stores(reading, finish, [before, lanes], between, parts, out),
            }
            before += c.images * reading.panels();
            lanes += reading.places();
        }
    }

    fn emit_weights(&self, parts: &mut Parts<'_>, out: &mut Text) {
        let (c, layout, row_panels) = (self.convolution, &self.layout, self.row_panels());
        let (taps, shares) = (c.tap_count(), layout.weight_parts);
        let error = c.pass == Pass::Error;
        let mut taken = vec![own("const int8_t *", "x1"), own("int8_t *", "weights")];
        if !self.whole_blocks() {
            let [channel, row] = match error {
                true => [c.channels * taps, taps],
                false => [taps, self.inner * taps],
            };
            parts.run(out, shares, &taken, |out| {
                out.long(format!(
                    "static const struct trainc_weights order = {{ .high = {}, .high_step = {}, .wide = {}, .wide_step = 1, .channels = {}, .channel = {channel}, .row = {row}, .tap_bytes = {}, .stretch_bytes = {}, .unit = {} }};",
                    c.taps[0],
                    c.taps[1],
                    c.taps[1],
                    self.inner,
                    self.pixel_bytes,
                    self.tap_row_bytes,
                    self.unit
                ));
                for_parts(out);
                let [begin, end] = range(row_panels, shares);
                out.open(format!("for (int32_t panel = {begin}; panel < {end}; panel++) {{"));
                out.long(format!(
                    "trainc_pack_weights(&order, x1 + {}, {}, weights + {});",
                    times("panel", 8 * row),
                    of_panel(self.outer, "panel"),
                    times("panel", layout.rows_bytes)
                ));
                out.close();
                out.close();
            });
            return;
        }
        if !self.outer.is_multiple_of(8) {
            let last = (row_panels - 1) * layout.rows_bytes;
            out.line("/* Rows without a channel. */");
            out.long(format!("trainc_zero(weights + {last}, {});", layout.rows_bytes));
        }
        taken.push(own("int8_t *", "temporary"));
        let temporary = format!("temporary + {}", times("part", layout.temporary_bytes));
        parts.run(out, shares, &taken, |out| {
            for_parts(out);
            if error {
                // 16 channels at a time.
                let [begin, end] = range(self.outer.div_ceil(16), shares);
                out.line(format!("const int32_t first = 16 * ({begin}), last = 16 * ({end});"));
                let count = match self.outer.is_multiple_of(16) {
                    true => "last - first".to_string(),
                    false => format!("trainc_minimum32(last, {}) - first", self.outer),
                };
                out.long(format!(
                    "{}(x1 + {}, {}, {count}, {taps}, {}, weights + {}, {}, {temporary});",
                    self.level.function("errors_in_place"),
                    times("first", taps),
                    self.inner,
                    self.outer * taps,
                    times("first / 8", layout.rows_bytes),
                    layout.rows_bytes
                ));
            } else {
                let [begin, end] = range(self.outer, shares);
                out.open(format!("for (int32_t row = {begin}; row < {end}; row++) {{"));
                out.long(format!(
                    "{}(x1 + {}, {}, {taps}, weights + row / 8 * {}, row % 8, {temporary});",
                    self.level.function("taps_in_place"),
                    times("row", self.inner * taps),
                    self.inner,
                    layout.rows_bytes
                ));
                out.close();
            }
            out.close();
        });
    }

    fn emit_pixels(&self, parts: &mut Parts<'_>, out: &mut Text) {
        let (c, layout) = (self.convolution, &self.layout);
        let [rows, columns] = self.plane;
        let pixel = self.pixel_bytes as i64;
        let row = self.size[1] as i64 * pixel;
        let mut taken = vec![own("const int8_t *", "x0"), own("int8_t *", "pixels")];
        let first = self.place(self.margin.map(|n| n as i64)) / self.pixel_step() as i64 * pixel;
        if self.has_places() {
            let sign = if self.mirrored() { -1 } else { 1 };
            let (down, right) = (sign * row, sign * pixel);
            out.long(format!(
                "trainc_places(places, {rows}, {columns}, {first}, {down}, {right});"
            ));
            taken.push(own("const int32_t *", "places"));
        }
        parts.run(out, c.images, &taken, |out| {
            let bordered = Border {
                plane: self.plane,
                start: self.margin,
                step: [1, 1],
                parts: [1, 1],
                size: self.size,
            };
            if self.pixel_bytes == 1 {
                bordered.emit("border", out);
            }
            out.open("for (int32_t image = begin; image < end; image++) {");
            out.line(format!(
                "int8_t *const to = pixels + {};",
                times("image", layout.image_bytes)
            ));
            let plain = match self.apart {
                Some(_) => self.plain_at(),
                None => 0,
            };
            let at = if plain == 0 { "to".to_string() } else { format!("to + {plain}") };
            let first_row = self.first_row();
            out.long(format!(
                "trainc_zero_around({at}, {first_row}, {rows}, {row}, {}, {});",
                columns * self.pixel_bytes,
                layout.image_bytes - plain
            ));
            let from = format!("x0 + {}", times("image", self.inner * rows * columns));
            if self.pixel_bytes == 1 {
                out.line(format!("trainc_bordered(&border, {from}, {at});"));
            } else if self.interleaved() {
                out.long(format!(
                    "trainc_four_channels({from}, {}, {rows}, {columns}, {at} + {first}, {row});",
                    self.inner
                ));
            } else {
                out.long(format!(
                    "trainc_pixels_at({from}, {}, {}, places, {}, {at});",
                    self.inner,
                    rows * columns,
                    i32::from(self.mirrored())
                ));
            }
            match self.apart {
                Some(apart) if self.narrow() => {
                    let [first, step] = self.pairs_read();
                    out.long(format!(
                        "trainc_windows_in_pairs({at}, {}, {}, {}, {apart}, {first}, {step}, to);",
                        self.pixels(),
                        self.pixel_bytes,
                        self.lane_bytes
                    ));
                }
                Some(apart) => out.long(format!(
                    "trainc_pixels_in_pairs(to, {}, {}, {apart});",
                    self.pixels(),
                    self.pixel_bytes
                )),
                None => {}
            }
            out.close();
        });
    }

    /// Prints the products of a phase, before which there are so many panels and lanes.
    fn emit_tiles(
        &self,
        reading: &Reading,
        [before, lanes]: [usize; 2],
        parts: &mut Parts<'_>,
        out: &mut Text,
    ) {
        let (c, layout, row_panels) = (self.convolution, &self.layout, self.row_panels());
        let [rows, columns] = reading.phase.windows.size;
        let at = |name: &str, offset: usize| match offset {
            0 => name.to_string(),
            _ => format!("{name} + {offset}"),
        };
        out.long(format!(
            "trainc_places({}, {rows}, {columns}, {}, {}, {});",
            at("lanes", lanes),
            reading.first,
            reading.down,
            reading.right
        ));
        if !reading.dense() {
            let Phase { first, row_stride, column_stride, .. } = &reading.phase;
            out.long(format!(
                "trainc_places({}, {rows}, {columns}, {first}, {row_stride}, {column_stride});",
                at("results", lanes)
            ));
        }
        let (places, panels) = (reading.places(), reading.panels());
        let count = c.images * panels;
        let shares = count.min(PARTS);
        let mut taken = vec![
            own("const int8_t *", "weights"),
            own("const int8_t *", "pixels"),
            own("const int32_t *", "lanes"),
        ];
        if reading.stretches.rows_of_table() > 0 {
            taken.push(own("const struct trainc_stretch *", "stretches"));
        }
        taken.extend([own("int32_t *", "sums"), own("int32_t *", "part_bits")]);
        let table = at("stretches", self.stretches_before(reading));
        reading.stretches.emit(&table, out);
        parts.run(out, shares, &taken, |out| {
            if let Some(met) = self.met(reading) {
                met.emit("rows_met", out);
            }
            for_parts(out);
            let [begin, end] = range(count, shares);
            out.line(format!("const int32_t last = {end};"));
            out.line("uint32x4_t bits = vdupq_n_u32(0);");
            out.open(format!("for (int32_t first = {begin}; first < last; first += {BLOCK}) {{"));
            out.long(format!("const int32_t stop = trainc_minimum32(first + {BLOCK}, last);"));
            let together = self.panels_together();
            let (at_rows, some) = if together == row_panels {
                (String::new(), together.to_string())
            } else {
                out.open(format!(
                    "for (int32_t rows = 0; rows < {row_panels}; rows += {together}) {{"
                ));
                let some = match row_panels.is_multiple_of(together) {
                    true => together.to_string(),
                    false => format!("trainc_minimum32({row_panels} - rows, {together})"),
                };
                (format!(" + {}", times("rows", layout.rows_bytes)), some)
            };
            let some_lanes = self.together(reading);
            out.open(match some_lanes {
                true => "for (int32_t n = first; n < stop;) {",
                false => "for (int32_t n = first; n < stop; n++) {",
            });
            let (image, panel) = match c.images {
                1 => ("pixels".to_string(), "n".to_string()),
                _ => {
                    let image = format!("pixels + n / {panels} * {}", layout.image_bytes);
                    (image, format!("n % {panels}"))
                }
            };
            let eights = match (self.apart, some_lanes) {
                (None, _) => "",
                (Some(_), false) => "1, ",
                (Some(_), true) => "eights, ",
            };
            if some_lanes {
                out.long(format!(
                    "const int32_t eights = trainc_minimum32(stop - n, {panels} - {panel});"
                ));
            }
            let place = match places.is_multiple_of(8) {
                true => format!("8 * ({panel})"),
                false => format!("trainc_first_place({panel}, {places})"),
            };
            let met = self.met(reading);
            let mut starts = [String::new(), String::new()];
            let (place, arguments) = match met {
                None => (place, reading.stretches.arguments(&table)),
                Some(_) => {
                    out.line(format!("const int32_t place = {place};"));
                    out.line("const struct trainc_met met = trainc_meet(&rows_met, place);");
                    starts = reading.stretches.starts_met("met");
                    ("place".to_string(), reading.stretches.arguments_met(&table, "met"))
                }
            };
            let [rows_start, operand_start] = starts;
            let sums_at = if before == 0 { "n".to_string() } else { format!("({before} + n)") };
            let to = match at_rows.is_empty() {
                true => format!("sums + {sums_at} * {}", 64 * row_panels),
                false => format!("sums + ({sums_at} * {row_panels} + rows) * 64"),
            };
            out.long(format!(
                "bits = vorrq_u32(bits, {}({}{at_rows}{rows_start}, {some}, {}, {image}{operand_start}, {} + {place}, {eights}{}, {to}));",
                self.level.function(&reading.stretches.tiles(self.outer)),
                at("weights", reading.rows),
                layout.rows_bytes,
                at("lanes", lanes),
                arguments,
            ));
            if some_lanes {
                out.line("n += eights;");
            }
            if together < row_panels {
                out.close();
            }
            out.close();
            out.close();
            out.line("part_bits[part] = trainc_magnitude_bits(bits);");
            out.close();
        });
        out.line(format!("bits |= trainc_all_bits(part_bits, {shares});"));
    }

    fn emit_stores(
        &self,
        reading: &Reading,
        finish: Option<Narrowing>,
        [before, lanes]: [usize; 2],
        between: Option<Neighbour>,
        parts: &mut Parts<'_>,
        out: &mut Text,
    ) {
        let (c, row_panels) = (self.convolution, self.row_panels());
        let (places, panels) = (reading.places(), reading.panels());
        // Panels that overlap are of one part.
        let overlaps = !places.is_multiple_of(8);
        let units = if overlaps { panels - 1 } else { panels };
        let (ty, more) = match finish {
            Some(_) => ("int8_t *", true),
            None => ("int32_t *", false),
        };
        let mut taken = vec![own("const int32_t *", "sums"), own(ty, "y0")];
        if !reading.dense() {
            taken.push(own("const int32_t *", "results"));
        }
        if more {
            taken.push(given("const struct trainc_rounding *", "rounding", "&rounding"));
        }
        parts.run(out, c.images * units, &taken, |out| {
            let dense = reading.dense();
            out.open(match dense {
                true => "for (int32_t n = begin; n < end;) {",
                false => "for (int32_t n = begin; n < end; n++) {",
            });
            let (image, unit) = match c.images {
                1 => ("0".to_string(), "n".to_string()),
                _ => (format!("n / {units}"), format!("n % {units}")),
            };
            out.line(format!("const int32_t image = {image}, unit = {unit};"));
            if dense {
                out.long(format!(
                    "const int32_t some = trainc_minimum32(end - n, {units} - unit);"
                ));
            }
            // Of `count` panels from `panel` on, whose first lane is `first`; where results are apart, of that panel.
            let store = |panel: &str, count: &str, first: &str, out: &mut Text| {
                let tile = match before {
                    0 => format!("(image * {panels} + {panel})"),
                    _ => format!("({before} + image * {panels} + {panel})"),
                };
                let plane = self.outer * self.result_plane;
                if let Some(between) = between {
                    let odd = match between {
                        Neighbour::Behind { before } => {
                            let tile = format!("({before} + image * {panels} + {panel})");
                            format!("sums + {tile} * {}", row_panels * 64)
                        }
                        _ => "NULL".to_string(),
                    };
                    let lane = if lanes == 0 { first.to_string() } else { format!("{lanes} + {first}") };
                    out.long(format!(
                        "{}(sums + {tile} * {}, {odd}, {}, {}, y0 + image * {plane} + results[{lane}]{});",
                        self.level.function(&format!("store_between_{}", suffix(finish))),
                        row_panels * 64,
                        self.outer,
                        self.result_plane,
                        argument(finish)
                    ));
                    return;
                }
                let (function, count, to) = match (dense, lanes) {
                    (true, _) => {
                        let to = format!("y0 + image * {plane} + {first}");
                        ("places", format!("{count}, "), to)
                    }
                    (false, 0) => {
                        let to = format!("results + {first}, y0 + image * {plane}");
                        ("apart", String::new(), to)
                    }
                    (false, _) => {
                        let to = format!("results + {lanes} + {first}, y0 + image * {plane}");
                        ("apart", String::new(), to)
                    }
                };
                out.long(format!(
                    "{}(sums + {tile} * {}, {count}{}, {}, {to}{});",
                    self.level.function(&format!("store_{function}_{}", suffix(finish))),
                    row_panels * 64,
                    self.outer,
                    self.result_plane,
                    argument(finish)
                ));
            };
            let count = if dense { "some" } else { "1" };
            store("unit", count, "8 * unit", out);
            if overlaps {
                out.open(format!("if (unit + {count} == {units}) {{"));
                store(&units.to_string(), "1", &(places - 8).to_string(), out);
                out.close();
            }
            if dense {
                out.line("n += some;");
            }
            out.close();
        });
    }
}
