//! Products of FP32 numbers, and convolutions of bytes whose planes have scales of their own: 8 rows by 8 lanes at a time
//! (`support/trainc_neon_float.h`), each sum in its order.
//!
//! What lies beside a plane counts as a term of 0, which changes no sum of numbers: sums start at +0, so none is -0. Where a
//! result is no number, the loops of the operation say which one it is.

use trainc_c::behind::Behind;
use trainc_c::text::{Scratch, Text, declare, times};
use trainc_c::{CKernel, Emitted};
use trainc_ir::Op;
use trainc_ir::implementation::{Cost, Implementation, Signature};
use trainc_ir::loops::LoopKernel;
use trainc_ir::product::{Convolution, Numbers, Pass, Product};
use trainc_ir::program::Kernel;
use trainc_ir::target::loop_scratch;

use super::gradient::emit_windows;
use super::operands;
use super::phases::{Phase, phases};
use super::scales::{ScaleSteps, scaled};
use super::shape::Windows;
use crate::level::Level;

/// Instructions of a call, of a term of a tile, of a tile, of a part of one; of an element of a panel, of a tap of one.
const CALL: usize = 200;
const TERM: usize = 37;
const TILE: usize = 110;
const PART: usize = 90;
const PACKED: usize = 5;
const TAP: usize = 130;
/// A product of floats, or of bytes with scales.
#[derive(Debug)]
pub(crate) struct FloatProduct {
    convolution: Convolution,
    /// Of bytes: from a scale to the next.
    scales: Option<ScaleSteps>,
    /// Of a forward product or an error.
    phases: Vec<Phase>,
    /// Whether some window meets less than all of its taps.
    reaches: bool,
    /// The operation's own, where windows reach beside the plane.
    loops: Option<LoopKernel>,
    behind: Behind,
    layout: Layout,
}

/// Places in the working memory.
#[derive(Debug, Default)]
struct Layout {
    bytes: usize,
    rows: usize,
    panel: usize,
    /// Of a gradient.
    tiles: usize,
    /// Of bytes.
    row_scales: usize,
    lane_scales: usize,
}

impl FloatProduct {
    /// The name for readers.
    pub(crate) const NAME: &str = "FP32 products in panels";

    /// The product that a kernel starts with; `None` if it starts with something else.
    ///
    /// # Errors
    /// Why there is no such kernel for it.
    pub(crate) fn of(
        level: Level,
        signature: &Signature<'_>,
    ) -> Option<Result<FloatProduct, String>> {
        let first = signature.ops().first()?;
        let inputs = signature.inputs;
        let planned = match first {
            Op::GroupedProduct(op) => scaled(op, inputs).map(|(c, scales)| (c, Some(scales), 4)),
            _ => {
                let product = Product::of(&signature.ops()[..1], inputs, |_| false)?;
                product.and_then(floats).map(|c| (c, None, 2))
            }
        };
        Some(planned.and_then(|(convolution, scales, operands)| {
            if level == Level::Armv7 {
                return Err("vectors of Armv7 take subnormal numbers as 0".into());
            }
            FloatProduct::new(signature, first, (convolution, scales, operands))
        }))
    }

    fn new(
        signature: &Signature<'_>,
        first: &Op,
        (convolution, scales, operands): (Convolution, Option<ScaleSteps>, usize),
    ) -> Result<FloatProduct, String> {
        let c = &convolution;
        if c.is_depthwise() {
            return Err("each channel is convolved by itself".into());
        }
        let largest = c.images * c.groups * (c.channels * c.plane()).max(c.outputs * c.places());
        if largest.max(c.groups * c.outputs * c.channels * c.tap_count()) >= 1 << 28 {
            return Err("its offsets exceed 32 bits".into());
        }
        let types = first.infer(&signature.inputs[..operands]).map_err(|e| e.to_string())?;
        let result = types.first().ok_or("it has no result")?;
        let own = match c.pass {
            Pass::Gradient => Vec::new(),
            Pass::Forward | Pass::Error => phases(c),
        };
        let reaches = match c.pass {
            Pass::Gradient => reaches_beside(&Windows::of(c)),
            Pass::Forward | Pass::Error => own.iter().any(|phase| reaches_beside(&phase.windows)),
        };
        let loops = (reaches && scales.is_none())
            .then(|| first.lower(&signature.inputs[..operands], &[result]));
        if loops.as_ref().is_some_and(|loops| loop_scratch(loops).1 > 0) {
            return Err("its loops take working memory".into());
        }
        let behind = Behind::of(signature, 1, operands, result);
        let mut product = FloatProduct {
            convolution,
            scales,
            phases: own,
            reaches,
            loops,
            behind,
            layout: Layout::default(),
        };
        product.layout = product.lay_out();
        if product.instructions() >= product.loop_instructions() {
            return Err("loops take fewer instructions".into());
        }
        Ok(product)
    }

