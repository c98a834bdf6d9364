//! Weights to the order of products by vectors: for an odd number of taps and whole vectors of result channels.
//!
//! Where a result channel's weights lie side by side (the forward pass), the taps of four channels are `taps` whole words.
//! Words of 16 result channels and two runs of quads are transposed; then, as the taps are odd, the four channels of a tap
//! lie at four different bytes of their words: three selections and a turn within words give the word of the tap.
//!
//! Where rows of result channels are whole vectors, another transposition takes fewer packets
//! (`weight_transposition`).
//!
//! Where a channel's weights lie side by side (the error gradient), bytes of four rows are interleaved to words; word `k` is
//! that of tap `k mod taps`. Of `taps` vectors, a place holds each tap once: selections by bits of the place modulo the taps
//! gather one tap, a permutation puts its result channels in order.

use super::kernel::DataObject;
use super::product::{LANES, VECTOR, WindowProduct};
use super::support::{Piece, loop_over, rotate_in, weave};
use super::weight_gradient::word;
use super::weight_transposition as transposition;
use super::weights::WeightStrides;
use crate::machine::{Builder, Class, Function, MachineError, Object, Opcode, Register};

/// Result channels that are transposed at once: half a vector of words.
pub(super) const HALF: usize = 16;
/// Most taps that the error gradient's registers hold.
const MOST_ROW_TAPS: usize = 9;

/// Which weights lie side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Those of a result channel, `[channel][tap]`; a transposition takes twice this many quads.
    Features { quads: usize },
    /// The same, of which 128 bytes at a time are whole vectors of memory.
    Rows,
    /// Those of a channel, `[result channel][tap]`; so many vectors of result channels at once.
    Channels { vectors: usize },
}

/// A packing by vectors.
#[derive(Clone, Debug)]
pub(crate) struct VectorPacking<'a> {
    pub(super) product: &'a WindowProduct,
    pub(super) strides: WeightStrides,
    form: Form,
}

/// Vectors of a table, to be loaded by index.
#[derive(Debug, Default)]
pub(super) struct Table {
    vectors: Vec<[u8; VECTOR]>,
}

impl Table {
    fn add(&mut self, vector: [u8; VECTOR]) -> usize {
        self.vectors.iter().position(|v| *v == vector).unwrap_or_else(|| {
            self.vectors.push(vector);
            self.vectors.len() - 1
        })
    }

    /// A predicate's bytes: 1 where it holds.
    pub(super) fn mask(&mut self, holds: impl Fn(usize) -> bool) -> usize {
        self.add(std::array::from_fn(|place| u8::from(holds(place))))
    }

    /// `vdelta` or `vrdelta` and the index of its control, which moves byte `source(place)` to each place.
    pub(super) fn permutation(
        &mut self,
        source: impl Fn(usize) -> Option<usize>,
    ) -> Option<(Opcode, usize)> {
        let stages: Vec<usize> = (0..7).map(|bit| 1 << bit).collect();
        let reversed: Vec<usize> = stages.iter().rev().copied().collect();
        [(Opcode::Vdelta, reversed), (Opcode::Vrdelta, stages)]
            .into_iter()
            .find_map(|(opcode, stages)| Some((opcode, self.add(route(&stages, &source)?))))
    }

