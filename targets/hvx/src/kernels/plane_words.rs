//! Sums that stay 32 bits wide, from rows with something between them to rows one behind the other.
//!
//! A row is stored by whole vectors: what the last one writes behind the row, the next row overwrites. Rows near the end of the
//! result, which have no such room behind them, are put together in working memory first.

use super::plane_memory::advance;
use super::plane_product::PlaneProduct;
use super::pool::store;
use super::product::{LANES, VECTOR};
use super::support::loop_over;
use super::weight_gradient::word;
use crate::machine::{Builder, Function, MachineError, Object, Opcode, Register};

/// Bytes of a sum.
const WORD: usize = 4;

/// Planes, of which some follow each other in a loop, that are put together first: as many as have a vector's words.
fn last_planes(planes: usize, in_a_row: usize, words: usize) -> usize {
    let last = LANES.div_ceil(words);
    if last > in_a_row { planes } else { last }
}

/// Bytes of working memory in which the last rows are put together.
pub(super) fn last_words_bytes(rows: usize, columns: usize) -> usize {
    last_bytes(last_planes(rows, rows, columns) * columns)
}

/// Bytes of so many words and of what is written behind them.
pub(super) fn last_bytes(words: usize) -> usize {
    (words * WORD).next_multiple_of(VECTOR) + VECTOR
}

/// An estimate of the packets of [`put_word_rows`].
pub(super) fn word_row_packets(rows: usize, columns: usize) -> usize {
    rows * (2 * columns.div_ceil(LANES) + 3)
}

/// Stores `words` words of working memory at the end of the result, which ends `end` words behind `y`.
pub(super) fn copy_last(
    b: &mut Builder,
    [from, y]: [Register; 2],
    memory: [Object; 2],
    [words, end]: [usize; 2],
) {
    if words < LANES {
        // All there is.
        let vector = b.load(Opcode::LoadV, (from, 0), memory[0]);
        store(b, y, memory[1], 0..words * WORD, vector);
        return;
    }
    let to = b.copy(y);
    advance(b, to, (end - words) * WORD);
    let copy = |b: &mut Builder| {
        let vector = b.load(Opcode::LoadVUnalignedNext, (from, 1), memory[0]);
        b.store(Opcode::StoreVUnalignedNext, (to, 1, vector), memory[1]);
    };
    loop_over(b, words / LANES, "32 words", copy);
    let rest = words % LANES;
    if rest > 0 {
        // A whole vector that ends where the words end.
        for pointer in [from, to] {
            let back = word((LANES - rest) * WORD);
            b.emit_to(pointer, Opcode::AddImmediate, (pointer, -back));
        }
        copy(b);
    }
}

/// `void rows(sums, last, y)`: the first words of so many rows, one behind the other; reads up to 127 bytes behind the sums.
pub(super) fn put_word_rows(
    name: &str,
    rows: usize,
    pitch: usize,
    columns: usize,
) -> Result<Function, MachineError> {
    let mut b = Builder::new(name, 3);
    b.purpose("Puts rows of words one behind the other.");
    let [sums, last, y] = [0, 1, 2].map(|at| b.parameter(at));
    let memory = ["sums", "last", "y"].map(|name| b.object(name));
    let row = |b: &mut Builder, row: Register, to: Object| {
        let (from, place) = (b.copy(sums), b.copy(row));
        loop_over(b, columns.div_ceil(LANES), "32 words", |b| {
            let vector = b.load(Opcode::LoadVUnalignedNext, (from, 1), memory[0]);
            b.store(Opcode::StoreVUnalignedNext, (place, 1, vector), to);
        });
        advance(b, sums, pitch * WORD);
        advance(b, row, columns * WORD);
    };
    let few = last_planes(rows, rows, columns);
    let to = b.copy(y);
    loop_over(&mut b, rows - few, "rows", |b| row(b, to, memory[2]));
    let to = b.copy(last);
    loop_over(&mut b, few, "the last rows", |b| row(b, to, memory[1]));
    copy_last(&mut b, [last, y], [memory[1], memory[2]], [few * columns, rows * columns]);
    b.finish(None)
}

