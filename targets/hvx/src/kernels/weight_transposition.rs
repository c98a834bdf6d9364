//! Weights of result channels whose rows are whole vectors, to the order of products: for an odd number of taps.
//!
//! Rows of 32 result channels are transposed by words: those of 16, then of 16 more, whose words meet the first ones'. Taps
//! of four channels are then `taps` vectors of words, a byte of which belongs to tap `(4 word + byte) mod taps`. With `r` the
//! inverse of 4 modulo the taps, the tap `4 s mod taps` has its byte `b` in word `s - r b mod taps`: two rounds of selections,
//! by the bits of `b`, bring its four channels together, and a turn within words puts them in order.
//!
//! | working memory | layout |
//! |---|---|
//! | halves | `[vector of a row][word mod 16][two][16 result channels]` i32 |
//! | words | `[vector of a row][word][32 result channels]` i32, 128 added to bytes |

use super::product::VECTOR;
use super::support::loop_over;
use super::weight_gradient::word;
use super::weight_vectors::{HALF, State, Table, VectorPacking, step};
use crate::machine::{Builder, Class, Object, Opcode, Register};

/// Most taps whose words registers hold twice.
pub(super) const MOST_TAPS: usize = 9;
/// Words of a vector.
const WORDS: usize = 2 * HALF;
/// Quads of channels whose words are whole vectors, whatever the taps.
const QUADS: usize = WORDS;
/// Channels whose words are whole vectors.
pub(super) const CHANNELS: usize = 4 * QUADS;

/// Bytes of working memory for so many taps.
pub(super) fn memory_bytes(taps: usize) -> usize {
    taps * (HALF + WORDS) * VECTOR
}

/// 16 result channels at a time. While the words of one vector of each leave, the next vectors arrive.
struct Rows<'a> {
    state: &'a State,
    /// From a result channel to the next.
    row: Register,
    /// Distances of words whose bit of the index is exchanged, from the highest on.
    units: [Register; 4],
    /// A vector of each result channel.
    rows: [Register; HALF],
}

impl Rows<'_> {
    /// Loads the first vectors, and the rest while `each` is given four words `j` at a time, the number of which it is told,
    /// each with word `j + 16` of the 16 result channels behind it.
    fn words(
        &self,
        b: &mut Builder,
        from: Register,
        vectors: usize,
        purpose: &str,
        each: impl Fn(&mut Builder, usize, [Register; 4]),
    ) {
        let load = |b: &mut Builder, rows: &[Register], from: Register| {
            for &y in rows {
                b.load_to(y, Opcode::LoadVStep, (from, self.row), self.state.memory.0);
            }
        };
        let first = b.copy(from);
        load(b, &self.rows, first);
        let (left, vector) = (b.constant(word(vectors)), b.constant(word(VECTOR)));
        let next = b.copy(from);
        loop_over(b, vectors, purpose, |b| {
            // The last vectors are loaded twice: there is nothing to read behind them.
            let more = b.emit(Opcode::CompareGtImmediate, (left, 1));
            let distance = b.emit(Opcode::MuxRImmediate, (more, vector, 0));
            b.emit_to(left, Opcode::AddImmediate, (left, -1));
            b.emit_to(next, Opcode::Add, (next, distance));
            let from = b.copy(next);
            // Each stage exchanges a bit of the register's number with one of the place.
            let mut words = self.rows;
            let exchange = |b: &mut Builder, words: &mut [Register], bit: usize, unit: Register| {
                for i in (0..words.len()).filter(|i| i & bit == 0) {
                    let both = b.emit(Opcode::Vshuff, (words[i + bit], words[i], unit));
                    (words[i], words[i + bit]) = (both.low(), both.high());
                }
            };
            exchange(b, &mut words, 8, self.units[0]);
            exchange(b, &mut words, 4, self.units[1]);
            let fours = words.chunks_exact_mut(4).zip(self.rows.chunks_exact(4));
            for (four, (words, rows)) in fours.enumerate() {
                exchange(b, words, 2, self.units[2]);
                exchange(b, words, 1, self.units[3]);
                each(b, four, std::array::from_fn(|i| words[i]));
                load(b, rows, from);
            }
        });
    }
}

/// What brings the channels of taps together.
struct Taps {
    memory: (Object, Object),
    /// Places that are even; the lower half of each word.
    places: [Register; 2],
    /// By the tap modulo 4: turns bytes within words.
    turns: Vec<Option<(Opcode, Register)>>,
    /// From a tap to the next in the result.
    step: Register,
    taps: usize,
}

