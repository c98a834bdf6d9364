//! Convolutions of 8-bit integers, such as first layers of binary networks: a work item makes sixteen features of a pixel, a vector
//! of sums, which each byte of the map is multiplied into. Weights are laid out for that before, each time: a tap's features in a row.

use trainc_ir::bit_product::BitTail;
use trainc_ir::implementation::{Cost, Signature};
use trainc_ir::loops::{BufferParameter, LoopKernel, Role};
use trainc_ir::ops::{IntegerConv2d, Op};
use trainc_ir::types::Element;

use crate::printed::{LANES, LAUNCH, PrintedPhase};
use crate::window::{pointers, window};

/// A convolution of bytes, with its buffers.
#[derive(Debug)]
pub(crate) struct Bytes {
    conv: IntegerConv2d,
    /// Batch, height, width and channels of the map.
    x: [usize; 4],
    /// Whether its bytes have signs.
    signed: bool,
    /// Features, rows and columns of the weights.
    w: [usize; 3],
    /// Height and width of the result.
    y: [usize; 2],
    tail: BitTail,
    /// The generic loops, for their buffers, and the weights as they are laid out.
    pub(crate) kernel: LoopKernel,
}

/// Features of a work item.
const FEATURES: usize = 16;
/// Most taps: sums stay within 32 bits.
const TAPS: usize = 1 << 16;

fn four(shape: &[usize]) -> Result<[usize; 4], String> {
    shape.try_into().map_err(|_| "not four dimensions".to_string())
}

impl Bytes {
    /// The name for readers.
    pub(crate) const NAME: &str = "products of bytes";

    /// The convolution of bytes that a kernel is; `None` if it is something else.
    ///
    /// # Errors
    /// Why there is no such kernel for it.
    pub(crate) fn of(signature: &Signature<'_>) -> Option<Result<Bytes, String>> {
        let (Op::IntegerConv2d(conv), rest) = signature.ops().split_first()? else { return None };
        Some(Bytes::new(conv, rest, signature))
    }

    fn new(conv: &IntegerConv2d, rest: &[Op], signature: &Signature<'_>) -> Result<Bytes, String> {
        let [x, w] = [signature.inputs[0], signature.inputs[1]];
        let signed = match x.element {
            Element::I8 => true,
            Element::U8 => false,
            _ => return Err("the map has no bytes".into()),
        };
        let tail = BitTail::of(rest, signature)?;
        let [features, rows, columns, channels] = four(&w.shape)?;
        let [_, y_height, y_width, _] = four(&signature.outputs[0].shape)?;
        for (holds, why) in [
            (w.element == Element::I8, "the weights are no bytes"),
            (conv.groups == 1, "it has groups"),
            (conv.dilations == [1, 1], "its taps are dilated"),
            (conv.padding == 0 || conv.pads == [0; 4], "its padding is not 0"),
            ((1..=TAPS).contains(&(rows * columns * channels)), "its sums may be beyond 32 bits"),
        ] {
            if !holds {
                return Err(why.into());
            }
        }
        let mut kernel = signature.lower();
        if kernel.buffers.iter().any(|buffer| buffer.role == Role::Scratch) {
            return Err("its loops have working memory".into());
        }
        kernel.buffers.push(BufferParameter {
            name: "weights".into(),
            element: Element::I16,
            count: rows * columns * channels * features.next_multiple_of(FEATURES),
            role: Role::Scratch,
        });
        Ok(Bytes {
            conv: conv.clone(),
            x: four(&x.shape)?,
            signed,
            w: [features, rows, columns],
            y: [y_height, y_width],
            tail,
            kernel,
        })
    }

    /// Features, filled up to whole vectors.
    fn filled(&self) -> usize {
        self.w[0].next_multiple_of(FEATURES)
    }

    fn taps(&self) -> usize {
        self.w[1] * self.w[2] * self.x[3]
    }

    /// Working memory in bytes.
    pub(crate) fn scratch_bytes(&self) -> usize {
        self.taps() * self.filled() * 2
    }

    /// Cycles: a load, a product and a sum of vectors for each tap, then what becomes of the sums; the weights before.
    pub(crate) fn cost(&self) -> Cost {
        let items = self.x[0] * self.y[0] * self.y[1] * self.filled() / FEATURES;
        let each = self.taps() * (FEATURES + 4) + 80;
        let work = items * each + 4 * self.taps() * self.filled();
        Cost::new(work as u64 / LANES + 2 * LAUNCH)
    }

