//! Convolutions that do not fit the cluster's memory: pieces of the weights, and for each of them the operand strip by strip. Copies
//! run ahead of the work by one piece; results go straight to their place.

use trainc_ir::program::Kernel;

use super::arrange::{group_bytes, groups};
use super::convolution::bits;
use super::direct;
use super::emit::Emission;
use super::layout::Tiling;
use super::text::{Text, times};

impl Emission<'_> {
    /// The kernel's function with pieces, after the one that fetches a strip's rows.
    pub(super) fn tiled_entry(&self, name: &str, kernel: &Kernel, tiling: &Tiling, out: &mut Text) {
        let (c, layout) = (self.c, &self.layout);
        let (height, total, strip) = (layout.input[0], layout.output[0], layout.strip);
        let strips = total.div_ceil(strip);
        let lines = layout.lines(c, strip);
        let first = match c.pads[0] {
            0 => times("row", c.strides[0]),
            top => format!("{} - {top}", times("row", c.strides[0])),
        };

        out.line("/* Starts to fetch the operand's rows of a strip; returns the first of them. */");
        out.line(format!(
            "static int32_t {name}_fetch(uint8_t *to, const uint8_t *x, int32_t step)"
        ));
        out.open("{");
        out.line(format!("const int32_t row = {};", times(&format!("(step % {strips})"), strip)));
        out.line(format!("const int32_t first = {first};"));
        out.line("const int32_t start = first < 0 ? 0 : first;");
        out.line(format!(
            "const int32_t end = first + {lines} < {height} ? first + {lines} : {height};"
        ));
        out.open("if (start < end) {");
        out.line(format!(
            "TRAINC_DMA_COPY(to, x + (step / {strips} * {height} + start) * {}, (size_t)(end - start) * {});",
            tiling.row, tiling.row
        ));
        out.close();
        out.line("return start;");
        out.close();
        out.line("");

        out.line(direct::prototype(name, kernel, true));
        out.open("{");
        out.line(format!("uint8_t *const l1 = TRAINC_L1(scratch, {});", layout.scratch_bytes()));
        let [of_rows, of_weights] = tiling.places;
        let pair = |name: &str, [first, second]: [usize; 2]| {
            format!("uint8_t *const {name}[2] = {{l1 + {first}, l1 + {second}}};")
        };
        out.line(pair("rows", of_rows));
        out.line(pair("weights", of_weights));
        out.line("const uint8_t *const x = (const uint8_t *)x0;");
        out.line("struct trainc_mixed_work all = {0};");
        for (i, field) in ["first", "second"].iter().enumerate() {
            if i + 2 < kernel.inputs.len() {
                out.line(format!("all.{field} = (const uint8_t *)x{};", i + 2));
            }
        }
        out.line("all.lines = l1;");
        self.zeros(out);
        let (group, all) = (group_bytes(c, layout), groups(c.filters));
        let (chunks, own) = (tiling.chunks, tiling.groups);
        out.line(format!("TRAINC_DMA_COPY(weights[0], x1, {});", own.min(all) * group));
        out.for_("chunk", chunks);
        out.line("all.weights = weights[chunk % 2];");
        out.line(format!("all.group = {};", times("chunk", own)));
        if chunks * own == all {
            out.line(format!("all.groups = {own};"));
        } else {
            out.line(format!(
                "all.groups = all.group + {own} < {all} ? {own} : {all} - all.group;"
            ));
        }
        let steps = layout.batch * strips;
        out.line(format!("int32_t next = {name}_fetch(rows[0], x, 0);"));
        out.for_("step", steps);
        out.line("TRAINC_DMA_WAIT();");
        out.line("all.x = rows[step % 2];");
        out.line("all.line = next;");
        if steps > 1 {
            out.open(format!("if (step + 1 < {steps}) {{"));
            out.line(format!("next = {name}_fetch(rows[(step + 1) % 2], x, step + 1);"));
            out.close();
        }
        if chunks > 1 {
            out.open(format!("if (step == 0 && chunk + 1 < {chunks}) {{"));
            out.line(format!("const int32_t later = all.group + {own};"));
            out.line(format!(
                "const int32_t count = later + {own} < {all} ? {own} : {all} - later;"
            ));
            out.line(format!(
                "TRAINC_DMA_COPY(weights[(chunk + 1) % 2], (const uint8_t *)x1 + later * {group}, (size_t)count * {group});"
            ));
            out.close();
        }
        out.line(format!("all.image = step / {strips};"));
        out.line(format!("all.row = {};", times(&format!("(step % {strips})"), strip)));
        let results = total * layout.output[1] * c.filters * bits(c.y) / 8;
        if self.whole {
            out.line(format!("all.y = (uint8_t *)y0 + {};", times("all.image", results)));
        } else {
            out.line("all.y = (uint8_t *)y0;");
        }
        let [rows, lines] = if total.is_multiple_of(strip) {
            [strip.to_string(), lines.to_string()]
        } else {
            out.line(format!(
                "const int32_t count = all.row + {strip} < {total} ? {strip} : {total} - all.row;"
            ));
            let more = layout.lines(c, 1);
            ["count".into(), format!("(count - 1) * {} + {more}", c.strides[0])]
        };
        self.strip(name, [&rows, &lines, "all.groups"], out);
        out.close();
        out.close();
        out.close();
    }
}
