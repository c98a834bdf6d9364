//! Depthwise convolutions of 8-bit integers, forward and both gradients, as loops that fill vectors.
//!
//! The generic lowering asks at each element which taps lie inside. Here a plane is copied once, widened to 16 bits, with
//! its padding; with a stride of 2, even and odd rows and columns go to planes of their own, so that every tap reads
//! neighbours. What follows has no edges, and the loop vectoriser does the rest.

mod lowering;
mod plane;

use std::fmt::Write as _;

use trainc_c::element_type;
use trainc_ir::loops::builder::LoopBuilder;
use trainc_ir::loops::{BufferParameter, LoopKernel, Role};
use trainc_ir::ops::Chain;
use trainc_ir::program::Kernel;
use trainc_ir::target::{SCRATCH_ALIGNMENT, loop_scratch};
use trainc_ir::{Op, Scale, TensorType};

use crate::level::Level;
use crate::loops;

/// A kernel that starts with a depthwise convolution.
struct Depthwise {
    product: LoopKernel,
    /// What follows, on the sums and the kernel's further operands.
    finish: Option<Finish>,
    /// The kernel's parameters.
    parameters: Vec<BufferParameter>,
}

struct Finish {
    kernel: LoopKernel,
    in_place: bool,
    sums: TensorType,
}

impl Depthwise {
    fn of(op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> Option<Depthwise> {
        let (first, rest) = match op {
            Op::Chain(chain) => chain.ops.split_first()?,
            op => (op, &[][..]),
        };
        let operands = inputs.get(..2)?;
        let [sums] = <[TensorType; 1]>::try_from(first.infer(operands).ok()?).ok()?;
        let product = lowering::product(first, operands, &sums)?;
        let finish = match rest {
            [] => None,
            rest => {
                let op = match rest {
                    [op] => op.clone(),
                    several => Op::Chain(Chain { ops: several.to_vec() }),
                };
                let types: Vec<&TensorType> =
                    std::iter::once(&sums).chain(inputs[2..].iter().copied()).collect();
                let results = op.infer(&types).ok()?;
                if results.iter().ne(outputs.iter().copied()) {
                    return None;
                }
                let in_place = loops::in_place(&op, types.len());
                Some(Finish {
                    kernel: loops::lower(&op, &types, outputs),
                    in_place,
                    sums: sums.clone(),
                })
            }
        };
        let random =
            finish.iter().any(|f| f.kernel.buffers.iter().any(|b| b.role == Role::RunContext));
        let parameters = LoopBuilder::new(inputs, outputs, random).finish().buffers;
        Some(Depthwise { product, finish, parameters })
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

/// Working memory of a kernel that starts with a depthwise convolution, in bytes.
pub fn scratch_bytes(op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> Option<usize> {
    Depthwise::of(op, inputs, outputs).map(|depthwise| depthwise.places()[3])
}

/// The text of a kernel that starts with a depthwise convolution: its `static void` function and those it calls.
///
/// # Errors
/// If the printer refuses.
pub(crate) fn kernel(level: Level, name: &str, kernel: &Kernel) -> Result<Option<String>, String> {
    function(level, name, &kernel.op, &kernel.input_types(), &kernel.output_types())
}

/// The kernel of an operation on some types.
///
/// # Errors
/// If the printer refuses.
pub fn function(
    level: Level,
    name: &str,
    op: &Op,
    inputs: &[&TensorType],
    outputs: &[&TensorType],
) -> Result<Option<String>, String> {
    let Some(depthwise) = Depthwise::of(op, inputs, outputs) else { return Ok(None) };
    let Some(finish) = &depthwise.finish else {
        return loops::function(level, name, &depthwise.product, false).map(Some);
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
    Ok(Some(text))
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
