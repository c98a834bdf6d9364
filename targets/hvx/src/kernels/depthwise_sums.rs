//! Sums of a depthwise convolution: each row of a kernel is a word of four weights, or two, by which the double
//! multiplication of sliding words makes 128 sums, four products each, in two packets.

use super::depthwise::Sweep;
use super::depthwise_pack::{moved, step};
use super::depthwise_wide::in_order;
use super::kernel::DataObject;
use super::pool::{VECTOR, number};
use super::support::{loop_over, or_lanes, zero_vector};
use crate::machine::{Builder, Class, Function, MachineError, Object, Opcode, Register};

/// Fewest vectors of a walk whose sums are stored in any order: more rounds overlap then, which short walks pay for in their first
/// and last rounds.
const LONG: usize = 5;

/// Most vectors of a walk that are written out: the loop around them then runs several rounds at a time.
const WRITTEN_OUT: usize = 4;

impl Sweep {
    /// `int sums(padded planes, kernels, sums)`: the bitwise or of the magnitudes of all windows' sums; and the table that
    /// it reads. Of wide sums nothing is returned.
    pub(super) fn sums(&self, name: &str) -> Result<(Function, Option<DataObject>), MachineError> {
        let mut b = Builder::new(name, 3);
        b.purpose("Sums of each channel by its own kernel.");
        let (planes, weights, sums) = (b.parameter(0), b.parameter(1), b.parameter(2));
        let (object, kernels) = (b.object("planes"), b.object("kernels"));
        let (result, constant) = (b.object("sums"), b.object("table"));
        // Lanes that are no windows are left out at the end: they are the same in all vectors.
        let all = (!self.wide).then(|| [(); 4].map(|()| b.fresh(Class::V)));
        all.iter().flatten().for_each(|&all| zero_vector(&mut b, all));
        let turns: Vec<Register> = match self.turns() {
            true => (1..=self.words()).map(|word| b.constant(number(4 * word))).collect(),
            false => Vec::new(),
        };
        // What the 128 of each position adds is taken off.
        let bias = (!self.unsigned).then(|| {
            let bias = b.constant(-128);
            b.emit(Opcode::VsplatB, (bias,))
        });
        let taps = self.vertical.taps * self.horizontal.taps;
        let tile = self.tile();
        // One walk over all images, or over the rows of each.
        let (walks, count, distance, last) = match tile.images {
            1 => {
                let last = (self.vertical.output - tile.rows) * self.window_row();
                (self.images, self.vectors_of_image(), tile.rows * self.window_row(), last)
            }
            images => {
                let last = (self.images - images) * self.plane();
                (1, self.vectors(), images * self.plane(), last)
            }
        };
        loop_over(&mut b, self.channels, "channels", |b| {
            let words = self.kernel_words(b, weights, kernels);
            step(b, weights, weights, taps);
            let start = b.fresh(Class::V);
            zero_vector(b, start);
            if let Some(bias) = bias {
                let added = b.copy(start);
                for &word in words.iter().flatten() {
                    b.update(Opcode::VrmpyUbBAccumulate, (added, bias, word));
                }
                b.emit_to(start, Opcode::VsubW, (start, added));
            }
            let one = |b: &mut Builder, at: Register, as_ordered: bool| {
                let vectors = self.vector(b, at, &words, (start, &turns), object);
                for (i, vector) in vectors.into_iter().enumerate() {
                    match as_ordered {
                        true => b.store(Opcode::StoreVNext, (sums, 1, vector), result),
                        false => b.store(Opcode::StoreV, (sums, number(i), vector), result),
                    }
                    if let Some(all) = all.map(|all| all[i]) {
                        let magnitude = b.emit(Opcode::VabsW, (vector,));
                        b.emit_to(all, Opcode::Vor, (all, magnitude));
                    }
                }
                if !as_ordered {
                    step(b, sums, sums, self.kept() * VECTOR);
                }
            };
            // The last vector covers rows of the one before again.
            let places = (0..count).map(|i| (i * distance).min(last));
            if (2..=WRITTEN_OUT).contains(&(walks * count)) {
                let starts = (0..walks).map(|image| image * self.plane());
                for at in starts.flat_map(|start| places.clone().map(move |at| start + at)) {
                    let at = moved(b, planes, at);
                    one(b, at, false);
                }
            } else {
                let plane = b.copy(planes);
                loop_over(b, walks, "images", |b| {
                    if (2..=WRITTEN_OUT).contains(&count) {
                        for at in places {
                            let at = moved(b, plane, at);
                            one(b, at, false);
                        }
                    } else {
                        let at = b.copy(plane);
                        let end = (count > 1).then(|| moved(b, plane, last));
                        loop_over(b, count, "128 positions", |b| {
                            one(b, at, count < LONG);
                            if let Some(end) = end {
                                let next = b.emit(Opcode::AddImmediate, (at, number(distance)));
                                b.emit_to(at, Opcode::MinU, (next, end));
                            }
                        });
                    }
                    step(b, plane, plane, self.plane());
                });
            }
            step(b, planes, planes, self.channel());
        });
        let Some(all) = all else {
            return Ok((b.finish(None)?, None));
        };
        let table = self.masks(name);
        let address = b.address(&table.symbol, 0);
        let windows: Vec<Register> = (0..)
            .zip(all)
            .map(|(i, all)| {
                let mask = b.load(Opcode::LoadV, (address, i), constant);
                b.emit(Opcode::Vand, (all, mask))
            })
            .collect();
        let low = b.emit(Opcode::Vor, (windows[0], windows[1]));
        let high = b.emit(Opcode::Vor, (windows[2], windows[3]));
        let all = b.emit(Opcode::Vor, (low, high));
        let all = or_lanes(&mut b, all);
        Ok((b.finish(Some(all))?, Some(table)))
    }

