//! Convolutions of packed bits: exclusive or and counts of ones by vectors (`support/trainc_neon_bits.h`).
//!
//! Maps have their channels last, so the taps of a window's row lie one behind the other, in the map as in the weights: a row
//! is one run of bytes. Eight features of one or two pixels are a tile, whose counts stand in registers. A `threshold` behind the
//! sums makes bits of them before they are stored.

use trainc_c::{CKernel, Emitted};
use trainc_ir::bit_product::{BitProduct, BitTail};
use trainc_ir::implementation::{Cost, Implementation, Signature};
use trainc_ir::program::Kernel;

use crate::level::Level;

/// A convolution of bits.
#[derive(Debug)]
pub(crate) struct Bits {
    product: BitProduct,
    /// Pixels that share what is loaded of the weights.
    pixels: usize,
}

/// Bytes of a window that the support function lays out.
const LAID: usize = 640;

impl Bits {
    /// The name for readers.
    pub(crate) const NAME: &str = "counts of bits";

    /// The convolution of bits that a kernel is; `None` if it is something else.
    ///
    /// # Errors
    /// Why there is no such kernel for it.
    pub(crate) fn of(level: Level, signature: &Signature<'_>) -> Option<Result<Bits, String>> {
        let pixels = if level == Level::Armv7 { 1 } else { 2 };
        Some(BitProduct::of(signature)?.map(|product| Bits { product, pixels }))
    }

    /// Sizes as the support function takes them.
    fn sizes(&self) -> [usize; 14] {
        let BitProduct { conv, x: [batch, height, width, bytes], w, y, .. } = &self.product;
        let ([features, rows, columns], [y_height, y_width]) = (*w, *y);
        let ([down, right], [top, left, ..]) = (conv.strides, conv.pads);
        [
            *batch,
            *height,
            *width,
            *bytes,
            conv.channels,
            features,
            rows,
            columns,
            y_height,
            y_width,
            down,
            right,
            top,
            left,
        ]
    }
}

impl Implementation for Bits {
    fn name(&self) -> &'static str {
        Bits::NAME
    }

    /// Instructions: some for each 16 bytes of the windows of a tile, for its rows, and for the tile.
    fn cost(&self) -> Cost {
        let BitProduct { conv, x: [batch, height, width, bytes], w, y, .. } = &self.product;
        let [features, rows, columns] = *w;
        let taps = |at: usize, stride: usize, pad: usize, size: usize, kernel: usize| {
            let first = pad.saturating_sub(at * stride);
            (size + pad).saturating_sub(at * stride).min(kernel).saturating_sub(first)
        };
        let lays = rows > 1 && (columns * bytes) % 16 != 0 && rows * columns * bytes <= LAID;
        let blocks = features.div_ceil(8);
        let mut all = 0;
        for oh in 0..y[0] {
            let down = taps(oh, conv.strides[0], conv.pads[0], *height, rows);
            let mut ow = 0;
            while ow < y[1] {
                let right = |ow| taps(ow, conv.strides[1], conv.pads[1], *width, columns);
                let along = right(ow);
                let pair = self.pixels == 2
                    && ow + 1 < y[1]
                    && (along, right(ow + 1)) == (columns, columns);
                let pixels = 1 + usize::from(pair);
                let laid = lays && down * along == rows * columns;
                let (runs, run) =
                    if laid { (1, rows * columns * bytes) } else { (down, along * bytes) };
                let (whole, rest) = (run / 16, run % 16);
                // Of a block of 16 bytes, of what is left of a row, of counts that are widened, of the tile.
                let [block, masked, few, widen, tile] = match (self.pixels, pair) {
                    (1, _) => [62, 80, 190, 50, 150],
                    (_, false) => [36, 55, 180, 34, 135],
                    (_, true) => [61, 80, 200, 60, 210],
                };
                let last = match rest {
                    0 => 0,
                    _ if whole > 0 => masked,
                    _ => few,
                };
                let widened = (runs * run.div_ceil(16)).div_ceil(31);
                let tile = tile + widen * widened + runs * (30 + block * whole + last);
                let layout = if laid { pixels * rows * (12 + columns * bytes / 3) } else { 0 };
                all += blocks * tile + layout + 40;
                ow += pixels;
            }
        }
        Cost::new((batch * all) as u64)
    }

    fn scratch_bytes(&self) -> usize {
        0
    }
}

impl CKernel for Bits {
    fn emit(&self, name: &str, _: &Kernel) -> Result<Emitted, String> {
        let (operands, result) = match self.product.tail {
            BitTail::Sums => ("", "int32_t *y0"),
            BitTail::Threshold => ("const int32_t *x2, ", "uint8_t *y0"),
            BitTail::Flipped => ("const int32_t *x2, const int32_t *x3, ", "uint8_t *y0"),
        };
        let (least, flips) = match self.product.tail {
            BitTail::Sums => ("NULL", "NULL"),
            BitTail::Threshold => ("x2", "NULL"),
            BitTail::Flipped => ("x2", "x3"),
        };
        let results = if self.product.tail == BitTail::Sums { "y0, NULL" } else { "NULL, y0" };
        let sizes = self.sizes().map(|size| size.to_string()).join(", ");
        let text = format!(
            "static void {name}(const uint8_t *x0, const uint8_t *x1,\n    {operands}{result})\n{{\n    \
             static const struct trainc_bits sizes = {{ {sizes} }};\n    \
             trainc_bits_convolution(&sizes, x0, x1, {least}, {flips}, {results});\n}}\n"
        );
        Ok(text.into())
    }
}
