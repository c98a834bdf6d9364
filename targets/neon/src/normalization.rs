//! Batch normalizations by integers whose sums are rounded to 8 bits, by functions of `support/trainc_neon_normalization.h`: forward,
//! by a table of what each code of a channel becomes; errors, whose random bits are hashes of consecutive numbers.

use trainc_c::text::Text;
use trainc_c::{CKernel, Emitted};
use trainc_ir::Op;
use trainc_ir::implementation::{Cost, Implementation, Signature};
use trainc_ir::loops::LoopKernel;
use trainc_ir::numeric::Rounding;
use trainc_ir::ops;
use trainc_ir::program::Kernel;
use trainc_ir::target::loop_scratch;

use crate::level::Level;
use crate::loops;
use crate::products::parts::{Parts, given, own};

/// Instructions of a table, and of 16 results by it.
const TABLE: u64 = 540;
const LOOKUP: u64 = 12;
/// Instructions of 32 results that random bits round; of those around, and of a call.
const DITHERED: u64 = 76;
const DITHER: u64 = 500;

/// A normalization, or its error.
#[derive(Debug)]
pub(crate) struct Normalization {
    level: Level,
    /// What comes before the rounding.
    kernel: LoopKernel,
    rounding: Way,
    cycles: u64,
}

/// How sums are rounded.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// By tables of `[batch, channels, space]`, with the least result.
    Tables { batch: usize, channels: usize, space: usize, low: i32 },
    /// By the hashes of so many elements' places.
    Dithered { count: usize },
}

impl Normalization {
    /// The name for readers.
    pub(crate) const NAME: &str = "rounded normalization";

    /// The kernel of an operation that is one, where it takes fewer instructions than loops, about.
    pub(crate) fn of(level: Level, signature: &Signature<'_>) -> Option<Normalization> {
        let Signature { op, inputs, outputs, .. } = *signature;
        let [batch, channels, space @ ..] = inputs.first()?.shape.dims() else { return None };
        let [batch, channels, space] = [*batch, *channels, space.iter().product()];
        let rounding = match signature.ops() {
            [Op::IntegerBatchNorm(_), Op::Requantize(rounding)]
                if level != Level::Armv7
                    && (rounding.bits, rounding.rounding) == (7, Rounding::HalfAway) =>
            {
                Way::Tables { batch, channels, space, low: rounding.low.into() }
            }
            [Op::IntegerBatchNormError(_), Op::RequantizeStochastic(_)] => {
                Way::Dithered { count: inputs[0].count() }
            }
            _ => return None,
        };
        if space < 16 || inputs[0].count() >= 1 << 30 {
            return None;
        }
        let kernel = ops::lower_unrounded(op, inputs, outputs)?;
        let rounded = match rounding {
            Way::Tables { .. } => {
                let lookups = batch as u64 * (8 + LOOKUP * (space as u64).div_ceil(16));
                channels as u64 * (TABLE + lookups)
            }
            Way::Dithered { count } => DITHER + DITHERED * (count as u64).div_ceil(32),
        };
        let cycles = loops::cycles(level, &kernel) + rounded;
        let all = loops::cycles(level, &loops::lower(op, inputs, outputs));
        (cycles < all).then_some(Normalization { level, kernel, rounding, cycles })
    }

    /// Prints the rounding.
    fn body(&self, parts: &mut Parts<'_>, out: &mut Text) {
        match self.rounding {
            Way::Dithered { count } => {
                out.line(format!("trainc_dithered(sums, {count}, rounding, y0);"));
            }
            Way::Tables { batch, channels, space, low } => {
                let taken = [
                    own("const int8_t *", "x0"),
                    own("int8_t *", "y0"),
                    own("const int32_t *", "codes0"),
                    own("const int32_t *", "added"),
                    given("int32_t ", "shift", "rounding[0]"),
                ];
                parts.run(out, channels, &taken, |out| {
                    out.open("for (int32_t c = begin; c < end; c++) {");
                    out.long(format!(
                        "trainc_normalized(x0 + c * {space}, {batch}, {space}, {}, codes0[c], added[c], shift, {low}, y0 + c * {space});",
                        channels * space
                    ));
                    out.close();
                });
            }
        }
    }
}

impl Implementation for Normalization {
    fn name(&self) -> &'static str {
        Normalization::NAME
    }

    fn cost(&self) -> Cost {
        Cost::new(self.cycles)
    }

    fn scratch_bytes(&self) -> usize {
        loop_scratch(&self.kernel).1
    }
}

impl CKernel for Normalization {
    fn emit(&self, name: &str, _: &Kernel) -> Result<Emitted, String> {
        let loops = loops::function(self.level, name, &self.kernel, false)?;
        let open = loops.strip_suffix("}\n").ok_or("a function ends with its brace")?;
        let (mut parts, mut out) = (Parts::new(name), Text::default());
        out.open("");
        self.body(&mut parts, &mut out);
        out.close();
        let rest = out.finish();
        Ok(Emitted::from(parts.finish() + open + rest.trim_start_matches('\n')))
    }
}
