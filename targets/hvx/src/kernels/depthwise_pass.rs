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

impl SheetPass<'_> {
    /// `int kernel(planes, kernels, result, working memory)`: requantises; returns the shift. `sums` makes
    /// `int sums(vectors in order, words, sums)`, which returns the bits of the magnitudes, with the table that it reads; `order`
    /// is that of the rounded sums' bytes.
    pub(super) fn kernel(
        &self,
        name: &str,
        sums: impl FnOnce(&str) -> Result<(Function, DataObject), MachineError>,
        (bits, low): (u8, i8),
        order: Order,
    ) -> Result<Kernel, MachineError> {
        let phase_name = |phase: &str| format!("{name}_{phase}");
        let [x, weights, y] = [0, 1, 2].map(Argument::Parameter);
        let (operand, result) = (self.operand, self.result);
        let mut scratch = Scratch::default();
        let words = scratch.take(self.words.bytes());
        let results = scratch.take(4 * result.sheet.bytes());
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
        let magnitudes = Argument::Result(phases.len());
        phases.push(Phase { function: sums, arguments: vec![from, words, results] });
        let vectors = 4 * result.sheet.all_vectors();
        let round = requantize_to(&phase_name("requantize"), vectors, bits, low, order)?;
        phases.push(Phase { function: round, arguments: vec![results, to, magnitudes] });
        if !operand.is_ordered() {
            let function = result.function(&phase_name("order"), true)?;
            phases.push(Phase { function, arguments: vec![to, y] });
        }
        Ok(Kernel {
            name: name.into(),
            purpose: "Each channel by its own kernel, requantised by the largest magnitude.".into(),
            parameters: 3,
            scratch_bytes: scratch.bytes,
            phases,
            helpers: Vec::new(),
            data: vec![words_table, table],
        })
    }

    /// `void kernel(planes, kernels, sums, working memory)`. `sums` makes `void sums(vectors in order, words, sums)`, whose sums
    /// lie as bytes would, with the table that it reads.
    pub(super) fn wide_kernel(
        &self,
        name: &str,
        sums: impl FnOnce(&str) -> Result<(Function, DataObject), MachineError>,
    ) -> Result<Kernel, MachineError> {
        let phase_name = |phase: &str| format!("{name}_{phase}");
        let [x, weights, y] = [0, 1, 2].map(Argument::Parameter);
        let (operand, result) = (self.operand, self.result.wide());
        let mut scratch = Scratch::default();
        let words = scratch.take(self.words.bytes());
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
        phases.push(Phase { function: sums, arguments: vec![from, words, to] });
        if !operand.is_ordered() {
            let function = result.function(&phase_name("order"), true)?;
            phases.push(Phase { function, arguments: vec![to, y] });
        }
        Ok(Kernel {
            name: name.into(),
            purpose: "Each channel by its own kernel, in 32 bits.".into(),
            parameters: 3,
            scratch_bytes: scratch.bytes,
            phases,
            helpers: Vec::new(),
            data: vec![words_table, table],
        })
    }
}
