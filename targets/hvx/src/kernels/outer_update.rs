//! The update of a fully connected layer's weights by a single image: an outer product, each of whose products of 16 bits is
//! rounded and subtracted from its weight as it arises.
//!
//! `y[r, c] = max(-127, saturate(w[r, c] - round(a[r] b[c])))`, where the largest product is that of the largest factors, so that
//! the shift is known ahead and nothing is kept. Vectors go across rows: weights lie side by side, read and written by whole
//! vectors.
//!
//! | what | layout |
//! |---|---|
//! | lanes | `b` again and again: of 128 weights from column c on, those from there |
//! | errors | `a`, of which a vector has two at most; of less than 128 columns, `a[r]` for each weight |
//!
//! Rounding is that of [`interleave`](super::interleave) in 16 bits throughout, where it can be done for any shift: with h half of
//! the shift, rounded down, and w what that leaves, the negated quotient is `(r - ((m + b) >> w)) >> h`, b being `2^h` if the
//! shift is odd. From 30 bits on there is nothing left of a magnitude below `2^15`.

use super::kernel::{Argument, Kernel, Phase, Scratch};
use super::product::VECTOR;
use super::support::{loop_over, zero_vector};
use super::weight_gradient::word;
use crate::machine::{Builder, Class, Function, MachineError, Object, Opcode, Range, Register};

/// Beyond which a shift does not matter.
const MOST: i32 = 30;
/// Bits that bytes are made with in one instruction.
const SHORT: i32 = 7;
/// Packets of 128 weights, across rows and with errors beside each; of what goes before, of 128 factors, and of a row whose error is
/// put beside each weight.
const ACROSS: usize = 9;
const BESIDE: usize = 8;
const BEFORE: usize = 105;
const FACTORS: usize = 2;
const ROW: usize = 2;

/// `w[r, c] - a[r] b[c]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OuterUpdate {
    /// Rows of the weights: errors.
    pub rows: usize,
    /// Columns of the weights.
    pub columns: usize,
}

/// Numbers of the rounding.
struct Rounding {
    /// Half of the shift, rounded down, and what that leaves.
    half: Register,
    rest: Register,
    /// What magnitudes are rounded by, and the mask of what they lose at last.
    bias: Register,
    low: Register,
    /// -127 in all bytes, and 0.
    lowest: Register,
    zeros: Register,
    zero: Register,
}

/// Where the next 128 weights lie.
struct Place {
    lanes: Register,
    errors: Register,
    column: Register,
    zero: Register,
}

/// What a kernel's memory holds.
#[derive(Clone, Copy)]
struct Memory {
    lanes: Object,
    errors: Object,
    weights: Object,
    result: Object,
}

