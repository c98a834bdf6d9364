//! Products whose lanes are windows: the forward pass, and the operand's error as a convolution of the result's error.
//!
//! A lane is a place of the result, a row is a channel of it. The lanes' panels are packed from the operand as tiles need
//! them, from pixels whose channels lie together; only the taps that meet the plane are packed and multiplied. The
//! images' order among the lanes (`group`) decides how many those are: windows of different images at one place meet the
//! plane with the same taps.
//!
//! Weights, panels of lanes and results are divided into parts ([`super::parts`]), each of which has panels of its own.

use trainc_c::product::{self, DUE, suffix};
use trainc_ir::product::{Convolution, Narrowing, Pass};

use super::gradient::emit_windows;
use super::parts::{PARTS, Parts, Taken, for_parts, given, of_level, of_panel, own, range};
use super::phases::{Phase, phases};
use super::text::{Scratch, Text, declare, times};
use super::{WIDTH, argument, emit_finish, operands};
use crate::level::Level;

/// Bytes of lanes' panels of a part that stay in the cache while all rows pass, and the least and the most panels of those.
const BLOCK_BYTES: usize = 8 << 10;
const BLOCK_PANELS: [usize; 2] = [4, 32];

/// A product as panels.
#[derive(Debug)]
pub(crate) struct WindowProduct<'a> {
    convolution: &'a Convolution,
    /// Channels of a group that are summed.
    inner: usize,
    /// Channels of a group of the result.
    outer: usize,
    /// Places of the operand and of the result in a plane.
    plane: usize,
    result_plane: usize,
    phases: Vec<Phase>,
    /// Whether panels are gathered in the order of the weights, for too few channels to fill blocks.
    patches: bool,
    /// Images that come first among the lanes.
    group: usize,
    /// Whether the sums wait in the working memory for the last of them.
    waits: bool,
    layout: Layout,
}

/// Sizes and places in the working memory.
#[derive(Debug, Default)]
struct Layout {
    bytes: usize,
    sums: usize,
    offsets: usize,
    weights: usize,
    pixels: usize,
    panels: usize,
    runs: usize,
    temporary: usize,
    /// Parts of the weights, and what each has of the temporary.
    weight_parts: usize,
    temporary_bytes: usize,
    /// Parts of the largest phase, and a part's panels of lanes at a time.
    parts: usize,
    block: usize,
    /// Bytes of a pixel (or a patch), of a rows' panel, of the largest lanes' panel.
    pixel_bytes: usize,
    rows_bytes: usize,
    lanes_bytes: usize,
}

impl<'a> WindowProduct<'a> {
    /// Plans a forward product or an error.
    pub(crate) fn new(convolution: &'a Convolution, finish: Option<Narrowing>) -> Self {
        let c = convolution;
        let (inner, outer, plane, result_plane) = match c.pass {
            Pass::Error => (c.outputs, c.channels, c.places(), c.plane()),
            _ => (c.channels, c.outputs, c.plane(), c.places()),
        };
        let forward = c.pass == Pass::Forward;
        let by_taps = c.tap_count() * inner.next_multiple_of(16);
        let by_patches = (c.tap_count() * inner).next_multiple_of(16);
        let mut product = WindowProduct {
            convolution,
            inner,
            outer,
            plane,
            result_plane,
            phases: phases(c),
            patches: forward && 4 * by_taps > 5 * by_patches,
            group: 1,
            waits: !matches!(finish, Some(Narrowing::Adaptive { .. })),
            layout: Layout::default(),
        };
        if !product.patches {
            product.group = product.best_group();
        }
        product.layout = product.lay_out();
        product
    }

    /// Bytes of working memory.
    pub(crate) fn scratch_bytes(&self) -> usize {
        self.layout.bytes
    }

    fn row_panels(&self) -> usize {
        self.outer.div_ceil(8)
    }

    fn panels_of(&self, phase: &Phase) -> usize {
        (self.convolution.images * phase.windows.size[0] * phase.windows.size[1]).div_ceil(8)
    }

