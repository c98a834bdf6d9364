//! What surrounds the products of planes: operands into frames, weights into words, results out of frames.

use super::plane_product::{PlaneProduct, ROWS};
use super::pool::store;
use super::product::VECTOR;
use super::support::{loop_over, zero_vector};
use super::weight_gradient::word;
use super::weights::WeightStrides;
use crate::machine::{Builder, Class, Function, MachineError, Object, Opcode, Register};

/// 128 in all bytes: zero in a frame.
const ZEROS: i32 = 0x8080_8080_u32.cast_signed();

/// Moves a pointer on.
pub(super) fn advance(b: &mut Builder, pointer: Register, bytes: usize) {
    if bytes > 0 {
        b.emit_to(pointer, Opcode::AddImmediate, (pointer, word(bytes)));
    }
}

impl PlaneProduct {
    /// `void frames(x, frames)`: `[image][channel][row][column]` i8 to frames. Reads up to 127 bytes beyond the end of `x`.
    pub(super) fn frames(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose(
            "Puts four channels of a position side by side, 128 added, with zeros between rows.",
        );
        let (x, to) = (b.parameter(0), b.parameter(1));
        let memory = (b.object("x"), b.object("frames"));
        let flip = b.constant(ZEROS);
        let flip = b.emit(Opcode::VsplatW, (flip,));
        let shuffles = [-1, -2].map(|unit| b.constant(unit));
        let [height, width] = self.input;
        let plane = height * width;
        // Bytes beyond a row.
        let inside = (width < VECTOR).then(|| {
            let columns = b.constant(word(width));
            b.emit(Opcode::Vsetq, (columns,))
        });
        let fill = |b: &mut Builder, place: Register, vectors: usize| {
            loop_over(b, vectors, "zeros", |b| {
                b.store(Opcode::StoreVUnaligned, (place, 0, flip), memory.1);
                advance(b, place, VECTOR);
            });
        };
        let quad = |b: &mut Builder, channels: usize| {
            let first = 4 * self.first_word();
            let place = b.copy(to);
            fill(b, place, first.div_ceil(VECTOR));
            let place = b.emit(Opcode::AddImmediate, (to, word(first)));
            let from: Vec<Register> =
                (0..channels).map(|k| b.emit(Opcode::AddImmediate, (x, word(k * plane)))).collect();
            loop_over(b, height, "rows", |b| {
                let mut rows = [flip; 4];
                for (row, &from) in rows.iter_mut().zip(&from) {
                    let bytes = b.load(Opcode::LoadVUnaligned, (from, 0), memory.0);
                    advance(b, from, width);
                    let bytes = b.emit(Opcode::Vxor, (bytes, flip));
                    *row = match inside {
                        Some(inside) => b.emit(Opcode::Vmux, (inside, bytes, flip)),
                        None => bytes,
                    };
                }
                let words = quads_of(b, rows, shuffles, width.div_ceil(32));
                for at in 0..self.row_vectors() {
                    let words = words.get(at).copied().unwrap_or(flip);
                    let operands = (place, word(at), words);
                    b.store(Opcode::StoreVUnaligned, operands, memory.1);
                }
                advance(b, place, 4 * self.pitch());
            });
            let behind = self.first_word() + (height - 1) * self.pitch() + width;
            let place = b.emit(Opcode::AddImmediate, (to, word(4 * behind)));
            fill(b, place, (4 * (self.frame_words() - behind)).div_ceil(VECTOR));
            advance(b, to, 4 * self.frame_words());
            advance(b, x, channels * plane);
        };
        loop_over(&mut b, self.images, "images", |b| {
            loop_over(b, self.channels / 4, "quads of channels", |b| quad(b, 4));
            if !self.channels.is_multiple_of(4) {
                quad(b, self.channels % 4);
            }
        });
        b.finish(None)
    }