impl OuterUpdate {
    /// Whether the kernel can do it.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        let sizes = [self.lanes_bytes(), self.errors_bytes(), self.weights()];
        self.rows > 0 && self.columns > 0 && sizes.iter().all(|&bytes| bytes < 1 << 28)
    }

    fn weights(&self) -> usize {
        self.rows * self.columns
    }

    /// Times that the lanes stand one behind the other.
    fn copies(&self) -> usize {
        1 + (VECTOR - 1).div_ceil(self.columns)
    }

    /// Lanes, and what is stored behind them.
    fn lanes_bytes(&self) -> usize {
        (self.copies() * self.columns + VECTOR).next_multiple_of(VECTOR)
    }

    /// Whether errors stand beside each weight.
    fn spreads(&self) -> bool {
        self.columns < VECTOR
    }

    /// Errors, and what is stored and read behind them.
    fn errors_bytes(&self) -> usize {
        let count = if self.spreads() { self.weights() } else { self.rows };
        (count + VECTOR).next_multiple_of(VECTOR)
    }

    /// An estimate of the packets of a launch.
    #[must_use]
    pub fn packets(&self) -> usize {
        let factors = self.columns.div_ceil(VECTOR) * self.copies() + self.rows.div_ceil(VECTOR);
        let (each, rows) = if self.spreads() { (BESIDE, self.rows * ROW) } else { (ACROSS, 0) };
        self.weights().div_ceil(VECTOR) * each + factors * FACTORS + rows + BEFORE
    }

    /// `int kernel(b, a, bits, w, y, working memory)`: rounded to a number of bits at run time, pseudo-stochastically; `y` may be
    /// `w`. Returns the shift.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn kernel(&self, name: &str) -> Result<Kernel, MachineError> {
        let mut scratch = Scratch::default();
        let work = scratch.take(self.lanes_bytes() + self.errors_bytes());
        let [lanes, errors, bits, weights, result] = [0, 1, 2, 3, 4].map(Argument::Parameter);
        let phase = |function: Function, arguments: &[Argument]| Phase {
            function,
            arguments: arguments.to_vec(),
        };
        let update = [work, weights, result, Argument::Result(0)];
        let factors = self.factors(&format!("{name}_factors"))?;
        let mut phases = vec![phase(factors, &[lanes, errors, bits, work])];
        if self.weights() >= VECTOR {
            phases.push(phase(self.whole(&format!("{name}_update"))?, &update));
        }
        if !self.weights().is_multiple_of(VECTOR) {
            phases.push(phase(self.rest(&format!("{name}_rest"))?, &update));
        }
        Ok(Kernel {
            name: name.into(),
            purpose: "Subtracts an outer product, rounded, from weights.".into(),
            parameters: 5,
            scratch_bytes: scratch.bytes,
            phases,
            helpers: Vec::new(),
            data: Vec::new(),
        })
    }

    /// `int factors(b, a, bits, work)`: brings factors into place; returns the shift, as far as it matters.
    fn factors(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 4);
        b.purpose("Puts factors where vectors find them; the shift, by the largest of them.");
        let [lanes, errors, bits, to] = [0, 1, 2, 3].map(|index| b.parameter(index));
        let memory = ["b", "a", "bits", "lanes", "errors"].map(|name| b.object(name));
        let flip = b.constant(0x8080_8080_u32.cast_signed());
        let flip = b.emit(Opcode::VsplatW, (flip,));
        let errors_at = b.emit(Opcode::AddImmediate, (to, word(self.lanes_bytes())));
        let place = b.copy(to);
        loop_over(&mut b, self.copies(), "copies of the lanes", |b| {
            let (from, to) = (b.copy(lanes), b.copy(place));
            loop_over(b, self.columns.div_ceil(VECTOR), "128 lanes", |b| {
                let x = b.load(Opcode::LoadVNext, (from, 1), memory[0]);
                b.store(Opcode::StoreVUnalignedNext, (to, 1, x), memory[3]);
            });
            b.emit_to(place, Opcode::AddImmediate, (place, word(self.columns)));
        });
        let most = [(lanes, self.columns, memory[0]), (errors, self.rows, memory[1])]
            .map(|(from, count, object)| largest(&mut b, from, count, flip, object));
        if self.spreads() {
            let (from, to) = (b.copy(errors), errors_at);
            loop_over(&mut b, self.rows, "rows", |b| {
                let error = b.load(Opcode::LoadUbNext, (from, 1), memory[1]);
                let error = b.emit(Opcode::VsplatB, (error,));
                b.store(Opcode::StoreVUnaligned, (to, 0, error), memory[4]);
                b.emit_to(to, Opcode::AddImmediate, (to, word(self.columns)));
            });
        } else {
            loop_over(&mut b, self.rows.div_ceil(VECTOR), "128 errors", |b| {
                let x = b.load(Opcode::LoadVNext, (errors, 1), memory[1]);
                b.store(Opcode::StoreVNext, (errors_at, 1, x), memory[4]);
            });
        }
        let most = b.emit(Opcode::Multiply, (most[0], most[1]));
        let zeros = b.emit(Opcode::CountLeadingZeros, (most,));
        let width = b.emit(Opcode::SubFromImmediate, (32, zeros));
        let bits = b.load(Opcode::LoadW, (bits, 0), memory[2]);
        let excess = b.emit(Opcode::SubSaturate, (width, bits));
        let [zero, limit] = [0, MOST].map(|number| b.constant(number));
        let shift = b.emit(Opcode::Max, (excess, zero));
        let shift = b.emit(Opcode::Min, (shift, limit));
        b.finish(Some(shift))
    }

    /// `void update(work, w, y, shift)`: all whole vectors.
    fn whole(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 4);
        b.purpose("Multiplies, rounds and subtracts, 128 weights at a time.");
        let rounds = b.range(self.weights() / VECTOR, &["factors", "weights", "result", "shift"]);
        let [work, weights, result, shift] = [0, 1, 2, 3].map(|index| b.parameter(index));
        let memory = Memory::new(&mut b);
        let place = self.place(&mut b, work);
        if let Range::Part { first, .. } = rounds {
            self.move_on(&mut b, &place, first);
        }
        rounds.move_on(&mut b, weights, VECTOR);
        rounds.move_on(&mut b, result, VECTOR);
        let rounding = Rounding::new(&mut b, shift);
        rounding.by_length(&mut b, |b, is_long| {
            rounds.repeat(b, "128 weights", |b| {
                let factors = self.next(b, &place, memory);
                let w = b.load(Opcode::LoadVNext, (weights, 1), memory.weights);
                let y = rounding.subtract(b, factors, w, is_long);
                b.store(Opcode::StoreVNext, (result, 1, y), memory.result);
            });
        });
        b.finish(None)
    }

    /// `void rest(work, w, y, shift)`: the last weights, less than a vector. Reads up to 127 bytes beyond the end of `w`.
    fn rest(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 4);
        b.purpose("The last weights, which are no whole vector.");
        let [work, weights, result, shift] = [0, 1, 2, 3].map(|index| b.parameter(index));
        let memory = Memory::new(&mut b);
        let place = self.place(&mut b, work);
        let (whole, rest) = (self.weights() / VECTOR, self.weights() % VECTOR);
        let mut move_on = |pointer: Register, bytes: usize| {
            b.emit_to(pointer, Opcode::AddImmediate, (pointer, word(bytes)));
        };
        move_on(weights, whole * VECTOR);
        move_on(result, whole * VECTOR);
        let at = if self.spreads() { whole * VECTOR } else { whole * VECTOR / self.columns };
        move_on(place.errors, at);
        let column = b.constant(word(whole * VECTOR % self.columns));
        b.copy_to(place.column, column);
        let rest = b.constant(word(rest));
        let inside = b.emit(Opcode::Vsetq, (rest,));
        let rounding = Rounding::new(&mut b, shift);
        rounding.by_length(&mut b, |b, is_long| {
            let factors = self.next(b, &place, memory);
            let w = b.load(Opcode::LoadV, (weights, 0), memory.weights);
            let y = rounding.subtract(b, factors, w, is_long);
            b.store(Opcode::StoreVIfQ, (inside, result, 0, y), memory.result);
        });
        b.finish(None)
    }

    /// The first weights' place.
    fn place(&self, b: &mut Builder, work: Register) -> Place {
        let errors = b.emit(Opcode::AddImmediate, (work, word(self.lanes_bytes())));
        let zero = b.zero();
        Place { lanes: work, errors, column: b.copy(zero), zero }
    }

    /// Moves the place on by so many vectors.
    fn move_on(&self, b: &mut Builder, place: &Place, vectors: Register) {
        let first =
            b.emit(Opcode::ShiftLeftImmediate, (vectors, word(VECTOR.trailing_zeros() as usize)));
        // The row, by the reciprocal, is at most one too small.
        let reciprocal = u32::try_from((1_u64 << 32) / self.columns as u64).unwrap_or(u32::MAX);
        let reciprocal = b.constant(reciprocal.cast_signed());
        let row = b.emit(Opcode::MultiplyHighU, (first, reciprocal));
        let columns = b.constant(word(self.columns));
        let before = b.emit(Opcode::Multiply, (row, columns));
        let column = b.emit(Opcode::Sub, (first, before));
        b.copy_to(place.column, column);
        self.wrap(b, place.column, Some(row));
        let by = if self.spreads() { first } else { row };
        b.emit_to(place.errors, Opcode::Add, (place.errors, by));
    }

    /// Where a column that has moved on is at least the end of its row, it goes to the next, which it is short of the end of. Gives how
    /// far beyond that end it was.
    fn wrap(&self, b: &mut Builder, column: Register, row: Option<Register>) -> Register {
        let beyond = b.emit(Opcode::AddImmediate, (column, -word(self.columns)));
        let ends = b.emit(Opcode::CompareGtImmediate, (beyond, -1));
        b.emit_to(column, Opcode::Mux, (ends, beyond, column));
        if let Some(row) = row {
            let next = b.emit(Opcode::AddImmediate, (row, 1));
            b.emit_to(row, Opcode::Mux, (ends, next, row));
        }
        beyond
    }

    /// Lanes and errors of the next 128 weights.
    fn next(&self, b: &mut Builder, place: &Place, memory: Memory) -> [Register; 2] {
        let from = b.emit(Opcode::Add, (place.lanes, place.column));
        let lanes = b.load(Opcode::LoadVUnaligned, (from, 0), memory.lanes);
        if self.spreads() {
            let errors = b.load(Opcode::LoadVNext, (place.errors, 1), memory.errors);
            let step = VECTOR % self.columns;
            if step > 0 {
                b.emit_to(place.column, Opcode::AddImmediate, (place.column, word(step)));
                self.wrap(b, place.column, None);
            }
            return [lanes, errors];
        }
        let [own, next] = [0, 1].map(|row| {
            let error = b.load(Opcode::LoadUb, (place.errors, row), memory.errors);
            b.emit(Opcode::VsplatB, (error,))
        });
        b.emit_to(place.column, Opcode::AddImmediate, (place.column, word(VECTOR)));
        let beyond = self.wrap(b, place.column, Some(place.errors));
        // Weights of the next row.
        let beyond = b.emit(Opcode::Max, (beyond, place.zero));
        let errors = b.emit(Opcode::Valign, (next, own, beyond));
        [lanes, errors]
    }
}

