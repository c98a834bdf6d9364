//! A convolution as plain C on packed elements: for weights that are no constants, and for channel groups.

use trainc_ir::loops::Role;
use trainc_ir::program::Kernel;

use super::convolution::{Convolution, Stage, bits};
use super::stage;
use super::text::{Text, times};

/// Cycles of a product.
pub(crate) const CYCLES: u64 = 14;

/// The start of a kernel's function, up to its parameters.
pub(crate) fn prototype(name: &str, kernel: &Kernel, scratch: bool) -> String {
    let loops = kernel.op.lower(&kernel.input_types(), &kernel.output_types());
    let mut parameters: Vec<String> = Vec::new();
    for buffer in loops.buffers.iter().filter(|buffer| buffer.role != Role::Scratch) {
        let (constant, name) = match buffer.role {
            Role::Input(i) => ("const ", format!("x{i}")),
            Role::Output(i) => ("", format!("y{i}")),
            _ => continue,
        };
        let ty = trainc_c::element_type(buffer.element);
        parameters.push(format!("{constant}{ty} *{name}"));
    }
    if scratch {
        parameters.push("uint8_t *scratch".into());
    }
    format!("static void {name}({})", parameters.join(", "))
}

/// The kernel's function.
pub(crate) fn function(name: &str, kernel: &Kernel, c: &Convolution) -> String {
    let mut out = Text::default();
    out.line(format!("/* Rows begin..end of all images of `{name}`. */"));
    out.line(format!("static void {name}_rows(void *context, int32_t begin, int32_t end)"));
    out.open("{");
    out.line("const struct trainc_mixed_work *const work = context;");
    let operands: &[&str] = match c.stage {
        Stage::Sums => &[],
        Stage::Threshold { flips: false, .. } => &["first"],
        _ => &["first", "second"],
    };
    for operand in operands {
        out.line(format!(
            "const int32_t *const {operand} = (const int32_t *)(const void *)work->{operand};"
        ));
    }
    let ([height, width], [rows, columns]) = (c.input, c.output);
    let (inputs, members) = (c.channels / c.groups, c.filters / c.groups);
    out.open("for (int32_t line = begin; line < end; line++) {");
    out.line(format!("const int32_t image = line / {rows};"));
    let position = |place: &str, stride: usize, pad: usize| match pad {
        0 => times(place, stride),
        pad => format!("{} - {pad}", times(place, stride)),
    };
    out.line(format!(
        "const int32_t top = {};",
        position(&format!("(line % {rows})"), c.strides[0], c.pads[0])
    ));
    out.for_("place", columns);
    out.line(format!("const int32_t left = {};", position("place", c.strides[1], c.pads[1])));
    out.for_("channel", c.filters);
    let group = if c.groups == 1 { "0".into() } else { format!("channel / {members} * {inputs}") };
    out.line(format!("const int32_t first_input = {group};"));
    out.line("uint32_t sum = 0;");
    out.for_("kh", c.kernel[0]);
    out.line(format!("const int32_t row = top + {};", times("kh", c.dilations[0])));
    out.for_("kw", c.kernel[1]);
    out.line(format!("const int32_t column = left + {};", times("kw", c.dilations[1])));
    out.line(format!(
        "const int inside = row >= 0 && row < {height} && column >= 0 && column < {width};"
    ));
    out.line(format!(
        "const int32_t from = ((image * {height} + row) * {width} + column) * {} + first_input;",
        c.channels
    ));
    out.line(format!(
        "const int32_t weights = ((channel * {} + kh) * {} + kw) * {inputs};",
        c.kernel[0], c.kernel[1]
    ));
    out.for_("input", inputs);
    out.line(format!(
        "const int32_t x = inside ? trainc_mixed_get(work->x, from + input, {}, {}) : {};",
        bits(c.x),
        u8::from(c.is_signed()),
        c.padding
    ));
    out.line(format!(
        "const int32_t w = trainc_mixed_get(work->weights, weights + input, {}, 1);",
        bits(c.w)
    ));
    out.line("sum += (uint32_t)(x * w);");
    out.close();
    out.close();
    out.close();
    stage::value(c, "(int32_t)sum", operands, &mut out);
    let index = format!("(line * {columns} + place) * {} + channel", c.filters);
    stage::store(c, "work->y", &index, &mut out);
    out.close();
    out.close();
    out.close();
    out.close();
    out.line("");
    out.line(prototype(name, kernel, kernel.scratch_bytes() > 0));
    out.open("{");
    out.line("struct trainc_mixed_work all = {0};");
    if kernel.scratch_bytes() > 0 {
        out.line("(void)scratch;");
    }
    for (i, field) in ["x", "weights", "first", "second"].iter().enumerate() {
        if i < kernel.inputs.len() {
            out.line(format!("all.{field} = (const uint8_t *)x{i};"));
        }
    }
    out.line("all.y = (uint8_t *)y0;");
    let lines = c.batch * rows;
    if (columns * c.filters * bits(c.y)).is_multiple_of(8) {
        out.line(format!("TRAINC_PARALLEL_FOR(&all, {lines}, {name}_rows);"));
    } else {
        out.line("/* Rows share bytes: they are one core's work. */");
        out.for_("i", (lines * columns * c.filters * bits(c.y)).div_ceil(8));
        out.line("y0[i] = 0;");
        out.close();
        out.line(format!("{name}_rows(&all, 0, {lines});"));
    }
    out.close();
    out.finish()
}
