//! Weights of windows of one position to the words of products of planes.
//!
//! Where those of a feature lie side by side (the forward pass), the words of four features are interleaved. Where those of a channel
//! do (the error gradient), bytes of four channels become the words of 32 features; eight of these vectors are transposed by groups
//! of four features. Channels that fill up 32 are zero; what that writes behind a group's words is overwritten by the next group's:
//! the last channels come first.

use super::plane_memory::{advance, quads_of};
use super::plane_product::{PlaneProduct, ROWS};
use super::product::{LANES, VECTOR};
use super::support::{loop_over, zero_vector};
use super::weight_gradient::word;
use super::weights::WeightStrides;
use crate::machine::{Builder, Class, Function, MachineError, Object, Opcode, Register};

/// Vectors that are transposed at once.
const QUADS: usize = 8;
/// Channels and features of these.
const SIDE: usize = 4 * QUADS;
const _: () = assert!(SIDE == LANES, "words of a block's features fill a vector");
/// Packets of 128 channels of four features; of a group besides.
const FORWARD: usize = 10;
const GROUP: usize = 10;
/// Packets of a square of 32 channels and features.
const SQUARE: usize = 80;

/// Which weights lie side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    Features,
    Channels,
}

impl PlaneProduct {
    fn single_tap_rows(&self, strides: &WeightStrides) -> Option<Rows> {
        let single = self.tap_count() == 1 && self.columns.is_none();
        if !single || self.result_parts().len() > 1 {
            return None;
        }
        match (strides.feature, strides.channel) {
            (feature, 1) if feature == self.channels => Some(Rows::Features),
            (1, channel) if channel == self.features && self.features.is_multiple_of(ROWS) => {
                Some(Rows::Channels)
            }
            _ => None,
        }
    }

    /// Bytes of working memory for a copy of the weights with channels of zeros, and what is read behind it.
    pub(super) fn single_tap_bytes(&self) -> usize {
        (self.features * self.channels.next_multiple_of(SIDE)).next_multiple_of(VECTOR) + 2 * VECTOR
    }

    /// An estimate of the packets of [`Self::pack_single_taps`], if it serves.
    pub(super) fn single_tap_packets(&self, strides: &WeightStrides) -> Option<usize> {
        let groups = self.features.div_ceil(ROWS);
        let squares = self.channels.div_ceil(SIDE) * self.features.div_ceil(SIDE);
        let order = match self.single_tap_rows(strides)? {
            Rows::Features => groups * self.channels.div_ceil(VECTOR) * FORWARD,
            Rows::Channels => squares * SQUARE,
        };
        Some(order + groups * GROUP + self.plain_weight_bytes() / VECTOR)
    }

    /// [`Self::pack_weights`] of windows of one position; `None` where the order of the weights is another.
    ///
    /// # Errors
    /// Of the machine layer.
    pub(super) fn pack_single_taps(
        &self,
        name: &str,
        strides: &WeightStrides,
    ) -> Result<Option<Function>, MachineError> {
        let Some(rows) = self.single_tap_rows(strides) else { return Ok(None) };
        let mut b = Builder::new(name, 3);
        b.purpose(
            "Puts weights of four channels and features side by side; -128 times their sums.",
        );
        let (weights, starts, source) = (b.parameter(0), b.parameter(1), b.parameter(2));
        let (copy, packed) = (b.object("copy"), b.object("packed weights"));
        let given = b.object("weights");
        let zero = b.fresh(Class::V);
        zero_vector(&mut b, zero);
        // Of a copy, more may be read than there is.
        let place = b.copy(source);
        loop_over(&mut b, self.plain_weight_bytes().div_ceil(VECTOR), "128 weights", |b| {
            let bytes = b.load(Opcode::LoadVNext, (weights, 1), given);
            b.store(Opcode::StoreVNext, (place, 1, bytes), copy);
        });
        let ones = b.constant(0x0101_0101);
        let packing = Packing {
            product: self,
            source,
            to: b.emit(Opcode::AddImmediate, (starts, word(self.start_bytes()))),
            starts,
            memory: (copy, packed),
            zero,
            ones: b.emit(Opcode::VsplatW, (ones,)),
            seven: b.constant(7),
        };
        match rows {
            Rows::Features => packing.of_features(&mut b),
            Rows::Channels => packing.of_channels(&mut b),
        }
        b.finish(None).map(Some)
    }
}

struct Packing<'a> {
    product: &'a PlaneProduct,
    source: Register,
    to: Register,
    starts: Register,
    /// The copy, and the packed weights.
    memory: (Object, Object),
    zero: Register,
    ones: Register,
    seven: Register,
}