impl PlaneProduct {
    /// Planes of the result, and words of each.
    fn planes_of_words(&self) -> [usize; 2] {
        let [rows, columns] = self.output();
        [self.images * self.features, rows * columns]
    }

    /// Bytes of working memory of [`Self::put_words`].
    pub(super) fn last_words_bytes(&self) -> usize {
        let [planes, words] = self.planes_of_words();
        last_bytes(last_planes(planes, self.features, words) * words)
    }

    /// An estimate of the packets of [`Self::put_words`].
    pub(super) fn word_row_packets(&self) -> usize {
        let [planes, _] = self.planes_of_words();
        let [rows, columns] = self.output();
        let vectors = columns.div_ceil(LANES);
        let row = if self.axes[1].result.len() > 1 { 4 * vectors + 4 } else { vectors + 2 };
        planes * (6 + rows * row / 2)
    }

    /// `void rows(sums, last, y)`: rows of results without what lies between them; reads up to 127 bytes behind the sums.
    pub(super) fn put_words(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 3);
        b.purpose("Puts rows of words one behind the other.");
        let [sums, last, y] = [0, 1, 2].map(|at| b.parameter(at));
        let memory = ["sums", "last", "y"].map(|name| b.object(name));
        let [planes, words] = self.planes_of_words();
        let few = last_planes(planes, self.features, words);
        let image = |b: &mut Builder, features: usize, from: Register, to: (Register, Object)| {
            loop_over(b, features, "features", |b| self.put_plane(b, (from, memory[0]), to));
        };
        let to = (b.copy(y), memory[2]);
        if few == planes {
            let to = (b.copy(last), memory[1]);
            loop_over(&mut b, self.images, "images", |b| {
                let from = b.copy(sums);
                image(b, self.features, from, to);
                advance(b, sums, self.image_positions() * WORD);
            });
        } else {
            loop_over(&mut b, self.images - 1, "images", |b| {
                let from = b.copy(sums);
                image(b, self.features, from, to);
                advance(b, sums, self.image_positions() * WORD);
            });
            image(&mut b, self.features - few, sums, to);
            let to = (b.copy(last), memory[1]);
            image(&mut b, few, sums, to);
        }
        copy_last(&mut b, [last, y], [memory[1], memory[2]], [few * words, planes * words]);
        b.finish(None)
    }

    /// A feature's rows; both pointers end at the next feature.
    fn put_plane(
        &self,
        b: &mut Builder,
        (from, sums): (Register, Object),
        (to, result): (Register, Object),
    ) {
        let [_, columns] = self.output();
        let parts = self.parts_of_plane(b, from, WORD);
        let words = b.constant(-word(WORD));
        let vectors = columns.div_ceil(LANES);
        let put = |b: &mut Builder, row: &[Register]| {
            let store = |b: &mut Builder, at: usize, vector: Register| {
                b.store(Opcode::StoreVUnaligned, (to, word(at), vector), result);
            };
            for at in 0..vectors.div_ceil(row.len()) {
                let parts: Vec<Register> = row
                    .iter()
                    .map(|&part| b.load(Opcode::LoadVUnaligned, (part, word(at)), sums))
                    .collect();
                match parts[..] {
                    [even, odd] => {
                        let both = b.emit(Opcode::Vshuff, (odd, even, words));
                        store(b, 2 * at, both.low());
                        if 2 * at + 1 < vectors {
                            store(b, 2 * at + 1, both.high());
                        }
                    }
                    _ => store(b, at, parts[0]),
                }
            }
            row.iter().for_each(|&part| advance(b, part, self.pitch() * WORD));
            advance(b, to, columns * WORD);
        };
        self.each_row(b, &parts, put);
        advance(b, from, self.feature_vectors() * LANES * WORD);
    }
}
