//! Families of kernels of the target's own. The first that knows a kernel prints it.

use trainc_ir::program::Kernel;
use trainc_ir::{Op, Tensor, TensorType};

use crate::elements::Elements;
use crate::mixed::{Mixed, Pools, Sums};
use crate::products::Products;

/// Kernels that share a scheme. All three functions agree on which operations they know.
pub(crate) trait Family: Sync {
    /// The `static void` function of a kernel, with those it calls before it, as [`trainc_c::Dialect::kernel`] says; `None` for
    /// kernels of others.
    ///
    /// # Errors
    /// If the kernel is one of the family's and cannot be printed.
    fn kernel(&self, name: &str, kernel: &Kernel) -> Result<Option<String>, String>;

    /// Working memory in bytes.
    fn scratch_bytes(
        &self,
        op: &Op,
        inputs: &[&TensorType],
        outputs: &[&TensorType],
    ) -> Option<usize>;

    /// Estimate of cycles on one core.
    fn cycles(&self, op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> Option<u64>;

    /// See [`trainc_c::Dialect::arranged`].
    fn arranged(&self, _kernel: &Kernel, _operand: usize, _value: &Tensor) -> Option<Vec<u8>> {
        None
    }

    /// See [`trainc_c::Dialect::constant_kernel`].
    ///
    /// # Errors
    /// As [`Family::kernel`].
    fn constant_kernel(&self, _name: &str, _kernel: &Kernel) -> Result<Option<String>, String> {
        Ok(None)
    }
}

/// All families, in the order they are asked.
pub(crate) static FAMILIES: &[&dyn Family] = &[&Products, &Mixed, &Pools, &Sums, &Elements];

/// What the first family that knows the operation says.
pub(crate) fn first<T>(f: impl Fn(&dyn Family) -> Option<T>) -> Option<T> {
    FAMILIES.iter().find_map(|family| f(*family))
}
