//! The weight gradient over maps of a few positions: sums are short, so what is done to each result decides.
//!
//! The operand of 128 channels stays in registers, signed, while all error channels pass: `vrmpy` of two signed vectors
//! needs no start values. Sums never reach memory. Their shift depends on the largest of all, so it is guessed: the error
//! channels of the most energy give the width of the magnitudes, with which one pass sums, quantises and orders
//! everything and sees at the same time whether a magnitude is wider. Where one is, a pass over the magnitudes alone
//! tells, and the first is repeated; shifts beyond 16 bits' reach go the way of larger maps.
//!
//! | what | layout |
//! |---|---|
//! | error words | `[feature][position][4 images, 32 times over]` i8 |
//! | rows | `[tap][128 channels]` i8, of one feature, without the last tap |

use super::interleave::{AHEAD, Order, Parity, Rounding, Short, ShortVectors};
use super::kernel::{Argument, Phase, call_whole};
use super::product::{GROUP, LANES, VECTOR};
use super::static_shift::StaticShift;
use super::support::{Piece, loop_over, or_lanes, weave, zero_vector};
use super::weight_gradient::{Finish, ROWS, WeightGradient, word};
use crate::machine::{Builder, Class, Function, MachineError, Object, Opcode, Register};

/// Most positions of operand and error: what registers hold.
const POSITIONS: usize = 4;
/// Most taps: a vector of each is in registers when taps are brought together, beside the operand.
const TAPS: usize = 11;
/// Vectors of channels: a tile is 128 channels of one feature.
const BLOCK: usize = 4;
/// Vectors in the order in which pairs of them are narrowed.
const PAIRS: [[usize; 2]; 2] = [[0, 2], [1, 3]];

/// What the pass returns: nothing was done, a magnitude was too wide, all is well.
const UNFIT: i32 = 0;
const TOO_WIDE: i32 = 1;
const DONE: i32 = 2;

/// Pieces of the working memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) operand: Argument,
    pub(crate) error: Argument,
    /// The error words.
    pub(crate) words: Argument,
    pub(crate) starts: Argument,
    pub(crate) sums: Argument,
    pub(crate) bytes: Argument,
}

impl WeightGradient {
    /// Whether the operand's positions fit registers.
    pub(crate) fn is_resident(&self) -> bool {
        self.finish() == Finish::Interleave
            && self.channels.is_multiple_of(BLOCK * LANES)
            && self.taps() <= TAPS
            && self.images <= GROUP
            && self.inputs() <= POSITIONS
            && self.outputs() <= POSITIONS
    }

    /// Bytes of the error words, and of a feature more: the last one's sums look ahead.
    pub(crate) fn word_bytes(&self) -> usize {
        (self.features + 1) * self.outputs() * VECTOR
    }

    /// The phases that end with the result, after operand and error are packed, and the functions that they call;
    /// `place_table` is that of [`WeightGradient::interleave`], `detour` the functions for larger maps in their order.
    pub(crate) fn resident_phases(
        &self,
        name: &str,
        place_table: &str,
        memory: Memory,
        detour: &[Function; 4],
    ) -> Result<(Vec<Phase>, Vec<Function>), MachineError> {
        let phase_name = |phase: &str| format!("{name}_{phase}");
        let magnitudes = self.magnitudes(&phase_name("magnitudes"))?;
        let pass = self.pass(&phase_name("pass"), place_table)?;
        let Memory { operand, error, words, .. } = memory;
        let phases = vec![
            Phase { function: self.words(&phase_name("words"))?, arguments: vec![error, words] },
            Phase {
                function: self.loudest(&phase_name("loudest"), &magnitudes.name)?,
                arguments: vec![operand, error, words],
            },
            Phase {
                function: self.guess(
                    &phase_name("guess"),
                    memory,
                    [&pass.name, &magnitudes.name],
                    detour,
                )?,
                arguments: vec![
                    Argument::Scratch(0),
                    Argument::Result(4),
                    Argument::Parameter(2),
                    Argument::Parameter(3),
                ],
            },
        ];
        Ok((phases, vec![magnitudes, pass]))
    }

