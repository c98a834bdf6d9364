//! Convolutions of packed bits: exclusive or and counts of ones by vectors (`support/trainc_neon_bits.h`).
//!
//! Maps have their channels last, so the taps of a window's row lie one behind the other, in the map as in the weights: a row
//! is one run of bytes. A `threshold` behind the sums makes bits of them before they are stored.

use trainc_c::{CKernel, Emitted};
use trainc_ir::bit_product::{BitProduct, BitTail};
use trainc_ir::implementation::{Cost, Implementation, Signature};
use trainc_ir::program::Kernel;

/// A convolution of bits.
#[derive(Debug)]
pub(crate) struct Bits(BitProduct);

impl Bits {
    /// The name for readers.
    pub(crate) const NAME: &str = "counts of bits";

    /// The convolution of bits that a kernel is; `None` if it is something else.
    ///
    /// # Errors
    /// Why there is no such kernel for it.
    pub(crate) fn of(signature: &Signature<'_>) -> Option<Result<Bits, String>> {
        Some(BitProduct::of(signature)?.map(Bits))
    }

    /// The lines of the function's body, indented.
    fn body(&self) -> Vec<String> {
        let BitProduct { conv, x, w, y, tail } = &self.0;
        let ([batch, height, width, bytes], [features, rows, columns]) = (*x, *w);
        let [y_height, y_width] = *y;
        let ([down, right], [top, left, ..]) = (conv.strides, conv.pads);
        let channels = conv.channels;
        let bits = *tail != BitTail::Sums;
        let mut lines = vec![
            format!("for (int32_t row = 0; row < {}; row++) {{", batch * y_height),
            format!("    const int32_t top = row % {y_height} * {down} - {top};"),
            "    const int32_t kh = top < 0 ? -top : 0;".into(),
            format!("    const int32_t below = {height} - top < {rows} ? {height} - top : {rows};"),
            "    const int32_t rows = below > kh ? below - kh : 0;".into(),
            format!("    for (int32_t ow = 0; ow < {y_width}; ow++) {{"),
            format!("        const int32_t left = ow * {right} - {left};"),
            "        const int32_t kw = left < 0 ? -left : 0;".into(),
            format!(
                "        const int32_t beyond = {width} - left < {columns} ? {width} - left : {columns};"
            ),
            "        const int32_t columns = beyond > kw ? beyond - kw : 0;".into(),
            format!("        const int32_t most = rows * columns * {channels};"),
            format!(
                "        const int32_t pixel = (row / {y_height} * {height} + top + kh) * {width} + left + kw;"
            ),
            format!(
                "        const uint8_t *const window = rows * columns > 0 ? x0 + pixel * {bytes} : x0;"
            ),
            format!(
                "        const uint8_t *w = x1 + (rows * columns > 0 ? (kh * {columns} + kw) * {bytes} : 0);"
            ),
        ];
        if bits {
            lines.push("        uint32_t byte = 0;".into());
        }
        lines.extend([
            format!("        for (int32_t feature = 0; feature < {features}; feature++) {{"),
            "            const int32_t differ = trainc_bits_that_differ(window,".into(),
            format!(
                "                {}, w, {}, rows, columns * {bytes});",
                width * bytes,
                columns * bytes
            ),
            "            const int32_t sum = most - 2 * differ;".into(),
        ]);
        if bits {
            let sum = if *tail == BitTail::Flipped { "(sum ^ x3[feature])" } else { "sum" };
            lines.extend([
                format!("            byte |= (uint32_t)(x2[feature] <= {sum}) << (feature % 8);"),
                "            if (feature % 8 == 7) {".into(),
                "                *y0++ = (uint8_t)byte;".into(),
                "                byte = 0;".into(),
                "            }".into(),
            ]);
        } else {
            lines.push("            *y0++ = sum;".into());
        }
        lines.extend([
            format!("            w += {};", rows * columns * bytes),
            "        }".into(),
            "    }".into(),
            "}".into(),
        ]);
        lines
    }
}

impl Implementation for Bits {
    fn name(&self) -> &'static str {
        Bits::NAME
    }

    /// Instructions: a few for each 16 bytes of a window's row, some for a row and a result.
    fn cost(&self) -> Cost {
        let BitProduct { x: [batch, _, _, bytes], w: [features, rows, columns], y, .. } = &self.0;
        let run = columns * bytes;
        let row = 6 * run.div_ceil(16) + 12;
        let results = batch * y[0] * y[1] * features;
        Cost::new((results * (rows * row + 16)) as u64)
    }

    fn scratch_bytes(&self) -> usize {
        0
    }
}

impl CKernel for Bits {
    fn emit(&self, name: &str, _: &Kernel) -> Result<Emitted, String> {
        let (operands, result) = match self.0.tail {
            BitTail::Sums => ("", "int32_t *y0"),
            BitTail::Threshold => ("const int32_t *x2, ", "uint8_t *y0"),
            BitTail::Flipped => ("const int32_t *x2, const int32_t *x3, ", "uint8_t *y0"),
        };
        let mut text = format!(
            "static void {name}(const uint8_t *x0, const uint8_t *x1,\n    {operands}{result})\n{{\n"
        );
        for line in self.body() {
            text.push_str(&format!("    {line}\n"));
        }
        text.push_str("}\n");
        Ok(text.into())
    }
}