    fn object(&self, symbol: String) -> DataObject {
        let bytes: Vec<u8> = self.vectors.concat();
        let words = bytes.chunks_exact(4);
        let words = words.map(|w| i32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
        DataObject { symbol, words }
    }
}

/// The control of a network whose stage at an offset takes a byte from its own place or from that with this bit of the
/// place changed: `None` if two bytes meet on the way.
fn route(stages: &[usize], source: &impl Fn(usize) -> Option<usize>) -> Option<[u8; VECTOR]> {
    let mut control = [0; VECTOR];
    let mut paths: Vec<(usize, usize, usize)> =
        (0..VECTOR).filter_map(|place| source(place).map(|from| (from, from, place))).collect();
    for &offset in stages {
        let mut holder = [None; VECTOR];
        for (at, from, to) in &mut paths {
            let crosses = (*at ^ *to) & offset != 0;
            if crosses {
                *at ^= offset;
                control[*at] |= u8::try_from(offset).unwrap_or(0);
            }
            if holder[*at].replace(*from).is_some_and(|other| other != *from) {
                return None;
            }
        }
    }
    Some(control)
}

pub(super) fn step(b: &mut Builder, pointer: Register, bytes: usize) {
    b.emit_to(pointer, Opcode::AddImmediate, (pointer, word(bytes)));
}

/// Pointers, constants and the table of a packing.
pub(super) struct State {
    pub(super) source: Register,
    pub(super) target: Register,
    pub(super) memory: (Object, Object),
    table: Register,
    table_object: Object,
    ones: Register,
    pub(super) flip: Register,
}

impl State {
    fn new(b: &mut Builder, table: &str) -> Self {
        let flip = b.constant(0x8080_8080_u32.cast_signed());
        Self {
            source: b.parameter(0),
            target: b.parameter(1),
            memory: (b.object("weights"), b.object("packed weights")),
            table: b.address(table, 0),
            table_object: b.object("places"),
            ones: b.constant(0x0101_0101),
            flip: b.emit(Opcode::VsplatW, (flip,)),
        }
    }

    pub(super) fn vector(&self, b: &mut Builder, index: usize) -> Register {
        let at = b.emit(Opcode::AddImmediate, (self.table, word(index * VECTOR)));
        b.load(Opcode::LoadV, (at, 0), self.table_object)
    }

    pub(super) fn predicate(&self, b: &mut Builder, index: usize) -> Register {
        let mask = self.vector(b, index);
        b.emit(Opcode::QandVR, (mask, self.ones))
    }
}

impl<'a> VectorPacking<'a> {
    /// The packing of these weights, if there is one.
    pub(crate) fn of(product: &'a WindowProduct, strides: &WeightStrides) -> Option<Self> {
        let WindowProduct { channels, features, .. } = *product;
        let taps = product.taps();
        let whole = features.is_multiple_of(LANES) && channels.is_multiple_of(8);
        if !whole || taps.is_multiple_of(2) || strides.tap != 1 {
            return None;
        }
        let side_by_side = WeightStrides { feature: channels * taps, channel: taps, tap: 1 };
        let across = WeightStrides { feature: taps, channel: features * taps, tap: 1 };
        let rows = channels.is_multiple_of(transposition::CHANNELS)
            && (3..=transposition::MOST_TAPS).contains(&taps);
        let form = if *strides == side_by_side && rows {
            Form::Rows
        } else if *strides == side_by_side {
            let pairs = channels / 8;
            let quads = (1..=HALF / taps).rev().find(|n| pairs.is_multiple_of(*n))?;
            // All loads stay within a row: the last one ends with it, and any other has a whole vector before it.
            if quads * taps < HALF / 2 || channels * taps < VECTOR {
                return None;
            }
            Form::Features { quads }
        } else if *strides == across {
            match taps {
                1 if features.is_multiple_of(VECTOR) => Form::Channels { vectors: 4 },
                // So many rows' words are whole vectors of memory.
                5..=MOST_ROW_TAPS if features.is_multiple_of(VECTOR) => {
                    Form::Channels { vectors: 4 }
                }
                5..=MOST_ROW_TAPS => Form::Channels { vectors: 1 },
                _ => return None,
            }
        } else {
            return None;
        };
        Some(Self { product, strides: *strides, form })
    }

    /// An estimate of the packets of a call.
    pub(crate) fn packets(&self) -> usize {
        let vectors = self.product.weight_bytes() / VECTOR;
        match (self.form, self.product.taps()) {
            (Form::Features { .. }, 1) => vectors * 9 / 2 + 20,
            (Form::Features { .. }, _) => vectors * 9 + 80,
            (Form::Rows, _) => vectors * 9 / 2 + 80,
            (Form::Channels { .. }, 1) => vectors * 2,
            (Form::Channels { vectors: 1 }, _) => vectors * 9 / 2 + 20,
            (Form::Channels { .. }, _) => vectors * 13 / 4 + 20,
        }
    }

