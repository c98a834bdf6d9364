//! Kernels that go element by element: updates, masks, clips and positive parts of bytes, four at a time; sums rounded by
//! chance; pools of windows that do not overlap and means of whole planes, backward; sums of bytes with two exponents; and
//! conversions, updates and running statistics of floats, for which a core without arithmetic of floats takes hundreds of
//! cycles an element.

use trainc_c::text::{Text, declare};
use trainc_c::{CKernel, Emitted};
use trainc_ir::implementation::{Cost, Implementation, Signature};
use trainc_ir::ops::BytePart;
use trainc_ir::ops::formula::{Formula, Function, Term};
use trainc_ir::program::Kernel;
use trainc_ir::repeated::Repeated;
use trainc_ir::{Element, Op, TensorType};

use crate::products::{divided, even_parts};

/// See the module documentation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elements {
    kind: Kind,
    count: usize,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Subtract,
    WhereAbove,
    /// The same of bytes without a sign.
    WhereAny,
    /// A part of such bytes.
    Part(BytePart),
    Relu,
    /// Between two bounds.
    Clip {
        bounds: [f32; 2],
    },
    /// Where the first operand lies within two bounds.
    ClipGradient {
        bounds: [f32; 2],
        /// Whether the first operand has no sign.
        unsigned: bool,
    },
    Dither {
        stream: u32,
    },
    Quantize,
    Pool,
    Unpool,
    /// Of planes of so many elements, whose errors are divided by moving the exponent.
    Spread {
        plane: usize,
    },
    /// Of as many bytes each, or of one operand, by its number, that is repeated.
    Sum {
        repeated: Option<(usize, Repeated)>,
    },
    Dequantize,
    /// Of FP32 parameters.
    Update,
    /// Sums of two operands each, by the same two factors.
    Blend {
        sums: [Option<[usize; 2]>; 2],
        factors: [f32; 2],
    },
}

/// Cycles of a plane of windows, of a row of these, and of an element of a row.
const PLANE: usize = 40;
const ROW: usize = 20;
const WINDOW: usize = 1;
/// Most cores that add side by side.
const CORES: usize = 8;
/// Fewest bytes that become floats by a table of all; and its own bytes.
const TABLED: usize = 256;
const TABLE: usize = 4 * 256;

const OPERANDS: &str = "const int8_t *x0, const int32_t *x0_exponent, const int8_t *x1, const int32_t *x1_exponent, int8_t *y0, int32_t *y0_exponent)";

/// Cycles of a call, and of the bounds of a clip.
const CALL: u64 = 60;
const BOUNDS: u64 = 80;

impl Elements {
    /// The name for readers.
    pub(crate) const NAME: &str = "elements by words";

    /// The kernel of an operation; `None` if there is none.
    ///
    /// # Errors
    /// Why it does not serve these types.
    pub(crate) fn of(signature: &Signature<'_>) -> Option<Result<Elements, String>> {
        let unsigned = signature.inputs.first().is_some_and(|ty| ty.element == Element::U8);
        let kind = match signature.op {
            Op::SaturatingSubtract(_) => Kind::Subtract,
            Op::ReluGradient(_) if unsigned => Kind::WhereAny,
            Op::ReluGradient(_) => Kind::WhereAbove,
            Op::SplitByte(op) => Kind::Part(op.part),
            Op::Relu(_) => Kind::Relu,
            Op::Clip(op) => Kind::Clip { bounds: [op.min.get(), op.max.get()] },
            Op::ClipGradient(op) => {
                Kind::ClipGradient { bounds: [op.min.get(), op.max.get()], unsigned }
            }
            Op::RequantizeStochastic(op) => Kind::Dither { stream: op.stream },
            Op::QuantizeExponent(_) => Kind::Quantize,
            Op::MaxPool2d(op) if op.kernel == [2, 2] => Kind::Pool,
            Op::MaxPool2dGradient(_) => Kind::Unpool,
            Op::AvgPool2dGradient(op) => Kind::Spread { plane: op.kernel[0] * op.kernel[1] },
            Op::AlignedAdd(_) => {
                let shape = &signature.outputs.first()?.shape;
                let own = |i: usize| &signature.inputs[i].shape;
                let other = (0..2).find(|&i| own(i).count() != shape.count());
                match other.map(|i| (i, Repeated::of(own(i), shape))) {
                    None => Kind::Sum { repeated: None },
                    Some((i, Some(repeated))) => Kind::Sum { repeated: Some((i, repeated)) },
                    Some((_, None)) => {
                        return Some(Err("its operands broadcast both, or by parts".into()));
                    }
                }
            }
            Op::Dequantize(_) => Kind::Dequantize,
            Op::NormalizedUpdate(_) => Kind::Update,
            Op::Formula(formula) => blend(formula)?,
            _ => return None,
        };
        let Signature { op, inputs, outputs, .. } = *signature;
        Some(Elements::new(kind, op, inputs, outputs))
    }