impl Taps {
    /// The taps of a quad of channels, whose words follow each other.
    fn quad(&self, b: &mut Builder, from: Register, to: Register) {
        let taps = self.taps;
        let inverse = inverse(taps);
        let to = b.copy(to);
        let mut words: Vec<Register> =
            (0..taps).map(|_| b.load(Opcode::LoadVNext, (from, 1), self.memory.0)).collect();
        for (bit, &places) in self.places.iter().enumerate() {
            let before = |s: usize| (s + 2 * taps - (inverse << bit)) % taps;
            words = (0..taps)
                .map(|s| match before(s) {
                    other if other == s => words[s],
                    other => b.emit(Opcode::Vmux, (places, words[s], words[other])),
                })
                .collect();
        }
        for tap in 0..taps {
            let y = words[tap * inverse % taps];
            let y = match self.turns[tap % 4] {
                Some((opcode, control)) => b.emit(opcode, (y, control)),
                None => y,
            };
            b.store(Opcode::StoreVStep, (to, self.step, y), self.memory.1);
        }
    }
}

/// Of 4 modulo an odd number.
fn inverse(taps: usize) -> usize {
    (0..taps).find(|n| 4 * n % taps == 1 % taps).unwrap_or(0)
}

impl VectorPacking<'_> {
    /// By tap modulo 4: where each byte of the tap's word is among the selected ones.
    pub(super) fn turns(&self, table: &mut Table) -> Option<Vec<Option<(Opcode, usize)>>> {
        let taps = self.product.taps();
        let turn = |tap: usize| {
            let turn = |place: usize| Some(place / 4 * 4 + (taps * (place % 4) + tap) % 4);
            let still = (0..4).all(|place| turn(place) == Some(place));
            if still { Some(None) } else { table.permutation(turn).map(Some) }
        };
        (0..taps.min(4)).map(turn).collect()
    }

    /// All weights, 128 channels of 32 result channels at a time.
    pub(super) fn transposed(
        &self,
        b: &mut Builder,
        state: &State,
        table: &mut Table,
    ) -> Option<()> {
        let taps = self.product.taps();
        let masks = [table.mask(|place| place % 2 == 0), table.mask(|place| place % 4 < 2)];
        let turns = self.turns(table)?;
        let (halves, words) = (b.object("halves"), b.object("words"));
        let (quad, tap) = self.target_steps();
        let tap = b.constant(word(tap));
        let places = masks.map(|mask| state.predicate(b, mask));
        let tap_step = b.emit(Opcode::ModifierFromR, (tap,));
        let row = b.constant(word(self.strides.feature));
        let rows = Rows {
            state,
            row: b.emit(Opcode::ModifierFromR, (row,)),
            units: [8, 4, 2, 1].map(|bit| b.constant(4 * bit)),
            rows: [(); HALF].map(|()| b.fresh(Class::V)),
        };
        let half = b.constant(64);
        let halves_at = b.parameter(2);
        let words_at = b.emit(Opcode::AddImmediate, (halves_at, word(taps * HALF * VECTOR)));
        let lower_rows = b.constant(word(HALF * self.strides.feature));
        self.each_vector(b, state, 1, |b| {
            let to = b.copy(state.target);
            loop_over(b, self.product.channels / CHANNELS, "128 channels", |b| {
                let kept = b.copy(halves_at);
                rows.words(
                    b,
                    state.source,
                    taps,
                    "32 words of 16 result channels",
                    |b, _, words| {
                        for y in words {
                            b.store(Opcode::StoreVNext, (kept, 1, y), halves);
                        }
                    },
                );
                let from = b.emit(Opcode::Add, (state.source, lower_rows));
                let kept = b.copy(halves_at);
                let low = b.copy(words_at);
                let purpose = "32 words of 16 more, and those of all";
                let high = b.emit(Opcode::AddImmediate, (words_at, word(HALF * VECTOR)));
                rows.words(b, from, taps, purpose, |b, four, four_words| {
                    for y in four_words {
                        let first = b.load(Opcode::LoadVNext, (kept, 1), halves);
                        let both = b.emit(Opcode::Vshuff, (y, first, half));
                        for (to, y) in [(low, both.low()), (high, both.high())] {
                            let y = b.emit(Opcode::Vxor, (y, state.flip));
                            b.store(Opcode::StoreVNext, (to, 1, y), words);
                        }
                    }
                    if four == HALF / 4 - 1 {
                        step(b, low, HALF * VECTOR);
                        step(b, high, HALF * VECTOR);
                    }
                });
                let turn = |b: &mut Builder, turn: &Option<(Opcode, usize)>| {
                    turn.map(|(opcode, index)| (opcode, state.vector(b, index)))
                };
                let order = Taps {
                    memory: (words, state.memory.1),
                    places,
                    turns: turns.iter().map(|of| turn(b, of)).collect(),
                    step: tap_step,
                    taps,
                };
                let from = b.copy(words_at);
                loop_over(b, QUADS, "quads of channels", |b| {
                    order.quad(b, from, to);
                    step(b, to, quad);
                });
                step(b, state.source, taps * VECTOR);
            });
            step(b, state.source, (2 * HALF - 1) * self.strides.feature);
        });
        Some(())
    }
}