    /// Bytes of working memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self.form {
            Form::Rows => transposition::memory_bytes(self.product.taps()),
            Form::Features { .. } | Form::Channels { .. } => 0,
        }
    }

    /// `void pack(weights, packed weights, working memory)` and its table.
    pub(crate) fn function(
        &self,
        name: &str,
    ) -> Result<Option<(Function, DataObject)>, MachineError> {
        let symbol = format!("{name}_places");
        let mut table = Table::default();
        let mut b = Builder::new(name, 3);
        b.purpose("Puts weights, 128 added, in the order of the products, by vectors.");
        let state = State::new(&mut b, &symbol);
        let done = match self.form {
            Form::Features { quads } => self.features(&mut b, &state, &mut table, quads),
            Form::Rows => self.transposed(&mut b, &state, &mut table),
            Form::Channels { vectors } => self.channels(&mut b, &state, &mut table, vectors),
        };
        if done.is_none() {
            return Ok(None);
        }
        Ok(Some((b.finish(None)?, table.object(symbol))))
    }

    /// Bytes from a quad to the next and from a tap to the next in the result.
    pub(super) fn target_steps(&self) -> (usize, usize) {
        let quad = self.product.block() * VECTOR;
        (quad, quad * self.product.quads())
    }

    /// Runs the body, which leaves the target as it is, for each `vectors` vectors of each block.
    pub(super) fn each_vector(
        &self,
        b: &mut Builder,
        state: &State,
        vectors: usize,
        body: impl FnOnce(&mut Builder),
    ) {
        let block = self.product.block();
        let (_, tap) = self.target_steps();
        loop_over(b, self.product.vectors() / block, "blocks of result channels", |b| {
            loop_over(b, block / vectors, "vectors of the block", |b| {
                body(b);
                step(b, state.target, vectors * VECTOR);
            });
            step(b, state.target, self.product.taps() * tap - block * VECTOR);
        });
    }

    fn features(
        &self,
        b: &mut Builder,
        state: &State,
        table: &mut Table,
        quads: usize,
    ) -> Option<()> {
        let taps = self.product.taps();
        let words = quads * taps;
        let spread = |table: &mut Table, first: usize| {
            table.permutation(|place| {
                let (half, lane) = (place / 64, place % 64 / 4);
                (lane < words).then(|| 4 * (first + half * words + lane) + place % 4)
            })
        };
        let unused = LANES - 2 * words;
        let spreads = [spread(table, 0)?, spread(table, unused)?];
        let even = table.mask(|place| place % 2 == 0);
        let lower = table.mask(|place| place % 4 < 2);
        let low_half = table.add(std::array::from_fn(|place| u8::from(place < 64)));
        let turns = self.turns(table)?;
        let spreads = spreads.map(|(opcode, index)| {
            let spread = (unused > 0).then_some(index);
            spread.map(|index| (opcode, state.vector(b, index)))
        });
        // These stay in registers: a round has enough to load.
        let turns = turns
            .into_iter()
            .map(|turn| turn.map(|(opcode, index)| (opcode, state.vector(b, index))))
            .collect();
        let (even, lower) = (state.predicate(b, even), state.predicate(b, lower));
        let mask = state.vector(b, low_half);
        let row = b.constant(word(self.strides.feature));
        let row = b.emit(Opcode::ModifierFromR, (row,));
        let half = b.constant(64);
        let (quad, tap) = self.target_steps();
        let tap = b.constant(word(tap));
        let tap = b.emit(Opcode::ModifierFromR, (tap,));
        let distance = b.constant(word(quads * quad));
        let load = self.row_load(self.strides.feature, 8 * words);
        let order =
            Transposition { packing: self, state, quads, load, turns, even, lower, row, tap, half };
        let chunks = self.product.quads() / (2 * quads);
        self.each_vector(b, state, 1, |b| {
            let to = b.copy(state.target);
            loop_over(b, 2, "halves of the vector", |b| {
                let stored = b.emit(Opcode::QandVR, (mask, state.ones));
                let from = b.copy(state.source);
                let chunk = b.copy(to);
                loop_over(b, chunks - 1, "runs of quads", |b| {
                    order.chunk(b, from, spreads[0], (chunk, distance, stored));
                    step(b, from, 8 * words);
                    step(b, chunk, 2 * quads * quad);
                });
                b.emit_to(from, Opcode::AddImmediate, (from, -word(4 * unused)));
                order.chunk(b, from, spreads[1], (chunk, distance, stored));
                // The other half goes the other way round.
                let all = b.emit(Opcode::VsplatW, (state.ones,));
                b.emit_to(mask, Opcode::Vxor, (mask, all));
                b.emit_to(to, Opcode::Add, (to, distance));
                b.emit_to(distance, Opcode::SubFromImmediate, (0, distance));
                step(b, state.source, HALF * self.strides.feature);
            });
        });
        Some(())
    }

    fn channels(
        &self,
        b: &mut Builder,
        state: &State,
        table: &mut Table,
        vectors: usize,
    ) -> Option<()> {
        let taps = self.product.taps();
        let masks: Vec<usize> = (0..taps.next_power_of_two().ilog2())
            .map(|bit| table.mask(|place| (place / 4 % taps) >> bit & 1 == 1))
            .collect();
        let orders: Vec<(Opcode, usize)> = (0..taps)
            .map(|tap| {
                table.permutation(|place| Some((taps * (place / 4) + tap) % LANES * 4 + place % 4))
            })
            .collect::<Option<_>>()?;
        let places: Vec<Register> = masks.iter().map(|&mask| state.predicate(b, mask)).collect();
        let (quad, tap) = self.target_steps();
        let tap = b.constant(word(tap));
        let tap = b.emit(Opcode::ModifierFromR, (tap,));
        let row = self.strides.channel;
        let row_step = b.constant(word(row));
        let row_step = b.emit(Opcode::ModifierFromR, (row_step,));
        let bytes = vectors * LANES * taps;
        self.each_vector(b, state, vectors, |b| {
            let from = b.copy(state.source);
            let quad_to = b.copy(state.target);
            loop_over(b, self.product.quads(), "quads of channels", |b| {
                if vectors > 1 && taps > 1 {
                    let gathering = Gathering { state, places: &places, orders: &orders, tap };
                    gathering.vectors(b, (from, row_step), quad_to, vectors);
                } else {
                    let load = self.row_load(row, bytes);
                    let words = Self::rows(b, state, load, (from, row_step), bytes);
                    let to = b.copy(quad_to);
                    if taps == 1 {
                        for y in words {
                            let y = b.emit(Opcode::Vxor, (y, state.flip));
                            b.store(Opcode::StoreVNext, (to, 1, y), state.memory.1);
                        }
                    } else {
                        let gathering = Gathering { state, places: &places, orders: &orders, tap };
                        gathering.pieces(b, &words, to).iter().for_each(|piece| piece(b));
                    }
                }
                step(b, from, 4 * row);
                step(b, quad_to, quad);
            });
            step(b, state.source, bytes);
        });
        Some(())
    }

    /// What loads of rows this far from each other, so many bytes at a time.
    fn row_load(&self, row: usize, bytes: usize) -> Opcode {
        match row.is_multiple_of(VECTOR) && bytes.is_multiple_of(VECTOR) {
            true => Opcode::LoadVStep,
            // Takes the permuting unit, too.
            false => Opcode::LoadVUnalignedStep,
        }
    }

    /// So many bytes, at least a vector of them, of each of four rows, interleaved.
    fn rows(
        b: &mut Builder,
        state: &State,
        load: Opcode,
        (from, row): (Register, Register),
        bytes: usize,
    ) -> Vec<Register> {
        let mut words = Vec::new();
        let starts = (0..bytes / VECTOR).map(|i| i * VECTOR);
        // The last load ends with the last byte.
        let last = (!bytes.is_multiple_of(VECTOR)).then(|| bytes - VECTOR);
        for start in starts.chain(last) {
            let pointer = b.emit(Opcode::AddImmediate, (from, word(start)));
            let rows = [(); 4].map(|()| b.load(load, (pointer, row), state.memory.0));
            let part = rotate_in(b, &rows, 1, 4);
            words.truncate(start / LANES);
            words.extend(part);
        }
        words
    }
}

