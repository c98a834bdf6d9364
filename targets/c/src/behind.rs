//! Loops behind what a kernel of its own does of a sequence of operations: their function, and the one that calls both.

use trainc_ir::implementation::Signature;
use trainc_ir::loops::{LoopKernel, Role};
use trainc_ir::ops::Chain;
use trainc_ir::program::{Kernel, buffer_bytes, scale_offset};
use trainc_ir::target::loop_scratch;
use trainc_ir::types::Scale;
use trainc_ir::{Op, TensorType};

use crate::kernel::lower;
use crate::text::Text;
use crate::{cost, loops};

/// The result of a sequence's first operations, and the loops that take it further.
#[derive(Debug)]
pub struct Behind {
    /// Operands of the first operations.
    operands: usize,
    /// Type of their result.
    result: TensorType,
    loops: Option<LoopKernel>,
}

impl Behind {
    /// What stands behind the first `ops` operations of a sequence, which take the first `operands` and give `result`.
    pub fn of(
        signature: &Signature<'_>,
        ops: usize,
        operands: usize,
        result: &TensorType,
    ) -> Behind {
        let op = match &signature.ops()[ops..] {
            [] => None,
            [op] => Some(op.clone()),
            ops => Some(Op::Chain(Chain { ops: ops.to_vec() })),
        };
        let loops = op.map(|op| {
            let further = signature.inputs[operands..].iter().copied();
            let inputs: Vec<&TensorType> = std::iter::once(result).chain(further).collect();
            op.lower(&inputs, signature.outputs)
        });
        Behind { operands, result: result.clone(), loops }
    }

    /// Cycles of the loops.
    pub fn cycles(&self) -> u64 {
        self.loops.as_ref().map_or(0, cost::loop_cycles)
    }

    /// Working memory, of which the first operations take some themselves.
    pub fn scratch_bytes(&self, own: usize) -> usize {
        match &self.loops {
            None => own,
            Some(rest) => self.offset() + own.max(loop_scratch(rest).1),
        }
    }

    /// Where the working memory of both begins, behind the first result.
    fn offset(&self) -> usize {
        buffer_bytes(&self.result).next_multiple_of(16)
    }

    /// The kernel's function, and before it those that it calls. `first` prints the first operations' function of a name:
    /// its parameters are the kernel's for these operands, `own` results' that follow them, and `scratch`.
    ///
    /// # Errors
    /// If the loops cannot be printed.
    pub fn emit(
        &self,
        name: &str,
        kernel: &Kernel,
        first: impl FnOnce(&str) -> Result<String, String>,
    ) -> Result<String, String> {
        let Some(rest) = &self.loops else { return first(name) };
        let whole = lower(kernel);
        let mut text = first(&format!("{name}_product"))?;
        text.push('\n');
        text.push_str(&loops::function(&format!("{name}_rest"), rest)?);
        text.push('\n');
        text.push_str(&self.both(name, rest, &whole));
        Ok(text)
    }

    /// The function that calls the first operations and the loops behind them.
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
        let mut arguments: Vec<String> = Vec::new();
        for buffer in whole.buffers.iter().filter(|b| b.role != Role::Scratch) {
            let written = matches!(buffer.role, Role::Output(_) | Role::OutputScale(_));
            let constant = if written { "" } else { "const " };
            let ty = loops::element_type(buffer.element);
            parameters.push(format!("{constant}{ty} *{}", variable(&buffer.role)));
            let own = match buffer.role {
                Role::Input(i) | Role::InputScale(i) => i < self.operands,
                _ => false,
            };
            if own {
                arguments.push(variable(&buffer.role));
            }
        }
        parameters.push("uint8_t *scratch".into());
        out.long(format!("static void {name}({})", parameters.join(", ")));
        out.open("{");
        let element = loops::element_type(self.result.element);
        out.line(format!("{element} *const t0 = ({element} *)(void *)scratch;"));
        arguments.push("t0".into());
        if self.result.scale == Scale::Exponent {
            out.line(format!(
                "int32_t *const t0_exponent = (int32_t *)(void *)(scratch + {});",
                scale_offset(&self.result)
            ));
            arguments.push("t0_exponent".into());
        }
        let offset = self.offset();
        arguments.push(format!("scratch + {offset}"));
        out.long(format!("{name}_product({});", arguments.join(", ")));
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
