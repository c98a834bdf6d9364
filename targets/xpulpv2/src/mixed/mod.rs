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

use trainc_c::{CKernel, Emitted};
use trainc_ir::Tensor;
use trainc_ir::implementation::{Cost, Implementation, Signature};
use trainc_ir::program::Kernel;

use convolution::Convolution;
use emit::Emission;
pub(crate) use pool::Pool;
pub(crate) use sums::Sum;
pub use tile::InnerLoop;

/// `trainc_mixed.h`: what the kernels share.
pub const HEADER: &str = include_str!("../support/trainc_mixed.h");

/// A convolution of narrow integers.
#[derive(Debug)]
pub(crate) struct Mixed(Convolution);

impl Mixed {
    /// The name for readers.
    pub(crate) const NAME: &str = "narrow convolutions";

    /// See [`Convolution::of`].
    pub(crate) fn of(signature: &Signature<'_>) -> Option<Result<Mixed, String>> {
        Some(Convolution::of(signature)?.map(Mixed))
    }
}

impl Implementation for Mixed {
    fn name(&self) -> &'static str {
        Mixed::NAME
    }

    fn cost(&self) -> Cost {
        Cost::new(match Emission::new(&self.0) {
            Some(emission) => emission.cycles(),
            None => self.0.products() * direct::CYCLES,
        })
    }

    fn scratch_bytes(&self) -> usize {
        Emission::new(&self.0).map_or(0, |emission| emission.layout.scratch_bytes())
    }
}

impl CKernel for Mixed {
    fn emit(&self, name: &str, kernel: &Kernel) -> Result<Emitted, String> {
        Ok(direct::function(name, kernel, &self.0).into())
    }

    fn arranged(&self, operand: usize, value: &Tensor) -> Option<Vec<u8>> {
        let emission = Emission::new(&self.0)?;
        (operand == 1).then(|| arrange::weights(&self.0, &emission.layout, value))
    }

    fn emit_arranged(&self, name: &str, kernel: &Kernel) -> Result<Emitted, String> {
        let emission = Emission::new(&self.0).ok_or("has no form for constants")?;
        Ok(emission.functions(name, kernel).into())
    }
}

/// The innermost loop of a convolution's kernel with constant weights; `None` for what has no such kernel.
pub fn inner_loop(signature: &Signature<'_>) -> Option<InnerLoop> {
    let convolution = Convolution::of(signature)?.ok()?;
    Some(Emission::new(&convolution)?.inner_loop())
}
