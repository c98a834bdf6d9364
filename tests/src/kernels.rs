//! Single kernels of a target.

use trainc_ir::program::Kernel;
use trainc_ir::target::Target;
use trainc_ir::{Op, TensorType};

/// An operation on operands of these types as a target runs it.
///
/// # Panics
/// If it does not type.
pub fn kernel(target: &dyn Target, name: &str, op: &Op, inputs: &[&TensorType]) -> Kernel {
    let outputs = op.infer(inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
    let inputs = inputs.iter().map(|&ty| ty.clone()).collect();
    Kernel::new(name, op.clone(), inputs, outputs, |signature| target.select(signature))
}

/// Its C.
///
/// # Panics
/// If it cannot be printed.
pub fn text(kernel: &Kernel) -> String {
    let printed = trainc_c::in_c(kernel).and_then(|own| own.emit(&kernel.name, kernel));
    printed.unwrap_or_else(|e| panic!("{}: {e}", kernel.name)).text
}

/// Whether the target has a kernel of its own for it.
pub fn is_tuned(kernel: &Kernel) -> bool {
    kernel.selection.name() != "loops"
}
