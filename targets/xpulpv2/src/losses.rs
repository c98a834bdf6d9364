//! Losses of classes: the mean cross-entropy of floats, by whose powers a core without arithmetic of floats takes most of the time,
//! and NITI's gradient of it, of which most is draws. `trainc_xpulp_losses.h`.

use trainc_c::text::{Scratch, Text, declare};
use trainc_c::{CKernel, Emitted};
use trainc_ir::Op;
use trainc_ir::implementation::{Cost, Implementation, Signature};
use trainc_ir::program::Kernel;

/// See the module documentation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Losses {
    kind: Kind,
    rows: usize,
    classes: usize,
    /// Of what there is of elements, and of rows.
    elements: usize,
    values: usize,
    bytes: usize,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Entropy,
    /// And the stream of its rounding.
    Gradient(u32),
}

/// Cycles of a call; of a row's logarithm; of an element's power, with its sum; and of a share with a quarter of a draw.
const CALL: u64 = 100;
const LOGARITHM: u64 = 900;
const POWER: u64 = 600;
const SHARE: u64 = 120;

impl Losses {
    /// The name for readers.
    pub(crate) const NAME: &str = "losses by rows";

    /// The kernel of an operation; `None` if there is none.
    ///
    /// # Errors
    /// Why it does not serve these types.
    pub(crate) fn of(signature: &Signature<'_>) -> Option<Result<Losses, String>> {
        let kind = match signature.op {
            Op::SoftmaxCrossEntropy(_) => Kind::Entropy,
            Op::IntegerCrossEntropyGradient(op) => Kind::Gradient(op.stream),
            _ => return None,
        };
        let shape = &signature.inputs.first()?.shape;
        if shape.count() == 0 || shape.count() >= 1 << 28 {
            return Some(Err("its offsets exceed 32 bits".into()));
        }
        let mut scratch = Scratch::default();
        let (rows, classes) = (shape[0], shape[1]);
        let elements = scratch.take(4 * rows * classes);
        let values = match kind {
            Kind::Entropy => scratch.take(4 * rows),
            Kind::Gradient(_) => 0,
        };
        let bytes = scratch.bytes();
        Some(Ok(Losses { kind, rows, classes, elements, values, bytes }))
    }
}

impl Implementation for Losses {
    fn name(&self) -> &'static str {
        Losses::NAME
    }

    fn cost(&self) -> Cost {
        let (rows, elements) = (self.rows as u64, (self.rows * self.classes) as u64);
        Cost::new(match self.kind {
            Kind::Entropy => CALL + rows * LOGARITHM + elements * POWER,
            Kind::Gradient(_) => CALL + elements * SHARE,
        })
    }

    fn scratch_bytes(&self) -> usize {
        self.bytes
    }
}

impl CKernel for Losses {
    fn emit(&self, name: &str, _kernel: &Kernel) -> Result<Emitted, String> {
        let Losses { kind, rows, classes, .. } = *self;
        let mut out = Text::default();
        match kind {
            Kind::Entropy => {
                out.long(format!(
                    "static void {name}(const float *x0, const int32_t *x1, float *y0, uint8_t *scratch)"
                ));
                out.open("{");
                let text = "Of e, to what elements lie above the largest of their row.";
                declare(&mut out, "float", "powers", self.elements, text);
                declare(&mut out, "float", "values", self.values, "Of the rows.");
                out.long(format!(
                    "struct trainc_xpulp_entropy work = {{ x0, x1, powers, values, {classes} }};"
                ));
                let count = rows * classes;
                out.long(format!(
                    "TRAINC_PARALLEL_FOR(&work, {count}, trainc_xpulp_entropy_powers);"
                ));
                if rows > 1 {
                    out.long(format!(
                        "TRAINC_PARALLEL_FOR(&work, {rows}, trainc_xpulp_entropy_rows);"
                    ));
                } else {
                    out.line("trainc_xpulp_entropy_rows(&work, 0, 1);");
                }
                out.line("float total = 0.0f;");
                out.for_("row", rows);
                out.line("total += values[row];");
                out.close();
                // A product by a power of two is the quotient.
                let mean = match rows {
                    _ if rows.is_power_of_two() => format!("* 0x1p-{}f", rows.ilog2()),
                    _ => format!("/ {rows}.0f"),
                };
                out.line(format!("y0[0] = total {mean};"));
            }
            Kind::Gradient(stream) => {
                out.long(format!(
                    "static void {name}(const int8_t *x0, const int32_t *x0_exponent, const int32_t *x1, int8_t *y0, int32_t *y0_exponent, const int32_t *run, uint8_t *scratch)"
                ));
                out.open("{");
                declare(&mut out, "uint32_t", "shares", self.elements, "Of 2048.");
                out.long(format!(
                    "struct trainc_xpulp_shares work = {{ x0, x1, y0, shares, {classes}, x0_exponent[0], run, {stream}u }};"
                ));
                out.line("y0_exponent[0] = 0;");
                if rows > 1 {
                    out.long(format!(
                        "TRAINC_PARALLEL_FOR(&work, {rows}, trainc_xpulp_share_rows);"
                    ));
                } else {
                    out.line("trainc_xpulp_share_rows(&work, 0, 1);");
                }
            }
        }
        out.close();
        Ok(out.finish().into())
    }
}
