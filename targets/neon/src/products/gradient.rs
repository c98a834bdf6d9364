//! Weight gradients: rows are output channels, lanes are input channels, and sums run over images and windows.
//!
//! With 16 images a block, or about, an operand is packed once: at each place the images of a channel lie together, so
//! that a tap only pairs other places, and those in the padding are left out. With fewer images sums run over the windows
//! in order, and what each tap meets is packed anew.

use trainc_c::product::suffix;
use trainc_ir::product::{Convolution, Narrowing};

use super::shape::Windows;
use super::text::{Scratch, Text, declare, times};
use super::{argument, emit_finish};
use crate::level::Level;

/// A weight gradient as panels.
#[derive(Debug)]
pub(crate) struct GradientProduct<'a> {
    convolution: &'a Convolution,
    /// Most runs of a tap, and whether blocks are of images.
    runs: usize,
    by_images: bool,
    layout: Layout,
}

/// Sizes and places in the working memory.
#[derive(Debug, Default)]
struct Layout {
    bytes: usize,
    sums: usize,
    rows: usize,
    lanes: usize,
    runs: usize,
    temporary: usize,
    /// Bytes of a panel.
    rows_bytes: usize,
    lanes_bytes: usize,
}

/// Runs of a tap, and the windows in them.
fn tap_runs(windows: &Windows, tap: [usize; 2]) -> (usize, usize) {
    let columns: Vec<(usize, usize)> =
        (0..windows.size[1]).filter_map(|c| Some((c, windows.meets(1, c, tap[1])?))).collect();
    let rows: Vec<(usize, usize)> =
        (0..windows.size[0]).filter_map(|r| Some((r, windows.meets(0, r, tap[0])?))).collect();
    let breaks = columns.windows(2).filter(|w| w[1].0 != w[0].0 + 1 || w[1].1 != w[0].1 + 1);
    // Runs may join over the end of a row, so that this is a bound.
    (rows.len() * (breaks.count() + usize::from(!columns.is_empty())), rows.len() * columns.len())
}

impl<'a> GradientProduct<'a> {
    /// Plans a weight gradient.
    pub(crate) fn new(convolution: &'a Convolution) -> Self {
        let c = convolution;
        let windows = Windows::of(c);
        let taps = (0..c.taps[0]).flat_map(|i| (0..c.taps[1]).map(move |j| [i, j]));
        let runs: Vec<(usize, usize)> = taps.map(|tap| tap_runs(&windows, tap)).collect();
        // Blocks that a pair of panels multiplies over all taps.
        let met: usize = runs.iter().map(|(_, windows)| windows).sum();
        let by_images_cost = met * c.images.div_ceil(16);
        let row_panels = c.outputs.div_ceil(8);
        let in_order = c.tap_count() * (c.images * c.places()).div_ceil(16);
        let in_order_cost = in_order * (70 * row_panels + 100) / (70 * row_panels);
        let mut product = GradientProduct {
            convolution,
            runs: runs.iter().map(|(runs, _)| *runs).max().unwrap_or(0).max(1),
            by_images: by_images_cost <= in_order_cost,
            layout: Layout::default(),
        };
        product.layout = product.lay_out();
        product
    }

    /// Bytes of working memory.
    pub(crate) fn scratch_bytes(&self) -> usize {
        self.layout.bytes
    }

    fn lay_out(&self) -> Layout {
        let c = self.convolution;
        let (row_panels, lane_panels) = (c.outputs.div_ceil(8), c.channels.div_ceil(8));
        let taps = c.tap_count();
        let mut layout = Layout::default();
        let mut scratch = Scratch::default();
        layout.sums = scratch.take(c.groups * row_panels * lane_panels * taps * 64 * 4);
        if self.by_images {
            let blocks = c.images.div_ceil(16);
            layout.rows_bytes = c.places() * blocks * 128;
            layout.lanes_bytes = c.plane() * blocks * 128;
            layout.rows = scratch.take(row_panels * layout.rows_bytes);
            layout.lanes = scratch.take(layout.lanes_bytes);
            layout.runs = scratch.take(taps * self.runs * 12);
        } else {
            let bytes = (c.images * c.places()).div_ceil(16) * 128;
            (layout.rows_bytes, layout.lanes_bytes) = (bytes, bytes);
            layout.rows = scratch.take(row_panels * bytes);
            layout.lanes = scratch.take(bytes);
        }
        let own = if self.by_images { 0 } else { layout.lanes_bytes };
        layout.temporary = scratch.take(own.max(16 * taps));
        layout.bytes = scratch.bytes();
        layout
    }

