//! The products of a weight gradient, a tile of error and operand channels after another; the layouts are those of
//! [`weight_gradient`](super::weight_gradient).

use super::product::{GROUP, VECTOR};
use super::static_shift::{Narrow, StaticShift};
use super::support::{Piece, loop_over, multiply_among, or_lanes, words, zero_vector};
use super::weight_gradient::{ROWS, WeightGradient, word};
use crate::machine::{Builder, Class, Function, MachineError, Object, Opcode, Register};

impl WeightGradient {
    /// Most products of a sum.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.groups() * GROUP * self.outputs()
    }

    /// `int products(packed operand, packed error, start values, sums)`: returns the bitwise or of all magnitudes.
    pub(crate) fn products(&self, name: &str, table: &str) -> Result<Function, MachineError> {
        self.sums_to(name, table, None)
    }

    /// `void products(packed operand, packed error, start values, bytes)`: shifted sums; byte `4 l + i` of a vector is
    /// lane `l` of the i-th of its four vectors of sums.
    pub(crate) fn shifted_products(
        &self,
        name: &str,
        table: &str,
        shift: StaticShift,
    ) -> Result<Function, MachineError> {
        self.sums_to(name, table, Some(shift))
    }

    fn sums_to(
        &self,
        name: &str,
        table: &str,
        shift: Option<StaticShift>,
    ) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 4);
        b.purpose("Products of error and operand over all positions of each tap.");
        let (operand, error) = (b.parameter(0), b.parameter(1));
        let (starts, sums) = (b.parameter(2), b.parameter(3));
        let quads = b.range(self.feature_quads(), &["operand", "error", "starts", "sums"]);
        let plane = self.error().plane_bytes();
        let quad_sums = self.sums_bytes() / self.feature_quads();
        quads.move_on(&mut b, error, plane);
        quads.move_on(&mut b, starts, self.taps() * VECTOR);
        quads.move_on(&mut b, sums, if shift.is_some() { quad_sums / 4 } else { quad_sums });
        let tile = Tile::new(&mut b, self, error, sums, shift.is_none());
        let narrow = shift.map(|shift| shift.narrow(&mut b, self.depth()));
        quads.repeat(&mut b, "quads of features", |b| {
            let column = b.copy(operand);
            loop_over(b, self.blocks(), "blocks of channels", |b| {
                let start = b.copy(starts);
                let head = b.address(table, 0);
                loop_over(b, self.taps(), "taps", |b| {
                    tile.start(b, start);
                    b.emit_to(start, Opcode::AddImmediate, (start, word(VECTOR)));
                    let entry = b.load(Opcode::LoadDNext, (head, 8), tile.list_object);
                    let list = b.address(table, 0);
                    let list = b.emit(Opcode::Add, (list, entry.high()));
                    tile.sum(b, self, column, entry.low(), list);
                    match &narrow {
                        Some(narrow) => tile.finish_shifted(b, narrow),
                        None => tile.finish(b),
                    }
                });
                let block = word(self.block() * VECTOR);
                b.emit_to(column, Opcode::AddImmediate, (column, block));
            });
            b.emit_to(starts, Opcode::AddImmediate, (starts, word(self.taps() * VECTOR)));
            b.emit_to(error, Opcode::AddImmediate, (error, word(plane)));
        });
        let magnitude = shift.is_none().then(|| or_lanes(&mut b, tile.magnitude));
        b.finish(magnitude)
    }
}

/// Four features times a block of vectors of channels.
struct Tile {
    error: Register,
    sums: Register,
    /// `[vector][feature]`.
    accumulators: Vec<[Register; ROWS]>,
    steps: [Step; 2],
    magnitude: Register,
    operand_object: Object,
    error_object: Object,
    list_object: Object,
    start_object: Object,
    sum_object: Object,
}

struct Step {
    features: [Register; 2],
    vectors: Vec<Register>,
}

/// Where the next loads come from.
struct Walk {
    error: Register,
    operand: Register,
    list: Register,
    next: Register,
    dy: Register,
    x: Register,
}

impl Tile {
    fn new(
        b: &mut Builder,
        gradient: &WeightGradient,
        error: Register,
        sums: Register,
        magnitudes: bool,
    ) -> Self {
        let block = gradient.block();
        let magnitude = b.fresh(Class::V);
        if magnitudes {
            zero_vector(b, magnitude);
        }
        let step = |b: &mut Builder| Step {
            features: [b.fresh(Class::RR), b.fresh(Class::RR)],
            vectors: (0..block).map(|_| b.fresh(Class::V)).collect(),
        };
        Self {
            error,
            sums,
            accumulators: (0..block).map(|_| std::array::from_fn(|_| b.fresh(Class::V))).collect(),
            steps: [step(b), step(b)],
            magnitude,
            operand_object: b.object("packed operand"),
            error_object: b.object("packed error"),
            list_object: b.object("taps"),
            start_object: b.object("start values"),
            sum_object: b.object("sums"),
        }
    }

