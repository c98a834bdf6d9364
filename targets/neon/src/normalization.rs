//! Batch normalizations by integers whose sums are rounded to 8 bits, by functions of `support/trainc_neon_normalization.h`: forward,
//! by a table of what each code of a channel becomes; errors, whose random bits are hashes of consecutive numbers.

use trainc_c::text::Text;
use trainc_c::{CKernel, Emitted};
use trainc_ir::Op;
use trainc_ir::implementation::{Cost, Implementation, Signature};
use trainc_ir::loops::{LoopKernel, Role, Stmt};
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
/// Instructions of 64 results that random bits round; of those around, and of a call.
const DITHERED: u64 = 132;
const DITHER: u64 = 700;
/// Instructions of 32 sums of an error, of a plane, and of a channel.
const ERRORS: u64 = 59;
const ERROR_PLANE: u64 = 12;
const ERROR_CHANNEL: u64 = 30;

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
    /// By the hashes of elements' places; the sums, of `[batch, channels, space]`, are made by a function, too.
    Dithered { batch: usize, channels: usize, space: usize },
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
                Way::Dithered { batch, channels, space }
            }
            _ => return None,
        };
        if space < 16 || inputs[0].count() >= 1 << 30 {
            return None;
        }
        let mut kernel = ops::lower_unrounded(op, inputs, outputs)?;
        if matches!(rounding, Way::Dithered { .. }) {
            kernel = without_sums(kernel)?;
        }
        let rounded = match rounding {
            Way::Tables { .. } => {
                let lookups = batch as u64 * (8 + LOOKUP * (space as u64).div_ceil(16));
                channels as u64 * (TABLE + lookups)
            }
            Way::Dithered { .. } => {
                let plane = ERROR_PLANE + (ERRORS * space as u64).div_ceil(32);
                let sums = channels as u64 * (ERROR_CHANNEL + batch as u64 * plane);
                let count = inputs[0].count() as u64;
                sums + DITHER + DITHERED * count.div_ceil(64)
            }
        };
        let cycles = loops::cycles(level, &kernel) + rounded;
        let all = loops::cycles(level, &loops::lower(op, inputs, outputs));
        (cycles < all).then_some(Normalization { level, kernel, rounding, cycles })
    }

    /// Where sums lie in the working memory.
    fn sums(&self) -> usize {
        let mut scratch = self.kernel.buffers.iter().filter(|b| b.role == Role::Scratch);
        let at = scratch.position(|b| b.name == "sums").unwrap_or(0);
        loop_scratch(&self.kernel).0.get(at).copied().unwrap_or(0)
    }

    /// Prints the rounding.
    fn body(&self, parts: &mut Parts<'_>, out: &mut Text) {
        match self.rounding {
            Way::Dithered { batch, channels, space } => {
                let at = match self.sums() {
                    0 => "scratch".to_string(),
                    offset => format!("(scratch + {offset})"),
                };
                out.line(format!("int32_t *const sums = (int32_t *)(void *){at};"));
                out.line("uint32x4_t all_bits = vdupq_n_u32(0);");
                out.open(format!("for (int32_t c = 0; c < {channels}; c++) {{"));
                out.long(format!(
                    "all_bits = vorrq_u32(all_bits, trainc_error_sums(x0 + c * {space}, x1 + c * {space}, {batch}, {space}, {}, codes1[c], codes0[c], added[c], sums + c * {space}));",
                    channels * space
                ));
                out.close();
                out.line("rounding[0] = trainc_error_shift(all_bits);");
                out.line("y0_exponent[0] = trainc_add32(y0_exponent[0], rounding[0]);");
                let count = batch * channels * space;
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

/// A kernel without the loops that make `sums`, whose shift then is 0: what a function makes of them is added behind. `None` if there are no
/// such loops.
fn without_sums(mut kernel: LoopKernel) -> Option<LoopKernel> {
    fn stores(statement: &Stmt, buffer: usize) -> bool {
        match statement {
            Stmt::Store(to, ..) => to.0 as usize == buffer,
            Stmt::For { body, .. } => body.iter().any(|s| stores(s, buffer)),
            _ => false,
        }
    }
    let sums = kernel.buffers.iter().position(|b| b.name == "sums")?;
    let at = kernel.body.iter().position(|s| stores(s, sums))?;
    kernel.body.remove(at);
    Some(kernel)
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
