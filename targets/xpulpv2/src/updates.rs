//! Updates of parameters of 16 and 32 bits: steps with momentum, their subtraction, and the upper bytes of the former, which
//! products take; of 16 bits some at a time.

use trainc_c::text::Text;
use trainc_c::{CKernel, Emitted};
use trainc_ir::implementation::{Cost, Implementation, Signature};
use trainc_ir::numeric::Rounding;
use trainc_ir::program::Kernel;
use trainc_ir::{Element, Op};

/// See the module documentation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Updates {
    kind: Kind,
    count: usize,
    /// Whether elements have 32 bits.
    wide: bool,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A factor of 256, and the stream of the rounding.
    Momentum {
        factor: i32,
        stream: u32,
    },
    Subtract,
    /// To bytes, by so many bits.
    Narrow {
        shift: u8,
    },
}

/// Cycles of a call.
const CALL: u64 = 60;
/// Cycles of a draw, and of the elements beside fours.
const DRAW: u64 = 500;

/// Most bits that halves of words are shifted by to bytes.
const MOST_SHIFT: u8 = 8;

impl Updates {
    /// The name for readers.
    pub(crate) const NAME: &str = "updates by words";

    /// The kernel of an operation; `None` if there is none.
    ///
    /// # Errors
    /// Why it does not serve these types.
    pub(crate) fn of(signature: &Signature<'_>) -> Option<Result<Updates, String>> {
        let kind = match signature.op {
            Op::MomentumStep(op) => Kind::Momentum { factor: op.factor(), stream: op.stream },
            Op::SaturatingSubtract(_) => Kind::Subtract,
            Op::ShiftRight(op) => {
                let bytes = op.element == Element::I8 && op.rounding == Rounding::HalfAway;
                if !bytes || !(1..=MOST_SHIFT).contains(&op.amount) {
                    return None;
                }
                Kind::Narrow { shift: op.amount }
            }
            _ => return None,
        };
        let x = *signature.inputs.first()?;
        let wide = x.element == Element::I32;
        let suits = match kind {
            Kind::Narrow { .. } => x.element == Element::I16,
            _ => wide || x.element == Element::I16,
        };
        if !(suits && x.is_shared_integer()) {
            return None;
        }
        if matches!(kind, Kind::Momentum { .. }) && signature.inputs[1].element != Element::I32 {
            return Some(Err("its gradient is no sum".into()));
        }
        let count = x.count();
        if count == 0 || count >= 1 << 28 {
            return Some(Err("its offsets exceed 32 bits".into()));
        }
        Some(Ok(Updates { kind, count, wide }))
    }
}

impl Implementation for Updates {
    fn name(&self) -> &'static str {
        Updates::NAME
    }

    fn cost(&self) -> Cost {
        // For the whole, and for four elements.
        let (whole, each) = match self.kind {
            Kind::Momentum { .. } if self.wide => (DRAW, 160),
            Kind::Momentum { .. } => (DRAW, 77),
            Kind::Subtract if self.wide => (0, 60),
            Kind::Subtract => (0, 20),
            Kind::Narrow { .. } => (0, 16),
        };
        Cost::new(CALL + whole + each * self.count as u64 / 4)
    }

    fn scratch_bytes(&self) -> usize {
        0
    }
}

impl CKernel for Updates {
    fn emit(&self, name: &str, _kernel: &Kernel) -> Result<Emitted, String> {
        let Updates { kind, count, wide } = *self;
        let (element, bits) = if wide { ("int32_t", 32) } else { ("int16_t", 16) };
        let mut out = Text::default();
        match kind {
            Kind::Momentum { factor, stream } => {
                out.long(format!(
                    "static void {name}(const {element} *x0, const int32_t *x0_exponent, const int32_t *x1, const int32_t *x1_exponent, const float *x2, {element} *y0, int32_t *y0_exponent, const int32_t *run)"
                ));
                out.open("{");
                out.line("const int32_t exponent = x0_exponent[0];");
                out.line("y0_exponent[0] = exponent;");
                out.long(format!(
                    "struct trainc_xpulp_momentum work = {{ x0, x1, y0, {factor}, trainc_xpulp_draw(run, {stream}), 0, 0 }};"
                ));
                out.long(format!(
                    "trainc_xpulp_momentum_start(&work, exponent, x1_exponent[0], trainc_bits(x2[0]), {bits});"
                ));
                let steps = if wide { "words" } else { "steps" };
                out.long(format!(
                    "TRAINC_PARALLEL_FOR(&work, {count}, trainc_xpulp_momentum_{steps});"
                ));
            }
            Kind::Subtract => {
                out.long(format!(
                    "static void {name}(const {element} *x0, const int32_t *x0_exponent, const {element} *x1, const int32_t *x1_exponent, {element} *y0, int32_t *y0_exponent)"
                ));
                out.open("{");
                out.line("(void)x1_exponent;");
                out.line("y0_exponent[0] = x0_exponent[0];");
                let (work, rounds, body) = match wide {
                    true => ("differences work = { x0, x1, y0 }".into(), count, "each"),
                    false => (
                        format!("halves work = {{ x0, x1, y0, {count} }}"),
                        count.div_ceil(2),
                        "halves",
                    ),
                };
                out.line(format!("struct trainc_xpulp_{work};"));
                out.long(format!(
                    "TRAINC_PARALLEL_FOR(&work, {rounds}, trainc_xpulp_subtract_{body});"
                ));
            }
            Kind::Narrow { shift } => {
                out.long(format!(
                    "static void {name}(const int16_t *x0, const int32_t *x0_exponent, int8_t *y0, int32_t *y0_exponent)"
                ));
                out.open("{");
                out.line(format!("y0_exponent[0] = trainc_add32(x0_exponent[0], {shift});"));
                out.line(format!(
                    "struct trainc_xpulp_narrow work = {{ x0, y0, {count}, {shift} }};"
                ));
                out.long(format!(
                    "TRAINC_PARALLEL_FOR(&work, {}, trainc_xpulp_narrow_words);",
                    count.div_ceil(4)
                ));
            }
        }
        out.close();
        Ok(out.finish().into())
    }
}
