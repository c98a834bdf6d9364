//! Sums of two tensors with exponents of their own by bytes (`support/trainc_neon_sum.h`), in place of loops that keep them in 16 bits.

use trainc_c::{CKernel, Emitted};
use trainc_ir::Op;
use trainc_ir::implementation::{Cost, Implementation, Signature};
use trainc_ir::program::Kernel;

use crate::level::Level;

/// Elements of a round.
const ROUND: usize = 32;
/// Fewer elements are left to loops: what becomes of each code is found first.
const LEAST: usize = 512;
/// Instructions of a call, and of a round that asks whether a sum exceeds bytes and makes one, where exponents are the same.
const CALL: u64 = 100;
const SUMS: u64 = 28;

/// An addition of two tensors of one shape.
#[derive(Debug)]
pub(crate) struct AlignedSum {
    count: usize,
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
        let &[x, y] = signature.inputs else { return None };
        let count = x.count();
        let fits = level != Level::Armv7
            && x.shape == y.shape
            && count % ROUND == 0
            && (LEAST..1 << 30).contains(&count);
        fits.then_some(AlignedSum { count, low })
    }
}

impl Implementation for AlignedSum {
    fn name(&self) -> &'static str {
        AlignedSum::NAME
    }

    fn cost(&self) -> Cost {
        Cost::new(CALL + SUMS * (self.count / ROUND) as u64)
    }

    fn scratch_bytes(&self) -> usize {
        0
    }
}

impl CKernel for AlignedSum {
    fn emit(&self, name: &str, _: &Kernel) -> Result<Emitted, String> {
        let AlignedSum { count, low } = self;
        let text = format!(
            "static void {name}(const int8_t *x0, const int32_t *x0_exponent, const int8_t *x1,\n    \
             const int32_t *x1_exponent, int8_t *y0, int32_t *y0_exponent)\n{{\n    \
             y0_exponent[0] = trainc_aligned_sums(x0, x0_exponent[0], x1, x1_exponent[0], {count}, {low}, y0);\n}}\n"
        );
        Ok(text.into())
    }
}
