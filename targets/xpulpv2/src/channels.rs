//! Normalizations of channels by integers: exact sums of bytes, and bytes by factors of their channel, rounded as they are made
//! (`support/trainc_xpulp_channels.h`). Loops would take ten times as long for sums, four times for results.
//! Sums that are rounded by chance are nowhere kept: those of few channels, by their least and greatest bytes, may have the
//! most bits, and are measured.

use trainc_c::text::{Scratch, Text, declare};
use trainc_c::{CKernel, Emitted};
use trainc_ir::implementation::{Cost, Implementation, Signature};
use trainc_ir::numeric::Rounding;
use trainc_ir::program::Kernel;
use trainc_ir::{Op, TensorType};

/// Most elements of a channel: 2^16 products of bytes fit 31 bits.
const MOST: usize = 1 << 16;

/// Cycles of a call, and of a row.
const CALL: u64 = 400;
const ROW: u64 = 30;
/// Of a row that is rounded by chance: of whole words, or whose first and last elements share words with others.
const DITHERED_WORDS: u64 = 20;
const DITHERED_ROW: u64 = 280;
/// Of a channel's floats: mean and variance, gradients, coefficients without and with errors; how much longer those of more
/// than [`SHORT`] elements take, and two divisions by a count that is no power of two.
const STATISTICS: u64 = 65;
const LONG: u64 = 60;
const DIVISIONS: u64 = 200;
/// Of the reciprocal of a root.
const INVERSE: u64 = 150;
const GRADIENTS: u64 = 165;
const COEFFICIENTS: u64 = 260;
const ERROR_COEFFICIENTS: u64 = 400;
/// Elements whose sums have 31 bits: `TRAINC_XPULP_SHORT`.
const SHORT: usize = 256;
/// Of a table of what becomes of a channel's bytes, and what rounds an element by it instead, in quarters.
const TABLE: u64 = 1200;
const TABLED: u64 = 14;

/// See the module documentation.
#[derive(Clone, Debug)]
pub(crate) struct ChannelKernel {
    kind: Kind,
    images: usize,
    channels: usize,
    space: usize,
}

/// What is made of a channel.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Mean and variance.
    Statistics,
    /// What centred elements are multiplied by, of a vector of variances.
    Inverse { epsilon: f32 },
    /// Gradients of scale and bias.
    Gradients,
    /// Sums by coefficients, of one operand or, with errors, of two.
    Lines { errors: Option<Errors>, finish: Finish },
}

#[derive(Clone, Copy, Debug)]
struct Errors {
    batch: bool,
}

/// What becomes of sums.
#[derive(Clone, Copy, Debug)]
enum Finish {
    /// They are kept.
    Sums,
    /// To nearest, ties away from zero.
    HalfAway { low: i8 },
    /// By chance.
    Stochastic { stream: u32 },
}

impl ChannelKernel {
    /// The name for readers.
    pub(crate) const NAME: &str = "channels by words";

    /// The kernel of an operation; `None` if there is none.
    ///
    /// # Errors
    /// Why it does not serve this rounding or these sizes.
    pub(crate) fn of(signature: &Signature<'_>) -> Option<Result<ChannelKernel, String>> {
        let kind = match signature.op {
            Op::IntegerBatchStatistics(_) => Ok(Kind::Statistics),
            Op::InverseDeviation(op) => Ok(Kind::Inverse { epsilon: op.epsilon.get() }),
            Op::IntegerBatchNormSums(_) => Ok(Kind::Gradients),
            Op::Chain(chain) => match &chain.ops[..] {
                [head @ (Op::IntegerBatchNorm(_) | Op::IntegerBatchNormError(_)), rounding] => {
                    lines(head, Some(rounding))?
                }
                _ => return None,
            },
            op => lines(op, None)?,
        };
        let sized = |kind| ChannelKernel::sized(kind, signature.inputs[0]);
        Some(kind.and_then(sized))
    }

    fn sized(kind: Kind, x: &TensorType) -> Result<ChannelKernel, String> {
        if let Kind::Inverse { .. } = kind {
            return match x.shape.dims() {
                [channels] => Ok(ChannelKernel { kind, images: 1, channels: *channels, space: 1 }),
                _ => Err("it is no vector of channels".into()),
            };
        }
        let [images, channels, space @ ..] = x.shape.dims() else {
            return Err("its operand has no channels".into());
        };
        let space = space.iter().product::<usize>();
        if images * space > MOST {
            return Err(format!("a channel has more than {MOST} elements"));
        }
        if x.count() >= 1 << 28 {
            return Err("its offsets exceed 32 bits".into());
        }
        Ok(ChannelKernel { kind, images: *images, channels: *channels, space })
    }