impl Memory {
    fn new(b: &mut Builder) -> Memory {
        let [lanes, errors, weights, result] =
            ["lanes", "errors", "w", "y"].map(|name| b.object(name));
        Memory { lanes, errors, weights, result }
    }
}

impl Rounding {
    fn new(b: &mut Builder, shift: Register) -> Rounding {
        let half = b.emit(Opcode::LogicalRightImmediate, (shift, 1));
        let rest = b.emit(Opcode::Sub, (shift, half));
        let odd = b.emit(Opcode::AndImmediate, (shift, 1));
        let bias = b.emit(Opcode::ShiftLeft, (odd, half));
        let one = b.constant(1);
        let low = b.emit(Opcode::ShiftLeft, (one, half));
        let low = b.emit(Opcode::AddImmediate, (low, -1));
        let [bias, low] = [bias, low].map(|number| b.emit(Opcode::VsplatH, (number,)));
        let lowest = b.constant(-127);
        let lowest = b.emit(Opcode::VsplatB, (lowest,));
        let zero = b.zero();
        let zeros = b.emit(Opcode::VsplatW, (zero,));
        Rounding { half, rest, bias, low, lowest, zeros, zero }
    }

    /// Runs the code for the shift at hand.
    fn by_length(&self, b: &mut Builder, body: impl Fn(&mut Builder, bool)) {
        let is_long = b.emit(Opcode::CompareGtImmediate, (self.half, SHORT));
        b.branch(is_long, |b| body(b, true), |b| body(b, false));
    }

