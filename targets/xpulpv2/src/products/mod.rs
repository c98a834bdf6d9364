//! Products of 8-bit integers: convolutions, their gradients and matrix products, alone or with what makes 8-bit
//! integers of their sums.
//!
//! One scheme for all: a product is sums of two sets of vectors ([`layout`]), which the support header packs into words,
//! multiplies by tiles of 4 by 4 and rounds. Tiles, packing and rounding are divided by `TRAINC_PARALLEL_FOR`.

mod finish;
mod layout;
mod shape;

pub(crate) use trainc_c::text::Text;
use trainc_c::text::{self, declare, times};
use trainc_ir::loops::{LoopKernel, Role};
use trainc_ir::ops::Chain;
use trainc_ir::program::{Kernel, buffer_bytes, scale_offset};
use trainc_ir::target::loop_scratch_bytes;
use trainc_ir::{Op, TensorType};

use crate::family::Family;
use finish::Finish;
use layout::{Kind, Layout, Set};
use shape::Convolution;

/// Products as a family of kernels.
pub(crate) struct Products;

/// Cycles of a call: set-up of sets, loops.
const CALL: u64 = 500;
/// Cycles of a tile beside its products, and of a word of each of its vectors.
const TILE: u64 = 100;
const WORDS: u64 = 24;
/// Cycles for a byte that is packed.
const BYTE: u64 = 2;
/// Cycles of the finish for each result.
const FINISH: u64 = 14;

/// A kernel that starts with a product.
#[derive(Debug)]
struct Product {
    layout: Layout,
    finish: Finish,
    /// Operands of product and finish.
    operands: usize,
    /// Type of their result.
    result: TensorType,
    /// Further operations on it, in loops.
    rest: Option<Op>,
}

impl Product {
    fn of(op: &Op, inputs: &[&TensorType]) -> Option<Product> {
        let ops = match op {
            Op::Chain(chain) => &chain.ops[..],
            op => std::slice::from_ref(op),
        };
        let (first, mut rest) = ops.split_first()?;
        let operands = inputs.get(..2)?;
        let layout = Layout::of(&Convolution::of(first, operands)?)?;
        let sums = first.infer(operands).ok()?.pop()?;
        let mut product =
            Product { layout, finish: Finish::None, operands: 2, result: sums, rest: None };
        if let Some((next, further)) = rest.split_first()
            && let Some(finish) = Finish::of(next, &product.result)
        {
            product.operands += finish.operands();
            let own = inputs.get(2..product.operands)?;
            let types: Vec<&TensorType> =
                std::iter::once(&product.result).chain(own.iter().copied()).collect();
            product.result = next.infer(&types).ok()?.pop()?;
            product.finish = finish;
            rest = further;
        }
        product.rest = match rest {
            [] => None,
            [op] => Some(op.clone()),
            ops => Some(Op::Chain(Chain { ops: ops.to_vec() })),
        };
        Some(product)
    }

