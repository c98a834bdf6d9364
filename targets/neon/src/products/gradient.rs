//! Weight gradients: rows are output channels, lanes are input channels, and sums run over images and windows.
//!
//! With 16 images a block, or about, an operand is packed once: at each place the images of a channel lie together, so
//! that a tap only pairs other places, and those in the padding are left out. With fewer images sums run over the windows
//! in order, and what each tap meets is packed anew. Panels are divided into parts ([`super::parts`]).

use trainc_c::product::suffix;
use trainc_ir::product::{Convolution, Narrowing};

use super::parts::{PARTS, Parts, Taken, for_parts, given, of_level, of_panel, own, range};
use super::shape::Windows;
use super::text::{Scratch, Text, declare, times};
use super::{argument, emit_finish, operands};
use crate::level::Level;

/// Bytes that lanes' panels may take in all parts, where the rows' take no more.
const PART_BYTES: usize = 64 << 10;

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
    /// Parts of the rows, which are packed and stored, and of the lanes.
    row_parts: usize,
    parts: usize,
    /// Bytes of a panel.
    rows_bytes: usize,
    lanes_bytes: usize,
    /// Of a part.
    temporary_bytes: usize,
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
        (layout.rows_bytes, layout.lanes_bytes) = if self.by_images {
            let blocks = c.images.div_ceil(16);
            (c.places() * blocks * 128, c.plane() * blocks * 128)
        } else {
            let bytes = (c.images * c.places()).div_ceil(16) * 128;
            (bytes, bytes)
        };
        let rows = row_panels * layout.rows_bytes;
        let own = if self.by_images { 0 } else { layout.lanes_bytes };
        layout.temporary_bytes = own.max(16 * taps);
        let (units, bytes) = match self.by_images {
            true => (lane_panels, layout.lanes_bytes),
            false => (lane_panels * taps, 2 * layout.lanes_bytes),
        };
        layout.parts = (PART_BYTES.max(rows) / bytes.max(1)).clamp(1, PARTS).min(units.max(1));
        layout.row_parts = row_panels.clamp(1, layout.parts);
        layout.rows = scratch.take(rows);
        layout.lanes = scratch.take(layout.parts * layout.lanes_bytes);
        if self.by_images {
            layout.runs = scratch.take(taps * self.runs * 12);
        }
        layout.temporary = scratch.take(layout.parts * layout.temporary_bytes);
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
        let c = self.convolution;
        let layout = &self.layout;
        let tile_for = level.function("tile_for");
        let [x, dy] = operands(c);
        let (row_panels, lane_panels) = (c.outputs.div_ceil(8), c.channels.div_ceil(8));
        let taps = c.tap_count();
        let windows = Windows::of(c);
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
        declare(
            out,
            "int8_t",
            "lanes",
            layout.lanes,
            "A panel of 8 input channels, likewise, by parts.",
        );
        if self.by_images {
            declare(out, "struct trainc_run", "runs", layout.runs, "Of each tap.");
        }
        if !self.by_images || finish.is_some() {
            declare(out, "int8_t", "temporary", layout.temporary, "Rows on their way, by parts.");
        }
        if self.by_images {
            out.line(format!("int32_t counts[{taps}];"));
        } else {
            let blocks = layout.rows_bytes / 128;
            out.line(format!("const struct trainc_run run = {{ 0, 0, {blocks} }};"));
        }
        out.line(format!("int32_t bits = 0, part_bits[{}];", layout.parts));
        out.line("");
        if self.by_images {
            let blocks = c.images.div_ceil(16);
            out.open("{");
            emit_windows("windows", &windows, out);
            out.for_("tap", taps);
            out.long(format!(
                "counts[tap] = trainc_tap_runs(&windows, tap / {}, tap % {}, {blocks}, runs + {});",
                c.taps[1],
                c.taps[1],
                times("tap", self.runs)
            ));
            out.close();
            out.close();
        }
        let grouped = c.groups > 1;
        let of_group = |name: &str, factor: usize| {
            if grouped { format!("{name} + {}", times("group", factor)) } else { name.into() }
        };
        if grouped {
            out.for_("group", c.groups);
        }
        let (dy_name, x_name) = (dy, x);
        let dy = of_group(dy, c.outputs * c.places());
        let x = of_group(x, c.channels * c.plane());
        let panel = if grouped { format!("(group * {row_panels} + row)") } else { "row".into() };
        let mut common = of_level(level);
        if grouped {
            common.push(own("int32_t ", "group"));
        }
        let with = |more: &[Taken]| [&common[..], more].concat();
        let (dy_bytes, x_bytes) =
            (c.groups * c.outputs * c.places(), c.groups * c.channels * c.plane());
        let temporary = format!("temporary + {}", times("part", layout.temporary_bytes));
        let mut taken = with(&[own("const int8_t *", dy_name), own("int8_t *", "rows")]);
        if !self.by_images {
            taken.push(own("int8_t *", "temporary"));
        }
        // Rows meet their windows' places as they are.
        let places = Windows {
            plane: windows.size,
            start: [0, 0],
            step: [1, 1],
            taps: [1, 1],
            tap_step: [1, 1],
            ..windows.clone()
        };
        parts.run(out, layout.row_parts, &taken, |out| {
            if !self.by_images {
                emit_windows("places", &places, out);
            }
            for_parts(out);
            let [begin, end] = range(row_panels, layout.row_parts);
            out.open(format!("for (int32_t row = {begin}; row < {end}; row++) {{"));
            let from = format!("{dy} + {}", times("row", 8 * c.places()));
            let to = format!("rows + {}", times("row", layout.rows_bytes));
            let count = of_panel(c.outputs, "row");
            out.long(if self.by_images {
                format!(
                    "{}({from}, {}, {dy_bytes}, {count}, {}, {to});",
                    level.function("images_last_rows"),
                    c.images,
                    c.places()
                )
            } else {
                format!(
                    "{}(&places, 0, 0, {from}, {}, {dy_bytes}, {count}, {to}, {temporary});",
                    level.function("tap_panel_rows"),
                    c.images
                )
            });
            out.close();
            out.close();
        });
        let bytes = row_panels * layout.rows_bytes;
        out.line(format!("trainc_tile *const multiply = {tile_for}(rows, {bytes});"));
        let mut taken = with(&[
            own("const int8_t *", x_name),
            own("const int8_t *", "rows"),
            own("int8_t *", "lanes"),
            own("trainc_tile *", "multiply"),
            own("int32_t *", "sums"),
            own("int32_t *", "part_bits"),
        ]);
        taken.extend(if self.by_images {
            vec![own("const struct trainc_run *", "runs"), own("const int32_t *", "counts")]
        } else {
            vec![given("const struct trainc_run *", "run", "&run"), own("int8_t *", "temporary")]
        });
        parts.run(out, layout.parts, &taken, |out| {
            if !self.by_images {
                emit_windows("windows", &windows, out);
            }
            for_parts(out);
            out.long(format!(
                "int8_t *const packed = lanes + {};",
                times("part", layout.lanes_bytes)
            ));
            out.line("uint32x4_t bits = vdupq_n_u32(0);");
            let from = format!("{x} + {}", times("lane", 8 * c.plane()));
            let count = of_panel(c.channels, "lane");
            if self.by_images {
                let [begin, end] = range(lane_panels, layout.parts);
                out.open(format!("for (int32_t lane = {begin}; lane < {end}; lane++) {{"));
                out.long(format!(
                    "{}({from}, {}, {x_bytes}, {count}, {}, packed);",
                    level.function("images_last_lanes"),
                    c.images,
                    c.plane()
                ));
                out.for_("row", row_panels);
                out.for_("tap", taps);
            } else {
                let [begin, end] = range(lane_panels * taps, layout.parts);
                out.open(format!("for (int32_t n = {begin}; n < {end}; n++) {{"));
                // A number is more for compilers than one that is always 0.
                out.line(match lane_panels {
                    1 => "const int32_t lane = 0, tap = n;".to_string(),
                    _ => format!("const int32_t lane = n / {taps}, tap = n % {taps};"),
                });
                out.long(format!(
                    "{}(&windows, tap / {}, tap % {}, {from}, {}, {x_bytes}, {count}, packed, {temporary});",
                    level.function("tap_panel_lanes"),
                    c.taps[1],
                    c.taps[1],
                    c.images
                ));
                out.for_("row", row_panels);
            }
            out.long(format!(
                "int32_t *const tile = sums + (({panel} * {lane_panels} + lane) * {taps} + tap) * 64;"
            ));
            let runs = if self.by_images {
                format!("runs + {}, counts[tap]", times("tap", self.runs))
            } else {
                "run, 1".into()
            };
            out.long(format!(
                "bits = vorrq_u32(bits, multiply(rows + {}, packed, {runs}, tile));",
                times("row", layout.rows_bytes)
            ));
            if self.by_images {
                out.close();
            }
            out.close();
            out.close();
            out.line("part_bits[part] = trainc_magnitude_bits(bits);");
            out.close();
        });
        out.line(format!("bits |= trainc_all_bits(part_bits, {});", layout.parts));
        if grouped {
            out.close();
        }
        out.line("");
        if !finish.is_some_and(Narrowing::asks_magnitude) {
            out.line("(void)bits;");
        }
        emit_finish(finish, out);
        emit_store(c, finish, [layout.row_parts, layout.temporary_bytes], parts, out);
    }
}

