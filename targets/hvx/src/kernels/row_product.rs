//! Products of matrices with few rows on one side, lanes being columns: the gradients of fully connected layers at small
//! batches.
//!
//! `y[r, k] = sum over s of a[r, s] b[s, k]`: four rows of `b` are interleaved to a word for each column, 128 added; a word of
//! `a` multiplies 32 columns at a time. Results arise in their own order, so nothing is packed but the operands. Where few rows
//! read the words of `b` but once, they stay in registers (`direct_rows`).
//!
//! | what | layout |
//! |---|---|
//! | words of b | `[quad of s][column][s of the quad]` u8, 128 added |
//! | words of a | `[row][s]` or, of an operand that lies across, `[quad of s][row][s of the quad]` i8 |
//! | start values | `[row]` i32: -128 times the row's sum |
//! | sums, bytes | `[row][column]`, whole vectors of sums |

use super::interleave::quantize_gradient_in_order;
use super::kernel::{Argument, Kernel, Phase, Scratch};
use super::lines::Lines;
use super::plane_memory::{advance, put_rows};
use super::product::{LANES, VECTOR};
use super::requantize::requantize_in_order;
use super::support::{loop_over, or_lanes, zero_vector};
use super::weight_gradient::word;
use crate::machine::{Builder, Class, Function, MachineError, Object, Opcode, Register};

/// Rows of a tile, the first that divides them.
const ROWS: [usize; 3] = [4, 2, 1];
/// Most vectors of a tile.
const MOST_VECTORS: usize = 4;
/// Most quads whose products are written one behind the other.
const STRAIGHT: usize = 2;

/// `y[r, k] = sum over s of a[r, s] b[s, k]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowProduct {
    /// Rows of the result.
    pub rows: usize,
    /// Products of a sum.
    pub depth: usize,
    /// Columns of the result.
    pub columns: usize,
    /// Whether `a` is `[s][row]` in memory.
    pub across: bool,
}

/// What becomes of the sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowFinish {
    /// Most bits of a magnitude, and the lower clamp.
    Requantize {
        /// Bits.
        bits: u8,
        /// Clamp.
        low: i8,
    },
    /// To a run-time number of bits.
    Gradient,
}

