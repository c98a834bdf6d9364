//! Products of runs of bytes, each of one side with each of the other: lanes are places in the runs.
//!
//! A tile is a few runs of the left times a few of the right; its accumulators' lanes are added at the end, all together by
//! shuffles. Sums lie `[left][right]`, each row with room for a vector more.

use super::kernel::DataObject;
use super::plane_memory::advance;
use super::product::{LANES, VECTOR};
use super::support::{loop_over, or_lanes, zero_vector};
use super::weight_gradient::word;
use crate::machine::{Builder, Class, Function, MachineError, Object, Opcode, Register};

/// Accumulators of a tile.
const SUMS: usize = 16;
/// Runs of the left times runs of the right of a tile.
const TILES: [[usize; 2]; 9] =
    [[4, 4], [3, 5], [5, 3], [2, 8], [1, 16], [2, 4], [1, 8], [1, 4], [1, 2]];

/// Runs of bytes; the left ones hold zeros where nothing is to be counted.
pub(super) struct Runs {
    /// Runs of the left, and bytes from one to the next.
    pub(super) left: usize,
    pub(super) left_bytes: usize,
    /// Where the runs of the right begin.
    pub(super) right: Vec<usize>,
    /// Vectors of a run, an even number. One more is read behind each.
    pub(super) vectors: usize,
    /// Whether the bytes of the right are unsigned.
    pub(super) unsigned: bool,
}

impl Runs {
    /// Whether there is a tile for them.
    pub(super) fn is_supported(&self) -> bool {
        let fits = |&[left, right]: &[usize; 2]| left <= self.left && right <= self.right.len();
        TILES.iter().any(fits) && self.sums_bytes() < 1 << 28
    }

    /// Words of a row of the sums, a multiple of four vectors'.
    pub(super) fn row(&self) -> usize {
        (self.right.len() + LANES).next_multiple_of(VECTOR)
    }

    /// Bytes of the sums.
    pub(super) fn sums_bytes(&self) -> usize {
        self.left * self.row() * 4
    }

    fn tile(&self) -> [usize; 2] {
        let fits = |tile: &&[usize; 2]| tile[0] <= self.left && tile[1] <= self.right.len();
        let cost = |tile: &&[usize; 2]| self.tile_packets(**tile);
        TILES.iter().filter(fits).min_by_key(cost).copied().unwrap_or(TILES[0])
    }

    fn tile_packets(&self, [left, right]: [usize; 2]) -> usize {
        let tiles = self.left.div_ceil(left) * self.right.len().div_ceil(right);
        let step = (left * right).max(left + right);
        tiles * (self.vectors * step + 2 * left + right + 20)
    }

    /// An estimate of the packets of all products.
    pub(super) fn packets(&self) -> usize {
        self.tile_packets(self.tile())
    }

    /// Of tiles' left sides: the offsets of runs and of sums; of right sides: that of the sums, then those of runs.
    pub(super) fn tables(&self, name: &str) -> [DataObject; 2] {
        let [left, right] = self.tile();
        // The last tile goes back as far as it lacks runs: their sums arise twice.
        let starts = |all: usize, some: usize| {
            (0..all.div_ceil(some)).map(move |i| (i * some).min(all - some))
        };
        let rows = starts(self.left, left)
            .flat_map(|f| [word(f * self.left_bytes), word(f * self.row() * 4)]);
        let columns = starts(self.right.len(), right).flat_map(|first| {
            let runs = self.right[first..first + right].iter().map(|&at| word(at));
            std::iter::once(word(4 * first)).chain(runs)
        });
        [
            DataObject { symbol: format!("{name}_left"), words: rows.collect() },
            DataObject { symbol: format!("{name}_right"), words: columns.collect() },
        ]
    }