    /// The number of images at a place that makes the fewest instructions, about.
    fn best_group(&self) -> usize {
        let images = self.convolution.images;
        let blocks = self.inner.div_ceil(16);
        let mut best = (u64::MAX, 1);
        for group in [1, 2, 4, 8, 16] {
            if !images.is_multiple_of(group) || (group > 1 && self.result_plane > 4096) {
                continue;
            }
            let mut total = 0u64;
            for phase in &self.phases {
                let [rows, columns] = phase.windows.size;
                let places = group * rows * columns;
                let mut cost = 0;
                for first in (0..places).step_by(8) {
                    let at: Vec<usize> =
                        (first..places.min(first + 8)).map(|lane| lane / group).collect();
                    let rows: Vec<usize> = at.iter().map(|at| at / columns).collect();
                    let places: Vec<usize> = at.iter().map(|at| at % columns).collect();
                    let (i0, i1) = phase.windows.meeting(0, &rows);
                    let (j0, j1) = phase.windows.meeting(1, &places);
                    let taps = i1.saturating_sub(i0) * j1.saturating_sub(j0);
                    cost += self.row_panels() * (100 + 70 * taps * blocks);
                    cost += taps * (100 + 60 * blocks);
                    let dense =
                        group == 1 && (rows.len() == 8) && self.result_plane.is_multiple_of(8);
                    cost += self.outer * if dense { 20 } else { 45 };
                }
                total += (cost * (images / group)) as u64;
            }
            if total < best.0 {
                best = (total, group);
            }
        }
        best.1
    }

    fn lay_out(&self) -> Layout {
        let c = self.convolution;
        let panels: usize = self.phases.iter().map(|phase| self.panels_of(phase)).sum();
        let row_panels = self.row_panels();
        let mut layout = Layout::default();
        let taps = if self.patches { 1 } else { c.tap_count() };
        let in_phase = self.phases.iter().map(|p| p.windows.taps[0] * p.windows.taps[1]);
        let lane_taps = if self.patches { 1 } else { in_phase.max().unwrap_or(0) };
        layout.pixel_bytes =
            if self.patches { c.tap_count() * self.inner } else { self.inner }.next_multiple_of(16);
        layout.rows_bytes = taps * layout.pixel_bytes * 8;
        layout.lanes_bytes = lane_taps * layout.pixel_bytes * 8;
        let most = self.phases.iter().map(|phase| self.panels_of(phase)).max().unwrap_or(0);
        layout.parts = most.clamp(1, PARTS);
        let [least, largest] = BLOCK_PANELS;
        layout.block = (BLOCK_BYTES / layout.lanes_bytes.max(1))
            .clamp(least, largest)
            .min(most.div_ceil(layout.parts).max(1));
        layout.weight_parts = match (c.pass, self.patches) {
            (_, true) => 1,
            (Pass::Error, _) => self.outer.div_ceil(16).clamp(1, PARTS),
            _ => self.outer.clamp(1, PARTS),
        };
        let mut scratch = Scratch::default();
        if self.waits {
            layout.sums = scratch.take(c.groups * panels * row_panels * 64 * 4);
        }
        layout.offsets = scratch.take(panels * 8 * 4);
        layout.weights = scratch.take(row_panels * layout.rows_bytes);
        layout.pixels = scratch.take(if self.patches {
            layout.parts * 16 * layout.pixel_bytes
        } else {
            (c.images * self.plane + 1) * layout.pixel_bytes
        });
        let in_parts = layout.parts * layout.block;
        layout.panels = scratch.take(in_parts * layout.lanes_bytes);
        layout.runs = scratch.take(in_parts * lane_taps.max(1) * 12);
        layout.temporary_bytes = taps * if c.pass == Pass::Error { 256 } else { 16 };
        layout.temporary = scratch.take(layout.weight_parts * layout.temporary_bytes);
        layout.bytes = scratch.bytes();
        layout
    }

