//! Convolutions of packed bits: a work item makes eight features of a pixel, so that each word of the map is loaded once for
//! eight words of weights, and a threshold's bits fill a byte. Words are as wide as divides a pixel's bytes (of one group), up to
//! 64 bytes. A variant shares map and weights of neighbouring pixels and features in local memory, see `tiled`.

use trainc_c::syntax::Pointer;
use trainc_ir::bit_product::{BitProduct, BitTail};
use trainc_ir::implementation::Signature;
use trainc_ir::loops::{LoopKernel, Role};

use crate::printed::{LANES, LAUNCH, PrintedPhase};
use crate::window::{pointers, window};

/// A convolution of bits, with its buffers.
#[derive(Debug)]
pub(crate) struct Bits {
    pub(crate) product: BitProduct,
    /// The generic loops, for their buffers.
    pub(crate) kernel: LoopKernel,
}

/// Features of a work item.
pub(crate) const FEATURES: usize = 8;

impl Bits {
    /// The name for readers.
    pub(crate) const NAME: &str = "counts of bits";

    /// The convolution of bits that a kernel is; `None` if it is something else.
    ///
    /// # Errors
    /// Why there is no such kernel for it.
    pub(crate) fn of(signature: &Signature<'_>) -> Option<Result<Bits, String>> {
        let product = BitProduct::grouped(signature)?;
        Some(product.map(|product| Bits { product, kernel: signature.lower() }))
    }

    /// Words of a pixel's channels, of one group.
    pub(crate) fn word(&self) -> Word {
        let bytes = self.product.bytes();
        let divides = |word: &usize| bytes.is_multiple_of(*word);
        Word([64, 32, 16, 8, 4, 2].into_iter().find(divides).unwrap_or(1))
    }

    /// Work items that a pixel's features take.
    pub(crate) fn groups(&self) -> usize {
        self.product.w[0].div_ceil(FEATURES)
    }

    /// Whether the features of a work item may be of several groups of channels.
    fn mixed(&self) -> bool {
        self.product.conv.groups > 1 && !self.product.members().is_multiple_of(FEATURES)
    }

    /// Words of a feature's weights.
    pub(crate) fn words(&self) -> usize {
        let [_, rows, columns] = self.product.w;
        rows * columns * self.product.bytes() / self.word().0
    }

    /// Working memory in bytes: of bits that are packed by a kernel of their own; 0 where there is no such kernel.
    pub(crate) fn marks(&self) -> usize {
        let scratch = self.kernel.buffers.iter().filter(|buffer| buffer.role == Role::Scratch);
        scratch.map(|buffer| buffer.count).sum()
    }

    /// Cycles of the one kernel: loads and counts of each word, then what becomes of the sums. Fitted, as the two kernels' are, to times
    /// through PoCL, on which they are the same within 4 % but for words of 64 bytes, where two kernels take 8 % less.
    pub(crate) fn cycles(&self) -> u64 {
        let BitProduct { x, y, .. } = &self.product;
        let items = x[0] * y[0] * y[1] * self.groups();
        let each = if self.mixed() { 4 * FEATURES } else { 3 * FEATURES } * self.word().parts();
        // Eight sums of the widest words are more than registers hold.
        let each = if self.word().0 == 64 { each * 5 / 4 } else { each };
        (items as u64).div_ceil(LANES) * (self.words() * (each + 4) + 80) as u64 + LAUNCH
    }

    /// The kernel; `name` gives it a name that no other has.
    pub(crate) fn print(&self, name: &mut dyn FnMut(&str) -> String, own: &str) -> PrintedPhase {
        PrintedPhase::of(name(own), self.pointers(), self.rounds(), self.body())
    }

    /// The buffers.
    pub(crate) fn pointers(&self) -> Vec<Pointer> {
        pointers(["uint8_t", "uint8_t"], self.product.tail)
    }

    /// Rounds that are work items.
    pub(crate) fn rounds(&self) -> Vec<i32> {
        let BitProduct { x: [batch, ..], y: [y_height, y_width], .. } = &self.product;
        [batch * y_height, *y_width, self.groups()].map(|n| n as i32).to_vec()
    }

