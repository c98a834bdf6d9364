//! Sums of products on their way to activations, some elements at a time: biases, bounds, bytes, sums of bytes and of the two
//! parts of products of unsigned ones.

use trainc_c::text::{Text, declare};
use trainc_c::{CKernel, Emitted};
use trainc_ir::implementation::{Cost, Implementation, Signature};
use trainc_ir::numeric::Rounding;
use trainc_ir::program::Kernel;
use trainc_ir::{Element, Op, TensorType};

use crate::elements::{INFINITE, mantissa};

/// See the module documentation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Activations {
    kind: Kind,
    count: usize,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Of planes of so many elements, a bias for each channel; or 128 times as much.
    Bias {
        channels: usize,
        plane: usize,
        offset: bool,
    },
    Clip {
        bounds: [f32; 2],
    },
    /// To bytes whose largest keeps so many bits, of a least one; none where they are unsigned.
    Quantize {
        bits: u8,
        low: Option<i8>,
    },
    /// Of bytes; whether each is unsigned.
    Sum {
        unsigned: [bool; 2],
    },
    Doubled,
}

/// Cores that look for the largest side by side.
const PARTS: usize = 8;
/// Cycles of a call.
const CALL: u64 = 60;
/// Cycles of a plane beside its elements.
const PLANE: u64 = 45;
/// Fewest elements of a plane for which a bias is prepared.
const LEAST_PLANE: usize = 4;

impl Activations {
    /// The name for readers.
    pub(crate) const NAME: &str = "sums by words";

    /// The kernel of an operation; `None` if there is none.
    ///
    /// # Errors
    /// Why it does not serve these types.
    pub(crate) fn of(signature: &Signature<'_>) -> Option<Result<Activations, String>> {
        let inputs = signature.inputs;
        let x = *inputs.first()?;
        let sums = x.element == Element::I32 && x.is_shared_integer();
        let kind = match signature.op {
            Op::AccumulateBias(_) => bias(x, inputs[1], false),
            Op::OffsetSum(_) => bias(x, inputs[1], true),
            Op::Clip(op) if sums => Ok(Kind::Clip { bounds: [op.min.get(), op.max.get()] }),
            Op::QuantizeUnsigned(_) if sums => Ok(Kind::Quantize { bits: 8, low: None }),
            Op::Requantize(op) => {
                if op.rounding != Rounding::HalfAway || !matches!(op.low, -127 | 0) {
                    return None;
                }
                // Those of a pool are few, and one kernel with it is the smaller program.
                if let &[_, _, 1, 1] = x.shape.dims() {
                    return Some(Err("its planes are single elements".into()));
                }
                Ok(Kind::Quantize { bits: op.bits, low: Some(op.low) })
            }
            Op::AlignedSum(_) => {
                let bytes = |ty: &&TensorType| matches!(ty.element, Element::I8 | Element::U8);
                if !(inputs.iter().all(bytes) && x.shape == inputs[1].shape) {
                    return Some(Err("its operands are no bytes of one shape".into()));
                }
                Ok(Kind::Sum { unsigned: [0, 1].map(|i| inputs[i].element == Element::U8) })
            }
            Op::DoubledSum(_) => Ok(Kind::Doubled),
            _ => return None,
        };
        let count = x.count();
        Some(kind.and_then(|kind| {
            if count == 0 || count >= 1 << 28 {
                return Err("its offsets exceed 32 bits".into());
            }
            Ok(Activations { kind, count })
        }))
    }
}

/// A bias for each index of one axis of the sums.
fn bias(x: &TensorType, b: &TensorType, offset: bool) -> Result<Kind, String> {
    let (dims, channels) = (x.shape.dims(), b.count());
    let Some(place) = b.shape.dims().iter().rev().position(|&dim| dim > 1) else {
        return Err("its bias is one number".into());
    };
    let axis = dims.len() - 1 - place;
    let plane: usize = dims[axis + 1..].iter().product();
    if dims[axis] != channels || plane < LEAST_PLANE {
        return Err("it has no bias for each plane".into());
    }
    Ok(Kind::Bias { channels, plane, offset })
}

impl Implementation for Activations {
    fn name(&self) -> &'static str {
        Activations::NAME
    }

    fn cost(&self) -> Cost {
        // For the whole, and for four elements.
        let (whole, each) = match self.kind {
            Kind::Bias { plane, .. } => (PLANE * (self.count / plane) as u64, 13),
            Kind::Clip { .. } => (80, 16),
            Kind::Quantize { low: None, .. } => (400, 23),
            Kind::Quantize { low: Some(0), .. } => (400, 27),
            Kind::Quantize { .. } => (400, 31),
            Kind::Sum { .. } => (0, 20),
            Kind::Doubled => (0, 16),
        };
        Cost::new(CALL + whole + each * self.count as u64 / 4)
    }

    fn scratch_bytes(&self) -> usize {
        if let Kind::Quantize { .. } = self.kind { 4 * PARTS } else { 0 }
    }
}