    /// The kernel's body.
    pub(crate) fn emit(
        &self,
        level: Level,
        finish: Option<Narrowing>,
        parts: &mut Parts<'_>,
        out: &mut Text,
    ) {
        self.declarations(out);
        match finish.filter(|_| !self.waits) {
            Some(finish) => self.emit_kept(level, finish, parts, out),
            None => self.emit_in_turn(level, finish, parts, out),
        }
    }

    /// All sums, then their finish.
    fn emit_in_turn(
        &self,
        level: Level,
        finish: Option<Narrowing>,
        parts: &mut Parts<'_>,
        out: &mut Text,
    ) {
        let c = self.convolution;
        let (row_panels, grouped) = (self.row_panels(), c.groups > 1);
        if grouped {
            out.for_("group", c.groups);
        }
        self.emit_operands(level, parts, out);
        self.emit_tiles(level, None, parts, out);
        if grouped {
            out.close();
        }
        let all: usize = self.phases.iter().map(|phase| self.panels_of(phase)).sum();
        out.line("");
        if !finish.is_some_and(Narrowing::asks_magnitude) {
            out.line("(void)bits;");
        }
        emit_finish(finish, out);
        if grouped {
            out.for_("group", c.groups);
        }
        let mut before = 0;
        for phase in &self.phases {
            let count = self.panels_of(phase);
            if count == 0 {
                continue;
            }
            let lanes = self.lanes_of(phase);
            let [ty, more] = match finish {
                Some(_) => ["int8_t *", "rounding"],
                None => ["int32_t *", ""],
            };
            let mut taken = self.of_groups();
            taken.extend([
                own("const int32_t *", "sums"),
                own("const int32_t *", "offsets"),
                own(ty, "y0"),
            ]);
            if !more.is_empty() {
                taken.push(given("const struct trainc_rounding *", more, "&rounding"));
            }
            let at = match (grouped, before) {
                (false, 0) => "p".to_string(),
                (false, before) => format!("({before} + p)"),
                (true, before) => format!("(group * {all} + {before} + p)"),
            };
            let own_panel = if before == 0 { "p".into() } else { format!("({before} + p)") };
            parts.run(out, count, &taken, |out| {
                out.open("for (int32_t p = begin; p < end; p++) {");
                out.long(format!(
                    "trainc_store_lanes_{}(sums + {at} * {}, {}, {}, offsets + {own_panel} * 8, {}, {}{});",
                    suffix(finish),
                    row_panels * 64,
                    self.outer,
                    self.result_plane,
                    of_panel(lanes, "p"),
                    self.of_group("y0", self.outer * self.result_plane),
                    argument(finish)
                ));
                out.close();
            });
            before += count;
        }
        if grouped {
            out.close();
        }
    }

    /// Sums that are rounded tile by tile by a shift that is kept between steps. A step that looks makes them twice, at first for
    /// their magnitude alone, so that none waits in memory.
    fn emit_kept(&self, level: Level, finish: Narrowing, parts: &mut Parts<'_>, out: &mut Text) {
        let groups = self.convolution.groups;
        if groups == 1 {
            self.emit_operands(level, parts, out);
        }
        out.line("struct trainc_rounding rounding;");
        out.line("/* Where the step looks at the sums' width, they are made for that first. */");
        out.open(format!("for (int32_t pass = {DUE} ? 0 : 1; pass < 2; pass++) {{"));
        out.open("if (pass == 1) {");
        product::emit_finish(Some(finish), out, WIDTH, |out, low| {
            out.line(format!("trainc_set_rounding(&rounding, shift, {low});"));
        });
        out.close();
        if groups > 1 {
            out.for_("group", groups);
            self.emit_operands(level, parts, out);
        }
        self.emit_tiles(level, Some(finish), parts, out);
        if groups > 1 {
            out.close();
        }
        out.close();
    }

    /// What is of one group of several.
    fn of_group(&self, name: &str, factor: usize) -> String {
        match self.convolution.groups {
            1 => name.into(),
            _ => format!("{name} + {}", times("group", factor)),
        }
    }