    fn new(
        kind: Kind,
        op: &Op,
        inputs: &[&TensorType],
        outputs: &[&TensorType],
    ) -> Result<Elements, String> {
        let of = if matches!(kind, Kind::Sum { .. }) { outputs } else { inputs };
        let count = of.first().map_or(0, |ty| ty.count());
        let byte = |ty: &TensorType| ty.element == Element::I8 && ty.is_shared_integer();
        let bytes = |types: &[&TensorType]| types.iter().all(|ty| byte(ty));
        let alike = |types: &[&TensorType]| types.iter().all(|ty| ty.count() == count);
        let suits = match kind {
            Kind::WhereAny | Kind::ClipGradient { unsigned: true, .. } => {
                bytes(&inputs[1..]) && alike(inputs) && bytes(outputs)
            }
            Kind::Part(_) => true,
            Kind::Subtract | Kind::WhereAbove | Kind::ClipGradient { .. } => {
                bytes(inputs) && alike(inputs) && alike(outputs) && bytes(outputs)
            }
            Kind::Sum { repeated } => {
                let whole = repeated.map_or(0..2, |(own, _)| 1 - own..2 - own);
                bytes(inputs) && alike(&inputs[whole]) && bytes(outputs)
            }
            Kind::Dequantize => bytes(inputs),
            Kind::Relu | Kind::Clip { .. } => bytes(inputs),
            Kind::Dither { .. } => inputs[0].element == Element::I32,
            Kind::Quantize => inputs[0].element == Element::F32 && bytes(outputs),
            Kind::Pool | Kind::Unpool | Kind::Spread { .. } => bytes(inputs) && bytes(outputs),
            Kind::Update => inputs[0].is_f32(),
            Kind::Blend { .. } => alike(inputs),
        };
        if !suits {
            return Err("its operands are no bytes with exponents, as many each".into());
        }
        if let (Op::MaxPool2dGradient(op), &[x, dy]) = (op, inputs) {
            let whole = (0..2).all(|a| dy.shape[2 + a] * op.kernel[a] <= x.shape[2 + a]);
            let apart = op.kernel == op.strides && op.dilations == [1, 1] && op.pads == [0; 4];
            if !(whole && apart && dy.count() > 0) {
                return Err("its windows overlap or leave the plane".into());
            }
        }
        if let (Op::MaxPool2d(op), &[x], &[y]) = (op, inputs, outputs) {
            let whole = (0..2).all(|a| y.shape[2 + a] * 2 <= x.shape[2 + a]);
            if !(whole && op.strides == [2, 2] && op.dilations == [1, 1] && op.pads == [0; 4]) {
                return Err("its windows overlap or leave the plane".into());
            }
        }
        if let (Op::AvgPool2dGradient(op), Kind::Spread { plane }, &[dy]) = (op, kind, inputs) {
            let single = op.kernel == op.input_size && op.pads == [0; 4] && dy.shape[2..] == [1, 1];
            if !(single && plane.is_power_of_two() && plane < 1 << 28) {
                return Err("a plane is no single window of 2^n elements".into());
            }
        }
        if count == 0 || count >= 1 << 28 {
            return Err("its offsets exceed 32 bits".into());
        }
        Ok(Elements { kind, count })
    }
}

