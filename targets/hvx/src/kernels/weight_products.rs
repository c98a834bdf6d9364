//! The products of a weight gradient, a tile of error and operand channels after another; the layouts are those of
//! [`weight_gradient`](super::weight_gradient).

use super::product::{GROUP, VECTOR};
use super::static_shift::{Narrow, StaticShift};
use super::support::{Piece, loop_over, multiply_among, or_lanes, words, zero_vector};
use super::weight_gradient::{ROWS, WeightGradient, word};
use crate::machine::{Builder, Class, Function, MachineError, Object, Opcode, Register};

/// What becomes of sums.
#[derive(Clone, Copy)]
enum Finish {
    /// They stay as they are: in rows, or those of a block after one another.
    Sums { in_rows: bool },
    /// They are shifted as they are made.
    Shifted(StaticShift),
}

impl WeightGradient {
    /// Quads of features of a tile: with a single vector, two share it, as loads would take longer than products. Sums that are
    /// shifted as they are made leave too few registers for that.
    fn tile_quads(&self, shifts: bool) -> usize {
        let two = self.block() == 1 && self.feature_quads().is_multiple_of(2) && !shifts;
        if two { 2 } else { 1 }
    }

    /// Packets of four of a tile's steps for each of its quads of features and vectors.
    pub(crate) fn four_steps(&self) -> usize {
        match (self.block(), self.tile_quads(false)) {
            (1, 1) => 12,
            (1, _) => 9,
            _ => 8,
        }
    }

    /// Most products of a sum.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.groups() * GROUP * self.outputs()
    }

    /// `int products(packed operand, packed error, start values, sums)`: returns the bitwise or of all magnitudes.
    /// Lanes that are none of `columns`, if given, do not count. In rows, a feature's sums of all blocks follow each other.
    pub(crate) fn products(
        &self,
        name: &str,
        table: &str,
        columns: Option<&str>,
        in_rows: bool,
    ) -> Result<Function, MachineError> {
        self.sums_to(name, table, columns, Finish::Sums { in_rows })
    }

    /// `void products(packed operand, packed error, start values, bytes)`: shifted sums; byte `4 l + i` of a vector is
    /// lane `l` of the i-th of its four vectors of sums.
    pub(crate) fn shifted_products(
        &self,
        name: &str,
        table: &str,
        shift: StaticShift,
    ) -> Result<Function, MachineError> {
        self.sums_to(name, table, None, Finish::Shifted(shift))
    }

    fn sums_to(
        &self,
        name: &str,
        table: &str,
        columns: Option<&str>,
        finish: Finish,
    ) -> Result<Function, MachineError> {
        let (shift, in_rows) = match finish {
            Finish::Sums { in_rows } => (None, in_rows),
            Finish::Shifted(shift) => (Some(shift), false),
        };
        let mut b = Builder::new(name, 4);
        b.purpose("Products of error and operand over all positions of each tap.");
        let (operand, error) = (b.parameter(0), b.parameter(1));
        let (starts, sums) = (b.parameter(2), b.parameter(3));
        let together = self.tile_quads(shift.is_some());
        let tiles = self.feature_quads() / together;
        let quads = b.range(tiles, &["operand", "error", "starts", "sums"]);
        let plane = self.error().plane_bytes();
        let sums_bytes = self.sums_bytes() / if shift.is_some() { 4 } else { 1 };
        let quad_sums = sums_bytes / self.feature_quads();
        quads.move_on(&mut b, error, together * plane);
        quads.move_on(&mut b, starts, together * self.taps() * VECTOR);
        quads.move_on(&mut b, sums, together * quad_sums);
        let row = in_rows.then(|| self.vectors() * VECTOR);
        let tile = Tile { row, ..Tile::new(&mut b, self, [error, sums], shift.is_none()) };
        let narrow = shift.map(|shift| shift.narrow(&mut b, self.depth()));
        quads.repeat(&mut b, "quads of features", |b| {
            let column = b.copy(operand);
            for (index, quad) in (0..).zip(&tile.quads).filter(|_| together > 1) {
                b.emit_to(quad.error, Opcode::AddImmediate, (error, index * word(plane)));
                b.emit_to(quad.sums, Opcode::AddImmediate, (sums, index * word(quad_sums)));
            }
            loop_over(b, self.blocks(), "blocks of channels", |b| {
                let start = b.copy(starts);
                let head = b.address(table, 0);
                let masks = columns.map(|columns| b.address(columns, 0));
                loop_over(b, self.taps(), "taps", |b| {
                    tile.start(b, start, self.taps() * VECTOR);
                    b.emit_to(start, Opcode::AddImmediate, (start, word(VECTOR)));
                    let entry = b.load(Opcode::LoadDNext, (head, 8), tile.list_object);
                    let list = b.address(table, 0);
                    let list = b.emit(Opcode::Add, (list, entry.high()));
                    tile.sum(b, self, column, entry.low(), list);
                    match &narrow {
                        Some(narrow) => tile.finish_shifted(b, narrow),
                        None => tile.finish(b, masks),
                    }
                });
                let block = word(self.block() * VECTOR);
                b.emit_to(column, Opcode::AddImmediate, (column, block));
            });
            // A single quad's sums have moved on, or by a row.
            let rest = match (together, row) {
                (1, Some(row)) => quad_sums - row,
                (1, None) => 0,
                _ => together * quad_sums,
            };
            for (pointer, bytes) in
                [(starts, together * self.taps() * VECTOR), (error, together * plane), (sums, rest)]
            {
                if bytes > 0 {
                    b.emit_to(pointer, Opcode::AddImmediate, (pointer, word(bytes)));
                }
            }
        });
        let magnitude = shift.is_none().then(|| or_lanes(&mut b, tile.magnitude));
        b.finish(magnitude)
    }
}