    /// Cycles of one element, in quarters.
    fn quarters(&self) -> u64 {
        match self.kind {
            Kind::Inverse { .. } => 0,
            Kind::Statistics => 3,
            Kind::Gradients => 4,
            Kind::Lines { finish: Finish::HalfAway { low: 0 }, .. } => 3 + 19,
            Kind::Lines { finish: Finish::HalfAway { .. }, .. } => 3 + 24,
            Kind::Lines { finish: Finish::Sums, .. } => 24,
            Kind::Lines { finish: Finish::Stochastic { .. }, .. } => 4 + 41,
        }
    }

    /// The vectors of whole numbers, and widths, in working memory.
    fn scratch(&self) -> (Scratch, Vec<(&'static str, &'static str, usize)>) {
        let mut scratch = Scratch::default();
        let Kind::Lines { errors, finish, .. } = self.kind else {
            return (scratch, Vec::new());
        };
        let mut names = vec![("int32_t", "factors")];
        names.extend(errors.map(|_| ("int32_t", "turns")));
        names.push(("int32_t", "offsets"));
        if !matches!(finish, Finish::Sums) {
            names.push(("uint32_t", "widths"));
        }
        let take = |(ty, name)| (ty, name, scratch.take(4 * self.channels));
        let mut parts: Vec<_> = names.into_iter().map(take).collect();
        if let Finish::Stochastic { .. } = finish {
            // Each channel's whole numbers side by side, behind the widths.
            scratch.take(8 * self.channels);
        }
        if let Finish::HalfAway { .. } = finish {
            parts.push(("int8_t", "ranges", scratch.take(2 * self.channels)));
        }
        (scratch, parts)
    }

    /// Sets the sizes of `work`.
    fn emit_sizes(&self, out: &mut Text) {
        let count = self.images * self.space;
        for (field, value) in
            [("images", self.images), ("channels", self.channels), ("space", self.space)]
        {
            out.line(format!("work.sizes.{field} = {value};"));
        }
        out.line(format!("work.sizes.count = {count}.0f;"));
        let exact = if count.is_power_of_two() { format!("1.0f / {count}.0f") } else { "0".into() };
        out.line(format!("work.sizes.reciprocal = {exact};"));
    }
}

/// The sums that an operation is, as `finish` has them; `None` if it is something else.
fn lines(op: &Op, finish: Option<&Op>) -> Option<Result<Kind, String>> {
    let errors = match op {
        Op::IntegerBatchNorm(_) => None,
        Op::IntegerBatchNormError(op) => Some(Errors { batch: op.batch }),
        _ => return None,
    };
    let finish = match finish {
        None => Finish::Sums,
        Some(Op::Requantize(op))
            if op.bits == 7 && op.rounding == Rounding::HalfAway && errors.is_none() =>
        {
            Finish::HalfAway { low: op.low }
        }
        Some(Op::RequantizeStochastic(op)) => Finish::Stochastic { stream: op.stream },
        Some(_) => return Some(Err("its sums are rounded in another way".into())),
    };
    Some(Ok(Kind::Lines { errors, finish }))
}

impl Implementation for ChannelKernel {
    fn name(&self) -> &'static str {
        ChannelKernel::NAME
    }

    fn cost(&self) -> Cost {
        let floats = match self.kind {
            // No rows.
            Kind::Inverse { .. } => return Cost::new(CALL + self.channels as u64 * INVERSE),
            Kind::Statistics => {
                let count = self.images * self.space;
                let divisions = if count.is_power_of_two() { 0 } else { DIVISIONS };
                let long = if count > SHORT || divisions > 0 { LONG } else { 0 };
                STATISTICS + long + divisions
            }
            Kind::Gradients => GRADIENTS,
            Kind::Lines { errors: None, .. } => COEFFICIENTS,
            Kind::Lines { errors: Some(_), .. } => ERROR_COEFFICIENTS,
        };
        let [images, channels, space] =
            [self.images, self.channels, self.space].map(|size| size as u64);
        let row = match self.kind {
            Kind::Lines { finish: Finish::Stochastic { .. }, .. } if space % 4 == 0 => {
                DITHERED_WORDS
            }
            Kind::Lines { finish: Finish::Stochastic { .. }, .. } => DITHERED_ROW,
            _ => ROW,
        };
        let rows = |quarters: u64| images * (row + space * quarters / 4);
        let mut own = rows(self.quarters());
        if let Kind::Lines { finish: Finish::HalfAway { .. }, .. } = self.kind {
            own = own.min(TABLE + rows(TABLED));
        }
        Cost::new(CALL + channels * (floats + own))
    }

    fn scratch_bytes(&self) -> usize {
        self.scratch().0.bytes()
    }
}

const X: &str = "const int8_t *x0, const int32_t *x0_exponent";
const X_DY: &str =
    "const int8_t *x0, const int32_t *x0_exponent, const int8_t *x1, const int32_t *x1_exponent";