    /// `void words(packed error, error words)`.
    pub(crate) fn words(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose("Puts the error's words, four images of a channel, into whole vectors.");
        let (error, words) = (b.parameter(0), b.parameter(1));
        let memory = (b.object("packed error"), b.object("error words"));
        let plane = word(self.error().plane_bytes());
        loop_over(&mut b, self.feature_quads(), "quads of features", |b| {
            for feature in 0..word(ROWS) {
                for position in 0..word(self.outputs()) {
                    let offset = 16 * position + 4 * feature;
                    let value = b.load(Opcode::LoadW, (error, offset), memory.0);
                    let vector = b.emit(Opcode::VsplatW, (value,));
                    b.store(Opcode::StoreVNext, (words, 1, vector), memory.1);
                }
            }
            b.emit_to(error, Opcode::AddImmediate, (error, plane));
        });
        b.finish(None)
    }

    /// `int loudest(packed operand, packed error, error words)`: the bitwise or of the magnitudes of some features, those
    /// in the quads with the features of the largest sums of squares, each among every fourth.
    fn loudest(&self, name: &str, magnitudes: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 3);
        b.purpose("The bitwise or of the magnitudes of error channels with much energy.");
        let (operand, error, words) = (b.parameter(0), b.parameter(1), b.parameter(2));
        let object = b.object("packed error");
        let [most, index, best] = [(); 3].map(|()| b.fresh(Class::V));
        for vector in [most, index, best] {
            zero_vector(&mut b, vector);
        }
        let one = b.constant(1);
        let one = b.emit(Opcode::VsplatW, (one,));
        let plane = word(self.error().plane_bytes());
        let turns: Vec<Register> =
            (1..self.outputs()).map(|position| b.constant(16 * word(position))).collect();
        loop_over(&mut b, self.feature_quads(), "quads of features", |b| {
            // Lane f of the first four: the squares of feature f over all positions.
            let dy = b.load(Opcode::LoadV, (error, 0), object);
            let squares = b.emit(Opcode::VrmpyBBv, (dy, dy));
            let energy = b.copy(squares);
            for &turn in &turns {
                let turned = b.emit(Opcode::Vror, (squares, turn));
                b.emit_to(energy, Opcode::VaddW, (energy, turned));
            }
            let more = b.emit(Opcode::VcompareGtW, (energy, most));
            b.emit_to(best, Opcode::Vmux, (more, index, best));
            b.emit_to(most, Opcode::VmaxW, (most, energy));
            b.emit_to(index, Opcode::VaddW, (index, one));
            b.emit_to(error, Opcode::AddImmediate, (error, plane));
        });
        let quad_bytes = b.constant(word(ROWS * self.outputs() * VECTOR));
        let quads: Vec<Register> = (0..word(ROWS))
            .map(|feature| {
                let lane = b.constant(4 * feature);
                b.emit(Opcode::VextractW, (best, lane))
            })
            .collect();
        let count = b.constant(word(ROWS));
        let mut all = b.zero();
        for quad in quads {
            let from = b.copy(words);
            b.update(Opcode::MultiplyAccumulate, (from, quad, quad_bytes));
            let seen = b.call(magnitudes, &[operand, from, count]);
            all = b.emit(Opcode::Or, (all, seen));
        }
        b.finish(Some(all))
    }

    /// `int magnitudes(packed operand, error words, features)`: the bitwise or of the magnitudes of so many features.
    fn magnitudes(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 3);
        b.purpose("The bitwise or of the magnitudes of some error channels' sums.");
        let (operand, words, features) = (b.parameter(0), b.parameter(1), b.parameter(2));
        let tile = Tile::new(&mut b, self);
        let seen = [b.fresh(Class::V), b.fresh(Class::V)];
        seen.iter().for_each(|&seen| zero_vector(&mut b, seen));
        loop_over(&mut b, self.blocks(), "blocks of channels", |b| {
            tile.load(b, operand);
            b.emit_to(operand, Opcode::AddImmediate, (operand, word(BLOCK * VECTOR)));
            let from = b.copy(words);
            b.repeat(features, "a feature and 128 channels", |b| {
                tile.begin(from).iter().for_each(|piece| piece(b));
                let steps = tile.steps();
                for (step, sums) in steps.iter().enumerate() {
                    let mut magnitudes: Vec<Piece<'_>> = Vec::new();
                    for (&sum, seen) in sums.iter().zip(seen) {
                        magnitudes.push(Box::new(move |b| b.emit_to(sum, Opcode::VabsW, (sum,))));
                        magnitudes
                            .push(Box::new(move |b| b.emit_to(seen, Opcode::Vor, (seen, sum))));
                    }
                    weave(b, &[tile.products(step + 1), magnitudes]);
                }
            });
        });
        let seen = b.emit(Opcode::Vor, (seen[0], seen[1]));
        let seen = or_lanes(&mut b, seen);
        b.finish(Some(seen))
    }

    /// `int pass(packed operand, error words, row, magnitudes, bits, dw)`: everything by the shift that the bitwise or of magnitudes gives.
    fn pass(&self, name: &str, place_table: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 6);
        b.purpose("Sums, quantises and orders the gradient by the shift of given magnitudes.");
        let (magnitudes, bits) = (b.parameter(3), b.parameter(4));
        let rounding = Rounding::new(&mut b, magnitudes, bits);
        let result = b.constant(UNFIT);
        b.when(rounding.short, |b| {
            // A shift by 16 leaves too many bits to see one more.
            let far = b.emit(Opcode::CompareGtImmediate, (rounding.shift, 15));
            let near = b.emit(Opcode::PredicateNot, (far,));
            b.when(near, |b| self.quantised(b, place_table, &rounding, result));
        });
        b.finish(Some(result))
    }

    /// The pass for a shift of 1 to 15.
    fn quantised(&self, b: &mut Builder, place_table: &str, rounding: &Rounding, result: Register) {
        let [operand, words, row] = [0, 1, 2].map(|index| b.parameter(index));
        let dw = b.parameter(5);
        let order = Order::new(b, self, place_table, VECTOR);
        let seen = b.fresh(Class::V);
        zero_vector(b, seen);
        let tile = Tile::new(b, self);
        let odd = b.emit(Opcode::CompareEqImmediate, (rounding.odd, 1));
        let body = |b: &mut Builder, parity: Parity| {
            let short = Short::new(b, rounding, parity, self.sum_bits());
            self.tiles(b, &tile, &short, &order, [operand, words, row, dw], Some(seen));
        };
        b.branch(odd, |b| body(b, Parity::Odd), |b| body(b, Parity::Even));
        let seen = or_lanes(b, seen);
        let upper = b.emit(Opcode::LogicalRightImmediate, (seen, 16));
        let seen = b.emit(Opcode::Or, (seen, upper));
        let seen = b.emit(Opcode::ZeroExtendH, (seen,));
        let room = b.emit(Opcode::Sub, (rounding.width, rounding.rest));
        let seen = b.emit(Opcode::LogicalRight, (seen, room));
        let wide = b.emit(Opcode::CompareGtImmediate, (seen, 0));
        b.emit_to(result, Opcode::MuxImmediate, (wide, TOO_WIDE, DONE));
    }

    /// `void pass(packed operand, error words, row, dw)`: everything by a shift that is known ahead.
    pub(crate) fn static_pass(
        &self,
        name: &str,
        place_table: &str,
        shift: StaticShift,
    ) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 4);
        b.purpose("Sums, shifts and orders the gradient.");
        let places = [0, 1, 2, 3].map(|index| b.parameter(index));
        let order = Order::new(&mut b, self, place_table, VECTOR);
        let tile = Tile::new(&mut b, self);
        let vectors = ShortVectors::new(&mut b, shift.amount.into(), self.sum_bits());
        let short = vectors.short(&mut b);
        self.tiles(&mut b, &tile, &short, &order, places, None);
        b.finish(None)
    }

    /// All tiles; `places` are the packed operand, the error words, the row and the result.
    fn tiles(
        &self,
        b: &mut Builder,
        tile: &Tile,
        short: &Short,
        order: &Order,
        [operand, words, row, dw]: [Register; 4],
        seen: Option<Register>,
    ) {
        loop_over(b, self.blocks(), "blocks of channels", |b| {
            tile.load(b, operand);
            b.emit_to(operand, Opcode::AddImmediate, (operand, word(BLOCK * VECTOR)));
            let from = b.copy(words);
            let to = b.emit(Opcode::AddImmediate, (dw, AHEAD * word(VECTOR)));
            tile.begin(from).iter().for_each(|piece| piece(b));
            loop_over(b, self.features, "a feature and 128 channels", |b| {
                tile.row(b, short, order, [from, row, to], seen);
                let feature = word(self.channels * self.taps());
                b.emit_to(to, Opcode::AddImmediate, (to, feature));
            });
            let block = word(self.taps() * VECTOR);
            b.emit_to(dw, Opcode::AddImmediate, (dw, block));
        });
    }

    /// `int guess(working memory, magnitudes of some, bits, dw)`: returns the shift.
    fn guess(
        &self,
        name: &str,
        memory: Memory,
        [pass, magnitudes]: [&str; 2],
        detour: &[Function; 4],
    ) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 4);
        b.purpose("Quantises by the width of some magnitudes, and again if others are wider.");
        let (scratch, some) = (b.parameter(0), b.parameter(1));
        let (bits, dw) = (b.parameter(2), b.parameter(3));
        let at = |b: &mut Builder, place: Argument| {
            let Argument::Scratch(offset) = place else { return scratch };
            b.emit(Opcode::AddImmediate, (scratch, word(offset)))
        };
        let Memory { operand, error, words, starts, sums, bytes } = memory;
        let try_with = |b: &mut Builder, magnitudes: Register| {
            // The bytes' place takes the row.
            let [operand, words, row] = [operand, words, bytes].map(|place| at(b, place));
            b.call(pass, &[operand, words, row, magnitudes, bits, dw])
        };
        let shift = Rounding::new(&mut b, some, bits).exponent;
        let result = b.copy(shift);
        let outcome = try_with(&mut b, some);
        let failed = b.emit(Opcode::CompareGtImmediate, (outcome, TOO_WIDE));
        let failed = b.emit(Opcode::PredicateNot, (failed,));
        b.when(failed, |b| {
            let [from, error_words] = [operand, words].map(|place| at(b, place));
            let features = b.constant(word(self.features));
            let all = b.call(magnitudes, &[from, error_words, features]);
            let shift = Rounding::new(b, all, bits).exponent;
            b.copy_to(result, shift);
            let outcome = try_with(b, all);
            let unfit = b.emit(Opcode::CompareEqImmediate, (outcome, UNFIT));
            b.when(unfit, |b| {
                let [operand, error, starts, sums, bytes] =
                    [operand, error, starts, sums, bytes].map(|place| at(b, place));
                call_whole(b, &detour[0], &[error, starts]);
                let all = call_whole(b, &detour[1], &[operand, error, starts, sums]);
                call_whole(b, &detour[2], &[sums, bytes, all, bits]);
                call_whole(b, &detour[3], &[bytes, dw]);
            });
        });
        b.finish(Some(result))
    }
}