/// Quads of features times a block of vectors of channels.
struct Tile {
    quads: Vec<Quad>,
    steps: [Step; 2],
    magnitude: Register,
    /// Bytes from a feature's sums to the next's, if all blocks of a feature lie between.
    row: Option<usize>,
    /// What loads a vector of the operand.
    load: Opcode,
    operand_object: Object,
    error_object: Object,
    list_object: Object,
    start_object: Object,
    sum_object: Object,
}

/// Four features.
struct Quad {
    error: Register,
    sums: Register,
    /// `[vector][feature]`.
    accumulators: Vec<[Register; ROWS]>,
}

struct Step {
    /// Of each quad.
    features: Vec<[Register; 2]>,
    vectors: Vec<Register>,
}

/// Where the next loads come from.
struct Walk {
    /// Of each quad.
    errors: Vec<Register>,
    operand: Register,
    list: Register,
    next: Register,
    dy: Vec<Register>,
    x: Register,
}

impl Tile {
    /// With the error and the sums of a single quad.
    fn new(
        b: &mut Builder,
        gradient: &WeightGradient,
        [error, sums]: [Register; 2],
        magnitudes: bool,
    ) -> Self {
        let (block, quads) = (gradient.block(), gradient.tile_quads(!magnitudes));
        let magnitude = b.fresh(Class::V);
        if magnitudes {
            zero_vector(b, magnitude);
        }
        let step = |b: &mut Builder| Step {
            features: (0..quads).map(|_| [b.fresh(Class::RR), b.fresh(Class::RR)]).collect(),
            vectors: (0..block).map(|_| b.fresh(Class::V)).collect(),
        };
        let quad = |b: &mut Builder| Quad {
            error: if quads == 1 { error } else { b.fresh(Class::R) },
            sums: if quads == 1 { sums } else { b.fresh(Class::R) },
            accumulators: (0..block).map(|_| std::array::from_fn(|_| b.fresh(Class::V))).collect(),
        };
        Self {
            quads: (0..quads).map(|_| quad(b)).collect(),
            steps: [step(b), step(b)],
            magnitude,
            row: None,
            load: if gradient.narrow.is_some() { Opcode::LoadVUnaligned } else { Opcode::LoadV },
            operand_object: b.object("packed operand"),
            error_object: b.object("packed error"),
            list_object: b.object("taps"),
            start_object: b.object("start values"),
            sum_object: b.object("sums"),
        }
    }

    /// Start values; those of a quad's taps are so many bytes before the next quad's.
    fn start(&self, b: &mut Builder, starts: Register, quad_bytes: usize) {
        for (index, quad) in (0..).zip(&self.quads) {
            let starts = match index {
                0 => starts,
                _ => b.emit(Opcode::AddImmediate, (starts, index * word(quad_bytes))),
            };
            let first = b.load(Opcode::LoadD, (starts, 0), self.start_object);
            let second = b.load(Opcode::LoadD, (starts, 8), self.start_object);
            let values = words([first, second]);
            for (feature, &value) in values.iter().enumerate() {
                b.emit_to(quad.accumulators[0][feature], Opcode::VsplatW, (value,));
                for vector in &quad.accumulators[1..] {
                    b.emit_to(vector[feature], Opcode::Vassign, (quad.accumulators[0][feature],));
                }
            }
        }
    }

