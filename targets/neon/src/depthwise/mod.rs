//! Depthwise convolutions of 8-bit integers, forward and both gradients, as loops that fill vectors.
//!
//! The generic lowering asks at each element which taps lie inside. Here a plane is copied once, widened to 16 bits, with
//! its padding; with a stride of 2, even and odd rows and columns go to planes of their own, so that every tap reads
//! neighbours. What follows has no edges, and the loop vectoriser does the rest.

mod lowering;
mod plane;

use std::fmt::Write as _;

use trainc_c::{CKernel, Emitted, element_type};
use trainc_ir::implementation::{Cost, Implementation, Signature};
use trainc_ir::loops::builder::LoopBuilder;
use trainc_ir::loops::{BufferParameter, LoopKernel, Role};
use trainc_ir::ops::Chain;
use trainc_ir::product::{Convolution, Product};
use trainc_ir::program::Kernel;
use trainc_ir::target::{SCRATCH_ALIGNMENT, loop_scratch};
use trainc_ir::{Op, Scale, TensorType};

use crate::level::Level;
use crate::loops;

/// A kernel that starts with a depthwise convolution.
#[derive(Debug)]
pub(crate) struct Depthwise {
    level: Level,
    product: LoopKernel,
    /// What follows, on the sums and the kernel's further operands.
    finish: Option<Finish>,
    /// The kernel's parameters.
    parameters: Vec<BufferParameter>,
    cycles: u64,
}

#[derive(Debug)]
struct Finish {
    kernel: LoopKernel,
    in_place: bool,
    sums: TensorType,
}

impl Depthwise {
    /// The name for readers.
    pub(crate) const NAME: &str = "depthwise planes";

    /// The depthwise convolution that a kernel starts with; `None` if it starts with something else.
    ///
    /// # Errors
    /// Why there is no such kernel for it.
    pub(crate) fn of(level: Level, signature: &Signature<'_>) -> Option<Result<Depthwise, String>> {
        let product = Product::of(signature.ops(), signature.inputs, |_| false)?;
        let convolution = match product.as_ref().map(Product::convolution) {
            Ok(Ok(convolution)) if convolution.is_depthwise() => convolution,
            _ => return None,
        };
        let product = product.and_then(Product::of_bytes);
        Some(product.and_then(|product| Depthwise::new(level, signature, &product, &convolution)))
    }

    fn new(
        level: Level,
        signature: &Signature<'_>,
        product: &Product,
        convolution: &Convolution,
    ) -> Result<Depthwise, String> {
        let Signature { inputs, outputs, .. } = *signature;
        let sums = &product.sums;
        let finish = match &signature.ops()[1..] {
            [] => None,
            rest => {
                let op = match rest {
                    [op] => op.clone(),
                    several => Op::Chain(Chain { ops: several.to_vec() }),
                };
                let types: Vec<&TensorType> =
                    std::iter::once(sums).chain(inputs[2..].iter().copied()).collect();
                let in_place = loops::in_place(&op, types.len());
                let kernel = loops::lower(&op, &types, outputs);
                Some(Finish { kernel, in_place, sums: sums.clone() })
            }
        };
        let product = lowering::product(convolution, &inputs[..2], sums)?;
        let random =
            finish.iter().any(|f| f.kernel.buffers.iter().any(|b| b.role == Role::RunContext));
        let parameters = LoopBuilder::new(inputs, outputs, random).finish().buffers;
        let finished = finish.as_ref().map_or(0, |finish| loops::cycles(level, &finish.kernel));
        let cycles = loops::cycles(level, &product) + finished;
        Ok(Depthwise { level, product, finish, parameters, cycles })
    }

    /// Offsets of the sums, their exponent, and the working memory of the parts; the total.
    fn places(&self) -> [usize; 4] {
        let own = loop_scratch(&self.product).1;
        match &self.finish {
            None => [0, 0, 0, own],
            Some(finish) => {
                let aligned = |bytes: usize| bytes.next_multiple_of(SCRATCH_ALIGNMENT);
                let exponent = aligned(4 * finish.sums.count());
                let inner = exponent + SCRATCH_ALIGNMENT;
                [0, exponent, inner, inner + own.max(loop_scratch(&finish.kernel).1)]
            }
        }
    }
}

