//! Kernels that go element by element: updates and masks of bytes, four at a time; pools of windows that
//! do not overlap; and the input's conversion, for which a
//! core without arithmetic of floats takes hundreds of cycles an element.

use trainc_ir::program::Kernel;
use trainc_ir::{Element, Op, TensorType};

use crate::family::Family;
use crate::products::Text;

/// See the module documentation.
pub(crate) struct Elements;

enum Kind {
    Subtract,
    WhereAbove,
    Quantize,
    Unpool,
}

const OPERANDS: &str = "const int8_t *x0, const int32_t *x0_exponent, const int8_t *x1, const int32_t *x1_exponent, int8_t *y0, int32_t *y0_exponent)";

/// Cycles of a call.
const CALL: u64 = 60;

fn kind(op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> Option<(Kind, usize)> {
    let count = inputs.first()?.count();
    let bytes = |types: &[&TensorType]| {
        types
            .iter()
            .all(|ty| ty.element == Element::I8 && ty.is_shared_integer() && ty.count() == count)
    };
    let kind = match op {
        Op::SaturatingSubtract(_) if bytes(inputs) && bytes(outputs) => Kind::Subtract,
        Op::ReluGradient(_) if bytes(inputs) && bytes(outputs) => Kind::WhereAbove,
        Op::QuantizeExponent(_) if inputs[0].element == Element::F32 && bytes(outputs) => {
            Kind::Quantize
        }
        Op::MaxPool2dGradient(op) => {
            let (x, dy) = (inputs[0], *inputs.get(1)?);
            let bytes = |ty: &TensorType| ty.element == Element::I8 && ty.is_shared_integer();
            let whole = (0..2).all(|a| dy.shape[2 + a] * op.kernel[a] <= x.shape[2 + a]);
            let apart = op.kernel == op.strides && op.dilations == [1, 1] && op.pads == [0; 4];
            if !(bytes(x) && bytes(dy) && bytes(outputs[0]) && whole && apart && dy.count() > 0) {
                return None;
            }
            Kind::Unpool
        }
        _ => return None,
    };
    // Indices are 32-bit.
    (count > 0 && count < 1 << 28).then_some((kind, count))
}

impl Family for Elements {
    fn kernel(&self, name: &str, kernel: &Kernel) -> Result<Option<String>, String> {
        let (inputs, outputs) = (kernel.input_types(), kernel.output_types());
        let Some((kind, count)) = kind(&kernel.op, &inputs, &outputs) else { return Ok(None) };
        let mut out = Text::default();
        if let Kind::Quantize = kind {
            out.long(format!(
                "static void {name}(const float *x0, int8_t *y0, int32_t *y0_exponent)"
            ));
            out.open("{");
            out.line(format!("const int32_t bits = trainc_xpulp_largest(x0, {count});"));
            out.line("const int32_t biased = bits >> 23, mantissa = bits & 0x7fffff;");
            out.line("/* The binary logarithm, rounded up. */");
            out.line("const int32_t log = biased > 0 ? biased - 127 + (mantissa != 0)");
            out.line("    : 32 - trainc_leading_zeros(mantissa) - 150");
            out.line("        + ((mantissa & (mantissa - 1)) != 0);");
            out.line("const int32_t e = bits == 0 ? 0 : log - 7;");
            out.line("y0_exponent[0] = e;");
            out.line("struct trainc_xpulp_floats work = { x0, y0, e };");
            out.long(format!("TRAINC_PARALLEL_FOR(&work, {count}, trainc_xpulp_to_bytes);"));
            out.close();
            return Ok(Some(out.finish()));
        }
        if let (Kind::Unpool, Op::MaxPool2dGradient(op)) = (&kind, &kernel.op) {
            let (x, dy) = (&inputs[0].shape, &inputs[1].shape);
            out.long(format!("static void {name}({OPERANDS}"));
            out.open("{");
            out.line("(void)x0_exponent;");
            out.line("y0_exponent[0] = x1_exponent[0];");
            out.long(format!(
                "struct trainc_xpulp_pool work = {{ x0, x1, y0, {}, {}, {}, {}, {}, {} }};",
                x[2], x[3], dy[2], dy[3], op.kernel[0], op.kernel[1]
            ));
            let planes = x[0] * x[1];
            out.long(format!("TRAINC_PARALLEL_FOR(&work, {planes}, trainc_xpulp_unpool);"));
            out.close();
            return Ok(Some(out.finish()));
        }
        out.long(format!("static void {name}({OPERANDS}"));
        out.open("{");
        let (unused, exponent, body) = match kind {
            Kind::Subtract => ("x1", "x0", "subtract"),
            _ => ("x0", "x1", "where_above"),
        };
        out.line(format!("(void){unused}_exponent;"));
        out.line(format!("y0_exponent[0] = {exponent}_exponent[0];"));
        out.line(format!("struct trainc_xpulp_bytes work = {{ x0, x1, y0, {count} }};"));
        out.long(format!(
            "TRAINC_PARALLEL_FOR(&work, {}, trainc_xpulp_{body}_words);",
            count.div_ceil(4)
        ));
        out.close();
        Ok(Some(out.finish()))
    }

    fn scratch_bytes(
        &self,
        op: &Op,
        inputs: &[&TensorType],
        outputs: &[&TensorType],
    ) -> Option<usize> {
        kind(op, inputs, outputs).map(|_| 0)
    }

    fn cycles(&self, op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> Option<u64> {
        let (kind, count) = kind(op, inputs, outputs)?;
        let each = match kind {
            Kind::Subtract | Kind::WhereAbove => 4,
            Kind::Quantize => 40,
            Kind::Unpool => 15,
        };
        Some(CALL + each * count as u64)
    }
}