    /// Declares the working memory.
    fn declarations(&self, out: &mut Text) {
        let c = self.convolution;
        let (layout, row_panels) = (&self.layout, self.row_panels());
        let error = c.pass == Pass::Error;
        let what = if error { "input" } else { "output" };
        if self.waits {
            let text = format!("[panels of 8 lanes][{} {what} channels][8]", 8 * row_panels);
            declare(out, "int32_t", "sums", layout.sums, &text);
        }
        declare(out, "int32_t", "offsets", layout.offsets, "Of the lanes' results.");
        let taps = if self.patches { 1 } else { c.tap_count() };
        let k = if self.patches { "patch" } else { "channels" };
        let blocks = layout.pixel_bytes / 16;
        declare(
            out,
            "int8_t",
            "weights",
            layout.weights,
            &format!("Panels of 8 {what} channels: [{taps} taps][{blocks} blocks of the {k}][128]"),
        );
        if self.patches {
            declare(
                out,
                "int8_t",
                "patches",
                layout.pixels,
                "The operand under 8 windows, by parts.",
            );
        } else {
            declare(out, "int8_t", "pixels", layout.pixels, "The operand, channels last.");
        }
        declare(out, "int8_t", "panels", layout.panels, "Panels of 8 windows, by parts.");
        declare(out, "struct trainc_run", "runs", layout.runs, "Of each panel.");
        declare(out, "int8_t", "temporary", layout.temporary, "Of a block of all taps, by parts.");
        out.line(format!("int32_t bits = 0, part_bits[{}];", layout.parts));
        out.line("");
    }

    /// Packs the weights and, but for patches, the operand.
    fn emit_operands(&self, level: Level, parts: &mut Parts<'_>, out: &mut Text) {
        let c = self.convolution;
        let (layout, row_panels) = (&self.layout, self.row_panels());
        let tile_for = level.function("tile_for");
        let weights = self.outer * self.inner * c.tap_count();
        let [x, w] = operands(c);
        self.emit_weights(level, w, &self.of_group(w, weights), parts, out);
        let bytes = row_panels * layout.rows_bytes;
        out.line(format!("trainc_tile *const multiply = {tile_for}(weights, {bytes});"));
        if !self.patches {
            let to = self.plane * layout.pixel_bytes;
            let source = self.of_group(x, self.inner * self.plane);
            let mut taken = self.of_groups();
            taken.extend([own("const int8_t *", x), own("int8_t *", "pixels")]);
            parts.run(out, c.images, &taken, |out| {
                out.open("for (int32_t image = begin; image < end; image++) {");
                out.long(format!(
                    "trainc_channels_last({source} + {}, {}, {}, pixels + {}, {});",
                    times("image", c.groups * self.inner * self.plane),
                    self.inner,
                    self.plane,
                    times("image", to),
                    layout.pixel_bytes
                ));
                out.close();
            });
            let to = c.images * to;
            out.long(format!("trainc_zero(pixels + {to}, {});", layout.pixel_bytes));
        }
    }

    /// The group's number, if there are several.
    fn of_groups(&self) -> Vec<Taken> {
        match self.convolution.groups {
            1 => Vec::new(),
            _ => vec![own("int32_t ", "group")],
        }
    }

    fn lanes_of(&self, phase: &Phase) -> usize {
        self.convolution.images * phase.windows.size[0] * phase.windows.size[1]
    }

