//! Products of 8-bit integers: convolutions, their gradients and matrix products, alone or with what makes 8-bit
//! integers of their sums.
//!
//! One scheme for all: a product is sums of two sets of vectors ([`layout`]), which the support header packs into words,
//! multiplies by tiles of 4 by 4 and rounds. Tiles, packing and rounding are divided by `TRAINC_PARALLEL_FOR`.

mod added;
mod depthwise;
mod four_taps;
mod layout;
mod outer;
mod phases;
mod planes;
mod shifted;
mod strips;

use trainc_c::product::{ProductKernel, emit_finish, suffix};
use trainc_c::text::{Text, declare, times};
use trainc_c::{CKernel, Emitted, Floats, Loops};
use trainc_ir::implementation::{Cost, Implementation, Signature};
use trainc_ir::product::Narrowing;
use trainc_ir::program::Kernel;

use depthwise::Depthwise;
use layout::{Kind, Layout, Set};
pub(crate) use layout::{divided, even_parts};
use outer::Outer;
use phases::{Places, phases};
use shifted::Shifted;
use strips::{Known, Strips};

/// Cycles of a call: set-up of sets, loops.
const CALL: u64 = 500;
/// Cycles of the finish for each result: kept or rounded to nearest, rounded as gradients of weights are, and put in its
/// place among those of other phases.
const FINISH: u64 = 4;
const FINISH_GRADIENT: u64 = 7;
const PLACE: u64 = 3;
/// Cycles of a row of sums that are rounded, and of a sum.
const ROW: usize = 40;
const SUM: usize = 5;
/// Fewest bytes of zeros that cores share.
const SHARED: usize = 2048;

/// A kernel that starts with a product.
#[derive(Debug)]
pub(crate) struct Product {
    kernel: ProductKernel,
    /// The whole, or its phases.
    layouts: Vec<Layout>,
    /// Where the phases' results lie.
    places: Vec<Places>,
    /// Whether results are in no phase, for they have no taps: zeros.
    has_zeros: bool,
    outer: Option<Outer>,
    /// Where each channel is convolved by itself.
    depthwise: Option<Depthwise>,
}

impl Product {
    /// The name for readers.
    pub(crate) const NAME: &str = "products of words";

    /// See [`ProductKernel::of`].
    pub(crate) fn of(signature: &Signature<'_>) -> Option<Result<Product, String>> {
        let planned = |kernel: ProductKernel| {
            if let Some(depthwise) = Depthwise::of(&kernel.convolution) {
                let depthwise = Some(depthwise);
                let (layouts, places) = (Vec::new(), Vec::new());
                return Ok(Product {
                    kernel,
                    layouts,
                    places,
                    has_zeros: false,
                    outer: None,
                    depthwise,
                });
            }
            let depthwise = None;
            if let Some((phases, whole)) = phases(&kernel.convolution) {
                let layouts = Layout::of_phases(&phases)?;
                let places = phases.iter().map(|phase| phase.places).collect();
                return Ok(Product {
                    kernel,
                    layouts,
                    places,
                    has_zeros: !whole,
                    outer: None,
                    depthwise,
                });
            }
            let layout = Layout::of(&kernel.convolution)?;
            let outer = Outer::of(&kernel.convolution, &layout, kernel.finish);
            let kernel = if outer.is_some() { kernel.subtracting() } else { kernel };
            let outer = outer.map(|outer| if kernel.subtracts() { outer.update() } else { outer });
            let (layouts, places) = (vec![layout], Vec::new());
            Ok(Product { kernel, layouts, places, has_zeros: false, outer, depthwise })
        };
        let product = ProductKernel::of_any(signature)?.and_then(planned);
        Some(product.and_then(|product| {
            // Of a channel by itself most of a tile may be filled up.
            let depthwise = product.kernel.convolution.is_depthwise();
            let loops = |product: &Product| {
                product.cost() >= Loops::with(signature, Floats::Software).cost()
            };
            if depthwise && loops(&product) {
                return Err("channels are convolved by themselves, which loops do in less".into());
            }
            Ok(product)
        }))
    }