/// Prints how sums[groups][panels of rows][panels of lanes][taps][8][8] are rounded and stored, in so many parts, each of
/// which has so many bytes of the temporary.
pub(super) fn emit_store(
    c: &Convolution,
    finish: Option<Narrowing>,
    [row_parts, temporary_bytes]: [usize; 2],
    parts: &mut Parts<'_>,
    out: &mut Text,
) {
    let grouped = c.groups > 1;
    let (row_panels, lane_panels) = (c.outputs.div_ceil(8), c.channels.div_ceil(8));
    let taps = c.tap_count();
    if grouped {
        out.for_("group", c.groups);
    }
    let row_bytes = c.channels * taps;
    let (panel, y, mut taken) = match grouped {
        true => (
            format!("(group * {row_panels} + row)"),
            format!("y0 + {}", times("group", c.outputs * row_bytes)),
            vec![own("int32_t ", "group")],
        ),
        false => ("row".to_string(), "y0".to_string(), Vec::new()),
    };
    taken.push(own("const int32_t *", "sums"));
    taken.extend(match finish {
        Some(_) => vec![
            own("int8_t *", "y0"),
            own("int8_t *", "temporary"),
            given("const struct trainc_rounding *", "rounding", "&rounding"),
        ],
        None => vec![own("int32_t *", "y0")],
    });
    let temporary = match finish {
        Some(_) => format!(", temporary + {}", times("part", temporary_bytes)),
        None => String::new(),
    };
    parts.run(out, row_parts, &taken, |out| {
        for_parts(out);
        let [begin, end] = range(row_panels, row_parts);
        out.open(format!("for (int32_t row = {begin}; row < {end}; row++) {{"));
        out.long(format!(
            "trainc_store_taps_{}(sums + {panel} * {}, {}, {}, {taps}, {y} + {}, {row_bytes}{temporary}{});",
            suffix(finish),
            lane_panels * taps * 64,
            of_panel(c.outputs, "row"),
            c.channels,
            times("row", 8 * row_bytes),
            argument(finish)
        ));
        out.close();
        out.close();
    });
    if grouped {
        out.close();
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
