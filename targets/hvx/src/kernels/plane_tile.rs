//! A tile of the products of planes: a few vectors of positions times a few features.

use super::support::{Piece, loop_over};
use super::weight_gradient::word;
use crate::machine::{Builder, Class, Object, Opcode, Register};

/// What a loop of a tile does.
const TWICE: &str = "4 channels of a tap, twice";

/// What a tile reads and writes.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    pub(super) frames: Object,
    pub(super) weights: Object,
    pub(super) steps: Object,
    pub(super) lanes: Object,
    pub(super) sums: Object,
}

/// Vectors of positions times features.
pub(super) struct Tile {
    /// `[vector][feature]`.
    accumulators: Vec<Vec<Register>>,
    /// Two steps' operands: one is multiplied while the other is loaded.
    steps: [Step; 2],
    /// Bytes from a feature's sums to the next's.
    plane: usize,
    /// Bitwise or of the magnitudes, if wanted.
    magnitude: Option<Register>,
    memory: Memory,
}

struct Step {
    /// Words of two features each.
    weights: Vec<Register>,
    vectors: Vec<Register>,
    /// Where the operand lies, and, of lists, the weights.
    distance: Register,
    place: Register,
    entry: Register,
    weights_at: Register,
}

/// Where a step's weights lie.
#[derive(Clone, Copy)]
enum Weights {
    /// One step's behind the other's.
    Next(Register),
    /// So many half pairs behind these, as lists say.
    Listed(Register),
}

impl Tile {
    pub(super) fn new(
        b: &mut Builder,
        rows: usize,
        vectors: usize,
        plane: usize,
        magnitude: Option<Register>,
        memory: Memory,
    ) -> Tile {
        let fresh = |b: &mut Builder, class, count| (0..count).map(|_| b.fresh(class)).collect();
        let step = |b: &mut Builder| Step {
            weights: fresh(b, Class::RR, rows / 2),
            vectors: fresh(b, Class::V, vectors),
            distance: b.fresh(Class::R),
            place: b.fresh(Class::R),
            entry: b.fresh(Class::RR),
            weights_at: b.fresh(Class::R),
        };
        let steps = [step(b), step(b)];
        let accumulators = (0..vectors).map(|_| fresh(b, Class::V, rows)).collect();
        Tile { accumulators, steps, plane, magnitude, memory }
    }

    /// Start values of the features in all lanes.
    pub(super) fn start(&self, b: &mut Builder, starts: Register) {
        for feature in 0..self.accumulators[0].len() {
            let at = word(4 * feature);
            let value = b.load(Opcode::LoadW, (starts, at), self.memory.weights);
            let first = self.accumulators[0][feature];
            b.emit_to(first, Opcode::VsplatW, (value,));
            for vector in &self.accumulators[1..] {
                b.emit_to(vector[feature], Opcode::Vassign, (first,));
            }
        }
    }

