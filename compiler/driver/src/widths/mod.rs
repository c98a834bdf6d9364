//! The widths of blocks that a training has chosen, tensor by tensor: how many bits, what they cost, and a picture.

mod picture;

use std::collections::BTreeMap;

use trainc_ir::harness::launches;
use trainc_ir::ops::properties::Property;
use trainc_ir::program::{BufferId, Program, Region};
use trainc_ir::{Op, Tensor};

use crate::bench::multiplications;
use crate::error::{Context, Result};
use crate::session::TRAIN_STEP;

pub use picture::svg;

/// Bits that a block may have.
pub const WIDTHS: [u32; 5] = [0, 2, 4, 6, 8];

/// The blocks of a tensor.
#[derive(Clone, PartialEq, Debug)]
pub struct WidthMap {
    /// The state that holds their widths.
    pub name: String,
    /// Blocks along each axis of the tensor.
    pub grid: Vec<usize>,
    /// Bits of each block, row by row.
    pub bits: Vec<u32>,
    /// Bits of its elements in the mean.
    pub mean_bits: f64,
    /// Multiplications of a training step that it is an operand of.
    pub macs: u64,
    /// These in passes over bits: each times the bits of both operands, of 8 by 8. A machine that multiplies bit by bit would need so many
    /// multiplications' time.
    pub bit_serial_macs: f64,
}

impl WidthMap {
    /// The share of blocks that have each of [`WIDTHS`].
    pub fn shares(&self) -> [f64; 5] {
        let all = self.bits.len().max(1) as f64;
        WIDTHS.map(|width| self.bits.iter().filter(|bits| **bits == width).count() as f64 / all)
    }

    /// Those of a program whose widths are state, in the order of its training step; none of any other program.
    ///
    /// # Errors
    /// If it has no training step, or the state is not this program's.
    pub fn of(program: &Program, state: &[(String, Tensor)]) -> Result<Vec<WidthMap>> {
        let entry = program.entry(TRAIN_STEP).context("no training step")?;
        let mut maps: Vec<WidthMap> = Vec::new();
        let mut places: BTreeMap<BufferId, usize> = BTreeMap::new();
        // Operands of products: which map, and the bits of one that has none.
        let mut quantized: BTreeMap<BufferId, (Option<usize>, f64)> = BTreeMap::new();
        for launch in launches(entry) {
            let kernel = program.kernel(launch.kernel);
            let operands: Vec<(Option<usize>, f64)> =
                launch.inputs.iter().take(2).filter_map(|id| quantized.get(id).copied()).collect();
            if let [a, b] = operands[..] {
                let macs = multiplications(kernel);
                for map in [a.0, b.0].into_iter().flatten() {
                    maps[map].macs += macs;
                    maps[map].bit_serial_macs += macs as f64 * a.1 * b.1 / 64.0;
                }
            }
            let kept = match (&kernel.op, launch.inputs.get(1)) {
                (Op::QuantizeBlocks(op), Some(id)) => {
                    let (name, own) =
                        state_of(program, *id, state).context("not this program's state")?;
                    let x = &kernel.inputs[0].shape;
                    let mean = op.mean_bits(x, own).context("not this program's state")?;
                    let place = *places.entry(*id).or_insert_with(|| {
                        maps.push(WidthMap {
                            name: name.clone(),
                            grid: own.shape().to_vec(),
                            bits: op.bits_of_blocks(own),
                            mean_bits: mean,
                            macs: 0,
                            bit_serial_macs: 0.0,
                        });
                        maps.len() - 1
                    });
                    Some((Some(place), mean))
                }
                (Op::QuantizeBlocks(op), None) => Some((None, f64::from(op.bits))),
                (op, _) if op.kind().has(Property::Moves) => {
                    launch.inputs.first().and_then(|id| quantized.get(id)).copied()
                }
                _ => None,
            };
            // Integers, and steps beside them.
            for (at, id) in launch.outputs.iter().enumerate() {
                match kept.filter(|_| at == 0) {
                    Some(kept) => quantized.insert(*id, kept),
                    None => quantized.remove(id),
                };
            }
        }
        Ok(maps)
    }
}

/// What a buffer of state holds, of all of the state in order.
pub(crate) fn state_of<'s, T>(program: &Program, id: BufferId, state: &'s [T]) -> Option<&'s T> {
    match program.buffer(id).region {
        Region::State { index, .. } => state.get(index),
        _ => None,
    }
}
