//! Convolutions of packed bits whose bits are packed by a kernel of their own: a work item makes one feature of a pixel and leaves its
//! bit as a byte, a second kernel makes a byte of eight such. Eight sums of the widest words take more registers than there are, one takes few.
//! PhoneBit does so above 256 channels.

use trainc_c::syntax::Pointer;
use trainc_ir::bit_product::BitTail;
use trainc_ir::implementation::Cost;
use trainc_ir::loops::{BufferParameter, Role};
use trainc_ir::types::Element;

use crate::bits::{Bits, FEATURES};
use crate::printed::{LANES, LAUNCH, PrintedPhase, Variant};
use crate::window::{pointers, window};

/// Channels up to which one kernel does both.
const CHANNELS: usize = 256;

/// The bits of a convolution before they are packed.
pub(crate) struct Apart;

impl Apart {
    /// Whether a convolution may be made so: it has many channels and no groups, and its results are bits.
    fn suits(bits: &Bits) -> bool {
        let conv = &bits.product.conv;
        bits.product.tail != BitTail::Sums && conv.groups == 1 && conv.channels > CHANNELS
    }

    /// Gives a convolution that may be made so the working memory for it: a byte for each bit.
    pub(crate) fn offer(bits: &mut Bits) {
        // Working memory of its own would stand before theirs.
        let own = bits.kernel.buffers.iter().any(|buffer| buffer.role == Role::Scratch);
        if own || !Apart::suits(bits) {
            return;
        }
        let product = &bits.product;
        let count = product.x[0] * product.y[0] * product.y[1] * product.w[0];
        let marks = BufferParameter {
            name: "marks".into(),
            element: Element::U8,
            count,
            role: Role::Scratch,
        };
        bits.kernel.buffers.push(marks);
    }

    /// Whether the bits are packed by a kernel of their own unless a device has it otherwise.
    pub(crate) fn pays(bits: &Bits) -> bool {
        bits.marks() > 0 && Apart::cycles(bits) < bits.cycles()
    }

    /// Cycles of the way that costs least.
    pub(crate) fn cost(bits: &Bits) -> Cost {
        Cost::new(if Apart::pays(bits) { Apart::cycles(bits) } else { bits.cycles() })
    }

    /// Cycles of both kernels.
    fn cycles(bits: &Bits) -> u64 {
        let product = &bits.product;
        let items = product.x[0] * product.y[0] * product.y[1] * product.w[0];
        let rounds = |items: usize| (items as u64).div_ceil(LANES);
        let each = bits.words() * bits.word().parts() * 7 / 2 + 15;
        rounds(items) * each as u64 + rounds(items / FEATURES) * 20 + 2 * LAUNCH
    }

    /// The two kernels; `name` gives each a name that no other has.
    pub(crate) fn print(
        bits: &Bits,
        name: &mut dyn FnMut(&str) -> String,
        own: &str,
    ) -> [PrintedPhase; 2] {
        let product = &bits.product;
        let [y_height, y_width] = product.y;
        let features = product.w[0];
        let marks = |written| Pointer {
            buffer: bits.kernel.buffers.len() - 1,
            name: "marks".into(),
            element: "uint8_t",
            written,
            scratch: Some(0),
        };
        let mut all = pointers(["uint8_t", "uint8_t"], product.tail);
        let result = all.pop();
        all.push(marks(true));
        let rounds = [product.x[0] * y_height, y_width, features].map(|n| n as i32).to_vec();
        let apart = |phase: PrintedPhase, about| {
            phase.variant_of(Variant { name: "apart", about, group: None })
        };
        let made = PrintedPhase::of(name(&format!("{own}_apart")), all, rounds, Apart::body(bits));
        let bytes = product.x[0] * y_height * y_width * features / FEATURES;
        let packed = PrintedPhase::of(
            name(&format!("{own}_packed")),
            result.into_iter().chain([marks(false)]).collect(),
            vec![bytes as i32],
            vec![
                "const int32_t byte = (int32_t)get_global_id(0);".into(),
                "/* The bit of each of eight bytes moves into the highest byte, the first's lowest. */".into(),
                "const ulong eight = as_ulong(vload8(byte, marks));".into(),
                "y0[byte] = (uint8_t)((eight * 0x0102040810204080ul) >> 56);".into(),
            ],
        );
        [
            apart(made, "The same in two kernels: a byte for each bit."),
            apart(packed, "The second of them: eight bits to a byte."),
        ]
    }

    /// The lines of the first kernel behind its pointers.
    fn body(bits: &Bits) -> Vec<String> {
        let product = &bits.product;
        let ([_, height, width, bytes], [features, rows, columns]) = (product.x, product.w);
        let ([y_height, y_width], word) = (product.y, bits.word());
        let (vector, conv) = (word.vector(), &product.conv);
        let mut lines = vec!["const int32_t feature = (int32_t)get_global_id(0);".to_string()];
        lines.extend(window([height, width], [rows, columns], conv.strides, conv.pads, y_height));
        let flip = if product.tail == BitTail::Flipped { " ^ x3[feature]" } else { "" };
        lines.extend([
            "const int32_t taps =".to_string(),
            "    max(last_row - first_row, 0) * max(last_column - first_column, 0);".into(),
            format!("const int32_t bytes = max(last_column - first_column, 0) * {bytes};"),
            format!("{} differ = 0;", word.counts()),
            "for (int32_t kh = first_row; kh < last_row; kh++) {".into(),
            format!(
                "    const int32_t pixel = (row / {y_height} * {height} + top + kh) * {width} + left + first_column;"
            ),
            format!("    __global const uint8_t *const x = x0 + pixel * {bytes};"),
            "    __global const uint8_t *const w =".into(),
            format!("        x1 + ((feature * {rows} + kh) * {columns} + first_column) * {bytes};"),
            format!("    for (int32_t at = 0; at < bytes; at += {}) {{", word.0),
            format!(
                "        differ += popcount(({vector})({} ^ {}));",
                word.load("x + at"),
                word.load("w + at")
            ),
            "    }".into(),
            "}".into(),
            format!("const int32_t sum = taps * {} - 2 * {};", conv.channels, word.total("differ")),
            format!(
                "marks[(row * {y_width} + ow) * {features} + feature] = (uint8_t)(x2[feature] <= (sum{flip}));"
            ),
        ]);
        lines
    }
}
