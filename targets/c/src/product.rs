//! Kernels that start with a product of signed bytes, as targets of C with product kernels of their own print them: the
//! product with its finish, then the loops behind it.

use trainc_ir::implementation::Signature;
use trainc_ir::loops::{LoopKernel, Role};
use trainc_ir::numeric::Rounding;
use trainc_ir::ops::Chain;
use trainc_ir::product::{Convolution, Finish, Narrowing, Product};
use trainc_ir::program::{Kernel, buffer_bytes, scale_offset};
use trainc_ir::target::loop_scratch;
use trainc_ir::{Op, TensorType};

use crate::text::Text;
use crate::{cost, loops};

/// Suffix of the functions that store results narrowed so; `None` if there are none.
fn named(narrowing: Narrowing) -> Option<&'static str> {
    match narrowing.rounding() {
        Rounding::HalfAway => Some("half_away"),
        Rounding::PseudoStochastic => Some("pseudo_stochastic"),
        Rounding::Truncate | Rounding::Floor => None,
    }
}

/// Suffix of the functions that store results.
pub fn suffix(finish: Option<Narrowing>) -> &'static str {
    finish.map_or("sums", |narrowing| named(narrowing).unwrap_or_default())
}

/// Sets the result's exponent and, if there is a shift, the rounding by it. `width` is the C of the bits of the sums'
/// largest magnitude; `round` prints how to round by `shift` to a lower clamp.
pub fn emit_finish(
    finish: Option<Narrowing>,
    out: &mut Text,
    width: &str,
    round: impl FnOnce(&mut Text, i8),
) {
    let exponent = "trainc_add32(x0_exponent[0], x1_exponent[0])";
    let (shift, low) = match finish {
        None => {
            out.line(format!("y0_exponent[0] = {exponent};"));
            return;
        }
        Some(Narrowing::Requantize { bits, low, .. }) => {
            out.line(format!("const int32_t width = {width};"));
            out.line(format!("const int32_t shift = trainc_maximum32(width - {bits}, 0);"));
            ("shift", low)
        }
        Some(Narrowing::Gradient { .. }) => {
            out.line(format!("const int64_t width = {width};"));
            out.line("const int64_t shift = trainc_maximum64(width - x2[0], 0);");
            ("(int32_t)shift", -127)
        }
        Some(Narrowing::Shift { amount, .. }) => {
            out.line(format!("const int32_t shift = {amount};"));
            ("shift", -127)
        }
    };
    out.line(format!("y0_exponent[0] = trainc_add32({exponent}, {shift});"));
    round(out, low);
}

/// See the module documentation.
#[derive(Debug)]
pub struct ProductKernel {
    /// Its sizes; no channel is convolved by itself.
    pub convolution: Convolution,
    /// What becomes of the sums.
    pub finish: Option<Narrowing>,
    /// Operands of product and finish.
    operands: usize,
    /// Type of their result.
    pub result: TensorType,
    /// Loops on it.
    rest: Option<LoopKernel>,
}

impl ProductKernel {
    /// The product that a kernel starts with; `None` if it starts with something else.
    ///
    /// # Errors
    /// Why it is none of those.
    pub fn of(signature: &Signature<'_>) -> Option<Result<ProductKernel, String>> {
        let fuses = |finish: &Finish| finish.narrowing().and_then(named).is_some();
        let product = Product::of(signature.ops(), signature.inputs, fuses)?;
        Some(product.and_then(Product::of_bytes).and_then(|p| ProductKernel::new(signature, &p)))
    }

    fn new(signature: &Signature<'_>, product: &Product) -> Result<ProductKernel, String> {
        let convolution = product.convolution()?;
        if convolution.is_depthwise() {
            return Err("each channel is convolved by itself".into());
        }
        let rest = match &signature.ops()[product.ops..] {
            [] => None,
            [op] => Some(op.clone()),
            ops => Some(Op::Chain(Chain { ops: ops.to_vec() })),
        };
        let rest = rest.map(|op| {
            let further = signature.inputs[product.operands..].iter().copied();
            let inputs: Vec<&TensorType> =
                std::iter::once(&product.result).chain(further).collect();
            op.lower(&inputs, signature.outputs)
        });
        Ok(ProductKernel {
            convolution,
            finish: product.narrowing(),
            operands: product.operands,
            result: product.result.clone(),
            rest,
        })
    }

    /// Cycles of the loops behind it.
    pub fn rest_cycles(&self) -> u64 {
        self.rest.as_ref().map_or(0, cost::loop_cycles)
    }