    fn declarations(layout: &Layout, out: &mut Text) {
        let (rows, lanes) = (layout.sum_rows(), layout.lanes.tiles() * 4);
        let matrices = layout.matrices();
        let sums = format!("[{matrices}][{rows} rows][{lanes} lanes]");
        declare(out, "int32_t", "sums", layout.sums, &sums);
        if let Some(added) = &layout.added {
            declare(out, "uint32_t", "widths", layout.bits, "Of the sums, by parts of the lanes.");
            added.declarations(out);
            return;
        }
        if let Some(strips) = &layout.strips {
            declare(out, "uint32_t", "widths", layout.bits, "Of the sums, by parts.");
            strips.declarations(out);
            return;
        }
        declare(out, "uint32_t", "widths", layout.bits, "Of the sums, by tiles of lanes.");
        if let Some(shifted) = &layout.shifted {
            shifted.declarations(out);
            return;
        }
        if layout.rows.kind != Kind::InPlace {
            let vectors = layout.rows.tiles() * 4;
            let text = format!("{vectors} vectors of {} bytes.", layout.rows.bytes());
            declare(out, "int8_t", "rows", layout.packed_rows, &text);
        }
        if layout.lanes.kind != Kind::InPlace {
            let text =
                format!("{} times 4 vectors of {} bytes.", layout.parts(), layout.lanes.bytes());
            declare(out, "int8_t", "lanes", layout.packed_lanes, &text);
        }
        if let Some(volume) = &layout.volume {
            let text = format!("[{}][{}][{}]", volume.planes, volume.rows, volume.row);
            declare(out, "int8_t", "placed", layout.placed, &text);
        }
        if let Some(w) = &layout.windows {
            let list = |numbers: &[usize]| {
                let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
                numbers.join(", ")
            };
            out.long(format!(
                "static const struct trainc_xpulp_windows windows = {{ {{ {} }}, {{ {} }}, {{ {} }}, {{ {} }} }};",
                list(&w.vectors),
                list(&w.vector_strides),
                list(&w.counts),
                list(&w.strides)
            ));
        }
    }

    /// Packs the rows of a group.
    fn pack_rows(layout: &Layout, out: &mut Text) {
        let rows = &layout.rows;
        let bytes = rows.tiles() * 4 * rows.bytes();
        let group = if layout.rows_stay {
            plus("rows", "group", bytes, layout.groups)
        } else {
            "rows".into()
        };
        out.line("struct trainc_xpulp_packing packing;");
        set(out, "packing.set", rows, &Product::source(layout, rows), false);
        out.line(format!("packing.to = {group};"));
        out.long(format!(
            "TRAINC_PARALLEL_FOR(&packing, {}, trainc_xpulp_pack_tiles);",
            rows.tiles()
        ));
    }

    /// The first byte of a set's tensor, of this group and block.
    fn source(layout: &Layout, set: &Set) -> String {
        let group = plus(&format!("x{}", set.operand), "group", set.group_step, layout.groups);
        if set.image_step == 0 {
            group
        } else {
            plus(&group, "image", set.image_step, layout.blocks)
        }
    }

    /// The products by shifted copies.
    fn shifted(layout: &Layout, shifted: &Shifted, out: &mut Text) {
        shifted.clear(out);
        if layout.blocks > 1 {
            out.for_("image", layout.blocks);
        }
        if layout.groups > 1 {
            out.for_("group", layout.groups);
        } else {
            out.open("{");
        }
        let [lanes, rows] = [&layout.lanes, &layout.rows].map(|set| Product::source(layout, set));
        let matrix = layout.sum_rows() * layout.lanes.tiles() * 4;
        let sums = plus("sums", "group", matrix, layout.groups);
        let bits = plus("widths", "group", layout.widths(), layout.groups);
        shifted.multiply(out, [&lanes, &rows, &sums, &bits], layout.blocks > 1);
        out.close();
        if layout.blocks > 1 {
            out.close();
        }
    }