    /// Prints the products of all tiles: into `sums`, or, rounded by a kept shift in the second pass, into the result.
    fn emit_tiles(
        &self,
        level: Level,
        kept: Option<Narrowing>,
        parts: &mut Parts<'_>,
        out: &mut Text,
    ) {
        let mut before = 0;
        for phase in &self.phases {
            let count = self.panels_of(phase);
            if count == 0 {
                continue;
            }
            let mut taken = self.of_groups();
            taken.extend(of_level(level));
            taken.extend(if self.patches {
                vec![
                    own("const int8_t *", operands(self.convolution)[0]),
                    own("int8_t *", "patches"),
                ]
            } else {
                vec![own("const int8_t *", "pixels")]
            });
            taken.push(own("struct trainc_run *", "runs"));
            taken.extend([
                own("const int8_t *", "weights"),
                own("trainc_tile *", "multiply"),
                own("int8_t *", "panels"),
                own("int32_t *", "offsets"),
                own("int32_t *", "part_bits"),
            ]);
            taken.extend(match kept {
                None => vec![own("int32_t *", "sums")],
                Some(_) => vec![
                    own("int8_t *", "y0"),
                    own("int32_t ", "pass"),
                    given("const struct trainc_rounding *", "rounding", "&rounding"),
                ],
            });
            let shares = count.min(self.layout.parts);
            parts.run(out, shares, &taken, |out| {
                self.emit_phase(phase, out);
                for_parts(out);
                self.emit_part(level, kept, phase, [before, count, shares], out);
                out.close();
            });
            out.line(format!("bits |= trainc_all_bits(part_bits, {shares});"));
            before += count;
        }
    }

    /// Prints the products of a part of a phase's panels, of which so many are `before`: one of so many `shares` of `count`.
    fn emit_part(
        &self,
        level: Level,
        kept: Option<Narrowing>,
        phase: &Phase,
        [before, count, shares]: [usize; 3],
        out: &mut Text,
    ) {
        let c = self.convolution;
        let (layout, row_panels) = (&self.layout, self.row_panels());
        let lane_taps = layout.lanes_bytes / layout.pixel_bytes / 8;
        let all: usize = self.phases.iter().map(|phase| self.panels_of(phase)).sum();
        let plus = |base: usize| if base == 0 { String::new() } else { format!("{base} + ") };
        let [begin, end] = range(count, shares);
        let block = layout.block;
        out.long(format!(
            "int8_t *const lanes = panels + {};",
            times("part", block * layout.lanes_bytes)
        ));
        out.long(format!(
            "struct trainc_run *const own = runs + {};",
            times("part", block * lane_taps)
        ));
        out.line(format!("const int32_t last = {end};"));
        out.line(format!("int32_t counts[{block}];"));
        out.line("uint32x4_t bits = vdupq_n_u32(0);");
        out.open(format!("for (int32_t first = {begin}; first < last; first += {block}) {{"));
        out.long(format!("const int32_t some = trainc_minimum32({block}, last - first);"));
        out.for_("p", "some");
        if self.patches {
            let patch = 16 * layout.pixel_bytes;
            out.long(format!(
                "{}(&windows, &places, 8 * (first + p), {}, {}, {}, patches + {}, {}, lanes + {}, own + p, offsets + 8 * ({}first + p));",
                level.function("patch_panel"),
                self.of_group(operands(c)[0], self.inner * self.plane),
                self.inner,
                c.groups * self.inner * self.plane,
                times("part", patch),
                layout.pixel_bytes,
                times("p", layout.lanes_bytes),
                plus(before)
            ));
            out.line("counts[p] = 1;");
        } else {
            out.long(format!(
                "counts[p] = {}(&windows, &places, 8 * (first + p), pixels, {}, lanes + {}, own + {}, offsets + 8 * ({}first + p));",
                level.function("window_panel"),
                layout.pixel_bytes,
                times("p", layout.lanes_bytes),
                times("p", lane_taps),
                plus(before)
            ));
        }
        out.close();
        out.for_("rows", row_panels);
        out.for_("p", "some");
        let group_panels = if c.groups > 1 { format!("group * {all} + ") } else { String::new() };
        match kept {
            None => out.long(format!(
                "int32_t *const tile = sums + (({group_panels}{}first + p) * {row_panels} + rows) * 64;",
                plus(before)
            )),
            Some(_) => out.line("int32_t tile[64];"),
        }
        out.long(format!(
            "bits = vorrq_u32(bits, multiply(weights + {}, lanes + {}, own + {}, counts[p], tile));",
            times("rows", layout.rows_bytes),
            times("p", layout.lanes_bytes),
            times("p", lane_taps),
        ));
        if let Some(finish) = kept {
            out.open("if (pass == 1) {");
            out.long(format!(
                "trainc_store_lanes_{}(tile, {}, {}, offsets + 8 * ({}first + p), {}, {} + {}, rounding);",
                suffix(Some(finish)),
                of_panel(self.outer, "rows"),
                self.result_plane,
                plus(before),
                of_panel(self.lanes_of(phase), "first + p"),
                self.of_group("y0", self.outer * self.result_plane),
                times("rows", 8 * self.result_plane),
            ));
            out.close();
        }
        out.close();
        out.close();
        out.close();
        out.line("part_bits[part] = trainc_magnitude_bits(bits);");
    }