/// 128 channels of the operand, and one feature of the error, in registers.
struct Tile {
    /// By tap, (error position, operand position).
    pairs: Vec<Vec<(usize, usize)>>,
    /// `[position][vector]`.
    operand: Vec<[Register; BLOCK]>,
    /// Bytes of a position in the packed operand.
    position: usize,
    error: Vec<Register>,
    /// `[step][vector of the pair]`; a step is a tap and a pair of vectors.
    sums: Vec<[Register; 2]>,
    memory: (Object, Object),
}

impl Tile {
    fn new(b: &mut Builder, gradient: &WeightGradient) -> Self {
        Self {
            pairs: (0..gradient.taps()).map(|tap| gradient.pairs(tap)).collect(),
            operand: (0..gradient.inputs())
                .map(|_| std::array::from_fn(|_| b.fresh(Class::V)))
                .collect(),
            position: gradient.channels.div_ceil(LANES) * VECTOR,
            error: (0..gradient.outputs()).map(|_| b.fresh(Class::V)).collect(),
            sums: (0..2 * gradient.taps())
                .map(|_| [b.fresh(Class::V), b.fresh(Class::V)])
                .collect(),
            memory: (b.object("packed operand"), b.object("error words")),
        }
    }

    /// Loads the operand, from which the 128 is taken again.
    fn load(&self, b: &mut Builder, from: Register) {
        let flip = b.constant(0x8080_8080_u32.cast_signed());
        let flip = b.emit(Opcode::VsplatW, (flip,));
        for (position, vectors) in self.operand.iter().enumerate() {
            let from = b.emit(Opcode::AddImmediate, (from, word(position * self.position)));
            for &x in vectors {
                b.load_to(x, Opcode::LoadVNext, (from, 1), self.memory.0);
                b.emit_to(x, Opcode::Vxor, (x, flip));
            }
        }
    }