impl CKernel for ChannelKernel {
    fn emit(&self, name: &str, _: &Kernel) -> Result<Emitted, String> {
        let mut out = Text::default();
        let fields = |out: &mut Text, fields: &[(&str, &str)]| {
            for (field, value) in fields {
                out.line(format!("work.{field} = {value};"));
            }
        };
        let channels = self.channels;
        match self.kind {
            Kind::Inverse { epsilon } => {
                out.line(format!("static void {name}(const float *x0, float *y0)"));
                out.open("{");
                out.line("struct trainc_xpulp_inverses work;");
                // Bits, so that no digits round them.
                let epsilon = format!("trainc_float({})", epsilon.to_bits() as i32);
                let own = [("variance", "x0"), ("inverse", "y0"), ("epsilon", epsilon.as_str())];
                fields(&mut out, &own);
                out.long(format!(
                    "TRAINC_PARALLEL_FOR(&work, {channels}, trainc_xpulp_inverse_deviations);"
                ));
            }
            Kind::Statistics => {
                out.long(format!("static void {name}({X}, float *y0, float *y1)"));
                out.open("{");
                out.line("struct trainc_xpulp_channel_sums work;");
                self.emit_sizes(&mut out);
                fields(&mut out, &[("x", "x0"), ("first", "y0"), ("second", "y1")]);
                out.line("work.x_power = trainc_xpulp_power(x0_exponent[0]);");
                out.long(format!(
                    "TRAINC_PARALLEL_FOR(&work, {channels}, trainc_xpulp_statistics);"
                ));
            }
            Kind::Gradients => {
                out.long(format!(
                    "static void {name}({X_DY}, const float *x2, const float *x3, float *y0, float *y1)"
                ));
                out.open("{");
                out.line("struct trainc_xpulp_channel_sums work;");
                self.emit_sizes(&mut out);
                let own = [("x", "x0"), ("dy", "x1"), ("mean", "x2"), ("inverse", "x3")];
                fields(&mut out, &own);
                fields(&mut out, &[("first", "y0"), ("second", "y1")]);
                out.line("work.x_power = trainc_xpulp_power(x0_exponent[0]);");
                out.line("work.dy_power = trainc_xpulp_power(x1_exponent[0]);");
                out.long(format!(
                    "TRAINC_PARALLEL_FOR(&work, {channels}, trainc_xpulp_error_sums);"
                ));
            }
            Kind::Lines { errors, finish } => {
                let (operands, first, vectors) = match errors {
                    None => (X, 1, &["scale", "bias", "mean", "inverse"][..]),
                    Some(_) => (X_DY, 2, &["scale", "mean", "inverse", "dscale", "dbias"][..]),
                };
                let vectors: Vec<(String, &str)> =
                    (first..).map(|n| format!("x{n}")).zip(vectors.iter().copied()).collect();
                let parameters: String =
                    vectors.iter().map(|(x, _)| format!("const float *{x}, ")).collect();
                let (result, run) = match finish {
                    Finish::Sums => ("int32_t", ""),
                    Finish::HalfAway { .. } => ("int8_t", ""),
                    Finish::Stochastic { .. } => ("int8_t", "const int32_t *run, "),
                };
                out.long(format!(
                    "static void {name}({operands}, {parameters}{result} *y0, int32_t *y0_exponent, {run}uint8_t *scratch)"
                ));
                out.open("{");
                let (_, parts) = self.scratch();
                for &(ty, part, at) in &parts {
                    declare(&mut out, ty, part, at, "By channels.");
                }
                out.line("struct trainc_xpulp_lines work;");
                self.emit_sizes(&mut out);
                let (a, b) = if errors.is_some() { ("x1", "x0") } else { ("x0", "x0") };
                let exponents = [format!("{a}_exponent[0]"), format!("{b}_exponent[0]")];
                fields(&mut out, &[("a", a), ("b", b)]);
                fields(&mut out, &[("a_exponent", &exponents[0]), ("b_exponent", &exponents[1])]);
                for (x, vector) in &vectors {
                    fields(&mut out, &[(vector, x)]);
                }
                let batch = i32::from(errors.is_some_and(|errors| errors.batch)).to_string();
                fields(&mut out, &[("batch", &batch)]);
                for part in ["factors", "turns", "offsets", "widths", "ranges"] {
                    let has = parts.iter().any(|&(_, name, _)| name == part);
                    fields(&mut out, &[(part, if has { part } else { "0" })]);
                }
                let place = if let Finish::Sums = finish { "sums" } else { "y" };
                fields(&mut out, &[(place, "y0")]);
                out.long(match finish {
                    Finish::Sums => "trainc_xpulp_lines_sums(&work, y0_exponent);".to_string(),
                    Finish::HalfAway { low } => {
                        format!("trainc_xpulp_lines_half_away(&work, {low}, y0_exponent);")
                    }
                    Finish::Stochastic { stream } => format!(
                        "trainc_xpulp_lines_dither(&work, trainc_xpulp_draw(run, {stream}), y0_exponent);"
                    ),
                });
            }
        }
        out.close();
        Ok(out.finish().into())
    }
}