    /// Rows, and parts of a forward product or an error.
    fn rows_and_parts(&self) -> (usize, usize) {
        let c = &self.convolution;
        match c.pass {
            Pass::Forward => (c.outputs, c.channels),
            Pass::Error => (c.channels, c.outputs),
            Pass::Gradient => (c.outputs, c.images),
        }
    }

    /// An estimate.
    fn instructions(&self) -> usize {
        let c = &self.convolution;
        let (rows, parts) = self.rows_and_parts();
        let row_panels = rows.div_ceil(8);
        let part = if self.scales.is_some() { PART } else { 0 };
        if c.pass == Pass::Gradient {
            let panels = (c.channels * c.tap_count()).div_ceil(8);
            let tiles = row_panels * panels * (c.places() * TERM + TILE + part);
            let packed = 8 * (row_panels + panels) * c.places();
            return CALL + c.groups * c.images * (tiles + PACKED * packed);
        }
        let each = |phase: &Phase| {
            let [high, wide] = phase.windows.taps;
            let depth = parts * high * wide;
            let panels = (c.images * phase.windows.size[0] * phase.windows.size[1]).div_ceil(8);
            let tiles = row_panels * panels * (depth * TERM + TILE + part * parts);
            tiles + PACKED * 8 * depth * (row_panels + panels) + TAP * high * wide * panels
        };
        CALL + c.groups * self.phases.iter().map(each).sum::<usize>()
    }

    /// What the loops take, of 100 multiplications: as counted of LeNet-5 and ResNet-8, where windows that reach beside the
    /// plane leave them scalar.
    fn loop_instructions(&self) -> usize {
        let c = &self.convolution;
        let matrices = c.tap_count() == 1 && c.plane() == 1 && c.places() == 1;
        let hundredths = match c.pass {
            Pass::Forward if matrices => 330,
            Pass::Error if matrices => 114,
            Pass::Gradient if matrices => 90,
            Pass::Error if self.scales.is_some() => 1300,
            Pass::Error if c.strides == [1, 1] => 210,
            Pass::Error => 850,
            _ if !self.reaches => 170,
            Pass::Forward => 1000,
            Pass::Gradient => 660,
        };
        c.multiplications() * hundredths / 100
    }

    fn lay_out(&self) -> Layout {
        let c = &self.convolution;
        let (rows, parts) = self.rows_and_parts();
        let panels = 8 * rows.div_ceil(8);
        let depth = match c.pass {
            Pass::Gradient => c.places(),
            Pass::Forward | Pass::Error => {
                let taps = self.phases.iter().map(|p| p.windows.taps[0] * p.windows.taps[1]);
                parts * taps.max().unwrap_or(0)
            }
        };
        let mut scratch = Scratch::default();
        let mut layout = Layout {
            rows: scratch.take(4 * panels * depth),
            panel: scratch.take(4 * 8 * depth),
            ..Layout::default()
        };
        if c.pass == Pass::Gradient {
            let lanes = (c.channels * c.tap_count()).next_multiple_of(8);
            layout.tiles = scratch.take(4 * panels * lanes);
        } else if self.scales.is_some() {
            layout.row_scales = scratch.take(4 * panels * parts);
            layout.lane_scales = scratch.take(4 * 8 * parts);
        }
        layout.bytes = scratch.bytes().max(16);
        layout
    }

