//! A table of 256 bytes, and the entry of each of many codes.
//!
//! `vlut32` finds 32 entries at a time, in one half of the bytes of a vector's halfwords: a table is two vectors, whose halves are
//! shuffled, and a result is put together from eight lookups.

use super::pool::{VECTOR, load, store};
use super::support::loop_over;
use crate::machine::{Builder, Function, MachineError, Opcode, Register};

/// Lookups of a vector of codes.
pub(crate) const LOOKUPS: usize = 8;

/// Codes, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteTable {
    /// Codes.
    pub codes: usize,
    /// Whether codes are i8: the table's first half belongs to those below 0.
    pub signed: bool,
}

impl ByteTable {
    /// Whether there are so many codes that vectors are worth it.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        (VECTOR / 2..1 << 28).contains(&self.codes)
    }

    /// Vectors of codes.
    #[must_use]
    pub fn vectors(&self) -> usize {
        self.codes.div_ceil(VECTOR)
    }

    /// `void lookup(entries, x, y)`.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn function(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 3);
        b.purpose("Each code's entry of a table of 256 bytes.");
        let (entries, x, y) = (b.parameter(0), b.parameter(1), b.parameter(2));
        let [table, source, target] = ["entries", "x", "y"].map(|name| b.object(name));
        // As unsigned bytes codes from 0 on come first.
        let halves = if self.signed { [1, 0] } else { [0, 1] };
        let halves = halves.map(|half| {
            let half = b.load(Opcode::LoadV, (entries, half), table);
            b.emit(Opcode::VshuffB, (half,))
        });
        let found = |b: &mut Builder, codes: Register| {
            let result = b.emit(Opcode::Vlut32, (codes, halves[0], 0));
            for part in 1..LOOKUPS {
                let half = halves[part * 2 / LOOKUPS];
                b.update(Opcode::Vlut32Or, (result, codes, half, part as i32));
            }
            result
        };
        let (from, to) = (b.copy(x), b.copy(y));
        let whole = self.codes / VECTOR;
        loop_over(&mut b, whole, "128 codes", |b| {
            let codes = b.load(Opcode::LoadVNext, (from, 1), source);
            let result = found(b, codes);
            b.store(Opcode::StoreVNext, (to, 1, result), target);
        });
        if !self.codes.is_multiple_of(VECTOR) {
            let first = whole * VECTOR;
            let codes = load(&mut b, x, source, first, self.codes.next_multiple_of(VECTOR));
            let result = found(&mut b, codes);
            store(&mut b, y, target, first..self.codes, result);
        }
        b.finish(None)
    }
}