    /// What loads a step's operands.
    fn loads(&self, step: usize, x: Register, list: Register, weights: Weights) -> Vec<Piece<'_>> {
        let step = &self.steps[step];
        let mut pieces: Vec<Piece<'_>> = Vec::new();
        match weights {
            Weights::Next(w) => {
                pieces.push(Box::new(move |b| {
                    b.load_to(step.distance, Opcode::LoadWNext, (list, 4), self.memory.steps);
                }));
                pieces.push(Box::new(move |b| {
                    b.emit_to(step.place, Opcode::Add, (x, step.distance))
                }));
                for &pair in &step.weights {
                    pieces.push(Box::new(move |b| {
                        b.load_to(pair, Opcode::LoadDNext, (w, 8), self.memory.weights);
                    }));
                }
            }
            Weights::Listed(w) => {
                let entry = step.entry;
                pieces.push(Box::new(move |b| {
                    b.load_to(entry, Opcode::LoadDNext, (list, 8), self.memory.steps);
                }));
                pieces
                    .push(Box::new(move |b| b.emit_to(step.place, Opcode::Add, (x, entry.low()))));
                // Lists count with two features.
                let pairs = step.weights.len();
                pieces.push(Box::new(move |b| match pairs {
                    1 => b.emit_to(step.weights_at, Opcode::Add, (w, entry.high())),
                    _ => b.emit_to(step.weights_at, Opcode::AddShifted, (w, entry.high(), 1)),
                }));
                for (at, &pair) in (0..).zip(&step.weights) {
                    pieces.push(Box::new(move |b| {
                        b.load_to(
                            pair,
                            Opcode::LoadD,
                            (step.weights_at, 8 * at),
                            self.memory.weights,
                        );
                    }));
                }
            }
        }
        for (at, &vector) in (0..).zip(&step.vectors) {
            pieces.push(Box::new(move |b| {
                let operands = (step.place, at);
                b.load_to(vector, Opcode::LoadVUnaligned, operands, self.memory.frames);
            }));
        }
        pieces
    }

    fn multiply(&self, b: &mut Builder, step: usize, pieces: &[Piece<'_>]) {
        let step = &self.steps[step];
        let rows = step.weights.iter().flat_map(|pair| [pair.low(), pair.high()]);
        let rows: Vec<Register> = rows.collect();
        let pairs = step.vectors.len() * rows.len() / 2;
        let mut done = 0;
        for pair in 0..pairs {
            let (vector, first) = (pair / (rows.len() / 2), 2 * (pair % (rows.len() / 2)));
            for row in [first, first + 1] {
                let sum = self.accumulators[vector][row];
                let operands = (sum, step.vectors[vector], rows[row]);
                b.update(Opcode::VrmpyUbBAccumulate, operands);
            }
            while done * pairs < (pair + 1) * pieces.len() && done < pieces.len() {
                pieces[done](b);
                done += 1;
            }
        }
    }

    /// Adds two steps so often, weights one behind the other; loads run one step ahead of the products.
    pub(super) fn sum(
        &self,
        b: &mut Builder,
        x: Register,
        list: Register,
        weights: Register,
        rounds: usize,
    ) {
        let w = b.copy(weights);
        let loads = self.first_loads(b, x, list, Weights::Next(w));
        loop_over(b, rounds, TWICE, |b| self.two_steps(b, &loads));
    }

    /// As [`Self::sum`], weights where lists of (distance, place) say.
    pub(super) fn sum_of_lists(
        &self,
        b: &mut Builder,
        x: Register,
        list: Register,
        weights: Register,
        rounds: Register,
    ) {
        let loads = self.first_loads(b, x, list, Weights::Listed(weights));
        b.repeat(rounds, TWICE, |b| self.two_steps(b, &loads));
    }

    /// Loads the first step's operands: what loads those of the steps that follow.
    fn first_loads(
        &self,
        b: &mut Builder,
        x: Register,
        list: Register,
        weights: Weights,
    ) -> [Vec<Piece<'_>>; 2] {
        let loads = [0, 1].map(|step| self.loads(step, x, list, weights));
        loads[0].iter().for_each(|piece| piece(b));
        loads
    }

    fn two_steps(&self, b: &mut Builder, loads: &[Vec<Piece<'_>>; 2]) {
        self.multiply(b, 0, &loads[1]);
        self.multiply(b, 1, &loads[0]);
    }

    /// Stores the sums and notes the magnitudes, if wanted, of those that are results, as masks say; of all, if there are none.
    pub(super) fn finish(&self, b: &mut Builder, to: Register, mask: Option<Register>) {
        let masks: Vec<Option<Register>> = (0..)
            .zip(&self.accumulators)
            .map(|(at, _)| mask.map(|mask| b.load(Opcode::LoadV, (mask, at), self.memory.lanes)))
            .collect();
        let place = b.copy(to);
        for feature in 0..self.accumulators[0].len() {
            for (at, (vector, &mask)) in (0..).zip(self.accumulators.iter().zip(&masks)) {
                b.store(Opcode::StoreV, (place, at, vector[feature]), self.memory.sums);
                let Some(magnitudes) = self.magnitude else { continue };
                let result = match mask {
                    Some(mask) => b.emit(Opcode::Vand, (vector[feature], mask)),
                    None => vector[feature],
                };
                let magnitude = b.emit(Opcode::VabsW, (result,));
                b.emit_to(magnitudes, Opcode::Vor, (magnitudes, magnitude));
            }
            b.emit_to(place, Opcode::AddImmediate, (place, word(self.plane)));
        }
    }
}