    /// Working memory, of which the product takes some itself.
    pub fn scratch_bytes(&self, own: usize) -> usize {
        match &self.rest {
            None => own,
            Some(rest) => {
                buffer_bytes(&self.result).next_multiple_of(16) + own.max(loop_scratch(rest).1)
            }
        }
    }

    /// The kernel's function, and before it those that it calls; `body` prints the product's, of operands `x0`, `x1`, `x2`
    /// and result `y0`, with their exponents, and `scratch`.
    ///
    /// # Errors
    /// If loops behind the product cannot be printed.
    pub fn emit(
        &self,
        name: &str,
        kernel: &Kernel,
        body: impl FnOnce(&mut Text),
    ) -> Result<String, String> {
        let Some(rest) = &self.rest else { return Ok(self.function(name, body)) };
        let whole = kernel.op.lower(&kernel.input_types(), &kernel.output_types());
        let mut text = self.function(&format!("{name}_product"), body);
        text.push('\n');
        text.push_str(&loops::function(&format!("{name}_rest"), rest)?);
        text.push('\n');
        text.push_str(&self.both(name, rest, &whole));
        Ok(text)
    }

    /// Whether it is narrowed to a width given at run time.
    fn takes_width(&self) -> bool {
        self.finish.is_some_and(|narrowing| narrowing.operands() > 0)
    }

    /// The product's own function.
    fn function(&self, name: &str, body: impl FnOnce(&mut Text)) -> String {
        let mut out = Text::default();
        let result = if self.finish.is_some() { "int8_t" } else { "int32_t" };
        let bits = if self.takes_width() { "const int32_t *x2, " } else { "" };
        out.long(format!(
            "static void {name}(const int8_t *x0, const int32_t *x0_exponent, const int8_t *x1, const int32_t *x1_exponent, {bits}{result} *y0, int32_t *y0_exponent, uint8_t *scratch)"
        ));
        out.open("{");
        body(&mut out);
        out.close();
        out.finish()
    }

    /// The function that calls the product and the loops behind it.
    fn both(&self, name: &str, rest: &LoopKernel, whole: &LoopKernel) -> String {
        let mut out = Text::default();
        let variable = |role: &Role| match role {
            Role::Input(i) => format!("x{i}"),
            Role::InputScale(i) => format!("x{i}_exponent"),
            Role::Output(i) => format!("y{i}"),
            Role::OutputScale(i) => format!("y{i}_exponent"),
            Role::RunContext => "run".into(),
            Role::Scratch => "scratch".into(),
        };
        let mut parameters: Vec<String> = Vec::new();
        for buffer in whole.buffers.iter().filter(|b| b.role != Role::Scratch) {
            let written = matches!(buffer.role, Role::Output(_) | Role::OutputScale(_));
            let constant = if written { "" } else { "const " };
            let ty = loops::element_type(buffer.element);
            parameters.push(format!("{constant}{ty} *{}", variable(&buffer.role)));
        }
        parameters.push("uint8_t *scratch".into());
        out.long(format!("static void {name}({})", parameters.join(", ")));
        out.open("{");
        let element = loops::element_type(self.result.element);
        out.line(format!("{element} *const t0 = ({element} *)(void *)scratch;"));
        out.line(format!(
            "int32_t *const t0_exponent = (int32_t *)(void *)(scratch + {});",
            scale_offset(&self.result)
        ));
        let offset = buffer_bytes(&self.result).next_multiple_of(16);
        let bits = if self.takes_width() { "x2, " } else { "" };
        out.long(format!(
            "{name}_product(x0, x0_exponent, x1, x1_exponent, {bits}t0, t0_exponent, scratch + {offset});"
        ));
        let mut arguments: Vec<String> = Vec::new();
        for buffer in rest.buffers.iter().filter(|b| b.role != Role::Scratch) {
            arguments.push(match &buffer.role {
                Role::Input(0) => "t0".into(),
                Role::InputScale(0) => "t0_exponent".into(),
                Role::Input(i) => variable(&Role::Input(i + self.operands - 1)),
                Role::InputScale(i) => variable(&Role::InputScale(i + self.operands - 1)),
                role => variable(role),
            });
        }
        if rest.buffers.iter().any(|b| b.role == Role::Scratch) {
            arguments.push(format!("scratch + {offset}"));
        }
        out.long(format!("{name}_rest({});", arguments.join(", ")));
        out.close();
        out.finish()
    }
}