/// The sums that all results of a formula are, one or two of them; `None` if they are something else.
fn blend(formula: &Formula) -> Option<Kind> {
    let step = |term: &Term, function: Function| match term {
        Term::Step(step) => formula.steps.get(*step).filter(|step| step.function == function),
        _ => None,
    };
    let product = |term: &Term| match step(term, Function::Mul)?.terms[..] {
        [Term::Operand(x), Term::Number(factor)] | [Term::Number(factor), Term::Operand(x)] => {
            Some((x, factor.get()))
        }
        _ => None,
    };
    let sum = |term: &Term| {
        let terms = &step(term, Function::Add)?.terms;
        Some([product(&terms[0])?, product(&terms[1])?])
    };
    let all: Vec<_> = formula.results.iter().map(sum).collect::<Option<_>>()?;
    let factors = |sum: &[(usize, f32); 2]| sum.map(|(_, factor)| factor);
    let first = factors(all.first()?);
    let alike = |sum| factors(sum).map(f32::to_bits) == first.map(f32::to_bits);
    if all.len() > 2 || !all.iter().all(alike) {
        return None;
    }
    let sums = [0, 1].map(|n| all.get(n).map(|sum: &[(usize, f32); 2]| sum.map(|(x, _)| x)));
    Some(Kind::Blend { sums, factors: first })
}

/// A bound as `mantissa * 2^exponent`, of at most 24 bits; infinite ones are beyond all bytes by any exponent.
pub(crate) fn mantissa(bound: f32) -> (i32, i32) {
    let bits = bound.to_bits();
    let (biased, fraction) = ((bits >> 23 & 0xff) as i32, (bits & 0x7f_ffff) as i32);
    let sign = if bound.is_sign_negative() { -1 } else { 1 };
    if bound.is_infinite() {
        return (sign, INFINITE);
    }
    let whole = if biased > 0 { fraction | 0x80_0000 } else { fraction };
    // The exponent of the smallest numbers is that of the subnormal ones.
    if whole == 0 { (0, 0) } else { (sign * whole, biased.max(1) - 150) }
}

/// The exponent of an infinite bound.
pub(crate) const INFINITE: i32 = 1 << 30;

/// Planes, and rows of each and of its windows, which lie in a tensor `x`, their values in `y`: where windows leave no row
/// out, cores share their rows evenly.
fn windows_in_line(x: &[usize], y: &[usize], kernel: [usize; 2]) -> [String; 3] {
    let planes = x[0] * x[1];
    if x[2] != y[2] * kernel[0] {
        return [planes, x[2], y[2]].map(|n| n.to_string());
    }
    let rows = planes * y[2];
    let parts = even_parts(rows, 1, [PLANE, ROW + y[3] * kernel[1] * WINDOW]).unwrap_or(planes);
    let each = rows / parts;
    [divided(parts, planes), divided(each * kernel[0], x[2]), divided(each, y[2])]
}

/// The head of a function of two operands of bytes, of which the first may be unsigned.
fn masked(name: &str, unsigned: bool) -> String {
    let operands = match unsigned {
        true => OPERANDS.replacen("int8_t", "uint8_t", 1),
        false => OPERANDS.to_string(),
    };
    format!("static void {name}({operands}")
}

