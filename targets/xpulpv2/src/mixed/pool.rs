//! Maximum over windows, channels last: a word of channels at a time. Of elements of 4 and 2 bits, each part of a word's bytes is
//! compared for itself, at the top of its byte: what lies below it never decides between different elements.

use trainc_ir::program::Kernel;
use trainc_ir::{Element, Op, TensorType};

use super::convolution::{bits, is_signed};
use super::direct;
use super::packed::{load, repeated, store};
use super::text::Text;
use super::window::Windows;
use crate::family::Family;

/// Cycles of each part of a word: at an element of a window, and as part of the result.
const CYCLES: [u64; 2] = [2, 3];

/// Max pools of integers whose channels fill bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pools;

struct Pool {
    windows: Windows,
    element: Element,
}

impl Pool {
    fn of(op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> Option<Pool> {
        let Op::IntegerMaxPool2d(op) = op else { return None };
        let ([x], [y]) = (inputs, outputs) else { return None };
        let windows = Windows::new([op.kernel, op.strides], op.pads, [x, y])?;
        use Element::{I2, I4, I8, U2, U4, U8};
        let known = matches!(x.element, U8 | I8 | U4 | I4 | U2 | I2);
        let pool = Pool { windows, element: x.element };
        let whole = (pool.windows.channels * bits(x.element)).is_multiple_of(8);
        (known && whole).then_some(pool)
    }

    /// Bytes of a place.
    fn bytes(&self) -> usize {
        self.windows.channels * bits(self.element) / 8
    }

    /// Bytes that are compared at once.
    fn unit(&self) -> usize {
        [4, 2].into_iter().find(|unit| self.bytes().is_multiple_of(*unit)).unwrap_or(1)
    }

    fn functions(&self, name: &str, kernel: &Kernel) -> String {
        let mut out = Text::default();
        let (width, bytes, unit) = (bits(self.element), self.bytes(), self.unit());
        let signed = is_signed(self.element);
        out.line(format!("/* Rows begin..end of all images of `{name}`. */"));
        out.line(format!("static void {name}_rows(void *context, int32_t begin, int32_t end)"));
        out.open("{");
        out.line("const struct trainc_mixed_work *const work = context;");
        self.windows.open([bytes, bytes], &mut out);
        out.open(format!("for (int32_t byte = 0; byte < {bytes}; byte += {unit}) {{"));
        let parts = 8 / width;
        // A part's distance from the top of its byte.
        let shift = |part: usize| 8 - width - part * width;
        if parts > 1 {
            out.line(format!("/* Each {width} bits of a byte, moved to its top. */"));
        }
        let lowest = repeated(if signed { 0x80 } else { 0 });
        let first: Vec<String> = (0..parts).map(|part| format!("most{part} = {lowest}")).collect();
        out.line(format!("uint32_t {};", first.join(", ")));
        self.windows.open_window(bytes, "byte", &mut out);
        out.line(format!("const uint32_t word = {};", load("at", unit)));
        let function = if signed { "max_b" } else { "maxu_b" };
        for part in 0..parts {
            let moved = match shift(part) {
                0 => "word".to_string(),
                shift => format!("trainc_xpulp_sll_b(word, {})", repeated(shift as u8)),
            };
            out.line(format!("most{part} = trainc_xpulp_{function}(most{part}, {moved});"));
        }
        self.windows.close_window(bytes, &mut out);
        let top = repeated(!(0xff >> width) as u8);
        let back = |part: usize| match (parts, shift(part)) {
            (1, _) => format!("most{part}"),
            (_, 0) => format!("(most{part} & {top})"),
            (_, shift) => format!("(most{part} & {top}) >> {shift}"),
        };
        let all: Vec<String> = (0..parts).map(back).collect();
        out.line(store("y + byte", &all.join(" | "), unit));
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
        let rows = self.windows.batch * self.windows.output[0];
        out.line(format!("TRAINC_PARALLEL_FOR(&all, {rows}, {name}_rows);"));
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
        let [of_tap, of_result] = CYCLES;
        let parts = (8 / bits(pool.element)) as u64;
        let places = (outputs[0].count() / pool.windows.channels) as u64;
        let words = places * (pool.bytes() / pool.unit()) as u64;
        Some(words * parts * (pool.windows.taps() as u64 * of_tap + of_result))
    }
}