impl Packing<'_> {
    fn add(&self, b: &mut Builder, sum: Register, words: Register) {
        b.update(Opcode::VrmpyUbBvAccumulate, (sum, self.ones, words));
    }

    /// The start values of a group, from sums of words of `rows` features in turn.
    fn start(&self, b: &mut Builder, mut sum: Register, rows: usize) {
        let mut distance = 4 * rows;
        while distance < VECTOR {
            let turn = b.constant(word(distance));
            let turned = b.emit(Opcode::Vror, (sum, turn));
            sum = b.emit(Opcode::VaddW, (sum, turned));
            distance *= 2;
        }
        let start = match self.product.unsigned {
            true => self.zero,
            false => {
                let sum = b.emit(Opcode::VaslW, (sum, self.seven));
                b.emit(Opcode::VsubW, (self.zero, sum))
            }
        };
        b.store(Opcode::StoreVUnaligned, (self.starts, 0, start), self.memory.1);
        advance(b, self.starts, 4 * rows);
    }

    fn of_features(&self, b: &mut Builder) {
        let PlaneProduct { channels, features, .. } = *self.product;
        let units = [-4, -8].map(|unit| b.constant(unit));
        let rest = channels % VECTOR;
        let inside = (rest > 0).then(|| {
            let rest = b.constant(word(rest));
            b.emit(Opcode::Vsetq, (rest,))
        });
        let group = |b: &mut Builder, rows: usize, features: usize| {
            let sum = b.copy(self.zero);
            let from = b.copy(self.source);
            let chunk = |b: &mut Builder, channels: usize| {
                let mut all = [self.zero; ROWS];
                for (feature, all) in all.iter_mut().enumerate().take(features) {
                    let at = word(feature * self.product.channels);
                    let at = b.emit(Opcode::AddImmediate, (from, at));
                    let bytes = b.load(Opcode::LoadVUnaligned, (at, 0), self.memory.0);
                    *all = match inside {
                        Some(inside) if channels < VECTOR => {
                            b.emit(Opcode::Vmux, (inside, bytes, self.zero))
                        }
                        _ => bytes,
                    };
                }
                let low = b.emit(Opcode::Vshuff, (all[1], all[0], units[0]));
                let mut vectors = vec![low.low(), low.high()];
                if rows == ROWS {
                    let high = b.emit(Opcode::Vshuff, (all[3], all[2], units[0]));
                    let first = b.emit(Opcode::Vshuff, (high.low(), low.low(), units[1]));
                    let second = b.emit(Opcode::Vshuff, (high.high(), low.high(), units[1]));
                    vectors = vec![first.low(), first.high(), second.low(), second.high()];
                }
                let bytes = channels.div_ceil(4) * 4 * rows;
                for (at, &vector) in vectors.iter().enumerate().take(bytes.div_ceil(VECTOR)) {
                    b.store(Opcode::StoreVUnaligned, (self.to, word(at), vector), self.memory.1);
                    self.add(b, sum, vector);
                }
                advance(b, self.to, bytes);
                advance(b, from, channels);
            };
            loop_over(b, channels / VECTOR, "128 channels", |b| chunk(b, VECTOR));
            if rest > 0 {
                chunk(b, rest);
            }
            let filling = self.product.packed_steps() - self.product.quads();
            if filling > 0 {
                b.store(Opcode::StoreVUnaligned, (self.to, 0, self.zero), self.memory.1);
                advance(b, self.to, filling * 4 * rows);
            }
            self.start(b, sum, rows);
            advance(b, self.source, ROWS * self.product.channels);
        };
        let (groups, full) = (self.product.groups(), features / ROWS);
        loop_over(b, full, "groups of features", |b| group(b, ROWS, ROWS));
        if full < groups.len() {
            group(b, groups[full], features % ROWS);
        }
    }

    fn of_channels(&self, b: &mut Builder) {
        let PlaneProduct { channels, features, .. } = *self.product;
        let padded = channels.next_multiple_of(SIDE);
        if padded > channels {
            let place = b.emit(Opcode::AddImmediate, (self.source, word(channels * features)));
            let zeros = (padded - channels) * features;
            loop_over(b, zeros.div_ceil(VECTOR), "channels of zeros", |b| {
                b.store(Opcode::StoreVUnaligned, (place, 0, self.zero), self.memory.0);
                advance(b, place, VECTOR);
            });
        }
        let bytes = [-1, -2].map(|unit| b.constant(unit));
        let unit = b.constant(-16);
        let group_bytes = 4 * ROWS * self.product.packed_steps();
        let block = |b: &mut Builder, groups: usize| {
            let sums: Vec<Register> = (0..groups).map(|_| b.copy(self.zero)).collect();
            let last = padded - SIDE;
            let from = b.emit(Opcode::AddImmediate, (self.source, word(last * features)));
            let to = b.emit(Opcode::AddImmediate, (self.to, word(last * ROWS)));
            loop_over(b, padded / SIDE, "32 channels, the last first", |b| {
                let mut vectors: Vec<Register> = (0..QUADS)
                    .map(|quad| {
                        let rows = std::array::from_fn(|row| {
                            let at = word((4 * quad + row) * features);
                            let at = b.emit(Opcode::AddImmediate, (from, at));
                            b.load(Opcode::LoadVUnaligned, (at, 0), self.memory.0)
                        });
                        quads_of(b, rows, bytes, 1)[0]
                    })
                    .collect();
                for bit in [4, 2, 1] {
                    for at in (0..QUADS).filter(|at| at & bit == 0) {
                        let pair = (vectors[at | bit], vectors[at], unit);
                        let pair = b.emit(Opcode::Vshuff, pair);
                        (vectors[at], vectors[at | bit]) = (pair.low(), pair.high());
                    }
                }
                for (group, (&vector, &sum)) in vectors.iter().zip(&sums).enumerate() {
                    let place = b.emit(Opcode::AddImmediate, (to, word(group * group_bytes)));
                    b.store(Opcode::StoreVUnaligned, (place, 0, vector), self.memory.1);
                    self.add(b, sum, vector);
                }
                let back = |b: &mut Builder, pointer: Register, bytes: usize| {
                    b.emit_to(pointer, Opcode::AddImmediate, (pointer, -word(bytes)));
                };
                back(b, from, SIDE * features);
                back(b, to, SIDE * ROWS);
            });
            sums.into_iter().for_each(|sum| self.start(b, sum, ROWS));
            advance(b, self.source, 4 * groups);
            advance(b, self.to, groups * group_bytes);
        };
        let groups = features / ROWS;
        loop_over(b, groups / QUADS, "32 features", |b| block(b, QUADS));
        if !groups.is_multiple_of(QUADS) {
            block(b, groups % QUADS);
        }
    }
}
