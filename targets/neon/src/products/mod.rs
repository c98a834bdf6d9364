//! Products of 8-bit integers: convolutions, their gradients and matrix products, alone or with what makes 8-bit
//! integers of their sums.
//!
//! One scheme for all: both operands are packed into panels of 8 rows or lanes (`support/trainc_neon.h`), a tile kernel
//! multiplies pairs of panels into 8 by 8 sums, and a last pass rounds and orders them. What differs between levels is the
//! tile kernel and the order of bytes in a block of a panel, not their sizes.

mod finish;
mod gradient;
mod shape;
mod windows;

use trainc_c::text::{self, Text};
use trainc_ir::loops::{LoopKernel, Role};
use trainc_ir::ops::Chain;
use trainc_ir::program::{Kernel, buffer_bytes, scale_offset};
use trainc_ir::target::loop_scratch_bytes;
use trainc_ir::{Op, TensorType};

use crate::level::Level;
use finish::Finish;
use gradient::GradientProduct;
use shape::{Convolution, Pass};
use windows::WindowProduct;

/// Instructions of a call: set-up of panels, loops.
const CALL: u64 = 500;
/// Instructions of the finish for each result.
const FINISH: u64 = 4;

/// Estimate of a product kernel's instructions; `None` if the kernel is none.
pub(crate) fn instructions(
    level: Level,
    op: &Op,
    inputs: &[&TensorType],
    outputs: &[&TensorType],
) -> Option<u64> {
    Product::of(op, inputs).map(|product| product.instructions(level, inputs, outputs))
}

/// A kernel that starts with a product.
#[derive(Debug)]
struct Product {
    convolution: Convolution,
    finish: Finish,
    /// Operands of product and finish.
    operands: usize,
    /// Type of their result.
    result: TensorType,
    /// Further operations on it, in loops.
    rest: Option<Op>,
}

impl Product {
    fn of(op: &Op, inputs: &[&TensorType]) -> Option<Product> {
        let ops = match op {
            Op::Chain(chain) => &chain.ops[..],
            op => std::slice::from_ref(op),
        };
        let (first, mut rest) = ops.split_first()?;
        let operands = inputs.get(..2)?;
        let convolution = Convolution::of(first, operands)?;
        let sums = first.infer(operands).ok()?.pop()?;
        let mut product =
            Product { convolution, finish: Finish::None, operands: 2, result: sums, rest: None };
        if let Some((next, further)) = rest.split_first()
            && let Some(finish) = Finish::of(next, &product.result)
        {
            product.operands += finish.operands();
            let own = inputs.get(2..product.operands)?;
            let types: Vec<&TensorType> =
                std::iter::once(&product.result).chain(own.iter().copied()).collect();
            product.result = next.infer(&types).ok()?.pop()?;
            product.finish = finish;
            rest = further;
        }
        product.rest = match rest {
            [] => None,
            [op] => Some(op.clone()),
            ops => Some(Op::Chain(Chain { ops: ops.to_vec() })),
        };
        // Offsets in the working memory are 32-bit.
        (product.own_scratch_bytes() < 1 << 31).then_some(product)
    }

    /// Estimate of instructions.
    fn instructions(&self, level: Level, inputs: &[&TensorType], outputs: &[&TensorType]) -> u64 {
        let finish = self.result.count() as u64 * FINISH;
        let products = self.convolution.multiplications() as u64 * level.product_thousandths();
        let rest = self.rest.as_ref();
        let rest = rest.map_or(0, |op| trainc_c::cycles(op, &self.rest_inputs(inputs), outputs));
        CALL + products / 1000 + finish + rest
    }

    fn own_scratch_bytes(&self) -> usize {
        match self.convolution.pass {
            Pass::Gradient => GradientProduct::new(&self.convolution).scratch_bytes(),
            Pass::Forward | Pass::Error => WindowProduct::new(&self.convolution).scratch_bytes(),
        }
    }