    /// The products by strips.
    fn strips(layout: &Layout, strips: &Strips, known: &mut Known, out: &mut Text) {
        out.line(format!("trainc_xpulp_zero(widths, {});", layout.groups * layout.widths() * 4));
        strips.clear(out, layout.groups);
        let groups = |out: &mut Text| {
            if layout.groups > 1 {
                out.for_("group", layout.groups);
            } else {
                out.open("{");
            }
        };
        let rows = plus("rows", "group", strips.rows_bytes(), layout.groups);
        groups(out);
        strips.pack(out, known, &Product::source(layout, &layout.rows), &rows);
        out.close();
        let together = Layout { blocks: 1, ..layout.clone() };
        let layout = if strips.joins_images() { &together } else { layout };
        if layout.blocks > 1 {
            out.for_("image", layout.blocks);
        }
        groups(out);
        let matrix = layout.sum_rows() * layout.lanes.tiles() * 4;
        let sums = plus("sums", "group", matrix, layout.groups);
        let sums = plus(&sums, "image", matrix * layout.groups, layout.blocks);
        let bits = plus("widths", "group", layout.widths(), layout.groups);
        let from = Product::source(layout, &layout.lanes);
        strips.multiply(out, known, [&from, &rows, &sums, &bits]);
        out.close();
        if layout.blocks > 1 {
            out.close();
        }
    }

    fn products(layout: &Layout, known: &mut Known, out: &mut Text) {
        if let Some(added) = &layout.added {
            added.emit(layout.lanes.tiles() * 4, out);
            return;
        }
        if let Some(strips) = &layout.strips {
            Product::strips(layout, strips, known, out);
            return;
        }
        let packs = layout.rows.kind != Kind::InPlace;
        let bits = layout.groups * layout.widths() * 4;
        out.line(format!("trainc_xpulp_zero(widths, {bits});"));
        if layout.adds && layout.blocks > 1 {
            let bytes = layout.matrices() * layout.sum_rows() * layout.lanes.tiles() * 16;
            out.line(zero("sums", bytes));
        }
        if let Some(shifted) = &layout.shifted {
            Product::shifted(layout, shifted, out);
            return;
        }
        if let Some(volume) = &layout.volume {
            out.line(zero("placed", volume.planes * volume.plane()));
        }
        let groups = |out: &mut Text| {
            if layout.groups > 1 {
                out.for_("group", layout.groups);
            } else {
                out.open("{");
            }
        };
        if packs && layout.rows_stay {
            groups(out);
            Product::pack_rows(layout, out);
            out.close();
        }
        if layout.blocks > 1 {
            out.for_("image", layout.blocks);
        }
        groups(out);
        if packs && !layout.rows_stay {
            Product::pack_rows(layout, out);
        }
        let mut from = Product::source(layout, &layout.lanes);
        if let Some(volume) = &layout.volume {
            out.line("struct trainc_xpulp_volume volume;");
            out.line(format!("volume.from = {from};"));
            out.line("volume.to = placed;");
            for (field, value) in [
                ("height", volume.height),
                ("width", volume.width),
                ("down", volume.steps[0] * volume.row),
                ("right", volume.steps[1]),
                ("row", volume.row),
                ("plane", volume.plane()),
                ("before", volume.top * volume.row + volume.left),
            ] {
                out.line(format!("volume.{field} = {value};"));
            }
            out.long(format!(
                "TRAINC_PARALLEL_FOR(&volume, {}, trainc_xpulp_place_planes);",
                volume.planes
            ));
            from = "placed".into();
        }
        if layout.start > 0 {
            from = format!("{from} + {}", layout.start);
        }
        let (row_tiles, lane_tiles) = (layout.rows.tiles(), layout.lanes.tiles());
        out.line("struct trainc_xpulp_product work;");
        let rows = match (packs, layout.rows_stay) {
            (true, true) => {
                plus("rows", "group", row_tiles * 4 * layout.rows.bytes(), layout.groups)
            }
            (true, false) => "rows".into(),
            (false, _) => Product::source(layout, &layout.rows),
        };
        out.line(format!("work.rows = {rows};"));
        out.line(format!("work.row_count = {};", layout.rows.count));
        set(out, "work.lanes", &layout.lanes, &from, layout.windows.is_some());
        out.line(format!("work.lane_tiles = {lane_tiles};"));
        out.line(format!("work.parts = {};", layout.parts()));
        out.line(format!("work.pieces = {};", divided(layout.row_pieces(), 1)));
        let packed = if layout.lanes.kind == Kind::InPlace { "0" } else { "lanes" };
        out.line(format!("work.packed = {packed};"));
        let matrix = layout.sum_rows() * lane_tiles * 4;
        let sums = plus("sums", "group", matrix, layout.groups);
        let sums = if layout.adds {
            sums
        } else {
            plus(&sums, "image", matrix * layout.groups, layout.blocks)
        };
        out.line(format!("work.sums = {sums};"));
        out.line(format!("work.sums_stride = {};", lane_tiles * 4));
        out.line(format!("work.adds = {};", u8::from(layout.adds && layout.blocks > 1)));
        let bits = plus("widths", "group", layout.widths(), layout.groups);
        out.line(format!("work.largest = {bits};"));
        if layout.row_pieces() > 1 {
            out.line("trainc_xpulp_multiply_all(&work);");
        } else {
            out.long(format!(
                "TRAINC_PARALLEL_FOR(&work, {}, trainc_xpulp_multiply_parts);",
                layout.parts()
            ));
        }
        out.close();
        if layout.blocks > 1 {
            out.close();
        }
    }