    fn steps(&self) -> &[[Register; 2]] {
        &self.sums
    }

    /// Loads a feature's error and makes the first sums, piece by piece; the address moves on.
    fn begin(&self, from: Register) -> Vec<Piece<'_>> {
        let mut pieces: Vec<Piece<'_>> = Vec::new();
        for &dy in &self.error {
            pieces.push(Box::new(move |b| {
                b.load_to(dy, Opcode::LoadVNext, (from, 1), self.memory.1);
            }));
        }
        pieces.extend(self.products(0));
        pieces
    }

    /// The sums of a step, piece by piece; none after the last.
    fn products(&self, step: usize) -> Vec<Piece<'_>> {
        let Some(&sums) = self.sums.get(step) else { return Vec::new() };
        let (tap, vectors) = (step / 2, PAIRS[step % 2]);
        let mut pieces: Vec<Piece<'_>> = Vec::new();
        for (index, &(result, operand)) in self.pairs[tap].iter().enumerate() {
            for (sum, vector) in sums.into_iter().zip(vectors) {
                let (x, dy) = (self.operand[operand][vector], self.error[result]);
                pieces.push(Box::new(move |b| match index {
                    0 => b.emit_to(sum, Opcode::VrmpyBBv, (x, dy)),
                    _ => b.update(Opcode::VrmpyBBvAccumulate, (sum, x, dy)),
                }));
            }
        }
        if self.pairs[tap].is_empty() {
            for sum in sums {
                pieces.push(Box::new(move |b| zero_vector(b, sum)));
            }
        }
        pieces
    }

    /// A feature's bytes: quantised tap by tap, turned, kept in the row, brought together; the last tap's stay in their
    /// register, since everything else is loaded while they are made. While a step is narrowed, the next one is
    /// multiplied; the first sums are there already and those of the next feature are at the end.
    fn row(
        &self,
        b: &mut Builder,
        short: &Short,
        order: &Order,
        [words, row, to]: [Register; 3],
        seen: Option<Register>,
    ) {
        let middle = b.emit(Opcode::AddImmediate, (row, AHEAD * word(VECTOR)));
        let last_tap = self.pairs.len() - 1;
        let place = |tap: usize| word(tap) - AHEAD;
        let mut vectors: Vec<Register> = (0..last_tap).map(|_| b.fresh(Class::V)).collect();
        let mut halves = Vec::new();
        let mut last: Vec<Piece<'_>> = Vec::new();
        for (step, &sums) in self.sums.iter().enumerate() {
            let (mut narrow, half) = short.halves(b, sums, seen);
            halves.push(half);
            let mut next = Vec::new();
            if let [even, odd] = halves[..] {
                let ([first, then], y) = short.join(b, [even, odd]);
                narrow.extend(first);
                next = then;
                let tap = step / 2;
                let turned = if tap == 0 { y } else { b.fresh(Class::V) };
                next.push(Box::new(move |b| {
                    order.turn(b, turned, y, tap);
                    if tap < last_tap {
                        b.store(Opcode::StoreV, (middle, place(tap), turned), order.bytes());
                    }
                }));
                if tap == last_tap {
                    vectors.push(turned);
                }
                halves.clear();
            }
            weave(b, &[self.products(step + 1), narrow, std::mem::replace(&mut last, next)]);
        }
        let loads = vectors[..last_tap].iter().enumerate().map(|(tap, &vector)| -> Piece<'_> {
            Box::new(move |b| b.load_to(vector, Opcode::LoadV, (middle, place(tap)), order.bytes()))
        });
        weave(b, &[last, loads.collect()]);
        let [select, store] = order.select(b, vectors, to);
        select.iter().for_each(|piece| piece(b));
        weave(b, &[store, self.begin(words)]);
    }
}
