//! The phases around the sums of a depthwise convolution whose planes fill vectors, or of its error: kernels as words, planes side
//! by side where several share a vector, then the rounding of the sums, unless they stay wide, and the order of memory again.

use super::depthwise_sheet::Beside;
use super::depthwise_words::KernelWords;
use super::kernel::{Argument, DataObject, Kernel, Phase, Scratch};
use super::requantize::{Order, requantize_to};
use crate::machine::{Function, MachineError};

/// What goes before and after the sums.
pub(super) struct SheetPass<'a> {
    pub(super) words: &'a KernelWords,
    pub(super) operand: &'a Beside,
    pub(super) result: &'a Beside,
}

/// What becomes of sums.
#[derive(Clone, Copy)]
pub(super) enum SheetFinish {
    /// They are brought to so many bits of at least `low`; their bytes have that order.
    Requantize { bits: u8, low: i8, order: Order },
    /// They stay 32 bits wide, and lie as bytes would.
    Wide,
}

impl SheetPass<'_> {
    /// `int kernel(planes, kernels, result, working memory)`: requantises, and returns the shift; or `void kernel(planes, kernels, sums,
    /// working memory)`. `sums` makes `int sums(vectors in order, words, sums)`, which returns the bits of the magnitudes if they are
    /// wanted, with the table that it reads.
    pub(super) fn kernel(
        &self,
        name: &str,
        sums: impl FnOnce(&str) -> Result<(Function, DataObject), MachineError>,
        finish: SheetFinish,
    ) -> Result<Kernel, MachineError> {
        let phase_name = |phase: &str| format!("{name}_{phase}");
        let [x, weights, y] = [0, 1, 2].map(Argument::Parameter);
        let operand = self.operand;
        let mut scratch = Scratch::default();
        let words = scratch.take(self.words.bytes());
        let wide = self.result.wide();
        let (result, sums_bytes) = match finish {
            SheetFinish::Requantize { .. } => (self.result, 4 * self.result.sheet.bytes()),
            SheetFinish::Wide => (&wide, 0),
        };
        let sums_place = scratch.take(sums_bytes);
        let (from, to) = match operand.is_ordered() {
            true => (x, y),
            false => (scratch.take(operand.sheet.bytes()), scratch.take(result.sheet.bytes())),
        };
        let (prepare, words_table) = self.words.function(&phase_name("words"))?;
        let (sums, table) = sums(&phase_name("sums"))?;
        let mut phases = vec![Phase { function: prepare, arguments: vec![weights, words] }];
        if !operand.is_ordered() {
            let function = operand.function(&phase_name("beside"), false)?;
            phases.push(Phase { function, arguments: vec![x, from] });
        }
        let purpose = match finish {
            SheetFinish::Requantize { bits, low, order } => {
                let magnitudes = Argument::Result(phases.len());
                phases.push(Phase { function: sums, arguments: vec![from, words, sums_place] });
                let vectors = 4 * result.sheet.all_vectors();
                let round = requantize_to(&phase_name("requantize"), vectors, bits, low, order)?;
                phases.push(Phase { function: round, arguments: vec![sums_place, to, magnitudes] });
                "Each channel by its own kernel, requantised by the largest magnitude."
            }
            SheetFinish::Wide => {
                phases.push(Phase { function: sums, arguments: vec![from, words, to] });
                "Each channel by its own kernel, in 32 bits."
            }
        };
        if !operand.is_ordered() {
            let function = result.function(&phase_name("order"), true)?;
            phases.push(Phase { function, arguments: vec![to, y] });
        }
        Ok(Kernel {
            name: name.into(),
            purpose: purpose.into(),
            parameters: 3,
            scratch_bytes: scratch.bytes,
            phases,
            helpers: Vec::new(),
            data: vec![words_table, table],
        })
    }
}