    /// Statements that gather the bits of the sums.
    fn width(layout: &Layout) -> String {
        format!("trainc_xpulp_largest_of(widths, {})", layout.groups * layout.widths())
    }

    /// The whole, by phases.
    fn phases(&self, out: &mut Text) {
        let finish = self.kernel.finish;
        let magnitude = finish.is_some_and(Narrowing::asks_magnitude);
        if magnitude {
            out.line("uint32_t bits = 0;");
        }
        if self.has_zeros {
            let bytes = self.kernel.result.count() * if finish.is_some() { 1 } else { 4 };
            out.line(zero("y0", bytes));
        }
        // Loops set all fields in each round.
        let is_shared = |l: &Layout| l.strips.is_some() && l.blocks * l.groups == 1;
        let shares = self.layouts.iter().filter(|layout| is_shared(layout)).count() > 1;
        let mut known = if shares { Known::shared(out) } else { Known::default() };
        for layout in &self.layouts {
            out.open("{");
            Product::declarations(layout, out);
            Product::products(layout, &mut known, out);
            if magnitude {
                out.line(format!("bits = trainc_xpulp_maxu(bits, {});", Product::width(layout)));
            }
            out.close();
        }
        // Rounded where they are: a phase changes what differs from the one before.
        out.line("struct trainc_xpulp_results results;");
        emit_rounding(finish, "results", out);
        let mut before = Vec::new();
        for (layout, places) in self.layouts.iter().zip(&self.places) {
            let fields = [
                Product::result_fields(layout),
                [
                    ("columns", places.columns),
                    ("first", places.first),
                    ("plane", places.plane),
                    ("down", places.down),
                    ("right", places.right),
                ]
                .map(|(field, value)| (field, value.to_string()))
                .to_vec(),
            ]
            .concat();
            for field in fields.iter().filter(|field| !before.contains(*field)) {
                out.line(format!("results.{} = {};", field.0, field.1));
            }
            before = fields;
            out.long(format!(
                "TRAINC_PARALLEL_FOR(&results, {}, trainc_xpulp_place_{});",
                layout.matrices() * layout.rows.count,
                suffix(finish)
            ));
        }
    }