    /// The function of the product alone.
    fn function(&self, name: &str) -> Result<String, String> {
        let mut out = Text::default();
        if let Some(loops) = &self.loops {
            out.line(trainc_c::function(&format!("{name}_terms"), loops)?);
        }
        let operands = match self.scales {
            None => "const float *x0, const float *x1, ",
            Some(_) => {
                "const int8_t *x0, const int32_t *x0_exponent, const int8_t *x1, const int32_t *x1_exponent, const float *x2, const float *x3, "
            }
        };
        out.long(format!("static void {name}({operands}float *y0, uint8_t *scratch)"));
        out.open("{");
        if self.convolution.pass == Pass::Gradient {
            self.emit_gradient(&mut out);
        } else {
            self.emit_windows(&mut out);
        }
        if self.loops.is_some() {
            out.open("if (!numbers) {");
            out.line(
                "/* What lies beside a plane counted as 0, which infinity makes no number. */",
            );
            out.line(format!("{name}_terms(x0, x1, y0);"));
            out.close();
        }
        out.close();
        Ok(out.finish())
    }

    fn emit_windows(&self, out: &mut Text) {
        let (c, layout) = (&self.convolution, &self.layout);
        let (rows, parts) = self.rows_and_parts();
        let taps = c.tap_count();
        let forward = c.pass == Pass::Forward;
        let (row_stride, part_stride) =
            if forward { (c.channels * taps, taps) } else { (taps, c.channels * taps) };
        let (plane, result_plane) =
            if forward { (c.plane(), c.places()) } else { (c.places(), c.plane()) };
        for (n, phase) in self.phases.iter().enumerate() {
            emit_windows(&format!("windows{n}"), &phase.windows, out);
            out.long(format!(
                "static const struct trainc_places places{n} = {{ .images = {}, .group = 1, .first = {}, .image_stride = {}, .row_stride = {}, .column_stride = {}, .first_tap = {}, .tap_row = {}, .tap_column = {} }};",
                c.images,
                phase.first,
                c.groups * rows * result_plane,
                phase.row_stride,
                phase.column_stride,
                phase.first_tap,
                phase.tap_row,
                phase.tap_column
            ));
        }
        out.long(format!(
            "static const struct trainc_product product = {{ .rows = {rows}, .row_stride = {row_stride}, .parts = {parts}, .part_stride = {part_stride}, .image_stride = {}, .plane = {plane}, .result_stride = {result_plane} }};",
            c.groups * parts * plane
        ));
        let what = if forward { "output" } else { "input" };
        declare(out, "float", "rows", layout.rows, &format!("Panels of 8 {what} channels."));
        declare(out, "float", "panel", layout.panel, "What 8 windows see.");
        self.emit_scales(out);
        let [x, weights] = operands(c);
        self.emit_groups(out, |out, of_group| {
            let x = of_group(x, parts * plane);
            let weights = of_group(weights, rows * parts * taps);
            let y = of_group("y0", rows * result_plane);
            for n in 0..self.phases.len() {
                let place = format!("&product, &windows{n}, &places{n}, {x}, {weights}");
                if self.scales.is_some() {
                    out.long(format!(
                        "trainc_scaled_windows({place}, &scales, {y}, rows, panel, row_scales, lane_scales);"
                    ));
                } else {
                    let call = format!("trainc_float_windows({place}, {y}, rows, panel);");
                    out.long(format!("{}{call}", self.collected()));
                }
            }
        });
    }