    /// Four vectors: all ones in the lanes of windows.
    fn masks(&self, name: &str) -> DataObject {
        let mut words = vec![0; VECTOR];
        for place in (0..self.tile().images).flat_map(|image| self.places(image)) {
            words[place % 4 * 32 + place / 4] = -1;
        }
        DataObject { symbol: format!("{name}_masks"), words }
    }

    /// The rows of a channel's kernel in words of four bytes.
    fn kernel_words(
        &self,
        b: &mut Builder,
        weights: Register,
        object: Object,
    ) -> Vec<Vec<Register>> {
        let (rows, columns) = (self.vertical.taps, self.horizontal.taps);
        let place = |row: usize, column: usize| {
            let at = row * columns + column;
            number(if self.turned { rows * columns - 1 - at } else { at })
        };
        let word = |b: &mut Builder, row: usize, word: usize| {
            let within = 4 * word..columns.min(4 * word + 4);
            let bytes: Vec<Register> = within
                .map(|column| b.load(Opcode::LoadUb, (weights, place(row, column)), object))
                .collect();
            for (i, &byte) in bytes.iter().enumerate().skip(1) {
                b.update(Opcode::InsertBits, (bytes[0], byte, 8, 8 * i as i32));
            }
            bytes[0]
        };
        (0..rows).map(|row| (0..self.words()).map(|w| word(b, row, w)).collect()).collect()
    }

    /// Whether words behind a vector's end count only for positions behind the last that is used: then a vector that is turned serves
    /// where they are read.
    fn turns(&self) -> bool {
        self.tile().length + self.horizontal.taps - 1 <= VECTOR
    }

    /// The sums of 128 positions, of those that are 0, 1, 2, 3 mod 4; wide ones in order, only multiples of the stride.
    fn vector(
        &self,
        b: &mut Builder,
        at: Register,
        words: &[Vec<Register>],
        (start, turns): (Register, &[Register]),
        object: Object,
    ) -> Vec<Register> {
        let even = b.emit(Opcode::Vcombine, (start, start));
        // At a stride no odd positions are kept.
        let odd = (self.kept() == 4).then(|| b.emit(Opcode::Vcombine, (start, start)));
        for (row, words) in words.iter().enumerate() {
            let offset = row * self.vertical.dilation * self.row();
            let mut address = at;
            if row > 0 {
                address = b.emit(Opcode::AddImmediate, (at, number(offset)));
            }
            b.comment(&format!("Row {row} of the kernel"));
            let first = b.fresh(Class::VV);
            b.load_to(first.low(), Opcode::LoadVUnaligned, (address, 0), object);
            for (i, &word) in words.iter().enumerate() {
                // So many words ahead, one at least.
                let ahead = |b: &mut Builder, result: Register, words: usize| {
                    if let Some(&distance) = turns.get(words - 1) {
                        b.emit_to(result, Opcode::Vror, (first.low(), distance));
                    } else {
                        let address = b.emit(Opcode::AddImmediate, (address, number(4 * words)));
                        b.load_to(result, Opcode::LoadVUnaligned, (address, 0), object);
                    }
                };
                let pair = if i == 0 { first } else { b.fresh(Class::VV) };
                if i > 0 {
                    ahead(b, pair.low(), i);
                }
                ahead(b, pair.high(), i + 1);
                b.update(Opcode::VrmpyUbBPairAccumulate, (even, pair, word, 0));
                if let Some(odd) = odd {
                    b.update(Opcode::VrmpyUbBPairAccumulate, (odd, pair, word, 1));
                }
            }
        }
        let sums = match odd {
            Some(odd) => vec![even.low(), odd.low(), even.high(), odd.high()],
            None => vec![even.low(), even.high()][..self.kept()].to_vec(),
        };
        if self.wide { in_order(b, &sums) } else { sums }
    }
}
