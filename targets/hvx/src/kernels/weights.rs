//! Weights in the order that products read: `[block][tap][quad][vector of the block][32 lanes][4 channels]`, as unsigned
//! bytes with 128 added.

use super::kernel::DataObject;
use super::product::{LANES, VECTOR, WindowProduct};
use super::support::loop_over;
use super::weight_gradient::word;
use super::weight_vectors::VectorPacking;
use crate::machine::{Builder, Function, MachineError, Object, Opcode, Register};

/// Packets of four rows of weights that are less than a vector each.
const NARROW_ROWS: usize = 15;
/// Most groups of 128 result channels that are interleaved in straight code.
const MOST_GROUPS: usize = 8;

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
    /// `void pack(weights, packed weights, working memory)`, all aligned to 128 bytes, and the table that it reads, if any;
    /// the working memory is of [`Self::packing_bytes`].
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
        if let Some(function) = self.pack_weight_rows(name, strides)? {
            return Ok((function, None));
        }
        Ok((self.pack_weight_bytes(name, strides)?, None))
    }

    /// Bytes of working memory that the packing of weights takes.
    #[must_use]
    pub fn packing_bytes(&self, strides: &WeightStrides) -> usize {
        VectorPacking::of(self, strides).map_or(0, |packing| packing.memory_bytes())
    }

    /// An estimate of the packets of a packing by vectors or by rows of less than one, if there is one.
    #[must_use]
    pub fn packing_packets(&self, strides: &WeightStrides) -> Option<usize> {
        let narrow = self.has_weight_rows(strides) && self.features < VECTOR;
        let rows = narrow.then(|| self.quads() * NARROW_ROWS);
        VectorPacking::of(self, strides).map(|packing| packing.packets()).or(rows)
    }

    /// Whether weights are of one tap, and those of four channels rows of result channels side by side.
    fn has_weight_rows(&self, strides: &WeightStrides) -> bool {
        let side_by_side = strides.feature == 1 && strides.channel == self.features;
        side_by_side && self.taps() == 1 && self.channels.is_multiple_of(4)
    }

    /// Weights of one tap whose result channels lie side by side (the error of a fully connected layer, or of a convolution by
    /// windows of 1): 128 of four rows at a time are interleaved to words. The last of a row end with it, so that nothing behind it
    /// is read. Rows of less than a vector are read with those behind them, the last ones as the end of the last whole vector.
    fn pack_weight_rows(
        &self,
        name: &str,
        strides: &WeightStrides,
    ) -> Result<Option<Function>, MachineError> {
        let WindowProduct { channels, features, .. } = *self;
        let groups = features.div_ceil(VECTOR);
        if !self.has_weight_rows(strides) || features / VECTOR > MOST_GROUPS {
            return Ok(None);
        }
        let mut b = Builder::new(name, 3);
        b.purpose(
            "Puts weights, 128 added, in the order of the products, 128 of four rows at a time.",
        );
        let (source, target) = (b.parameter(0), b.parameter(1));
        let memory = (b.object("weights"), b.object("packed weights"));
        let flip = b.constant(0x8080_8080_u32.cast_signed());
        let flip = b.emit(Opcode::VsplatW, (flip,));
        let [bytes, halves] = [-1, -2].map(|of| b.constant(of));
        let block = self.block();
        let place =
            |vector: usize| (vector / block * self.quads() * block + vector % block) * VECTOR;
        let store = |b: &mut Builder, vector: usize, y: Register| {
            let to = b.emit(Opcode::AddImmediate, (target, word(place(vector))));
            b.store(Opcode::StoreV, (to, 0, y), memory.1);
        };
        let partial = (features % LANES > 0).then(|| {
            let lanes = b.constant(word(4 * (features % LANES)));
            b.emit(Opcode::Vsetq, (lanes,))
        });
        // Where the last vector of the weights begins, if a row is less than one.
        let last = (features < VECTOR).then(|| {
            let readable = (channels * features).next_multiple_of(VECTOR);
            b.emit(Opcode::AddImmediate, (source, word(readable - VECTOR)))
        });
        loop_over(&mut b, channels / 4, "quads of channels", |b| {
            for group in 0..groups {
                let first = (group * VECTOR).min(features.saturating_sub(VECTOR));
                let turn = group * VECTOR - first;
                let turn = (turn > 0).then(|| b.constant(word(turn)));
                let rows: Vec<Register> = (0..4)
                    .map(|row| {
                        let at = word(row * features + first);
                        let at = b.emit(Opcode::AddImmediate, (source, at));
                        if let Some(last) = last {
                            let from = b.emit(Opcode::MinU, (at, last));
                            let turn = b.emit(Opcode::Sub, (at, from));
                            let y = b.load(Opcode::LoadVUnaligned, (from, 0), memory.0);
                            return b.emit(Opcode::Vror, (y, turn));
                        }
                        let y = b.load(Opcode::LoadVUnaligned, (at, 0), memory.0);
                        match turn {
                            Some(turn) => b.emit(Opcode::Vror, (y, turn)),
                            None => y,
                        }
                    })
                    .collect();
                let low = b.emit(Opcode::Vshuff, (rows[1], rows[0], bytes));
                let high = b.emit(Opcode::Vshuff, (rows[3], rows[2], bytes));
                let words = [
                    b.emit(Opcode::Vshuff, (high.low(), low.low(), halves)),
                    b.emit(Opcode::Vshuff, (high.high(), low.high(), halves)),
                ];
                let words = words.iter().flat_map(|pair| [pair.low(), pair.high()]);
                for (vector, y) in (4 * group..self.vectors()).zip(words) {
                    let mut y = b.emit(Opcode::Vxor, (y, flip));
                    if let Some(partial) = partial.filter(|_| vector + 1 == self.vectors()) {
                        y = b.emit(Opcode::Vmux, (partial, y, flip));
                    }
                    store(b, vector, y);
                }
            }
            step(b, source, 4 * features);
            step(b, target, block * VECTOR);
        });
        loop_over(&mut b, self.quads() - channels / 4, "quads without a channel", |b| {
            (0..self.vectors()).for_each(|vector| store(b, vector, flip));
            step(b, target, block * VECTOR);
        });
        b.finish(None).map(Some)
    }

    fn pack_weight_bytes(
        &self,
        name: &str,
        strides: &WeightStrides,
    ) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 3);
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
        // Side by side they are a word.
        let WeightStrides { feature: apart, channel, .. } = self.strides;
        if channels == 4 && channel == 1 && apart.is_multiple_of(4) {
            let pointer = b.copy(quad);
            loop_over(b, features, "lanes", |b| {
                let word = b.load(Opcode::LoadWStep, (pointer, feature), self.memory.0);
                let word = b.emit(Opcode::Xor, (word, self.flip));
                b.store(Opcode::StoreWNext, (self.target, 4, word), self.memory.1);
            });
            self.fill(b, lanes - features);
            return;
        }
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