    fn start(&self, b: &mut Builder, starts: Register) {
        let first = b.load(Opcode::LoadD, (starts, 0), self.start_object);
        let second = b.load(Opcode::LoadD, (starts, 8), self.start_object);
        let values = words([first, second]);
        for (feature, &value) in values.iter().enumerate() {
            b.emit_to(self.accumulators[0][feature], Opcode::VsplatW, (value,));
            for vector in &self.accumulators[1..] {
                b.emit_to(vector[feature], Opcode::Vassign, (self.accumulators[0][feature],));
            }
        }
    }

    /// What loads a step's operands and the next entry, in pieces of about a packet's load.
    fn loads<'a>(&'a self, step: usize, walk: &'a Walk) -> Vec<Piece<'a>> {
        let step = &self.steps[step];
        let mut pieces: Vec<Piece<'a>> = vec![
            Box::new(|b| {
                b.emit_to(walk.dy, Opcode::Add, (walk.error, walk.next.low()));
                b.emit_to(walk.x, Opcode::Add, (walk.operand, walk.next.high()));
            }),
            Box::new(|b| {
                b.load_to(walk.next, Opcode::LoadDNext, (walk.list, 8), self.list_object);
            }),
        ];
        for (half, &features) in step.features.iter().enumerate() {
            pieces.push(Box::new(move |b| {
                b.load_to(features, Opcode::LoadD, (walk.dy, 8 * word(half)), self.error_object);
            }));
        }
        for (index, &vector) in step.vectors.iter().enumerate() {
            pieces.push(Box::new(move |b| {
                b.load_to(vector, Opcode::LoadV, (walk.x, word(index)), self.operand_object);
            }));
        }
        pieces
    }

    fn multiply(&self, b: &mut Builder, step: usize, pieces: &[Piece<'_>]) {
        let step = &self.steps[step];
        let rows = words(step.features);
        let names = ("input channels", "error channels");
        let accumulate = Opcode::VrmpyUbBAccumulate;
        multiply_among(b, accumulate, &self.accumulators, &step.vectors, rows, pieces, names);
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
            error: b.copy(self.error),
            operand: b.copy(column),
            list: b.copy(list),
            next: b.fresh(Class::RR),
            dy: b.fresh(Class::R),
            x: b.fresh(Class::R),
        };
        let loads = [self.loads(0, &walk), self.loads(1, &walk)];
        b.load_to(walk.next, Opcode::LoadDNext, (walk.list, 8), self.list_object);
        loads[0].iter().for_each(|piece| piece(b));
        let groups = gradient.groups();
        let strides = gradient.group_strides();
        loop_over(b, groups, "groups of images", |b| {
            let purpose = "two positions of 4 features and a block of channels";
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
                b.emit_to(walk.error, Opcode::AddImmediate, (walk.error, word(strides.0)));
                b.emit_to(walk.operand, Opcode::AddImmediate, (walk.operand, word(strides.1)));
                self.multiply(b, 1, &loads[0]);
                b.emit_to(walk.list, Opcode::AddImmediate, (list, 8));
                b.load_to(walk.next, Opcode::LoadDNext, (walk.list, 8), self.list_object);
            } else {
                self.multiply(b, 1, &[]);
            }
        });
    }

    fn finish(&self, b: &mut Builder) {
        for feature in 0..ROWS {
            for vector in &self.accumulators {
                let sum = vector[feature];
                b.store(Opcode::StoreVNext, (self.sums, 1, sum), self.sum_object);
                let magnitude = b.emit(Opcode::VabsW, (sum,));
                b.emit_to(self.magnitude, Opcode::Vor, (self.magnitude, magnitude));
            }
        }
    }

    /// Stores the sums as bytes.
    fn finish_shifted(&self, b: &mut Builder, narrow: &Narrow) {
        // Features one after another, of each its vectors: as many sums as bytes of a lane's word.
        let sums: Vec<Register> = (0..ROWS)
            .flat_map(|feature| self.accumulators.iter().map(move |vector| vector[feature]))
            .collect();
        let fours = sums.chunks_exact(4).map(|four| std::array::from_fn(|i| four[i]));
        narrow.ready(b).all(b, fours, |b, y| {
            b.store(Opcode::StoreVNext, (self.sums, 1, y), self.sum_object);
        });
    }
}