/// Gathers taps of a vector of result channels, whose words are `taps` vectors.
struct Gathering<'a> {
    state: &'a State,
    /// By the bit: places whose number modulo the taps has it.
    places: &'a [Register],
    /// By the tap: the permutation that orders its result channels.
    orders: &'a [(Opcode, usize)],
    /// From a tap to the next in the result.
    tap: Register,
}

impl Gathering<'_> {
    /// What selects, orders and stores, piece by piece.
    fn pieces(&self, b: &mut Builder, words: &[Register], to: Register) -> Vec<Piece<'_>> {
        let taps = self.orders.len();
        // Vector `i` of a place is that of tap 0 there, then 1 and so on.
        let inverse = (0..taps).find(|n| n * LANES % taps == 1 % taps).unwrap_or(0);
        let mut pieces: Vec<Piece<'_>> = Vec::new();
        let mut words: Vec<Register> = (0..taps).map(|i| words[i * inverse % taps]).collect();
        for (bit, &places) in self.places.iter().enumerate() {
            let before = |i: usize| (i + (taps << bit) - (1 << bit)) % taps;
            let next: Vec<Register> = (0..taps).map(|_| b.fresh(Class::V)).collect();
            for (i, &y) in next.iter().enumerate() {
                let (other, own) = (words[before(i)], words[i]);
                pieces.push(Box::new(move |b| b.emit_to(y, Opcode::Vmux, (places, other, own))));
            }
            words = next;
        }
        for (y, &(opcode, index)) in words.into_iter().zip(self.orders) {
            pieces.push(Box::new(move |b| {
                let order = self.state.vector(b, index);
                let y = b.emit(opcode, (y, order));
                let y = b.emit(Opcode::Vxor, (y, self.state.flip));
                b.store(Opcode::StoreVStep, (to, self.tap, y), self.state.memory.1);
            }));
        }
        pieces
    }

    /// So many vectors of result channels from four rows, which whole vectors of memory hold: while one is gathered, the
    /// words of the next are made.
    fn vectors(&self, b: &mut Builder, from: (Register, Register), to: Register, vectors: usize) {
        let taps = self.orders.len();
        let unit = b.constant(-1);
        let mut words: Vec<Register> = Vec::new();
        let mut gathered: Vec<Piece<'_>> = Vec::new();
        for vector in 0..=vectors {
            // What makes the words of this vector of result channels.
            let mut loads: Vec<Piece<'_>> = Vec::new();
            while words.len() < vectors.min(vector + 1) * taps {
                let (pieces, made) = self.words(b, from, unit, word(words.len() * LANES));
                loads.extend(pieces);
                words.extend(made);
            }
            weave(b, &[loads, gathered]);
            gathered = Vec::new();
            if vector < vectors {
                let to = b.emit(Opcode::AddImmediate, (to, word(vector * VECTOR)));
                gathered = self.pieces(b, &words[vector * taps..(vector + 1) * taps], to);
            }
        }
    }

    /// 128 bytes of each of four rows as four vectors of words: the pieces that make them, and the vectors.
    fn words(
        &self,
        b: &mut Builder,
        (from, row): (Register, Register),
        unit: Register,
        start: i32,
    ) -> (Vec<Piece<'_>>, Vec<Register>) {
        let memory = self.state.memory.0;
        let pointer = b.fresh(Class::R);
        let rows = [(); 4].map(|()| b.fresh(Class::V));
        let [even, odd, low, high] = [(); 4].map(|()| b.fresh(Class::VV));
        let mut pieces: Vec<Piece<'_>> =
            vec![Box::new(move |b| b.emit_to(pointer, Opcode::AddImmediate, (from, start)))];
        for y in rows {
            pieces.push(Box::new(move |b| {
                b.load_to(y, Opcode::LoadVStep, (pointer, row), memory);
            }));
        }
        for (both, [upper, lower]) in [
            (even, [rows[2], rows[0]]),
            (odd, [rows[3], rows[1]]),
            (low, [odd.low(), even.low()]),
            (high, [odd.high(), even.high()]),
        ] {
            pieces.push(Box::new(move |b| {
                b.emit_to(both, Opcode::Vshuff, (upper, lower, unit));
            }));
        }
        (pieces, vec![low.low(), low.high(), high.low(), high.high()])
    }
}

