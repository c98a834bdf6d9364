//! What surrounds the products of planes: operands into frames, weights into words, results out of frames.

use std::ops::Range;

use super::DataObject;
use super::plane_axis::OperandPart;
use super::plane_product::{PlaneProduct, ROWS};
use super::pool::store;
use super::product::{LANES, VECTOR};
use super::support::{loop_over, zero_vector};
use super::weight_gradient::word;
use super::weights::WeightStrides;
use crate::machine::{Builder, Class, Function, MachineError, Object, Opcode, Register};

/// 128 in all bytes: zero in a frame of signed bytes.
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
        b.purpose(match self.unsigned {
            true => "Puts four channels of a position side by side, with zeros between rows.",
            false => {
                "Puts four channels of a position side by side, 128 added, with zeros between rows."
            }
        });
        let (x, to) = (b.parameter(0), b.parameter(1));
        let memory = (b.object("x"), b.object("frames"));
        let flip = b.constant(if self.unsigned { 0 } else { ZEROS });
        let flip = b.emit(Opcode::VsplatW, (flip,));
        let shuffles = [-1, -2].map(|unit| b.constant(unit));
        let words = b.constant(-4);
        let [height, width] = self.input();
        let plane = height * width;
        let [rows, columns] = &self.axes;
        // Bytes beyond a row.
        let inside = (width < VECTOR).then(|| {
            let columns = b.constant(word(width));
            b.emit(Opcode::Vsetq, (columns,))
        });
        let fill = |b: &mut Builder, frame: Register, vectors: Range<usize>| {
            let place = b.emit(Opcode::AddImmediate, (frame, word(vectors.start * VECTOR)));
            loop_over(b, vectors.len(), "zeros", |b| {
                b.store(Opcode::StoreVNext, (place, 1, flip), memory.1);
            });
        };
        // Vectors of a frame that lie before the first row's last and behind the last row's first word.
        let around = |parts: [OperandPart; 2]| {
            let first = self.first_word(parts);
            let rows = parts[0].part.count;
            let behind = if rows == 0 {
                first
            } else {
                first + (rows - 1) * self.pitch() + parts[1].part.count
            };
            [0..first.div_ceil(LANES), behind / LANES..self.frame_words() / LANES]
        };
        let quad = |b: &mut Builder, channels: usize| {
            for row in &rows.operand {
                // The frames of all parts of these rows.
                let frames: Vec<(Register, OperandPart)> = (0..)
                    .zip(&columns.operand)
                    .map(|(at, &column)| {
                        let frame = word(4 * at * self.frame_words());
                        (b.emit(Opcode::AddImmediate, (to, frame)), column)
                    })
                    .collect();
                for &(frame, column) in &frames {
                    around([*row, column]).into_iter().for_each(|vectors| fill(b, frame, vectors));
                }
                let places: Vec<Register> = frames
                    .iter()
                    .map(|&(frame, column)| {
                        let first = word(4 * (self.first_word([*row, column]) - self.lead()));
                        b.emit(Opcode::AddImmediate, (frame, first))
                    })
                    .collect();
                let first = row.part.start * width;
                let from: Vec<Register> = (0..channels)
                    .map(|k| b.emit(Opcode::AddImmediate, (x, word(k * plane + first))))
                    .collect();
                loop_over(b, row.part.count, "rows", |b| {
                    let mut rows = [flip; 4];
                    for (row, &from) in rows.iter_mut().zip(&from) {
                        let mut bytes = b.load(Opcode::LoadVUnaligned, (from, 0), memory.0);
                        advance(b, from, self.axes[0].operand_stride * width);
                        if !self.unsigned {
                            bytes = b.emit(Opcode::Vxor, (bytes, flip));
                        }
                        *row = match inside {
                            Some(inside) => b.emit(Opcode::Vmux, (inside, bytes, flip)),
                            None => bytes,
                        };
                    }
                    if self.columns.is_some() {
                        rows = self.columns_beside(b, rows[0], flip);
                    }
                    let count = (self.lead() + width).div_ceil(LANES);
                    let all = quads_of(b, rows, shuffles, count);
                    let halves: Vec<Register> = match columns.operand_stride {
                        1 => Vec::new(),
                        _ => {
                            let pair = |pair: &[Register]| {
                                let second = pair.get(1).copied().unwrap_or(flip);
                                b.emit(Opcode::Vdeal, (second, pair[0], words))
                            };
                            all.chunks(2).map(pair).collect()
                        }
                    };
                    for (&(_, column), &place) in frames.iter().zip(&places) {
                        let words: Vec<Register> = match (columns.operand_stride, column.part.start)
                        {
                            (1, _) => all.clone(),
                            (_, 0) => halves.iter().map(|half| half.low()).collect(),
                            _ => halves.iter().map(|half| half.high()).collect(),
                        };
                        for at in 0..self.row_vectors() {
                            let words = words.get(at).copied().unwrap_or(flip);
                            let operands = (place, word(at), words);
                            b.store(Opcode::StoreVUnaligned, operands, memory.1);
                        }
                        advance(b, place, 4 * self.pitch());
                    }
                });
                advance(b, to, 4 * columns.operand.len() * self.frame_words());
            }
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
    ) -> Result<(Function, Option<DataObject>), MachineError> {
        if let Some(taps) = self.columns {
            return Ok((self.pack_columns(name, strides, taps)?, None));
        }
        if let Some(function) = self.pack_single_taps(name, strides)? {
            return Ok((function, None));
        }
        let mut b = Builder::new(name, 3);
        b.purpose(
            "Puts weights of four channels and features side by side; -128 times their sums.",
        );
        // Which taps of a group of four features a part of the result has.
        let table = self.part_lanes(&format!("{name}_parts"));
        let (weights, starts) = (b.parameter(0), b.parameter(1));
        let memory = (
            b.object("copy"),
            b.object("packed weights"),
            b.object("weights"),
            b.object("lanes of parts"),
        );
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
            let rest = taps * tap_bytes % VECTOR;
            let inside = (rest > 0).then(|| {
                let bytes = b.constant(word(rest));
                b.emit(Opcode::Vsetq, (bytes,))
            });
            let parts = self.result_parts().len();
            let sums: Vec<Register> = (0..parts).map(|_| b.copy(zero)).collect();
            let from = b.copy(source);
            let lanes = table.as_ref().map(|table| {
                let rows = if rows == ROWS { 0 } else { parts * self.mask_vectors() * VECTOR };
                b.address(&table.symbol, word(rows))
            });
            let some = |b: &mut Builder, channels: usize, first: usize| {
                let mut all = [zero; ROWS];
                for (feature, all) in all.iter_mut().enumerate().take(features) {
                    let mut lanes = [zero; 4];
                    for (channel, lanes) in lanes.iter_mut().enumerate().take(channels) {
                        let at = feature * strides.feature + channel * strides.channel + first;
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
                let count = ((taps - first).min(LANES) * tap_bytes).div_ceil(VECTOR);
                for (at, &vector) in (first * tap_bytes / VECTOR..).zip(&vectors[..count]) {
                    b.store(Opcode::StoreVUnaligned, (to, word(at), vector), memory.1);
                    let counted = match inside {
                        Some(inside) if at == taps * tap_bytes / VECTOR => {
                            b.emit(Opcode::Vmux, (inside, vector, zero))
                        }
                        _ => vector,
                    };
                    let Some(lanes) = lanes else {
                        b.update(Opcode::VrmpyUbBvAccumulate, (sums[0], ones, counted));
                        continue;
                    };
                    for (part, &sum) in sums.iter().enumerate() {
                        let at = word((part * self.mask_vectors() + at) * VECTOR);
                        let place = b.emit(Opcode::AddImmediate, (lanes, at));
                        let mask = b.load(Opcode::LoadV, (place, 0), memory.3);
                        let counted = b.emit(Opcode::Vand, (counted, mask));
                        b.update(Opcode::VrmpyUbBvAccumulate, (sum, ones, counted));
                    }
                }
            };
            // A vector holds that many taps of a channel's words.
            let quad = |b: &mut Builder, channels: usize| {
                (0..taps).step_by(LANES).for_each(|first| some(b, channels, first));
                advance(b, to, taps * tap_bytes);
                advance(b, from, 4 * strides.channel);
            };
            loop_over(b, self.channels / 4, "quads of channels", |b| quad(b, 4));
            if !self.channels.is_multiple_of(4) {
                quad(b, self.channels % 4);
            }
            if self.quads() * taps < self.packed_steps() {
                b.store(Opcode::StoreVUnaligned, (to, 0, zero), memory.1);
                advance(b, to, tap_bytes);
            }
            for mut sum in sums {
                let mut distance = tap_bytes;
                while distance < VECTOR {
                    let turn = b.constant(word(distance));
                    let turned = b.emit(Opcode::Vror, (sum, turn));
                    sum = b.emit(Opcode::VaddW, (sum, turned));
                    distance *= 2;
                }
                let start = match self.unsigned {
                    true => zero,
                    false => {
                        let sum = b.emit(Opcode::VaslW, (sum, seven));
                        b.emit(Opcode::VsubW, (zero, sum))
                    }
                };
                b.store(Opcode::StoreVUnaligned, (starts, 0, start), memory.1);
                advance(b, starts, tap_bytes);
            }
            advance(b, source, ROWS * strides.feature);
        };
        let groups = self.groups();
        let full = self.features / ROWS;
        loop_over(&mut b, full, "groups of features", |b| group(b, ROWS, ROWS));
        if full < groups.len() {
            group(&mut b, groups[full], self.features % ROWS);
        }
        Ok((b.finish(None)?, table))
    }

    /// A row's bytes and those of the columns behind them, from a few columns before the row on: four lanes of words.
    fn columns_beside(&self, b: &mut Builder, row: Register, flip: Register) -> [Register; 4] {
        let lead = self.lead();
        std::array::from_fn(|k| match k.cmp(&lead) {
            std::cmp::Ordering::Less => {
                b.emit(Opcode::VlalignImmediate, (row, flip, word(lead - k)))
            }
            std::cmp::Ordering::Equal => row,
            std::cmp::Ordering::Greater => {
                b.emit(Opcode::ValignImmediate, (flip, row, word(k - lead)))
            }
        })
    }

    /// [`Self::pack_weights`] of a single channel whose words are of four taps of a row.
    fn pack_columns(
        &self,
        name: &str,
        strides: &WeightStrides,
        taps: usize,
    ) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 3);
        b.purpose("Puts weights of four taps and features side by side; -128 times their sums.");
        let (weights, starts) = (b.parameter(0), b.parameter(1));
        let memory = (b.object("weights"), b.object("packed weights"));
        let to = b.emit(Opcode::AddImmediate, (starts, word(self.start_bytes())));
        let zero = b.fresh(Class::V);
        zero_vector(&mut b, zero);
        let group = |b: &mut Builder, rows: usize, features: usize| {
            let bytes = 4 * rows * self.packed_steps();
            let place = b.copy(to);
            loop_over(b, bytes.div_ceil(VECTOR), "zeros", |b| {
                b.store(Opcode::StoreVUnaligned, (place, 0, zero), memory.1);
                advance(b, place, VECTOR);
            });
            for feature in 0..features {
                let from = b.emit(Opcode::AddImmediate, (weights, word(feature * strides.feature)));
                let place = b.emit(Opcode::AddImmediate, (to, word(4 * feature)));
                let none = b.zero();
                let sum = b.copy(none);
                loop_over(b, self.axes[0].taps, "rows of taps", |b| {
                    for tap in 0..taps {
                        let w = b.load(Opcode::LoadB, (from, word(tap)), memory.0);
                        b.emit_to(sum, Opcode::Add, (sum, w));
                        let at = tap / 4 * rows * 4 + tap % 4;
                        b.store(Opcode::StoreB, (place, word(at), w), memory.1);
                    }
                    advance(b, from, taps);
                    advance(b, place, self.axes[1].taps * rows * 4);
                });
                let start = match self.unsigned {
                    true => none,
                    false => {
                        let sum = b.emit(Opcode::ShiftLeftImmediate, (sum, 7));
                        b.emit(Opcode::Sub, (none, sum))
                    }
                };
                b.store(Opcode::StoreW, (starts, word(4 * feature), start), memory.1);
            }
            // Features that fill up the group have sums of zero.
            for feature in features..rows {
                let none = b.zero();
                b.store(Opcode::StoreW, (starts, word(4 * feature), none), memory.1);
            }
            advance(b, weights, rows * strides.feature);
            advance(b, to, bytes);
            advance(b, starts, 4 * rows);
        };
        let groups = self.groups();
        let full = self.features / ROWS;
        loop_over(&mut b, full, "groups of features", |b| group(b, ROWS, ROWS));
        if full < groups.len() {
            group(&mut b, groups[full], self.features % ROWS);
        }
        b.finish(None)
    }

    /// Vectors of a group's weights of four channels and all taps.
    fn mask_vectors(&self) -> usize {
        (self.tap_count() * ROWS).div_ceil(LANES)
    }

    /// Which words of four channels' weights are of taps that a part of the result has: `[part][tap][feature]` of four features, then
    /// of two. Of a single part there is none, as it has all.
    fn part_lanes(&self, symbol: &str) -> Option<DataObject> {
        let parts = self.result_parts();
        let of_group = |rows: usize| {
            let lanes = parts.iter().flat_map(move |&part| {
                let taps = self.taps_of(part);
                let has = move |lane: usize| taps.iter().any(|&(tap, _)| tap == lane / rows);
                (0..self.mask_vectors() * LANES).map(move |lane| -i32::from(has(lane)))
            });
            lanes.collect::<Vec<i32>>()
        };
        (parts.len() > 1).then(|| DataObject {
            symbol: symbol.into(),
            words: [of_group(ROWS), of_group(2)].concat(),
        })
    }

    /// `void rows(bytes, dense, y)`: rows of results without what lies between them.
    pub(super) fn put_rows(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 3);
        b.purpose("Puts rows one behind the other.");
        let (bytes, dense, y) = (b.parameter(0), b.parameter(1), b.parameter(2));
        let memory = (b.object("bytes"), b.object("dense"), b.object("y"));
        let [_, columns] = self.output();
        let to = b.copy(dense);
        let [down, _] = &self.axes;
        let bytes_unit = b.constant(-1);
        // Rows that fill a vector, if all of them do, side by side: then results are stored where they belong.
        let whole = self.rows_of_vector();
        let turn = b.constant(word(columns));
        loop_over(&mut b, self.images, "images", |b| {
            let from = b.copy(bytes);
            loop_over(b, self.features, "features", |b| {
                let parts = self.parts_of_plane(b, from, 1);
                let take = |b: &mut Builder, row: &[Register]| {
                    let mut vectors: Vec<Register> = row
                        .iter()
                        .map(|&part| b.load(Opcode::LoadVUnaligned, (part, 0), memory.0))
                        .collect();
                    row.iter().for_each(|&part| advance(b, part, self.pitch()));
                    if let [even, odd] = vectors[..] {
                        vectors = vec![b.emit(Opcode::Vshuff, (odd, even, bytes_unit)).low()];
                    }
                    vectors[0]
                };
                let put = |b: &mut Builder, row: &[Register]| {
                    let bytes = take(b, row);
                    b.store(Opcode::StoreVUnaligned, (to, 0, bytes), memory.1);
                    advance(b, to, columns);
                };
                if let Some(rows) = whole {
                    loop_over(b, down.output / rows, "rows of a vector", |b| {
                        // Each row comes in from the end.
                        let mut all = take(b, &parts[0]);
                        if rows > 1 {
                            all = b.emit(Opcode::Valign, (all, all, turn));
                        }
                        for row in 1..rows {
                            let next = take(b, &parts[row % parts.len()]);
                            all = b.emit(Opcode::Valign, (next, all, turn));
                        }
                        b.store(Opcode::StoreVNext, (y, 1, all), memory.2);
                    });
                    advance(b, from, self.feature_vectors() * LANES);
                    return;
                }
                self.each_row(b, &parts, put);
                advance(b, from, self.feature_vectors() * LANES);
            });
            advance(b, bytes, self.image_positions());
        });
        if whole.is_none() {
            copy_all(&mut b, [dense, y], (memory.1, memory.2), self.result_bytes());
        }
        b.finish(None)
    }

    /// Where the parts of a plane of results of so many bytes begin: of each part of the rows, those of the columns.
    pub(super) fn parts_of_plane(
        &self,
        b: &mut Builder,
        from: Register,
        bytes: usize,
    ) -> Vec<Vec<Register>> {
        let [down, across] = self.axes.each_ref().map(|axis| axis.result.len());
        let part = self.vectors() * LANES * bytes;
        let mut place = |at: usize| b.emit(Opcode::AddImmediate, (from, word(at * part)));
        (0..down)
            .map(|row| (0..across).map(|column| place(row * across + column)).collect())
            .collect()
    }

    /// Puts the rows of a plane, of each part of the rows in turn.
    pub(super) fn each_row(
        &self,
        b: &mut Builder,
        parts: &[Vec<Register>],
        put: impl Fn(&mut Builder, &[Register]),
    ) {
        let [down, _] = &self.axes;
        // The first part has a row more than the last, if any.
        let both = down.result.iter().map(|result| result.part.count).min().unwrap_or(0);
        loop_over(b, both, "rows", |b| parts.iter().for_each(|row| put(b, row)));
        if down.longest() > both {
            put(b, &parts[0]);
        }
    }

    /// How many rows of a plane of results fill a vector, if all its rows do.
    pub(super) fn rows_of_vector(&self) -> Option<usize> {
        let ([rows, columns], [down, _]) = (self.output(), &self.axes);
        let fits = VECTOR.is_multiple_of(columns)
            && rows.is_multiple_of(VECTOR / columns)
            && (VECTOR / columns).is_multiple_of(down.result.len());
        fits.then_some(VECTOR / columns)
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