    fn emit_gradient(&self, out: &mut Text) {
        let (c, layout) = (&self.convolution, &self.layout);
        let [x, dy] = operands(c);
        emit_windows("windows", &Windows::of(c), out);
        let lanes = c.channels * c.tap_count();
        out.long(format!(
            "static const struct trainc_product product = {{ .rows = {}, .row_stride = {}, .parts = {}, .part_stride = {}, .image_stride = {}, .plane = {}, .result_stride = {lanes} }};",
            c.outputs,
            c.places(),
            c.images,
            c.groups * c.outputs * c.places(),
            c.groups * c.channels * c.plane(),
            c.plane()
        ));
        declare(
            out,
            "float",
            "rows",
            layout.rows,
            "An image's errors, panels of 8 output channels.",
        );
        declare(out, "float", "panel", layout.panel, "What 8 taps of channels meet.");
        declare(out, "float", "tiles", layout.tiles, "Sums of 8 channels and 8 taps.");
        self.emit_scales(out);
        self.emit_groups(out, |out, of_group| {
            let x = of_group(x, c.channels * c.plane());
            let dy = of_group(dy, c.outputs * c.places());
            let y = of_group("y0", c.outputs * lanes);
            let operands = format!("&product, &windows, {x}, {dy}");
            if self.scales.is_some() {
                out.long(format!(
                    "trainc_scaled_gradient({operands}, &scales, {y}, rows, panel, tiles);"
                ));
            } else {
                let call = format!("trainc_float_gradient({operands}, {y}, rows, panel, tiles);");
                out.long(format!("{}{call}", self.collected()));
            }
        });
    }

    /// What a call's result is for.
    fn collected(&self) -> &'static str {
        if self.loops.is_some() { "numbers &= " } else { "" }
    }

    fn emit_scales(&self, out: &mut Text) {
        let (c, layout) = (&self.convolution, &self.layout);
        if let Some(ScaleSteps { rows, lanes }) = self.scales {
            // Rows are of the weight, lanes of the operand; of a gradient, of the error and the operand.
            let (row, lane) = if c.swapped { ("x2", "x3") } else { ("x3", "x2") };
            out.long(format!(
                "struct trainc_scales scales = {{ .rows = {row}, .lanes = {lane}, .row_step = {}, .row_part = {}, .lane_step = {}, .lane_part = {} }};",
                rows[0], rows[1], lanes[0], lanes[1]
            ));
            if c.pass != Pass::Gradient {
                declare(out, "float", "row_scales", layout.row_scales, "Of 8 rows, part by part.");
                declare(out, "float", "lane_scales", layout.lane_scales, "Of 8 lanes, likewise.");
            }
            out.line("trainc_set_factors(&scales, trainc_add32(x0_exponent[0], x1_exponent[0]));");
        }
        if self.loops.is_some() {
            out.line("int numbers = 1;");
        }
    }

    /// The calls of each group of channels; `of_group` is where an operand of so many elements a group begins.
    fn emit_groups(
        &self,
        out: &mut Text,
        calls: impl FnOnce(&mut Text, &dyn Fn(&str, usize) -> String),
    ) {
        if self.convolution.groups == 1 {
            return calls(out, &|name, _| name.into());
        }
        out.for_("group", self.convolution.groups);
        calls(out, &|name, elements| format!("{name} + {}", times("group", elements)));
        out.close();
    }
}

/// Whether some tap of some window meets no place of the plane.
fn reaches_beside(windows: &Windows) -> bool {
    let beside = |axis: usize| {
        let mut taps = (0..windows.taps[axis])
            .flat_map(|tap| (0..windows.size[axis]).map(move |at| windows.meets(axis, at, tap)));
        taps.any(|place| place.is_none())
    };
    beside(0) || beside(1)
}

/// The convolution of floats that a product is.
fn floats(product: Product) -> Result<Convolution, String> {
    match product.numbers {
        Numbers::Float => product.convolution(),
        _ => Err("the operands are no f32".into()),
    }
}

impl Implementation for FloatProduct {
    fn name(&self) -> &'static str {
        FloatProduct::NAME
    }

    fn cost(&self) -> Cost {
        Cost::new(self.instructions() as u64 + self.behind.cycles())
    }

    fn scratch_bytes(&self) -> usize {
        self.behind.scratch_bytes(self.layout.bytes)
    }
}

impl CKernel for FloatProduct {
    fn emit(&self, name: &str, kernel: &Kernel) -> Result<Emitted, String> {
        self.behind.emit(name, kernel, |name| self.function(name)).map(Emitted::from)
    }
}