    /// What loads a step's operands and the next entry, in pieces of about a packet's load.
    fn loads<'a>(&'a self, step: usize, walk: &'a Walk) -> Vec<Piece<'a>> {
        let step = &self.steps[step];
        let mut pieces: Vec<Piece<'a>> = vec![
            Box::new(|b| {
                for (&dy, &error) in walk.dy.iter().zip(&walk.errors) {
                    b.emit_to(dy, Opcode::Add, (error, walk.next.low()));
                }
                b.emit_to(walk.x, Opcode::Add, (walk.operand, walk.next.high()));
            }),
            Box::new(|b| {
                b.load_to(walk.next, Opcode::LoadDNext, (walk.list, 8), self.list_object);
            }),
        ];
        for (features, &dy) in step.features.iter().zip(&walk.dy) {
            for (half, &features) in (0..).zip(features) {
                pieces.push(Box::new(move |b| {
                    b.load_to(features, Opcode::LoadD, (dy, 8 * half), self.error_object);
                }));
            }
        }
        for (index, &vector) in step.vectors.iter().enumerate() {
            pieces.push(Box::new(move |b| {
                b.load_to(vector, self.load, (walk.x, word(index)), self.operand_object);
            }));
        }
        pieces
    }

    fn multiply(&self, b: &mut Builder, step: usize, pieces: &[Piece<'_>]) {
        let step = &self.steps[step];
        let names = ("input channels", "error channels");
        let count = self.quads.len();
        for (index, (quad, &features)) in self.quads.iter().zip(&step.features).enumerate() {
            let part = |index: usize| index * pieces.len() / count;
            let (rows, pieces) = (words(features), &pieces[part(index)..part(index + 1)]);
            let accumulate = Opcode::VrmpyUbBAccumulate;
            multiply_among(b, accumulate, &quad.accumulators, &step.vectors, rows, pieces, names);
        }
    }

    /// Adds all positions of a tap: `rounds` times two pairs, and two more. Loads run one pair ahead.
    fn sum(
        &self,
        b: &mut Builder,
        gradient: &WeightGradient,
        column: Register,
        rounds: Register,
        list: Register,
    ) {
        let walk = Walk {
            errors: self.quads.iter().map(|quad| b.copy(quad.error)).collect(),
            operand: b.copy(column),
            list: b.copy(list),
            next: b.fresh(Class::RR),
            dy: self.quads.iter().map(|_| b.fresh(Class::R)).collect(),
            x: b.fresh(Class::R),
        };
        let loads = [self.loads(0, &walk), self.loads(1, &walk)];
        b.load_to(walk.next, Opcode::LoadDNext, (walk.list, 8), self.list_object);
        loads[0].iter().for_each(|piece| piece(b));
        let groups = gradient.groups();
        let strides = gradient.group_strides();
        loop_over(b, groups, "groups of images", |b| {
            let purpose = match self.quads.len() {
                1 => "two positions of 4 features and a block of channels",
                _ => "two positions of 8 features and 32 channels",
            };
            let body = |b: &mut Builder| {
                self.multiply(b, 0, &loads[1]);
                self.multiply(b, 1, &loads[0]);
            };
            match gradient.fewest_rounds() {
                0 => b.repeat_if_any(rounds, purpose, body),
                fewest => b.repeat_at_least(rounds, fewest, purpose, body),
            }
            self.multiply(b, 0, &loads[1]);
            if groups > 1 {
                for &error in &walk.errors {
                    b.emit_to(error, Opcode::AddImmediate, (error, word(strides.0)));
                }
                b.emit_to(walk.operand, Opcode::AddImmediate, (walk.operand, word(strides.1)));
                self.multiply(b, 1, &loads[0]);
                b.emit_to(walk.list, Opcode::AddImmediate, (list, 8));
                b.load_to(walk.next, Opcode::LoadDNext, (walk.list, 8), self.list_object);
            } else {
                self.multiply(b, 1, &[]);
            }
        });
    }

    /// Stores the sums and notes the magnitudes of those in the lanes of a mask, which moves on.
    fn finish(&self, b: &mut Builder, masks: Option<Register>) {
        let mask = masks.map(|masks| {
            let object = b.object("columns");
            b.load(Opcode::LoadVNext, (masks, 1), object)
        });
        for quad in &self.quads {
            for feature in 0..ROWS {
                let row = self.row.map(|row| match feature {
                    0 => quad.sums,
                    _ => b.emit(Opcode::AddImmediate, (quad.sums, word(feature * row))),
                });
                for (i, vector) in (0..).zip(&quad.accumulators) {
                    let sum = vector[feature];
                    match row {
                        Some(row) => b.store(Opcode::StoreV, (row, i, sum), self.sum_object),
                        None => b.store(Opcode::StoreVNext, (quad.sums, 1, sum), self.sum_object),
                    }
                    let result = match mask {
                        Some(mask) => b.emit(Opcode::Vand, (sum, mask)),
                        None => sum,
                    };
                    let magnitude = b.emit(Opcode::VabsW, (result,));
                    b.emit_to(self.magnitude, Opcode::Vor, (self.magnitude, magnitude));
                }
            }
            if self.row.is_some() {
                let block = word(quad.accumulators.len() * VECTOR);
                b.emit_to(quad.sums, Opcode::AddImmediate, (quad.sums, block));
            }
        }
    }

    /// Stores the sums as bytes.
    fn finish_shifted(&self, b: &mut Builder, narrow: &Narrow) {
        for quad in &self.quads {
            // Features one after another, of each its vectors: as many sums as bytes of a lane's word.
            let sums: Vec<Register> = (0..ROWS)
                .flat_map(|feature| quad.accumulators.iter().map(move |vector| vector[feature]))
                .collect();
            let fours = sums.chunks_exact(4).map(|four| std::array::from_fn(|i| four[i]));
            narrow.ready(b).all(b, fours, |b, y| {
                b.store(Opcode::StoreVNext, (quad.sums, 1, y), self.sum_object);
            });
        }
    }
}