    /// Fields of `struct trainc_xpulp_results`.
    fn result_fields(layout: &Layout) -> Vec<(&'static str, String)> {
        let [rows, lanes] = [layout.rows.count, layout.lanes.count];
        let sums = match layout.sums {
            0 => "(int32_t *)(void *)scratch".to_string(),
            offset => format!("(int32_t *)(void *)(scratch + {offset})"),
        };
        let sizes = [rows, layout.sum_rows(), lanes, layout.lanes.tiles() * 4];
        let mut fields = Product::sums_fields(sizes);
        fields[0].1 = sums;
        fields
    }

    /// Rows of a matrix of sums, with those that fill it up, and lanes of a row likewise.
    fn sums_fields([rows, all_rows, lanes, all_lanes]: [usize; 4]) -> Vec<(&'static str, String)> {
        vec![
            ("sums", "sums".into()),
            ("rows", rows.to_string()),
            ("all_rows", all_rows.to_string()),
            ("lanes", lanes.to_string()),
            ("all_lanes", all_lanes.to_string()),
            ("y", "y0".into()),
        ]
    }

    /// What becomes of the sums of a product without phases.
    fn results(&self, layout: &Layout, out: &mut Text) {
        let [rows, lanes] = [layout.rows.count, layout.lanes.count];
        let sizes = [rows, layout.sum_rows(), lanes, layout.lanes.tiles() * 4];
        self.rounded(&Product::width(layout), layout.matrices() * rows, sizes, out);
    }

    /// Rounds rows of sums, whose bits `width` gathers; of `sizes` as of [`Product::sums_fields`].
    fn rounded(&self, width: &str, rows: usize, sizes: [usize; 4], out: &mut Text) {
        let finish = self.kernel.finish;
        if finish.is_some_and(Narrowing::asks_magnitude) {
            out.line(format!("const uint32_t bits = {width};"));
        }
        out.line("struct trainc_xpulp_results results;");
        let mut fields = Product::sums_fields(sizes);
        let [own, all_rows, lanes, all_lanes] = sizes;
        let mut rounds = rows.to_string();
        if lanes == all_lanes && (own == all_rows || own == rows) {
            // Cores share sums that lie one after the other evenly: as rows of another length.
            let count = rows * lanes;
            let parts = even_parts(count, 4, [ROW, SUM]).unwrap_or(rows);
            rounds = divided(parts, rows);
            let shared = |own| divided(parts, own);
            let length = divided(count / parts, lanes);
            for (field, value) in
                [(1, shared(own)), (2, shared(all_rows)), (3, length.clone()), (4, length)]
            {
                fields[field].1 = value;
            }
        }
        for (field, value) in fields {
            out.line(format!("results.{field} = {value};"));
        }
        emit_rounding(finish, "results", out);
        out.long(format!(
            "TRAINC_PARALLEL_FOR(&results, {rounds}, trainc_xpulp_store_{});",
            suffix(finish)
        ));
    }

    /// The products of channels by themselves.
    fn depthwise(&self, depthwise: &Depthwise, out: &mut Text) {
        depthwise.emit(out);
        out.line("");
        let [rows, lanes] = depthwise.results();
        let width = format!("trainc_xpulp_largest_of(widths, {})", depthwise.parts());
        self.rounded(&width, rows, [rows, rows, lanes, lanes], out);
    }
}

/// Sets the result's exponent and the rounding of a structure's rows, by the sums' `bits` where these follow from them.
fn emit_rounding(finish: Option<Narrowing>, structure: &str, out: &mut Text) {
    let (most, low) = match finish {
        Some(Narrowing::Requantize { bits, low, .. }) => (bits.to_string(), low),
        Some(Narrowing::Gradient { .. }) => ("x2[0]".to_string(), -127),
        _ => {
            return emit_finish(
                finish,
                out,
                "32 - trainc_leading_zeros((int32_t)bits)",
                |out, low| {
                    out.line(format!(
                        "{structure}.rounding = trainc_xpulp_rounding(shift, {low});"
                    ));
                },
            );
        }
    };
    out.long(format!(
        "{structure}.rounding = trainc_xpulp_narrowed(bits, {most}, {low}, x0_exponent, x1_exponent, y0_exponent);"
    ));
}

