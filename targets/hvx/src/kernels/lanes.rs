//! Sums of vectors' lanes.

use crate::machine::{Builder, Opcode, Register};

/// Words of a vector.
pub(super) const LANES: usize = 32;

/// The control of a shuffle that puts words side by side.
pub(super) fn shuffle_unit(b: &mut Builder) -> Register {
    b.constant(-4)
}

/// Adds up the 32-bit lanes of 32 vectors: lane i of the result is the sum of vector i's. Vectors are asked for by number,
/// each once, in an order that keeps few of them alive. `unit` is [`shuffle_unit`], made outside of loops.
pub(super) fn lane_sums(
    b: &mut Builder,
    unit: Register,
    vector: &mut dyn FnMut(&mut Builder, usize) -> Register,
) -> Register {
    side_by_side(b, unit, vector, 5, 0)
}

/// 2^level vectors in one: every 2^(5 - level)th from this one on, their lanes side by side.
fn side_by_side(
    b: &mut Builder,
    unit: Register,
    vector: &mut dyn FnMut(&mut Builder, usize) -> Register,
    level: u32,
    number: usize,
) -> Register {
    if level == 0 {
        return vector(b, number);
    }
    let low = side_by_side(b, unit, vector, level - 1, number);
    let high = side_by_side(b, unit, vector, level - 1, number + (LANES >> level));
    let both = b.emit(Opcode::Vshuff, (high, low, unit));
    b.emit(Opcode::VaddW, (both.low(), both.high()))
}