impl RowProduct {
    /// Whether the kernels can do it.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        let RowProduct { rows, depth, columns, .. } = *self;
        let sizes = [self.sums_bytes(), self.words_bytes(), self.left_bytes(), depth * columns];
        rows > 0 && depth > 0 && columns > 0 && sizes.iter().all(|&bytes| bytes < 1 << 28)
    }

    fn quads(&self) -> usize {
        self.depth.div_ceil(4)
    }

    /// Whether words of `b` are multiplied where they arise.
    pub(super) fn is_direct(&self) -> bool {
        !self.across && self.rows == self.tile_rows()
    }

    /// Vectors of a row's sums.
    pub(super) fn vectors(&self) -> usize {
        match self.is_direct() {
            true => self.columns.div_ceil(VECTOR) * 4,
            false => self.columns.div_ceil(LANES),
        }
    }

    /// Bytes of a quad's words of `b`.
    fn quad_bytes(&self) -> usize {
        self.columns.div_ceil(VECTOR) * 4 * VECTOR
    }

    fn words_bytes(&self) -> usize {
        if self.is_direct() { 0 } else { self.quads() * self.quad_bytes() }
    }

    /// Bytes from a row, or of `a` across from a quad, to the next.
    pub(super) fn left_pitch(&self) -> usize {
        match self.across {
            true => self.rows.div_ceil(VECTOR) * 4 * VECTOR,
            false => self.depth.next_multiple_of(VECTOR),
        }
    }

    /// Rows of `b` that are read from a copy, as vectors that begin in them may reach beyond the last: quads of the last.
    pub(super) fn copied(&self) -> usize {
        let least = (VECTOR - 1).div_ceil(self.columns);
        let before = self.depth.saturating_sub(least.max(1)) / 4 * 4;
        self.depth - before
    }

    /// Where, in `b`, the vector begins that the copied rows begin in.
    pub(super) fn copied_from(&self) -> usize {
        (self.depth - self.copied()) * self.columns / VECTOR * VECTOR
    }

    pub(super) fn copy_bytes(&self) -> usize {
        (self.depth * self.columns - self.copied_from()).next_multiple_of(VECTOR)
    }

    /// Bytes from the words of `a` to the start values.
    pub(super) fn starts_at(&self) -> usize {
        (self.left_bytes() + VECTOR).next_multiple_of(VECTOR)
    }

    fn left_bytes(&self) -> usize {
        self.left_pitch() * if self.across { self.quads() } else { self.rows }
    }

    fn sum_vectors(&self) -> usize {
        (self.rows * self.vectors()).next_multiple_of(4)
    }

    fn sums_bytes(&self) -> usize {
        self.sum_vectors() * VECTOR
    }

    fn tile_rows(&self) -> usize {
        ROWS.into_iter().find(|n| self.rows.is_multiple_of(*n)).unwrap_or(1)
    }

    /// Vectors of each tile.
    fn tiles(&self) -> Vec<usize> {
        let vectors = self.vectors();
        let count = vectors.div_ceil(MOST_VECTORS);
        (0..count).map(|i| vectors / count + usize::from(i < vectors % count)).collect()
    }

    /// Multiplications.
    #[must_use]
    pub fn multiplications(&self) -> usize {
        self.rows * self.depth * self.columns
    }

    /// An estimate of the packets of a launch.
    #[must_use]
    pub fn packets(&self, finish: RowFinish) -> usize {
        let (quads, rows) = (self.quads(), self.tile_rows());
        let words = if self.is_direct() { 0 } else { quads * self.columns.div_ceil(VECTOR) * 10 };
        let left = self.left_bytes() / VECTOR * 3
            + if self.across { self.left_pitch() / VECTOR * quads } else { self.rows * 16 };
        let tile = |vectors: usize| {
            quads * (vectors * rows / 2).max(vectors + rows) + vectors * rows * 9 / 8 + 4
        };
        let tiles: usize = match self.is_direct() {
            true => self.direct_packets(),
            false => self.tiles().into_iter().map(tile).sum(),
        };
        let round = match finish {
            RowFinish::Requantize { .. } => self.sum_vectors() * 3 / 2,
            RowFinish::Gradient => self.sum_vectors() * 3 / 2,
        };
        let results = self.rows * (self.columns.div_ceil(VECTOR) * 2 + 4);
        let copy = (self.rows * self.columns + self.copy_bytes()) / VECTOR;
        words + left + self.rows / rows * tiles + round + results + copy + 80
    }

    /// `int kernel(a, b, y, working memory)`, or `int kernel(b, a, bits, y, working memory)` of a gradient, which is `quantize_gradient`
    /// with pseudo-stochastic rounding; returns the shift.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn kernel(&self, name: &str, finish: RowFinish) -> Result<Kernel, MachineError> {
        let phase_name = |phase: &str| format!("{name}_{phase}");
        let (a, b, y) = match finish {
            RowFinish::Requantize { .. } => (0, 1, 2),
            RowFinish::Gradient => (1, 0, 3),
        };
        let [a, b, y] = [a, b, y].map(Argument::Parameter);
        let mut scratch = Scratch::default();
        let copy = scratch.take(self.copy_bytes() + VECTOR);
        let words = scratch.take(self.words_bytes());
        let left = scratch.take(self.starts_at());
        let starts = scratch.take(4 * self.rows + VECTOR);
        let sums = scratch.take(self.sums_bytes());
        let bytes = scratch.take(self.sums_bytes() / 4 + VECTOR);
        let results = self.rows * self.columns;
        let dense = scratch.take(results + VECTOR);
        let phase = |function: Function, arguments: &[Argument]| Phase {
            function,
            arguments: arguments.to_vec(),
        };
        let mut helpers = Vec::new();
        let round = match finish {
            RowFinish::Requantize { bits, low } => {
                let name = phase_name("requantize");
                let round = requantize_in_order(&name, self.sum_vectors(), bits, low)?;
                phase(round, &[sums, bytes, Argument::Result(2)])
            }
            RowFinish::Gradient => {
                let most = self.depth.saturating_mul(1 << 14);
                let width = usize::BITS - most.leading_zeros();
                let (name, vectors) = (phase_name("quantize"), self.sum_vectors());
                let [round, long] = quantize_gradient_in_order(&name, vectors, width)?;
                helpers.push(long);
                phase(round, &[sums, bytes, Argument::Result(2), Argument::Parameter(2)])
            }
        };
        let rows = put_rows(&phase_name("rows"), self.rows, self.vectors() * LANES, self.columns)?;
        let (first, products) = match self.is_direct() {
            true => (
                phase(self.copy(&phase_name("copy"))?, &[b, copy]),
                phase(self.direct_products(&phase_name("products"))?, &[b, copy, left, sums]),
            ),
            false => (
                phase(self.words(&phase_name("words"))?, &[b, words, copy]),
                phase(self.products(&phase_name("products"))?, &[words, left, starts, sums]),
            ),
        };
        let phases = vec![
            first,
            phase(self.left(&phase_name("left"))?, &[a, left, starts]),
            products,
            round,
            phase(rows, &[bytes, dense, y]),
        ];
        Ok(Kernel {
            name: name.into(),
            purpose: "A product of matrices, columns side by side.".into(),
            parameters: if finish == RowFinish::Gradient { 4 } else { 3 },
            scratch_bytes: scratch.bytes,
            phases,
            helpers,
            data: Vec::new(),
        })
    }

    /// `void words(b, words, copy)`, all aligned to 128 bytes.
    fn words(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 3);
        b.purpose("Puts four rows side by side, 128 added.");
        let (from, to, source) = (b.parameter(0), b.parameter(1), b.parameter(2));
        let memory = (b.object("b"), b.object("words"), b.object("copy"));
        let flip = b.constant(0x8080_8080_u32.cast_signed());
        let flip = b.emit(Opcode::VsplatW, (flip,));
        let lines = Lines { length: self.columns, fill: flip, flips: true };
        let first = b.copy(from);
        lines.interleave(&mut b, self.depth - self.copied(), [first, to], (memory.0, memory.1));
        let source = b.copy(source);
        self.copy_last(&mut b, [from, source], (memory.0, memory.2));
        lines.interleave(&mut b, self.copied(), [source, to], (memory.2, memory.1));
        b.finish(None)
    }

    /// Copies the last rows of `b`, of which more may be read than there is; moves the second pointer to the first of them.
    pub(super) fn copy_last(
        &self,
        b: &mut Builder,
        [from, to]: [Register; 2],
        (source, target): (Object, Object),
    ) {
        let from = b.emit(Opcode::AddImmediate, (from, word(self.copied_from())));
        let place = b.copy(to);
        loop_over(b, self.copy_bytes() / VECTOR, "128 bytes", |b| {
            let bytes = b.load(Opcode::LoadVNext, (from, 1), source);
            b.store(Opcode::StoreVNext, (place, 1, bytes), target);
        });
        advance(b, to, (self.depth - self.copied()) * self.columns - self.copied_from());
    }

    /// `void left(a, words, start values)`. Reads up to 127 bytes beyond the end of `a`.
    fn left(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 3);
        b.purpose("Brings the words of the left side into order; -128 times the sums of its rows.");
        let (a, to, starts) = (b.parameter(0), b.parameter(1), b.parameter(2));
        let memory = (b.object("a"), b.object("words"), b.object("start values"));
        let zero = b.fresh(Class::V);
        zero_vector(&mut b, zero);
        let ones = b.constant(0x0101_0101);
        let ones = b.emit(Opcode::VsplatW, (ones,));
        let seven = b.constant(7);
        let negated = |b: &mut Builder, sum: Register| {
            let sum = b.emit(Opcode::VaslW, (sum, seven));
            b.emit(Opcode::VsubW, (zero, sum))
        };
        if self.across {
            let first = b.copy(to);
            let lines = Lines { length: self.rows, fill: zero, flips: false };
            lines.interleave(&mut b, self.depth, [a, to], (memory.0, memory.1));
            let quad = b.constant(word(self.left_pitch()));
            let quad = b.emit(Opcode::ModifierFromR, (quad,));
            loop_over(&mut b, self.rows.div_ceil(LANES), "32 rows", |b| {
                let (from, sum) = (b.copy(first), b.fresh(Class::V));
                b.emit_to(sum, Opcode::Vassign, (zero,));
                loop_over(b, self.quads(), "quads", |b| {
                    let x = b.load(Opcode::LoadVStep, (from, quad), memory.1);
                    b.update(Opcode::VrmpyUbBvAccumulate, (sum, ones, x));
                });
                let start = negated(b, sum);
                b.store(Opcode::StoreVNext, (starts, 1, start), memory.2);
                advance(b, first, VECTOR);
            });
            return b.finish(None);
        }
        let rest = self.depth % VECTOR;
        let inside = (rest > 0).then(|| {
            let rest = b.constant(word(rest));
            b.emit(Opcode::Vsetq, (rest,))
        });
        let turns = [64, 32, 16, 8, 4].map(|bytes| b.constant(bytes));
        loop_over(&mut b, self.rows, "rows", |b| {
            let (from, sum) = (b.copy(a), b.fresh(Class::V));
            b.emit_to(sum, Opcode::Vassign, (zero,));
            let piece = |b: &mut Builder, inside: Option<Register>| {
                let mut x = b.load(Opcode::LoadVUnaligned, (from, 0), memory.0);
                if let Some(inside) = inside {
                    x = b.emit(Opcode::Vmux, (inside, x, zero));
                }
                b.update(Opcode::VrmpyUbBvAccumulate, (sum, ones, x));
                b.store(Opcode::StoreVNext, (to, 1, x), memory.1);
                advance(b, from, VECTOR);
            };
            loop_over(b, self.depth / VECTOR, "128 products", |b| piece(b, None));
            if inside.is_some() {
                piece(b, inside);
            }
            let mut sum = sum;
            for turn in turns {
                let turned = b.emit(Opcode::Vror, (sum, turn));
                sum = b.emit(Opcode::VaddW, (sum, turned));
            }
            let start = negated(b, sum);
            b.store(Opcode::StoreVUnaligned, (starts, 0, start), memory.2);
            advance(b, starts, 4);
            advance(b, a, self.depth);
        });
        b.finish(None)
    }

    /// `int products(words of b, words of a, start values, sums)`: returns the bitwise or of all magnitudes.
    fn products(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 4);
        b.purpose(
            "Sums of products, 32 columns at a time, and the bitwise or of their magnitudes.",
        );
        let (words, left) = (b.parameter(0), b.parameter(1));
        let (starts, sums) = (b.parameter(2), b.parameter(3));
        let memory = ["words", "left", "start values", "sums"].map(|name| b.object(name));
        let magnitude = b.fresh(Class::V);
        zero_vector(&mut b, magnitude);
        let (rows, row_bytes) = (self.tile_rows(), self.vectors() * VECTOR);
        let row_tiles = b.range(self.rows / rows, &["words", "left", "starts", "sums"]);
        let tiles = self.tiles();
        // From a row's word to the next row's, and from a quad's to the next quad's.
        let (row_step, quad_step) = match self.across {
            true => (4, self.left_pitch()),
            false => (self.left_pitch(), 4),
        };
        row_tiles.move_on(&mut b, starts, 4 * rows);
        row_tiles.move_on(&mut b, left, rows * row_step);
        row_tiles.move_on(&mut b, sums, rows * row_bytes);
        row_tiles.repeat(&mut b, "rows", |b| {
            let values: Vec<Register> = (0..rows)
                .map(|row| b.load(Opcode::LoadW, (starts, word(4 * row)), memory[2]))
                .collect();
            let (from, to) = (b.copy(words), b.copy(sums));
            let tile = |b: &mut Builder, vectors: usize| {
                let accumulators: Vec<Vec<Register>> = values
                    .iter()
                    .map(|&value| (0..vectors).map(|_| b.emit(Opcode::VsplatW, (value,))).collect())
                    .collect();
                let at = b.copy(from);
                let scalars: Vec<Register> = (0..rows)
                    .map(|row| b.emit(Opcode::AddImmediate, (left, word(row * row_step))))
                    .collect();
                let quad = |b: &mut Builder| {
                    let vectors: Vec<Register> = (0..vectors)
                        .map(|v| b.load(Opcode::LoadV, (at, word(v)), memory[0]))
                        .collect();
                    for (sums, &scalar) in accumulators.iter().zip(&scalars) {
                        let x = b.load(Opcode::LoadW, (scalar, 0), memory[1]);
                        for (&sum, &vector) in sums.iter().zip(&vectors) {
                            b.update(Opcode::VrmpyUbBAccumulate, (sum, vector, x));
                        }
                        advance(b, scalar, quad_step);
                    }
                    advance(b, at, self.quad_bytes());
                };
                if self.quads() <= STRAIGHT {
                    (0..self.quads()).for_each(|_| quad(b));
                } else {
                    loop_over(b, self.quads(), "quads", quad);
                }
                let place = b.copy(to);
                for sums in &accumulators {
                    for (v, &sum) in (0..).zip(sums) {
                        b.store(Opcode::StoreV, (place, v, sum), memory[3]);
                        let size = b.emit(Opcode::VabsW, (sum,));
                        b.emit_to(magnitude, Opcode::Vor, (magnitude, size));
                    }
                    advance(b, place, row_bytes);
                }
                advance(b, from, vectors * VECTOR);
                advance(b, to, vectors * VECTOR);
            };
            let large = tiles.iter().filter(|&&vectors| vectors == tiles[0]).count();
            loop_over(b, large, "tiles", |b| tile(b, tiles[0]));
            if large < tiles.len() {
                let last = tiles[tiles.len() - 1];
                loop_over(b, tiles.len() - large, "tiles", |b| tile(b, last));
            }
            advance(b, starts, 4 * rows);
            advance(b, left, rows * row_step);
            advance(b, sums, rows * row_bytes);
        });
        let magnitude = or_lanes(&mut b, magnitude);
        b.finish(Some(magnitude))
    }
}