/// What the transposition of a run needs.
struct Transposition<'a> {
    packing: &'a VectorPacking<'a>,
    state: &'a State,
    quads: usize,
    load: Opcode,
    /// By the tap modulo 4: turns bytes within words.
    turns: Vec<Option<(Opcode, Register)>>,
    /// Places that are even; the lower half of each word.
    even: Register,
    lower: Register,
    row: Register,
    /// From a tap to the next in the result.
    tap: Register,
    half: Register,
}

impl Transposition<'_> {
    /// 16 result channels of `2 quads` quads. The target is that of the first quads, how far it is to the others, and
    /// which half of the vectors is stored.
    fn chunk(
        &self,
        b: &mut Builder,
        from: Register,
        spread: Option<(Opcode, Register)>,
        (to, distance, stored): (Register, Register, Register),
    ) {
        let taps = self.packing.product.taps();
        let (quad, _) = self.packing.target_steps();
        let from = b.copy(from);
        let mut words: Vec<Register> = (0..HALF)
            .map(|_| {
                let memory = self.state.memory.0;
                let y = b.load(self.load, (from, self.row), memory);
                // Both runs of quads at the start of their half.
                spread.map_or(y, |(opcode, control)| b.emit(opcode, (y, control)))
            })
            .collect();
        // Each stage exchanges a bit of the register's number with one of the place.
        for bit in [8, 4, 2, 1] {
            let unit = b.constant(word(4 * bit));
            for i in (0..HALF).filter(|i| i & bit == 0 && i / bit * bit < self.quads * taps) {
                let both = b.emit(Opcode::Vshuff, (words[i + bit], words[i], unit));
                (words[i], words[i + bit]) = (both.low(), both.high());
            }
        }
        let quad_to = b.copy(to);
        for words in words[..self.quads * taps].chunks_exact(taps) {
            let words: Vec<Register> =
                words.iter().map(|&y| b.emit(Opcode::Vxor, (y, self.state.flip))).collect();
            let to = [b.copy(quad_to), b.emit(Opcode::Add, (quad_to, distance))];
            // Taps overlap as a pipeline does: two packets each, in the order that they are written in.
            let mut chosen: Vec<[Register; 2]> = Vec::new();
            let (mut gathered, mut turned): (Vec<Register>, Vec<Register>) = Default::default();
            for at in 0..taps + 2 {
                if at < taps {
                    chosen.push(self.choose(b, &words, at));
                }
                let other = at.checked_sub(2).map(|tap| {
                    let other = b.emit(Opcode::Vror, (turned[tap], self.half));
                    self.store(b, stored, to[0], turned[tap]);
                    other
                });
                if at < taps {
                    gathered.push(self.select(b, self.lower, chosen[at]));
                }
                if (1..=taps).contains(&at) {
                    turned.push(self.turn(b, gathered[at - 1], at - 1));
                }
                if let Some(other) = other {
                    self.store(b, stored, to[1], other);
                }
            }
            step(b, quad_to, quad);
        }
    }

    fn store(&self, b: &mut Builder, stored: Register, to: Register, y: Register) {
        b.store(Opcode::StoreVIfQStep, (stored, to, self.tap, y), self.state.memory.1);
    }

    /// Of four channels of a tap, from the words that hold all taps of these: two of them each, in every word at its place.
    fn choose(&self, b: &mut Builder, words: &[Register], tap: usize) -> [Register; 2] {
        let mut places = [words[0]; 4];
        for byte in (0..4).map(|channel| words.len() * channel + tap) {
            places[byte % 4] = words[byte / 4];
        }
        let [first, second, third, fourth] = places;
        [[first, second], [third, fourth]].map(|pair| self.select(b, self.even, pair))
    }

    fn select(&self, b: &mut Builder, mask: Register, [yes, no]: [Register; 2]) -> Register {
        if yes == no { yes } else { b.emit(Opcode::Vmux, (mask, yes, no)) }
    }

    /// The channels of a tap in their order.
    fn turn(&self, b: &mut Builder, y: Register, tap: usize) -> Register {
        match self.turns[tap % 4] {
            Some((opcode, control)) => b.emit(opcode, (y, control)),
            None => y,
        }
    }
}
