//! Which kernels of a program are pools that [`kernels`](crate::kernels) has, and their glue: a C function that calls
//! the assembly and keeps the exponent.

use trainc_ir::ops::{MaxPool2d, MaxPool2dGradient};
use trainc_ir::{Element, Op, Scale, TensorType};

use crate::kernels::Pool;
use crate::machine::MachineError;
use crate::products::Glue;

/// Packets of a vector, forward.
const FORWARD: u64 = 6;
/// Packets of a vector's gradient.
const GRADIENT: u64 = 16;
/// Packets of a call with its masked stores.
const CALL: u64 = 60;

/// A pool or its gradient. Neither takes working memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pooling {
    pool: Pool,
    gradient: bool,
}

impl Pooling {
    /// The pool that an operation is; `None` if its loops serve.
    pub(crate) fn of(op: &Op, inputs: &[&TensorType]) -> Option<Pooling> {
        let (gradient, window) = match op {
            Op::MaxPool2d(MaxPool2d { kernel, strides, pads, dilations, ceil }) => {
                (false, (kernel, strides, pads, dilations, ceil))
            }
            Op::MaxPool2dGradient(MaxPool2dGradient { kernel, strides, pads, dilations, ceil }) => {
                (true, (kernel, strides, pads, dilations, ceil))
            }
            _ => return None,
        };
        let x = inputs.first()?;
        if window != (&[2, 2], &[2, 2], &[0; 4], &[1, 1], &false)
            || !inputs.iter().all(|ty| ty.element == Element::I8 && ty.scale == Scale::Exponent)
        {
            return None;
        }
        let &[images, channels, height, width] = &x.shape[..] else { return None };
        let pool = Pool { planes: images * channels, height, width };
        pool.is_supported().then_some(Pooling { pool, gradient })
    }

    /// An estimate of its packets.
    pub(crate) fn packets(&self) -> u64 {
        let each = if self.gradient { GRADIENT } else { FORWARD };
        self.pool.vectors(self.gradient) as u64 * each + CALL
    }

    /// Everything for the kernel of that name; `head` is its C function's `static void name(...)`.
    pub(crate) fn glue(&self, name: &str, head: &str) -> Result<Glue, MachineError> {
        let own = format!("{name}_pool");
        let ((function, table), parameters, call, from) = match self.gradient {
            false => (self.pool.forward(&own)?, "const int8_t *x, int8_t *y", "x0, y0", "x0"),
            true => (
                self.pool.gradient(&own)?,
                "const int8_t *x, const int8_t *dy, int8_t *dx",
                "x0, x1, y0",
                "x1",
            ),
        };
        let scratch = if head.contains("scratch") { "    (void)scratch;\n" } else { "" };
        let source = format!(
            "void {own}({parameters});\n\n{head}\n{{\n{scratch}    {own}({call});\n    \
             y0_exponent[0] = {from}_exponent[0];\n}}\n"
        );
        Ok(Glue { functions: vec![function], tables: table.assembly(), source })
    }
}