    /// `int products(right, left, sums)`: returns the bitwise or of all magnitudes.
    pub(super) fn products(
        &self,
        name: &str,
        [rows, columns]: [&str; 2],
    ) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 3);
        b.purpose(
            "Products of runs of bytes, 128 at a time, and the bitwise or of their magnitudes.",
        );
        let (right, left, sums) = (b.parameter(0), b.parameter(1), b.parameter(2));
        let [tile_left, tile_right] = self.tile();
        let tiles = b.range(self.left.div_ceil(tile_left), &["right", "left", "sums"]);
        let zero = b.fresh(Class::V);
        zero_vector(&mut b, zero);
        let magnitude = b.copy(zero);
        let objects = ["right", "left", "sums", "tables"].map(|name| b.object(name));
        let tile = Tile {
            sums: (0..tile_left * tile_right).map(|_| b.fresh(Class::V)).collect(),
            left: [0, 1].map(|_| (0..tile_left).map(|_| b.fresh(Class::V)).collect()),
            right: [b.fresh(Class::V), b.fresh(Class::V)],
            zero,
            objects,
        };
        let units = [-4, -8, -16, -32].map(|unit| b.constant(unit));
        let half = b.constant(64);
        let rows = b.address(rows, 0);
        tiles.move_on(&mut b, rows, 8);
        tiles.repeat(&mut b, "runs of the left", |b| {
            let at = b.load(Opcode::LoadWNext, (rows, 4), objects[3]);
            let left = b.emit(Opcode::Add, (left, at));
            let at = b.load(Opcode::LoadWNext, (rows, 4), objects[3]);
            let sums = b.emit(Opcode::Add, (sums, at));
            let table = b.address(columns, 0);
            loop_over(b, self.right.len().div_ceil(tile_right), "runs of the right", |b| {
                let at = b.load(Opcode::LoadWNext, (table, 4), objects[3]);
                let place = b.emit(Opcode::Add, (sums, at));
                let from: Vec<Register> = (0..tile_right)
                    .map(|_| {
                        let at = b.load(Opcode::LoadWNext, (table, 4), objects[3]);
                        b.emit(Opcode::Add, (right, at))
                    })
                    .collect();
                let lefts: Vec<Register> = (0..tile_left)
                    .map(|f| b.emit(Opcode::AddImmediate, (left, word(f * self.left_bytes))))
                    .collect();
                tile.sum(b, &from, &lefts, self);
                let total = tile.total(b, units, half);
                let size = b.emit(Opcode::VabsW, (total,));
                b.emit_to(magnitude, Opcode::Vor, (magnitude, size));
                for f in 0..tile_left {
                    let mut row = total;
                    if f > 0 {
                        let turn = b.constant(word(4 * f * tile_right));
                        row = b.emit(Opcode::Vror, (total, turn));
                    }
                    b.store(Opcode::StoreVUnaligned, (place, 0, row), objects[2]);
                    advance(b, place, 4 * self.row());
                }
            });
        });
        let magnitude = or_lanes(&mut b, magnitude);
        b.finish(Some(magnitude))
    }
}

/// Runs of the left times runs of the right.
struct Tile {
    /// `[left][right]`.
    sums: Vec<Register>,
    /// One step's vectors are multiplied while the next ones are loaded.
    left: [Vec<Register>; 2],
    right: [Register; 2],
    zero: Register,
    /// Right, left, sums, tables.
    objects: [Object; 4],
}

impl Tile {
    fn sum(&self, b: &mut Builder, from: &[Register], lefts: &[Register], runs: &Runs) {
        let columns = from.len();
        for &sum in &self.sums {
            b.emit_to(sum, Opcode::Vassign, (self.zero,));
        }
        let load_left = |b: &mut Builder, step: usize, f: usize| {
            let operands = (lefts[f], 1);
            b.load_to(self.left[step][f], Opcode::LoadVNext, operands, self.objects[1]);
        };
        let load = |b: &mut Builder, at: usize| {
            let (to, column) = (self.right[at % 2], from[at % columns]);
            b.load_to(to, Opcode::LoadVUnalignedNext, (column, 1), self.objects[0]);
        };
        (0..lefts.len()).for_each(|f| load_left(b, 0, f));
        load(b, 0);
        loop_over(b, runs.vectors / 2, "256 places", |b| {
            for at in 0..2 * columns {
                let (step, column) = (at / columns, at % columns);
                for f in 0..lefts.len() {
                    let sum = self.sums[f * columns + column];
                    let (left, right) = (self.left[step][f], self.right[at % 2]);
                    match runs.unsigned {
                        true => b.update(Opcode::VrmpyUbBvAccumulate, (sum, right, left)),
                        false => b.update(Opcode::VrmpyBBvAccumulate, (sum, left, right)),
                    }
                    if f == 0 {
                        load(b, at + 1);
                    }
                    // One of the left in each column, the rest in the last.
                    if f + 1 == lefts.len() {
                        let last = column + 1 == columns;
                        let some = if last { column..lefts.len() } else { column..column + 1 };
                        some.filter(|&f| f < lefts.len()).for_each(|f| load_left(b, 1 - step, f));
                    }
                }
            }
        });
    }

    /// The sums of all lanes, in order, twice.
    fn total(&self, b: &mut Builder, units: [Register; 4], half: Register) -> Register {
        let mut vectors = self.sums.clone();
        vectors.resize(SUMS, self.zero);
        for unit in units {
            vectors = vectors
                .chunks(2)
                .map(|pair| {
                    if pair == [self.zero, self.zero] {
                        return self.zero;
                    }
                    let both = b.emit(Opcode::Vshuff, (pair[1], pair[0], unit));
                    b.emit(Opcode::VaddW, (both.low(), both.high()))
                })
                .collect();
        }
        let turned = b.emit(Opcode::Vror, (vectors[0], half));
        b.emit(Opcode::VaddW, (vectors[0], turned))
    }
}
