//! Products of matrices whose words are multiplied where they arise: of few rows, which read each word once.
//!
//! 128 columns at a time, rows of `b` are interleaved four by four in registers. What stands behind the last column counts as
//! nothing at last.

use super::plane_memory::{advance, quads_of};
use super::product::{LANES, VECTOR};
use super::row_product::RowProduct;
use super::support::{loop_over, or_lanes, zero_vector};
use super::weight_gradient::word;
use crate::machine::{Builder, Class, Function, MachineError, Object, Opcode, Range, Register};

/// Packets of 128 columns beside their words.
const COLUMNS: usize = 40;

/// What a tile reads.
struct Sources {
    /// `b`, and its last rows, from a tile's first column on.
    rows: [Register; 2],
    objects: [Object; 2],
    /// Words of `a`.
    left: Register,
    words: Object,
    flip: Register,
}

impl RowProduct {
    /// An estimate of the packets of the products.
    pub(super) fn direct_packets(&self) -> usize {
        // Loads that are not aligned and interleaving go through one unit.
        let quad = 8.max(4 + self.rows);
        self.columns.div_ceil(VECTOR) * (self.depth.div_ceil(4) * quad + COLUMNS)
    }

    /// `void copy(b, copy)`: the last rows.
    pub(super) fn copy(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose("Copies rows, of which more is read than there is.");
        let places = [b.parameter(0), b.parameter(1)];
        let memory = (b.object("b"), b.object("copy"));
        self.copy_last(&mut b, places, memory);
        b.finish(None)
    }

    /// `int products(b, copy, words of a, sums)`: returns the bitwise or of all magnitudes. Start values stand behind the words.
    pub(super) fn direct_products(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 4);
        b.purpose(
            "Sums of products, 128 columns at a time, and the bitwise or of their magnitudes.",
        );
        let tiles = b.range(self.columns.div_ceil(VECTOR), &["b", "copy", "left", "sums"]);
        let [from, copy, left, sums] = [0, 1, 2, 3].map(|index| b.parameter(index));
        let [rows, copied, words, starts, results] =
            ["b", "copy", "left", "start values", "sums"].map(|name| b.object(name));
        let flip = b.constant(0x8080_8080_u32.cast_signed());
        let flip = b.emit(Opcode::VsplatW, (flip,));
        let [magnitude, zero] = [(); 2].map(|()| b.fresh(Class::V));
        for vector in [magnitude, zero] {
            zero_vector(&mut b, vector);
        }
        let values: Vec<Register> = (0..self.rows)
            .map(|row| b.load(Opcode::LoadW, (left, word(self.starts_at() + 4 * row)), starts))
            .collect();
        let start = (self.depth - self.copied()) * self.columns - self.copied_from();
        advance(&mut b, copy, start);
        // Bytes of the sums from a tile's first to the last column's.
        let behind = b.constant(word(4 * self.columns));
        let tile_bytes = b.constant(word(4 * VECTOR));
        tiles.move_on(&mut b, from, VECTOR);
        tiles.move_on(&mut b, copy, VECTOR);
        tiles.move_on(&mut b, sums, 4 * VECTOR);
        if let Range::Part { first, .. } = tiles {
            let back = b.constant(-word(4 * VECTOR));
            b.update(Opcode::MultiplyAccumulate, (behind, first, back));
        }
        let sources = Sources { rows: [from, copy], objects: [rows, copied], left, words, flip };
        tiles.repeat(&mut b, "128 columns", |b| {
            let accumulators: Vec<[Register; 4]> = values
                .iter()
                .map(|&value| std::array::from_fn(|_| b.emit(Opcode::VsplatW, (value,))))
                .collect();
            self.tile(b, &sources, &accumulators);
            if !self.columns.is_multiple_of(VECTOR) {
                let ends = b.emit(Opcode::CompareGt, (tile_bytes, behind));
                b.when_rarely(ends, |b| self.clear(b, &accumulators, zero));
            }
            let place = b.copy(sums);
            for row in &accumulators {
                for (v, &sum) in (0..).zip(row) {
                    b.store(Opcode::StoreV, (place, v, sum), results);
                    let size = b.emit(Opcode::VabsW, (sum,));
                    b.emit_to(magnitude, Opcode::Vor, (magnitude, size));
                }
                advance(b, place, self.vectors() * VECTOR);
            }
            for (pointer, bytes) in [(from, VECTOR), (copy, VECTOR), (sums, 4 * VECTOR)] {
                advance(b, pointer, bytes);
            }
            b.emit_to(behind, Opcode::AddImmediate, (behind, -word(4 * VECTOR)));
        });
        let magnitude = or_lanes(&mut b, magnitude);
        b.finish(Some(magnitude))
    }

    /// Clears sums behind the last column, of the last tile.
    fn clear(&self, b: &mut Builder, accumulators: &[[Register; 4]], zero: Register) {
        for v in 0..4 {
            let inside = (self.columns % VECTOR * 4).saturating_sub(v * VECTOR);
            if inside >= VECTOR {
                continue;
            }
            let bytes = b.constant(word(inside));
            let inside = b.emit(Opcode::Vsetq, (bytes,));
            for row in accumulators {
                b.emit_to(row[v], Opcode::Vmux, (inside, row[v], zero));
            }
        }
    }

    /// Adds the products of 128 columns.
    fn tile(&self, b: &mut Builder, sources: &Sources, accumulators: &[[Register; 4]]) {
        let shuffles = [-1, -2].map(|unit| b.constant(unit));
        let step = b.constant(word(4 * self.columns));
        let step = b.emit(Opcode::ModifierFromR, (step,));
        let scalars: Vec<Register> = (0..self.rows)
            .map(|row| b.emit(Opcode::AddImmediate, (sources.left, word(row * self.left_pitch()))))
            .collect();
        let parts = [self.depth - self.copied(), self.copied()];
        for ((count, &from), &object) in parts.into_iter().zip(&sources.rows).zip(&sources.objects)
        {
            let places: Vec<Register> = (0..4.min(count))
                .map(|row| b.emit(Opcode::AddImmediate, (from, word(row * self.columns))))
                .collect();
            let quad = |b: &mut Builder, rows: usize| {
                let mut lanes = [sources.flip; 4];
                for (lane, &place) in lanes.iter_mut().zip(&places).take(rows) {
                    let bytes = b.load(Opcode::LoadVUnalignedStep, (place, step), object);
                    *lane = b.emit(Opcode::Vxor, (bytes, sources.flip));
                }
                let words = quads_of(b, lanes, shuffles, VECTOR / LANES);
                for (sums, &scalar) in accumulators.iter().zip(&scalars) {
                    let x = b.load(Opcode::LoadWNext, (scalar, 4), sources.words);
                    for (&sum, &words) in sums.iter().zip(&words) {
                        b.update(Opcode::VrmpyUbBAccumulate, (sum, words, x));
                    }
                }
            };
            loop_over(b, count / 4, "quads", |b| quad(b, 4));
            if !count.is_multiple_of(4) {
                quad(b, count % 4);
            }
        }
    }
}