/// Sets `work` to a clip of `operand`'s bytes, of `x0` by bounds that functions of the support header make.
fn clip(
    out: &mut Text,
    [x, operand]: [&str; 2],
    count: usize,
    bounds: &[(&str, &str, (i32, i32))],
) {
    out.line("struct trainc_xpulp_clip work;");
    out.line(format!("work.x = {x};"));
    out.line(format!("work.a = {operand};"));
    out.line("work.y = y0;");
    out.line(format!("work.count = {count};"));
    for (field, function, (mantissa, exponent)) in bounds {
        let power = if *exponent == INFINITE {
            INFINITE.to_string()
        } else {
            format!("(int64_t){exponent} - x0_exponent[0]")
        };
        out.line(format!("work.{field} = trainc_xpulp_clip_{function}({mantissa}, {power});"));
    }
}

impl Implementation for Elements {
    fn name(&self) -> &'static str {
        Elements::NAME
    }

    fn cost(&self) -> Cost {
        // For the whole, and for eight elements.
        let (whole, each) = match self.kind {
            Kind::Subtract => (0, 20),
            Kind::WhereAbove | Kind::WhereAny | Kind::Relu => (0, 10),
            Kind::Part(_) => (0, 8),
            Kind::Clip { .. } => (BOUNDS, 8),
            Kind::ClipGradient { .. } => (BOUNDS, 12),
            Kind::Dither { .. } => (1000, 106),
            Kind::Quantize => (0, 126),
            Kind::Pool => (0, 14),
            Kind::Unpool => (0, 32),
            Kind::Spread { plane } => (0, 8 * (20 + plane as u64 / 4)),
            Kind::Sum { repeated: None } => (400, 52),
            Kind::Sum { repeated: Some((_, own)) } => {
                let runs = if own.run > 1 { own.images * own.channels } else { own.images };
                (460 + 12 * runs as u64, 66)
            }
            Kind::Dequantize if self.count < TABLED => (0, 400),
            Kind::Dequantize => (4000, 60),
            Kind::Update => (250, 780),
            Kind::Blend { sums: [_, None], .. } => (60, 800),
            Kind::Blend { .. } => (60, 1600),
        };
        Cost::new(CALL + whole + each * self.count as u64 / 8)
    }

    fn scratch_bytes(&self) -> usize {
        match self.kind {
            Kind::Sum { repeated: Some(_) } => 4 * CORES + self.count,
            Kind::Sum { .. } | Kind::Dither { .. } => 4 * CORES,
            Kind::Dequantize if self.count >= TABLED => TABLE,
            _ => 0,
        }
    }
}