    /// Declares what a phase's windows and places are, where compilers see that they are constant.
    fn emit_phase(&self, phase: &Phase, out: &mut Text) {
        let c = self.convolution;
        emit_windows("windows", &phase.windows, out);
        let tap_bytes = self.layout.pixel_bytes * 8;
        out.long(format!(
            "static const struct trainc_places places = {{ .images = {}, .group = {}, .first = {}, .image_stride = {}, .row_stride = {}, .column_stride = {}, .first_tap = {}, .tap_row = {}, .tap_column = {} }};",
            c.images,
            self.group,
            phase.first,
            c.groups * self.outer * self.result_plane,
            phase.row_stride,
            phase.column_stride,
            phase.first_tap * tap_bytes,
            phase.tap_row * tap_bytes,
            phase.tap_column * tap_bytes
        ));
    }

    /// Packs the weights: the operand of that name, from its `source`.
    fn emit_weights(
        &self,
        level: Level,
        name: &'static str,
        source: &str,
        parts: &mut Parts<'_>,
        out: &mut Text,
    ) {
        let c = self.convolution;
        let layout = &self.layout;
        let (row_panels, taps) = (self.row_panels(), c.tap_count());
        if !self.outer.is_multiple_of(8) && !self.patches {
            let last = (row_panels - 1) * layout.rows_bytes;
            out.line("/* Rows without a channel. */");
            out.long(format!("trainc_zero(weights + {last}, {});", layout.rows_bytes));
        }
        if self.patches {
            let length = taps * self.inner;
            out.long(format!(
                "{}({source}, {}, {length}, {length}, weights, temporary);",
                level.function("rows"),
                self.outer
            ));
            return;
        }
        let mut taken = self.of_groups();
        taken.extend(of_level(level));
        taken.extend([
            own("const int8_t *", name),
            own("int8_t *", "weights"),
            own("int8_t *", "temporary"),
        ]);
        let temporary = format!("temporary + {}", times("part", layout.temporary_bytes));
        parts.run(out, layout.weight_parts, &taken, |out| {
            for_parts(out);
            if c.pass == Pass::Error {
                // 16 channels at a time.
                let blocks = self.outer.div_ceil(16);
                let [begin, end] = range(blocks, layout.weight_parts);
                out.line(format!("const int32_t first = 16 * ({begin}), last = 16 * ({end});"));
                let count = match self.outer.is_multiple_of(16) {
                    true => "last - first".to_string(),
                    false => format!("trainc_minimum32(last, {}) - first", self.outer),
                };
                out.long(format!(
                    "{}({source} + {}, {}, {count}, {taps}, {}, weights + {}, {}, {temporary});",
                    level.function("rows_of_errors"),
                    times("first", taps),
                    self.inner,
                    self.outer * taps,
                    times("first / 8", layout.rows_bytes),
                    layout.rows_bytes
                ));
            } else {
                let [begin, end] = range(self.outer, layout.weight_parts);
                out.open(format!("for (int32_t row = {begin}; row < {end}; row++) {{"));
                out.long(format!(
                    "{}({source} + {}, {}, {taps}, weights + row / 8 * {}, row % 8, {temporary});",
                    level.function("row_of_taps"),
                    times("row", self.inner * taps),
                    self.inner,
                    layout.rows_bytes
                ));
                out.close();
            }
            out.close();
        });
    }
}