/// Zeroes so many bytes, which cores share if they are many.
fn zero(name: &str, bytes: usize) -> String {
    let shared = if bytes < SHARED { "" } else { "_shared" };
    format!("trainc_xpulp_zero{shared}({name}, {bytes});")
}

/// `name + variable * factor`, where the variable has more than one value.
fn plus(name: &str, variable: &str, factor: usize, values: usize) -> String {
    if values == 1 || factor == 0 {
        name.into()
    } else {
        format!("{name} + {}", times(variable, factor))
    }
}

/// Assigns a set.
fn set(out: &mut Text, name: &str, set: &Set, from: &str, windows: bool) {
    out.line(format!("{name}.kind = {};", set.kind.name()));
    out.line(format!("{name}.from = {from};"));
    for (field, value) in [
        ("count", set.count),
        ("length", set.length),
        ("bytes", set.bytes()),
        ("stride", set.stride),
    ] {
        out.line(format!("{name}.{field} = {value};"));
    }
    if set.kind == Kind::Channels {
        let taps = &set.taps;
        for (field, value) in [
            ("taps", taps.channel),
            (
                "last",
                taps.first
                    + (taps.counts[0] - 1) * taps.strides[0]
                    + (taps.counts[1] - 1) * taps.strides[1],
            ),
            ("tap_rows", taps.counts[0]),
            ("tap_columns", taps.counts[1]),
            ("tap_down", taps.strides[0]),
            ("tap_right", taps.strides[1]),
        ] {
            out.line(format!("{name}.{field} = {value};"));
        }
    }
    out.line(format!("{name}.windows = {};", if windows { "&windows" } else { "0" }));
}

impl Implementation for Product {
    fn name(&self) -> &'static str {
        Product::NAME
    }

    fn cost(&self) -> Cost {
        if let Some(outer) = &self.outer {
            return Cost::new(CALL + outer.cycles() + self.kernel.rest_cycles());
        }
        let products: u64 = self.layouts.iter().map(Layout::cycles).sum();
        let products = products + self.depthwise.as_ref().map_or(0, Depthwise::cycles);
        let each = match self.kernel.finish {
            Some(Narrowing::Gradient { .. }) => FINISH_GRADIENT,
            _ => FINISH,
        };
        let finish = if self.places.is_empty() {
            self.kernel.result.count() as u64 * each
        } else {
            // The rest are zeros.
            let results = |l: &Layout| l.matrices() * l.rows.count * l.lanes.count;
            self.layouts.iter().map(results).sum::<usize>() as u64 * (each + PLACE)
        };
        Cost::new(CALL + products + finish + self.kernel.rest_cycles())
    }

    fn scratch_bytes(&self) -> usize {
        let products = self.layouts.iter().map(|layout| layout.bytes).max().unwrap_or(0);
        let own = self.outer.as_ref().map_or(products, |outer| outer.bytes);
        let own = self.depthwise.as_ref().map_or(own, Depthwise::bytes);
        self.kernel.scratch_bytes(own)
    }
}

impl CKernel for Product {
    fn emit(&self, name: &str, kernel: &Kernel) -> Result<Emitted, String> {
        let body = |out: &mut Text| {
            if let Some(outer) = &self.outer {
                outer.emit(out);
                return;
            }
            if let Some(depthwise) = &self.depthwise {
                self.depthwise(depthwise, out);
                return;
            }
            if !self.places.is_empty() {
                self.phases(out);
                return;
            }
            for layout in &self.layouts {
                Product::declarations(layout, out);
                out.line("");
                Product::products(layout, &mut Known::default(), out);
                out.line("");
                self.results(layout, out);
            }
        };
        self.kernel.emit(name, kernel, body).map(Emitted::from)
    }
}