impl CKernel for Elements {
    fn emit(&self, name: &str, kernel: &Kernel) -> Result<Emitted, String> {
        let (Elements { kind, count }, inputs) = (*self, &kernel.inputs);
        let mut out = Text::default();
        if let Kind::Quantize = kind {
            out.long(format!(
                "static void {name}(const float *x0, int8_t *y0, int32_t *y0_exponent)"
            ));
            out.open("{");
            out.line(format!("const uint32_t most = trainc_xpulp_most_shared(x0, {count});"));
            out.line(format!("const int32_t bits = trainc_xpulp_finite(x0, {count}, most);"));
            out.line("const int32_t biased = bits >> 23, mantissa = bits & 0x7fffff;");
            out.line("/* The binary logarithm, rounded up. */");
            out.line("const int32_t log = biased > 0 ? biased - 127 + (mantissa != 0)");
            out.line("    : 32 - trainc_leading_zeros(mantissa) - 150");
            out.line("        + ((mantissa & (mantissa - 1)) != 0);");
            out.line("const int32_t e = bits == 0 ? 0 : log - 7;");
            out.line("y0_exponent[0] = e;");
            out.long(
                "struct trainc_xpulp_floats work = { x0, y0, e, most < UINT32_C(0xff000000) };",
            );
            out.long(format!("TRAINC_PARALLEL_FOR(&work, {count}, trainc_xpulp_to_bytes);"));
            out.close();
            return Ok(out.finish().into());
        }
        if let Kind::Dequantize = kind {
            let scratch = if count < TABLED { "" } else { ", uint8_t *scratch" };
            out.long(format!(
                "static void {name}(const int8_t *x0, const int32_t *x0_exponent, float *y0{scratch})"
            ));
            out.open("{");
            if count < TABLED {
                out.line("const int32_t exponent = x0_exponent[0];");
                out.line("struct trainc_xpulp_scaled work = { x0, y0, 0, exponent };");
                out.long(format!("TRAINC_PARALLEL_FOR(&work, {count}, trainc_xpulp_scale);"));
                out.close();
                return Ok(out.finish().into());
            }
            declare(&mut out, "int32_t", "table", 0, "[256], the bits of floats.");
            out.line("trainc_xpulp_scaled_table(table, x0_exponent[0]);");
            out.line("struct trainc_xpulp_scaled work = { x0, y0, table, 0 };");
            out.long(format!("TRAINC_PARALLEL_FOR(&work, {count}, trainc_xpulp_to_floats);"));
            out.close();
            return Ok(out.finish().into());
        }
        if let Kind::Dither { stream } = kind {
            let parts = CORES.min(count);
            out.long(format!(
                "static void {name}(const int32_t *x0, const int32_t *x0_exponent, int8_t *y0, int32_t *y0_exponent, const int32_t *run, uint8_t *scratch)"
            ));
            out.open("{");
            declare(&mut out, "uint32_t", "widths", 0, "By parts.");
            out.long(format!(
                "struct trainc_xpulp_dithered work = {{ x0, y0, {count}, {parts}, widths, 0, trainc_xpulp_draw(run, {stream}) }};"
            ));
            out.line("const int32_t shift = trainc_xpulp_dithered(&work);");
            out.line("y0_exponent[0] = trainc_add32(x0_exponent[0], shift);");
            out.close();
            return Ok(out.finish().into());
        }
        if let Kind::Relu = kind {
            out.long(format!(
                "static void {name}(const int8_t *x0, const int32_t *x0_exponent, int8_t *y0, int32_t *y0_exponent)"
            ));
            out.open("{");
            out.line("y0_exponent[0] = x0_exponent[0];");
            out.line(format!("struct trainc_xpulp_bytes work = {{ x0, x0, y0, {count} }};"));
            out.long(format!(
                "TRAINC_PARALLEL_FOR(&work, {}, trainc_xpulp_positive_words);",
                count.div_ceil(4)
            ));
            out.close();
            return Ok(out.finish().into());
        }
        if let Kind::Part(part) = kind {
            out.long(format!(
                "static void {name}(const uint8_t *x0, const int32_t *x0_exponent, int8_t *y0, int32_t *y0_exponent)"
            ));
            out.open("{");
            let (divided, body) = match part {
                BytePart::Upper => (1, "upper"),
                BytePart::Lowest => (0, "lowest"),
                BytePart::Offset => (0, "offset"),
            };
            out.line(format!("y0_exponent[0] = trainc_add32(x0_exponent[0], {divided});"));
            out.line("const int8_t *const x = (const int8_t *)x0;");
            out.line(format!("struct trainc_xpulp_bytes work = {{ x, x, y0, {count} }};"));
            out.long(format!(
                "TRAINC_PARALLEL_FOR(&work, {}, trainc_xpulp_{body}_words);",
                count.div_ceil(4)
            ));
            out.close();
            return Ok(out.finish().into());
        }
        if let Kind::Update = kind {
            out.line(format!(
                "static void {name}(const float *x0, const float *x1, const int32_t *x2, float *y0)"
            ));
            out.open("{");
            out.line("struct trainc_xpulp_update work = { x0, x1, y0, 0, 0 };");
            out.line(format!("trainc_xpulp_update_start(&work, x2[0], {count});"));
            out.long(format!("TRAINC_PARALLEL_FOR(&work, {count}, trainc_xpulp_updates);"));
            out.close();
            return Ok(out.finish().into());
        }
        if let Kind::Blend { sums, factors } = kind {
            let operands: String =
                (0..inputs.len()).map(|x| format!("const float *x{x}, ")).collect();
            let second = if sums[1].is_some() { ", float *y1" } else { "" };
            out.long(format!("static void {name}({operands}float *y0{second})"));
            out.open("{");
            out.line("struct trainc_xpulp_blends work;");
            for (n, sum) in sums.iter().enumerate() {
                for (i, x) in sum.iter().flatten().enumerate() {
                    out.line(format!("work.x[{n}][{i}] = x{x};"));
                }
                let y = if sum.is_some() { format!("y{n}") } else { "0".into() };
                out.line(format!("work.y[{n}] = {y};"));
            }
            for (i, factor) in factors.iter().enumerate() {
                // Bits, so that no digits round them.
                let bits = factor.to_bits() as i32;
                out.line(format!("work.factors[{i}] = trainc_float({bits});"));
            }
            out.long(format!("TRAINC_PARALLEL_FOR(&work, {count}, trainc_xpulp_blend_elements);"));
            out.close();
            return Ok(out.finish().into());
        }
        if let Kind::Clip { bounds } = kind {
            out.long(format!(
                "static void {name}(const int8_t *x0, const int32_t *x0_exponent, int8_t *y0, int32_t *y0_exponent)"
            ));
            out.open("{");
            out.line("y0_exponent[0] = x0_exponent[0];");
            let [low, high] = bounds.map(mantissa);
            clip(&mut out, ["x0"; 2], count, &[("low", "low", low), ("high", "high", high)]);
            out.long(format!(
                "TRAINC_PARALLEL_FOR(&work, {}, trainc_xpulp_clip_words);",
                count.div_ceil(4)
            ));
            out.close();
            return Ok(out.finish().into());
        }
        if let Kind::ClipGradient { bounds, unsigned } = kind {
            out.long(masked(name, unsigned));
            out.open("{");
            out.line("y0_exponent[0] = x1_exponent[0];");
            let [low, high] = bounds.map(mantissa);
            // The least that passes is above the one bound, the largest below the other.
            let (x, within) = match unsigned {
                true => ("(const int8_t *)x0", "within_unsigned"),
                false => ("x0", "within"),
            };
            clip(&mut out, [x, "x1"], count, &[("low", "above", low), ("high", "below", high)]);
            out.long(format!(
                "TRAINC_PARALLEL_FOR(&work, {}, trainc_xpulp_{within}_words);",
                count.div_ceil(4)
            ));
            out.close();
            return Ok(out.finish().into());
        }
        if let Kind::Sum { repeated } = kind {
            let parts = CORES.min(count.div_ceil(4));
            let operands = OPERANDS.trim_end_matches(')');
            out.long(format!("static void {name}({operands}, uint8_t *scratch)"));
            out.open("{");
            declare(&mut out, "uint32_t", "exceeds", 0, "By parts.");
            let mut operands = ["x0", "x1"];
            if let Some((operand, Repeated { images, channels, run })) = repeated {
                declare(&mut out, "int8_t", "repeated", 4 * CORES, "One for each sum.");
                let x = std::mem::replace(&mut operands[operand], "repeated");
                out.long(format!(
                    "struct trainc_xpulp_repeat repeat = {{ {x}, repeated, {channels}, {run} }};"
                ));
                let (rounds, what) =
                    if run > 1 { (images * channels, "runs") } else { (images, "rows") };
                out.long(format!(
                    "TRAINC_PARALLEL_FOR(&repeat, {rounds}, trainc_xpulp_repeat_{what});"
                ));
            }
            let [first, second] = operands;
            out.line("struct trainc_xpulp_sum work;");
            for (field, value) in [
                ("y", "y0".to_string()),
                ("count", count.to_string()),
                ("parts", parts.to_string()),
                ("exceeds", "exceeds".into()),
            ] {
                out.line(format!("work.{field} = {value};"));
            }
            out.long(format!(
                "const int32_t exponent = trainc_xpulp_sum_start(&work, {first}, x0_exponent[0], {second}, x1_exponent[0]);"
            ));
            let add = format!("TRAINC_PARALLEL_FOR(&work, {parts}, trainc_xpulp_sum_parts);");
            out.long(&add);
            out.line("work.divides = trainc_xpulp_sum_exceeds(&work);");
            out.line("if (work.divides) {");
            out.line(format!("    {add}"));
            out.line("}");
            out.line("y0_exponent[0] = trainc_add32(exponent, 2 * work.divides);");
            out.close();
            return Ok(out.finish().into());
        }
        if let Kind::Spread { plane } = kind {
            out.long(format!(
                "static void {name}(const int8_t *x0, const int32_t *x0_exponent, int8_t *y0, int32_t *y0_exponent)"
            ));
            out.open("{");
            let divided = plane.ilog2();
            out.line(format!("y0_exponent[0] = trainc_subtract32(x0_exponent[0], {divided});"));
            out.line(format!("struct trainc_xpulp_spread work = {{ x0, y0, {plane} }};"));
            out.long(format!("TRAINC_PARALLEL_FOR(&work, {count}, trainc_xpulp_spread_planes);"));
            out.close();
            return Ok(out.finish().into());
        }
        if let Kind::Pool = kind {
            let (x, y) = (&inputs[0].shape, &kernel.outputs[0].shape);
            out.long(format!(
                "static void {name}(const int8_t *x0, const int32_t *x0_exponent, int8_t *y0, int32_t *y0_exponent)"
            ));
            out.open("{");
            out.line("y0_exponent[0] = x0_exponent[0];");
            let [planes, height, rows] = windows_in_line(x, y, [2, 2]);
            out.long(format!(
                "struct trainc_xpulp_pool work = {{ x0, 0, y0, {height}, {}, {rows}, {}, 2, 2 }};",
                x[3], y[3]
            ));
            out.long(format!("TRAINC_PARALLEL_FOR(&work, {planes}, trainc_xpulp_pool_planes);"));
            out.close();
            return Ok(out.finish().into());
        }
        if let (Kind::Unpool, Op::MaxPool2dGradient(op)) = (&kind, &kernel.op) {
            let (x, dy) = (&inputs[0].shape, &inputs[1].shape);
            out.long(format!("static void {name}({OPERANDS}"));
            out.open("{");
            out.line("(void)x0_exponent;");
            out.line("y0_exponent[0] = x1_exponent[0];");
            let [planes, height, rows] = windows_in_line(x, dy, op.kernel);
            out.long(format!(
                "struct trainc_xpulp_pool work = {{ x0, x1, y0, {height}, {}, {rows}, {}, {}, {} }};",
                x[3], dy[3], op.kernel[0], op.kernel[1]
            ));
            out.long(format!("TRAINC_PARALLEL_FOR(&work, {planes}, trainc_xpulp_unpool);"));
            out.close();
            return Ok(out.finish().into());
        }
        out.long(masked(name, matches!(kind, Kind::WhereAny)));
        out.open("{");
        let (unused, exponent, body) = match kind {
            Kind::Subtract => ("x1", "x0", "subtract"),
            Kind::WhereAny => ("x0", "x1", "where_any"),
            _ => ("x0", "x1", "where_above"),
        };
        out.line(format!("(void){unused}_exponent;"));
        out.line(format!("y0_exponent[0] = {exponent}_exponent[0];"));
        let x = if matches!(kind, Kind::WhereAny) { "(const int8_t *)x0" } else { "x0" };
        out.line(format!("struct trainc_xpulp_bytes work = {{ {x}, x1, y0, {count} }};"));
        out.long(format!(
            "TRAINC_PARALLEL_FOR(&work, {}, trainc_xpulp_{body}_words);",
            count.div_ceil(4)
        ));
        out.close();
        Ok(out.finish().into())
    }
}
