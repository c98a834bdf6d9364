//! Maximum over windows, channels last: a word of channels at a time. Of elements of 4 and 2 bits, each part of a word's bytes is
//! compared for itself, at the top of its byte: what lies below it never decides between different elements.

use trainc_c::{CKernel, Emitted};
use trainc_ir::implementation::{Cost, Implementation, Signature};
use trainc_ir::program::Kernel;
use trainc_ir::{Element, Op};

use super::convolution::{bits, is_known, is_signed};
use super::direct;
use super::packed::{load, repeated, store};
use super::text::Text;
use super::window::Windows;

/// Cycles of each part of a word: at an element of a window, and as part of the result.
const CYCLES: [u64; 2] = [2, 3];

/// A max pool of integers whose channels fill bytes.
#[derive(Debug)]
pub(crate) struct Pool {
    windows: Windows,
    element: Element,
    results: usize,
}

impl Pool {
    /// The name for readers.
    pub(crate) const NAME: &str = "max pools of words";

    /// The pool that a kernel is; `None` if it is none of plain integers.
    ///
    /// # Errors
    /// Why there is no kernel for it.
    pub(crate) fn of(signature: &Signature<'_>) -> Option<Result<Pool, String>> {
        let Op::IntegerMaxPool2d(op) = signature.op else { return None };
        let (&[x], &[y]) = (signature.inputs, signature.outputs) else { return None };
        let windows = Windows::new([op.kernel, op.strides], op.pads, [x, y]);
        let pool = windows.map(|windows| Pool { windows, element: x.element, results: y.count() });
        Some(match pool {
            None => Err("its offsets exceed 32 bits".into()),
            Some(_) if !is_known(x.element) => {
                Err(format!("no instruction compares {}", x.element))
            }
            Some(pool) if !(pool.windows.channels * bits(x.element)).is_multiple_of(8) => {
                Err("its channels fill no bytes".into())
            }
            Some(pool) => Ok(pool),
        })
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

impl Implementation for Pool {
    fn name(&self) -> &'static str {
        Pool::NAME
    }

    fn cost(&self) -> Cost {
        let [of_tap, of_result] = CYCLES;
        let parts = (8 / bits(self.element)) as u64;
        let places = (self.results / self.windows.channels) as u64;
        let words = places * (self.bytes() / self.unit()) as u64;
        Cost::new(words * parts * (self.windows.taps() as u64 * of_tap + of_result))
    }

    fn scratch_bytes(&self) -> usize {
        0
    }
}

impl CKernel for Pool {
    fn emit(&self, name: &str, kernel: &Kernel) -> Result<Emitted, String> {
        Ok(self.functions(name, kernel).into())
    }
}