    /// `void pack(weights, packed weights, working memory)`, all aligned to 128 bytes.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn pack_weights(
        &self,
        name: &str,
        strides: &WeightStrides,
    ) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 3);
        b.purpose(
            "Puts weights of four channels and features side by side; -128 times their sums.",
        );
        let (weights, starts) = (b.parameter(0), b.parameter(1));
        let memory = (b.object("copy"), b.object("packed weights"), b.object("weights"));
        // Of a copy, more may be read than there is.
        let source = b.parameter(2);
        let place = b.copy(source);
        loop_over(&mut b, self.plain_weight_bytes().div_ceil(VECTOR), "128 weights", |b| {
            let bytes = b.load(Opcode::LoadVNext, (weights, 1), memory.2);
            b.store(Opcode::StoreVNext, (place, 1, bytes), memory.0);
        });
        let to = b.emit(Opcode::AddImmediate, (starts, word(self.start_bytes())));
        let zero = b.fresh(Class::V);
        zero_vector(&mut b, zero);
        let ones = b.constant(0x0101_0101);
        let ones = b.emit(Opcode::VsplatW, (ones,));
        let shuffles = [-1, -2].map(|unit| b.constant(unit));
        let words = [-4, -8].map(|unit| b.constant(unit));
        let seven = b.constant(7);
        let taps = self.tap_count();
        let group = |b: &mut Builder, rows: usize, features: usize| {
            // Words of a tap lie side by side.
            let tap_bytes = 4 * rows;
            let (whole, rest) = (taps * tap_bytes / VECTOR, taps * tap_bytes % VECTOR);
            let inside = (rest > 0).then(|| {
                let bytes = b.constant(word(rest));
                b.emit(Opcode::Vsetq, (bytes,))
            });
            let sum = b.fresh(Class::V);
            b.emit_to(sum, Opcode::Vassign, (zero,));
            let from = b.copy(source);
            let quad = |b: &mut Builder, channels: usize| {
                let mut all = [zero; ROWS];
                for (feature, all) in all.iter_mut().enumerate().take(features) {
                    let mut lanes = [zero; 4];
                    for (channel, lanes) in lanes.iter_mut().enumerate().take(channels) {
                        let at = feature * strides.feature + channel * strides.channel;
                        let at = b.emit(Opcode::AddImmediate, (from, word(at)));
                        *lanes = b.load(Opcode::LoadVUnaligned, (at, 0), memory.0);
                    }
                    *all = quads_of(b, lanes, shuffles, 1)[0];
                }
                let low = b.emit(Opcode::Vshuff, (all[1], all[0], words[0]));
                let vectors = if rows == 2 {
                    vec![low.low(), low.high()]
                } else {
                    let high = b.emit(Opcode::Vshuff, (all[3], all[2], words[0]));
                    let first = b.emit(Opcode::Vshuff, (high.low(), low.low(), words[1]));
                    let second = b.emit(Opcode::Vshuff, (high.high(), low.high(), words[1]));
                    vec![first.low(), first.high(), second.low(), second.high()]
                };
                for (at, &vector) in
                    vectors.iter().enumerate().take((whole * VECTOR + rest).div_ceil(VECTOR))
                {
                    b.store(Opcode::StoreVUnaligned, (to, word(at), vector), memory.1);
                    let counted = match inside {
                        Some(inside) if at == whole => b.emit(Opcode::Vmux, (inside, vector, zero)),
                        _ => vector,
                    };
                    b.update(Opcode::VrmpyUbBvAccumulate, (sum, ones, counted));
                }
                advance(b, to, taps * tap_bytes);
                advance(b, from, 4 * strides.channel);
            };
            loop_over(b, self.channels / 4, "quads of channels", |b| quad(b, 4));
            if !self.channels.is_multiple_of(4) {
                quad(b, self.channels % 4);
            }
            if self.quads() * taps < self.steps() {
                b.store(Opcode::StoreVUnaligned, (to, 0, zero), memory.1);
                advance(b, to, tap_bytes);
            }
            let mut sum = sum;
            let mut distance = tap_bytes;
            while distance < VECTOR {
                let turn = b.constant(word(distance));
                let turned = b.emit(Opcode::Vror, (sum, turn));
                sum = b.emit(Opcode::VaddW, (sum, turned));
                distance *= 2;
            }
            let sum = b.emit(Opcode::VaslW, (sum, seven));
            let start = b.emit(Opcode::VsubW, (zero, sum));
            b.store(Opcode::StoreVUnaligned, (starts, 0, start), memory.1);
            advance(b, starts, tap_bytes);
            advance(b, source, ROWS * strides.feature);
        };
        let groups = self.groups();
        let full = self.features / ROWS;
        loop_over(&mut b, full, "groups of features", |b| group(b, ROWS, ROWS));
        if full < groups.len() {
            group(&mut b, groups[full], self.features % ROWS);
        }
        b.finish(None)
    }

    /// `void rows(bytes, dense, y)`: rows of results without what lies between them.
    pub(super) fn put_rows(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 3);
        b.purpose("Puts rows one behind the other.");
        let (bytes, dense, y) = (b.parameter(0), b.parameter(1), b.parameter(2));
        let memory = (b.object("bytes"), b.object("dense"), b.object("y"));
        let [rows, columns] = self.output;
        let to = b.copy(dense);
        let plane = self.vectors() * 32;
        loop_over(&mut b, self.images, "images", |b| {
            let from = b.copy(bytes);
            loop_over(b, self.features, "features", |b| {
                let row = b.copy(from);
                loop_over(b, rows, "rows", |b| {
                    let vector = b.load(Opcode::LoadVUnaligned, (row, 0), memory.0);
                    b.store(Opcode::StoreVUnaligned, (to, 0, vector), memory.1);
                    advance(b, row, self.pitch());
                    advance(b, to, columns);
                });
                advance(b, from, plane);
            });
            advance(b, bytes, self.image_positions());
        });
        copy_all(&mut b, [dense, y], (memory.1, memory.2), self.result_bytes());
        b.finish(None)
    }
}

