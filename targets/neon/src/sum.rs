//! Sums of two tensors with exponents of their own by bytes (`support/trainc_neon_sum.h`), in place of loops that keep them in 16 bits.

use trainc_c::{CKernel, Emitted};
use trainc_ir::Op;
use trainc_ir::implementation::{Cost, Implementation, Signature};
use trainc_ir::program::Kernel;
use trainc_ir::repeated::Repeated;

use crate::level::Level;

/// Elements of a round.
const ROUND: usize = 32;
/// Fewer elements are left to loops: what becomes of each code is found first.
const LEAST: usize = 512;
/// Instructions of a call, and of a round that asks whether a sum exceeds bytes and makes one, where exponents are the same.
const CALL: u64 = 100;
const SUMS: u64 = 28;

/// Instructions of a run of a repeated operand, and of 16 bytes of it.
const RUN: u64 = 6;
const BYTES: u64 = 3;
/// Bytes written behind a repeated operand.
const BEHIND: usize = 16;

/// An addition of two tensors of one shape, or of one that is repeated.
#[derive(Debug)]
pub(crate) struct AlignedSum {
    count: usize,
    /// The operand that is repeated, and how.
    repeated: Option<(usize, Repeated)>,
    /// The least result.
    low: i32,
}

impl AlignedSum {
    /// The name for readers.
    pub(crate) const NAME: &str = "sums of bytes";

    /// The addition that a kernel is; `None` if it is something else, or too small.
    pub(crate) fn of(level: Level, signature: &Signature<'_>) -> Option<AlignedSum> {
        let low = match signature.ops() {
            [Op::AlignedAdd(_)] => -127,
            [Op::AlignedAdd(_), Op::Relu(_)] => 0,
            _ => return None,
        };
        let (&[x, y], &[z]) = (signature.inputs, signature.outputs) else { return None };
        let count = z.count();
        let whole = [x, y].map(|operand| operand.count() == count);
        let repeated = match whole {
            [true, true] => None,
            [true, false] => Some((1, Repeated::of(&y.shape, &z.shape)?)),
            [false, true] => Some((0, Repeated::of(&x.shape, &z.shape)?)),
            _ => return None,
        };
        let fits = level != Level::Armv7 && count % ROUND == 0 && (LEAST..1 << 30).contains(&count);
        fits.then_some(AlignedSum { count, repeated, low })
    }
}

impl Implementation for AlignedSum {
    fn name(&self) -> &'static str {
        AlignedSum::NAME
    }

    fn cost(&self) -> Cost {
        let repeated = self.repeated.map_or(0, |(_, Repeated { images, channels, run })| {
            let [runs, bytes] = if run > 1 { [images * channels, run] } else { [images, channels] };
            runs as u64 * (RUN + BYTES * bytes.div_ceil(16) as u64)
        });
        Cost::new(CALL + SUMS * (self.count / ROUND) as u64 + repeated)
    }

    fn scratch_bytes(&self) -> usize {
        self.repeated.map_or(0, |_| self.count + BEHIND)
    }
}

impl CKernel for AlignedSum {
    fn emit(&self, name: &str, _: &Kernel) -> Result<Emitted, String> {
        let AlignedSum { count, repeated, low } = self;
        let (mut parameters, mut repeat) = ("", String::new());
        let mut operands = ["x0", "x1"];
        if let Some((operand, Repeated { images, channels, run })) = *repeated {
            parameters = ", uint8_t *scratch";
            let x = std::mem::replace(&mut operands[operand], "repeated");
            repeat = format!(
                "    int8_t *const repeated = (int8_t *)(void *)scratch;\n    \
                 trainc_repeat({x}, {images}, {channels}, {run}, repeated);\n"
            );
        }
        let [first, second] = operands;
        let text = format!(
            "static void {name}(const int8_t *x0, const int32_t *x0_exponent, const int8_t *x1,\n    \
             const int32_t *x1_exponent, int8_t *y0, int32_t *y0_exponent{parameters})\n{{\n{repeat}    \
             y0_exponent[0] = trainc_aligned_sums({first}, x0_exponent[0], {second}, x1_exponent[0], {count}, {low}, y0);\n}}\n"
        );
        Ok(text.into())
    }
}