    /// The kernel's body.
    pub(crate) fn emit(&self, level: Level, finish: Option<Narrowing>, out: &mut Text) {
        let c = self.convolution;
        let layout = &self.layout;
        let [images_last_rows, images_last_lanes] =
            ["images_last_rows", "images_last_lanes"].map(|name| level.function(name));
        let [tap_panel_rows, tap_panel_lanes] =
            ["tap_panel_rows", "tap_panel_lanes"].map(|name| level.function(name));
        let tile_for = level.function("tile_for");
        let (x, dy) = if c.swapped { ("x1", "x0") } else { ("x0", "x1") };
        let (row_panels, lane_panels) = (c.outputs.div_ceil(8), c.channels.div_ceil(8));
        let taps = c.tap_count();
        let windows = Windows::of(c);
        emit_windows("windows", &windows, out);
        declare(
            out,
            "int32_t",
            "sums",
            layout.sums,
            &format!(
                "[{row_panels} panels of rows][{lane_panels} panels of lanes][{taps} taps][8][8]"
            ),
        );
        let k = if self.by_images { "places][blocks of images" } else { "blocks of places" };
        declare(
            out,
            "int8_t",
            "rows",
            layout.rows,
            &format!("Panels of 8 output channels: [{k}][128]"),
        );
        declare(out, "int8_t", "lanes", layout.lanes, "A panel of 8 input channels, likewise.");
        if self.by_images {
            declare(out, "struct trainc_run", "runs", layout.runs, "Of each tap.");
        }
        if !self.by_images || finish.is_some() {
            declare(out, "int8_t", "temporary", layout.temporary, "Rows on their way.");
        }
        if self.by_images {
            out.line(format!("int32_t counts[{taps}];"));
        } else {
            // Rows meet their windows' places as they are.
            let places = Windows {
                plane: windows.size,
                start: [0, 0],
                step: [1, 1],
                taps: [1, 1],
                tap_step: [1, 1],
                ..windows.clone()
            };
            emit_windows("places", &places, out);
            let blocks = layout.rows_bytes / 128;
            out.line(format!("const struct trainc_run run = {{ 0, 0, {blocks} }};"));
        }
        out.line("uint32x4_t bits = vdupq_n_u32(0);");
        out.line("");
        if self.by_images {
            let blocks = c.images.div_ceil(16);
            out.for_("tap", taps);
            out.long(format!(
                "counts[tap] = trainc_tap_runs(&windows, tap / {}, tap % {}, {blocks}, runs + {});",
                c.taps[1],
                c.taps[1],
                times("tap", self.runs)
            ));
            out.close();
        }
        let grouped = c.groups > 1;
        let of_group = |name: &str, factor: usize| {
            if grouped { format!("{name} + {}", times("group", factor)) } else { name.into() }
        };
        if grouped {
            out.for_("group", c.groups);
        }
        let dy = of_group(dy, c.outputs * c.places());
        let x = of_group(x, c.channels * c.plane());
        let left = |total: usize, panel: &str| {
            if total.is_multiple_of(8) {
                "8".to_string()
            } else {
                format!("trainc_minimum32({total} - 8 * {panel}, 8)")
            }
        };
        let (dy_bytes, x_bytes) =
            (c.groups * c.outputs * c.places(), c.groups * c.channels * c.plane());
        out.for_("row", row_panels);
        let from = format!("{dy} + {}", times("row", 8 * c.places()));
        let to = format!("rows + {}", times("row", layout.rows_bytes));
        let count = left(c.outputs, "row");
        out.long(if self.by_images {
            format!(
                "{images_last_rows}({from}, {}, {dy_bytes}, {count}, {}, {to});",
                c.images,
                c.places()
            )
        } else {
            format!(
                "{tap_panel_rows}(&places, 0, 0, {from}, {}, {dy_bytes}, {count}, {to}, temporary);",
                c.images
            )
        });
        out.close();
        let bytes = row_panels * layout.rows_bytes;
        out.line(format!("trainc_tile *const multiply = {tile_for}(rows, {bytes});"));
        out.for_("lane", lane_panels);
        let from = format!("{x} + {}", times("lane", 8 * c.plane()));
        let count = left(c.channels, "lane");
        if self.by_images {
            out.long(format!(
                "{images_last_lanes}({from}, {}, {x_bytes}, {count}, {}, lanes);",
                c.images,
                c.plane()
            ));
            out.for_("row", row_panels);
            out.for_("tap", taps);
        } else {
            out.for_("tap", taps);
            out.long(format!(
                "{tap_panel_lanes}(&windows, tap / {}, tap % {}, {from}, {}, {x_bytes}, {count}, lanes, temporary);",
                c.taps[1], c.taps[1], c.images
            ));
            out.for_("row", row_panels);
        }
        let panel = if grouped { format!("(group * {row_panels} + row)") } else { "row".into() };
        out.long(format!(
            "int32_t *const tile = sums + (({panel} * {lane_panels} + lane) * {taps} + tap) * 64;"
        ));
        let runs = if self.by_images {
            format!("runs + {}, counts[tap]", times("tap", self.runs))
        } else {
            "&run, 1".into()
        };
        out.long(format!(
            "bits = vorrq_u32(bits, multiply(rows + {}, lanes, {runs}, tile));",
            times("row", layout.rows_bytes)
        ));
        out.close();
        out.close();
        out.close();
        if grouped {
            out.close();
        }
        out.line("");
        if !finish.is_some_and(Narrowing::asks_magnitude) {
            out.line("(void)bits;");
        }
        emit_finish(finish, out);
        if grouped {
            out.for_("group", c.groups);
        }
        out.for_("row", row_panels);
        let row_bytes = c.channels * taps;
        let temporary = if finish.is_some() { ", temporary" } else { "" };
        let y = of_group("y0", c.outputs * row_bytes);
        out.long(format!(
            "trainc_store_taps_{}(sums + {panel} * {}, {}, {}, {taps}, {y} + {}, {row_bytes}{temporary}{});",
            suffix(finish),
            lane_panels * taps * 64,
            left(c.outputs, "row"),
            c.channels,
            times("row", 8 * row_bytes),
            argument(finish)
        ));
        out.close();
        if grouped {
            out.close();
        }
    }
}

/// Declares windows.
pub(crate) fn emit_windows(name: &str, windows: &Windows, out: &mut Text) {
    let Windows { size, plane, start, step, taps, tap_step } = windows;
    out.long(format!(
        "static const struct trainc_windows {name} = {{ .rows = {}, .columns = {}, .height = {}, .width = {}, .top = {}, .left = {}, .down = {}, .right = {}, .taps_high = {}, .taps_wide = {}, .tap_down = {}, .tap_right = {} }};",
        size[0],
        size[1],
        plane[0],
        plane[1],
        start[0],
        start[1],
        step[0],
        step[1],
        taps[0],
        taps[1],
        tap_step[0],
        tap_step[1]
    ));
}