/// Four vectors' bytes side by side, as so many vectors.
pub(super) fn quads_of(
    b: &mut Builder,
    rows: [Register; 4],
    [bytes, halves]: [Register; 2],
    count: usize,
) -> Vec<Register> {
    let low = b.emit(Opcode::Vshuff, (rows[1], rows[0], bytes));
    let high = b.emit(Opcode::Vshuff, (rows[3], rows[2], bytes));
    let first = b.emit(Opcode::Vshuff, (high.low(), low.low(), halves));
    let mut words = vec![first.low(), first.high()];
    if count > 2 {
        let second = b.emit(Opcode::Vshuff, (high.high(), low.high(), halves));
        words.extend([second.low(), second.high()]);
    }
    words.truncate(count);
    words
}

/// `void rows(bytes, dense, y)`: the first bytes of so many rows, one behind the other; reads and writes up to 127 bytes behind
/// the bytes and the dense ones.
pub(super) fn put_rows(
    name: &str,
    rows: usize,
    pitch: usize,
    columns: usize,
) -> Result<Function, MachineError> {
    let mut b = Builder::new(name, 3);
    b.purpose("Puts rows one behind the other.");
    let (bytes, dense, y) = (b.parameter(0), b.parameter(1), b.parameter(2));
    let memory = (b.object("bytes"), b.object("dense"), b.object("y"));
    let row = b.copy(dense);
    loop_over(&mut b, rows, "rows", |b| {
        let (from, to) = (b.copy(bytes), b.copy(row));
        loop_over(b, columns.div_ceil(VECTOR), "128 results", |b| {
            let vector = b.load(Opcode::LoadVUnalignedNext, (from, 1), memory.0);
            b.store(Opcode::StoreVUnalignedNext, (to, 1, vector), memory.1);
        });
        advance(b, bytes, pitch);
        advance(b, row, columns);
    });
    copy_all(&mut b, [dense, y], (memory.1, memory.2), rows * columns);
    b.finish(None)
}

/// Copies bytes between aligned places; reads up to 127 bytes more.
fn copy_all(b: &mut Builder, [from, to]: [Register; 2], memory: (Object, Object), size: usize) {
    loop_over(b, size / VECTOR, "128 results", |b| {
        let vector = b.load(Opcode::LoadVNext, (from, 1), memory.0);
        b.store(Opcode::StoreVNext, (to, 1, vector), memory.1);
    });
    if !size.is_multiple_of(VECTOR) {
        let vector = b.load(Opcode::LoadV, (from, 0), memory.0);
        store(b, to, memory.1, 0..size % VECTOR, vector);
    }
}
