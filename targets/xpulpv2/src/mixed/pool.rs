//! Maximum over windows of bytes, channels last: four channels at a time.

use trainc_ir::ops::IntegerMaxPool2d;
use trainc_ir::program::Kernel;
use trainc_ir::{Element, Op, TensorType};

use super::direct;
use super::text::{Text, times};
use crate::family::Family;

/// Cycles of four channels of an element of a window.
const CYCLES: u64 = 4;

/// Max pools of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pools;

struct Pool<'o> {
    op: &'o IntegerMaxPool2d,
    input: [usize; 2],
    output: [usize; 2],
    batch: usize,
    channels: usize,
    signed: bool,
}

impl Pool<'_> {
    fn of<'o>(op: &'o Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> Option<Pool<'o>> {
        let Op::IntegerMaxPool2d(op) = op else { return None };
        let (&[batch, height, width, channels], &[_, rows, columns, _]) =
            (inputs.first()?.shape.dims(), outputs.first()?.shape.dims())
        else {
            return None;
        };
        let element = inputs[0].element;
        let bytes = matches!(element, Element::U8 | Element::I8) && channels.is_multiple_of(4);
        let small = inputs[0].count() < 1 << 28 && inputs[0].count() > 0;
        // Every window has an element.
        let meets = |axis: usize, size: usize, results: usize| {
            let last = (results.max(1) - 1) * op.strides[axis];
            op.pads[axis] < op.kernel[axis] && last < size + op.pads[axis]
        };
        let whole = meets(0, height, rows) && meets(1, width, columns);
        (bytes && small && whole).then_some(Pool {
            op,
            input: [height, width],
            output: [rows, columns],
            batch,
            channels,
            signed: element == Element::I8,
        })
    }

    /// Declares where a window starts and ends.
    fn range(&self, axis: usize, place: &str, out: &mut Text) {
        let name = ["row", "column"][axis];
        let (stride, pad) = (self.op.strides[axis], self.op.pads[axis]);
        let (kernel, size) = (self.op.kernel[axis], self.input[axis]);
        let start = times(place, stride);
        let edge = (self.output[axis] - 1) * stride + kernel > size + pad;
        if pad == 0 {
            out.line(format!("const int32_t {name}_start = {start};"));
        } else {
            out.line(format!("const int32_t {name}_first = {start} - {pad};"));
            out.line(format!("const int32_t {name}_start = {name}_first < 0 ? 0 : {name}_first;"));
        }
        let first = if pad == 0 { "start" } else { "first" };
        let end = format!("{name}_{first} + {kernel}");
        if edge {
            out.line(format!("const int32_t {name}_end = {end} < {size} ? {end} : {size};"));
        } else {
            out.line(format!("const int32_t {name}_end = {end};"));
        }
    }

    fn functions(&self, name: &str, kernel: &Kernel) -> String {
        let mut out = Text::default();
        let ([height, width], [rows, columns]) = (self.input, self.output);
        let channels = self.channels;
        out.line(format!("/* Rows begin..end of all images of `{name}`. */"));
        out.line(format!("static void {name}_rows(void *context, int32_t begin, int32_t end)"));
        out.open("{");
        out.line("const struct trainc_mixed_work *const work = context;");
        out.open("for (int32_t line = begin; line < end; line++) {");
        out.line(format!(
            "const uint8_t *const x = work->x + line / {rows} * {};",
            height * width * channels
        ));
        self.range(0, &format!("(line % {rows})"), &mut out);
        out.for_("place", columns);
        self.range(1, "place", &mut out);
        out.line(format!("uint8_t *const y = work->y + (line * {columns} + place) * {channels};"));
        out.open(format!("for (int32_t channel = 0; channel < {channels}; channel += 4) {{"));
        out.line(format!(
            "const uint8_t *from = x + (row_start * {width} + column_start) * {channels} + channel;"
        ));
        out.line("uint32_t most = trainc_xpulp_load(from);");
        out.open("for (int32_t row = row_start; row < row_end; row++) {");
        out.line("const uint8_t *at = from;");
        out.open("for (int32_t column = column_start; column < column_end; column++) {");
        let function = if self.signed { "max_b" } else { "maxu_b" };
        out.line(format!("most = trainc_xpulp_{function}(most, trainc_xpulp_load(at));"));
        out.line(format!("at += {channels};"));
        out.close();
        out.line(format!("from += {};", width * channels));
        out.close();
        out.line("trainc_xpulp_store(y + channel, most);");
        out.close();
        out.close();
        out.close();
        out.close();
        out.line("");
        out.line(direct::prototype(name, kernel, false));
        out.open("{");
        out.line("struct trainc_mixed_work all = {0};");
        out.line("all.x = (const uint8_t *)x0;");
        out.line("all.y = (uint8_t *)y0;");
        out.line(format!("TRAINC_PARALLEL_FOR(&all, {}, {name}_rows);", self.batch * rows));
        out.close();
        out.finish()
    }
}

impl Family for Pools {
    fn kernel(&self, name: &str, kernel: &Kernel) -> Result<Option<String>, String> {
        let pool = Pool::of(&kernel.op, &kernel.input_types(), &kernel.output_types());
        Ok(pool.map(|pool| pool.functions(name, kernel)))
    }

    fn scratch_bytes(
        &self,
        op: &Op,
        inputs: &[&TensorType],
        outputs: &[&TensorType],
    ) -> Option<usize> {
        Pool::of(op, inputs, outputs).map(|_| 0)
    }

    fn cycles(&self, op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> Option<u64> {
        let pool = Pool::of(op, inputs, outputs)?;
        let window = (pool.op.kernel[0] * pool.op.kernel[1]) as u64;
        Some((outputs[0].count() as u64 / 4) * (window * CYCLES + 10))
    }
}