    fn rest_inputs<'a>(&'a self, inputs: &[&'a TensorType]) -> Vec<&'a TensorType> {
        std::iter::once(&self.result).chain(inputs[self.operands..].iter().copied()).collect()
    }

    fn scratch_bytes(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> usize {
        let own = self.own_scratch_bytes();
        match &self.rest {
            None => own,
            Some(rest) => {
                let rest = loop_scratch_bytes(rest, &self.rest_inputs(inputs), outputs);
                buffer_bytes(&self.result).next_multiple_of(16) + own.max(rest)
            }
        }
    }

    /// The product's own function.
    fn function(&self, name: &str, level: Level) -> String {
        let mut out = Text::default();
        let result = if self.finish == Finish::None { "int32_t" } else { "int8_t" };
        let bits = if self.finish.operands() > 0 { "const int32_t *x2, " } else { "" };
        out.long(format!(
            "static void {name}(const int8_t *x0, const int32_t *x0_exponent, const int8_t *x1, const int32_t *x1_exponent, {bits}{result} *y0, int32_t *y0_exponent, uint8_t *scratch)"
        ));
        out.open("{");
        if level == Level::Dispatch {
            out.line("const struct trainc_level *const level = trainc_level();");
        }
        match self.convolution.pass {
            Pass::Gradient => {
                GradientProduct::new(&self.convolution).emit(level, self.finish, &mut out);
            }
            Pass::Forward | Pass::Error => {
                WindowProduct::new(&self.convolution).emit(level, self.finish, &mut out);
            }
        }
        out.close();
        out.finish()
    }
}

/// Working memory of a kernel that starts with a product; `None` for others.
pub(crate) fn scratch_bytes(
    op: &Op,
    inputs: &[&TensorType],
    outputs: &[&TensorType],
) -> Option<usize> {
    Some(Product::of(op, inputs)?.scratch_bytes(inputs, outputs))
}

/// The function of a kernel that starts with a product; `None` for others.
///
/// # Errors
/// If loops behind the product cannot be printed.
pub(crate) fn kernel(level: Level, name: &str, kernel: &Kernel) -> Result<Option<String>, String> {
    let (inputs, outputs) = (kernel.input_types(), kernel.output_types());
    let Some(product) = Product::of(&kernel.op, &inputs) else { return Ok(None) };
    let Some(rest) = &product.rest else {
        return Ok(Some(product.function(name, level)));
    };
    let rest_inputs = product.rest_inputs(&inputs);
    let loops = rest.lower(&rest_inputs, &outputs);
    let whole = kernel.op.lower(&inputs, &outputs);
    let mut text = product.function(&format!("{name}_product"), level);
    text.push('\n');
    text.push_str(&trainc_c::function(&format!("{name}_rest"), &loops)?);
    text.push('\n');
    text.push_str(&both(name, &product, &loops, &whole));
    Ok(Some(text))
}

/// The function that calls the product and the loops behind it.
fn both(name: &str, product: &Product, loops: &LoopKernel, whole: &LoopKernel) -> String {
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
        let ty = trainc_c::element_type(buffer.element);
        parameters.push(format!("{constant}{ty} *{}", variable(&buffer.role)));
    }
    parameters.push("uint8_t *scratch".into());
    out.long(format!("static void {name}({})", parameters.join(", ")));
    out.open("{");
    let element = trainc_c::element_type(product.result.element);
    out.line(format!("{element} *const t0 = ({element} *)(void *)scratch;"));
    out.line(format!(
        "int32_t *const t0_exponent = (int32_t *)(void *)(scratch + {});",
        scale_offset(&product.result)
    ));
    let offset = buffer_bytes(&product.result).next_multiple_of(16);
    let bits = if product.finish.operands() > 0 { "x2, " } else { "" };
    out.long(format!(
        "{name}_product(x0, x0_exponent, x1, x1_exponent, {bits}t0, t0_exponent, scratch + {offset});"
    ));
    let mut arguments: Vec<String> = Vec::new();
    for buffer in loops.buffers.iter().filter(|b| b.role != Role::Scratch) {
        arguments.push(match &buffer.role {
            Role::Input(0) => "t0".into(),
            Role::InputScale(0) => "t0_exponent".into(),
            Role::Input(i) => variable(&Role::Input(i + product.operands - 1)),
            Role::InputScale(i) => variable(&Role::InputScale(i + product.operands - 1)),
            role => variable(role),
        });
    }
    if loops.buffers.iter().any(|b| b.role == Role::Scratch) {
        arguments.push(format!("scratch + {offset}"));
    }
    out.long(format!("{name}_rest({});", arguments.join(", ")));
    out.close();
    out.finish()
}