    /// The kernels; `name` gives each a name that no other has.
    pub(crate) fn print(
        &self,
        name: &mut dyn FnMut(&str) -> String,
        own: &str,
    ) -> Vec<PrintedPhase> {
        let map = if self.signed { "int8_t" } else { "uint8_t" };
        let all = pointers([map, "int8_t"], self.tail);
        let weights = |written| trainc_c::syntax::Pointer {
            buffer: self.kernel.buffers.len() - 1,
            name: "weights".into(),
            element: "int16_t",
            written,
            scratch: Some(0),
        };
        let taps = self.taps();
        let [features, filled] = [self.w[0], self.filled()];
        let value = match features == filled {
            true => format!("x1[feature * {taps} + tap]"),
            false => format!("feature < {features} ? x1[feature * {taps} + tap] : 0"),
        };
        let laid = PrintedPhase::of(
            name(&format!("{own}_part1")),
            vec![all[1].clone(), weights(true)],
            [taps, filled].map(|n| n as i32).to_vec(),
            vec![
                "const int32_t feature = (int32_t)get_global_id(0);".into(),
                "const int32_t tap = (int32_t)get_global_id(1);".into(),
                format!("weights[tap * {filled} + feature] = (int16_t)({value});"),
            ],
        );
        let mut buffers: Vec<_> =
            all.iter().filter(|pointer| pointer.buffer != 1).cloned().collect();
        buffers.push(weights(false));
        let [y_height, y_width] = self.y;
        let rounds = [self.x[0] * y_height, y_width, filled / FEATURES].map(|n| n as i32);
        let own = name(&format!("{own}_part2"));
        vec![laid, PrintedPhase::of(own, buffers, rounds.to_vec(), self.body())]
    }

    /// The lines of the product behind its pointers.
    fn body(&self) -> Vec<String> {
        let ([_, height, width, channels], [features, rows, columns]) = (self.x, self.w);
        let ([y_height, y_width], filled) = (self.y, self.filled());
        let mut lines = vec![
            "const int32_t group = (int32_t)get_global_id(0);".to_string(),
            format!("const int32_t feature = group * {FEATURES};"),
        ];
        let sizes = ([height, width], [rows, columns]);
        lines.extend(window(sizes.0, sizes.1, self.conv.strides, self.conv.pads, y_height));
        lines.extend([
            format!(
                "const int32_t bytes = max(last_column - first_column, 0) * {channels};"
            ),
            "int16 sums = 0;".into(),
            "for (int32_t kh = first_row; kh < last_row; kh++) {".into(),
            format!(
                "    const int32_t pixel = (row / {y_height} * {height} + top + kh) * {width} + left + first_column;"
            ),
            format!("    const int32_t tap = (kh * {columns} + first_column) * {channels};"),
            "    for (int32_t at = 0; at < bytes; at++) {".into(),
            format!("        const int32_t value = x0[pixel * {channels} + at];"),
            format!(
                "        sums += value * convert_int16(vload16(0, weights + (tap + at) * {filled} + feature));"
            ),
            "    }".into(),
            "}".into(),
        ]);
        let place = format!("(row * {y_width} + ow) * ");
        let whole = features == filled;
        if self.tail == BitTail::Sums && whole {
            lines.push(format!("vstore16(sums, 0, y0 + {place}{features} + feature);"));
            return lines;
        }
        lines.extend([format!("int32_t sum[{FEATURES}];"), "vstore16(sums, 0, sum);".into()]);
        if self.tail == BitTail::Sums {
            lines.extend([
                format!("for (int32_t i = 0; i < {FEATURES} && feature + i < {features}; i++) {{"),
                format!("    y0[{place}{features} + feature + i] = sum[i];"),
                "}".into(),
            ]);
            return lines;
        }
        let flip = if self.tail == BitTail::Flipped { " ^ x3[feature + i]" } else { "" };
        let more = if whole { String::new() } else { format!(" && feature + first < {features}") };
        lines.extend([
            format!("for (int32_t first = 0; first < {FEATURES}{more}; first += 8) {{"),
            "    int32_t byte = 0;".into(),
            "    for (int32_t i = first; i < first + 8; i++) {".into(),
            format!("        byte |= (x2[feature + i] <= (sum[i]{flip})) << (i - first);"),
            "    }".into(),
            format!("    y0[{place}{} + (feature + first) / 8] = (uint8_t)byte;", features / 8),
            "}".into(),
        ]);
        lines
    }
}
