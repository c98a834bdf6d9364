//! Quantized inference: convolutions of 8-, 4- and 2-bit integers with their output stage.
//!
//! One scheme for all: lines of the operand are unpacked to bytes once (`lines`), a tile of 4 filters by up to 4 columns is one
//! instruction list with its output stage (`tile`), and weights lie ahead of time in the order in which the tile unpacks
//! them (`arrange`). What does not fit the cluster's memory comes there piece by piece (`tiled`). Weights that are no
//! constants, and channel groups, go through a plain kernel (`direct`). Max pools take words (`pool`), additions and sum
//! pools four channels (`sums`).

mod arrange;
mod convolution;
mod direct;
mod emit;
mod layout;
mod lines;
mod packed;
mod pool;
mod stage;
mod sums;
mod text;
mod tile;
mod tiled;
mod window;

use trainc_ir::program::Kernel;
use trainc_ir::{Op, Tensor, TensorType};

use crate::family::Family;
use convolution::Convolution;
use emit::Emission;
pub(crate) use pool::Pools;
pub(crate) use sums::Sums;
pub use tile::InnerLoop;

/// `trainc_mixed.h`: what the kernels share.
pub const HEADER: &str = include_str!("../support/trainc_mixed.h");

/// Convolutions of narrow integers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mixed;

impl Family for Mixed {
    fn kernel(&self, name: &str, kernel: &Kernel) -> Result<Option<String>, String> {
        let (inputs, outputs) = (kernel.input_types(), kernel.output_types());
        let Some(convolution) = Convolution::of(&kernel.op, &inputs, &outputs) else {
            return Ok(None);
        };
        Ok(Some(direct::function(name, kernel, &convolution)))
    }

    fn scratch_bytes(
        &self,
        op: &Op,
        inputs: &[&TensorType],
        outputs: &[&TensorType],
    ) -> Option<usize> {
        let convolution = Convolution::of(op, inputs, outputs)?;
        Some(Emission::new(&convolution).map_or(0, |emission| emission.layout.scratch_bytes()))
    }

    fn cycles(&self, op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> Option<u64> {
        let convolution = Convolution::of(op, inputs, outputs)?;
        Some(match Emission::new(&convolution) {
            Some(emission) => emission.cycles(),
            None => convolution.products() * direct::CYCLES,
        })
    }

    fn arranged(&self, kernel: &Kernel, operand: usize, value: &Tensor) -> Option<Vec<u8>> {
        let convolution =
            Convolution::of(&kernel.op, &kernel.input_types(), &kernel.output_types())?;
        let emission = Emission::new(&convolution)?;
        (operand == 1).then(|| arrange::weights(&convolution, &emission.layout, value))
    }

    fn constant_kernel(&self, name: &str, kernel: &Kernel) -> Result<Option<String>, String> {
        let convolution =
            Convolution::of(&kernel.op, &kernel.input_types(), &kernel.output_types());
        let emission = convolution.as_ref().and_then(Emission::new);
        Ok(emission.map(|emission| emission.functions(name, kernel)))
    }
}

/// The innermost loop of a convolution's kernel with constant weights; `None` for what has no such kernel.
pub fn inner_loop(op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> Option<InnerLoop> {
    let convolution = Convolution::of(op, inputs, outputs)?;
    Some(Emission::new(&convolution)?.inner_loop())
}

/// Working memory of a kernel of this family.
fn scratch(kernel: &Kernel) -> usize {
    Mixed.scratch_bytes(&kernel.op, &kernel.input_types(), &kernel.output_types()).unwrap_or(0)
}
