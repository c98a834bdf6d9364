//! What products cost whose operands have the precision that each example chose.

use std::collections::BTreeMap;

use trainc_ir::Op;
use trainc_ir::program::{BufferId, Kernel};

/// The bits of a value in each option of a block.
#[derive(Clone, Debug)]
struct Bits {
    block: usize,
    options: Vec<f64>,
}

/// Follows values whose examples chose their precision through the launches of a step.
#[derive(Default)]
pub(super) struct Choosing {
    /// Steps between levels.
    steps: BTreeMap<BufferId, Bits>,
    /// Values.
    values: BTreeMap<BufferId, Bits>,
    /// For each option of each block, the weighted multiplications of one example.
    pub(super) each: Vec<Vec<f64>>,
}

impl Choosing {
    /// Counts a launch's multiplications, of so many examples, if a precision of an operand was chosen; `shares` are bits over 32 of
    /// operands whose were not.
    pub(super) fn count(
        &mut self,
        operands: &[BufferId],
        (macs, batch): (u64, usize),
        shares: &[f64],
    ) -> bool {
        let own: Vec<Option<&Bits>> =
            operands.iter().take(2).map(|id| self.values.get(id)).collect();
        let Some(first) = own.iter().flatten().next() else { return false };
        if macs == 0 {
            return true;
        }
        let (block, options) = (first.block, first.options.len());
        self.each.resize(self.each.len().max(block + 1), Vec::new());
        let mut sums = vec![0.0; options];
        for (k, sum) in sums.iter_mut().enumerate() {
            let share = |(own, fixed): (&Option<&Bits>, &f64)| match own {
                Some(bits) => bits.options[k] / 32.0,
                None => *fixed,
            };
            let share: f64 = own.iter().zip(shares).map(share).product();
            *sum = macs as f64 / batch.max(1) as f64 * share;
        }
        let each = &mut self.each[block];
        each.resize(options, 0.0);
        each.iter_mut().zip(sums).for_each(|(all, own)| *all += own);
        true
    }

    /// Notes what a launch's results are.
    pub(super) fn follow(&mut self, kernel: &Kernel, operands: &[BufferId], results: &[BufferId]) {
        let (mut step, mut value) = (None, None);
        let ops = match &kernel.op {
            Op::Chain(chain) => &chain.ops[..],
            op => std::slice::from_ref(op),
        };
        let first = operands.first();
        if let [Op::ChosenStep(op)] = ops {
            let options = op.of.steps.iter().map(|&steps| ((steps + 1) as f64).log2()).collect();
            step = Some(Bits { block: op.of.block, options });
        } else if ops.iter().any(|op| matches!(op, Op::QuantizeSteps(_))) {
            value = operands.iter().skip(1).find_map(|id| self.steps.get(id)).cloned();
        } else if ops.iter().all(affine) {
            // Numbers of an example times one, plus one: as many levels as before.
            let few = |ty: &trainc_ir::TensorType| {
                ty.count() <= kernel.inputs[0].shape.first().copied().unwrap_or(1)
            };
            let same = kernel.inputs.iter().skip(1).all(few);
            value = first.filter(|_| same).and_then(|id| self.values.get(id)).cloned();
        }
        for id in results {
            self.steps.remove(id);
            self.values.remove(id);
            step.iter().for_each(|bits| {
                self.steps.insert(*id, bits.clone());
            });
            value.iter().for_each(|bits| {
                self.values.insert(*id, bits.clone());
            });
        }
    }
}

/// Whether an operation keeps how many different numbers there are, or moves them.
fn affine(op: &Op) -> bool {
    use trainc_ir::ops::properties::Property;
    matches!(op, Op::Dequantize(_) | Op::Mul(_) | Op::Add(_)) || op.kind().has(Property::Moves)
}
