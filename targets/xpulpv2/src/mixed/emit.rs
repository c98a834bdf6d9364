//! The C of a convolution with constant weights.

use trainc_ir::program::Kernel;

use super::arrange::{group_bytes, groups};
use super::convolution::{Convolution, Stage, bits};
use super::layout::{CORES, FILTERS, Layout, Source};
use super::stage::{self, TileStage};
use super::text::{Text, times};
use super::tile::{InnerLoop, Tile};
use super::{direct, lines};
use crate::instructions::Block;

/// Cycles around a tile's call, of an entry, and of an element that C makes.
const CALL: u64 = 60;
const ENTRY: u64 = 200;
const ELEMENT: u64 = 12;

/// A convolution and what is chosen for it.
#[derive(Clone, Debug)]
pub(crate) struct Emission<'c> {
    pub(super) c: &'c Convolution,
    pub(crate) layout: Layout,
    tile: Tile,
    /// Whether the tile holds the output stage; if not, it gives sums.
    pub(super) whole: bool,
}

impl<'c> Emission<'c> {
    /// `None` where tiles do not suit.
    pub(crate) fn new(c: &'c Convolution) -> Option<Emission<'c>> {
        let layout = Layout::new(c)?;
        let own = TileStage::new(c);
        let whole = own.is_some();
        let y_step = if whole { c.filters * bits(c.y) / 8 } else { 4 * FILTERS };
        let tile = Tile {
            columns: layout.columns,
            bits: if c.is_depthwise() { 8 } else { bits(c.w) },
            x_step: layout.x_step,
            group_step: if c.is_depthwise() { FILTERS } else { 0 },
            signed: c.is_signed(),
            rows: c.kernel[0],
            units: layout.segment / layout.unit,
            step: layout.step,
            line: layout.line * c.dilations[0],
            y_step,
            stage: own.unwrap_or(TileStage::Sums),
        };
        Some(Emission { c, layout, tile, whole })
    }

    /// The innermost loop.
    pub(crate) fn inner_loop(&self) -> InnerLoop {
        self.tile.inner_loop(&self.tile.block())
    }

    /// Tiles of an image.
    fn tiles(&self) -> usize {
        self.layout.output[0] * self.layout.tiles()
    }

    /// Whether filters are divided among cores; else tiles are.
    fn by_filters(&self) -> bool {
        self.tiles() < CORES && groups(self.c.filters) > 1
    }

    /// Estimate of cycles on one core.
    pub(crate) fn cycles(&self) -> u64 {
        let (c, layout) = (self.c, &self.layout);
        let tiles = (layout.batch * self.tiles()) as u64;
        let tile = self.tile.block().cycles(groups(c.filters) as u64) + CALL;
        let elements = (layout.batch * layout.output[0] * layout.output[1] * c.filters) as u64;
        let stage = if self.whole { 0 } else { elements * ELEMENT };
        let bytes = (layout.batch * layout.input[0] * layout.line) as u64;
        let fill = match layout.source {
            Source::InPlace => 0,
            Source::Copied | Source::Unpacked => bytes,
            Source::Ordered => bytes * 3 / 2,
            Source::Padded | Source::Spread => bytes * ELEMENT,
        };
        ENTRY + tiles * tile + stage + fill
    }

    /// The kernel's function after those it calls.
    pub(crate) fn functions(&self, name: &str, kernel: &Kernel) -> String {
        let mut out = Text::default();
        let columns = self.tile.columns;
        let [tile, window] = match columns {
            1 => ["a column".to_string(), "the column's window".to_string()],
            _ => [format!("{columns} columns"), "the window of the second column".to_string()],
        };
        let round = self.inner_loop();
        let tile_comment = [
            format!("`{name}` at {tile} of the result: `groups` times {FILTERS} filters."),
            format!(
                "x: {window}. Innermost loop: {} products in {} cycles.",
                round.products, round.cycles
            ),
        ];
        out.raw(&self.tile.block().function(&format!("{name}_tile"), &tile_comment));
        out.line("");
        self.groups(name, &mut out);
        if self.layout.source != Source::InPlace {
            self.fill(name, &mut out);
        }
        if !self.by_filters() {
            self.tiles_function(name, &mut out);
        }
        match &self.layout.tiling {
            Some(tiling) => self.tiled_entry(name, kernel, tiling, &mut out),
            None => self.entry(name, kernel, &mut out),
        }
        out.finish()
    }

    /// Arguments of a tile for the stage's operands, from filter `first` on.
    fn stage_arguments(&self, first: &str) -> String {
        let names = ["first", "second"].iter().zip(self.tile.stage.operand_bytes());
        let mut text = String::new();
        for (name, bytes) in names {
            match first {
                "0" => text.push_str(&format!("work->{name}, ")),
                _ => text.push_str(&format!("work->{name} + {}, ", times(first, bytes))),
            }
        }
        text
    }

    /// `NAME_groups`: a tile's window with groups `begin..end` of filters.
    fn groups(&self, name: &str, out: &mut Text) {
        let (c, layout) = (self.c, &self.layout);
        let bytes = group_bytes(c, layout);
        let count = groups(c.filters);
        out.line(format!("/* Groups begin..end of {count}, of four filters each, at a tile. */"));
        out.line(format!("static void {name}_groups(void *context, int32_t begin, int32_t end)"));
        out.open("{");
        out.line("const struct trainc_mixed_work *const work = context;");
        let tiled = layout.tiling.is_some();
        if tiled {
            out.line("begin += work->group;");
            out.line("end += work->group;");
        }
        // Weights start with the group of the piece.
        let own =
            |group: &str| if tiled { format!("({group} - work->group)") } else { group.into() };
        if self.whole {
            let full = c.filters / FILTERS;
            let y_bytes = FILTERS * bits(c.y) / 8;
            let short = !c.filters.is_multiple_of(FILTERS);
            let last = if short {
                out.line(format!("const int32_t full = end < {full} ? end : {full};"));
                "full"
            } else {
                "end"
            };
            if short {
                out.open("if (begin < full) {");
            }
            out.line(format!("const int32_t filter = begin * {FILTERS};"));
            let operands = self.stage_arguments("filter");
            if self.tile.stage.operands().is_empty() {
                out.line("(void)filter;");
            }
            let step = self.tile.group_step;
            let window = |at: &str| match step {
                0 => "work->window".to_string(),
                _ => format!("work->window + {at}"),
            };
            out.line(format!(
                "{name}_tile({}, work->weights + {}, {operands}work->y + {}, (uint32_t)({last} - begin));",
                window(&times("begin", step)),
                times(&own("begin"), bytes),
                times("begin", y_bytes)
            ));
            if short {
                out.close();
                let first = c.filters - FILTERS;
                out.open("if (end > full) {");
                out.line("/* The last group overlaps the one before. */");
                let operands = self.stage_arguments(&first.to_string());
                out.line(format!(
                    "{name}_tile({}, work->weights + {}, {operands}work->y + {}, 1);",
                    window(&first.to_string()),
                    if tiled {
                        times(&own(&full.to_string()), bytes)
                    } else {
                        (full * bytes).to_string()
                    },
                    first * bits(c.y) / 8
                ));
                out.close();
            }
        } else {
            let columns = self.tile.columns;
            out.line("/* The output stage does not suit a tile: it follows on the sums. */");
            let used = match self.c.stage {
                Stage::Sums => 0,
                Stage::Threshold { flips: false, .. } => 1,
                _ => 2,
            };
            let names = ["first", "second"];
            for name in &names[..used] {
                out.line(format!(
                    "const int32_t *const {name} = (const int32_t *)(const void *)work->{name};"
                ));
            }
            out.open("for (int32_t group = begin; group < end; group++) {");
            out.line(format!("int32_t sums[{}];", columns * FILTERS));
            let room = c.filters.saturating_sub(FILTERS);
            let start = format!("group * {FILTERS} < {room} ? group * {FILTERS} : {room}");
            out.line(format!("const int32_t start = {start};"));
            out.line(format!(
                "{name}_tile(work->window{}, work->weights + {}, (uint8_t *)sums, 1);",
                if self.tile.group_step > 0 { " + start" } else { "" },
                times(&own("group"), bytes)
            ));
            out.for_("column", columns);
            out.for_("filter", FILTERS.min(c.filters));
            out.line("const int32_t channel = start + filter;");
            let sum = format!("sums[column * {FILTERS} + filter]");
            stage::value(c, &sum, &names[..used], out);
            let index = format!("(work->pixel + column) * {} + channel", c.filters);
            stage::store(c, "work->y", &index, out);
            out.close();
            out.close();
            out.close();
        }
        out.close();
        out.line("");
    }

    /// `NAME_fill`: lines `begin..end` of a strip.
    fn fill(&self, name: &str, out: &mut Text) {
        let (c, layout) = (self.c, &self.layout);
        let [height, width] = layout.input;
        let row_bits = width * c.channels * bits(c.x);
        let left = c.pads[1] * layout.column_bytes;
        let flat = matches!(layout.source, Source::Copied | Source::Unpacked | Source::Ordered);
        let right = layout.line.saturating_sub(left + width * layout.column_bytes);
        let outside = c.pads[0] + c.pads[2] > 0;
        let margins = flat && left + right > 0;
        if flat {
            let words = row_bits / 32;
            let comment = ["A row of the operand as bytes.".to_string()];
            let of_block = |block: Block| block.function(&format!("{name}_row"), &comment);
            out.raw(&match layout.source {
                Source::Copied => of_block(lines::copy(words)),
                Source::Ordered => lines::ordered(name, words, c.x),
                _ => of_block(lines::unpack(words, bits(c.x), c.is_signed())),
            });
            out.line("");
        }
        if outside {
            let comment = ["A line of padding.".to_string()];
            let block = lines::fill(layout.line / 4);
            out.raw(&block.function(&format!("{name}_outside"), &comment));
            out.line("");
        }
        out.line("/* Lines begin..end of a strip. */");
        out.line(format!("static void {name}_fill(void *context, int32_t begin, int32_t end)"));
        out.open("{");
        out.line("const struct trainc_mixed_work *const work = context;");
        out.open("for (int32_t line = begin; line < end; line++) {");
        let first = times("work->row", c.strides[0]);
        out.line(match c.pads[0] {
            0 => format!("const int32_t row = {first} + line;"),
            top => format!("const int32_t row = {first} - {top} + line;"),
        });
        out.line(format!("uint8_t *to = work->lines + {};", times("line", layout.line)));
        let word = format!("UINT32_C({:#010x})", c.padding_word());
        if outside {
            out.open(format!("if (row < 0 || row >= {height}) {{"));
            out.line(format!("{name}_outside(to, {word});"));
            out.line("continue;");
            out.close();
        }
        if flat {
            if margins {
                for (from, bytes) in [(0, left), (layout.line - right, right)] {
                    if bytes > 0 {
                        out.open(format!(
                            "for (int32_t i = {from}; i < {}; i += 4) {{",
                            from + bytes
                        ));
                        out.line(format!("trainc_xpulp_store(to + i, {word});"));
                        out.close();
                    }
                }
            }
            let to = if left == 0 { "to".into() } else { format!("to + {left}") };
            let from = if layout.tiling.is_some() { "(row - work->line)" } else { "row" };
            out.line(format!("{name}_row(work->x + {}, {to});", times(from, row_bits / 8)));
        } else {
            self.elements(out);
        }
        out.close();
        out.close();
        out.line("");
    }

    /// Fills a line element by element.
    fn elements(&self, out: &mut Text) {
        let (c, layout) = (self.c, &self.layout);
        let width = layout.input[1];
        let (bits, signed) = (bits(c.x), u8::from(c.is_signed()));
        let padding = c.padding as u8;
        let row = match layout.tiling {
            Some(_) => "(row - work->line)".to_string(),
            None => format!("(work->image * {} + row)", layout.input[0]),
        };
        let element = |column: &str| {
            format!(
                "(uint8_t)trainc_mixed_get(work->x, ({row} * {width} + {column}) * {} + channel, {bits}, {signed})",
                c.channels
            )
        };
        if layout.source == Source::Padded {
            let columns = width + c.pads[1] + c.pads[3];
            out.for_("place", columns);
            out.line(format!("const int32_t column = place - {};", c.pads[1]));
            out.line(format!("const int inside = column >= 0 && column < {width};"));
            out.for_("channel", layout.column_bytes);
            out.line(format!("const int real = inside && channel < {};", c.channels));
            out.line(format!("*to++ = real ? {} : {padding};", element("column")));
            out.close();
            out.close();
            let rest = layout.line - columns * layout.column_bytes;
            if rest > 0 {
                out.for_("i", rest);
                out.line(format!("*to++ = {padding};"));
                out.close();
            }
            return;
        }
        out.for_("place", layout.output[1]);
        out.for_("tap", c.kernel[1]);
        out.line(format!(
            "const int32_t column = {} + {} - {};",
            times("place", c.strides[1]),
            times("tap", c.dilations[1]),
            c.pads[1]
        ));
        out.line(format!("const int inside = column >= 0 && column < {width};"));
        out.for_("channel", c.channels);
        out.line(format!("*to++ = inside ? {} : {padding};", element("column")));
        out.close();
        out.close();
        let rest = layout.segment - c.kernel[1] * c.channels;
        if rest > 0 {
            out.for_("i", rest);
            out.line(format!("*to++ = {padding};"));
            out.close();
        }
        out.close();
    }

    /// Place of tile `i` of the strip of `work`, in `one`: the context of `NAME_groups`.
    fn place(&self, work: &str, out: &mut Text) {
        let (c, layout) = (self.c, &self.layout);
        let (columns, width, tiles) = (layout.columns, layout.output[1], layout.tiles());
        let [row, tile] = match (tiles, layout.output[0]) {
            (1, _) => ["i".into(), "0".into()],
            (_, 1) => ["0".into(), "i".into()],
            _ => [format!("i / {tiles}"), format!("i % {tiles}")],
        };
        out.line(format!("const int32_t row = {row};"));
        if tiles == 1 {
            out.line("const int32_t column = 0;");
        } else if width.is_multiple_of(columns) {
            out.line(format!("const int32_t column = {};", times(&format!("({tile})"), columns)));
        } else {
            let last = width - columns;
            out.line(format!("const int32_t tile = {};", times(&format!("({tile})"), columns)));
            out.line("/* The last tile overlaps the one before. */");
            out.line(format!("const int32_t column = tile < {last} ? tile : {last};"));
        }
        let bias = match self.tile.bias() {
            0 => String::new(),
            bias => format!(" + {bias}"),
        };
        let lines = if layout.source == Source::InPlace { "x" } else { "lines" };
        out.line(format!(
            "one.window = {work}{lines} + row * {} + {}{bias};",
            c.strides[0] * layout.line,
            times("column", layout.step)
        ));
        let pixel = format!("({work}row + row) * {width} + column");
        if self.whole {
            let bytes = c.filters * bits(c.y) / 8;
            out.line(format!("one.y = {work}y + ({pixel}) * {bytes};"));
        } else {
            let image = layout.output[0] * width;
            out.line(format!("one.pixel = {work}image * {image} + {pixel};"));
        }
    }

    /// `NAME_tiles`: tiles `begin..end` of a strip.
    fn tiles_function(&self, name: &str, out: &mut Text) {
        let tiles = self.layout.tiles();
        out.line(format!("/* Tiles begin..end of a strip, {tiles} in a row. */"));
        out.line(format!("static void {name}_tiles(void *context, int32_t begin, int32_t end)"));
        out.open("{");
        out.line("const struct trainc_mixed_work *const work = context;");
        out.line("struct trainc_mixed_work one = *work;");
        out.open("for (int32_t i = begin; i < end; i++) {");
        self.place("work->", out);
        let groups = match self.layout.tiling {
            Some(_) => "work->groups".to_string(),
            None => groups(self.c.filters).to_string(),
        };
        out.line(format!("{name}_groups(&one, 0, {groups});"));
        out.close();
        out.close();
        out.line("");
    }

    fn entry(&self, name: &str, kernel: &Kernel, out: &mut Text) {
        let (c, layout) = (self.c, &self.layout);
        let scratch = layout.scratch_bytes() > 0;
        out.line(direct::prototype(name, kernel, scratch));
        out.open("{");
        out.line("struct trainc_mixed_work all = {0};");
        let operands = ["weights", "first", "second"];
        for (i, field) in operands.iter().enumerate().take(kernel.inputs.len() - 1) {
            out.line(format!("all.{field} = (const uint8_t *)x{};", i + 1));
        }
        if scratch {
            out.line("all.lines = scratch;");
        }
        let image = layout.input[0] * layout.input[1] * c.channels * bits(c.x) / 8;
        let results = layout.output[0] * layout.output[1] * c.filters * bits(c.y);
        self.zeros(out);
        let many = layout.batch > 1;
        if many {
            out.for_("image", layout.batch);
            out.line("all.image = image;");
        }
        let part = |pointer: &str, bytes: usize, whole: bool| match whole || !many {
            true => format!("(uint8_t *){pointer}"),
            false => format!("(uint8_t *){pointer} + image * {bytes}"),
        };
        out.line(format!("all.x = (const {};", &part("x0", image, self.is_by_element())[1..]));
        out.line(format!("all.y = {};", part("y0", results / 8, !self.whole)));
        let total = layout.output[0];
        let strips = total.div_ceil(layout.strip);
        let [rows, lines] = if strips == 1 {
            [total.to_string(), layout.lines(c, total).to_string()]
        } else {
            out.open(format!("for (int32_t row = 0; row < {total}; row += {}) {{", layout.strip));
            out.line("all.row = row;");
            if total.is_multiple_of(layout.strip) {
                [layout.strip.to_string(), layout.lines(c, layout.strip).to_string()]
            } else {
                let strip = layout.strip;
                out.line(format!(
                    "const int32_t rows = row + {strip} < {total} ? {strip} : {total} - row;"
                ));
                let more = layout.lines(c, 1);
                ["rows".into(), format!("(rows - 1) * {} + {more}", c.strides[0])]
            }
        };
        let groups = groups(c.filters).to_string();
        self.strip(name, [&rows, &lines, &groups], out);
        if strips > 1 {
            out.close();
        }
        if many {
            out.close();
        }
        out.close();
    }

    /// Zeros in the place of results of which several share a byte.
    pub(super) fn zeros(&self, out: &mut Text) {
        let (c, layout) = (self.c, &self.layout);
        if stage::shares_bytes(c) {
            let results = layout.batch * layout.output[0] * layout.output[1] * c.filters;
            out.line("/* Columns share bytes: they are one core's work. */");
            out.for_("i", (results * bits(c.y)).div_ceil(8));
            out.line("y0[i] = 0;");
            out.close();
        }
    }

    /// The work of a strip: so many rows of results, lines of the operand, groups of filters.
    pub(super) fn strip(&self, name: &str, [rows, lines, groups]: [&str; 3], out: &mut Text) {
        let layout = &self.layout;
        let shares = stage::shares_bytes(self.c);
        if layout.source != Source::InPlace {
            out.line(format!("TRAINC_PARALLEL_FOR(&all, {lines}, {name}_fill);"));
        }
        let tiles = match rows.parse::<usize>() {
            Ok(rows) => (rows * layout.tiles()).to_string(),
            Err(_) => times(rows, layout.tiles()),
        };
        if self.by_filters() {
            out.for_("i", &tiles);
            out.line("struct trainc_mixed_work one = all;");
            self.place("all.", out);
            out.line(if shares {
                format!("{name}_groups(&one, 0, {groups});")
            } else {
                format!("TRAINC_PARALLEL_FOR(&one, {groups}, {name}_groups);")
            });
            out.close();
        } else if shares {
            out.line(format!("{name}_tiles(&all, 0, {tiles});"));
        } else {
            out.line(format!("TRAINC_PARALLEL_FOR(&all, {tiles}, {name}_tiles);"));
        }
    }

    /// Whether lines are filled by index into the whole operand.
    fn is_by_element(&self) -> bool {
        matches!(self.layout.source, Source::Padded | Source::Spread)
    }
}
