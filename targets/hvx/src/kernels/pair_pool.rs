//! Maxima of neighbours of a row, two by two, and their gradient, on bytes.
//!
//! Rows of an even length let no pair straddle two: planes are one row. Even and odd bytes of two vectors part, and errors that went
//! to one or the other meet again.

use super::pool::{VECTOR, load, store};
use super::support::loop_over;
use super::weight_gradient::word;
use crate::machine::{Builder, Function, MachineError, Opcode, Register};

/// Pairs of bytes, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairPool {
    /// Results.
    pub pairs: usize,
}

impl PairPool {
    /// Whether a vector of results is worth it.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        (VECTOR / 2..1 << 28).contains(&self.pairs)
    }

    /// Vectors of results.
    #[must_use]
    pub fn vectors(&self) -> usize {
        self.pairs.div_ceil(VECTOR)
    }

    /// The last results, fewer than a vector, and the place of the first.
    fn rest(&self) -> Option<(usize, usize)> {
        let rest = self.pairs % VECTOR;
        (rest > 0).then_some((rest, self.pairs - rest))
    }

    /// Two vectors of pairs that begin at a place of an operand; the second is the first where nothing of it counts.
    fn ends(
        &self,
        b: &mut Builder,
        x: Register,
        object: crate::machine::Object,
        (rest, first): (usize, usize),
    ) -> [Register; 2] {
        let bytes = (2 * self.pairs).next_multiple_of(VECTOR);
        let low = load(b, x, object, 2 * first, bytes);
        match 2 * rest > VECTOR {
            true => [low, load(b, x, object, 2 * first + VECTOR, bytes)],
            false => [low, low],
        }
    }

    /// `void pool(x, y)`.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn forward(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose("Maxima of neighbours, two by two.");
        let (x, y) = (b.parameter(0), b.parameter(1));
        let memory = (b.object("x"), b.object("y"));
        let unit = b.constant(-1);
        let maxima = |b: &mut Builder, [low, high]: [Register; 2]| {
            let pair = b.emit(Opcode::Vdeal, (high, low, unit));
            b.emit(Opcode::VmaxB, (pair.low(), pair.high()))
        };
        let (from, to) = (b.copy(x), b.copy(y));
        loop_over(&mut b, self.pairs / VECTOR, "128 results", |b| {
            let rows = [0, 1].map(|_| b.load(Opcode::LoadVNext, (from, 1), memory.0));
            let result = maxima(b, rows);
            b.store(Opcode::StoreVNext, (to, 1, result), memory.1);
        });
        if let Some((rest, first)) = self.rest() {
            let rows = self.ends(&mut b, x, memory.0, (rest, first));
            let result = maxima(&mut b, rows);
            store(&mut b, y, memory.1, first..self.pairs, result);
        }
        b.finish(None)
    }

    /// `void gradient(x, dy, dx)`: the error goes to the first maximum, -128 as -127; `dx` may be `x`.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn gradient(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 3);
        b.purpose("Errors of neighbours, two by two, go to the first maximum.");
        let (x, dy, dx) = (b.parameter(0), b.parameter(1), b.parameter(2));
        let memory = (b.object("x"), b.object("dy"));
        // It may be the operand's.
        let result = memory.0;
        let (zero, least) = (b.constant(0), b.constant(-127));
        let [zero, least] = [zero, least].map(|value| b.emit(Opcode::VsplatB, (value,)));
        let unit = b.constant(-1);
        let errors = |b: &mut Builder, [low, high]: [Register; 2], error: Register| {
            let pair = b.emit(Opcode::Vdeal, (high, low, unit));
            let error = b.emit(Opcode::VmaxB, (error, least));
            let second = b.emit(Opcode::VcompareGtB, (pair.high(), pair.low()));
            let even = b.emit(Opcode::Vmux, (second, zero, error));
            let odd = b.emit(Opcode::Vmux, (second, error, zero));
            b.emit(Opcode::Vshuff, (odd, even, unit))
        };
        let (from, given, to) = (b.copy(x), b.copy(dy), b.copy(dx));
        loop_over(&mut b, self.pairs / VECTOR, "128 errors", |b| {
            let rows = [0, 1].map(|_| b.load(Opcode::LoadVNext, (from, 1), memory.0));
            let error = b.load(Opcode::LoadVNext, (given, 1), memory.1);
            let both = errors(b, rows, error);
            b.store(Opcode::StoreVNext, (to, 1, both.low()), result);
            b.store(Opcode::StoreVNext, (to, 1, both.high()), result);
        });
        if let Some((rest, first)) = self.rest() {
            let rows = self.ends(&mut b, x, memory.0, (rest, first));
            let error = load(&mut b, dy, memory.1, first, self.pairs.next_multiple_of(VECTOR));
            let both = errors(&mut b, rows, error);
            let (from, bytes) = (2 * first, 2 * rest);
            let at = b.emit(Opcode::AddImmediate, (dx, word(from)));
            store(&mut b, at, result, 0..bytes.min(VECTOR), both.low());
            if bytes > VECTOR {
                store(&mut b, at, result, VECTOR..bytes, both.high());
            }
        }
        b.finish(None)
    }
}
