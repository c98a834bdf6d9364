//! How the host runs a kernel: as stages of vector kernels and loops, or as one loop kernel.

use std::sync::OnceLock;

use trainc_ir::implementation::{Cost, Implementation, Selection, Signature, Ways};
use trainc_ir::program::Kernel;
use trainc_ir::{Op, TensorType};

use crate::HostError;
use crate::codegen;
use crate::cost;
use crate::microkernels::MicroKernel;
use crate::staging::{Segment, Staging, Work, of_two, segments};

/// Name of the way by vector kernels.
const VECTORS: &str = "vector kernels";

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct HostKernel {
    op: Op,
    inputs: Vec<TensorType>,
    outputs: Vec<TensorType>,
    cost: Cost,
    has_vectors: bool,
    vector: OnceLock<Option<Staging>>,
    generic: OnceLock<Staging>,
}

impl HostKernel {
    /// A kernel's stages here.
    ///
    /// # Errors
    /// If its program was planned for another target.
    pub(crate) fn of(kernel: &Kernel) -> Result<&HostKernel, HostError> {
        kernel.selection.implementation().ok_or_else(|| {
            HostError::Program(format!("kernel `{}` was planned for another target", kernel.name))
        })
    }

    fn with<T>(&self, f: impl FnOnce(&Signature<'_>) -> T) -> T {
        let inputs: Vec<&TensorType> = self.inputs.iter().collect();
        let outputs: Vec<&TensorType> = self.outputs.iter().collect();
        f(&Signature::new(&self.op, &inputs, &outputs))
    }

    /// The kernel by vector kernels as far as there are any.
    pub(crate) fn vector(&self) -> &Staging {
        let vector = self
            .vector
            .get_or_init(|| self.has_vectors.then(|| self.with(Staging::vector)).flatten());
        vector.as_ref().unwrap_or_else(|| self.generic())
    }

    /// The kernel by its loops.
    pub(crate) fn generic(&self) -> &Staging {
        self.generic.get_or_init(|| self.with(Staging::generic))
    }
}

impl Implementation for HostKernel {
    fn name(&self) -> &'static str {
        if self.has_vectors { VECTORS } else { "loops" }
    }

    fn cost(&self) -> Cost {
        self.cost
    }

    fn scratch_bytes(&self) -> usize {
        // One plan serves the program by vector kernels and by loops.
        self.vector().scratch_bytes.max(self.generic().scratch_bytes)
    }

    fn scalar_loops(&self) -> Vec<String> {
        let loops = self.vector().stages.iter().filter_map(|stage| {
            let Work::Loop(op) = &stage.work else { return None };
            Some(codegen::scalar_loops(&stage.lower(op)))
        });
        loops.flatten().collect()
    }
}

/// How the host runs an operation.
pub(crate) fn select(signature: &Signature<'_>) -> Selection {
    let mut ways = Ways::default();
    let (mut cost, mut has_vectors) = (Cost::INFEASIBLE, false);
    if signature.outputs.len() == 1 {
        if let Some(Err(reason)) = MicroKernel::of(signature.ops(), signature.inputs) {
            ways.ask::<()>(VECTORS, Some(Err(reason)));
        }
        if let Some(segments) = segments(signature.ops(), signature.inputs) {
            cost = Cost::new(cost::cycles(&segments));
            has_vectors = segments.iter().any(Segment::is_vector);
        }
    } else if let Some(kernel) = of_two(signature) {
        cost = Cost::new(cost::launch_cycles(&kernel.passes()));
        has_vectors = true;
    } else {
        cost = Cost::new(cost::loop_cycles(signature));
    }
    let owned = |types: &[&TensorType]| types.iter().map(|&ty| ty.clone()).collect();
    ways.take(HostKernel {
        op: signature.op.clone(),
        inputs: owned(signature.inputs),
        outputs: owned(signature.outputs),
        cost,
        has_vectors,
        vector: OnceLock::new(),
        generic: OnceLock::new(),
    })
}