    /// Estimate of cycles.
    fn cycles(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> u64 {
        let layout = &self.layout;
        let set = |set: &Set| match set.kind {
            Kind::InPlace => 0,
            _ => (set.count * set.length) as u64 * BYTE,
        };
        let tiles = (layout.rows.tiles() * layout.lanes.tiles()) as u64;
        let words = (layout.lanes.bytes() / 4) as u64;
        let block = tiles * (TILE + WORDS * words) + set(&layout.lanes) + set(&layout.rows);
        let products = (layout.groups * layout.blocks) as u64 * block;
        let rest = self.rest.as_ref();
        let rest = rest.map_or(0, |op| trainc_c::cycles(op, &self.rest_inputs(inputs), outputs));
        CALL + products + self.result.count() as u64 * FINISH + rest
    }

    fn rest_inputs<'a>(&'a self, inputs: &[&'a TensorType]) -> Vec<&'a TensorType> {
        std::iter::once(&self.result).chain(inputs[self.operands..].iter().copied()).collect()
    }

    fn scratch_bytes(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> usize {
        let own = self.layout.bytes;
        match &self.rest {
            None => own,
            Some(rest) => {
                let rest = loop_scratch_bytes(rest, &self.rest_inputs(inputs), outputs);
                buffer_bytes(&self.result).next_multiple_of(16) + own.max(rest)
            }
        }
    }

    /// The product's own function.
    fn function(&self, name: &str) -> String {
        let mut out = Text::default();
        let result = if self.finish == Finish::None { "int32_t" } else { "int8_t" };
        let bits = if self.finish.operands() > 0 { "const int32_t *x2, " } else { "" };
        out.long(format!(
            "static void {name}(const int8_t *x0, const int32_t *x0_exponent, const int8_t *x1, const int32_t *x1_exponent, {bits}{result} *y0, int32_t *y0_exponent, uint8_t *scratch)"
        ));
        out.open("{");
        self.declarations(&mut out);
        out.line("");
        self.products(&mut out);
        out.line("");
        self.results(&mut out);
        out.close();
        out.finish()
    }

    fn declarations(&self, out: &mut Text) {
        let layout = &self.layout;
        let (rows, lanes) = (layout.rows.tiles() * 4, layout.lanes.tiles() * 4);
        let matrices = layout.matrices();
        let sums = format!("[{matrices}][{rows} rows][{lanes} lanes]");
        declare(out, "int32_t", "sums", layout.sums, &sums);
        declare(out, "uint32_t", "widths", layout.bits, "Of the sums, by tiles of lanes.");
        if layout.rows.kind != Kind::InPlace {
            let text = format!("{} vectors of {} bytes.", rows, layout.rows.bytes());
            declare(out, "int8_t", "rows", layout.packed_rows, &text);
        }
        if layout.lanes.kind != Kind::InPlace {
            let text = format!("{} vectors of {} bytes.", lanes, layout.lanes.bytes());
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
    fn pack_rows(&self, out: &mut Text) {
        let layout = &self.layout;
        let rows = &layout.rows;
        let bytes = rows.tiles() * 4 * rows.bytes();
        let group = if layout.rows_stay {
            plus("rows", "group", bytes, layout.groups)
        } else {
            "rows".into()
        };
        out.line("struct trainc_xpulp_packing packing;");
        set(out, "packing.set", rows, &self.source(rows), false);
        out.line(format!("packing.to = {group};"));
        out.long(format!(
            "TRAINC_PARALLEL_FOR(&packing, {}, trainc_xpulp_pack_tiles);",
            rows.tiles()
        ));
    }

    /// The first byte of a set's tensor, of this group and block.
    fn source(&self, set: &Set) -> String {
        let layout = &self.layout;
        let group = plus(&format!("x{}", set.operand), "group", set.group_step, layout.groups);
        if set.image_step == 0 {
            group
        } else {
            plus(&group, "image", set.image_step, layout.blocks)
        }
    }

    fn products(&self, out: &mut Text) {
        let layout = &self.layout;
        let packs = layout.rows.kind != Kind::InPlace;
        let bits = layout.groups * layout.lanes.tiles() * 4;
        out.line(format!("trainc_xpulp_zero(widths, {bits});"));
        if layout.adds && layout.blocks > 1 {
            let bytes = layout.matrices() * layout.rows.tiles() * layout.lanes.tiles() * 64;
            out.line(format!("trainc_xpulp_zero(sums, {bytes});"));
        }
        if let Some(volume) = &layout.volume {
            let bytes = volume.planes * volume.plane();
            out.line(format!("trainc_xpulp_zero(placed, {bytes});"));
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
            self.pack_rows(out);
            out.close();
        }
        if layout.blocks > 1 {
            out.for_("image", layout.blocks);
        }
        groups(out);
        if packs && !layout.rows_stay {
            self.pack_rows(out);
        }
        let mut from = self.source(&layout.lanes);
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
            (false, _) => self.source(&layout.rows),
        };
        out.line(format!("work.rows = {rows};"));
        out.line(format!("work.row_tiles = {row_tiles};"));
        set(out, "work.lanes", &layout.lanes, &from, layout.windows.is_some());
        let packed = if layout.lanes.kind == Kind::InPlace { "0" } else { "lanes" };
        out.line(format!("work.packed = {packed};"));
        let matrix = row_tiles * lane_tiles * 16;
        let sums = plus("sums", "group", matrix, layout.groups);
        let sums = if layout.adds {
            sums
        } else {
            plus(&sums, "image", matrix * layout.groups, layout.blocks)
        };
        out.line(format!("work.sums = {sums};"));
        out.line(format!("work.sums_stride = {};", lane_tiles * 4));
        out.line(format!("work.adds = {};", u8::from(layout.adds && layout.blocks > 1)));
        out.line(format!("work.bits = {};", plus("widths", "group", lane_tiles, layout.groups)));
        out.long(format!("TRAINC_PARALLEL_FOR(&work, {lane_tiles}, trainc_xpulp_multiply_tiles);"));
        out.close();
        if layout.blocks > 1 {
            out.close();
        }
    }

    fn results(&self, out: &mut Text) {
        let layout = &self.layout;
        if self.finish.asks_magnitude() {
            let tiles = layout.groups * layout.lanes.tiles();
            out.line(format!("const uint32_t bits = trainc_xpulp_bits(widths, {tiles});"));
        }
        out.line("struct trainc_xpulp_results results;");
        out.line("results.sums = sums;");
        for (field, value) in [
            ("rows", layout.rows.count),
            ("all_rows", layout.rows.tiles() * 4),
            ("lanes", layout.lanes.count),
            ("all_lanes", layout.lanes.tiles() * 4),
        ] {
            out.line(format!("results.{field} = {value};"));
        }
        out.line("results.y = y0;");
        self.finish.emit(out);
        out.long(format!(
            "TRAINC_PARALLEL_FOR(&results, {}, trainc_xpulp_store_{});",
            layout.matrices() * layout.rows.count,
            self.finish.suffix().unwrap_or_default()
        ));
    }
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
        ("taps", set.taps),
    ] {
        out.line(format!("{name}.{field} = {value};"));
    }
    out.line(format!("{name}.windows = {};", if windows { "&windows" } else { "0" }));
}

impl Family for Products {
    fn kernel(&self, name: &str, kernel: &Kernel) -> Result<Option<String>, String> {
        let (inputs, outputs) = (kernel.input_types(), kernel.output_types());
        let Some(product) = Product::of(&kernel.op, &inputs) else { return Ok(None) };
        let Some(rest) = &product.rest else {
            return Ok(Some(product.function(name)));
        };
        let rest_inputs = product.rest_inputs(&inputs);
        let loops = rest.lower(&rest_inputs, &outputs);
        let whole = kernel.op.lower(&inputs, &outputs);
        let mut text = product.function(&format!("{name}_product"));
        text.push('\n');
        text.push_str(&trainc_c::function(&format!("{name}_rest"), &loops)?);
        text.push('\n');
        text.push_str(&both(name, &product, &loops, &whole));
        Ok(Some(text))
    }

    fn scratch_bytes(
        &self,
        op: &Op,
        inputs: &[&TensorType],
        outputs: &[&TensorType],
    ) -> Option<usize> {
        Some(Product::of(op, inputs)?.scratch_bytes(inputs, outputs))
    }

    fn cycles(&self, op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> Option<u64> {
        Some(Product::of(op, inputs)?.cycles(inputs, outputs))
    }
}

/// The function that calls the product and the loops behind it.
fn both(name: &str, product: &Product, loops: &LoopKernel, whole: &LoopKernel) -> String {
    let mut out = Text::default();
    let variable = |role: &Role| match role {
        Role::Input(i) => format!("x{i}"),
        Role::InputScale(i) => format!("x{i}_exponent"),
        Role::Output(i) => format!("y{i}"),
        Role::OutputScale(i) => format!("y{i}_exponent"),
        Role::RunContext => "run".into(),
        Role::Scratch => "scratch".into(),
    };
    let mut parameters: Vec<String> = Vec::new();
    for buffer in whole.buffers.iter().filter(|b| b.role != Role::Scratch) {
        let written = matches!(buffer.role, Role::Output(_) | Role::OutputScale(_));
        let constant = if written { "" } else { "const " };
        let ty = trainc_c::element_type(buffer.element);
        parameters.push(format!("{constant}{ty} *{}", variable(&buffer.role)));
    }
    parameters.push("uint8_t *scratch".into());
    out.long(format!("static void {name}({})", parameters.join(", ")));
    out.open("{");
    let element = trainc_c::element_type(product.result.element);
    out.line(format!("{element} *const t0 = ({element} *)(void *)scratch;"));
    out.line(format!(
        "int32_t *const t0_exponent = (int32_t *)(void *)(scratch + {});",
        scale_offset(&product.result)
    ));
    let offset = buffer_bytes(&product.result).next_multiple_of(16);
    let bits = if product.finish.operands() > 0 { "x2, " } else { "" };
    out.long(format!(
        "{name}_product(x0, x0_exponent, x1, x1_exponent, {bits}t0, t0_exponent, scratch + {offset});"
    ));
    let mut arguments: Vec<String> = Vec::new();
    for buffer in loops.buffers.iter().filter(|b| b.role != Role::Scratch) {
        arguments.push(match &buffer.role {
            Role::Input(0) => "t0".into(),
            Role::InputScale(0) => "t0_exponent".into(),
            Role::Input(i) => variable(&Role::Input(i + product.operands - 1)),
            Role::InputScale(i) => variable(&Role::InputScale(i + product.operands - 1)),
            role => variable(role),
        });
    }
    if loops.buffers.iter().any(|b| b.role == Role::Scratch) {
        arguments.push(format!("scratch + {offset}"));
    }
    out.long(format!("{name}_rest({});", arguments.join(", ")));
    out.close();
    out.finish()
}