    /// The lines of the kernel behind its pointers.
    fn body(&self) -> Vec<String> {
        let BitProduct { conv, x, w, y, .. } = &self.product;
        let ([_, height, width, bytes], [features, rows, columns]) = (*x, *w);
        let [y_height, _] = *y;
        let group = self.product.bytes();
        let (word, feature) = (self.word(), rows * columns * group);
        let vector = word.vector();
        let load = |place: &str| word.load(place);
        let words = group / word.0;
        let whole = features.is_multiple_of(FEATURES);
        // Beyond the last feature the last one's weights are read again.
        let one = match whole {
            true => "i".to_string(),
            false => format!("(feature + i < {features} ? i : {features} - 1 - feature)"),
        };
        let weight = format!("w + {one} * {feature}");
        let members = self.product.members();
        let shared = match conv.groups > 1 && !self.mixed() {
            true => format!(" + feature / {members} * {group}"),
            false => String::new(),
        };
        let at = |base: &str| match words {
            1 => base.to_string(),
            _ => format!("{base} + at"),
        };
        let inner = if words == 1 { "            " } else { "                " };
        let mut lines = vec![
            "const int32_t group = (int32_t)get_global_id(0);".to_string(),
            format!("const int32_t feature = group * {FEATURES};"),
        ];
        lines.extend(window([height, width], [rows, columns], conv.strides, conv.pads, y_height));
        lines.extend([
            "const int32_t taps =".to_string(),
            "    max(last_row - first_row, 0) * max(last_column - first_column, 0);".into(),
            format!("{} differ[{FEATURES}];", word.counts()),
            format!("for (int32_t i = 0; i < {FEATURES}; i++) {{"),
            "    differ[i] = 0;".into(),
            "}".into(),
            "for (int32_t kh = first_row; kh < last_row; kh++) {".into(),
            "    for (int32_t kw = first_column; kw < last_column; kw++) {".into(),
            format!(
                "        const int32_t pixel = (row / {y_height} * {height} + top + kh) * {width} + left + kw;"
            ),
            format!("        __global const uint8_t *const x = x0 + pixel * {bytes}{shared};"),
            "        __global const uint8_t *const w =".into(),
            format!("            x1 + feature * {feature} + (kh * {columns} + kw) * {group};"),
        ]);
        if words > 1 {
            lines.push(format!("        for (int32_t at = 0; at < {group}; at += {}) {{", word.0));
        }
        if !self.mixed() {
            lines.push(format!("{}const {vector} bits = {};", &inner[4..], load(&at("x"))));
        }
        lines.extend([
            format!("{}#pragma unroll", &inner[4..]),
            format!("{}for (int32_t i = 0; i < {FEATURES}; i++) {{", &inner[4..]),
        ]);
        if self.mixed() {
            let own = format!("x + (feature + {one}) / {members} * {group}");
            lines.push(format!("{inner}const {vector} bits = {};", load(&at(&own))));
        }
        lines.extend([
            format!("{inner}differ[i] += popcount(({vector})(bits ^ {}));", load(&at(&weight))),
            format!("{}}}", &inner[4..]),
        ]);
        if words > 1 {
            lines.push("        }".into());
        }
        lines.extend(["    }".to_string(), "}".into()]);
        lines.extend(self.finish());
        lines
    }

    /// The lines that make results of what differs of each feature, `differ`, in `taps` taps.
    pub(crate) fn finish(&self) -> Vec<String> {
        let BitProduct { conv, w: [features, ..], y: [_, y_width], tail, .. } = &self.product;
        let (channels, whole) = (conv.channels, features.is_multiple_of(FEATURES));
        let total = |value: &str| self.word().total(value);
        let mut lines = Vec::new();
        let place = format!("(row * {y_width} + ow) * ");
        let sum = format!("taps * {channels} - 2 * {}", total("differ[i]"));
        let each = format!("for (int32_t i = 0; i < {FEATURES}; i++) {{");
        match tail {
            BitTail::Sums => {
                lines.push(each);
                let store = format!("y0[{place}{features} + feature + i] = {sum};");
                match whole {
                    true => lines.push(format!("    {store}")),
                    false => lines.extend([
                        format!("    if (feature + i < {features}) {{"),
                        format!("        {store}"),
                        "    }".into(),
                    ]),
                }
                lines.push("}".into());
            }
            BitTail::Threshold | BitTail::Flipped => {
                let flip = if *tail == BitTail::Flipped { " ^ x3[feature + i]" } else { "" };
                lines.extend([
                    "int32_t byte = 0;".into(),
                    each,
                    format!("    const int32_t sum = {sum};"),
                    match flip {
                        "" => "    byte |= (x2[feature + i] <= sum) << i;".to_string(),
                        _ => format!("    byte |= (x2[feature + i] <= (sum{flip})) << i;"),
                    },
                    "}".into(),
                    format!("y0[{place}{} + group] = (uint8_t)byte;", self.groups()),
                ]);
            }
        }
        lines
    }
}

/// What loads of bits take at a time: bytes.
#[derive(Clone, Copy)]
pub(crate) struct Word(pub(crate) usize);

impl Word {
    /// Parts of 64 bits, or less.
    pub(crate) fn parts(self) -> usize {
        self.0.div_ceil(8)
    }

    /// OpenCL's type.
    pub(crate) fn vector(self) -> &'static str {
        match self.0 {
            64 => "ulong8",
            32 => "ulong4",
            16 => "ulong2",
            8 => "ulong",
            4 => "uint",
            2 => "ushort",
            _ => "uchar",
        }
    }

    /// OpenCL's type of counts of its ones over all taps.
    pub(crate) fn counts(self) -> &'static str {
        if self.0 < 4 { "uint" } else { self.vector() }
    }

    /// A load from bytes of global memory. Pixels are as aligned as their words' numbers are.
    pub(crate) fn load(self, place: &str) -> String {
        let one = if place.contains(' ') { format!("({place})") } else { place.to_string() };
        match self.0 {
            1 => format!("*{one}"),
            word @ (2 | 4) => format!("as_{}(vload{word}(0, {place}))", self.vector()),
            8 => format!("*(__global const ulong *){one}"),
            word => format!("vload{}(0, (__global const ulong *){one})", word / 8),
        }
    }

    /// The sum of a word's numbers.
    pub(crate) fn total(self, value: &str) -> String {
        match self.0 / 8 {
            0 | 1 => format!("(int32_t){value}"),
            parts => {
                let all: Vec<String> = (0..parts).map(|at| format!("{value}.s{at}")).collect();
                format!("(int32_t)({})", all.join(" + "))
            }
        }
    }
}