    /// Weights less the rounded products of two vectors of factors.
    fn subtract(
        &self,
        b: &mut Builder,
        [x, e]: [Register; 2],
        w: Register,
        is_long: bool,
    ) -> Register {
        let products = b.emit(Opcode::VmpyBBv, (x, e));
        let [even, odd] = [products.low(), products.high()].map(|product| {
            let m = b.emit(Opcode::VabsH, (product,));
            let upper = b.emit(Opcode::VaddH, (m, self.bias));
            let upper = b.emit(Opcode::VlsrH, (upper, self.rest));
            let lower = b.emit(Opcode::Vand, (m, self.low));
            let difference = b.emit(Opcode::VsubH, (lower, upper));
            match is_long {
                true => b.emit(Opcode::VasrH, (difference, self.half)),
                false => difference,
            }
        });
        let negated = match is_long {
            true => b.emit(Opcode::VasrHBSaturate, (odd, even, self.zero)),
            false => b.emit(Opcode::VasrHBSaturate, (odd, even, self.half)),
        };
        let negated = b.emit(Opcode::VmaxB, (negated, self.lowest));
        let signs = b.emit(Opcode::Vxor, (x, e));
        let negative = b.emit(Opcode::VcompareGtB, (self.zeros, signs));
        let more = b.emit(Opcode::VaddBSaturate, (w, negated));
        let less = b.emit(Opcode::VsubBSaturate, (w, negated));
        // The gradient of a negative product is the negated quotient itself.
        let y = b.emit(Opcode::Vmux, (negative, less, more));
        b.emit(Opcode::VmaxB, (y, self.lowest))
    }
}

/// The largest magnitude of so many bytes from an aligned address on; reads up to 127 more.
fn largest(
    b: &mut Builder,
    from: Register,
    count: usize,
    flip: Register,
    object: Object,
) -> Register {
    let seen = b.fresh(Class::V);
    zero_vector(b, seen);
    let from = b.copy(from);
    let magnitudes = |b: &mut Builder| {
        let x = b.load(Opcode::LoadVNext, (from, 1), object);
        let x = b.emit(Opcode::Vxor, (x, flip));
        b.emit(Opcode::VabsDiffUb, (x, flip))
    };
    loop_over(b, count / VECTOR, "128 factors", |b| {
        let m = magnitudes(b);
        b.emit_to(seen, Opcode::VmaxUb, (seen, m));
    });
    if !count.is_multiple_of(VECTOR) {
        let rest = b.constant(word(count % VECTOR));
        let inside = b.emit(Opcode::Vsetq, (rest,));
        let m = magnitudes(b);
        let zeros = b.fresh(Class::V);
        zero_vector(b, zeros);
        let m = b.emit(Opcode::Vmux, (inside, m, zeros));
        b.emit_to(seen, Opcode::VmaxUb, (seen, m));
    }
    for bytes in [64, 32, 16, 8, 4, 2, 1] {
        let distance = b.constant(bytes);
        let turned = b.emit(Opcode::Vror, (seen, distance));
        b.emit_to(seen, Opcode::VmaxUb, (seen, turned));
    }
    let zero = b.zero();
    let word = b.emit(Opcode::VextractW, (seen, zero));
    b.emit(Opcode::ZeroExtendB, (word,))
}