impl CKernel for Activations {
    fn emit(&self, name: &str, _kernel: &Kernel) -> Result<Emitted, String> {
        let Activations { kind, count } = *self;
        let mut out = Text::default();
        match kind {
            Kind::Bias { channels, plane, offset } => {
                out.long(format!(
                    "static void {name}(const int32_t *x0, const int32_t *x0_exponent, const int32_t *x1, const int32_t *x1_exponent, int32_t *y0, int32_t *y0_exponent)"
                ));
                out.open("{");
                out.long(format!(
                    "struct trainc_xpulp_biased work = {{ x0, x1, y0, {channels}, {plane}, 0, 0, 0 }};"
                ));
                if offset {
                    out.line("(void)x1_exponent;");
                    out.line("work.left = 7;");
                    out.line("y0_exponent[0] = x0_exponent[0];");
                } else {
                    out.long("y0_exponent[0] = trainc_xpulp_biased_start(&work, x0_exponent[0], x1_exponent[0]);");
                }
                let planes = count / plane;
                out.long(format!("TRAINC_PARALLEL_FOR(&work, {planes}, trainc_xpulp_add_biases);"));
            }
            Kind::Clip { bounds } => {
                out.long(format!(
                    "static void {name}(const int32_t *x0, const int32_t *x0_exponent, int32_t *y0, int32_t *y0_exponent)"
                ));
                out.open("{");
                out.line("const int32_t exponent = x0_exponent[0];");
                out.line("y0_exponent[0] = exponent;");
                out.line(format!(
                    "struct trainc_xpulp_bounded work = {{ x0, y0, {count}, 0, 0 }};"
                ));
                for (field, function, bound) in
                    [("low", "ceiling", bounds[0]), ("high", "floor", bounds[1])]
                {
                    let (mantissa, power) = mantissa(bound);
                    let power = match power {
                        INFINITE => INFINITE.to_string(),
                        power => format!("(int64_t){power} - exponent"),
                    };
                    out.line(format!(
                        "work.{field} = trainc_xpulp_{function}32({mantissa}, {power});"
                    ));
                }
                let pairs = count.div_ceil(2);
                out.long(format!("TRAINC_PARALLEL_FOR(&work, {pairs}, trainc_xpulp_bound_pairs);"));
            }
            Kind::Quantize { bits, low } => {
                let (y, first, second) = match low {
                    Some(_) => ("int8_t", "magnitudes", "half_away"),
                    None => ("uint8_t", "largest", "unsigned_parts"),
                };
                let (parts, low) = (PARTS.min(count), low.unwrap_or(0));
                out.long(format!(
                    "static void {name}(const int32_t *x0, const int32_t *x0_exponent, {y} *y0, int32_t *y0_exponent, uint8_t *scratch)"
                ));
                out.open("{");
                declare(&mut out, "uint32_t", "widths", 0, "By parts.");
                out.line("struct trainc_xpulp_quantized work;");
                for (field, value) in [
                    ("x", "x0".to_string()),
                    ("y", "y0".into()),
                    ("count", count.to_string()),
                    ("parts", parts.to_string()),
                    ("widths", "widths".into()),
                ] {
                    out.line(format!("work.{field} = {value};"));
                }
                out.long(format!(
                    "TRAINC_PARALLEL_FOR(&work, {parts}, trainc_xpulp_quantized_{first});"
                ));
                out.long(format!(
                    "const int32_t shift = trainc_xpulp_quantized_shift(&work, {bits}, {low});"
                ));
                out.line("y0_exponent[0] = trainc_add32(x0_exponent[0], shift);");
                out.long(format!(
                    "TRAINC_PARALLEL_FOR(&work, {parts}, trainc_xpulp_quantized_{second});"
                ));
            }
            Kind::Sum { unsigned } => {
                let [a, b] = unsigned.map(|unsigned| if unsigned { "uint8_t" } else { "int8_t" });
                out.long(format!(
                    "static void {name}(const {a} *x0, const int32_t *x0_exponent, const {b} *x1, const int32_t *x1_exponent, int32_t *y0, int32_t *y0_exponent)"
                ));
                out.open("{");
                let [a, b] = unsigned.map(i32::from);
                out.long(format!(
                    "struct trainc_xpulp_added_bytes work = {{ x0, x1, y0, {a}, {b}, 0, 0, 0, 0 }};"
                ));
                out.long("y0_exponent[0] = trainc_xpulp_added_bytes_start(&work, x0_exponent[0], x1_exponent[0]);");
                out.long(format!("TRAINC_PARALLEL_FOR(&work, {count}, trainc_xpulp_add_bytes);"));
            }
            Kind::Doubled => {
                out.long(format!(
                    "static void {name}(const int32_t *x0, const int32_t *x0_exponent, const int32_t *x1, const int32_t *x1_exponent, int32_t *y0, int32_t *y0_exponent)"
                ));
                out.open("{");
                out.line("(void)x0_exponent;");
                out.line("y0_exponent[0] = x1_exponent[0];");
                out.line("struct trainc_xpulp_doubled work = { x0, x1, y0 };");
                out.long(format!(
                    "TRAINC_PARALLEL_FOR(&work, {count}, trainc_xpulp_double_and_add);"
                ));
            }
        }
        out.close();
        Ok(out.finish().into())
    }
}