impl Implementation for Depthwise {
    fn name(&self) -> &'static str {
        Depthwise::NAME
    }

    fn cost(&self) -> Cost {
        Cost::new(self.cycles)
    }

    fn scratch_bytes(&self) -> usize {
        self.places()[3]
    }
}

impl CKernel for Depthwise {
    fn emit(&self, name: &str, _: &Kernel) -> Result<Emitted, String> {
        function(self, name).map(Emitted::from)
    }
}

/// The `static void` function of that name and those it calls.
fn function(depthwise: &Depthwise, name: &str) -> Result<String, String> {
    let level = depthwise.level;
    let Some(finish) = &depthwise.finish else {
        return loops::function(level, name, &depthwise.product, false);
    };
    let (product_name, finish_name) = (format!("{name}_product"), format!("{name}_finish"));
    let mut text = loops::function(level, &product_name, &depthwise.product, false)?;
    text.push('\n');
    text.push_str(&loops::function(level, &finish_name, &finish.kernel, finish.in_place)?);
    let [_, exponent, inner, _] = depthwise.places();
    let has_exponent = finish.sums.scale == Scale::Exponent;
    let mut parameters: Vec<String> = depthwise
        .parameters
        .iter()
        .map(|b| {
            let constant = if matches!(b.role, Role::Output(_) | Role::OutputScale(_)) {
                ""
            } else {
                "const "
            };
            format!("{constant}{} *{}", element_type(b.element), b.name)
        })
        .collect();
    parameters.push("uint8_t *scratch".into());
    // The operand of the kernel that is operand `i` of what follows the product.
    let of_role = |role: &Role| {
        let found = depthwise.parameters.iter().find(|b| b.role == *role);
        found.map(|b| b.name.clone()).ok_or_else(|| format!("no parameter {role:?}"))
    };
    let arguments = |kernel: &LoopKernel, of: &dyn Fn(&Role) -> Result<String, String>| {
        let buffers = kernel.buffers.iter().filter(|b| b.role != Role::Scratch);
        let mut arguments: Vec<String> = buffers.map(|b| of(&b.role)).collect::<Result<_, _>>()?;
        if kernel.buffers.iter().any(|b| b.role == Role::Scratch) {
            arguments.push(format!("scratch + {inner}"));
        }
        Ok::<String, String>(arguments.join(", "))
    };
    let product = arguments(&depthwise.product, &|role| match role {
        Role::Output(_) => Ok("sums".into()),
        Role::OutputScale(_) => Ok("sums_exponent".into()),
        role => of_role(role),
    })?;
    let finished = arguments(&finish.kernel, &|role| match role {
        Role::Input(0) => Ok("sums".into()),
        Role::InputScale(0) => Ok("sums_exponent".into()),
        Role::Input(i) => of_role(&Role::Input(i + 1)),
        Role::InputScale(i) => of_role(&Role::InputScale(i + 1)),
        role => of_role(role),
    })?;
    let mut body = Vec::new();
    body.push("int32_t *const sums = (int32_t *)(void *)scratch;".to_string());
    if has_exponent {
        body.push(format!(
            "int32_t *const sums_exponent = (int32_t *)(void *)(scratch + {exponent});"
        ));
    }
    body.push(format!("{product_name}({product});"));
    body.push(format!("{finish_name}({finished});"));
    let _ = write!(text, "\n{}", function_text(name, &parameters, &body));
    Ok(text)
}

/// A function of plain statements, its long lines broken after commas.
fn function_text(name: &str, parameters: &[String], body: &[String]) -> String {
    let mut text = broken(0, &format!("static void {name}({})", parameters.join(", ")));
    text.push_str("{\n");
    body.iter().for_each(|line| text.push_str(&broken(4, line)));
    text.push_str("}\n");
    text
}

fn broken(indent: usize, line: &str) -> String {
    const COLUMNS: usize = 100;
    let (mut text, mut column) = (" ".repeat(indent), indent);
    for (i, word) in line.split(' ').enumerate() {
        if i > 0 && column + 1 + word.len() > COLUMNS {
            text.push('\n');
            text.push_str(&" ".repeat(indent + 4));
            column = indent + 4;
        } else if i > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += word.len();
    }
    text.push('\n');
    text
}
