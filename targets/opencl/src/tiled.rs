//! Convolutions of packed bits in tiles: a group of work items loads what its pixels have of the map, and the weights of its features,
//! into local memory once. A variant, for what has fast local memory and slow loads from global memory.

use trainc_ir::bit_product::BitProduct;

use crate::bits::{Bits, FEATURES};
use crate::printed::{PrintedPhase, Variant};
use crate::window::window;

/// Bytes of local memory: half of the least that a device has.
const LOCAL: usize = 16 << 10;

/// What a group of work items makes.
pub(crate) struct Tile {
    /// Pixels of a row.
    pixels: usize,
    /// Work items of a pixel.
    groups: usize,
    /// Columns of the map that the pixels' windows cover.
    width: usize,
}

impl Tile {
    /// The tile of a convolution; `None` if its windows share nothing or its weights take too much memory.
    pub(crate) fn of(bits: &Bits) -> Option<Tile> {
        let BitProduct { conv, w: [_, rows, columns], y: [_, y_width], .. } = &bits.product;
        let bytes = bits.product.bytes();
        if conv.groups > 1 || rows * columns == 1 {
            return None;
        }
        let pixels = [16, 8, 4].into_iter().find(|pixels| pixels <= y_width)?;
        let width = (pixels - 1) * conv.strides[1] + columns;
        let fits = |groups: &usize| {
            let weights = groups * FEATURES * rows * columns * bytes;
            *groups <= bits.groups() && rows * width * bytes + weights <= LOCAL
        };
        let groups = [4, 2, 1].into_iter().find(fits)?;
        Some(Tile { pixels, groups, width })
    }

    /// The kernel; `name` gives it a name that no other has.
    pub(crate) fn print(
        &self,
        bits: &Bits,
        name: &mut dyn FnMut(&str) -> String,
        own: &str,
    ) -> PrintedPhase {
        let name = name(&format!("{own}_tiled"));
        let kernel = PrintedPhase::of(name, bits.pointers(), bits.rounds(), self.body(bits));
        kernel.variant_of(self.variant())
    }

    fn variant(&self) -> Variant {
        Variant {
            name: "tiled",
            about: "The same, tiled.",
            group: Some([self.groups as u32, self.pixels as u32, 1]),
        }
    }

    /// The lines of the kernel behind its pointers.
    fn body(&self, bits: &Bits) -> Vec<String> {
        let BitProduct { conv, x, w: [features, rows, columns], y: [y_height, y_width], .. } =
            &bits.product;
        let [_, height, width, bytes] = *x;
        let word = bits.word();
        let (vector, words) = (word.vector(), bytes / word.0);
        let items = self.pixels * self.groups;
        let patch = rows * self.width * words;
        let feature = rows * columns * words;
        let weights = self.groups * FEATURES * feature;
        let mut lines = vec![
            format!("__local {vector} patch[{patch}];"),
            format!("__local {vector} weights[{weights}];"),
            "const int32_t group = (int32_t)get_global_id(0);".to_string(),
            format!("const int32_t feature = group * {FEATURES};"),
        ];
        let sizes = ([height, width], [*rows, *columns]);
        lines.extend(window(sizes.0, sizes.1, conv.strides, conv.pads, *y_height));
        let from_map = word.load(&format!(
            "x0 + ((row / {y_height} * {height} + y) * {width} + x) * {bytes} + place % {words} * {}",
            word.0
        ));
        let from_weights = word.load(&format!(
            "x1 + min(block + at / {feature}, {features} - 1) * {} + at % {feature} * {}",
            feature * word.0,
            word.0
        ));
        lines.extend([
            format!("const int32_t item = (int32_t)(get_local_id(1) * {} + get_local_id(0));", self.groups),
            format!(
                "const int32_t start = (int32_t)get_group_id(1) * {} - {};",
                self.pixels * conv.strides[1],
                conv.pads[1]
            ),
            format!("for (int32_t at = item; at < {patch}; at += {items}) {{"),
            format!("    const int32_t place = at % {};", self.width * words),
            format!("    const int32_t y = top + at / {};", self.width * words),
            format!("    const int32_t x = start + place / {words};"),
            format!("    if (y >= 0 && y < {height} && x >= 0 && x < {width}) {{"),
            format!("        patch[at] = {from_map};"),
            "    }".into(),
            "}".into(),
            format!(
                "const int32_t block = (int32_t)get_group_id(0) * {};",
                self.groups * FEATURES
            ),
            format!("for (int32_t at = item; at < {weights}; at += {items}) {{"),
            format!("    weights[at] = {from_weights};"),
            "}".into(),
            "barrier(CLK_LOCAL_MEM_FENCE);".into(),
            format!("if (ow >= {y_width} || group >= {}) {{", bits.groups()),
            "    return;".into(),
            "}".into(),
            "const int32_t taps =".into(),
            "    max(last_row - first_row, 0) * max(last_column - first_column, 0);".into(),
            format!("{} differ[{FEATURES}];", word.counts()),
            format!("for (int32_t i = 0; i < {FEATURES}; i++) {{"),
            "    differ[i] = 0;".into(),
            "}".into(),
            format!("__local const {vector} *const own = weights + (int32_t)get_local_id(0) * {};", FEATURES * feature),
            "for (int32_t kh = first_row; kh < last_row; kh++) {".into(),
            "    for (int32_t kw = first_column; kw < last_column; kw++) {".into(),
            format!("        const int32_t pixel = kh * {} + left - start + kw;", self.width),
            format!("        for (int32_t at = 0; at < {words}; at++) {{"),
            format!("            const {vector} bits = patch[pixel * {words} + at];"),
            "            #pragma unroll".into(),
            format!("            for (int32_t i = 0; i < {FEATURES}; i++) {{"),
            format!(
                "                differ[i] += popcount(({vector})(bits ^ own[i * {feature} + (kh * {columns} + kw) * {words} + at]));"
            ),
            "            }".into(),
            "        }".into(),
            "    }".into(),
            "}".into(),
        ]);
        lines.extend(bits.finish());
        lines
    }
}
