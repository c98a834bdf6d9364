//! Convolutions of packed bits, four features at a time (`support/trainc_xpulp_bits.h`).

use trainc_c::text::Text;
use trainc_c::{CKernel, Emitted};
use trainc_ir::bit_product::{BitProduct, BitTail};
use trainc_ir::implementation::{Cost, Implementation, Signature};
use trainc_ir::program::Kernel;

/// A convolution of bits whose pixels are whole words, of features by fours.
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
        let product = BitProduct::of(signature)?;
        Some(product.and_then(|product| match (product.x[3] % 4, product.w[0] % 4) {
            (0, 0) => Ok(Bits(product)),
            (0, _) => Err("its features do not come by fours".into()),
            _ => Err("its pixels are no whole words".into()),
        }))
    }
}

impl Implementation for Bits {
    fn name(&self) -> &'static str {
        Bits::NAME
    }

    /// Cycles of four features: 17 a word, some for a row of the window and for a result.
    fn cost(&self) -> Cost {
        let BitProduct { x, w, y, .. } = &self.0;
        let row = 17 * (w[2] * x[3] / 4) + 10;
        let pixels = x[0] * y[0] * y[1];
        Cost::new((60 + pixels * (40 + w[0] / 4 * (w[1] * row + 35))) as u64)
    }

    fn scratch_bytes(&self) -> usize {
        0
    }
}

impl CKernel for Bits {
    fn emit(&self, name: &str, _: &Kernel) -> Result<Emitted, String> {
        let BitProduct { conv, x, w, y, tail } = &self.0;
        let (operands, thresholds, flips) = match tail {
            BitTail::Sums => ("int32_t *y0", "0", "0"),
            BitTail::Threshold => ("const int32_t *x2, uint8_t *y0", "x2", "0"),
            BitTail::Flipped => ("const int32_t *x2, const int32_t *x3, uint8_t *y0", "x2", "x3"),
        };
        let mut out = Text::default();
        out.long(format!("static void {name}(const uint8_t *x0, const uint8_t *x1, {operands})"));
        out.open("{");
        out.line("struct trainc_xpulp_bits work;");
        let (sums, bits) = if *tail == BitTail::Sums { ("y0", "0") } else { ("0", "y0") };
        for (field, value) in [
            ("x", "x0"),
            ("w", "x1"),
            ("thresholds", thresholds),
            ("flips", flips),
            ("sums", sums),
            ("bits", bits),
        ] {
            out.line(format!("work.{field} = {value};"));
        }
        for (field, value) in [
            ("height", x[1]),
            ("width", x[2]),
            ("features", w[0]),
            ("rows", w[1]),
            ("columns", w[2]),
            ("y_height", y[0]),
            ("y_width", y[1]),
            ("bytes", x[3]),
            ("channels", conv.channels),
            ("down", conv.strides[0]),
            ("right", conv.strides[1]),
            ("top", conv.pads[0]),
            ("left", conv.pads[1]),
        ] {
            out.line(format!("work.{field} = {value};"));
        }
        out.long(format!("TRAINC_PARALLEL_FOR(&work, {}, trainc_xpulp_bits_rows);", x[0] * y[0]));
        out.close();
        Ok(out.finish().into())
    }
}
