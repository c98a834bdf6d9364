//! Weights in the order that products read: `[block][tap][quad][vector of the block][32 lanes][4 channels]`, as unsigned
//! bytes with 128 added.

use super::kernel::DataObject;
use super::product::{LANES, WindowProduct};
use super::support::loop_over;
use super::weight_vectors::VectorPacking;
use crate::machine::{Builder, Function, MachineError, Object, Opcode, Register};

/// Bytes between neighbours in a weight tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WeightStrides {
    /// From a result channel (a lane) to the next.
    pub feature: usize,
    /// From a channel of the sum to the next.
    pub channel: usize,
    /// From a tap to the next.
    pub tap: usize,
}

impl WindowProduct {
    /// `void pack(weights, packed weights)`, both aligned to 128 bytes, and the table that it reads, if any.
    ///
    /// By vectors for an odd number of taps and whole vectors of result channels (see [`super::weight_vectors`]), else
    /// byte by byte.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn pack_weights(
        &self,
        name: &str,
        strides: &WeightStrides,
    ) -> Result<(Function, Option<DataObject>), MachineError> {
        if let Some(packing) = VectorPacking::of(self, strides)
            && let Some((function, table)) = packing.function(name)?
        {
            return Ok((function, Some(table)));
        }
        Ok((self.pack_weight_bytes(name, strides)?, None))
    }

    fn pack_weight_bytes(
        &self,
        name: &str,
        strides: &WeightStrides,
    ) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose("Puts weights, 128 added, in the order of the products.");
        let packer = Packer {
            strides: *strides,
            target: b.parameter(1),
            memory: (b.object("weights"), b.object("packed weights")),
            flip: b.constant(0x8080_8080_u32.cast_signed()),
        };
        let source = b.parameter(0);
        let lanes = LANES * self.block();
        loop_over(&mut b, self.features / lanes, "blocks of result channels", |b| {
            packer.block(b, source, lanes, lanes, self);
            step(b, source, lanes * strides.feature);
        });
        let rest = self.features % lanes;
        if rest > 0 {
            packer.block(&mut b, source, rest, lanes, self);
        }
        b.finish(None)
    }
}

fn step(b: &mut Builder, pointer: Register, bytes: usize) {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    b.emit_to(pointer, Opcode::AddImmediate, (pointer, bytes));
}

struct Packer {
    strides: WeightStrides,
    target: Register,
    memory: (Object, Object),
    flip: Register,
}

impl Packer {
    fn block(
        &self,
        b: &mut Builder,
        source: Register,
        features: usize,
        lanes: usize,
        product: &WindowProduct,
    ) {
        let tap = b.copy(source);
        loop_over(b, product.taps(), "taps", |b| {
            let quad = b.copy(tap);
            loop_over(b, product.channels / 4, "quads of channels", |b| {
                self.quad(b, quad, features, lanes, 4);
                step(b, quad, 4 * self.strides.channel);
            });
            let rest = product.channels % 4;
            if rest > 0 {
                self.quad(b, quad, features, lanes, rest);
            }
            let empty = product.quads() - product.channels.div_ceil(4);
            self.fill(b, empty * lanes);
            step(b, tap, self.strides.tap);
        });
    }

    /// Words of weight 0.
    fn fill(&self, b: &mut Builder, words: usize) {
        loop_over(b, words, "lanes without a weight", |b| {
            b.store(Opcode::StoreWNext, (self.target, 4, self.flip), self.memory.1);
        });
    }

    fn quad(
        &self,
        b: &mut Builder,
        quad: Register,
        features: usize,
        lanes: usize,
        channels: usize,
    ) {
        let feature = b.constant(i32::try_from(self.strides.feature).unwrap_or(i32::MAX));
        let feature = b.emit(Opcode::ModifierFromR, (feature,));
        // One pointer a channel.
        let pointers: Vec<Register> = (0..channels)
            .map(|channel| {
                let offset = i32::try_from(channel * self.strides.channel).unwrap_or(i32::MAX);
                b.emit(Opcode::AddImmediate, (quad, offset))
            })
            .collect();
        loop_over(b, features, "lanes", |b| {
            let bytes: Vec<Register> = pointers
                .iter()
                .map(|&pointer| b.load(Opcode::LoadUbStep, (pointer, feature), self.memory.0))
                .collect();
            // Bytes to halves, halves to the word.
            for pair in bytes.chunks_exact(2) {
                b.update(Opcode::InsertBits, (pair[0], pair[1], 8, 8));
            }
            if let Some(&upper) = bytes.get(2) {
                b.update(Opcode::InsertBits, (bytes[0], upper, 16, 16));
            }
            let word = b.emit(Opcode::Xor, (bytes[0], self.flip));
            b.store(Opcode::StoreWNext, (self.target, 4, word), self.memory.1);
        });
        self.fill(b, lanes - features);
    }
}
